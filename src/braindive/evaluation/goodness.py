"""How well a model explains a cohort, whom it does not, and what the cohort cannot tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2

from braindive.arrays import Array
from braindive.cluster_names import display_names
from braindive.cohort import Cohort
from braindive.cohort.sites import LEAST_VISITS
from braindive.dive.pooled import PooledMeans
from braindive.errors import ParameterError
from braindive.estimator import DIVE
from braindive.fitted import timeline_of
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.marginal_stager import MarginalStages
from braindive.staging.marginal_starts import moment_problem
from braindive.staging.stagers import PublishedStages, Stages
from braindive.values.walking import one_thread_per_product

# Expected number of people, or of scans, called outliers when there are none.
_FALSE_ALARMS = 0.05
# Share of the prior's spread of speeds that is left, from which on follow-up is called short.
_UNINFORMED = 0.9
# Share of a sigmoid's range that the bulk of the scores must show, and what the bulk is.
_BULK = (0.02, 0.98)
_SHOWN = 0.5
# Bins of the score in which a curve is compared with the residuals' means.
_BINS = 8


@dataclass(frozen=True)
class GoodnessOfFit:
    """What `goodness_of_fit` found.

    Parameters
    ----------
    explained_variance : float
        Share of the variance around each vertex's mean that the model explains.
    vertices : (n_vertices,)
        The same, vertex by vertex; NaN where a vertex has no data.
    clusters : DataFrame
        One row per cluster, by its name ("cluster 1" is the earliest; regions of `assignments`
        have their own): `n_vertices`, `noise`, `explained_variance`, `correlation` (how many
        times larger the variance of the cluster's mean is than with independent vertices),
        `persistence` (share of that variance that is a person's own level), `misfit_p` (a small
        value says that the curve has another shape than the data).
    subjects : DataFrame
        One row per subject: `misfit` over what chance makes expect, `p`, `outlier`, `reason`.
    visits : DataFrame
        One row per visit, in the order of the cohort: `subject`, `time`, `misfit`, `p`, `noise`
        (spread of the vertices around the model, relative to other scans), `outlier`, `reason`.
    warnings : list of str
        What the cohort cannot tell.
    """

    explained_variance: float
    vertices: Array
    clusters: pd.DataFrame
    subjects: pd.DataFrame
    visits: pd.DataFrame
    warnings: list[str]

    def __str__(self) -> str:
        lines = [
            f"explained variance beyond each vertex's mean: {self.explained_variance:.1%}",
            f"outlying subjects: {int(self.subjects['outlier'].sum())} of {len(self.subjects)}",
            f"outlying scans: {int(self.visits['outlier'].sum())} of {len(self.visits)}",
            *(f"warning: {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)


def goodness_of_fit(model: DIVE, cohort: Cohort, *, client: Any = None) -> GoodnessOfFit:
    """Check a model against a cohort, its own or another.

    Parameters
    ----------
    model : DIVE
        Fitted, with staging.
    cohort : Cohort
        On the same vertices.
    client : distributed.Client, optional
        Dask cluster over which to spread the values of the cohort.

    Returns
    -------
    GoodnessOfFit

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(n_subjects=60, n_vertices=200, noise=0.3, random_state=0).cohort
    >>> model = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(cohort)
    >>> found = bd.goodness_of_fit(model, cohort)
    >>> bool(found.explained_variance > 0.3)
    True
    """
    cohort = model.prepare(cohort)
    if not model.staging:
        raise ParameterError(
            "goodness_of_fit needs a model with staging; this one has staging=False."
        )
    fitted, measurements = model.internal_, model.products(cohort, client)
    timeline = timeline_of(cohort, fitted.time_unit)
    stager = model.stager()
    staged = model.place_pooled(cohort, timeline, *model.pool(measurements))
    problem, speeds, shifts = _residual_problem(model, staged), staged.speeds, staged.shifts
    scores = timeline.scores(speeds, shifts)
    with one_thread_per_product():
        curves = stager.trajectories.evaluate(scores)
        distances = measurements.distances(curves)
        known = model.responsibilities_ * fitted.known[:, None]
        squares = measurements.sum_residuals(curves, known, 2)
        total = measurements.energies
    left = np.sum(model.responsibilities_ * distances, axis=1)
    seen = (total > 0) & fitted.known
    by_vertex = np.where(seen, 1 - left / np.where(seen, total, 1.0), np.nan)
    residuals = problem.residuals(speeds, shifts)
    names = display_names(model)
    return GoodnessOfFit(
        1 - float(left[seen].sum() / total[seen].sum()),
        by_vertex,
        _clusters(model, names, problem, residuals, scores, left * seen, total * seen),
        _subjects(cohort, names, problem, speeds, shifts, residuals),
        _visits(cohort, names, problem, residuals, squares),
        _warnings(model, names, stager.errors(staged), scores),
    )


def _clusters(
    model: DIVE,
    names: list[str],
    problem: CorrelatedStageProblem,
    residuals: Array,
    scores: Array,
    left: Array,
    total: Array,
) -> pd.DataFrame:
    z, covariance = model.responsibilities_, problem.covariance
    variance = np.diag(covariance.within + covariance.between)
    independent = problem.noise**2 / np.maximum(covariance.weights, 1e-6)
    return pd.DataFrame(
        {
            "n_vertices": z.sum(axis=0),
            "noise": model.noise_,
            "explained_variance": 1 - (z.T @ left) / np.maximum(z.T @ total, 1e-300),
            "correlation": variance / independent,
            "persistence": np.diag(covariance.between) / variance,
            "misfit_p": _shape_test(problem, residuals, scores),
        },
        index=pd.Index(names, name="cluster"),
    )


def _shape_test(problem: CorrelatedStageProblem, residuals: Array, scores: Array) -> Array:
    """Whether residuals average to 0 everywhere along the score: one p-value per cluster.

    Subjects are the independent units: each contributes its mean residual, at its mean score.
    """
    timeline, covariance = problem.timeline, problem.covariance
    counts = timeline.n_visits_of_subject
    means = timeline.by_subject(residuals) / counts[:, None]
    place = timeline.by_subject(scores) / counts
    variance = np.diag(covariance.between) + np.diag(covariance.within) / counts[:, None]
    n_bins = int(min(_BINS, max(len(counts) // 10, 1)))
    bins = np.searchsorted(np.quantile(place, np.linspace(0, 1, n_bins + 1)[1:-1]), place)
    weight = 1 / variance
    statistic = np.zeros(residuals.shape[1])
    for number in range(n_bins):
        inside = bins == number
        weights = weight[inside].sum(axis=0)
        statistic += (weight[inside] * means[inside]).sum(axis=0) ** 2 / np.maximum(weights, 1e-300)
    return np.asarray(chi2.sf(statistic, n_bins))


def _subjects(
    cohort: Cohort,
    names: list[str],
    problem: CorrelatedStageProblem,
    speeds: Array,
    shifts: Array,
    residuals: Array,
) -> pd.DataFrame:
    timeline = problem.timeline
    misfit = problem.misfit(speeds, shifts)
    freedom = timeline.by_subject((problem.pooled.weights > 0).sum(axis=1))
    p = chi2.sf(misfit, freedom)
    outlier = p < _FALSE_ALARMS / len(p)
    counts = timeline.n_visits_of_subject[:, None]
    means = timeline.by_subject(residuals) / counts
    covariance = problem.covariance
    level = means / np.sqrt(np.diag(covariance.between) + np.diag(covariance.within) / counts)
    around = (residuals - means[timeline.subject_of_visit]) / np.sqrt(np.diag(covariance.within))
    largest = np.maximum.reduceat(np.abs(around).max(axis=1), timeline.starts)
    reasons = np.full(len(p), "", dtype=object)
    for i in np.flatnonzero(outlier):
        k = int(np.abs(level[i]).argmax())
        if np.abs(level[i, k]) >= largest[i]:
            side = "above" if level[i, k] > 0 else "below"
            reasons[i] = f"all visits lie {side} the curve of {names[k]} ({level[i, k]:+.1f} sd)"
        else:
            reasons[i] = f"visits disagree with each other ({largest[i]:.1f} sd)"
    return pd.DataFrame(
        {"misfit": misfit / freedom, "p": p, "outlier": outlier, "reason": reasons},
        index=pd.Index(cohort.subject_ids, name="subject"),
    )


def _usual(per_vertex: Array, problem: CorrelatedStageProblem) -> Array:
    """Median over all visits, or over those of the same site where sites are known."""
    usual = np.full(len(per_vertex), np.median(per_vertex))
    if problem.sites is not None:
        for site in np.unique(problem.sites.sites):
            there = problem.sites.sites == site
            if np.sum(there) >= LEAST_VISITS:
                usual[there] = np.median(per_vertex[there])
    return usual


def _visits(
    cohort: Cohort,
    names: list[str],
    problem: CorrelatedStageProblem,
    residuals: Array,
    squares: Array,
) -> pd.DataFrame:
    covariance, weights = problem.covariance, problem.pooled.weights
    seen = (weights > 0).sum(axis=1)
    extra = problem.noise**2 * np.maximum(
        1 / np.maximum(weights, 1e-6) - 1 / np.maximum(covariance.weights, 1e-6), 0.0
    )
    spread = covariance.within + extra[:, :, None] * np.eye(len(problem.noise))
    if problem.multipliers is not None:
        factors = problem.multipliers
        spread = spread * factors[:, :, None] * factors[:, None, :]
    spread = spread + covariance.between
    misfit = np.einsum(
        "nk,nk->n", residuals, np.linalg.solve(spread, residuals[:, :, None])[:, :, 0]
    )
    p = chi2.sf(misfit, seen)
    # Vertices of one scan around the model, against the same of all scans of its site.
    per_vertex = (squares / problem.noise**2).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-6)
    noise = np.sqrt(per_vertex / _usual(per_vertex, problem))
    typical = max(1.4826 * float(np.median(np.abs(noise - 1.0))), 0.02)
    noisy = noise > 1 + 6 * typical
    unlike = p < _FALSE_ALARMS / len(p)
    standard = residuals / np.sqrt(np.einsum("nkk->nk", spread))
    reasons = np.full(len(p), "", dtype=object)
    for i in np.flatnonzero(unlike | noisy):
        parts = []
        if unlike[i]:
            k = int(np.abs(standard[i]).argmax())
            parts.append(f"{names[k]} lies {standard[i, k]:+.1f} sd from its curve")
        if noisy[i]:
            parts.append(f"noise is {noise[i]:.1f} times that of a typical scan")
        reasons[i] = "; ".join(parts)
    order = np.empty(len(p), dtype=int)
    order[cohort.canonical_order] = np.arange(len(p))
    return pd.DataFrame(
        {
            "subject": cohort.subjects,
            "time": cohort.times,
            "misfit": (misfit / seen)[order],
            "p": p[order],
            "noise": noise[order],
            "outlier": (unlike | noisy)[order],
            "reason": reasons[order],
        }
    )


def _residual_problem(model: DIVE, staged: Stages) -> CorrelatedStageProblem:
    """Residuals and how they vary together: as the marginal fit has it, or their moments.

    Noise is as usual at the damage of each visit: by its own scatter, nobody would be an outlier.
    """
    if isinstance(staged, MarginalStages):
        return staged.judged or staged.problem
    assert isinstance(staged, PublishedStages)
    pooled = staged.problem.sums
    assert isinstance(pooled, PooledMeans)
    return moment_problem(
        pooled,
        staged.timeline,
        model.internal_.parameters.trajectories,
        model.internal_.parameters.noise,
        staged.speeds,
        staged.shifts,
    )


def _warnings(model: DIVE, names: list[str], errors: Array, scores: Array) -> list[str]:
    found = []
    prior = model.internal_.priors.speed
    prior_sd = np.sqrt(prior.shape) / prior.rate
    if model.people == "differ":
        people = model.marginal_.population
        prior_sd = np.exp(people.log_speed_means[-1]) * people.log_speed_sds[-1]
    informed = float(np.median(errors[:, 0])) / prior_sd
    if informed > _UNINFORMED:
        found.append(
            f"speeds are hardly known beyond their prior (their uncertainty is {informed:.0%} of "
            "its spread): follow-up is too short to tell a fast person from one who is further on. "
            "Compare scores, not speeds or shifts."
        )
    curves = model.stager().trajectories
    inside = curves.evaluate(np.quantile(scores, _BULK))
    shown = np.abs(inside[1] - inside[0]) / np.maximum(np.abs(curves.change(scores)), 1e-300)
    found += [
        f"the trajectory of {names[k]} reaches beyond the data: these show {shown[k]:.0%} "
        "of its range, and the rest of its shape is a guess."
        for k in np.flatnonzero(shown < _SHOWN)
    ]
    return found
