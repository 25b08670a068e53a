"""Forms of the parts of a saved model: their axes, and which numbers they may hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """Form of a part of a model.

    Parameters
    ----------
    lengths : str
        One letter for each axis, such as "VK" for (n_vertices, n_clusters); "" for one number.
    rule : str
        Which numbers it may hold; see `_breaks`.
    optional : bool
        Whether the part may be None, or absent.
    """

    lengths: str
    rule: str = "finite"
    optional: bool = False


# By the names in the file, which never change.
# V vertices, K clusters, S subjects, N visits, P parameters of a curve, M parameters of curves
# and population, G groups of the population, X sites, C components, L levels of the noise, I one
# more than K; digits are lengths.
FITTED = {
    "responsibilities_": Form("VK", "share"),
    "labels_": Form("V", "cluster"),
    "noise_": Form("K", "not negative"),
    "speeds_": Form("S"),
    "shifts_": Form("S"),
    "scores_": Form("N"),
    "speeds_se_": Form("S", "any", True),
    "shifts_se_": Form("S", "any", True),
    "baseline_scores_se_": Form("S", "any", True),
    "vertex_midpoints_": Form("V", "any", True),
    "vertex_midpoints_se_": Form("V", "any", True),
    "plateaus_reached_": Form("K2", "bool", True),
    "spatial_strength_": Form("", "not negative"),
    "log_likelihood_": Form(""),
    "aic_": Form(""),
    "bic_": Form(""),
}
INTERNAL = {
    "time_unit": Form("", "positive"),
    "centre": Form(""),
    "spread": Form("", "positive"),
    "known": Form("V", "bool"),
}
OBJECTS: dict[str, dict[str, Form]] = {
    "Unit": {"offset": Form(""), "scale": Form("", "positive")},
    "Parameters": {
        "noise": Form("K", "not negative"),
        "speeds": Form("S"),
        "shifts": Form("S"),
        "strength": Form("", "not negative", True),
        "vertex_covariance": Form("KPP", "symmetric", True),
        "shares": Form("K", "share", True),
    },
    "Training": {
        "sums": Form("NK"),
        "weights": Form("NK", "not negative"),
        "reference": Form("N", "bool"),
        "groups": Form("S", "group", True),
        "sites": Form("N", "site", True),
    },
    "Timeline": {
        "subject_of_visit": Form("N", "subject"),
        "times": Form("N"),
        "centres": Form("S"),
        "unit": Form("", "positive"),
    },
    "Marginal": {
        "noise": Form("K", "not negative"),
        "centre": Form(""),
        "spread": Form("", "positive"),
        "known_shifts": Form("S"),
        "known_scores": Form("N"),
    },
    "Sites": {
        "offsets": Form("XV"),
        "scales": Form("XV", "positive"),
        "spread": Form("", "positive"),
        "variances": Form("V", "not negative"),
        "levels": Form("V"),
    },
    "ClusterSites": {
        "offsets": Form("XK"),
        "scales": Form("XK", "positive"),
        "spread": Form("", "positive"),
    },
    "Population": {
        "shift_means": Form("G"),
        "shift_sds": Form("G", "not negative"),
        "log_speed_means": Form("G", "log"),
        "log_speed_sds": Form("G", "log"),
        "shares": Form("G", "share"),
        "skews": Form("G", "log", True),
    },
    "VisitNoise": {
        "origin": Form(""),
        "people": Form("", "not negative"),
        "visits": Form("", "not negative"),
    },
    "NoisePrior": {
        "trend": Form("3", "log"),
        "centre": Form(""),
        "spread": Form("", "positive"),
        "low": Form(""),
        "high": Form(""),
        "freedom": Form("", "positive"),
    },
    "Covariance": {
        "within": Form("KK", "symmetric"),
        "between": Form("KK", "symmetric"),
        "weights": Form("K", "not negative"),
    },
    "CurveUncertainty": {
        "covariance": Form("MM", "symmetric"),
        "centre": Form("M"),
        "spread": Form("M"),
        "unit_variance": Form("", "not negative"),
        "inflation": Form("", "positive", optional=True),
    },
    "PersonalModel": {
        "means": Form("V"),
        "rates": Form("V"),
        "centres": Form("31I"),
        "beliefs": Form("3", "share"),
        "components": Form("VC"),
        "inflation": Form("", "positive"),
    },
    "PersonalNoise": {
        "levels": Form("L"),
        "logs": Form("L", "log"),
        "own": Form("", "not negative"),
        "scatter": Form("", "positive"),
        "whole": Form("", "share"),
        "single": Form("", "positive"),
    },
}
# Objects inside of objects.
INSIDE = {
    "Training": {"timeline": "Timeline"},
    "Marginal": {
        "population": "Population",
        "covariance": "Covariance",
        "curve_uncertainty": "CurveUncertainty",
    },
}
# And those that files of before do not have.
SINCE = {
    "PersonalModel": {"varying": "PersonalNoise"},
    "Marginal": {"visit_noise": "VisitNoise", "sites": "ClusterSites"},
    "VisitNoise": {"damage": "NoisePrior"},
}
KERNELS = {"PersonalModel": {"vertex_kernel": "V", "component_kernel": "C"}}
