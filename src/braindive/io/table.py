"""The table of scans: its columns and its numbers."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd

from braindive.arrays import Array
from braindive.cohort import Cohort
from braindive.cohort.table_columns import simple, suggest
from braindive.errors import CohortError, ParameterError
from braindive.io.columns import find_named, shorten
from braindive.io.controls import CONTROL_WORDS, one_spelling
from braindive.io.numbers import has_decimal_commas, to_numbers, with_point
from braindive.io.paths import PathLike
from braindive.io.problems import Problems
from braindive.io.region_columns import find_region_columns, name_regions
from braindive.io.region_tables import refuse_bare_table
from braindive.io.sheets import MISSING, open_sheet
from braindive.io.sides import side_of_name
from braindive.io.study_columns import copy_columns, name_columns, no_participants, say_naming
from braindive.space import Regions, Space

_log = logging.getLogger("braindive")
_VERTEX = re.compile(r"vertex_\d+")
# Columns whose entries stay as they are, whatever they look like.
_NEVER_NUMBERS = ("participant_id", "session_id", "diagnosis")


@dataclass(frozen=True)
class StudyTable:
    """A table of scans as text.

    Attributes
    ----------
    source : str
        Name, for people.
    file : Path or None
        The table, if it is a file.
    text : DataFrame
        All columns but those with measurements; missing entries are empty.
    files : tuple of str
        Columns with file names: ("left", "right"), one of them, or ("path",).
    numbers : (n_visits, n_vertices) float32 or None
        Measurements that are in the table itself.
    regions : Regions or None
        What these measurements are of, where their columns have names and nobody gave a space.
    """

    source: str
    file: Path | None
    text: pd.DataFrame
    files: tuple[str, ...]
    numbers: Array | None
    regions: Regions | None = None


def read_table(
    table: PathLike | pd.DataFrame,
    space: Space | None,
    values: str | Sequence[str] | None,
    problems: Problems,
    *,
    id: str | None = None,  # noqa: A002
    elsewhere: bool = False,
) -> StudyTable:
    """Read a table of scans and find out where its measurements are.

    What is wrong is noted, and as much as can be is read.

    Parameters
    ----------
    table, space, values, id
        As for `read_cohort`.
    problems : Problems
        Takes what is wrong.
    elsewhere : bool
        Whether the measurements are found by other means than this table.
    """
    if not isinstance(table, (str, os.PathLike, pd.DataFrame)):
        raise ParameterError(_no_table(table))
    sheet, file = None, None
    if isinstance(table, pd.DataFrame):
        source, given = "the table", [str(name) for name in table.columns]
    else:
        file = Path(os.fspath(table)).expanduser().absolute()
        sheet = open_sheet(file)
        source, given = file.name, sheet.names
    problems.source = source
    given = [name or f"unnamed {number}" for number, name in enumerate(given, start=1)]
    try:
        naming = name_columns(given, id, source)
    except CohortError as error:
        problems.tell(error)
        naming = name_columns(given, None, source)
    names = naming.names
    problems.called = {new: old for new, old in zip(names, given, strict=True) if new != old}
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CohortError(f"{source} has the column {twice[0]!r} more than once.")
    refuse_bare_table(names, source)
    files: list[str] = []
    wide: list[str] = []
    if not elsewhere:
        try:
            asked = _renamed(values, dict(zip(given, names, strict=True)))
            files, wide = _value_columns(names, space, asked, source, given)
        except CohortError as error:
            problems.tell(error)
    if isinstance(table, pd.DataFrame):
        frame = table.reset_index(drop=True)
        frame.columns = pd.Index(names)
    else:
        assert sheet is not None
        frame = sheet.read(names, wide)
    if len(frame) == 0:
        raise CohortError(f"{source} has no rows; it needs one for each scan.")
    if values is not None and not files:
        frame, files, wide = _as_files(frame, files, wide)
    if wide and space is not None and len(wide) != space.n_vertices:
        problems.tell(
            f"{source} has {len(wide)} columns of measurements, but the space {space.name!r} has "
            f"{space.n_vertices} vertices."
        )
    text = frame.drop(columns=wide).astype(object).map(_as_text)
    _note_participants(text, given, problems)
    copy_columns(text, naming, sorted(CONTROL_WORDS))
    say_naming(naming)
    if "diagnosis" in text.columns:
        text["diagnosis"] = one_spelling(text["diagnosis"])
        # The same column may be there under its own name too, for conditions and groups.
        if (own := naming.copies.get("diagnosis")) in text.columns:
            text[own] = text["diagnosis"]
    _write_with_points(text, {*_NEVER_NUMBERS, *files})
    numbers = _numbers(frame[wide], problems) if wide else None
    regions = None
    is_regions = space is None and not all(map(_VERTEX.fullmatch, wide))
    if is_regions and numbers is not None:
        regions, numbers = name_regions(wide, numbers, None if values else names)
    return StudyTable(source, file, text, tuple(files), numbers, regions)


def _note_participants(text: pd.DataFrame, names: Sequence[str], problems: Problems) -> None:
    """See that every row says whose scan it is."""
    if "participant_id" not in text.columns:
        problems.tell(no_participants(names, problems.source))
        text.insert(0, "participant_id", "")
        return
    problems.participants = text["participant_id"].tolist()
    for row, participant in enumerate(problems.participants):
        if not participant:
            problems.add(row, "the row has no participant.", column="participant_id")


def _write_with_points(text: pd.DataFrame, kept: Collection[str]) -> None:
    """Write numbers with decimal commas as all else expects them."""
    changed = []
    for name in text.columns:
        if name not in kept and has_decimal_commas(text[name].tolist()):
            text[name] = text[name].map(with_point)
            changed.append(str(name))
    if changed:
        _log.info("Decimal commas are read in: %s.", shorten(changed))


def _as_files(
    frame: pd.DataFrame, files: list[str], wide: list[str]
) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Take one or two columns that the user named for files, if their entries are no numbers."""
    if len(wide) not in (1, 2):
        return frame, files, wide
    for name in wide:
        entries = frame[name].dropna()
        if len(entries) == 0 or not np.isnan(to_numbers(entries)).all():
            return frame, files, wide
    sides: list[str] = ["left", "right"]
    told = [side_of_name(name) for name in wide]
    if len(wide) == 2:
        sides = [str(side) for side in told] if set(told) == {"left", "right"} else sides
    else:
        sides = [told[0] or "path"]
    others = [name for name in sides if name in frame.columns and name not in wide]
    renamed = frame.drop(columns=others).rename(columns=dict(zip(wide, sides, strict=True)))
    return renamed, sorted(sides), []


def typed_table(text: pd.DataFrame) -> pd.DataFrame:
    """The table with numbers where a whole column is numbers; ids stay text."""
    typed = {}
    for name in text.columns:
        column = text[name].astype(object)
        numbers = pd.to_numeric(column.where(column != "", None), errors="coerce")
        is_number = not (numbers.isna() & (column != "")).any() and bool((column != "").any())
        if name in ("participant_id", "session_id") or not is_number:
            typed[name] = column.where(column != "", None)
        else:
            typed[name] = numbers
    return pd.DataFrame(typed, index=text.index)


def _no_table(given: object) -> str:
    if isinstance(given, Cohort):
        return (
            "this is a Cohort already; to pack it or to keep it as files, write it first, as in "
            'bd.pack_cohort(bd.write_cohort(cohort, folder), "study.zarr").'
        )
    return f"a table is a file or a DataFrame; got {type(given).__name__}."


def _renamed(
    values: str | Sequence[str] | None, names: dict[str, str]
) -> str | Sequence[str] | None:
    """What the user calls columns, under the names that they have here."""
    if values is None or isinstance(values, str):
        return names.get(values, values) if values else values
    return [names.get(value, value) for value in values]


def _value_columns(
    names: list[str],
    space: Space | None,
    values: str | Sequence[str] | None,
    source: str,
    shown: Sequence[str],
) -> tuple[list[str], list[str]]:
    """Columns with file names, or else with the measurements themselves.

    In messages columns have the names of the table itself, `shown`.
    """
    if values is None:
        files = [name for name in ("path",) if name in names]
        files = files or [name for name in ("left", "right") if name in names]
        if files:
            return files, []
        if isinstance(space, Regions):
            absent = [name for name in space.names if name not in names]
            if absent:
                raise CohortError(
                    f"{source} lacks {len(absent)} of {space.n_vertices} region columns: "
                    f"{shorten(absent)}{suggest(absent[0], names)}."
                )
            return [], list(space.names)
        wide = [name for name in names if _VERTEX.fullmatch(name)]
        found = None if wide else find_region_columns(names, source)
        wide = wide if found is None else list(found.regions)
        if not wide:
            raise CohortError(
                f"{source} has no column path, left or right with file names, no regions with "
                "FreeSurfer's names, and no measurements called vertex_0, vertex_1, ...; name "
                f'yours with values= (--values), such as "thickness_*". Its columns are '
                f"{shorten(shown)}."
            )
    elif isinstance(values, str):
        wide = [name for name in names if simple(name) == simple(values) and simple(values)]
        wide = [values] if values in names else wide[:1]
        if wide and wide[0] in ("path", "left", "right"):
            return wide, []
        wide = wide or [name for name in names if fnmatchcase(name.lower(), values.lower())]
        if not wide:
            raise CohortError(
                f"no column of {source} fits values={values!r}{suggest(values, shown)}; its "
                f"columns are {shorten(shown)}."
            )
    else:
        wide = [find_named(name, names, "values", source) for name in values]
        if wide and (set(wide) <= {"left", "right"} or wide == ["path"]):
            return wide, []
    if isinstance(space, Regions) and set(wide) == set(space.names):
        wide = list(space.names)
    return [], wide


def _numbers(frame: pd.DataFrame, problems: Problems) -> Array:
    """Measurements of a wide table; cells that are no numbers are noted."""
    numbers = np.empty(frame.shape, dtype=np.float32)
    for position, name in enumerate(frame.columns):
        column = frame[name]
        parsed = to_numbers(column)
        if column.dtype.kind not in "fiu":
            for row in np.flatnonzero(np.isnan(parsed) & column.notna().to_numpy()):
                problems.add(
                    int(row), f"{column.iloc[int(row)]!r} is not a number.", column=str(name)
                )
        too_large = np.isfinite(parsed) & (np.abs(parsed) > np.finfo(np.float32).max)
        for row in np.flatnonzero(too_large):
            entry = column.iloc[int(row)]
            problems.add(int(row), f"{entry} is too large for a measurement.", column=str(name))
        numbers[:, position] = np.where(too_large, np.nan, parsed)
    return numbers


def _as_text(entry: object) -> str:
    if entry is None or entry is pd.NA or (isinstance(entry, float) and np.isnan(entry)):
        return ""
    text = str(entry).strip()
    return "" if text in MISSING else text
