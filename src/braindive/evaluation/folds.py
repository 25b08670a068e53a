"""Splits of a cohort by subject."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold

from braindive.checks import check_count, check_seed
from braindive.cohort import Cohort
from braindive.errors import CohortError, DataWarning, ParameterError

Ids = np.ndarray[Any, np.dtype[np.object_]]


def split_subjects(
    cohort: Cohort,
    n_folds: int,
    random_state: int | np.random.RandomState | None = None,
    smallest: int = 1,
) -> list[Ids]:
    """Deal the subjects into folds, each with its share of every diagnosis.

    Parameters
    ----------
    cohort : Cohort
        Whose subjects to deal. Classes are the `diagnosis` of its table at the first visit, or
        else controls and others.
    n_folds : int
        Number of folds.
    random_state : int, RandomState or None
        Seed.
    smallest : int
        Fewest subjects a fold may have.

    Returns
    -------
    list of (n_test,) arrays
        The subjects of each fold, every subject once.

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.evaluation.folds import split_subjects
    >>> cohort = bd.simulate_cohort(n_subjects=20, n_vertices=5, random_state=0).cohort
    >>> [len(fold) for fold in split_subjects(cohort, 4, random_state=0)]
    [5, 5, 5, 5]
    """
    if check_count("n_folds", n_folds) < 2:
        raise ParameterError("n_folds must be at least 2: one part to test on, the rest to train.")
    if cohort.n_subjects < smallest * n_folds:
        raise CohortError(
            f"{cohort.n_subjects} subjects are too few for {n_folds} folds of at least {smallest}; "
            f"use at most {max(cohort.n_subjects // smallest, 1)} folds, or more subjects."
        )
    classes = subject_classes(cohort)
    counts = classes.value_counts()
    seed = check_seed(random_state).randint(2**31)
    if len(counts) < 2 or counts.max() < n_folds:
        splits = KFold(n_folds, shuffle=True, random_state=seed).split(classes)
    else:
        rare = counts[counts < n_folds]
        if len(rare):
            listed = ", ".join(f"{name!r} ({count})" for name, count in rare.items())
            warnings.warn(
                f"fewer subjects than the {n_folds} folds are of class {listed}: some folds are "
                "without them.",
                DataWarning,
                stacklevel=3,
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # said above, in our words
            stratified = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
            splits = list(stratified.split(np.zeros(len(classes)), classes.to_numpy(dtype=str)))
    folds = [cohort.subject_ids[np.sort(test)] for _, test in splits]
    _check_controls(cohort, folds)
    return folds


def subject_classes(cohort: Cohort) -> pd.Series:
    """Class of each subject at the first visit, indexed by subject: the diagnosis, if known."""
    order = cohort.canonical_order
    first = order[np.flatnonzero(np.diff(cohort.subject_index[order], prepend=-1))]
    if "diagnosis" in cohort.table:
        found = cohort.table["diagnosis"].iloc[first].astype(str).to_numpy()
    elif cohort.controls is not None:
        found = np.where(cohort.controls[first], "control", "other")
    else:
        found = np.full(cohort.n_subjects, "all")
    return pd.Series(found, index=pd.Index(cohort.subject_ids, name="subject"), name="class")


def _check_controls(cohort: Cohort, folds: list[Ids]) -> None:
    if cohort.controls is None or not cohort.controls.any():
        return
    controls = set(cohort.subjects[cohort.controls])
    for number, fold in enumerate(folds):
        if controls <= set(fold):
            raise CohortError(
                f"all {len(controls)} control subjects fall into fold {number}, so that its "
                "training part has none; use more folds or a cohort with more controls."
            )
