"""What there is to say about each cluster: the table that printers, files and pages use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from braindive.arrays import Array
from braindive.cluster_names import cluster_frame
from braindive.dive.curves import Curves
from braindive.results import Internal
from braindive.staging.marginal_stager import MarginalStager

# Standard errors on either side of an estimate within which the truth lies in 95 % of cases.
_WIDTH = 1.96


def change_errors(internal: Internal, marginal: MarginalStager | None) -> Array:
    """Standard error of each cluster's change in units of the values; NaN where it is not known."""
    curves = internal.parameters.trajectories
    if marginal is None or not curves.has_amplitude():
        return np.full(len(curves), np.nan)
    known = marginal.curve_uncertainty
    variances = known.inflation * np.diag(known.covariance)
    own = variances[: curves.to_array().size : curves.n_parameters()]
    return np.asarray(internal.scale.value_errors(np.sqrt(own)))


def curve_errors(internal: Internal, marginal: MarginalStager | None, scores: Array) -> Array:
    """Standard errors of the curves at the user's scores, (n, n_clusters); NaN where not known."""
    curves, scale = internal.parameters.trajectories, internal.scale
    if marginal is None:
        return np.full((len(scores), len(curves)), np.nan)
    at = scale.internal_scores(scores)
    variances = marginal.curve_uncertainty.curve_variances(
        curves, at, internal.centre, internal.spread
    )
    return np.asarray(scale.value_errors(np.sqrt(variances)))


def cluster_table(
    names: list[str], curves: Curves, scores: Array, sizes: Array, noise: Array, errors: Array
) -> pd.DataFrame:
    """One row for each cluster, from the earliest to the latest; see `DIVE.summary`.

    Parameters
    ----------
    names : list of str
        What the clusters are called.
    curves : Curves
        In the user's units.
    scores : (n_visits,)
        That were seen.
    sizes, noise, errors : (n_clusters,)
        Vertices, noise of a vertex, and standard errors of the changes.
    """
    reached, change = curves.reached(scores), curves.change(scores)
    columns: dict[str, Any] = {
        "name": names,
        "vertices": sizes,
        **{name: getattr(curves, name) for name in curves.names()},
        "noise": noise,
        "onset": curves.onset(scores),
        "change": change,
        "change_low": change - _WIDTH * errors,
        "change_high": change + _WIDTH * errors,
        "early_plateau_reached": reached[:, 0],
        "late_plateau_reached": reached[:, 1],
    }
    return cluster_frame(columns)
