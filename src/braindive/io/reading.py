"""From a study's own table and files to a cohort."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from braindive.cohort import Cohort
from braindive.io.freesurfer import FreeSurferMaps
from braindive.io.paths import PathLike
from braindive.io.plan import ReportProgress, plan_cohort
from braindive.io.table import typed_table
from braindive.space import Space


def read_cohort(
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
    n_jobs: int | None = None,
    progress: ReportProgress | None = None,
) -> Cohort:
    """Read a cohort from a table with one row per scan.

    The table is text with tabs, commas or semicolons, or an Excel sheet (``.xlsx``), with decimal
    points or commas. It has a column `participant_id` (or Subject ID, PTID, RID and the like), a
    time, and file names or measurements; every other column is kept in `Cohort.table`. Names of
    columns may be written in any case.

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
        Column with years, or with dates, which become years since the participant's first. By
        default the first of `age`, `age_at_session`, `years` and `acq_time` (a date, also called
        EXAMDATE, scan date, date and the like) in the table, or else in the
        ``sub-*/sub-*_sessions.tsv`` of a BIDS folder. An age that never changes is no time where
        another column tells, and where the first has gaps or repeats, one without is taken. Dates
        are ISO's, or others that can be read in one way only.
    controls : str, optional
        Column of true and false or of diagnoses, or a condition such as ``"group == 'HC'"``. By
        default the visits with a diagnosis of CN, HC, NC, CU, control, healthy, normal or the
        like (`braindive.io.controls.CONTROL_WORDS`).
    id : str, optional
        Column with the participants, where its name does not tell.
    freesurfer : path or FreeSurferMaps, optional
        FreeSurfer's SUBJECTS_DIR, where the maps of the visits are found as by
        `read_freesurfer_table`; without a space it is that of the maps.
    skip_bad : bool, default False
        Whether to leave out rows that have a problem, with a warning that lists them, instead of
        raising an error.
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
        Lists everything that is wrong at once: with the table, and with each of its rows.

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
    plan = plan_cohort(
        table,
        space,
        root=root,
        values=values,
        times=times,
        controls=controls,
        id=id,
        freesurfer=freesurfer,
        skip_bad=skip_bad,
    )
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
