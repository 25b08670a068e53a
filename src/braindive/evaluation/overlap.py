"""Do parcellations of different subjects agree?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from braindive.arrays import Array, BoolArray, IntArray
from braindive.checks import check_seed
from braindive.cohort import Cohort
from braindive.errors import ParameterError
from braindive.evaluation.folds import Ids, split_subjects
from braindive.evaluation.matching import match_clusters
from braindive.evaluation.parallel import Report, run_tasks


def cluster_overlap(first: ArrayLike, second: ArrayLike) -> Array:
    """Dice overlap of the clusters of two parcellations after matching them.

    Parameters
    ----------
    first, second : (n_vertices,) int
        Labels 0, 1, 2, ...

    Returns
    -------
    (n_clusters,)
        For each cluster of `first`: twice the vertices it shares with the cluster of `second`
        that matches it, over the vertices of both; 0 where none matches.

    Examples
    --------
    >>> import braindive as bd
    >>> bd.cluster_overlap([0, 0, 1, 1], [1, 1, 1, 0]).round(3).tolist()
    [0.8, 0.667]
    """
    one, other = np.asarray(first), np.asarray(second)
    permutation = match_clusters(other, one).permutation
    dice = np.zeros(len(permutation))
    for cluster, match in enumerate(permutation):
        if match >= 0:
            dice[cluster] = _dice(one == cluster, other == match)
    return dice


def parcellation_agreement(first: IntArray, second: IntArray) -> tuple[float, float]:
    """Adjusted Rand index, and Dice overlap after matching averaged over clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.evaluation.overlap import parcellation_agreement
    >>> parcellation_agreement(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    (1.0, 1.0)
    """
    occupied = np.unique(first)
    dice = cluster_overlap(first, second)[occupied]
    return float(adjusted_rand_score(first, second)), float(dice.mean())


def fold_overlap(
    cohort: Cohort,
    model: Any,
    n_folds: int = 10,
    *,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    progress: Report | None = None,
) -> pd.DataFrame:
    """Fit a model without each fold in turn, and see how well the clusters overlap.

    Parameters
    ----------
    cohort : Cohort
        Subjects to deal into folds.
    model : DIVE
        Not fitted; it is copied.
    n_folds : int
        Number of folds.
    n_jobs : int, optional
        Workers.
    random_state : int, RandomState or None
        Seed of the folds.
    progress : callable, optional
        Called with the number of finished fits and of all.

    Returns
    -------
    DataFrame
        One row for each cluster, numbered from 1: mean, standard deviation and minimum of its Dice
        overlap over all pairs of folds, after matching their clusters.

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(
    ...     n_subjects=40, n_vertices=60, noise=0.3, control_share=0.3, random_state=0
    ... ).cohort
    >>> model = bd.DIVE(n_clusters=3, n_init=1, random_state=0)
    >>> table = bd.fold_overlap(cohort, model, n_folds=3, random_state=0)
    >>> bool((table["dice"] > 0.8).all())
    True
    """
    seed = check_seed(random_state).randint(2**31)
    folds = split_subjects(cohort, n_folds, seed)
    tasks = [(model, cohort, fold) for fold in folds]
    return overlap_table(run_tasks(_labels_without, tasks, n_jobs, progress))


def overlap_table(parcellations: Sequence[IntArray]) -> pd.DataFrame:
    """Dice overlap of each cluster of the first parcellation over all pairs of them."""
    if len(parcellations) < 2:
        raise ParameterError("two parcellations are needed to overlap.")
    reference = parcellations[0]
    n_clusters = int(max(labels.max() for labels in parcellations)) + 1
    aligned = [_aligned(labels, reference, n_clusters) for labels in parcellations]
    pairs = [
        [_dice(first == cluster, second == cluster) for cluster in range(n_clusters)]
        for first, second in combinations(aligned, 2)
    ]
    return pd.DataFrame(
        {
            "dice": np.mean(pairs, axis=0),
            "dice_sd": np.std(pairs, axis=0, ddof=1) if len(pairs) > 1 else np.nan,
            "dice_min": np.min(pairs, axis=0),
            "n_vertices": np.bincount(reference, minlength=n_clusters),
        },
        index=pd.RangeIndex(1, n_clusters + 1, name="cluster"),
    )


def _aligned(labels: IntArray, reference: IntArray, n_clusters: int) -> IntArray:
    """Labels renumbered like the clusters of the reference that they match."""
    one_hot = np.eye(n_clusters)
    permutation = match_clusters(one_hot[labels], reference).permutation
    new = np.full(n_clusters, -1)
    matched = permutation >= 0
    new[permutation[matched]] = np.flatnonzero(matched)
    spare = np.setdiff1d(np.arange(n_clusters), new)
    new[new < 0] = spare
    return np.asarray(new[labels])


def _dice(first: BoolArray, second: BoolArray) -> float:
    size = float(first.sum() + second.sum())
    return 2 * float(np.sum(first & second)) / size if size else 0.0


def _labels_without(model: Any, cohort: Cohort, subjects: Ids) -> IntArray:
    out = set(subjects)
    keep = np.array([subject not in out for subject in cohort.subjects])
    fitted = clone(model).set_params(personal=False).fit(cohort.select(visits=keep))
    return np.asarray(fitted.labels_)
