"""Sites of a cohort's visits: a column of its table, checked, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from braindive.arrays import IntArray
from braindive.cohort.checks import visits_of
from braindive.cohort.cohort import Cohort
from braindive.cohort.table_columns import find_column, suggest
from braindive.errors import CohortError, ParameterError

# Visits below which little is learnt of a site: it is warned of, and not added to a fitted model.
# A choice.
LEAST_VISITS = 5


def site_names(cohort: Cohort, column: Any) -> np.ndarray[Any, Any]:
    """Name of the site of every visit, in the order of the cohort.

    Parameters
    ----------
    cohort : Cohort
        With a table.
    column : str
        Of the table.

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.cohort.sites import site_names
    >>> cohort = bd.simulate_cohort(6, 1, n_vertices=3, sites=2, random_state=0).cohort
    >>> sorted(set(site_names(cohort, "site")))
    ['site 1', 'site 2']
    """
    if not isinstance(column, str):
        raise ParameterError(f"sites must be the name of a column of the table; got {column!r}.")
    column = find_column(cohort.table, column, "sites", CohortError)
    found = cohort.table[column]
    empty = found.isna().to_numpy()
    if empty.any():
        who = visits_of(cohort.subjects, cohort.times, np.flatnonzero(empty).tolist())
        raise CohortError(
            f"sites: {column!r} is empty for {empty.sum()} "
            f"{'visit' if empty.sum() == 1 else 'visits'}: {who}; fill it in, or leave these "
            "visits out."
        )
    return name_sites(found)


def name_sites(column: pd.Series) -> np.ndarray[Any, Any]:
    """Names of sites as text."""
    return np.array([_name(value) for value in column], dtype=object)


def _name(value: Any) -> str:
    """Sites may be numbers, which are the same with and without a decimal point."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def check_sites(cohort: Cohort, column: Any) -> tuple[str, ...]:
    """Names of all sites of a training cohort, sorted; there must be two at least."""
    names = site_names(cohort, column)
    counts = pd.Series(names).value_counts().sort_index()
    if len(counts) == 1:
        raise CohortError(
            f"sites: all visits are from {counts.index[0]!r}; fit without sites, there is nothing "
            "to tell apart."
        )
    return tuple(map(str, counts.index))


def small_sites(cohort: Cohort, column: str) -> list[str]:
    """Sites with few visits."""
    counts = pd.Series(site_names(cohort, column)).value_counts().sort_index()
    return [str(name) for name in counts.index[counts < LEAST_VISITS]]


def site_codes(cohort: Cohort, column: str, names: Sequence[str]) -> IntArray:
    """Site of each visit among known ones, visits in canonical order."""
    found = site_names(cohort, column)
    place = {name: number for number, name in enumerate(names)}
    unknown = sorted({name for name in found if name not in place})
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise CohortError(
            f"the model does not know the site {unknown[0]!r}{more} in {column!r}"
            f"{suggest(unknown[0], names)}; it knows {', '.join(names)}. Teach it the site with "
            "model.add_site(cohort), or braindive add-site, from about ten controls who were seen "
            "there."
        )
    return np.array([place[name] for name in found], dtype=int)[cohort.canonical_order]


def untold_sites(cohort: Cohort, column: str, names: Sequence[str]) -> list[str]:
    """Sites whose offsets nothing tells apart from the stages of their people.

    These are sites without controls at which nobody was seen who was also seen elsewhere.
    """
    found = site_names(cohort, column)
    table = pd.DataFrame({"site": found, "subject": cohort.subjects})
    moved = table.drop_duplicates().groupby("subject").size() > 1
    told = set(table["site"][table["subject"].map(moved)])
    if cohort.controls is not None:
        told |= set(found[cohort.controls])
    return [name for name in names if name not in told]
