"""A cohort as the files of a study: one table, and one map for each scan."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from braindive.arrays import Array
from braindive.cohort import Cohort
from braindive.errors import ParameterError
from braindive.io.formats.base import Writer
from braindive.io.formats.contents import ScalarMaps, divide
from braindive.io.formats.registry import FORMATS, find_writer, user_names
from braindive.io.formats.table import TABLE
from braindive.io.outputs import fill_folder
from braindive.io.paths import PathLike
from braindive.io.plan import ReportProgress
from braindive.io.times import WRITTEN_TIMES, time_column
from braindive.space import Regions
from braindive.values.walking import visit_blocks


def write_cohort(
    cohort: Cohort,
    folder: PathLike,
    format: str = "mgh",  # noqa: A002
    *,
    progress: ReportProgress | None = None,
) -> Path:
    """Write a cohort as ``cohort.tsv`` and one file per scan, for `read_cohort`.

    Parameters
    ----------
    cohort : Cohort
        What to write. Values are written as float32. Times that no column of its table tells are
        written as `years`, or as `visit_years` beside an age that is not the time.
    folder : path
        Where to; made if it is not there.
    format : {"freesurfer", "gifti", "nifti", "table"}
        Maps as FreeSurfer (``.mgh``; "mgh" is the same), GIFTI or NIfTI files, or as columns of
        the table. On a surface there is one file for each hemisphere.
    progress : callable, optional
        Called with "write", scans written so far and their number.

    Returns
    -------
    Path
        The table.

    Examples
    --------
    >>> import tempfile, braindive as bd
    >>> cohort = bd.simulate_cohort(n_subjects=2, n_vertices=5, random_state=0).cohort
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = bd.write_cohort(cohort, folder)
    ...     bd.read_cohort(table)
    Cohort(2 subjects, 8 visits, 5 vertices)
    """
    writer = _check_format(format, cohort)
    target = Path(folder)
    table = _study_table(cohort)
    # Nothing appears under its own name before all of it has been written, and the table, which
    # names the scans, comes last.
    with fill_folder(target, "cohort", last="cohort.tsv") as temporary:
        if writer is None:
            names = _column_names(cohort)
            values = np.asarray(cohort.values, dtype=np.float32)
            measured = pd.DataFrame(values, columns=names)
            table = pd.concat([table, measured.astype(object).where(~np.isnan(values))], axis=1)
        else:
            files = []
            stems = _stems(table)
            for visits, block in visit_blocks(cohort.stored, cohort.rows):
                for stem, scan in zip(stems[visits], block, strict=True):
                    where = temporary / stem
                    files.append(_write_scan(cohort, scan.astype(np.float32), where, writer))
                    if progress is not None:
                        progress("write", len(files), len(stems))
            table = pd.concat([table, pd.DataFrame(files)], axis=1)
        table.to_csv(temporary / "cohort.tsv", sep="\t", index=False, na_rep="n/a")
    return target / "cohort.tsv"


def _check_format(name: str, cohort: Cohort) -> Writer | None:
    """Writer of the format that was asked for; None for columns of the table."""
    writers = {n: known.writer for n, known in FORMATS.items() if known.writer}
    writers = {n: writer for n, writer in writers.items() if writer.scans}
    if name == TABLE.name:
        return None
    known = find_writer(name, writers)
    if known is None:
        names = ", ".join(user_names(writers))
        raise ParameterError(f"format must be {names} or {TABLE.name}; got {name!r}.")
    kind = "regions" if cohort.space is None else cohort.space.kind
    if kind not in writers[known].scans:
        held = writers[known].scans[0].removesuffix("s") + "s"
        what = kind if kind == "regions" else f"a {kind}"
        able = [n for n, writer in writers.items() if kind in writer.scans]
        raise ParameterError(
            f"{name.upper()} holds {held}; write {what} as {', '.join(user_names(able[::-1]))} or "
            f"{TABLE.name}."
        )
    return writers[known]


def _study_table(cohort: Cohort) -> pd.DataFrame:
    """The cohort's table with everything that `read_cohort` looks for."""
    table = cohort.table.drop(columns=["path", "left", "right", "frame", "index"], errors="ignore")
    table["participant_id"] = [str(subject) for subject in cohort.subjects]
    if "session_id" not in table.columns:
        rank = np.empty(cohort.n_visits, dtype=int)
        order = np.argsort(cohort.times, kind="stable")
        ranks = pd.Series(cohort.subject_index[order]).groupby(cohort.subject_index[order])
        rank[order] = ranks.cumcount().to_numpy()
        table.insert(1, "session_id", [f"ses-{number + 1}" for number in rank])
    found = time_column(table)
    if found is None or not _same_times(table[found], cohort.times):
        # What is not the time stays under its name, because models may adjust for it.
        table = table.drop(columns=[WRITTEN_TIMES], errors="ignore")
        name = "years"
        if name not in table.columns:
            table.insert(2, name, cohort.times)
            if time_column(table) != name:
                table, name = table.drop(columns=[name]), WRITTEN_TIMES
        else:
            name = WRITTEN_TIMES
        if name not in table.columns:
            table.insert(2, name, cohort.times)
    if cohort.controls is not None and "diagnosis" not in table.columns:
        table["diagnosis"] = np.where(cohort.controls, "CN", "patient")
    first = ["participant_id", "session_id"]
    return table[[*first, *(name for name in table.columns if name not in first)]]


def _same_times(column: pd.Series, times: Array) -> bool:
    return bool(np.array_equal(pd.to_numeric(column, errors="coerce").to_numpy(), times))


def _stems(table: pd.DataFrame) -> list[str]:
    """Names of the scans, free of anything that could lead out of the folder."""
    stems = [
        "_".join(re.sub(r"[^\w-]", "-", str(part)) for part in parts)
        for parts in zip(table["participant_id"], table["session_id"], strict=True)
    ]
    return stems if len(set(stems)) == len(stems) else [f"{s}_{i}" for i, s in enumerate(stems)]


def _column_names(cohort: Cohort) -> list[str]:
    if isinstance(cohort.space, Regions):
        return list(cohort.space.names)
    return [f"vertex_{i}" for i in range(cohort.n_vertices)]


def _write_scan(cohort: Cohort, values: Array, stem: Path, writer: Writer) -> dict[str, str]:
    """Write the maps of one scan; return the columns of the table that name them."""
    assert writer.write_scalars is not None
    names: dict[str, str] = {}
    for side, part in divide(values, cohort.space, np.nan, writer.splits):
        hemisphere = "" if side is None else f"_hemi-{side[0].upper()}"
        path = stem.with_name(f"{stem.name}{hemisphere}{writer.ending}")
        writer.write_scalars(path, ScalarMaps(part, side, cohort.space))
        names[side or "path"] = path.name
    return names
