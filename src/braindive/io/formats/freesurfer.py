"""FreeSurfer: MGH images, morph files, annotations, labels and geometry."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from nibabel import freesurfer

from braindive.arrays import Array, IntArray
from braindive.io.formats.base import Format, Writer, always
from braindive.io.formats.contents import LabelFile, LabelMap, MapFile, ScalarMaps, UnreadableError
from braindive.io.formats.images import as_grid, check_sum, image_frames, image_header, image_labels
from braindive.io.sides import sides_told

# nibabel has no types for what reads and writes files.
_nib: Any = nib
_freesurfer: Any = freesurfer

_MORPH_MAGIC = b"\xff\xff\xff"
# Magic number, then the numbers of vertices, faces and values for each vertex.
_MORPH_HEADER = 15
# Dark grey: annotations tell labels apart by their colours, and black stands for no label.
_OUTSIDE_COLOUR = [25, 25, 25]


@contextmanager
def _open_mgh(path: Path, to_the_end: bool = False) -> Iterator[Any]:
    """Open an MGH image, and close the file afterwards, which nibabel leaves open.

    A compressed one is read to the end if its numbers are wanted: its checksum comes last.
    """
    opener = open if path.name.endswith(".mgh") else gzip.open
    with opener(path, "rb") as stream:
        yield nib.MGHImage.from_stream(stream)
        if to_the_end and opener is gzip.open:
            check_sum(stream)


def _mgh_header(path: Path) -> MapFile:
    with _open_mgh(path) as image:
        return image_header(path, image)


def _read_mgh(path: Path, frames: Sequence[int]) -> tuple[Array, None]:
    with _open_mgh(path, to_the_end=True) as image:
        return image_frames(image, frames), None


def _read_mgh_labels(path: Path) -> LabelFile:
    with _open_mgh(path, to_the_end=True) as image:
        return image_labels(image)


def _write_mgh(path: Path, part: ScalarMaps) -> None:
    grid, affine = as_grid(part)
    # MGH has no fourth axis for a single map.
    _nib.save(_nib.MGHImage(grid[..., 0] if grid.shape[3:] == (1,) else grid, affine), path)


def _is_morph(path: Path) -> bool:
    with open(path, "rb") as stream:
        head = stream.read(_MORPH_HEADER)
    return head.startswith(_MORPH_MAGIC) and len(head) == _MORPH_HEADER


def _morph_header(path: Path) -> MapFile:
    with open(path, "rb") as stream:
        n_values = int.from_bytes(stream.read(7)[3:], "big")
    if path.stat().st_size < _MORPH_HEADER + 4 * n_values:
        raise UnreadableError(f"the file is truncated: {n_values} values do not fit in its size")
    return MapFile(path, (n_values,), 1, sides_told(path))


def _read_morph(path: Path, frames: Sequence[int]) -> tuple[Array, None]:
    values = np.asarray(_freesurfer.read_morph_data(path), dtype=np.float32)
    return values.reshape(1, -1)[list(frames)], None


def _read_annot(path: Path) -> LabelFile:
    labels, _, names = _freesurfer.read_annot(path)
    # Annotations count their regions from 0, and have -1 outside.
    return LabelFile(labels + 1, {key: name.decode() for key, name in enumerate(names, start=1)})


def _write_annot(path: Path, part: LabelMap) -> None:
    colours = np.vstack([_OUTSIDE_COLOUR, part.colours])
    table = np.column_stack([colours, np.zeros(len(colours), dtype=int)])
    names = [name.replace(" ", "-") for name in ("outside", *part.names)]
    _freesurfer.write_annot(path, part.values.astype(int), table, names, fill_ctab=True)


def _read_vertices(path: Path) -> IntArray:
    return np.asarray(_freesurfer.read_label(path))


def _read_geometry(path: Path) -> tuple[Array, IntArray]:
    points, triangles = _freesurfer.read_geometry(path)
    return points, triangles


MGH = Format(
    "mgh",
    suffixes=(".mgh", ".mgz", ".mgh.gz"),
    examples=(".mgh", ".mgz"),
    header=_mgh_header,
    read=_read_mgh,
    read_labels=_read_mgh_labels,
    read_mask=_read_mgh_labels,
    volume_suffixes=(".mgz",),
    writer=Writer(".mgh", write_scalars=_write_mgh, scans=("surface", "volume", "regions")),
)
# The maps of a model as freeview opens them: numbers in MGH, labels in annotations.
FREESURFER = Format(
    "freesurfer",
    suffixes=(".annot",),
    read_labels=_read_annot,
    writer=Writer(
        ".mgh",
        write_scalars=_write_mgh,
        label_ending=".annot",
        write_labels=_write_annot,
        maps=("surface",),
        is_default=always,
        prefixes={"left": "lh.", "right": "rh."},
    ),
)
MORPH = Format(
    "morph",
    examples=("a FreeSurfer morph file such as lh.thickness",),
    recognises=_is_morph,
    header=_morph_header,
    read=_read_morph,
)
LABEL = Format("label", suffixes=(".label",), read_vertices=_read_vertices)
GEOMETRY = Format("geometry", read_mesh=_read_geometry)
