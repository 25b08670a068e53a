"""Blocks of the values, and the steps that are made on one of them.

A step is given a block, which is all visits of some vertices, and finds arrays with one entry for
each of these vertices and sums over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.values.multiplication import over_visits

Found = tuple[tuple[Array, ...], tuple[Array, ...]]
"""Arrays with the vertices along their last axis, and sums over vertices."""
Summary = tuple[Array, Array, Array]
"""Count, mean and sum of squared deviations of each vertex, in the unit of the values."""
Own = tuple[Array | None, ...]
"""Inputs of which every vertex has its own row."""


@dataclass(frozen=True)
class Unit:
    """Standard unit of the values: (V - offset) / scale."""

    offset: float
    scale: float

    @classmethod
    def of(cls, counts: Array, means: Array, energies: Array) -> Unit:
        """Global mean and spread, from those of the vertices."""
        n_observed = max(float(counts.sum()), 1.0)
        offset = float(counts @ means / n_observed)
        variance = (energies.sum() + counts @ (means - offset) ** 2) / n_observed
        return cls(offset, float(np.sqrt(variance)) or 1.0)

    def standard_means(self, counts: Array, means: Array) -> Array:
        """Means in this unit, 0 where nothing was observed."""
        return np.where(counts > 0, means - self.offset, 0.0) / self.scale


@dataclass(frozen=True)
class Adjustment:
    """What is taken off the values of each visit.

    Parameters
    ----------
    offsets : (n_sites, n_vertices)
        Of every site, in the unit of the values.
    sites : (n_visits,) int
        Site of each visit, visits in canonical order.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.values.backends import open_products
    >>> from braindive.values.blocks import Adjustment
    >>> values, sites = np.array([[1.0, 2.0], [11.0, 12.0]]), np.array([0, 1])
    >>> adjustment = Adjustment(np.array([[0.0, 0.0], [10.0, 9.0]]), sites)
    >>> open_products(values).adjusted(adjustment).summary[1]
    array([1. , 2.5])
    """

    offsets: Array
    sites: IntArray

    def select(self, visits: IntArray) -> Adjustment:
        """Return what is taken off some of the visits."""
        return replace(self, sites=self.sites[visits])


@dataclass(frozen=True)
class Block:
    """All visits of some vertices, visits in canonical order.

    Parameters
    ----------
    where : slice
        Which vertices, among those that lie together.
    values : (n_visits, n)
        In their own unit; never to be written to.
    observed : (n_visits, n) bool or None
        Where there are values; None where there are no holes.
    unit : Unit
        Standard unit.
    summary : tuple of (n,) or None
        Count, mean and energy of each vertex in the unit of the values, for steps that need them.
    weights : (n_visits,) or None
        How much each visit counts in sums over visits; None for 1.
    buffers : dict
        Memory that the pieces of a block use one after the other; see `buffer`.
    """

    where: slice
    values: Array
    observed: BoolArray | None
    unit: Unit
    summary: Summary | None = None
    weights: Array | None = None
    buffers: dict[str, Array] = field(default_factory=dict, repr=False)

    @property
    def n_vertices(self) -> int:
        """Number of vertices in the block."""
        return int(self.values.shape[1])

    @property
    def known(self) -> Summary:
        """Summary of the vertices; an error where the step did not say that it needs it."""
        if self.summary is None:
            raise TypeError("this step uses the summary of the vertices: set `needs_summary`.")
        return self.summary

    @property
    def counts(self) -> Array:
        """Number of observed visits of each vertex."""
        return self.known[0]

    @property
    def means(self) -> Array:
        """Mean of each vertex in standard units."""
        counts, means, _ = self.known
        return self.unit.standard_means(counts, means)

    @property
    def energies(self) -> Array:
        """Sum of squared deviations of each vertex from its mean, in standard units."""
        return self.known[2] / self.unit.scale**2

    def deviations(self) -> Array:
        """Values less their vertex mean and 0 where not observed, in the unit of the values.

        Products with directions that sum to 0 do not need the mean removed where all is observed,
        and the values are returned as they are.
        """
        if self.observed is None:
            return self.values
        deviations = self.values - self.known[1].astype(self.values.dtype)
        np.copyto(deviations, 0.0, where=~self.observed)
        return deviations

    def along(self, directions: Array) -> Array:
        """Sums over visits of the deviations times directions that sum to 0, in standard units.

        Parameters
        ----------
        directions : (m, n_visits)
            Linear combinations of visits.

        Returns
        -------
        (m, n)
        """
        rows = np.ascontiguousarray(directions, self.values.dtype)
        return over_visits(rows, self.deviations()) / self.unit.scale

    def buffer(self, name: str, n_rows: int) -> Array:
        """Memory in the precision of the values, (n_rows, n), which the next piece overwrites.

        A step that works in pieces does without new memory for each of them. Arrays of all its
        vertices that it returns may lie in a buffer; sums may not.
        """
        size = n_rows * self.n_vertices
        if name not in self.buffers or len(self.buffers[name]) < size:
            self.buffers[name] = np.empty(size, dtype=self.values.dtype)
        return self.buffers[name][:size].reshape(n_rows, self.n_vertices)

    def pieces(self, width: int) -> Iterator[tuple[slice, Block]]:
        """The same in narrower blocks, with their place in this one."""
        if width >= self.n_vertices:
            yield slice(0, self.n_vertices), self
            return
        for start in range(0, self.n_vertices, width):
            own = slice(start, min(start + width, self.n_vertices))
            yield own, replace(self.part(own), buffers=self.buffers)

    def part(self, own: slice) -> Block:
        """Some of the vertices, with memory of their own."""
        first = self.where.start
        return replace(
            self,
            where=slice(first + own.start, first + own.stop),
            values=self.values[:, own],
            observed=None if self.observed is None else self.observed[:, own],
            summary=None if self.summary is None else part_of(self.summary, own),
            buffers={},
        )


def part_of(summary: Summary, where: slice) -> Summary:
    """Summary of some vertices."""
    counts, means, energies = summary
    return counts[where], means[where], energies[where]


class Step:
    """What is done with one block; a small frozen dataclass, since it may travel to a worker.

    A step is called with the block and with its vertices' rows of every input that was given to
    `Products.run`. It returns arrays, vertices along the last axis, and sums over its vertices.
    """

    needs_summary: ClassVar[bool] = False
    """Whether blocks have to come with the summary of their vertices."""
    chooses_vertices: ClassVar[bool] = False
    """Whether arrays hold some of the vertices only, and are joined as long as they are."""

    def chosen(self, own: Own) -> BoolArray | None:
        """Of which vertices all arrays are, where the inputs of all vertices say so."""
        return None

    def width(self, block: Block) -> int:
        """Vertices that the step works on at once; wider blocks are cut."""
        return block.n_vertices

    def __call__(self, block: Block, *own: Any) -> Found:
        """Arrays of the vertices of the block, and sums over them."""
        raise NotImplementedError


class ResidualStep(Protocol):
    """What is done with the residuals of one block; a small frozen dataclass too.

    It is called with the block, with the residuals (n_visits, n), which it may change, and with
    its vertices' rows of the means, of the loadings and of every other input.
    """

    def __call__(
        self, block: Block, residuals: Array, means: Array, loadings: Array, *own: Any
    ) -> Found:
        """Arrays of the vertices of the block, and sums over them."""
