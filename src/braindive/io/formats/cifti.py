"""CIFTI: maps and labels of both hemispheres in one file, which says of which vertices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from nibabel import cifti2
from nibabel.cifti2.cifti2_axes import BrainModelAxis

from braindive.arrays import Array
from braindive.io.formats.base import Format, Writer
from braindive.io.formats.contents import (
    LabelFile,
    LabelMap,
    MapFile,
    NamedVertices,
    ScalarMaps,
    UnreadableError,
)
from braindive.io.formats.images import check_complete
from braindive.space import Side, Space, Surface

# nibabel has no types for what makes images.
_nib: Any = nib
_cifti: Any = cifti2

_CORTEX: dict[str, Side] = {
    "CIFTI_STRUCTURE_CORTEX_LEFT": "left",
    "CIFTI_STRUCTURE_CORTEX_RIGHT": "right",
}
# Vertices of one fsLR hemisphere at the densities in which CIFTI files come.
_FSLR = {4002, 7842, 32492, 59292}


def _is_cifti(path: Path) -> bool:
    """Whether nibabel takes the file for CIFTI, which has the name of any NIfTI file."""
    return bool(_nib.Cifti2Image.path_maybe_image(path)[0])


def _cifti_header(path: Path) -> MapFile:
    image = _nib.load(path)
    check_complete(path, image)
    n_frames, *shape = image.shape
    return MapFile(path, tuple(shape), n_frames, vertices=_named_vertices(_brain_models(image)))


def _read_cifti(path: Path, frames: Sequence[int]) -> tuple[Array, NamedVertices]:
    image = _nib.load(path)
    first, last = min(frames), max(frames)
    rows = np.asarray(image.dataobj[first : last + 1], dtype=np.float32)
    return rows[np.asarray(frames) - first], _named_vertices(_brain_models(image))


def _brain_models(image: Any) -> Any:
    axes = [image.header.get_axis(i) for i in range(image.ndim)]
    if len(axes) != 2 or not isinstance(axes[1], BrainModelAxis):
        raise UnreadableError("the file is CIFTI without brain models; give a .dscalar.nii")
    return axes[1]


def _named_vertices(axis: Any) -> NamedVertices:
    held = {_CORTEX[n]: (where, m) for n, where, m in axis.iter_structures() if n in _CORTEX}
    positions = np.arange(len(axis))
    return NamedVertices(
        {_CORTEX[name]: n for name, n in axis.nvertices.items() if name in _CORTEX},
        {side: model.vertex for side, (_, model) in held.items()},
        {side: positions[where] for side, (where, _) in held.items()},
    )


def _read_hemispheres(path: Path) -> NamedVertices:
    return _named_vertices(_nib.load(path).header.get_axis(1))


def _read_cifti_labels(path: Path) -> LabelFile:
    image = _nib.load(path)
    tables = getattr(image.header.get_axis(0), "label", [{}])
    axis = image.header.get_axis(1)
    has_models = isinstance(axis, BrainModelAxis)
    return LabelFile(
        np.asarray(image.dataobj)[0],
        {key: name for key, (name, _) in tables[0].items()},
        vertices=_named_vertices(axis) if has_models else None,
    )


def _is_fslr(space: Space | None) -> bool:
    return isinstance(space, Surface) and all(part.n_mesh in _FSLR for part in space.hemispheres)


def _write_cifti(path: Path, part: ScalarMaps) -> None:
    axis = _cifti.ScalarAxis(part.names)
    _save_cifti(path, part.values, axis, part.space, "ConnDenseScalar")


def _write_cifti_labels(path: Path, part: LabelMap) -> None:
    rgb = part.colours / 255
    table: dict[int, tuple[str, tuple[float, ...]]] = {0: ("outside", (0.0, 0.0, 0.0, 0.0))}
    for key, name in enumerate(part.names, start=1):
        table[key] = (name, (*rgb[key - 1].tolist(), 1.0))
    axis = _cifti.LabelAxis(["clusters"], [table])
    _save_cifti(path, part.values[None], axis, part.space, "ConnDenseLabel")


def _save_cifti(path: Path, rows: np.ndarray, axis: Any, space: Space | None, intent: str) -> None:
    assert isinstance(space, Surface)
    models = [
        _cifti.BrainModelAxis.from_surface(
            np.flatnonzero(part.mask), part.n_mesh, name=f"cortex_{part.side}"
        )
        for part in space.hemispheres
    ]
    brain = models[0] if len(models) == 1 else models[0] + models[1]
    image = _cifti.Cifti2Image(rows.astype(np.float32), (axis, brain))
    image.nifti_header.set_intent(intent)
    _nib.save(image, path)


CIFTI = Format(
    "cifti",
    suffixes=(".nii",),
    examples=(".dscalar.nii",),
    recognises=_is_cifti,
    header=_cifti_header,
    read=_read_cifti,
    read_labels=_read_cifti_labels,
    read_hemispheres=_read_hemispheres,
    writer=Writer(
        ".dscalar.nii",
        write_scalars=_write_cifti,
        label_ending=".dlabel.nii",
        write_labels=_write_cifti_labels,
        maps=("surface",),
        is_default=_is_fslr,
        splits=False,
    ),
)
