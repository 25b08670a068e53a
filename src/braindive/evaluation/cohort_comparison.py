"""Two cohorts or diseases: the same order, the same areas, the same stages?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.base import clone

from braindive.arrays import Array, IntArray
from braindive.checks import check_count, check_seed
from braindive.cluster_names import display_names
from braindive.cohort import Cohort
from braindive.cohort.cohort import check_cohort
from braindive.errors import CohortError, ParameterError
from braindive.estimator import DIVE
from braindive.evaluation.curve_differences import (
    area_table,
    known_log_steepness,
    known_midpoints,
    midpoint_test,
    order_agreement,
    order_test,
    steepness_test,
)
from braindive.evaluation.overlap import cluster_overlap, parcellation_agreement
from braindive.evaluation.shared_areas import shared_areas
from braindive.evaluation.spatial_null import moved_by_chance, null_kind


@dataclass(frozen=True)
class CohortComparison:
    """How two cohorts compare; see `compare_cohorts`.

    Attributes
    ----------
    tests : DataFrame
        Of `order`, `midpoints` and `steepness`: `statistic`, `df` and `p_value` of the hypothesis
        that both cohorts have the same.
    areas : DataFrame
        A row for each area: its midpoint in both cohorts with standard errors, in years from the
        mean of all areas, its steepness, and how they differ, with 95 % intervals, p-values, and
        these corrected over areas by Holm's method.
    order : dict
        `tau`, Kendall's rank correlation of the two orders, with its 95 % interval `low` to `high`,
        and `same_order`, how probable it is that all areas come in the same order.
    overlap : DataFrame
        A row for each cluster of the first cohort's own fit and one for all: Dice overlap with the
        second cohort's own fit, its mean and 95 % quantile by chance, and `p_value`. `attrs["by"]`
        says how chance was simulated.
    replication : DataFrame
        Of score and speed of each cohort's people: Pearson's correlation of the stages that both
        cohorts' own fits give them, with its 95 % interval, and Spearman's.
    models : dict
        The fits: `own_a` and `own_b`, of each cohort by itself; `a` and `b`, of each with the areas
        that are shared.
    """

    tests: pd.DataFrame
    areas: pd.DataFrame
    order: dict[str, float]
    overlap: pd.DataFrame
    replication: pd.DataFrame
    models: dict[str, Any] = field(repr=False)

    def __str__(self) -> str:
        """Say the results in sentences."""
        order, chance = self.order, self.overlap.loc["all"]
        lines = [
            f"Order: tau {order['tau']:.2f} (95 % {order['low']:.2f} to {order['high']:.2f}), the "
            f"same order with probability {order['same_order']:.2f}; the same up to origin and "
            f"pace: {_p_words(self.tests.loc['order', 'p_value'])}.",
            f"Midpoints the same: {_p_words(self.tests.loc['midpoints', 'p_value'])}.",
        ]
        if "steepness" in self.tests.index:
            lines.append(f"Steepness the same: {_p_words(self.tests.loc['steepness', 'p_value'])}.")
        lines.append(
            f"Areas overlap by {chance['dice']:.2f} (Dice; by chance {chance['chance']:.2f}, "
            f"95 % below {chance['chance_95']:.2f}, by {self.overlap.attrs['by']}: "
            f"{_p_words(chance['p_value'])})."
        )
        lines += [
            f"{str(row.parameter).capitalize()} of the people of {row.cohort} by both fits: "
            f"r = {row.pearson:.2f} (95 % {row.low:.2f} to {row.high:.2f})."
            for row in self.replication.itertuples()
        ]
        return "\n".join(lines)


def compare_cohorts(
    a: Cohort,
    b: Cohort,
    model: Any = None,
    *,
    areas: ArrayLike | None = None,
    n_permutations: int = 1000,
    random_state: int | np.random.RandomState | None = None,
) -> CohortComparison:
    """Compare the course of a disease in two cohorts, or of two diseases.

    Each cohort is fitted by itself. Whether the areas that are found agree is judged against areas
    that are as large and as smooth but lie elsewhere, and whether people get the same stages by the
    course of the other cohort. Then areas are found of which the vertices behave alike in both
    cohorts, with curves of each cohort's own: whether these differ is tested with the standard
    errors of the two fits.

    Parameters
    ----------
    a, b : Cohort
        Of the same vertices, and of different people.
    model : DIVE, optional
        Not fitted; it is copied. With `people="differ"`. Its preprocessing is learnt in each cohort
        by itself.
    areas : (n_vertices,) labels, optional
        Areas to compare instead of those that are found, such as an atlas; negative numbers mark
        vertices that belong nowhere.
    n_permutations : int, default 1000
        Draws for the chance level of the overlap: random rotations on spheres such as fsaverage5,
        else smooth random maps cut into clusters of the same sizes (without a graph, shuffled
        vertices, which makes chance too small where neighbours are alike).
    random_state : int, RandomState or None
        Seed of these draws.

    Returns
    -------
    CohortComparison

    Examples
    --------
    >>> import braindive as bd
    >>> a, b = (
    ...     bd.simulate_cohort(60, n_vertices=60, noise=0.4, labels=[0, 1, 2] * 20, random_state=i)
    ...     for i in (0, 1)
    ... )
    >>> model = bd.DIVE(3, n_init=1, personal=False, random_state=0)
    >>> found = bd.compare_cohorts(a.cohort, b.cohort, model, n_permutations=99, random_state=0)
    >>> found.order["tau"], bool(found.tests.loc["order", "p_value"] > 0.01)
    (1.0, True)
    """
    check_count("n_permutations", n_permutations)
    model = DIVE(random_state=0) if model is None else model
    _check(a, b, model)
    seed = check_seed(random_state).randint(2**31)
    random = np.random.default_rng(seed)
    plain = clone(model).set_params(preprocessing=None)
    prepared = [_prepare(model, cohort) for cohort in (a, b)]
    if prepared[0].n_vertices != prepared[1].n_vertices:
        raise CohortError(
            "the preprocessing keeps different vertices in the two cohorts; take those that are "
            "measured in both."
        )
    models: dict[str, Any] = {}
    fixed = clone(plain).set_params(start=None, personal=False)
    labels = None if areas is None else np.asarray(areas)
    if labels is None:
        own = clone(plain).set_params(personal=False)
        for name, cohort in zip("ab", prepared, strict=True):
            models[f"own_{name}"] = clone(own).fit(cohort)
        labels = shared_areas(prepared, [models["own_a"], models["own_b"]], fixed)
        first = clone(fixed).set_params(assignments=labels).fit(prepared[0])
        # Areas are numbered in the order of the first cohort.
        labels = np.where(labels < 0, -1, np.argsort(first.cluster_names_)[labels])
    for name, cohort in zip("ab", prepared, strict=True):
        models[name] = clone(fixed).set_params(assignments=labels).fit(cohort)
        models.setdefault(f"own_{name}", models[name])
    midpoints = known_midpoints(models["a"]), known_midpoints(models["b"])
    slopes = known_log_steepness(models["a"]), known_log_steepness(models["b"])
    tests = {"order": order_test(*midpoints), "midpoints": midpoint_test(*midpoints)}
    steepness = None
    if slopes[0] is not None and slopes[1] is not None:
        steepness = slopes[0], slopes[1]
        tests["steepness"] = steepness_test(*steepness)
    return CohortComparison(
        pd.DataFrame.from_dict(tests, orient="index").rename_axis("test"),
        area_table(_area_names(models["a"]), midpoints, steepness),
        order_agreement(*midpoints, random),
        _overlap(models["own_a"], models["own_b"], prepared[0], n_permutations, random),
        _replication(models["own_a"], models["own_b"], prepared),
        models,
    )


def _check(a: Any, b: Any, model: Any) -> None:
    for cohort in (a, b):
        check_cohort(cohort)
    if a.n_vertices != b.n_vertices:
        raise CohortError(
            f"the cohorts have {a.n_vertices} and {b.n_vertices} vertices; compare maps of the "
            "same space."
        )
    if not isinstance(model, DIVE):
        raise ParameterError(f"model must be a DIVE; got {type(model).__name__}.")
    if model.people != "differ" or not model.staging:
        raise ParameterError('compare_cohorts needs a model with people="differ" and staging.')


def _prepare(model: Any, cohort: Cohort) -> Cohort:
    if model.preprocessing is None:
        return cohort
    prepared: Cohort = clone(model.preprocessing).fit_transform(cohort)
    return prepared


def _area_names(model: Any) -> list[str]:
    order = np.argsort(model.cluster_names_, kind="stable")
    if np.issubdtype(np.asarray(model.cluster_names_).dtype, np.integer):
        return [f"area {int(model.cluster_names_[k]) + 1}" for k in order]
    return [display_names(model)[k] for k in order]


def _overlap(
    one: Any, other: Any, cohort: Cohort, n_times: int, random: np.random.Generator
) -> pd.DataFrame:
    """Dice overlap of two fits' clusters, and what it is by chance."""
    first, second = np.asarray(one.labels_), np.asarray(other.labels_)
    n_clusters = len(one.noise_)

    def measure(labels: IntArray) -> Array:
        seen = labels >= 0
        dice = _padded(cluster_overlap(labels[seen], second[seen]), n_clusters)
        return np.append(dice, parcellation_agreement(labels[seen], second[seen])[1])

    found = measure(first)
    chance = np.stack(
        [
            measure(each)
            for each in moved_by_chance(first, cohort.space, cohort.graph, n_times, random)
        ]
    )
    table = pd.DataFrame(
        {
            "dice": found,
            "chance": chance.mean(axis=0),
            "chance_95": np.quantile(chance, 0.95, axis=0),
            "p_value": (1 + np.sum(chance >= found, axis=0)) / (1 + n_times),
        },
        index=pd.Index([*range(1, n_clusters + 1), "all"], name="cluster"),
    )
    table.attrs["by"] = null_kind(cohort.space, cohort.graph)
    return table


def _padded(dice: Array, n_clusters: int) -> Array:
    """Overlaps of all clusters; one without vertices, or spun onto the medial wall, has none."""
    return np.append(dice, np.zeros(n_clusters - len(dice)))


def _replication(one: Any, other: Any, cohorts: list[Cohort]) -> pd.DataFrame:
    """Stages of each cohort's people by its own fit and by the other's."""
    rows = []
    for name, cohort, own, foreign in (
        ("a", cohorts[0], one, other),
        ("b", cohorts[1], other, one),
    ):
        mine, theirs = own.stage(cohort), foreign.stage(cohort)
        for parameter in ("score", "speed"):
            x, y = mine[parameter].to_numpy(), theirs[parameter].to_numpy()
            pearson = float(np.corrcoef(x, y)[0, 1])
            centre, reach = np.arctanh(np.clip(pearson, -1 + 1e-12, 1 - 1e-12)), np.nan
            if len(x) > 3:
                reach = 1.96 / np.sqrt(len(x) - 3)
            rows.append(
                {
                    "cohort": name,
                    "parameter": parameter,
                    "pearson": pearson,
                    "low": float(np.tanh(centre - reach)),
                    "high": float(np.tanh(centre + reach)),
                    "spearman": float(stats.spearmanr(x, y).statistic),
                    "n": len(x),
                }
            )
    return pd.DataFrame(rows)


def _p_words(p_value: Any) -> str:
    return "p < .001" if p_value < 0.001 else f"p = {p_value:.3f}".replace("0.", ".", 1)
