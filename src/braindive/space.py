"""Where the vertices are: surfaces, and their neighbour graphs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import nibabel as nib
import numpy as np
from scipy import sparse

from braindive.errors import ParameterError
from braindive.model.arrays import Array, IntArray


@dataclass(frozen=True)
class Space:
    """Vertices, their coordinates and the triangles between them.

    Parameters
    ----------
    name : str
        For people.
    coordinates : (n_vertices, 3)
        Where each vertex lies; on a sphere where the surface has one.
    faces : (n_faces, 3) int
        Triangles.
    """

    name: str
    coordinates: Array = field(repr=False)
    faces: IntArray = field(repr=False)

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.coordinates)

    def graph(self, order: int = 1) -> sparse.csr_array:
        """Adjacency of the vertices: paths of up to `order` mesh edges."""
        first, second = self.faces[:, [0, 1, 2]].ravel(), self.faces[:, [1, 2, 0]].ravel()
        size = (self.n_vertices, self.n_vertices)
        edges = sparse.csr_array((np.ones(len(first)), (first, second)), shape=size)
        adjacency = edges + edges.T
        reached = adjacency
        for _ in range(order - 1):
            reached = reached + reached @ adjacency
        reached = sparse.csr_array(reached)
        reached.setdiag(0)
        reached.eliminate_zeros()
        reached.data[:] = 1.0
        return reached


def load_space(name: str | Space) -> Space:
    """Load a built-in space.

    Parameters
    ----------
    name : {"fsaverage5", "fsaverage5-left", "fsaverage5-right"}
        The cortex that nilearn ships: 10,242 vertices for each hemisphere.

    Returns
    -------
    Space

    Examples
    --------
    >>> import braindive as bd
    >>> bd.load_space("fsaverage5").n_vertices
    20484
    """
    if isinstance(name, Space):
        return name
    parts = {
        "fsaverage5": ("left", "right"),
        "fsaverage5-left": ("left",),
        "fsaverage5-right": ("right",),
    }
    if name not in parts:
        raise ParameterError(f"there is no space {name!r}; choose one of {', '.join(parts)}.")
    return _fsaverage5(parts[name], name)


@cache
def _fsaverage5(hemispheres: tuple[str, ...], name: str) -> Space:
    folder = files("nilearn.datasets") / "data" / "fsaverage5"
    coordinates: list[Array] = []
    faces: list[IntArray] = []
    offset = 0
    for hemisphere in hemispheres:
        surface = nib.load(str(folder / f"sphere_{hemisphere}.gii.gz"))
        points, triangles = (array.data for array in surface.darrays)  # type: ignore[attr-defined]
        coordinates.append(np.asarray(points, dtype=float))
        faces.append(np.asarray(triangles, dtype=int) + offset)
        offset += len(points)
    return Space(name, np.concatenate(coordinates), np.concatenate(faces))
