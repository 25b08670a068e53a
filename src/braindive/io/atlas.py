"""Regions of an atlas, one label for each vertex."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from braindive.arrays import IntArray
from braindive.errors import CohortError
from braindive.io.anatomy import explain_missing, find_anatomy
from braindive.io.atlas_names import ATLASES
from braindive.io.formats.contents import UNREADABLE, LabelFile, NamedVertices
from braindive.io.formats.registry import declared_side, find_function
from braindive.io.paths import PathLike
from braindive.space import Space, Surface, Volume


def read_atlas(
    paths: PathLike | Sequence[PathLike], n_vertices: int, space: Space | None = None
) -> IntArray:
    """Read an atlas.

    Parameters
    ----------
    paths : path, sequence of paths, "desikan-killiany" or "destrieux"
        A name takes the regions of fsaverage5 from what is installed (`region_names`). Otherwise
        one file for all vertices, or one for each hemisphere, left first. FreeSurfer `.annot`,
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
    files = (
        [Path(paths)] if isinstance(paths, (str, os.PathLike)) else [Path(path) for path in paths]
    )
    if len(files) == 1 and str(files[0]) in ATLASES and not files[0].exists():
        return _by_name(str(files[0]), n_vertices, space)
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


def _by_name(name: str, n_vertices: int, space: Space | None) -> IntArray:
    """Regions of an atlas that an installed package has."""
    found = find_anatomy(space, name)
    if found is None:
        raise CohortError(f"there is no {ATLASES[name]} atlas here. {explain_missing(space, name)}")
    if len(found.labels) != n_vertices:
        raise CohortError(
            f"the atlas covers {len(found.labels):,} vertices, but the cohort has {n_vertices:,}."
        )
    return found.labels


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
        return _regions(find_function(path, "read_labels")(path), path, space)
    except UNREADABLE as error:
        if isinstance(error, CohortError):
            raise
        raise CohortError(f"the atlas {path} cannot be read: {error}") from error


def _regions(found: LabelFile, path: Path, space: Space | None) -> IntArray:
    """Regions at the columns of the space, or at all numbers of the file."""
    if found.vertices is not None and isinstance(space, Surface):
        _check_meshes(found.vertices, path, space)
        position = found.vertices.columns(space)
        labels = _whole_numbers(found.numbers, found.outside, path)
        return np.where(position < 0, -1, labels[np.maximum(position, 0)])
    if found.affine is not None and isinstance(space, Volume):
        grid = found.numbers[..., 0] if found.numbers.ndim == 4 else found.numbers
        if grid.shape != space.mask.shape or not np.allclose(found.affine, space.affine, atol=1e-3):
            raise CohortError(
                f"the atlas {path} has a grid of {' x '.join(map(str, grid.shape))} voxels, and "
                f"the cohort {space!r}, or they lie elsewhere; resample the atlas to the mask."
            )
        return _whole_numbers(grid[space.mask], found.outside, path)
    # Surface data in the form of an image have their first axis fastest.
    return _whole_numbers(found.numbers.ravel(order="F"), found.outside, path)


def _check_meshes(held: NamedVertices, path: Path, space: Surface) -> None:
    sizes, meshes = set(held.n_mesh.values()), {part.n_mesh for part in space.hemispheres}
    if not sizes <= meshes:
        raise CohortError(
            f"the atlas {path} is of meshes with {' and '.join(f'{n:,}' for n in sorted(sizes))} "
            f"vertices, and a hemisphere of the cohort's {space.name!r} has "
            f"{', '.join(f'{n:,}' for n in sorted(meshes))}."
        )


def _whole_numbers(numbers: np.ndarray, outside: Sequence[int], path: Path) -> IntArray:
    """Regions from 0, and -1 outside."""
    whole = np.asarray(numbers, dtype=float)
    if not np.array_equal(whole, np.round(whole)):
        raise CohortError(f"the atlas {path} holds fractions; regions have whole numbers.")
    return np.where(np.isin(whole, list(outside)) | (whole <= 0), -1, whole - 1).astype(int)
