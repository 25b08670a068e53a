"""NIfTI: maps and labels of a volume, or surface data in the form of an image."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from braindive.arrays import Array
from braindive.errors import ParameterError
from braindive.io.formats.base import Format, Writer, always
from braindive.io.formats.contents import LabelFile, LabelMap, MapFile, ScalarMaps
from braindive.io.formats.images import as_grid, check_sum, image_frames, image_header, image_labels
from braindive.space import Volume

# nibabel has no types for what makes images.
_nib: Any = nib

# Longest axis that NIfTI-1 can hold.
_LONGEST_AXIS = 32767


def _nifti_header(path: Path) -> MapFile:
    return image_header(path, _nib.load(path))


def _read_nifti(path: Path, frames: Sequence[int]) -> tuple[Array, None]:
    if path.name.endswith(".gz"):
        with gzip.open(path) as stream:
            check_sum(stream)
    return image_frames(_nib.load(path), frames), None


def _read_image(path: Path) -> LabelFile:
    return image_labels(_nib.load(path))


def _write_nifti(path: Path, part: ScalarMaps) -> None:
    folds = 1 if isinstance(part.space, Volume) else _folds(part.values.shape[-1])
    _nib.save(_nib.Nifti1Image(*as_grid(part, folds)), path)


def _folds(n_values: int) -> int:
    """Pieces into which a long row is folded to fit NIfTI-1: 163,842 becomes 27307 x 1 x 6."""
    for folds in range(-(-n_values // _LONGEST_AXIS), _LONGEST_AXIS + 1):
        if n_values % folds == 0:
            return folds
    raise ParameterError(f"{n_values} values do not fit the axes of NIfTI; write mgh or gifti.")


def _write_nifti_labels(path: Path, part: LabelMap) -> None:
    assert isinstance(part.space, Volume)
    _nib.save(_nib.Nifti1Image(part.values.astype(np.int16), part.space.affine), path)


NIFTI = Format(
    "nifti",
    suffixes=(".nii", ".nii.gz"),
    examples=(".nii", ".nii.gz"),
    header=_nifti_header,
    read=_read_nifti,
    read_labels=_read_image,
    read_mask=_read_image,
    volume_suffixes=(".nii", ".nii.gz"),
    writer=Writer(
        ".nii.gz",
        write_scalars=_write_nifti,
        label_ending=".nii.gz",
        write_labels=_write_nifti_labels,
        scans=("surface", "volume", "regions"),
        maps=("volume",),
        is_default=always,
    ),
)
# Labels and masks may be in any other file that nibabel can open.
IMAGE = Format("image", read_labels=_read_image, read_mask=_read_image)
