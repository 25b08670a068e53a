"""The simulation experiments of the DIVE paper, and one more on a real cortex.

Each function runs one repeat of one step and returns rows of numbers, so that repeats can be run
anywhere and in any order.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import stats

from braindive.arrays import Array, BoolArray
from braindive.cohort import Cohort
from braindive.dive.e_step import log_densities
from braindive.dive.field import expectation
from braindive.estimator import DIVE
from braindive.evaluation.folds import Ids, split_subjects
from braindive.evaluation.groups import PARAMETERS, compare_groups, subject_parameters
from braindive.evaluation.matching import match_clusters
from braindive.evaluation.selection import candidate_row, fit_without
from braindive.simulation import Simulation, simulate_cohort
from braindive.values.backends import open_products

Row = dict[str, Any]
MIDDLE, WIDTH = 2.5, 53.0
"""Midpoint of the middle cluster, and range of the scores, of the paper's basic setting."""
FIRST, LAST = -15.0, 20.0


def closer_trajectories(spacing: float, seed: int) -> list[Row]:
    """Experiment 2: three clusters whose midpoints lie closer together.

    Parameters
    ----------
    spacing : float
        Distance of neighbouring midpoints as a share of the range of the scores.
    seed : int
        Of the simulation and of the fit.

    Returns
    -------
    list of one dict
        See `recovery`.

    Examples
    --------
    >>> from experiments import closer_trajectories
    >>> row = closer_trajectories(0.33, seed=0)[0]
    >>> row["agreement"] > row["ceiling"] - 0.01
    True
    """
    step = spacing * WIDTH
    simulation = simulate_cohort(
        midpoints=(MIDDLE - step, MIDDLE, MIDDLE + step), random_state=seed
    )
    return [recovery(simulation, DIVE(3, personal=False, random_state=seed).fit(simulation.cohort))]


def fewer_subjects(n_subjects: int, seed: int) -> list[Row]:
    """Experiment 3: the basic setting with fewer subjects; returns rows like experiment 2.

    Examples
    --------
    >>> from experiments import fewer_subjects
    >>> bool(fewer_subjects(20, seed=0)[0]["agreement"] > 0.8)
    True
    """
    simulation = simulate_cohort(n_subjects=n_subjects, random_state=seed)
    return [recovery(simulation, DIVE(3, personal=False, random_state=seed).fit(simulation.cohort))]


def contiguous_areas(
    smoothing: int, spatial: Literal["auto"] | None, seed: int, n_subjects: int = 40
) -> list[Row]:
    """Experiment 4: contiguous areas on the fsaverage5 cortex, with and without the random field.

    Parameters
    ----------
    smoothing : int
        Rounds of neighbour averaging of the noise: 0 for independent vertices.
    spatial : "auto" or None
        The model's setting.
    seed : int
        Of the simulation and of the fit.
    n_subjects : int
        Seen four times each.

    Returns
    -------
    list of one dict
        See `recovery`, and the `strength` of the field.
    """
    simulation = simulate_cohort(
        n_subjects=n_subjects,
        midpoints=(-1.0, -0.4, 0.2, 0.8, 1.4),
        slope=-2.0,
        amplitude=-5.0,
        noise=3.0,
        shift_sd=1.0,
        mean_speed=0.2,
        midpoint_variation=0.116,
        space="fsaverage5-left",
        noise_smoothing=smoothing,
        control_share=0.3,
        dtype="float32",
        random_state=seed,
    )
    model = DIVE(5, spatial=spatial, personal=False, random_state=seed).fit(simulation.cohort)
    return [recovery(simulation, model) | {"strength": model.spatial_strength_}]


def judge_candidate(
    cohort: Cohort, model: DIVE, n_halvings: int, seed: int, most: int = 0
) -> dict[str, Any]:
    """Judge one number of clusters with as few fits as can be, for work that is done in pieces.

    Each half of the subjects is fitted, judged by how it fits the other half, and its
    parcellation compared with that of the other half.

    Parameters
    ----------
    cohort : Cohort
        Measurements.
    model : DIVE
        With the number of clusters.
    n_halvings : int
        Times the subjects are split into two random halves.
    seed : int
        Of the halves.
    most : int
        Largest number of groups to look for among the vertices' own curves; 0 for none.

    Returns
    -------
    dict
        A row for `selection_table`, and `all_groups`, gain and distinct groups by their number.
    """
    halves: list[Ids] = []
    for repeat in range(n_halvings):
        halves += split_subjects(cohort, 2, seed + repeat)
    whole = fit_without(model, cohort, [], False, most)
    parts = [fit_without(model, cohort, half, True) for half in halves]
    groups = whole.groups or {}
    found = {str(number): [each.gain, each.distinct] for number, each in groups.items()}
    return candidate_row(whole, parts, parts) | {"all_groups": found}


COHORTS: dict[str, dict[str, Any]] = {
    "alike": {"steepness_variation": 0.0, "midpoint_variation": 0.0},
    "own": {},
    "people": {"personal_offset": 0.9, "personal_components": 5, "noise": 0.5},
}
"""Cohorts of experiment 1: all vertices of a cluster follow its trajectory; each has a steepness
and a midpoint of its own, as in the basic setting; and people differ persistently too, by maps that
make three quarters of the variance of healthy people."""


def more_clusters(
    n_true: int,
    kind: str,
    n_clusters: int,
    seed: int,
    n_halvings: int = 2,
    n_subjects: int = 300,
    n_vertices: int = 1000,
    most: int = 0,
) -> list[Row]:
    """Experiment 1: judge one number of clusters on a cohort with a known number.

    Parameters
    ----------
    n_true : int
        True number of clusters, their midpoints spread evenly over the basic setting's range.
    kind : {"alike", "own", "people"}
        Of cohort; see `COHORTS`.
    n_clusters : int
        Number to judge.
    seed : int
        Of simulation, splits and fits.
    n_halvings : int
        Times the subjects are split into halves, for unseen subjects and for stability.
    n_subjects, n_vertices : int
        Size.
    most : int
        Largest number of groups to look for among the vertices' own curves; 0 for none.

    Returns
    -------
    list of one dict
        A row for `selection_table`.
    """
    simulation = simulate_cohort(
        n_subjects=n_subjects,
        n_vertices=n_vertices,
        midpoints=np.linspace(FIRST, LAST, n_true).tolist(),
        random_state=seed,
        **COHORTS[kind],
    )
    # Two starts and a coarser tolerance: criteria differ by far more than that changes.
    # Criteria are of the EM's likelihood, so nothing more is fitted where people are alike: where
    # they differ, the stages around which vertices' own curves are found hang on it.
    model = DIVE(
        n_clusters,
        n_init=2,
        tol=1e-3,
        max_iter=50,
        people="differ" if kind == "people" else "alike",
        personal=False,
        n_jobs=1,
        random_state=seed,
    )
    return [judge_candidate(simulation.cohort, model, n_halvings, seed, most)]


def group_test(
    effect: float,
    seed: int,
    n_subjects: int = 60,
    n_vertices: int = 60,
    n_visits: int = 3,
    personal_offset: float = 0.0,
) -> list[Row]:
    """Fit a small cohort with a planted group effect, or none, and test the groups.

    Parameters
    ----------
    effect : float
        Of `simulate_cohort(group_effect=...)`; 0 for none.
    seed : int
        Of the simulation and of the fit.
    n_subjects, n_vertices, n_visits : int
        Size.
    personal_offset : float
        Spread of the maps in which people differ persistently, of few components as where they are
        smooth; noise is half as large where there are any.

    Returns
    -------
    list of dict
        For each parameter its `p_value` (rank test), `mean_p_value` (t-test) and `effect_size`;
        `true_p_value`, the rank test of the true parameters, which no estimate can be expected to
        beat; and the `correlation` of the estimated with the true parameters within the groups.

    Examples
    --------
    >>> from experiments import group_test
    >>> [row["parameter"] for row in group_test(0.0, seed=0, n_visits=5, n_vertices=400)]
    ['shift', 'speed', 'baseline score']
    """
    simulation = simulate_cohort(
        n_subjects=n_subjects,
        n_visits=n_visits,
        n_vertices=n_vertices,
        group_effect=effect,
        control_share=0.3,
        noise=0.5 if personal_offset else 1.0,
        personal_offset=personal_offset,
        personal_components=5 if personal_offset else None,
        random_state=seed,
    )
    truth, cohort = simulation.truth, simulation.cohort
    model = DIVE(3, n_init=1, tol=1e-3, personal=False, random_state=seed).fit(cohort)
    table = compare_groups(model, by="apoe4", test="stages")
    estimated = subject_parameters(model).loc[cohort.subject_ids]
    carriers = cohort.first_visits(1).table["apoe4"].to_numpy(bool)
    # Everybody's time is 0 at the first visit, so the shift is the first score.
    true = dict(zip(PARAMETERS, (truth.shifts, truth.speeds, truth.shifts), strict=True))
    return [
        {
            "parameter": name,
            "p_value": float(table["p_value"][name]),
            "mean_p_value": float(table["mean_p_value"][name]),
            "effect_size": float(table["effect_size"][name]),
            "true_p_value": float(stats.mannwhitneyu(values[carriers], values[~carriers]).pvalue),
            "correlation": _correlation_within(estimated[name].to_numpy(), values, carriers),
        }
        for name, values in true.items()
    ]


def _correlation_within(first: Array, second: Array, groups: BoolArray) -> float:
    """Pearson correlation after the mean of each group is removed."""
    for group in (groups, ~groups):
        first = np.where(group, first - first[group].mean(), first)
        second = np.where(group, second - second[group].mean(), second)
    return float(np.corrcoef(first, second)[0, 1])


def recovery(simulation: Simulation, model: DIVE) -> Row:
    """How well a fit finds the truth it was simulated from.

    Scores are known up to an affine map, so the found ones are first mapped to the true ones by
    least squares, and the midpoints with them.

    Returns
    -------
    dict
        `agreement` of the clusters; its `ceiling`; `score_error` and `midpoint_error`, sums of
        squared differences over visits and over clusters; `score_error_per_visit`, their mean;
        `correlation` of the scores.

    Examples
    --------
    >>> import braindive as bd
    >>> from experiments import recovery
    >>> simulation = bd.simulate_cohort(n_subjects=40, n_vertices=100, random_state=0)
    >>> model = bd.DIVE(n_clusters=3, random_state=0).fit(simulation.cohort)
    >>> row = recovery(simulation, model)
    >>> row["agreement"] > 0.8
    True
    """
    truth = simulation.truth
    matching = match_clusters(model, truth.labels)
    slope, offset = np.polyfit(model.scores_, truth.scores, 1)
    misses = slope * model.scores_ + offset - truth.scores
    midpoints = slope * model.trajectories_.midpoint[matching.permutation] + offset
    return {
        "agreement": matching.agreement,
        "ceiling": ceiling(simulation),
        "score_error": float(np.sum(misses**2)),
        "score_error_per_visit": float(np.mean(misses**2)),
        "midpoint_error": float(np.sum((midpoints - truth.trajectories.midpoint) ** 2)),
        "correlation": float(np.corrcoef(model.scores_, truth.scores)[0, 1]),
    }


def ceiling(simulation: Simulation) -> float:
    """Agreement of the E-step that knows the true curves, scores and residual variances.

    The random field is not part of it: with it a fit may do better.

    Examples
    --------
    >>> import braindive as bd
    >>> from experiments import ceiling
    >>> bool(ceiling(bd.simulate_cohort(n_vertices=300, random_state=0)) > 0.96)
    True
    """
    truth, cohort = simulation.truth, simulation.cohort
    measurements = open_products(
        cohort.stored, order=cohort.canonical_rows, missing=cohort.has_missing
    )
    curves = truth.trajectories.evaluate(truth.scores[cohort.canonical_order])
    unit = measurements.unit
    distances = measurements.distances((curves - unit.offset) / unit.scale)
    counts = measurements.counts
    own = distances[np.arange(len(truth.labels)), truth.labels]
    n_clusters = len(truth.trajectories)
    squares = np.bincount(truth.labels, own, n_clusters)
    noise: Array = np.sqrt(squares / np.bincount(truth.labels, counts, n_clusters))
    return match_clusters(
        expectation(log_densities(distances, counts, noise)), truth.labels
    ).agreement
