"""The table of scans: its columns, its controls and its numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd

from braindive.arrays import Array, BoolArray
from braindive.cohort import Cohort
from braindive.errors import CohortError, ParameterError
from braindive.io.bids import MISSING
from braindive.io.paths import PathLike, suggest_path
from braindive.io.problems import Problems
from braindive.io.region_columns import find_region_columns, name_regions
from braindive.io.region_tables import refuse_bare_table
from braindive.space import Regions, Space

#: Diagnoses that mean a healthy control, in any case, with spaces, - and _ taken as the same.
CONTROL_WORDS = frozenset(
    {
        "cn", "hc", "nc", "cu", "ctl", "ctrl", "control", "controls", "healthy", "normal",
        "healthy control", "healthy controls", "normal control", "cognitively normal",
        "cognitively unimpaired", "unimpaired",
    }
)  # fmt: skip
_TRUE = {"1", "1.0", "true", "yes", "y", "t"}
_FALSE = {"0", "0.0", "false", "no", "n", "f"}
_VERTEX = re.compile(r"vertex_\d+")
_CONDITION = re.compile(r"^\s*(?P<column>.+?)\s*(?P<sign>==|!=)\s*(?P<value>.+?)\s*$")


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
) -> StudyTable:
    """Read a table of scans and find out where its measurements are."""
    if not isinstance(table, (str, os.PathLike, pd.DataFrame)):
        raise ParameterError(_no_table(table))
    if isinstance(table, pd.DataFrame):
        source, file, names = "the table", None, [str(name) for name in table.columns]
    else:
        file = Path(os.fspath(table)).expanduser().absolute()
        source, names = file.name, _header(file)
    problems.source = source
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CohortError(f"{source} has the column {twice[0]!r} more than once.")
    refuse_bare_table(names, source)
    if "participant_id" not in names:
        raise CohortError(
            f"{source} has no column participant_id{_suggest('participant_id', names)}; its "
            f"columns are {_shorten(names)}."
        )
    files, wide = _value_columns(names, space, values, source)
    is_regions = space is None and bool(wide) and not all(map(_VERTEX.fullmatch, wide))
    if isinstance(table, pd.DataFrame):
        frame = table.reset_index(drop=True)
        frame.columns = pd.Index(names)
    else:
        frame = _read_text(Path(table).expanduser(), names, wide)
    if len(frame) == 0:
        raise CohortError(f"{source} has no rows; it needs one for each scan.")
    text = frame.drop(columns=wide).astype(object).map(_as_text)
    problems.participants = text["participant_id"].tolist()
    for row, participant in enumerate(problems.participants):
        if not participant:
            problems.add(row, "the row has no participant.", column="participant_id")
    numbers = _numbers(frame[wide], problems) if wide else None
    regions = None
    if is_regions and numbers is not None:
        regions, numbers = name_regions(wide, numbers, None if values else names)
    return StudyTable(source, file, text, tuple(files), numbers, regions)


def find_controls(text: pd.DataFrame, controls: str | None, problems: Problems) -> BoolArray | None:
    """Tell which visits are healthy controls'.

    Parameters
    ----------
    text : DataFrame of text
        The table.
    controls : str or None
        A condition such as ``"group == 'HC'"``; a column of true and false, or of diagnoses; by
        default the column `diagnosis`, if there is one.
    problems : Problems
        Takes what is wrong.

    Returns
    -------
    (n_visits,) bool or None
        None where nothing tells.
    """
    if controls is None:
        if "diagnosis" not in text.columns:
            return None
        known = text["diagnosis"].map(_is_control_word).to_numpy(dtype=bool)
        return known if known.any() else None
    condition = _CONDITION.match(controls)
    if condition is not None:
        column, value = condition["column"], condition["value"].strip("'\"")
        _require(column, text.columns.tolist(), "controls", problems.source)
        equal = (text[column] == value).to_numpy(dtype=bool)
        if not equal.any():
            raise CohortError(
                f"no row of {problems.source} has {value!r} in the column {column}; it has "
                f"{_shorten(sorted(set(text[column])))}."
            )
        return equal if condition["sign"] == "==" else ~equal
    _require(controls, text.columns.tolist(), "controls", problems.source)
    lowered = text[controls].str.lower()
    if lowered.isin(_TRUE | _FALSE | {""}).all():
        return lowered.isin(_TRUE).to_numpy(dtype=bool)
    known = text[controls].map(_is_control_word).to_numpy(dtype=bool)
    if not known.any():
        raise CohortError(
            f"the column {controls} of {problems.source} tells no control: it has "
            f"{_shorten(sorted(set(text[controls])))}; say controls=\"{controls} == '...'\"."
        )
    return known


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


def require_column(name: str, table: StudyTable, option: str) -> None:
    """Raise an error that helps if the user names a column that is not there."""
    _require(name, table.text.columns.tolist(), option, table.source)


def _no_table(given: object) -> str:
    if isinstance(given, Cohort):
        return (
            "this is a Cohort already; to pack it or to keep it as files, write it first, as in "
            'bd.pack_cohort(bd.write_cohort(cohort, folder), "study.zarr").'
        )
    return f"a table is a file or a DataFrame; got {type(given).__name__}."


def _header(path: Path) -> list[str]:
    if not path.is_file():
        raise CohortError(f"there is no table {path}{suggest_path(path)}.")
    try:
        head = pd.read_csv(
            path, sep=_separator(path), header=None, nrows=1, dtype=str, encoding="utf-8-sig",
            keep_default_na=False,
        )  # fmt: skip
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise CohortError(f"{path} cannot be read as a table: {error}.") from None
    return [str(name).strip() for name in head.iloc[0]]


def _separator(path: Path) -> str:
    return "," if path.suffix.lower() == ".csv" else "\t"


def _read_text(path: Path, names: list[str], wide: list[str]) -> pd.DataFrame:
    measured = set(wide)
    try:
        return pd.read_csv(
            path,
            sep=_separator(path),
            header=0,
            names=names,
            index_col=False,
            dtype={name: str for name in names if name not in measured},
            keep_default_na=False,
            na_values={name: list(MISSING) for name in wide},
            low_memory=False,
            encoding="utf-8-sig",
        )
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise CohortError(f"{path} cannot be read as a table: {error}.") from None


def _value_columns(
    names: list[str], space: Space | None, values: str | Sequence[str] | None, source: str
) -> tuple[list[str], list[str]]:
    """Columns with file names, or else with the measurements themselves."""
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
                    f"{_shorten(absent)}{_suggest(absent[0], names)}."
                )
            return [], list(space.names)
        wide = [name for name in names if _VERTEX.fullmatch(name)]
        found = None if wide else find_region_columns(names, source)
        wide = wide if found is None else list(found.regions)
        if not wide:
            raise CohortError(
                f"{source} has no column path, left or right with file names, no regions with "
                "FreeSurfer's names, and no measurements called vertex_0, vertex_1, ...; name "
                f'yours with values=, such as "thickness_*". Its columns are {_shorten(names)}.'
            )
    elif isinstance(values, str):
        if values in ("path", "left", "right"):
            _require(values, names, "values", source)
            return [values], []
        wide = [name for name in names if fnmatchcase(name, values)]
        if not wide:
            raise CohortError(
                f"no column of {source} fits values={values!r}{_suggest(values, names)}; its "
                f"columns are {_shorten(names)}."
            )
    else:
        wide = list(values)
        for name in wide:
            _require(name, names, "values", source)
        if wide and set(wide) <= {"left", "right"}:
            return wide, []
    if space is not None and len(wide) != space.n_vertices:
        raise CohortError(
            f"{source} has {len(wide)} columns of measurements, but the space {space.name!r} has "
            f"{space.n_vertices} vertices."
        )
    if isinstance(space, Regions) and set(wide) == set(space.names):
        wide = list(space.names)
    return [], wide


def _numbers(frame: pd.DataFrame, problems: Problems) -> Array:
    """Measurements of a wide table; cells that are no numbers are noted."""
    numbers = np.empty(frame.shape, dtype=np.float32)
    for position, name in enumerate(frame.columns):
        column = frame[name]
        if column.dtype.kind not in "fiu":
            parsed = pd.to_numeric(column, errors="coerce")
            for row in np.flatnonzero((parsed.isna() & column.notna()).to_numpy()):
                problems.add(
                    int(row), f"{column.iloc[int(row)]!r} is not a number.", column=str(name)
                )
            column = parsed
        numbers[:, position] = column.to_numpy(dtype=np.float64)
    return numbers


def _as_text(entry: object) -> str:
    if entry is None or entry is pd.NA or (isinstance(entry, float) and np.isnan(entry)):
        return ""
    text = str(entry).strip()
    return "" if text in MISSING else text


def _is_control_word(text: str) -> bool:
    return " ".join(re.split(r"[\s_-]+", text.lower())) in CONTROL_WORDS


def _require(name: str, names: Sequence[str], option: str, source: str) -> None:
    if name not in names:
        raise CohortError(
            f"{option} names the column {name!r}, but {source} has none{_suggest(name, names)}; "
            f"its columns are {_shorten(names)}."
        )


def _suggest(name: str, names: Sequence[str]) -> str:
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _shorten(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
