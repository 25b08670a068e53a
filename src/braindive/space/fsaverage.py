"""What is known of fsaverage5: its names, its relatives, and the data that nilearn brings along.

Every mesh of the family begins with the vertices of the coarser ones, in the same order. fsaverage5
itself comes with nilearn, so that it is there without a download.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from braindive.arrays import Array, IntArray
from braindive.space.surface import Hemisphere, Side, Surface

# Hemispheres of the spaces that can be loaded by name.
BUILT_IN: dict[str, tuple[Side, ...]] = {
    "fsaverage5": ("left", "right"),
    "fsaverage5-left": ("left",),
    "fsaverage5-right": ("right",),
}
# Vertices of one hemisphere: an icosahedron, its faces divided into four again and again.
FAMILY = {
    642: "fsaverage3",
    2562: "fsaverage4",
    10242: "fsaverage5",
    40962: "fsaverage6",
    163842: "fsaverage",
}
N_FSAVERAGE5 = 10_242

Shape = Literal["sphere", "white", "pial", "inflated"]
Measure = Literal["thickness", "sulcal depth"]

# What nilearn calls its files.
_FILES = {
    "sphere": "sphere",
    "white": "white",
    "pial": "pial",
    "inflated": "infl",
    "thickness": "thick",
    "sulcal depth": "sulc",
}
# Cosine of 2.6 degrees, about the distance between neighbours on the sphere of fsaverage5.
_SAME_DIRECTION = 0.999


@cache
def fsaverage5(name: str = "fsaverage5") -> Surface:
    """Return one of the built-in spaces, on the sphere.

    Parameters
    ----------
    name : {"fsaverage5", "fsaverage5-left", "fsaverage5-right"}
        Which.

    Returns
    -------
    Surface

    Examples
    --------
    >>> from braindive.space.fsaverage import fsaverage5
    >>> fsaverage5("fsaverage5-left")
    Surface(name='fsaverage5-left', left: 10,242 vertices)
    """
    return Surface(
        name, tuple(Hemisphere(side, *fsaverage5_mesh("sphere", side)) for side in BUILT_IN[name])
    )


def fsaverage5_mesh(shape: Shape, side: Side) -> tuple[Array, IntArray]:
    """Points (10242, 3) and triangles (20480, 3) of a hemisphere in one of its shapes.

    Examples
    --------
    >>> from braindive.space.fsaverage import fsaverage5_mesh
    >>> [array.shape for array in fsaverage5_mesh("pial", "left")]
    [(10242, 3), (20480, 3)]
    """
    points, triangles = _load(shape, side).agg_data(("pointset", "triangle"))
    return points, triangles


def fsaverage5_values(measure: Measure, side: Side) -> Array:
    """One number for each vertex of a hemisphere, (10242,).

    Examples
    --------
    >>> from braindive.space.fsaverage import fsaverage5_values
    >>> fsaverage5_values("thickness", "right").shape
    (10242,)
    """
    return np.asarray(_load(measure, side).agg_data())


def begins_with_fsaverage5(part: Hemisphere, name: str = "") -> bool:
    """Whether the first vertices of a mesh are those of fsaverage5.

    A sphere tells by the directions of its vertices. A folded or inflated mesh cannot tell; it is
    believed if it has the size of one of the family and the name of its space says so.

    Parameters
    ----------
    part : Hemisphere
        The mesh.
    name : str
        Name of its space.

    Examples
    --------
    >>> from braindive.space.fsaverage import begins_with_fsaverage5, fsaverage5
    >>> begins_with_fsaverage5(fsaverage5("fsaverage5-left").hemispheres[0])
    True
    """
    return part.n_mesh >= N_FSAVERAGE5 and _is_related(part, name)


def nearest_on_fsaverage5(part: Hemisphere, name: str = "") -> IntArray | None:
    """Vertex of fsaverage5 that is nearest to each vertex of a mesh of the family, (n_mesh,).

    Parameters
    ----------
    part : Hemisphere
        The mesh: of the family, coarser or finer.
    name : str
        Name of its space, which tells where the shape of the mesh cannot.

    Returns
    -------
    (n_mesh,) int or None
        None where the mesh is not known to be of the family.

    Examples
    --------
    >>> from braindive.space.fsaverage import fsaverage5, nearest_on_fsaverage5
    >>> nearest_on_fsaverage5(fsaverage5("fsaverage5-left").hemispheres[0])[-2:].tolist()
    [10240, 10241]
    """
    if part.n_mesh not in FAMILY or not _is_related(part, name):
        return None
    if part.n_mesh <= N_FSAVERAGE5:
        return np.arange(part.n_mesh)
    # Along the edges, because a folded mesh has near points that are far apart on the cortex.
    ends = np.unique(np.sort(part.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
    steps = np.linalg.norm(part.coordinates[ends[:, 0]] - part.coordinates[ends[:, 1]], axis=1)
    # An edge of length 0 would be no edge of a sparse graph.
    steps = np.maximum(steps, np.finfo(float).tiny)
    graph = sparse.csr_array((steps, tuple(ends.T)), shape=(part.n_mesh, part.n_mesh))
    _, _, nearest = csgraph.dijkstra(
        graph,
        directed=False,
        indices=np.arange(N_FSAVERAGE5),
        min_only=True,
        return_predecessors=True,
    )
    return np.where(nearest < 0, 0, nearest).astype(np.int64)


def _is_related(part: Hemisphere, name: str) -> bool:
    """Whether the vertices that a mesh shares with fsaverage5, the first ones, are where its are.

    A sphere tells by the directions of its vertices. A folded or inflated mesh cannot tell; it is
    believed if it has the size of one of the family and the name of its space says so.
    """
    n_shared = min(part.n_mesh, N_FSAVERAGE5)
    first = part.coordinates[:n_shared]
    lengths = np.linalg.norm(first, axis=1, keepdims=True)
    if not np.allclose(lengths, lengths[0], rtol=1e-2):
        return part.n_mesh in FAMILY and name.startswith("fsaverage")
    sphere = fsaverage5(f"fsaverage5-{part.side}").hemispheres[0].coordinates[:n_shared]
    with np.errstate(invalid="ignore"):
        cosines = np.sum(first * sphere, axis=1) / (lengths[:, 0] * np.linalg.norm(sphere, axis=1))
    return bool(np.min(cosines) > _SAME_DIRECTION)


def _load(what: Shape | Measure, side: Side) -> Any:
    import nibabel as nib  # here, since cohorts of other spaces do without it

    folder = files("nilearn.datasets") / "data" / "fsaverage5"
    return nib.load(Path(str(folder / f"{_FILES[what]}_{side}.gii.gz")))
