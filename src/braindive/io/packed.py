"""One packed cohort: a Zarr store with values in blocks of vertices that hold all visits.

Scans come one by one and the model reads vertex by vertex, so packing turns the values over: scans
are first written one after the other to a scratch file, with a journal of what was read, and then
read back a block of vertices at a time. Neither step holds more than a few scans or one block.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import zarr
from joblib import Parallel, delayed

from braindive.cohort import Cohort
from braindive.errors import BraindiveError, ReadError
from braindive.io.freesurfer import FreeSurferMaps
from braindive.io.outputs import check_writable, only_writer
from braindive.io.paths import PathLike
from braindive.io.plan import Plan, ReportProgress, plan_cohort
from braindive.io.scratch import (
    DTYPE,
    Scratch,
    fingerprint,
    record_inputs,
    record_table,
    remove_if_nothing_was_read,
    remove_scratch,
    unfinished,
)
from braindive.io.store import (
    FORMAT,
    VERSION,
    PackedError,
    open_values,
    read_attributes,
    read_space,
    seal,
    write_space,
)
from braindive.io.table import typed_table
from braindive.space import Space
from braindive.values.chunks import checksum
from braindive.values.storage import block_width


def pack_cohort(
    table: PathLike | pd.DataFrame,
    output: PathLike,
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
) -> Path:
    """Read a study once, check it, and write it as one packed cohort.

    Interrupted, the same call goes on where it was, after making sure that the files it had read
    are the same. The output appears only when it is complete.

    Parameters
    ----------
    table : path or DataFrame
        One row per scan.
    output : path
        Folder to write, by custom with the ending ``.zarr``. What is unfinished is kept next to
        it in a folder with the ending ``.partial``.
    space, root, values, times, controls, id, freesurfer, skip_bad
        As for `read_cohort`.
    n_jobs : int, optional
        Threads; all cores by default.
    progress : callable, optional
        Called with "read" and then "write", what is done so far, and the total.

    Returns
    -------
    Path
        The output.

    Examples
    --------
    >>> import tempfile, braindive as bd
    >>> cohort = bd.simulate_cohort(n_subjects=2, n_vertices=5, random_state=0).cohort
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = bd.write_cohort(cohort, folder)
    ...     bd.open_packed(bd.pack_cohort(table, f"{folder}/study.zarr"))
    Cohort(2 subjects, 8 visits, 5 vertices)
    """
    target = check_target(output)
    partial = unfinished(target)
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
    tell = progress or (lambda *_: None)
    with only_writer(target):
        if target.exists():
            return _keep_finished(target, partial, plan)
        try:
            _check_room(target, partial, plan)
            scratch = Scratch(partial, plan)
            inputs = scratch.fill(n_jobs, tell)
            store = partial / "store"
            _write_store(store, plan, scratch, inputs, n_jobs, tell)
            os.replace(store, target)
        except OSError as error:
            if isinstance(error, BraindiveError):
                raise
            raise PackedError(
                f"{target} could not be written ({error.strerror or error}); what was read is "
                f"kept in {partial.name}, and the same command goes on from there."
            ) from error
        except KeyboardInterrupt:
            remove_if_nothing_was_read(partial)
            raise
        shutil.rmtree(partial)
    return target


def check_target(output: PathLike) -> Path:
    """Where a packed cohort is to be, unless nothing can be written there.

    Parameters
    ----------
    output : path
        What the user gave.

    Returns
    -------
    Path
    """
    target = Path(os.fspath(output)).expanduser()
    if not target.name or target.name == "..":
        raise PackedError(f"{target} is no name for a packed cohort; give one, such as study.zarr.")
    if target.is_symlink():
        target = target.resolve()
    parent = target.absolute().parent
    if not parent.is_dir():
        raise PackedError(f"there is no folder {parent} for {target.name}.")
    if target.exists() and not target.is_dir():
        raise PackedError(f"{target} is a file; choose another name for the packed cohort.")
    if target.is_dir() and not any(target.iterdir()):
        raise PackedError(f"{target} is an empty folder; remove it or choose another name.")
    check_writable(parent)
    return target


def open_packed(path: PathLike) -> Cohort:
    """Open a packed cohort; its values stay on disk.

    Parameters
    ----------
    path : path
        What `pack_cohort` wrote.

    Returns
    -------
    Cohort

    Examples
    --------
    See `pack_cohort`.
    """
    folder = Path(os.fspath(path)).expanduser()
    try:
        described = read_attributes(folder)
        return Cohort(
            open_values(folder, described),
            subjects=described["subjects"],
            times=described["times"],
            controls=described["controls"],
            space=read_space(folder),
            table=typed_table(pd.DataFrame(described["table"])),
        )
    except (PackedError, ReadError):
        raise
    # Whatever else goes wrong with what was written in order is damage.
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        MemoryError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise PackedError(
            f"{folder} is damaged: {what}; restore it from a backup, or pack the cohort again."
        ) from error


def read_inputs(path: PathLike) -> pd.DataFrame:
    """Files that a packed cohort was made from.

    Parameters
    ----------
    path : path
        What `pack_cohort` wrote.

    Returns
    -------
    DataFrame
        First the table, then the files of each scan: `row` (from 0) and `column` of the table that
        name the file, `path` as it is there, `size` in bytes and `sha256`.
    """
    return pd.DataFrame(read_attributes(Path(os.fspath(path)).expanduser())["inputs"])


def _keep_finished(target: Path, partial: Path, plan: Plan) -> Path:
    """Accept an output that is there already if it is of the same study."""
    if not (target / "zarr.json").is_file():
        raise PackedError(f"{target} exists and is no packed cohort; choose another name.")
    attributes = read_attributes(target)
    if attributes.get("plan") != fingerprint(plan):
        raise PackedError(f"{target} exists and is of another study; remove it or choose another.")
    if attributes["inputs"] != record_table(plan) + record_inputs(plan, range(plan.n_visits)):
        raise PackedError(
            f"{target} exists, but files it was made from have changed; remove it to pack again."
        )
    if partial.exists():
        remove_scratch(partial)
    return target


def _check_room(target: Path, partial: Path, plan: Plan) -> None:
    """Refuse to begin what the disk cannot hold: the scratch file and the store."""
    parent = target.absolute().parent
    size = plan.n_visits * plan.reader.n_vertices * DTYPE.itemsize
    scratch = partial / "scans.f32"
    needed = 2 * size - (scratch.stat().st_size if scratch.exists() else 0)
    free = shutil.disk_usage(parent).free
    if free < needed:
        raise PackedError(
            f"packing needs {needed / 1e9:.1f} GB in {parent}, but only {free / 1e9:.1f} GB are "
            "free."
        )


def _write_store(
    store: Path,
    plan: Plan,
    scratch: Scratch,
    inputs: list[dict[str, Any]],
    n_jobs: int | None,
    tell: ReportProgress,
) -> None:
    if store.exists():  # of a call that was interrupted while writing it
        shutil.rmtree(store)
    n_visits, n_vertices = plan.n_visits, plan.reader.n_vertices
    width = min(block_width(n_visits, n_vertices, DTYPE.itemsize), n_vertices)
    group = zarr.open_group(store, mode="w-", zarr_format=3)
    if plan.space is not None:
        write_space(group, plan.space)
    # Not compressed: measurements hardly shrink, and a fit reads them many times.
    values = group.create_array(
        "values",
        shape=(n_visits, n_vertices),
        chunks=(n_visits, width),
        dtype=DTYPE,
        compressors=None,
        fill_value=np.nan,
        # A chunk that is not there is then a chunk that was lost.
        config={"write_empty_chunks": True},
    )
    starts = range(0, n_vertices, width)

    def write_block(start: int) -> tuple[int, int]:
        where = slice(start, min(start + width, n_vertices))
        chunk = np.full((n_visits, width), np.nan, dtype=DTYPE)
        chunk[:, : where.stop - start] = scratch.columns(where)
        values[:, where] = chunk[:, : where.stop - start]
        return start // width, checksum(chunk)

    jobs = Parallel(
        n_jobs=-1 if n_jobs is None else n_jobs, prefer="threads", return_as="generator_unordered"
    )
    checksums = [0] * len(starts)
    blocks = jobs(delayed(write_block)(start) for start in starts)
    for done, (number, found) in enumerate(blocks, start=1):
        checksums[number] = found
        tell("write", done, len(starts))
    described = {
        "format": FORMAT,
        "version": VERSION,
        "plan": fingerprint(plan),
        "subjects": plan.subjects.tolist(),
        "times": plan.times.tolist(),
        "controls": None if plan.controls is None else plan.controls.tolist(),
        "table": {str(name): plan.text[name].tolist() for name in plan.text},
        "inputs": record_table(plan) + inputs,
    }
    group.attrs.update(seal(store, described, checksums))
