"""The files of each scan: which numbers of which file are which columns of the cohort."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from braindive.arrays import Array, IntArray
from braindive.errors import CohortError
from braindive.io.formats.contents import MapFile, NamedVertices, UnreadableError
from braindive.io.formats.registry import open_map, read_frames
from braindive.io.paths import OutsideError, resolve_inside
from braindive.io.problems import Problems
from braindive.io.sizes import describe_size, usual_file
from braindive.space import Space, Surface, Volume

_FRAME_COLUMNS = ("frame", "index")

Headers = dict[Path, MapFile | str]


@dataclass(frozen=True)
class Scan:
    """One row of the table.

    Attributes
    ----------
    row : int
        Row of the table.
    names : dict of column to str
        Files as the table names them.
    files : dict of column to Path
        The same files, resolved; the columns are "left" and "right", or "path".
    frame : int
        Frame of the files.
    """

    row: int
    names: dict[str, str]
    files: dict[str, Path]
    frame: int = 0


@dataclass(frozen=True)
class ScanReader:
    """Reads scans into the columns of a space.

    Parameters
    ----------
    space : Space or None
        Where the columns lie; without, every number of a file is a column.
    n_vertices : int
        Number of columns.
    """

    space: Space | None
    n_vertices: int
    _known: dict[tuple[str, int], IntArray] = field(default_factory=dict, repr=False)

    def read(self, scans: Sequence[Scan], problems: Problems) -> Array:
        """Read some scans; those that cannot be read are noted, and their rows are NaN.

        Returns
        -------
        (n_scans, n_vertices) float32
        """
        values = np.full((len(scans), self.n_vertices), np.nan, dtype=np.float32)
        together: dict[tuple[str, Path], list[int]] = defaultdict(list)
        for i, scan in enumerate(scans):
            for column, path in scan.files.items():
                together[column, path].append(i)
        failed = set()
        for (column, path), members in together.items():
            try:
                flat, vertices = read_frames(path, [scans[i].frame for i in members])
            except UnreadableError as error:
                for i in members:
                    failed.add(i)
                    name = scans[i].names[column]
                    problems.add(scans[i].row, f"{error}.", column=column, file=name)
                continue
            try:
                index = self._index(column, flat.shape[1], vertices)
                part = flat[:, np.maximum(index, 0)]
                part[:, index < 0] = np.nan
                values[members, self._where(column)] = part
            except (IndexError, ValueError):  # its header was checked, and was another
                for i in members:
                    failed.add(i)
                    now = f"the file has {flat.shape[1]} values now, and had others before."
                    where = scans[i].names[column]
                    problems.add(scans[i].row, now, column=column, file=where)
        for i in set(range(len(scans))) - failed:
            message = content_problem(values[i])
            if message is not None:
                files = ", ".join(scans[i].names.values())
                problems.add(scans[i].row, message, column="/".join(scans[i].names), file=files)
        return values

    def _where(self, column: str) -> slice:
        """Columns of the cohort that a column of the table fills."""
        if isinstance(self.space, Surface) and len(self.space.hemispheres) == 2:
            n_left = self.space.hemispheres[0].n_measured
            if column == "left":
                return slice(0, n_left)
            if column == "right":
                return slice(n_left, None)
        return slice(None)

    def _index(self, column: str, n_values: int, vertices: NamedVertices | None) -> IntArray:
        """Position in the flat file of each column; -1 where the file has none."""
        if isinstance(self.space, Surface) and vertices is not None:
            return vertices.columns(self.space)
        key = (column, n_values)
        if key not in self._known:
            self._known[key] = self._flat_index(column, n_values)
        return self._known[key]

    def _flat_index(self, column: str, n_values: int) -> IntArray:
        if isinstance(self.space, Volume):
            inside = np.nonzero(self.space.mask)
            return np.ravel_multi_index(inside, self.space.mask.shape, order="F")
        if isinstance(self.space, Surface):
            masks = [part.mask for part in self.space.hemispheres if column in ("path", part.side)]
            return np.flatnonzero(np.concatenate(masks))
        return np.arange(n_values)


def content_problem(values: Array) -> str | None:
    """What is wrong with the numbers of one scan, or None."""
    if np.isnan(values).all():
        return "the scan has no number at all, only NaN; leave the row out."
    if np.isinf(values).any():
        return "the scan has infinite values; use NaN for not measured."
    return None


def find_scans(
    table: pd.DataFrame,
    columns: Sequence[str],
    roots: Sequence[Path],
    problems: Problems,
    lost: Collection[int] = (),
) -> list[Scan]:
    """Resolve the files of every row; missing and forbidden ones are noted.

    Of rows that are `lost` it is known already that they have no file.
    """
    frames = _read_frames_column(table, problems)
    scans = []
    for row in range(len(table)):
        names, files = {}, {}
        for column in columns:
            name = str(table[column].iloc[row]).strip()
            names[column] = name
            if row in lost:
                continue
            if not name:
                problems.add(row, "no file is named.", column=column)
                continue
            try:
                path = resolve_inside(name, roots)
            except (OutsideError, OSError, ValueError) as error:
                problems.add(row, f"{error}.", column=column, file=name)
                continue
            if not path.is_file():
                what = "is a folder" if path.is_dir() else "does not exist"
                cause = "" if path.parent.is_dir() else f"there is no folder {path.parent}"
                problems.add(row, f"the file {what}.", column=column, file=name, cause=cause)
                continue
            files[column] = path
        scans.append(Scan(row, names, files, -1 if frames is None else frames[row]))
    return scans


def _read_frames_column(table: pd.DataFrame, problems: Problems) -> list[int] | None:
    column = next((name for name in _FRAME_COLUMNS if name in table.columns), None)
    if column is None:
        return None
    frames = []
    for row, text in enumerate(table[column]):
        if not str(text).isdecimal():
            problems.add(row, f"{text!r} is not a frame, counted from 0.", column=column)
            text = 0
        frames.append(int(text))
    return frames


def open_headers(scans: Sequence[Scan]) -> Headers:
    """Open every file once: what it holds, or a sentence on why it cannot be read."""
    headers: Headers = {}
    for scan in scans:
        for path in scan.files.values():
            if path not in headers:
                try:
                    headers[path] = open_map(path)
                except UnreadableError as error:
                    headers[path] = str(error)
    return headers


def readable_files(scans: Sequence[Scan], headers: Headers) -> dict[str, list[MapFile]]:
    """Files of each column of the table that could be opened, in the order of the rows."""
    files: dict[str, list[MapFile]] = defaultdict(list)
    for scan in scans:
        for column, path in scan.files.items():
            found = headers[path]
            if isinstance(found, MapFile):
                files[column].append(found)
    return files


def check_scans(
    scans: Sequence[Scan],
    headers: Headers,
    space: Space | None,
    problems: Problems,
    repeated: Collection[int] = (),
) -> tuple[list[Scan], int]:
    """Hold the header of every file against the space, and give every scan its frame.

    Parameters
    ----------
    scans : sequence of Scan
        One for each row.
    headers : dict of Path to MapFile or str
        From `open_headers`.
    space : Space or None
        Where the values lie; without, all files have to be like most of them.
    problems : Problems
        Takes what is wrong.
    repeated : collection of int
        Rows that repeat another, and so may name the same files.

    Returns
    -------
    scans : list of Scan
        With frames.
    n_vertices : int
        Columns of the cohort; 0 where no file could be read.
    """
    rows_of: dict[Path, list[int]] = defaultdict(list)
    for scan in scans:
        for path in scan.files.values():
            if scan.row not in repeated:
                rows_of[path].append(scan.row)
    usual = usual_file(found for found in headers.values() if isinstance(found, MapFile))
    complete = []
    for scan in scans:
        frame = scan.frame
        for column, path in scan.files.items():
            found = headers[path]
            if isinstance(found, str):
                messages = [found]
            else:
                messages = _mismatches(column, found, space, usual)
                if scan.row not in repeated:
                    messages += _frame_mismatches(frame, found, rows_of[path])
            for message in messages:
                problems.add(scan.row, f"{message}.", column=column, file=scan.names[column])
        if frame < 0 and scan.files:
            rows = rows_of[next(iter(scan.files.values()))]
            frame = rows.index(scan.row) if len(rows) > 1 and scan.row in rows else 0
        complete.append(Scan(scan.row, scan.names, scan.files, max(frame, 0)))
    n_usual = 0 if usual is None else usual.n_values
    return complete, n_usual if space is None else space.n_vertices


def _frame_mismatches(frame: int, found: MapFile, rows: list[int]) -> list[str]:
    if frame >= found.n_frames:
        return [f"there is no frame {frame}: the file has {found.n_frames}, counted from 0"]
    if frame < 0 and found.n_frames != len(rows):
        if found.n_frames == 1:
            different = list(dict.fromkeys(rows))
            if len(different) == 1:
                return ["the same file is named twice in this row, and holds one map"]
            others = ", ".join(str(row + 1) for row in different)
            return [f"the same file is named in rows {others}, and holds one map"]
        return [
            f"the file holds {found.n_frames} maps, but {len(rows)} row(s) name it; add a column "
            "frame, counted from 0"
        ]
    return []


def _mismatches(
    column: str, found: MapFile, space: Space | None, usual: MapFile | None
) -> list[str]:
    """What does not fit between a file and the space, or without one, most other files."""
    messages = []
    sides = set(found.sides)
    if isinstance(space, Surface) and column == "path" and len(space.hemispheres) == 1:
        wrong = sides - set(space.sides)
    else:
        wrong = sides - {column} if column in ("left", "right") else set()
    if wrong:
        expected = column if column != "path" else space.sides[0]  # type: ignore[union-attr]
        messages.append(
            f"the file says it is of the {wrong.pop()} hemisphere, not the {expected} one"
        )
    if isinstance(space, Volume):
        return messages + _volume_mismatches(found, space)
    if isinstance(space, Surface):
        return messages + _surface_mismatches(column, found, space)
    if usual is not None and found.n_values != usual.n_values:
        messages.append(
            f"the file has {describe_size(found.n_values)}, but {usual.path.name} has "
            f"{describe_size(usual.n_values)}; all scans have to be of one mesh"
        )
    return messages


def _volume_mismatches(found: MapFile, space: Volume) -> list[str]:
    if found.shape != space.mask.shape:
        return [
            f"the image has shape {found.shape}, but the mask {space.name!r} has "
            f"{space.mask.shape}; resample it to the mask"
        ]
    if found.affine is not None and not np.allclose(found.affine, space.affine, atol=1e-3):
        return [f"the affine differs from that of {space.name!r}; resample the image to the mask"]
    return []


def _surface_mismatches(column: str, found: MapFile, space: Surface) -> list[str]:
    sizes = {part.side: part.n_mesh for part in space.hemispheres}
    if found.vertices is not None:
        if column != "path":
            return ["a CIFTI file holds both hemispheres; name it in the column path"]
        held = found.vertices.n_mesh
        return [
            f"the file holds {held.get(side, 0)} vertices of the {side} hemisphere, but the mesh "
            f"of {space.name!r} has {size}"
            for side, size in sizes.items()
            if held.get(side) != size
        ]
    expected = sum(sizes.values()) if column == "path" else sizes[column]  # type: ignore[index]
    if found.n_values != expected:
        part = "mesh" if column == "path" else f"{column} mesh"
        return [
            f"the file has {describe_size(found.n_values)}, but the {part} of {space.name!r} has "
            f"{expected} vertices; give the space on which the scans were sampled"
        ]
    return []


def check_columns(columns: Sequence[str], space: Space | None) -> None:
    """See that the file columns of a table can hold the hemispheres of the space."""
    if "path" in columns or space is None:
        return
    if not isinstance(space, Surface):
        raise CohortError(f"the {space.kind} {space.name!r} has no hemispheres; use a column path.")
    if set(columns) != set(space.sides):
        raise CohortError(
            f"the space {space.name!r} needs the column(s) {' and '.join(space.sides)}, but the "
            f"table has {' and '.join(columns)}."
        )
