"""Maps in the file formats of neuroimaging: what a header says, and the numbers.

Whatever the format, the numbers of one frame come as one flat row. Volumes are flattened with the
first axis fastest, which also unfolds surface data that hide in NIfTI as 27307 x 1 x 6.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from nibabel.cifti2.cifti2_axes import BrainModelAxis
from nibabel.freesurfer.io import read_morph_data

from braindive.arrays import Array
from braindive.io.sides import UNREADABLE, side_of_name
from braindive.space import Side

_HEAD = 2**18
_MORPH_MAGIC = b"\xff\xff\xff"
# Room for the tags that FreeSurfer writes after the numbers of an MGH file.
_FOOTER = 2**20


class UnreadableError(ValueError):
    """A file is not what its name says, or not all of it."""


@dataclass(frozen=True)
class MapFile:
    """What the header of a map file says.

    Attributes
    ----------
    path : Path
        The file.
    shape : tuple of int
        Spatial axes of one frame.
    n_frames : int
        Maps in the file.
    sides : frozenset of {"left", "right"}
        Hemispheres that the file name and the metadata tell; empty where they tell none.
    affine : (4, 4) or None
        Of volumes.
    axis : BrainModelAxis or None
        Of CIFTI: which vertices and voxels the numbers are of.
    """

    path: Path
    shape: tuple[int, ...]
    n_frames: int
    sides: frozenset[Side]
    affine: Array | None = None
    axis: Any = None

    @property
    def n_values(self) -> int:
        """Numbers in one frame."""
        return int(np.prod(self.shape))


def open_map(path: Path) -> MapFile:
    """Read the header of a map file, and see whether the rest of the file is there.

    Parameters
    ----------
    path : Path
        FreeSurfer ``.mgh``, ``.mgz`` or morph file, GIFTI, CIFTI or NIfTI.

    Returns
    -------
    MapFile
    """
    try:
        if _is_gifti(path):
            return _open_gifti(path)
        if _is_image(path):
            return _open_image(path)
        return _open_morph(path)
    except UnreadableError:
        raise
    except UNREADABLE as error:
        raise UnreadableError(_reason(path, error)) from None


def read_frames(path: Path, frames: Sequence[int]) -> tuple[Array, Any]:
    """Read some frames of a map file.

    Parameters
    ----------
    path : Path
        The file.
    frames : sequence of int
        Frames, counted from 0.

    Returns
    -------
    values : (n_frames, n_values) float32
    axis : BrainModelAxis or None
        Of CIFTI.
    """
    try:
        if _is_gifti(path):
            arrays = nib.load(path).darrays  # type: ignore[attr-defined]
            rows = [np.ravel(arrays[frame].data) for frame in frames]
            return np.stack(rows).astype(np.float32, copy=False), None
        if _is_image(path):
            with _image(path) as image:
                return _read_image(image, frames)
        values = read_morph_data(path)  # type: ignore[no-untyped-call]
        return np.asarray(values, dtype=np.float32).reshape(1, -1)[list(frames)], None
    except UNREADABLE as error:
        raise UnreadableError(_reason(path, error)) from None


@contextmanager
def _image(path: Path) -> Iterator[Any]:
    """Open an image; nibabel leaves the files of MGH images open, so they are closed here."""
    if path.name.endswith((".nii", ".nii.gz")):
        yield nib.load(path)
        return
    opener = open if path.name.endswith(".mgh") else gzip.open
    with opener(path, "rb") as stream:
        yield nib.MGHImage.from_stream(stream)


def _is_gifti(path: Path) -> bool:
    return path.name.endswith((".gii", ".gii.gz"))


def _is_image(path: Path) -> bool:
    return path.name.endswith((".nii", ".nii.gz", ".mgh", ".mgz", ".mgh.gz"))


def _reason(path: Path, error: Exception) -> str:
    if path.stat().st_size == 0:
        return "the file is empty"
    if isinstance(error, (EOFError, zlib.error)):
        return f"the file is truncated or damaged ({error})"
    detail = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"the file cannot be read; it may be truncated or of another format ({detail})"


def _sides(path: Path, told: str | None = None) -> frozenset[Side]:
    sides: set[Side] = set()
    if told is not None:
        sides.add("left" if told.lower() == "left" else "right")
    by_name = side_of_name(path.name)
    if by_name is not None:
        sides.add(by_name)
    return frozenset(sides)


def _open_gifti(path: Path) -> MapFile:
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
    told = re.search(r"AnatomicalStructurePrimary\W.{0,60}?(Left|Right)", head, re.DOTALL)
    shape = (int(lengths[1]) * int(lengths[2] or 1),)
    return MapFile(path, shape, int(count[1]), _sides(path, told and told[1]))


def _open_morph(path: Path) -> MapFile:
    with open(path, "rb") as stream:
        head = stream.read(15)
    if head[:3] != _MORPH_MAGIC or len(head) < 15:
        raise UnreadableError(
            "the format is not known; give .mgh, .mgz, .gii, .nii, .nii.gz, .dscalar.nii or a "
            "FreeSurfer morph file such as lh.thickness"
        )
    n_values = int.from_bytes(head[3:7], "big")
    if path.stat().st_size < 15 + 4 * n_values:
        raise UnreadableError(f"the file is truncated: {n_values} values do not fit in its size")
    return MapFile(path, (n_values,), 1, _sides(path))


def _open_image(path: Path) -> MapFile:
    with _image(path) as image:
        _check_complete(path, image.dataobj)
        shape = tuple(image.shape)
        if isinstance(image, nib.Cifti2Image):
            axis = _brain_models(image)
            return MapFile(path, shape[1:], shape[0], frozenset(), axis=axis)
        if len(shape) > 4:
            raise UnreadableError(f"the image has {len(shape)} axes; give one with three or four")
        n_frames = shape[3] if len(shape) == 4 else 1
        return MapFile(path, shape[:3], n_frames, _sides(path), affine=image.affine)


def _brain_models(image: Any) -> BrainModelAxis:
    axes = [image.header.get_axis(i) for i in range(image.ndim)]
    if len(axes) != 2 or not isinstance(axes[1], BrainModelAxis):
        raise UnreadableError("the file is CIFTI without brain models; give a .dscalar.nii")
    return axes[1]


def _check_complete(path: Path, proxy: Any) -> None:
    """Compare the size of the file with what its header promises, without reading it."""
    expected = proxy.offset + int(np.prod(proxy.shape)) * np.dtype(proxy.dtype).itemsize
    if not path.name.endswith(("gz", ".mgz")):
        if path.stat().st_size < expected:
            raise UnreadableError(
                f"the file is truncated: it has {path.stat().st_size} of {expected} bytes"
            )
        return
    with open(path, "rb") as stream:
        stream.seek(-4, os.SEEK_END)
        # The last four bytes of a whole .gz are its size before compression.
        size = int.from_bytes(stream.read(), "little")
    if expected % 2**32 <= size <= expected % 2**32 + _FOOTER:
        return
    with gzip.open(path) as stream:  # several members, or truncated: reading tells
        while stream.read(2**22):
            pass


def _read_image(image: Any, frames: Sequence[int]) -> tuple[Array, Any]:
    first, last = min(frames), max(frames)
    chosen = np.asarray(frames) - first
    if isinstance(image, nib.Cifti2Image):
        rows = np.asarray(image.dataobj[first : last + 1], dtype=np.float32)
        return rows[chosen], _brain_models(image)
    if len(image.shape) < 4:
        data = np.asarray(image.dataobj, dtype=np.float32)[..., None]
    else:
        data = np.asarray(image.dataobj[..., first : last + 1], dtype=np.float32)
    return data.reshape(-1, data.shape[-1], order="F").T[chosen], None
