"""Surfaces: one or two hemispheres of triangles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.errors import ParameterError
from braindive.space.base import Space, read_only

Side = Literal["left", "right"]


@dataclass(frozen=True, eq=False)
class Hemisphere:
    """One mesh, and which of its vertices are measured.

    Parameters
    ----------
    side : {"left", "right"}
        Which hemisphere.
    coordinates : (n, 3)
        Where each vertex lies; on a sphere where the surface has one.
    faces : (m, 3) int
        Triangles.
    mask : (n,) bool, optional
        True where measured, False on the medial wall; everywhere True by default.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.space import Hemisphere
    >>> Hemisphere("left", np.eye(3), [[0, 1, 2]], [True, True, False]).n_measured
    2
    """

    side: Side
    coordinates: Array = field(repr=False)
    faces: IntArray = field(repr=False)
    mask: BoolArray = field(default=None, repr=False)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.side not in ("left", "right"):
            raise ParameterError(f'side must be "left" or "right"; got {self.side!r}.')
        coordinates = read_only(self.coordinates, float)
        faces = read_only(self.faces, np.int64)
        if coordinates.ndim != 2 or coordinates.shape[1] != 3:
            raise ParameterError(f"coordinates have shape {coordinates.shape}; they need (n, 3).")
        if faces.ndim != 2 or faces.shape[1] != 3:
            raise ParameterError(f"faces have shape {faces.shape}; triangles need (m, 3).")
        if faces.size and (faces.min() < 0 or faces.max() >= len(coordinates)):
            raise ParameterError(
                f"faces name vertices {faces.min()} to {faces.max()}, but the {self.side} mesh has "
                f"{len(coordinates)}."
            )
        given = self.mask if self.mask is not None else np.ones(len(coordinates), dtype=bool)
        mask = read_only(given, bool)
        if mask.shape != (len(coordinates),):
            raise ParameterError(
                f"the {self.side} mask has shape {mask.shape}, but the mesh has "
                f"{len(coordinates)} vertices."
            )
        for name, array in (("coordinates", coordinates), ("faces", faces), ("mask", mask)):
            object.__setattr__(self, name, array)

    @property
    def n_mesh(self) -> int:
        """Vertices of the mesh, medial wall included."""
        return len(self.coordinates)

    @property
    def n_measured(self) -> int:
        """Vertices inside the mask."""
        return int(self.mask.sum())


@dataclass(frozen=True, eq=False)
class Surface(Space):
    """A cortical surface of one or two hemispheres.

    The columns of a cohort are the measured vertices of the left, then of the right hemisphere.

    Parameters
    ----------
    name : str
        For people.
    hemispheres : tuple of Hemisphere
        Left, right or both, left first.

    Examples
    --------
    >>> import braindive as bd
    >>> bd.load_space("fsaverage5")
    Surface(name='fsaverage5', left: 10,242 vertices, right: 10,242 vertices)
    """

    kind = "surface"
    hemispheres: tuple[Hemisphere, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "hemispheres", tuple(self.hemispheres))
        if self.sides not in (("left",), ("right",), ("left", "right")):
            raise ParameterError(
                f"a surface has a left hemisphere, a right one, or left and right in this order; "
                f"got {', '.join(self.sides) or 'none'}."
            )
        if self.n_vertices == 0:
            raise ParameterError(f"the mask of {self.name!r} is empty: no vertex is measured.")

    @classmethod
    def from_mesh(cls, name: str, coordinates: Any, faces: Any) -> Surface:
        """Surface of a single mesh, called left, all of it measured.

        Examples
        --------
        >>> import numpy as np, braindive as bd
        >>> bd.Surface.from_mesh("triangle", np.eye(3), [[0, 1, 2]]).n_vertices
        3
        """
        return cls(name, (Hemisphere("left", coordinates, faces),))

    @property
    def sides(self) -> tuple[Side, ...]:
        """Sides of the hemispheres in the order of the columns."""
        return tuple(hemisphere.side for hemisphere in self.hemispheres)

    @property
    def n_vertices(self) -> int:
        """Measured vertices of all hemispheres."""
        return sum(hemisphere.n_measured for hemisphere in self.hemispheres)

    def edges(self) -> IntArray:
        """Pairs of columns that share an edge of the mesh."""
        pairs = []
        offset = 0
        for part in self.hemispheres:
            column = np.full(part.n_mesh, -1, dtype=np.int64)
            column[part.mask] = offset + np.arange(part.n_measured)
            ends = column[part.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)]
            pairs.append(ends[(ends >= 0).all(axis=1)])
            offset += part.n_measured
        return np.concatenate(pairs)

    def split(self, values: Any, fill: float = np.nan) -> dict[Side, Array]:
        """Maps on the full meshes, `fill` outside the mask.

        Parameters
        ----------
        values : (..., n_vertices)
            One number for each column.
        fill : float
            Value outside the mask.

        Returns
        -------
        dict of side to (..., n_mesh)

        Examples
        --------
        >>> import numpy as np, braindive as bd
        >>> from braindive.space import Hemisphere
        >>> part = Hemisphere("left", np.eye(3), [[0, 1, 2]], [True, False, True])
        >>> bd.Surface("s", (part,)).split([1.0, 2.0])["left"].tolist()
        [1.0, nan, 2.0]
        """
        values = np.asarray(values)
        self._check_columns(values)
        parts: dict[Side, Array] = {}
        start = 0
        for part in self.hemispheres:
            dtype = np.result_type(values.dtype, np.min_scalar_type(fill))
            full = np.full((*values.shape[:-1], part.n_mesh), fill, dtype=dtype)
            full[..., part.mask] = values[..., start : start + part.n_measured]
            parts[part.side] = full
            start += part.n_measured
        return parts

    def join(self, parts: Mapping[Side, Any]) -> Array:
        """Columns from maps on the full meshes: the inverse of `split`.

        Parameters
        ----------
        parts : mapping of side to (..., n_mesh)
            One map for each hemisphere.

        Returns
        -------
        (..., n_vertices)
        """
        if set(parts) != set(self.sides):
            raise ParameterError(
                f"the space {self.name!r} needs maps for {' and '.join(self.sides)}; got "
                f"{' and '.join(parts) or 'none'}."
            )
        columns = []
        for part in self.hemispheres:
            full = np.asarray(parts[part.side])
            if full.shape[-1] != part.n_mesh:
                raise ParameterError(
                    f"the {part.side} map has {full.shape[-1]} vertices, but the mesh of "
                    f"{self.name!r} has {part.n_mesh}."
                )
            columns.append(full[..., part.mask])
        return np.concatenate(columns, axis=-1)

    def restrict(self, keep: Any) -> Surface:
        """Return the same meshes with fewer columns measured."""
        masks = self.split(np.asarray(keep, dtype=bool), fill=False)
        parts = [replace(part, mask=masks[part.side]) for part in self.hemispheres]
        return Surface(self.name, tuple(parts))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Meshes and masks as plain arrays."""
        arrays = {
            "kind": np.array(self.kind),
            "name": np.array(self.name),
            "sides": np.array(self.sides),
        }
        for part in self.hemispheres:
            arrays[f"coordinates_{part.side}"] = part.coordinates
            arrays[f"faces_{part.side}"] = part.faces
            arrays[f"mask_{part.side}"] = part.mask
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Surface:
        """Rebuild the surface from what `to_arrays` gave."""
        hemispheres = tuple(
            Hemisphere(
                side,
                arrays[f"coordinates_{side}"],
                arrays[f"faces_{side}"],
                arrays[f"mask_{side}"],
            )
            for side in np.asarray(arrays["sides"]).tolist()
        )
        return cls(str(arrays["name"]), hemispheres)

    def __repr__(self) -> str:
        sizes = []
        for part in self.hemispheres:
            masked = "" if part.n_measured == part.n_mesh else f" of {part.n_mesh:,}"
            sizes.append(f"{part.side}: {part.n_measured:,}{masked} vertices")
        return f"Surface(name={self.name!r}, {', '.join(sizes)})"
