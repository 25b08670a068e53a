"""GIFTI: maps, labels and meshes of one hemisphere."""

from __future__ import annotations

import base64
import gzip
import math
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from nibabel import gifti

from braindive.arrays import Array, IntArray
from braindive.io.formats.base import Format, Writer, always
from braindive.io.formats.contents import LabelFile, LabelMap, MapFile, ScalarMaps, UnreadableError
from braindive.io.sides import sides_told
from braindive.space import Side

# nibabel has no types for what makes images.
_nib: Any = nib
_gifti: Any = gifti

# Bytes in which the header and the attributes of the first array are found.
_HEAD = 2**18
# Bytes of the largest file: a thousand maps of fsaverage take less.
_MOST = 2**30
_ARRAYS = re.compile(rb"<DataArray([^>]*)>(?:.*?<Data>([^<]*)</Data>)?", re.DOTALL)
_ATTRIBUTES = re.compile(rb"""(\w+)\s*=\s*["']([^"']*)["']""")
_STRUCTURE = "AnatomicalStructurePrimary"
_STRUCTURES = {"left": "CortexLeft", "right": "CortexRight"}


def _gifti_header(path: Path) -> MapFile:
    """Read the first piece of the file: parsing all of it would decode all the numbers."""
    opener = gzip.open if path.name.endswith(".gz") else open
    with opener(path, "rb") as stream:
        head = stream.read(_HEAD).decode("utf-8", errors="replace")
    count = re.search(r'NumberOfDataArrays="(\d+)"', head)
    lengths = re.search(r'<DataArray[^>]*?Dim0="(\d+)"(?:[^>]*?Dim1="(\d+)")?', head)
    if count is None or lengths is None:
        raise UnreadableError("the file is not GIFTI, or holds no data")
    if not path.name.endswith(".gz"):
        with open(path, "rb") as stream:
            stream.seek(-min(64, path.stat().st_size), os.SEEK_END)
            if b"</GIFTI>" not in stream.read():
                raise UnreadableError("the file is truncated: its last line is missing")
    told = re.search(rf"{_STRUCTURE}\W.{{0,60}}?(Left|Right)", head, re.DOTALL)
    side: Side | None = None if told is None else "left" if told[1] == "Left" else "right"
    shape = (int(lengths[1]) * int(lengths[2] or 1),)
    return MapFile(path, shape, int(count[1]), sides_told(path, side))


def _load(path: Path) -> Any:
    """Open a file whose numbers are in itself, and no more of them than it declares.

    Numbers in another file could come from anywhere, and nobody would have recorded them.
    """
    opener = gzip.open if path.name.endswith(".gz") else open
    with opener(path, "rb") as stream:
        content = stream.read(_MOST + 1)
    if len(content) > _MOST:
        raise UnreadableError("the file is larger than any GIFTI file of a brain")
    for attributes, data in _ARRAYS.findall(content):
        told = dict(_ATTRIBUTES.findall(attributes))
        if told.get(b"ExternalFileName", b"").strip() or b"External" in told.get(b"Encoding", b""):
            name = told.get(b"ExternalFileName", b"").decode(errors="replace")
            raise UnreadableError(
                f"its numbers are in another file ({name}); convert it to one that holds them"
            )
        if told.get(b"Encoding") == b"GZipBase64Binary":
            lengths = [
                int(n) for name, n in told.items() if name.startswith(b"Dim") and n.isdigit()
            ]
            # Dimensionality counts in too, and so do the bytes of the widest type.
            most = 8 * math.prod(max(length, 1) for length in lengths)
            decoder = zlib.decompressobj()
            decoder.decompress(base64.b64decode(data), min(most, _MOST) + 1)
            if decoder.unconsumed_tail:
                raise UnreadableError("it holds more numbers than it declares")
    return _gifti.GiftiImage.from_bytes(content)


def _read_gifti(path: Path, frames: Sequence[int]) -> tuple[Array, None]:
    arrays = _load(path).darrays
    rows = [np.ravel(arrays[frame].data) for frame in frames]
    return np.stack(rows).astype(np.float32, copy=False), None


def _gifti_side(path: Path) -> Side | None:
    """Hemisphere in the metadata of the file or of its arrays."""
    image = _load(path)
    for holder in (image, *image.darrays):
        structure = dict(holder.meta or {}).get(_STRUCTURE, "").lower()
        if "left" in structure or "right" in structure:
            return "left" if "left" in structure else "right"
    return None


def _read_gifti_labels(path: Path) -> LabelFile:
    image = _load(path)
    names = image.labeltable.get_labels_as_dict()
    return LabelFile(np.asarray(image.darrays[0].data), names)


def _read_gifti_mask(path: Path) -> LabelFile:
    return LabelFile(np.asarray(_load(path).darrays[0].data))


def _read_gifti_mesh(path: Path) -> tuple[Array, IntArray]:
    points, triangles = _load(path).agg_data(("pointset", "triangle"))
    if not isinstance(points, np.ndarray) or not isinstance(triangles, np.ndarray):
        raise ValueError("it has no points and triangles")
    return points, triangles


def _write_gifti(path: Path, part: ScalarMaps) -> None:
    image = _new_image(part.side)
    rows = np.atleast_2d(part.values)
    names: Sequence[str | None] = part.names or [None] * len(rows)
    for name, values in zip(names, rows, strict=True):
        image.add_gifti_data_array(
            _new_array(values.astype(np.float32), "NIFTI_INTENT_SHAPE", "NIFTI_TYPE_FLOAT32", name)
        )
    _nib.save(image, path)


def _write_gifti_labels(path: Path, part: LabelMap) -> None:
    image = _new_image(part.side)
    rgb = np.vstack([np.zeros(3), part.colours / 255])
    for key, name in enumerate(["outside", *part.names]):
        label = _gifti.GiftiLabel(key, *rgb[key].tolist(), float(key > 0))
        label.label = name
        image.labeltable.labels.append(label)
    labels = part.values.astype(np.int32)
    image.add_gifti_data_array(
        _new_array(labels, "NIFTI_INTENT_LABEL", "NIFTI_TYPE_INT32", "clusters")
    )
    _nib.save(image, path)


def _new_image(side: Side | None) -> Any:
    meta = {} if side is None else {_STRUCTURE: _STRUCTURES[side]}
    return _gifti.GiftiImage(meta=_gifti.GiftiMetaData(meta))


def _new_array(values: np.ndarray, intent: str, datatype: str, name: str | None) -> Any:
    meta = _gifti.GiftiMetaData({} if name is None else {"Name": name})
    return _gifti.GiftiDataArray(values, intent=intent, datatype=datatype, meta=meta)


GIFTI = Format(
    "gifti",
    suffixes=(".gii", ".gii.gz"),
    examples=(".gii",),
    header=_gifti_header,
    read=_read_gifti,
    side=_gifti_side,
    read_labels=_read_gifti_labels,
    read_mask=_read_gifti_mask,
    read_mesh=_read_gifti_mesh,
    writer=Writer(
        ".shape.gii",
        write_scalars=_write_gifti,
        label_ending=".label.gii",
        write_labels=_write_gifti_labels,
        scans=("surface", "regions"),
        maps=("surface",),
        is_default=always,
    ),
)
