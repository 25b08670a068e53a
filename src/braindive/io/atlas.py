"""Regions of an atlas, one label for each vertex."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pandas as pd
from nibabel.cifti2.cifti2_axes import BrainModelAxis
from nibabel.freesurfer.io import read_annot
from nibabel.gifti.gifti import GiftiImage

from braindive.arrays import IntArray
from braindive.errors import CohortError
from braindive.io.scans import cifti_index
from braindive.io.sides import UNREADABLE, declared_side
from braindive.space import Space, Surface, Volume

_OUTSIDE = {"unknown", "medial_wall", "medial wall", "medialwall", "???", "corpuscallosum"}


def read_atlas(
    paths: str | Path | Sequence[str | Path], n_vertices: int, space: Space | None = None
) -> IntArray:
    """Read an atlas.

    Parameters
    ----------
    paths : path or sequence of paths
        One file for all vertices, or one for each hemisphere, left first. FreeSurfer `.annot`,
        GIFTI labels, CIFTI or any image of whole numbers, or a table (`.tsv`, `.csv`, `.txt`)
        whose last column holds the region of each vertex.
    n_vertices : int
        Vertices of the cohort.
    space : Space, optional
        Of the cohort. With it an atlas of all vertices or voxels is cut to those of the cohort,
        and one of another grid or of the other hemisphere is refused.

    Returns
    -------
    (n_vertices,) int
        Number of the region; -1 for vertices outside all regions. Regions of the two hemispheres
        are different regions where each has a file.

    Examples
    --------
    >>> import pathlib, tempfile, pandas as pd
    >>> from braindive.io.atlas import read_atlas
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "regions.csv")
    ...     pd.DataFrame({"region": ["frontal", "frontal", "temporal"]}).to_csv(path, index=False)
    ...     read_atlas(path, 3)
    array([0, 0, 1])
    """
    files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    _check_sides(files, space)
    parts: list[IntArray] = []
    for file in files:
        labels = _read_labels(file, space)
        used = max((int(part.max()) + 1 for part in parts), default=0)
        parts.append(np.where(labels < 0, -1, labels + used))
    whole = np.concatenate(parts)
    if isinstance(space, Surface):
        mask = np.concatenate([part.mask for part in space.hemispheres])
        if len(whole) == len(mask):
            whole = whole[mask]
    if len(whole) != n_vertices:
        found = " + ".join(
            f"{len(part):,} in {file.name}" for part, file in zip(parts, files, strict=True)
        )
        raise CohortError(
            f"the atlas covers {len(whole):,} vertices ({found}), but the cohort has "
            f"{n_vertices:,}; use an atlas of the cohort's space, one file for each hemisphere."
        )
    if whole.max() < 0:
        raise CohortError(
            f"the atlas {', '.join(str(file) for file in files)} has no region at any of the "
            f"cohort's {n_vertices:,} vertices."
        )
    return whole


def _check_sides(files: Sequence[Path], space: Space | None) -> None:
    """Refuse files of the wrong hemisphere, as far as their names and metadata tell."""
    sides: tuple[str, ...] = ("left", "right") if len(files) == 2 else ()
    if isinstance(space, Surface) and len(space.hemispheres) == len(files):
        sides = tuple(part.side for part in space.hemispheres)
    for file, side in zip(files, sides, strict=False):
        told = declared_side(file) if file.exists() else None
        if told not in (None, side):
            raise CohortError(
                f"the atlas {file} is of the {told} hemisphere where the {side} one is expected; "
                "give the files of the cohort's hemispheres, left first."
            )


def _read_labels(path: Path, space: Space | None) -> IntArray:
    """Region of each vertex as numbers from 0, -1 outside."""
    if not path.exists():
        raise CohortError(f"there is no atlas {path}.")
    try:
        if path.suffix == ".annot":
            labels, _, names = read_annot(path)  # type: ignore[no-untyped-call]
            outside = _outside((i, name.decode()) for i, name in enumerate(names))
            return np.where(np.isin(labels, outside), -1, labels)
        if path.suffix in (".tsv", ".csv", ".txt"):
            return _from_table(path)
        return _from_image(nib.load(path), path, space)
    except UNREADABLE as error:
        if isinstance(error, CohortError):
            raise
        raise CohortError(f"the atlas {path} cannot be read: {error}") from error


def _from_table(path: Path) -> IntArray:
    table = pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")
    column = table[table.columns[-1]]
    if column.dtype.kind in "iuf":
        return _from_numbers(column.to_numpy(), path)
    known = column.where(~column.str.lower().isin(_OUTSIDE))
    return np.asarray(pd.factorize(known, sort=True)[0])


def _from_image(image: Any, path: Path, space: Space | None) -> IntArray:
    if isinstance(image, GiftiImage):
        names = image.labeltable.get_labels_as_dict()
        return _from_numbers(np.asarray(image.darrays[0].data), path, _outside(names.items()))
    data = np.asarray(image.dataobj)
    if isinstance(image, nib.Cifti2Image):
        return _from_cifti(image, data, path, space)
    if isinstance(space, Volume):
        grid = data[..., 0] if data.ndim == 4 else data
        if grid.shape != space.mask.shape or not np.allclose(image.affine, space.affine, atol=1e-3):
            raise CohortError(
                f"the atlas {path} has a grid of {' x '.join(map(str, grid.shape))} voxels, and "
                f"the cohort {space!r}, or they lie elsewhere; resample the atlas to the mask."
            )
        return _from_numbers(grid[space.mask], path)
    # Surface data in the form of an image have their first axis fastest.
    return _from_numbers(data.ravel(order="F"), path)


def _from_cifti(image: Any, data: np.ndarray, path: Path, space: Space | None) -> IntArray:
    names = getattr(image.header.get_axis(0), "label", None)
    outside = [] if names is None else _outside((key, text) for key, (text, _) in names[0].items())
    labels = _from_numbers(data[0], path, outside)
    axis = image.header.get_axis(1)
    if not isinstance(space, Surface) or not isinstance(axis, BrainModelAxis):
        return labels
    meshes = {part.n_mesh for part in space.hemispheres}
    if not set(axis.nvertices.values()) <= meshes:
        held = " and ".join(f"{n:,}" for n in sorted(set(axis.nvertices.values())))
        raise CohortError(
            f"the atlas {path} is of meshes with {held} vertices, and a hemisphere of the "
            f"cohort's {space.name!r} has {', '.join(f'{n:,}' for n in sorted(meshes))}."
        )
    position = cifti_index(space, axis)
    return np.where(position < 0, -1, labels[np.maximum(position, 0)])


def _outside(names: Iterable[tuple[int, str]]) -> list[int]:
    return [key for key, name in names if name.lower() in _OUTSIDE]


def _from_numbers(numbers: np.ndarray, path: Path, outside: Sequence[int] = ()) -> IntArray:
    whole = np.asarray(numbers, dtype=float)
    if not np.array_equal(whole, np.round(whole)):
        raise CohortError(f"the atlas {path} holds fractions; regions have whole numbers.")
    # 0 is "outside all regions" in label images.
    return np.where(np.isin(whole, list(outside)) | (whole <= 0), -1, whole - 1).astype(int)
