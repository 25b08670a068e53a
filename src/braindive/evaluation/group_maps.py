"""Maps of groups of people as they were measured: means, differences and changes per year."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from braindive.arrays import Array
from braindive.cohort import Cohort
from braindive.cohort.cohort import check_cohort
from braindive.cohort.table_columns import find_column
from braindive.errors import CohortError, ParameterError
from braindive.values.walking import vertex_blocks

GroupMap = Literal["mean", "difference", "slope"]
_SHOWN: tuple[GroupMap, ...] = ("mean", "difference", "slope")


def group_maps(
    cohort: Cohort, by: str = "diagnosis", show: GroupMap = "mean", reference: Any = None
) -> pd.DataFrame:
    """Map of each group of visits, without any model.

    Parameters
    ----------
    cohort : Cohort
        In memory or on disk; it is read once.
    by : str
        Column of the cohort's table. Visits without a value are left out.
    show : {"mean", "difference", "slope"}
        The mean of a group's people, each of whom counts once however often it was seen; its
        difference from the mean of the reference group; or the change per year within its people,
        by least squares with a level of its own for each of them.
    reference : optional
        Group to take differences from; the group of the controls by default.

    Returns
    -------
    DataFrame
        One row for each group, one column for each vertex; NaN where a group has no value.

    Examples
    --------
    >>> import numpy as np, pandas as pd, braindive as bd
    >>> cohort = bd.Cohort(
    ...     np.array([[1.0], [3.0], [5.0], [5.0]]),
    ...     subjects=["a", "a", "b", "b"],
    ...     times=[0, 1, 0, 2],
    ...     table=pd.DataFrame({"diagnosis": ["AD", "AD", "CN", "CN"]}),
    ... )
    >>> bd.group_maps(cohort, show="slope")[0].to_dict()
    {'AD': 2.0, 'CN': 0.0}
    """
    check_cohort(cohort)
    if show not in _SHOWN:
        raise ParameterError(f"show must be one of {', '.join(_SHOWN)}; got {show!r}.")
    groups = _groups_of_visits(cohort, by)
    names = sorted(groups.dropna().unique(), key=lambda name: (str(type(name)), name))
    origin = _reference_of(cohort, groups, names, reference) if show == "difference" else None
    found = np.full((len(names), cohort.n_vertices), np.nan)
    visits = [np.flatnonzero((groups == name).to_numpy()) for name in names]
    subjects = [pd.factorize(cohort.subjects[mine])[0] for mine in visits]
    for where, block in vertex_blocks(cohort.stored, cohort.rows):
        for row, (mine, whose) in enumerate(zip(visits, subjects, strict=True)):
            values = np.asarray(block[mine], dtype=float)
            if show == "slope":
                found[row, where] = within_slopes(values, whose, cohort.times[mine])
            else:
                found[row, where] = mean_of_subjects(values, whose)
    if origin is not None:
        found -= found[names.index(origin)]
        keep = [row for row, name in enumerate(names) if name != origin]
        found, names = found[keep], [names[row] for row in keep]
    return pd.DataFrame(found, index=pd.Index(names, name=by))


def mean_of_subjects(values: Array, subjects: Array) -> Array:
    """Mean over subjects of their own means, (n_vertices,); what is missing is left out.

    Parameters
    ----------
    values : (n_visits, n_vertices)
        NaN = not measured.
    subjects : (n_visits,) int
        Whose visit it is, from 0.
    """
    sums, counts = _by_subject(np.nan_to_num(values), subjects), _counts(values, subjects)
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    seen = np.isfinite(means).sum(axis=0)
    total = np.nansum(means, axis=0)
    return np.asarray(np.divide(total, seen, out=np.full(len(seen), np.nan), where=seen > 0))


def within_slopes(values: Array, subjects: Array, times: Array) -> Array:
    """Change per year within subjects by least squares, (n_vertices,).

    Every subject has a level of its own at every vertex, taken over the visits that are there.
    NaN where nobody was seen twice.
    """
    observed = np.isfinite(values).astype(float)
    known, counts = np.nan_to_num(values), np.maximum(_counts(values, subjects), 1)
    years = observed * times[:, None]
    away_times = observed * (years - (_by_subject(years, subjects) / counts)[subjects])
    away = observed * (known - (_by_subject(known, subjects) / counts)[subjects])
    squares = (away_times**2).sum(axis=0)
    out = np.full(values.shape[1], np.nan)
    covariances = (away_times * away).sum(axis=0)
    return np.asarray(np.divide(covariances, squares, out=out, where=squares > 1e-12))


def _counts(values: Array, subjects: Array) -> Array:
    return _by_subject(np.isfinite(values).astype(float), subjects)


def _by_subject(values: Array, subjects: Array) -> Array:
    """Sums over the visits of each subject, (n_subjects, n_vertices)."""
    sums = np.zeros((int(subjects.max()) + 1, values.shape[1]))
    np.add.at(sums, subjects, values)
    return sums


def _groups_of_visits(cohort: Cohort, by: str) -> pd.Series:
    visits = cohort.table[find_column(cohort.table, by)]
    groups = visits.replace("n/a", np.nan).reset_index(drop=True)
    if groups.isna().all():
        raise ParameterError(f"{by!r} has no value for any visit.")
    return groups


def _reference_of(cohort: Cohort, groups: pd.Series, names: list[Any], reference: Any) -> Any:
    """Group from which differences are taken."""
    if reference is not None:
        if reference not in names:
            raise ParameterError(
                f"there is no group {reference!r}; the groups are {', '.join(map(str, names))}."
            )
        return reference
    if cohort.controls is None:
        raise CohortError(
            "a difference needs controls, and the cohort does not say who is one; name the group "
            "to compare with: reference=..."
        )
    of_controls = groups[cohort.controls].dropna()
    if of_controls.empty:
        raise CohortError("no control has a group; name the group to compare with: reference=...")
    return of_controls.mode().iloc[0]
