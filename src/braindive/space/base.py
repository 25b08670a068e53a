"""What every space has: columns, a neighbour graph, and a form in plain arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from braindive.arrays import IntArray
from braindive.errors import ParameterError

MAX_ORDER = 3


@dataclass(frozen=True, eq=False)
class Space(ABC):
    """Where the columns of a cohort lie; a `Surface`, a `Volume` or `Regions`.

    Parameters
    ----------
    name : str
        For people.

    Examples
    --------
    >>> import braindive as bd
    >>> space = bd.load_space("fsaverage5")
    >>> space.kind, space.n_vertices
    ('surface', 20484)
    """

    name: str
    kind: ClassVar[str]

    @property
    @abstractmethod
    def n_vertices(self) -> int:
        """Columns of a cohort in this space: what is inside the mask."""

    @abstractmethod
    def edges(self) -> IntArray:
        """Pairs of neighbouring columns, (n_edges, 2)."""

    @abstractmethod
    def restrict(self, keep: Any) -> Space:
        """Return the space of some of the columns; `keep` is (n_vertices,) bool."""

    @abstractmethod
    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything about this space as plain arrays, for `space_from_arrays`."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Space:
        """Rebuild the space from what `to_arrays` gave."""

    def graph(self, order: int = 1) -> sparse.csr_array:
        """Adjacency of the columns.

        Parameters
        ----------
        order : {1, 2, 3}
            Longest path, in edges, between vertices that count as neighbours. Paths stay inside
            the mask.

        Returns
        -------
        csr_array (n_vertices, n_vertices)
            Symmetric, 1 between neighbours, nothing on the diagonal.

        Examples
        --------
        >>> import braindive as bd
        >>> line = bd.Regions("line", ("a", "b", "c"), [[0, 1], [1, 2]])
        >>> line.graph(order=2).toarray().astype(int).tolist()
        [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
        """
        if order not in range(1, MAX_ORDER + 1):
            raise ParameterError(f"order must be 1, 2 or 3; got {order!r}.")
        first, second = self.edges().T
        size = (self.n_vertices, self.n_vertices)
        directed = sparse.csr_array((np.ones(len(first)), (first, second)), shape=size)
        adjacency = directed + directed.T
        reached = adjacency
        for _ in range(order - 1):
            reached = adjacency + reached @ adjacency
        reached = sparse.csr_array(reached)
        reached.setdiag(0)
        reached.eliminate_zeros()
        reached.sort_indices()
        reached.data[:] = 1.0
        return reached

    def _check_columns(self, values: np.ndarray) -> None:
        if values.shape[-1] != self.n_vertices:
            raise ParameterError(
                f"values have {values.shape[-1]} columns, but the space {self.name!r} has "
                f"{self.n_vertices} vertices."
            )


def read_only(array: Any, dtype: Any) -> np.ndarray:
    """Return a read-only view of the array in the given type."""
    view = np.asarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view
