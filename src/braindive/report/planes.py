"""Where each voxel of a volume is drawn in the report: on three planes, over a template."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

import nibabel as nib
import numpy as np
from scipy import ndimage

from braindive.arrays import Array, BoolArray, IntArray
from braindive.report.embedding import encode_array
from braindive.report.picture import PagePicture
from braindive.space import Volume

# Numbers that a page holds of the voxels' probabilities: 3 MB, and at most so many voxels.
_MOST_NUMBERS, _MOST_VOXELS = 1_600_000, 250_000
# A volume lies in MNI space, as far as one can tell, if nearly all of its voxels are inside the MNI
# brain and it is larger than anything that would lie inside it by accident.
_SHARE_INSIDE, _LARGE = 0.9, 60.0
# What nilearn calls the skull-stripped template that it brings along.
_TEMPLATE = "mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz"


def draw_volume(space: Volume, n_clusters: int = 3) -> PagePicture:
    """Choose the voxels of a volume that are drawn, and the template under them.

    Parameters
    ----------
    space : Volume
        Its axes are turned to run from left to right, back to front and below to above.
    n_clusters : int
        The more clusters, the fewer voxels can be held by a page of reasonable size.

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> from braindive.report.planes import draw_volume
    >>> draw_volume(bd.Volume("box", np.ones((4, 5, 6), dtype=bool), np.eye(4))).columns.shape
    (120,)
    """
    columns, affine = _upright(space)
    step = 1
    most = min(_MOST_VOXELS, _MOST_NUMBERS // max(n_clusters, 1))
    while (columns[::step, ::step, ::step] >= 0).sum() > most:
        step += 1
    # The middle voxel of each block of so many stands for it.
    start = (step - 1) // 2
    columns = columns[start::step, start::step, start::step]
    affine = affine @ np.diag([step, step, step, 1.0])
    affine[:3, 3] += start * (affine[:3, :3] / step).sum(axis=1)
    columns, affine = _cropped(columns, affine)
    in_mni = _is_in_mni(space.name, columns >= 0, affine)
    if in_mni:
        columns, affine = _around_brain(columns, affine)
    shown = columns >= 0
    content = {
        "shape": list(columns.shape),
        "affine": affine[:3].tolist(),
        "size": np.linalg.norm(affine[:3, :3], axis=0).tolist(),
        "places": encode_array(np.flatnonzero(shown), "uint32"),
        "template": encode_array(_template_on(columns.shape, affine), "uint8") if in_mni else None,
    }
    notes = [] if step == 1 else [f"One voxel in {step**3} is drawn."]
    if in_mni:
        notes.append("Under it the MNI152 template, within which these voxels lie.")
    return PagePicture("volume", columns[shown], content, " ".join(notes))


def _upright(space: Volume) -> tuple[IntArray, Array]:
    """Column of each voxel, -1 outside the mask, with axes to the right, the front and above."""
    numbers = np.full(space.mask.shape, -1, dtype=np.int32)
    numbers[space.mask] = np.arange(space.n_vertices)
    image = nib.Nifti1Image(numbers, space.affine)  # type: ignore[no-untyped-call]
    turned = nib.as_closest_canonical(image)  # type: ignore[no-untyped-call]
    return np.asarray(turned.dataobj).astype(np.int64), np.array(turned.affine, dtype=float)


def _cropped(columns: IntArray, affine: Array) -> tuple[IntArray, Array]:
    """Leave out what lies around the mask, but for a margin of one voxel."""
    within = [
        np.flatnonzero((columns >= 0).any(axis=others)) for others in ((1, 2), (0, 2), (0, 1))
    ]
    low = np.array([axis[0] for axis in within]) - 1
    high = np.array([axis[-1] for axis in within]) + 2
    return _resized(columns, affine, low, high)


def _resized(
    columns: IntArray, affine: Array, low: IntArray, high: IntArray
) -> tuple[IntArray, Array]:
    """Return the part from `low` to `high`, which may lie outside."""
    found = np.full(high - low, -1, dtype=np.int64)
    inner_low, inner_high = np.maximum(low, 0), np.minimum(high, columns.shape)
    source = tuple(slice(a, b) for a, b in zip(inner_low, inner_high, strict=True))
    target = tuple(slice(a, b) for a, b in zip(inner_low - low, inner_high - low, strict=True))
    found[target] = columns[source]
    moved = affine.copy()
    moved[:3, 3] += affine[:3, :3] @ low
    return found, moved


def _is_in_mni(name: str, inside: BoolArray, affine: Array) -> bool:
    voxels = np.argwhere(inside)
    extent = np.ptp(voxels, axis=0) * np.linalg.norm(affine[:3, :3], axis=0)
    if "mni" not in name.lower() and (extent < _LARGE).sum() > 1:
        return False
    template, to_mm = _mni_template()
    at = np.linalg.solve(to_mm, affine @ np.column_stack([voxels, np.ones(len(voxels))]).T)[:3]
    return float(np.mean(ndimage.map_coordinates(template, at, order=0) > 0)) >= _SHARE_INSIDE


def _around_brain(columns: IntArray, affine: Array) -> tuple[IntArray, Array]:
    """Enlarge the part that is drawn until it holds the whole brain of the template."""
    template, to_mm = _mni_template()
    corners = np.argwhere(template > 0)
    low, high = corners.min(axis=0), corners.max(axis=0)
    box = np.array([[x, y, z, 1.0] for x in (low[0], high[0]) for y in (low[1], high[1])
                    for z in (low[2], high[2])])  # fmt: skip
    voxels = np.linalg.solve(affine, to_mm @ box.T)[:3]
    first = np.minimum(np.floor(voxels.min(axis=1)).astype(int) - 1, 0)
    last = np.maximum(np.ceil(voxels.max(axis=1)).astype(int) + 2, columns.shape)
    return _resized(columns, affine, first, last)


def _template_on(shape: tuple[int, ...], affine: Array) -> Array:
    """Brightness of the template, 0 outside the brain, on the voxels that are drawn."""
    template, to_mm = _mni_template()
    matrix = np.linalg.solve(to_mm, affine)
    found: Array = ndimage.affine_transform(
        template.astype(np.float32), matrix[:3, :3], matrix[:3, 3], output_shape=shape, order=1
    )
    return np.clip(np.round(found), 0, 255)


@cache
def _mni_template() -> tuple[Array, Array]:
    """Brightness and affine of the template, which nilearn brings along."""
    path = Path(str(files("nilearn.datasets") / "data" / _TEMPLATE))
    image = nib.load(path)
    return np.asarray(image.dataobj), np.asarray(image.affine)  # type: ignore[attr-defined]
