"""A study that was checked as far as its table and the headers of its files tell."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from braindive.arrays import Array, BoolArray
from braindive.errors import CohortError
from braindive.io.controls import find_controls
from braindive.io.freesurfer import FreeSurferMaps
from braindive.io.paths import PathLike, resolve_roots
from braindive.io.problems import Problems
from braindive.io.provenance import Ledger
from braindive.io.scans import (
    Scan,
    ScanReader,
    check_columns,
    check_scans,
    content_problem,
    find_scans,
    open_headers,
    readable_files,
)
from braindive.io.sizes import infer_space
from braindive.io.spaces import load_space
from braindive.io.table import StudyTable, read_table
from braindive.io.times import check_visits, read_times
from braindive.space import Space

T = TypeVar("T")
_REMEDY = "Correct them, or leave these rows out with skip_bad=True (--skip-bad)."

# Scans that one thread reads at a time.
_BATCH = 8
# A study whose files are smaller than this is read to the end even when its table is known to be
# bad, so that one error lists everything; a larger one is not worth the wait.
_QUICK = 2**28

ReportProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """A study that was checked as far as tables and headers tell, before its numbers are read.

    Attributes
    ----------
    file : Path or None
        The table, if it is a file.
    text : DataFrame of text
        One row per visit, without the columns of files or measurements.
    subjects, times, controls : (n_visits,)
        As of a `Cohort`.
    space : Space or None
        Where the columns lie.
    scans : list of Scan
        Files of each row; empty for a wide table.
    numbers : (n_visits, n_vertices) or None
        Measurements of a wide table.
    reader : ScanReader
        Reads the scans.
    problems : Problems
        Takes what is still found wrong.
    record : dict or None
        Size and hash of the table when it was read.
    """

    file: Path | None
    text: pd.DataFrame
    subjects: np.ndarray
    times: Array
    controls: BoolArray | None
    space: Space | None
    scans: list[Scan]
    numbers: Array | None
    reader: ScanReader
    problems: Problems
    record: dict[str, Any] | None = None

    def without(self, rows: Collection[int]) -> Plan:
        """Return the plan of the other rows."""
        kept = [row for row in range(self.n_visits) if row not in rows]
        return replace(
            self,
            text=self.text.iloc[kept].reset_index(drop=True),
            subjects=self.subjects[kept],
            times=self.times[kept],
            controls=None if self.controls is None else self.controls[kept],
            scans=[replace(self.scans[row], row=i) for i, row in enumerate(kept) if self.scans],
            numbers=None if self.numbers is None else self.numbers[kept],
            problems=Problems(
                self.problems.source, [self.problems.participants[row] for row in kept]
            ),
        )

    @property
    def n_visits(self) -> int:
        """Number of rows."""
        return len(self.text)

    def read(
        self, rows: Sequence[int], n_jobs: int | None = None, ledger: Ledger | None = None
    ) -> Iterator[tuple[list[int], Array]]:
        """Read some rows in parallel, and give them in order, some at a time.

        What is wrong with them is noted in `problems`, and what their files were in the ledger.
        """
        if self.numbers is not None:
            for row in rows:
                message = content_problem(self.numbers[row])
                if message is not None:
                    self.problems.add(row, message)
            yield list(rows), self.numbers[list(rows)]
            return
        batches = [list(rows[i : i + _BATCH]) for i in range(0, len(rows), _BATCH)]

        def read_batch(batch: list[int]) -> Array:
            scans = [self.scans[row] for row in batch]
            if ledger is None:
                return self.reader.read(scans, self.problems)
            files = [(scan, column, path) for scan in scans for column, path in scan.files.items()]
            for _, _, path in files:
                ledger.note(path)
            values = self.reader.read(scans, self.problems)
            for scan, column, path in files:
                if not ledger.confirmed(path):
                    message = "the file was changed while it was read; pack it when it is complete."
                    name = scan.names[column]
                    self.problems.add(scan.row, message, column=column, file=name)
            return values

        threads = Parallel(
            n_jobs=-1 if n_jobs is None else n_jobs,
            prefer="threads",
            return_as="generator",
            pre_dispatch="2*n_jobs",
        )
        yield from zip(batches, threads(delayed(read_batch)(b) for b in batches), strict=True)


def plan_cohort(
    table: PathLike | pd.DataFrame,
    space: PathLike | Sequence[PathLike] | Space | None = None,
    *,
    root: PathLike | Sequence[PathLike] | None = None,
    values: str | Sequence[str] | None = None,
    times: str | None = None,
    controls: str | None = None,
    id: str | None = None,  # noqa: A002
    freesurfer: PathLike | FreeSurferMaps | None = None,
    skip_bad: bool = False,
) -> Plan:
    """Check a study as far as its table and the headers of its files tell.

    Parameters and errors are those of `read_cohort`.
    """
    if freesurfer is not None and not isinstance(freesurfer, FreeSurferMaps):
        freesurfer = FreeSurferMaps(freesurfer)
    if space is None and freesurfer is not None:
        space = freesurfer.space()
    loaded = None if space is None else load_space(space)
    problems = Problems("the table")
    elsewhere = freesurfer is not None
    ledger, source = Ledger(), _file_of(table)
    if source is not None:
        ledger.note(source)
    study = read_table(table, loaded, values, problems, id=id, elsewhere=elsewhere)
    if source is not None and not ledger.confirmed(source):
        raise CohortError(f"{source} was changed while it was read; try again.")
    loaded = study.regions if loaded is None else loaded
    roots = resolve_roots(None if study.file is None else study.file.parent, root)
    if freesurfer is not None:
        found = freesurfer.find(study.text, problems)
        study = replace(study, text=study.text.assign(**found), files=("left", "right"))
        roots.append(freesurfer.folder)
    lost = problems.rows  # of which no file was found
    unknown = np.full(len(study.text), np.nan)
    visit_times = _unless_wrong(
        lambda: read_times(study.text, times, roots, problems), unknown, problems
    )
    before = problems.rows
    if problems.participants:
        check_visits(study.text, visit_times, problems)
    repeated = problems.rows - before
    is_control = _unless_wrong(
        lambda: find_controls(study.text, controls, problems), None, problems
    )
    scans: list[Scan] = []
    n_vertices = 0 if study.numbers is None else study.numbers.shape[1]
    if study.files:
        scans = find_scans(study.text, study.files, roots, problems, lost)
        headers = open_headers(scans)
        try:
            if loaded is None:
                loaded = infer_space(study.files, readable_files(scans, headers), study.source)
            check_columns(study.files, loaded)
            scans, n_vertices = check_scans(scans, headers, loaded, problems, repeated)
        except CohortError as error:
            problems.tell(error)
    plan = Plan(
        study.file,
        _kept_columns(study),
        np.array(study.text["participant_id"].tolist(), dtype=object),
        visit_times,
        is_control,
        loaded,
        scans,
        study.numbers,
        ScanReader(loaded, n_vertices),
        problems,
        None if source is None else ledger.entry(source),
    )
    if skip_bad:
        return _leave_out(plan)
    problems.remedy = _REMEDY
    if problems.found or problems.general:
        _look_further(plan)
    return plan


def _file_of(table: PathLike | pd.DataFrame) -> Path | None:
    """The file of a table, if it is one."""
    if not isinstance(table, (str, os.PathLike)):  # a DataFrame, or what will be refused
        return None
    path = Path(table).expanduser()
    return path if path.is_file() else None


def _kept_columns(study: StudyTable) -> pd.DataFrame:
    """The table without what names files and frames."""
    gone = [name for name in (*study.files, "frame", "index") if name in study.text.columns]
    return study.text.drop(columns=gone)


def _unless_wrong(read: Callable[[], T], instead: T, problems: Problems) -> T:
    """What a function finds; where it cannot, that is noted, so that more may be found wrong."""
    try:
        return read()
    except CohortError as error:
        problems.tell(error)
        return instead


def _look_further(plan: Plan) -> None:
    """Raise what is known to be wrong, with what the numbers tell where they are few."""
    paths: set[Path] = {path for scan in plan.scans for path in scan.files.values()}
    readable = plan.reader.n_vertices > 0  # where it is known what belongs where
    if readable and sum(path.stat().st_size for path in paths) < _QUICK:
        rows = [row for row in range(plan.n_visits) if row not in plan.problems.rows]
        for _ in plan.read(rows):
            pass
    plan.problems.raise_if_any()


def _leave_out(plan: Plan) -> Plan:
    """Return the plan of the rows without a problem, after a look at all numbers."""
    problems = plan.problems
    if problems.general:
        problems.raise_if_any()
    for _ in plan.read([row for row in range(plan.n_visits) if row not in problems.rows]):
        pass
    bad = problems.rows
    if len(bad) == plan.n_visits:
        problems.raise_if_any()
    if not bad:
        return plan
    problems.warn_of_left_out(stacklevel=4)
    return plan.without(bad)
