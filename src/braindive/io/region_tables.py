"""FreeSurfer's tables of regions (`aparcstats2table`, `asegstats2table`), joined to the visits."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from braindive.errors import CohortError
from braindive.io.freesurfer import visit_names
from braindive.io.paths import PathLike
from braindive.io.problems import Problems
from braindive.io.region_columns import is_summary
from braindive.io.sheets import MISSING
from braindive.io.study_columns import read_visits

# What FreeSurfer calls the column of the visits: the table's own content.
_OF_FREESURFER = re.compile(r"^(lh|rh)\.[\w.]+\.\w+$|^Measure:\w+$|^(lh|rh)\.aparc", re.IGNORECASE)
_NAMES_OF_VISITS = ("fsid", "subject", "subjects", "subject_id", "id")
_SEPARATORS = "\t,; "


def read_region_tables(
    tables: PathLike | Sequence[PathLike],
    visits: PathLike | pd.DataFrame,
    *,
    skip_bad: bool = False,
) -> pd.DataFrame:
    """Join FreeSurfer's tables of regions to a table of visits.

    Parameters
    ----------
    tables : path or sequence of paths
        What ``aparcstats2table`` and ``asegstats2table`` wrote, for one hemisphere or both, any of
        Desikan-Killiany, Destrieux and the segmentation; tabs, commas, semicolons or spaces.
    visits : path or DataFrame
        One row per visit with `participant_id` and a time. The visit's name in FreeSurfer's tables
        is the column `fsid`, or else `<participant_id>_<session_id>`, or `participant_id`; the
        ``.long.<base>`` of the longitudinal stream is found as well.
    skip_bad : bool, default False
        Whether to leave out visits that the tables do not have, with a warning that lists them.

    Returns
    -------
    DataFrame
        The visits with one column for each region, for `read_cohort`.

    Raises
    ------
    CohortError
        Lists every visit that is not found at once.

    Examples
    --------
    >>> import pathlib, tempfile, pandas as pd, braindive as bd
    >>> visits = pd.DataFrame({"participant_id": ["a", "b"], "age": [70, 71]})
    >>> regions = {"lh_insula_thickness": [3.0, 2.8], "lh_cuneus_thickness": [1.9, 1.8]}
    >>> table = pd.DataFrame({"lh.aparc.thickness": ["b", "a"], **regions, "eTIV": 1.5e6})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "lh.csv")
    ...     table.to_csv(path, index=False)
    ...     bd.read_cohort(bd.read_region_tables(path, visits))
    Cohort(2 subjects, 2 visits, 2 vertices on Desikan-Killiany)
    """
    paths = [tables] if isinstance(tables, (str, os.PathLike)) else list(tables)
    if not paths:
        raise CohortError("no table of regions was given.")
    regions = _join([_read(Path(os.fspath(path)).expanduser()) for path in paths])
    rows, source = read_visits(visits)
    both = sorted(set(rows.columns) & set(regions.columns))
    if both:
        raise CohortError(f"{source} has the column {both[0]}, and so has a table of regions.")
    problems = Problems(source, rows["participant_id"].astype(str).tolist())
    found = [
        _find(regions, {str(k): str(v) for k, v in visit.items()}, row, problems)
        for row, visit in enumerate(rows.to_dict("records"))
    ]
    matched = pd.concat([rows, regions.loc[found].reset_index(drop=True)], axis=1)
    if not skip_bad or len(problems.rows) == len(rows):
        problems.raise_if_any()
    problems.warn_of_left_out(stacklevel=3)
    kept = [row for row in range(len(rows)) if row not in problems.rows]
    return matched.iloc[kept].reset_index(drop=True)


def refuse_bare_table(names: Sequence[str], source: str) -> None:
    """Say what to do with a table of FreeSurfer's that was given alone.

    Parameters
    ----------
    names : sequence of str
        Its columns.
    source : str
        Its name, for people.
    """
    if names and "participant_id" not in names and _OF_FREESURFER.match(names[0]):
        raise CohortError(
            f"{source} is a table of regions from FreeSurfer, which does not say when a scan was "
            "taken; give it beside a table of visits (participant_id, age or years, diagnosis), "
            "as in: braindive fit visits.tsv --regions lh.tsv --regions rh.tsv"
        )


def _read(path: Path) -> pd.DataFrame:
    """One table, numbers by the names of the visits."""
    if not path.is_file():
        raise CohortError(f"there is no table of regions {path}.")
    try:
        with path.open(encoding="utf-8-sig") as lines:
            header = lines.readline()
        separator = max(_SEPARATORS, key=header.count)
        table = pd.read_csv(
            path, sep=separator, dtype={0: str}, encoding="utf-8-sig", na_values=list(MISSING),
            skipinitialspace=True, index_col=False,
        )  # fmt: skip
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise CohortError(f"{path} cannot be read as a table: {error}.") from None
    first = str(table.columns[0])
    if not _OF_FREESURFER.match(first) and first.lower() not in _NAMES_OF_VISITS:
        raise CohortError(
            f"{path.name} is not a table of aparcstats2table or asegstats2table: its first column "
            f"is {first!r}, not the names of FreeSurfer's folders."
        )
    table = table.set_index(table[first].astype(str).str.strip().str.rstrip("/")).iloc[:, 1:]
    table.columns = [str(name).strip() for name in table.columns]
    twice = table.index[table.index.duplicated()]
    if len(twice):
        raise CohortError(f"{path.name} has the visit {twice[0]} more than once.")
    for name in table.columns:
        numbers = pd.to_numeric(table[name], errors="coerce")
        odd = numbers.isna() & table[name].notna()
        if odd.any():
            where = int(odd.to_numpy().argmax())
            raise CohortError(
                f"{path.name}: {table[name].iloc[where]!r} of {table.index[where]}, column {name}, "
                "is not a number."
            )
        table[name] = numbers
    table.attrs["file"] = path.name
    return table


def _join(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """All tables side by side; the summaries that each of them repeats are kept once."""
    visits = tables[0].index
    for table in tables[1:]:
        visits = visits.union(table.index, sort=False)
    columns: dict[str, pd.Series] = {}
    for table in tables:
        for name in table.columns:
            if name in columns:
                if is_summary(name):
                    continue
                raise CohortError(
                    f"{table.attrs['file']} has the column {name}, which another table of regions "
                    "has already; give each measure once."
                )
            columns[name] = table[name].reindex(visits)
    return pd.DataFrame(columns, index=visits)


def _find(regions: pd.DataFrame, visit: dict[str, str], row: int, problems: Problems) -> str:
    """Name of a visit in the tables; where there is none the problem is noted."""
    names = visit_names(visit)
    for name in names:
        if name in regions.index:
            return name
        runs = [run for run in regions.index if run.startswith(f"{name}.long.")]
        if len(runs) == 1:
            return str(runs[0])
        if runs:
            problems.add(row, f"{name} is there more than once: {', '.join(runs)}.")
            return str(runs[0])
    cause = "" if visit.get("session_id") or visit.get("fsid") else "`session_id` is missing"
    problems.add(
        row,
        f"no table of regions has {' or '.join(names)}; name it in a column fsid.",
        cause=cause,
    )
    return str(regions.index[0])
