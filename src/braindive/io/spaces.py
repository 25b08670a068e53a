"""Spaces by name, and from the files in which studies keep them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from braindive.arrays import Array, BoolArray, IntArray
from braindive.cohort.table_columns import suggest
from braindive.errors import ParameterError
from braindive.io.formats.base import Format
from braindive.io.formats.contents import UNREADABLE
from braindive.io.formats.registry import FORMATS, declared_side, find_format, find_function
from braindive.io.paths import PathLike, suggest_path
from braindive.io.sides import side_of_name
from braindive.space.base import Space
from braindive.space.fsaverage import BUILT_IN, fsaverage5
from braindive.space.regions import Regions
from braindive.space.surface import Hemisphere, Side, Surface
from braindive.space.volume import Volume

_BY_FILE = {
    "fsaverage": "the folder of the subject, for example $SUBJECTS_DIR/fsaverage",
    "fsaverage6": "the folder of the subject, for example $SUBJECTS_DIR/fsaverage6",
    "fsLR-32k": (
        "the two surfaces, for example "
        "tpl-fsLR_den-32k_hemi-L_sphere.surf.gii,tpl-fsLR_den-32k_hemi-R_sphere.surf.gii"
    ),
}


def load_space(
    spec: PathLike | Sequence[PathLike] | Space,
    *,
    mask: PathLike | Sequence[PathLike] | None = None,
    neighbourhood: int = 6,
) -> Space:
    """Load a space by its name, or from files.

    Parameters
    ----------
    spec : str, path, pair of paths or Space
        - ``"fsaverage5"``, ``"fsaverage5-left"`` or ``"fsaverage5-right"``, which come with
          nilearn: 10,242 vertices for each hemisphere.
        - The folder of a FreeSurfer subject, such as ``$SUBJECTS_DIR/fsaverage``.
        - A surface (GIFTI ``.surf.gii``, or FreeSurfer geometry such as ``lh.white``), or two of
          them for both hemispheres: a pair, or one text with a comma between them.
        - A NIfTI mask.
        - A TSV or CSV of neighbouring regions with the columns ``region`` and ``neighbour``; a
          row without neighbour names a region that has none.
        - A `Space`, which is returned as it is.
    mask : path or pair of paths, optional
        Which vertices of a surface are measured: FreeSurfer labels (``lh.cortex.label``), GIFTI,
        MGH, or one CIFTI file for both hemispheres. Other than 0 means measured.
    neighbourhood : {6, 18, 26}
        Neighbours of a voxel.

    Returns
    -------
    Space

    Examples
    --------
    >>> import braindive as bd
    >>> bd.load_space("fsaverage5").n_vertices
    20484
    """
    if isinstance(spec, Space):
        space = spec
    elif isinstance(spec, str) and spec in BUILT_IN:
        space = fsaverage5(spec)
    else:
        space = _from_files(_as_paths(spec), neighbourhood)
    if mask is None:
        return space
    if not isinstance(space, Surface):
        raise ParameterError(f"mask is for surfaces; the {space.kind} {space.name!r} has its own.")
    return _masked(space, _as_paths(mask))


def _as_paths(spec: PathLike | Sequence[PathLike]) -> list[Path]:
    if isinstance(spec, str):
        one = Path(spec).expanduser()
        listed: list[PathLike] = [one] if one.exists() else list(spec.split(","))
    elif isinstance(spec, os.PathLike):
        listed = [spec]
    else:
        listed = list(spec)
    if len(listed) not in (1, 2):
        raise ParameterError(f"give one file, or two for left and right; got {len(listed)}.")
    return [_existing(os.fspath(item)) for item in listed]


def _existing(text: str) -> Path:
    path = Path(text.strip()).expanduser()
    if path.exists():
        return path
    if text in _BY_FILE:
        raise ParameterError(f"{text} does not come with nilearn; instead give {_BY_FILE[text]}.")
    names = [*BUILT_IN, *_BY_FILE]
    raise ParameterError(
        f"there is no space and no file {text!r}{suggest(text, names) or suggest_path(path)}; give "
        f"a path, or one of {', '.join(names)}."
    )


def _from_files(paths: list[Path], neighbourhood: int) -> Space:
    first = paths[0]
    name = first.name
    if len(paths) == 1:
        if first.is_dir():
            return _subject_surface(first)
        if name.endswith((".tsv", ".csv")):
            return _read_regions(first)
        if any(name.endswith(known.volume_suffixes) for known in FORMATS.values()):
            return _read_volume(first, neighbourhood)
    default: tuple[Side, ...] = ("left", "right")
    parts = []
    for path, expected in zip(paths, default, strict=False):
        side = declared_side(path) or expected
        if len(paths) == 2 and side != expected:
            raise ParameterError(f"{path} is the {side} hemisphere; give the left first.")
        parts.append(Hemisphere(side, *_read_mesh(path)))
    return Surface(", ".join(path.name for path in paths), tuple(parts))


def _subject_surface(folder: Path) -> Surface:
    for surface in ("sphere", "white"):
        paths = [folder / "surf" / f"{prefix}.{surface}" for prefix in ("lh", "rh")]
        if all(path.is_file() for path in paths):
            sides: tuple[Side, ...] = ("left", "right")
            parts = [Hemisphere(s, *_read_mesh(p)) for s, p in zip(sides, paths, strict=True)]
            return Surface(folder.resolve().name, tuple(parts))
    raise ParameterError(
        f"{folder} has no surf/lh.sphere and surf/rh.sphere; give the folder of a FreeSurfer "
        "subject, or the surface files."
    )


def _read_mesh(path: Path) -> tuple[Array, IntArray]:
    try:
        points, triangles = find_function(path, "read_mesh")(path)
    except UNREADABLE as error:
        raise ParameterError(f"{path} cannot be read as a surface: {error}.") from None
    return points, triangles


def _read_volume(path: Path, neighbourhood: int) -> Volume:
    try:
        found = find_function(path, "read_mask")(path)
        if found.affine is None:
            raise ValueError("it is not an image of voxels")
    except UNREADABLE as error:
        raise ParameterError(f"{path} cannot be read as a mask: {error}.") from None
    data = found.numbers
    data = data[..., 0] if data.ndim == 4 and data.shape[3] == 1 else data
    return Volume(path.name, np.nan_to_num(data) != 0, found.affine, neighbourhood)


def _read_regions(path: Path) -> Regions:
    separator = "," if path.suffix == ".csv" else "\t"
    table = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False)
    table = table.rename(columns={"neighbor": "neighbour"})
    if list(table.columns) != ["region", "neighbour"]:
        raise ParameterError(
            f"{path} has the columns {', '.join(map(str, table.columns))}; a table of neighbours "
            "has region and neighbour."
        )
    position: dict[str, int] = {}
    pairs = []
    for region, neighbour in table.itertuples(index=False):
        ends = [name for name in (region, neighbour) if name]
        for name in ends:
            position.setdefault(name, len(position))
        if len(ends) == 2:
            pairs.append([position[name] for name in ends])
    return Regions(path.name, tuple(position), np.array(pairs, dtype=np.int64))


def _masked(space: Surface, paths: list[Path]) -> Surface:
    of_both = find_format(paths[0], "read_hemispheres") if len(paths) == 1 else None
    if of_both is not None:
        masks = _read_masks(paths[0], space, of_both)
    elif len(paths) != len(space.hemispheres):
        raise ParameterError(
            f"{space.name!r} has {len(space.hemispheres)} hemisphere(s); give a mask for each, "
            f"got {len(paths)}."
        )
    else:
        masks = []
        for path, part in zip(paths, space.hemispheres, strict=True):
            if side_of_name(path.name) not in (None, part.side):
                raise ParameterError(f"{path} is not of the {part.side} hemisphere.")
            masks.append(_read_mask(path, part))
    parts = [
        Hemisphere(part.side, part.coordinates, part.faces, mask)
        for part, mask in zip(space.hemispheres, masks, strict=True)
    ]
    return Surface(space.name, tuple(parts))


def _read_mask(path: Path, part: Hemisphere) -> BoolArray:
    try:
        read_vertices = find_function(path, "read_vertices")
        if read_vertices is not None:
            vertices = read_vertices(path)
            if vertices.max(initial=0) >= part.n_mesh:
                raise ValueError(f"it names vertex {vertices.max()} of a mesh of {part.n_mesh}")
            mask = np.zeros(part.n_mesh, dtype=bool)
            mask[vertices] = True
            return mask
        numbers = find_function(path, "read_mask")(path).numbers
    except (*UNREADABLE, AttributeError) as error:
        raise ParameterError(f"{path} cannot be read as a mask: {error}.") from None
    measured: BoolArray = np.nan_to_num(np.ravel(numbers, order="F")) != 0
    return measured


def _read_masks(path: Path, space: Surface, known: Format) -> list[BoolArray]:
    """Masks of all hemispheres from one file."""
    assert known.read_hemispheres is not None
    try:
        held = known.read_hemispheres(path)
    except (*UNREADABLE, AttributeError) as error:
        raise ParameterError(f"{path} cannot be read as {known.name.upper()}: {error}.") from None
    masks = []
    for part in space.hemispheres:
        if held.n_mesh.get(part.side, part.n_mesh) != part.n_mesh:
            raise ParameterError(f"{path} is of another mesh than {space.name!r}.")
        mask = np.zeros(part.n_mesh, dtype=bool)
        mask[held.vertices.get(part.side, [])] = True
        masks.append(mask)
    return masks
