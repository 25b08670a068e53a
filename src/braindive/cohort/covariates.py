"""Covariates of people: columns of a cohort's table with one value for each subject."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from braindive.arrays import Array
from braindive.cohort.cohort import Cohort
from braindive.cohort.table_columns import find_column, has_column
from braindive.errors import CohortError, DataWarning, ParameterError

# Fewest subjects of a category: with fewer its effect is that of single people. A choice.
_FEWEST = 2


@dataclass(frozen=True)
class SubjectCovariate:
    """How a column of the table becomes numbers, learnt from the training cohort.

    Parameters
    ----------
    name : str
        Of the column.
    means, sds : (n_columns,)
        Of the numbers over the training subjects: they enter the model standardised.
    levels : tuple of str or None
        Categories, the first of which the others are compared with; None for a number.
    """

    name: str
    means: Array
    sds: Array
    levels: tuple[str, ...] | None

    @property
    def contrasts(self) -> list[str]:
        """What each column compares, in words."""
        if self.levels is None:
            return ["per 1"]
        return [f"{level} against {self.levels[0]}" for level in self.levels[1:]]

    def encode(self, values: pd.Series) -> Array:
        """Numbers of each subject, (n_subjects, n_columns), NaN where they are not known.

        Parameters
        ----------
        values : Series
            One value for each subject.
        """
        if self.levels is None:
            numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float)
            raw = np.where(np.isfinite(numbers), numbers, np.nan)[:, None]
        else:
            names = _as_names(values)
            raw = np.stack([(names == level).astype(float) for level in self.levels[1:]], axis=1)
            raw[~np.isin(names.astype(str), self.levels)] = np.nan
        return np.asarray((raw - self.means) / self.sds)


def learn_covariates(cohort: Cohort, names: Any, argument: str) -> tuple[SubjectCovariate, ...]:
    """Learn how columns of the training cohort's table become numbers.

    Parameters
    ----------
    cohort : Cohort
        The training cohort.
    names : str or sequence of str
        Columns.
    argument : str
        What the user calls them, for what is refused.

    Returns
    -------
    tuple of SubjectCovariate

    Examples
    --------
    >>> import numpy as np, pandas as pd, braindive as bd
    >>> from braindive.cohort.covariates import learn_covariates
    >>> table = pd.DataFrame({"sex": ["f", "f", "m", "m", "f", "m"]})
    >>> cohort = bd.Cohort(np.eye(6), subjects=list("aabbcd"), times=range(6), table=table)
    >>> learn_covariates(cohort, ["sex"], "shift_on")[0].contrasts
    ['m against f']
    """
    found = []
    for written in check_names(names, argument):
        name = find_column(cohort.table, written, argument, CohortError)
        values = subject_values(cohort, name, argument)
        absent = values[values.isna()].index
        if len(absent):
            raise CohortError(
                f"{argument}: {name!r} is missing for {len(absent)} subjects, the first of them "
                f"{absent[0]!r}; fill it in, or leave these subjects out with cohort.select(...)."
            )
        found.append(_learn(name, values, argument))
    return tuple(found)


def _learn(name: str, values: pd.Series, argument: str) -> SubjectCovariate:
    if values.nunique() < 2:
        raise CohortError(
            f"{argument}: {name!r} is the same for all {len(values)} subjects, so it explains "
            "nothing; leave it out."
        )
    if _is_number(values):
        numbers = values.to_numpy(dtype=float)
        if not np.isfinite(numbers).all():
            raise CohortError(f"{argument}: {name!r} has infinite values; correct them.")
        covariate = SubjectCovariate(name, np.zeros(1), np.ones(1), None)
    else:
        names = _as_names(values)
        given = values.dtype
        levels = (
            [str(level) for level in given.categories if str(level) in set(names)]
            if isinstance(given, pd.CategoricalDtype)
            else list(dict.fromkeys(names[np.argsort(values.to_numpy(), kind="stable")]))
        )
        counts = {level: int(np.sum(names == level)) for level in levels}
        rare = [level for level, count in counts.items() if count < _FEWEST]
        if rare:
            raise CohortError(
                f"{argument}: only {counts[rare[0]]} subject has {name!r} = {rare[0]!r}; merge "
                "categories, or leave such subjects out."
            )
        covariate = SubjectCovariate(
            name, np.zeros(len(levels) - 1), np.ones(len(levels) - 1), tuple(levels)
        )
    raw = covariate.encode(values)
    return SubjectCovariate(name, raw.mean(axis=0), raw.std(axis=0), covariate.levels)


def design_columns(cohort: Cohort, covariates: Sequence[SubjectCovariate]) -> Array:
    """Standardised covariates of each subject, (n_subjects, n_columns).

    Who has no value, or one that the training cohort did not have, counts as usual: 0.
    """
    if not covariates:
        return np.zeros((cohort.n_subjects, 0))
    columns, unknown = [], []
    for covariate in covariates:
        width = len(covariate.means)
        if not has_column(cohort.table, covariate.name):
            columns.append(np.full((cohort.n_subjects, width), np.nan))
        else:
            columns.append(covariate.encode(subject_values(cohort, covariate.name, "staging")))
        absent = int(np.isnan(columns[-1]).any(axis=1).sum())
        if absent:
            unknown.append(f"{covariate.name!r} of {absent}")
    if unknown:
        warnings.warn(
            "the model knows effects of covariates that are not known here "
            f"({' and '.join(unknown)} subjects); these people are taken for usual ones.",
            DataWarning,
            stacklevel=4,
        )
    return np.asarray(np.nan_to_num(np.concatenate(columns, axis=1)))


def check_independent(columns: Array, names: Sequence[str], argument: str) -> None:
    """Refuse covariates of which one follows from the others."""
    full = np.column_stack([np.ones(len(columns)), columns])
    if np.linalg.matrix_rank(full, tol=1e-8 * np.sqrt(len(full))) < full.shape[1]:
        raise CohortError(
            f"{argument}: {', '.join(dict.fromkeys(names))} say the same of the subjects, so their "
            "effects cannot be told apart; leave one out."
        )


def check_names(names: Any, argument: str) -> tuple[str, ...]:
    """Names of columns, from one or several."""
    given = (names,) if isinstance(names, str) else names
    listed = None if given is None else list(given) if isinstance(given, Sequence) else None
    if given is None:
        return ()
    if listed is None or not all(isinstance(name, str) for name in listed):
        raise ParameterError(
            f'{argument} must be names of columns of the table, such as ["apoe4"]; got {names!r}.'
        )
    twice = sorted({name for name in listed if listed.count(name) > 1})
    if twice:
        raise ParameterError(f"{argument} names {twice[0]!r} twice.")
    return tuple(listed)


def subject_values(cohort: Cohort, name: str, argument: str) -> pd.Series:
    """One value of a column for each subject, in the order of `cohort.subject_ids`."""
    visits = cohort.table[find_column(cohort.table, name, argument, CohortError)]
    if not pd.api.types.is_numeric_dtype(visits):
        visits = visits.replace("n/a", np.nan)
    groups = visits.groupby(cohort.subject_index, sort=True, observed=True)
    several = np.flatnonzero(groups.nunique().to_numpy() > 1)
    if len(several):
        who = cohort.subject_ids[several[0]]
        own = visits[cohort.subjects == who].dropna().unique()[:2]
        raise CohortError(
            f"{argument}: {name!r} changes between visits of {len(several)} subjects (of {who!r} "
            f"it is {own[0]} and {own[1]}); a covariate has one value for each person, such as "
            "that of the first visit."
        )
    return pd.Series(groups.first().array, index=cohort.subject_ids, name=name)


def _is_number(values: pd.Series) -> bool:
    """Whether a column is a quantity; two numbers, such as 0 and 1, are two categories."""
    number = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    return bool(number and values.nunique() > 2)


def _as_names(values: pd.Series) -> np.ndarray[Any, Any]:
    """Categories as text; a whole number is the same whether it was read as 3 or as 3.0."""
    return np.array(
        [
            str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
            for value in values
        ],
        dtype=object,
    )
