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
from braindive.errors import BraindiveError
from braindive.io.paths import PathLike
from braindive.io.reading import Plan, ReportProgress, plan_cohort
from braindive.io.scratch import DTYPE, Scratch, fingerprint, record_inputs, record_table
from braindive.io.table import typed_table
from braindive.space import Space, space_from_arrays
from braindive.values.storage import block_width

FORMAT = "braindive-cohort"
VERSION = 1


class PackedError(BraindiveError, OSError):
    """A packed cohort cannot be written or read."""


def pack_cohort(
    table: PathLike | pd.DataFrame,
    output: PathLike,
    space: PathLike | Sequence[PathLike] | Space | None = None,
    *,
    root: PathLike | Sequence[PathLike] | None = None,
    values: str | Sequence[str] | None = None,
    times: str | None = None,
    controls: str | None = None,
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
    space, root, values, times, controls
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
    target = Path(os.fspath(output)).expanduser()
    partial = target.with_name(target.name + ".partial")
    plan = plan_cohort(table, space, root=root, values=values, times=times, controls=controls)
    if target.exists():
        return _keep_finished(target, partial, plan)
    tell = progress or (lambda *_: None)
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
            f"{target} could not be written ({error.strerror or error}); what was read is kept in "
            f"{partial.name}, and the same command goes on from there."
        ) from error
    shutil.rmtree(partial)
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
    group = _open_group(folder)
    try:
        described: Any = group.attrs.asdict()
        values = group["values"]
        table = typed_table(pd.DataFrame(described["table"]))
        space = _read_space(group["space"]) if "space" in group else None
        return Cohort(
            values,  # type: ignore[arg-type]
            subjects=described["subjects"],
            times=described["times"],
            controls=described["controls"],
            space=space,
            table=table,
        )
    except KeyError as error:
        raise PackedError(f"{folder} is damaged: {error} is missing; pack it again.") from None


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
    inputs: Any = _open_group(Path(os.fspath(path)).expanduser()).attrs["inputs"]
    return pd.DataFrame(inputs)


def _keep_finished(target: Path, partial: Path, plan: Plan) -> Path:
    """Accept an output that is there already if it is of the same study."""
    group = _open_group(target)
    if group.attrs.get("plan") != fingerprint(plan):
        raise PackedError(f"{target} exists and is of another study; remove it or choose another.")
    recorded: Any = group.attrs["inputs"]
    if recorded != record_table(plan) + record_inputs(plan, range(plan.n_visits)):
        raise PackedError(
            f"{target} exists, but files it was made from have changed; remove it to pack again."
        )
    if partial.exists():
        shutil.rmtree(partial)
    return target


def _check_room(target: Path, partial: Path, plan: Plan) -> None:
    """Refuse to begin what the disk cannot hold: the scratch file and the store."""
    parent = target.absolute().parent
    if not parent.is_dir():
        raise PackedError(f"there is no folder {parent} for {target.name}.")
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
    group.attrs.update(
        {
            "format": FORMAT,
            "version": VERSION,
            "plan": fingerprint(plan),
            "subjects": plan.subjects.tolist(),
            "times": plan.times.tolist(),
            "controls": None if plan.controls is None else plan.controls.tolist(),
            "table": {str(name): plan.text[name].tolist() for name in plan.text},
            "inputs": record_table(plan) + inputs,
        }
    )
    if plan.space is not None:
        _write_space(group.create_group("space"), plan.space)
    # Not compressed: measurements hardly shrink, and a fit reads them many times.
    values = group.create_array(
        "values",
        shape=(n_visits, n_vertices),
        chunks=(n_visits, width),
        dtype=DTYPE,
        compressors=None,
        fill_value=np.nan,
    )
    starts = range(0, n_vertices, width)

    def write_block(start: int) -> None:
        where = slice(start, min(start + width, n_vertices))
        values[:, where] = scratch.columns(where)

    jobs = Parallel(
        n_jobs=-1 if n_jobs is None else n_jobs, prefer="threads", return_as="generator_unordered"
    )
    blocks = jobs(delayed(write_block)(start) for start in starts)
    for done, _ in enumerate(blocks, start=1):
        tell("write", done, len(starts))


def _write_space(group: zarr.Group, space: Space) -> None:
    """Numbers as arrays, and texts, for which Zarr has no settled type, as attributes."""
    for name, array in space.to_arrays().items():
        if array.dtype.kind == "U":
            group.attrs[name] = array.tolist()
        else:
            group.create_array(name, data=np.asarray(array, order="C"))


def _read_space(group: object) -> Space:
    if not isinstance(group, zarr.Group):
        raise KeyError("space")
    arrays: dict[str, Any] = {name: np.array(text) for name, text in group.attrs.asdict().items()}
    for name, array in group.arrays():
        arrays[name] = np.asarray(array[...])
    return space_from_arrays(arrays)


def _open_group(folder: Path) -> zarr.Group:
    if not folder.exists():
        raise PackedError(f"there is no packed cohort {folder}.")
    try:
        group = zarr.open_group(folder, mode="r")
    except (OSError, ValueError, KeyError) as error:
        raise PackedError(f"{folder} is not a packed cohort, or it is damaged ({error}).") from None
    if group.attrs.get("format") != FORMAT:
        raise PackedError(f"{folder} is not a packed cohort; make one with braindive pack.")
    version: Any = group.attrs.get("version")
    if version != VERSION:
        raise PackedError(
            f"{folder} is of version {version}, but this braindive reads version {VERSION}; "
            "update braindive, or pack again."
        )
    return group
