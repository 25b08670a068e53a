"""Volumes: the voxels inside a mask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.errors import ParameterError
from braindive.space.base import Space, read_only

# Voxels that share a face, also an edge, also a corner: most axes along which neighbours differ.
_STEPS = {6: 1, 18: 2, 26: 3}


@dataclass(frozen=True, eq=False)
class Volume(Space):
    """The voxels inside a mask, in C order (last axis fastest).

    Parameters
    ----------
    name : str
        For people.
    mask : (x, y, z) bool
        Voxels that are measured.
    affine : (4, 4)
        From voxel indices to millimetres.
    neighbourhood : {6, 18, 26}
        Neighbours of a voxel: those that share a face, or also an edge, or also a corner.

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> cube = bd.Volume("cube", np.ones((2, 2, 2), dtype=bool), np.eye(4))
    >>> cube.n_vertices, cube.graph().nnz // 2
    (8, 12)
    """

    kind = "volume"
    mask: BoolArray = field(repr=False)
    affine: Array = field(repr=False)
    neighbourhood: int = 6

    def __post_init__(self) -> None:
        mask, affine = read_only(self.mask, bool), read_only(self.affine, float)
        if mask.ndim != 3:
            raise ParameterError(f"the mask has shape {mask.shape}; a volume has three axes.")
        if not mask.any():
            raise ParameterError(f"the mask of {self.name!r} is empty: no voxel is measured.")
        if affine.shape != (4, 4):
            raise ParameterError(f"the affine has shape {affine.shape}; it needs (4, 4).")
        if self.neighbourhood not in _STEPS:
            raise ParameterError(f"neighbourhood must be 6, 18 or 26; got {self.neighbourhood!r}.")
        object.__setattr__(self, "mask", mask)
        object.__setattr__(self, "affine", affine)

    @property
    def n_vertices(self) -> int:
        """Voxels inside the mask."""
        return int(self.mask.sum())

    def edges(self) -> IntArray:
        """Pairs of columns whose voxels touch."""
        column = np.full(np.add(self.mask.shape, 2), -1, dtype=np.int64)
        inner = column[1:-1, 1:-1, 1:-1]
        inner[self.mask] = np.arange(self.n_vertices)
        pairs = []
        for step in product((-1, 0, 1), repeat=3):
            # Half of the directions: the other half are the same edges, seen from the other end.
            if step > (0, 0, 0) and np.abs(step).sum() <= _STEPS[self.neighbourhood]:
                moved = column[
                    tuple(slice(1 + s, 1 + s + n) for s, n in zip(step, inner.shape, strict=True))
                ]
                both = (inner >= 0) & (moved >= 0)
                pairs.append(np.stack([inner[both], moved[both]], axis=1))
        return np.concatenate(pairs)

    def unmask(self, values: Any, fill: float = np.nan) -> Array:
        """Volumes of the given columns, `fill` outside the mask.

        Parameters
        ----------
        values : (n_vertices,) or (n, n_vertices)
            One number for each column.
        fill : float
            Value outside the mask.

        Returns
        -------
        (x, y, z) or (x, y, z, n)

        Examples
        --------
        >>> import numpy as np, braindive as bd
        >>> pair = bd.Volume("pair", np.array([[[True, False, True]]]), np.eye(4))
        >>> pair.unmask([1.0, 2.0], fill=0).ravel().tolist()
        [1.0, 0.0, 2.0]
        """
        values = np.asarray(values)
        self._check_columns(values)
        dtype = np.result_type(values.dtype, np.min_scalar_type(fill))
        volume = np.full((*self.mask.shape, *values.shape[:-1]), fill, dtype=dtype)
        volume[self.mask] = values.T
        return volume

    def restrict(self, keep: Any) -> Volume:
        """Return the same volume with fewer voxels in its mask."""
        return replace(self, mask=self.unmask(np.asarray(keep, dtype=bool), fill=False))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Mask and affine as plain arrays."""
        return {
            "kind": np.array(self.kind),
            "name": np.array(self.name),
            "mask": self.mask,
            "affine": self.affine,
            "neighbourhood": np.array(self.neighbourhood),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Volume:
        """Rebuild the volume from what `to_arrays` gave."""
        return cls(
            str(arrays["name"]), arrays["mask"], arrays["affine"], int(arrays["neighbourhood"])
        )

    def __repr__(self) -> str:
        shape = " x ".join(str(n) for n in self.mask.shape)
        return (
            f"Volume(name={self.name!r}, {self.n_vertices:,} of {shape} voxels, "
            f"neighbourhood={self.neighbourhood})"
        )
