"""The columns of a study's table under the names that everything else knows them by."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from braindive.cohort.table_columns import simple, suggest
from braindive.errors import CohortError
from braindive.io.columns import (
    find_columns,
    find_named,
    is_variant,
    shorten,
)
from braindive.io.paths import PathLike
from braindive.io.sheets import read_text_table

_log = logging.getLogger("braindive")
# The table goes on under these names alone; of other columns a copy gets the known name.
_RENAMED = ("participant_id", "left", "right")
_COPIED = ("session_id", "diagnosis")
# Where more rows than this repeat a visit of their person, a column does not tell visits apart.
_REPEATED = 0.2


@dataclass(frozen=True)
class Naming:
    """What the columns of a table are called from here on.

    Attributes
    ----------
    names : list of str
        Of all columns, in their order.
    copies : dict of str to str
        Columns that are there under one more name: the known name, and theirs.
    notes : list of str
        What was taken for what, for people.
    """

    names: list[str]
    copies: dict[str, str]
    notes: list[str]


def name_columns(names: Sequence[str], id: str | None, source: str) -> Naming:  # noqa: A002
    """Give columns their known names.

    Parameters
    ----------
    names : sequence of str
        Columns of the table.
    id : str or None
        The column with the participants, where the user names it.
    source : str
        Name of the table, for people.

    Examples
    --------
    >>> from braindive.io.study_columns import name_columns
    >>> naming = name_columns(["Subject ID", "Age", "visit"], None, "study.csv")
    >>> naming.names, naming.copies
    (['participant_id', 'age', 'visit'], {'session_id': 'visit'})
    """
    found = find_columns(names)
    if id is not None:
        found["participant_id"] = find_named(id, names, "id", source)
    known = {name: meaning for meaning, name in found.items()}
    renamed, copies, notes = [], {}, []
    for name in names:
        meaning = known.get(name, "")
        if meaning and (is_variant(name, meaning) or meaning in _RENAMED):
            renamed.append(meaning)
            if name != meaning:
                notes.append(f"{name!r} as {meaning}")
        else:
            if name == "participant_id":  # the user has named another column
                name = "participant_id of the table"
            renamed.append(name)
            if meaning in _COPIED:
                copies[meaning] = name
    return Naming(renamed, copies, notes)


def copy_columns(text: pd.DataFrame, naming: Naming, control_words: Sequence[str] = ()) -> None:
    """Add the columns that are there under one more name, where their entries make sense of it.

    Parameters
    ----------
    text : DataFrame of text
        The table, with `participant_id`; columns are added.
    naming : Naming
        From `name_columns`.
    control_words : sequence of str
        Words of which a diagnosis has at least one.
    """
    for meaning, name in naming.copies.items():
        if meaning == "session_id":
            visits = text[["participant_id", name]]
            few = visits.duplicated().mean() <= _REPEATED
            makes_sense = bool(few and (text[name] != "").any())
        else:
            words = {simple(word) for word in control_words}
            makes_sense = bool(text[name].map(simple).isin(words).any())
        if makes_sense:
            text[meaning] = text[name]
            naming.notes.append(f"{name!r} as {meaning}")


def say_naming(naming: Naming) -> None:
    """Note what was taken for what."""
    if naming.notes:
        _log.info("Columns are read as: %s.", ", ".join(naming.notes))


def no_participants(names: Sequence[str], source: str) -> str:
    """Say that nobody knows whose scans these are."""
    likely = suggest("participant_id", names) or suggest("subject_id", names)
    return (
        f"{source} has no column participant_id{likely}; call it so, or Subject ID, PTID or RID, "
        f"or name yours with id= (--id on the command line). Its columns are {shorten(names)}."
    )


def read_visits(
    table: PathLike | pd.DataFrame,
    id: str | None = None,  # noqa: A002
) -> tuple[pd.DataFrame, str]:
    """Read a table of visits, whose measurements lie elsewhere.

    Parameters
    ----------
    table : path or DataFrame
        One row per visit.
    id : str, optional
        Column with the participants.

    Returns
    -------
    visits : DataFrame
        With `participant_id`. Text, unless it was a DataFrame.
    source : str
        Name of the table, for people.
    """
    if isinstance(table, pd.DataFrame):
        visits, source = table.reset_index(drop=True), "the table"
    else:
        path = Path(os.fspath(table)).expanduser()
        visits, source = read_text_table(path), path.name
    naming = name_columns([str(name) for name in visits.columns], id, source)
    if "participant_id" not in naming.names:
        raise CohortError(no_participants(naming.names, source))
    visits.columns = pd.Index(naming.names)
    if "session_id" in naming.copies:
        as_text = visits[["participant_id", naming.copies["session_id"]]].astype(str)
        copied = Naming(naming.names, {"session_id": naming.copies["session_id"]}, naming.notes)
        copy_columns(as_text, copied)
        if "session_id" in as_text.columns:
            visits = visits.assign(session_id=as_text["session_id"])
    say_naming(naming)
    return visits, source


def meaning_of(name: str) -> str:
    """What a column is meant to be by its name, or nothing.

    Examples
    --------
    >>> from braindive.io.study_columns import meaning_of
    >>> meaning_of("EXAMDATE"), meaning_of("Age"), meaning_of("MMSE")
    ('acq_time', 'age', '')
    """
    return next(iter(find_columns([name])), "")
