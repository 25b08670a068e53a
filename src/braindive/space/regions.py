"""Regions: named columns, some of which are neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braindive.arrays import IntArray
from braindive.errors import ParameterError
from braindive.space.base import Space, read_only


@dataclass(frozen=True, eq=False)
class Regions(Space):
    """Named regions and the pairs of them that touch.

    Parameters
    ----------
    name : str
        For people.
    names : sequence of str
        Regions in the order of the columns.
    pairs : (n_pairs, 2) int, optional
        Positions in `names` of the regions that are neighbours; none by default.

    Examples
    --------
    >>> import braindive as bd
    >>> lobes = bd.Regions("lobes", ("frontal", "parietal", "occipital"), [[0, 1], [1, 2]])
    >>> lobes.graph().nnz
    4
    """

    kind = "regions"
    names: tuple[str, ...]
    pairs: IntArray = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64), repr=False)

    def __post_init__(self) -> None:
        names = tuple(str(name) for name in self.names)
        twice = sorted({name for name in names if names.count(name) > 1})
        if not names or twice:
            raise ParameterError(
                f"region {twice[0]!r} is there twice; give each region one name."
                if twice
                else "a space of regions needs at least one region."
            )
        pairs = read_only(np.asarray(self.pairs, dtype=np.int64).reshape(-1, 2), np.int64)
        if pairs.size and (pairs.min() < 0 or pairs.max() >= len(names)):
            raise ParameterError(f"pairs name region {pairs.max()}, but there are {len(names)}.")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "pairs", pairs)

    @property
    def n_vertices(self) -> int:
        """Number of regions."""
        return len(self.names)

    def edges(self) -> IntArray:
        """Pairs of neighbouring regions."""
        return self.pairs

    def restrict(self, keep: Any) -> Regions:
        """Return fewer of the regions, with the pairs between them."""
        keep = np.asarray(keep, dtype=bool)
        self._check_columns(keep)
        position = np.cumsum(keep) - 1
        inside = keep[self.pairs].all(axis=1)
        names = [name for name, kept in zip(self.names, keep, strict=True) if kept]
        return Regions(self.name, tuple(names), position[self.pairs[inside]])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Names and pairs as plain arrays."""
        return {
            "kind": np.array(self.kind),
            "name": np.array(self.name),
            "names": np.array(self.names),
            "pairs": self.pairs,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Regions:
        """Rebuild the regions from what `to_arrays` gave."""
        return cls(
            str(arrays["name"]), tuple(np.asarray(arrays["names"]).tolist()), arrays["pairs"]
        )
