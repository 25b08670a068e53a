"""From a study's own table and files to a cohort."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from braindive.arrays import Array, BoolArray
from braindive.cohort import Cohort
from braindive.io.paths import PathLike, resolve_roots
from braindive.io.problems import Problems
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
from braindive.io.table import find_controls, read_table, require_column, typed_table
from braindive.io.times import check_visits, read_times
from braindive.space import Space

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

    @property
    def n_visits(self) -> int:
        """Number of rows."""
        return len(self.text)

    def read(
        self, rows: Sequence[int], n_jobs: int | None = None
    ) -> Iterator[tuple[list[int], Array]]:
        """Read some rows in parallel, and give them in order, some at a time.

        What is wrong with them is noted in `problems`.
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
            return self.reader.read([self.scans[row] for row in batch], self.problems)

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
) -> Plan:
    """Check a study as far as its table and the headers of its files tell.

    Parameters and errors are those of `read_cohort`.
    """
    loaded = None if space is None else load_space(space)
    problems = Problems("the table")
    study = read_table(table, loaded, values, problems)
    loaded = study.regions if loaded is None else loaded
    if times is not None:
        require_column(times, study, "times")
    roots = resolve_roots(None if study.file is None else study.file.parent, root)
    visit_times = read_times(study.text, times, roots, problems)
    check_visits(study.text, visit_times, problems)
    is_control = find_controls(study.text, controls, problems)
    scans: list[Scan] = []
    n_vertices = 0 if study.numbers is None else study.numbers.shape[1]
    if study.files:
        scans = find_scans(study.text, study.files, roots, problems)
        headers = open_headers(scans)
        if loaded is None:
            loaded = infer_space(study.files, readable_files(scans, headers), study.source)
        check_columns(study.files, loaded)
        scans, n_vertices = check_scans(scans, headers, loaded, problems)
    kept = study.text.drop(columns=[*study.files, *({"frame", "index"} & set(study.text.columns))])
    plan = Plan(
        study.file,
        kept,
        np.array(study.text["participant_id"].tolist(), dtype=object),
        visit_times,
        is_control,
        loaded,
        scans,
        study.numbers,
        ScanReader(loaded, n_vertices),
        problems,
    )
    if problems.found:
        _look_further(plan)
    return plan


def read_cohort(
    table: PathLike | pd.DataFrame,
    space: PathLike | Sequence[PathLike] | Space | None = None,
    *,
    root: PathLike | Sequence[PathLike] | None = None,
    values: str | Sequence[str] | None = None,
    times: str | None = None,
    controls: str | None = None,
    n_jobs: int | None = None,
    progress: ReportProgress | None = None,
) -> Cohort:
    """Read a cohort from a table with one row per scan.

    The table (TSV, or CSV by its ending) has a column `participant_id`, a time, and file names or
    measurements; every other column is kept in `Cohort.table`.

    Parameters
    ----------
    table : path or DataFrame
        One row per scan.
    space : Space, or what `load_space` takes, optional
        Where the values lie. Without, every number of a file is a vertex and there is no graph;
        a study with a file for each hemisphere is taken to be on fsaverage5 if each has 10,242
        values, and refused otherwise.
    root : path or sequence of paths, optional
        Folders with the files, besides the folder of the table. No file outside them is read.
    values : str or sequence of str, optional
        Columns with file names ("path", or "left" and "right") or with measurements (their names,
        or a pattern such as ``"thickness_*"``). By default `path`, or `left` and `right`; or else
        the regions of the space; or else `vertex_0`, `vertex_1` and so on; or else every column
        with the name of a region of FreeSurfer's, without summaries such as the mean thickness. A
        table whose measurements have names becomes a cohort of `Regions`. Files are FreeSurfer
        ``.mgh``, ``.mgz`` or morph files, GIFTI, CIFTI or NIfTI; of a file with many maps a column
        `frame` tells which, counted from 0, or else there is one row for each map, in order.
    times : str, optional
        Column with years. By default the first of `age`, `age_at_session`, `years` and `acq_time`
        (a date; years since the participant's first) in the table, or else in the
        ``sub-*/sub-*_sessions.tsv`` of a BIDS folder.
    controls : str, optional
        Column of true and false or of diagnoses, or a condition such as ``"group == 'HC'"``. By
        default the visits with a diagnosis of CN, HC, NC, CU, control, healthy, normal or the
        like (`braindive.io.table.CONTROL_WORDS`).
    n_jobs : int, optional
        Threads; all cores by default.
    progress : callable, optional
        Called with "read", scans read so far and their number.

    Returns
    -------
    Cohort
        Values are float32.

    Raises
    ------
    CohortError
        Lists every row with a problem at once.

    Examples
    --------
    >>> import pandas as pd, braindive as bd
    >>> table = pd.DataFrame(
    ...     {
    ...         "participant_id": ["sub-1", "sub-1", "sub-2"],
    ...         "age": [70, 71.5, 64],
    ...         "diagnosis": ["AD", "AD", "CN"],
    ...         "hippocampus": [2.1, 1.9, 3.0],
    ...         "precuneus": [2.4, 2.2, 2.6],
    ...     }
    ... )
    >>> bd.read_cohort(table, values=["hippocampus", "precuneus"])
    Cohort(2 subjects, 3 visits, 2 vertices on regions)
    """
    plan = plan_cohort(table, space, root=root, values=values, times=times, controls=controls)
    measured = np.empty((plan.n_visits, plan.reader.n_vertices), dtype=np.float32)
    done = 0
    for rows, part in plan.read(range(plan.n_visits), n_jobs):
        measured[rows] = part
        done += len(rows)
        if progress is not None:
            progress("read", done, plan.n_visits)
    plan.problems.raise_if_any()
    return Cohort(
        measured,
        subjects=plan.subjects,
        times=plan.times,
        controls=plan.controls,
        space=plan.space,
        table=typed_table(plan.text),
    )


def _look_further(plan: Plan) -> None:
    """Raise what is known to be wrong, with what the numbers tell where they are few."""
    paths: set[Path] = {path for scan in plan.scans for path in scan.files.values()}
    if sum(path.stat().st_size for path in paths) < _QUICK:
        rows = [row for row in range(plan.n_visits) if row not in plan.problems.rows]
        for _ in plan.read(rows):
            pass
    plan.problems.raise_if_any()
