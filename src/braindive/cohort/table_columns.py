"""Columns of a cohort's table by the names that people write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

import pandas as pd

from braindive.errors import BraindiveError, ParameterError


def simple(name: str) -> str:
    """Return a name without case, spaces and punctuation.

    Examples
    --------
    >>> simple("Subject ID"), simple("participant-id")
    ('subjectid', 'participantid')
    """
    return re.sub(r"[\W_]+", "", name.lower())


def suggest(name: str, names: Sequence[str]) -> str:
    """Name that was perhaps meant, as a part of a sentence.

    Examples
    --------
    >>> suggest("agee", ["Age", "sex"])
    " (did you mean 'Age'?)"
    """
    by_lower = {other.lower(): other for other in names}
    close = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f" (did you mean {by_lower[close[0]]!r}?)" if close else ""


def find_column(
    table: pd.DataFrame,
    name: str,
    argument: str = "",
    error: type[BraindiveError] = ParameterError,
) -> str:
    """Return the column that is meant: the one of that name, or the only one of it in any case.

    Parameters
    ----------
    table : DataFrame
        Of a cohort.
    name : str
        What the user wrote.
    argument : str
        What the name was given as, for the message.
    error : type
        What is raised where there is no such column, or more than one.

    Examples
    --------
    >>> import pandas as pd
    >>> from braindive.cohort.table_columns import find_column
    >>> find_column(pd.DataFrame(columns=["age", "Sex"]), "sex")
    'Sex'
    """
    if name in table:
        return name
    names = [str(each) for each in table.columns]
    alike = [each for each in names if simple(each) == simple(str(name)) and simple(each)]
    if len(alike) == 1 and alike[0] in table:
        return alike[0]
    said = f"{argument}: " if argument else ""
    if alike:
        listed = " and ".join(map(repr, alike))
        raise error(f"{said}{name!r} may be {listed} of the cohort's table; write it as there.")
    raise error(
        f"{said}there is no column {name!r} in the cohort's table{suggest(str(name), names)}; its "
        f"columns are {', '.join(names) or 'none'}."
    )


def has_column(table: pd.DataFrame, name: str) -> bool:
    """Whether a table has a column that `find_column` would return."""
    alike = [each for each in table.columns if simple(str(each)) == simple(name)]
    return name in table or len(alike) == 1
