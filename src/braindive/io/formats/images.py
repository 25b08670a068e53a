"""What the formats share that nibabel opens as images: MGH, NIfTI and CIFTI."""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from braindive.arrays import Array
from braindive.io.formats.contents import LabelFile, MapFile, ScalarMaps, UnreadableError
from braindive.io.sides import sides_told
from braindive.space import Volume

# Room for the tags that FreeSurfer writes after the numbers of an MGH file.
_FOOTER = 2**20
# Measurements shrink to a half at best, and masks of a whole brain to a hundredth. What claims to
# be larger than this many bytes and shrank further is a file made to fill memory.
_LARGE = 2**28
_SHRINKS = 200


def check_complete(path: Path, image: Any) -> None:
    """Compare the size of the file with what its header promises, without reading it."""
    proxy = image.dataobj
    shape = tuple(int(length) for length in proxy.shape)  # the header's own integers overflow
    if min(shape, default=0) < 0:
        raise UnreadableError(f"the header is damaged: it claims a shape of {shape}")
    expected = int(proxy.offset) + math.prod(shape) * np.dtype(proxy.dtype).itemsize
    if not path.name.endswith(("gz", ".mgz")):
        if path.stat().st_size < expected:
            raise UnreadableError(
                f"the file is truncated: it has {path.stat().st_size} of {expected} bytes"
            )
        return
    if expected > _LARGE and expected > _SHRINKS * path.stat().st_size:
        raise UnreadableError(
            f"the header claims {expected / 1e9:.1f} GB, which a compressed file of "
            f"{path.stat().st_size:,} bytes does not hold"
        )
    with open(path, "rb") as stream:
        stream.seek(-4, os.SEEK_END)
        # The last four bytes of a whole .gz are its size before compression.
        size = int.from_bytes(stream.read(), "little")
    if expected % 2**32 <= size <= expected % 2**32 + _FOOTER:
        return
    found = 0
    with gzip.open(path) as stream:  # several members, or truncated: reading tells
        while found <= expected + _FOOTER and (piece := stream.read(2**22)):
            found += len(piece)
    if not expected <= found <= expected + _FOOTER:
        raise UnreadableError(f"the file holds {found} bytes or more, and not {expected}")


def check_sum(stream: Any) -> None:
    """Read a compressed stream to its end, where its checksum is: nibabel stops at the numbers."""
    while stream.read(2**22):
        pass


def image_header(path: Path, image: Any) -> MapFile:
    """Header of an image of three axes, or four with the frames last."""
    check_complete(path, image)
    shape = tuple(image.shape)
    if len(shape) > 4:
        raise UnreadableError(f"the image has {len(shape)} axes; give one with three or four")
    n_frames = shape[3] if len(shape) == 4 else 1
    return MapFile(path, shape[:3], n_frames, sides_told(path), affine=image.affine)


def image_frames(image: Any, frames: Sequence[int]) -> Array:
    """Some frames of an image, each as one row with the first axis fastest."""
    first, last = min(frames), max(frames)
    if len(image.shape) < 4:
        data = np.asarray(image.dataobj, dtype=np.float32)[..., None]
    else:
        data = np.asarray(image.dataobj[..., first : last + 1], dtype=np.float32)
    rows: Array = data.reshape(-1, data.shape[-1], order="F").T[np.asarray(frames) - first]
    return rows


def image_labels(image: Any) -> LabelFile:
    """The grid of an image as labels or as a mask."""
    return LabelFile(np.asarray(image.dataobj), affine=getattr(image, "affine", None))


def as_grid(part: ScalarMaps, folds: int = 1) -> tuple[Array, Array]:
    """Grid and affine that hold maps: those of the volume, or rows of vertices as an image.

    Parameters
    ----------
    part : ScalarMaps
        What to write.
    folds : int
        Pieces into which a row of vertices is folded along the third axis.

    Returns
    -------
    grid : (x, y, z) or (x, y, z, n_maps) float32
    affine : (4, 4)
    """
    values = part.values.astype(np.float32)
    if isinstance(part.space, Volume):
        return values, part.space.affine
    # The first axis of an image is its fastest.
    grid = values.T.reshape(-1, 1, folds, *values.shape[:-1], order="F")
    return grid, np.eye(4)
