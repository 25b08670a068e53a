"""What the model may ask of the measurements, and the words in which it asks.

Everything is computed from *steps*. A step is given a block, which is all visits of some vertices,
and finds arrays with one entry for each of these vertices and sums over them. Whoever can run a
step over all vertices, wherever these are, can give all products.

Longer than other modules because most of it is the reference for whoever adds a place for values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.values.multiplication import over_visits

Found = tuple[tuple[Array, ...], tuple[Array, ...]]
"""Arrays with the vertices along their last axis, and sums over vertices."""
Summary = tuple[Array, Array, Array]
"""Count, mean and sum of squared deviations of each vertex, in the unit of the values."""
Own = tuple[Array | None, ...]
"""Inputs of which every vertex has its own row."""
AssignVertices = Callable[
    [tuple[Array, ...], Array, Array | None], tuple[Array, Array, tuple[Array, ...]]
]
"""From distances (and coordinates), counts and field of some vertices to log-densities,
responsibilities and sums over these vertices."""


class Swept(NamedTuple):
    """What one read of the values finds: see `Products.sweep`."""

    log_densities: Array
    responsibilities: Array
    sums: Array
    weights: Array
    more: tuple[Array, ...]


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
    >>> from braindive.values.protocol import Adjustment
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
            first = self.where.start
            piece = replace(
                self,
                where=slice(first + own.start, first + own.stop),
                values=self.values[:, own],
                observed=None if self.observed is None else self.observed[:, own],
                summary=None if self.summary is None else part_of(self.summary, own),
            )
            yield own, piece


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


class Products(Protocol):
    """What the model asks of the measurements, wherever they are kept."""

    @property
    def missing(self) -> bool:
        """Whether there are holes."""

    @property
    def n_visits(self) -> int:
        """Number of visits."""

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the values."""

    @property
    def unit(self) -> Unit:
        """Standard unit of the values: standard values are (V - offset) / scale."""

    @property
    def summary(self) -> Summary:
        """Count, mean and energy of each vertex in the unit of the values."""

    @property
    def counts(self) -> Array:
        """Number of observed visits of each vertex."""

    @property
    def means(self) -> Array:
        """Mean of each vertex over its observed visits."""

    @property
    def energies(self) -> Array:
        """Sum of squared deviations of each vertex from its mean."""

    @property
    def squares(self) -> Array:
        """Sum of squares of each vertex."""

    def distances(self, curves: Array) -> Array:
        """Squared distance of every vertex to every curve over its observed visits.

        Parameters
        ----------
        curves : (n_visits, n_clusters)
            F_nk in standard units.

        Returns
        -------
        (n_vertices, n_clusters)
            sum_n (V_ln - F_nk)^2.
        """

    def pool(self, responsibilities: Array) -> tuple[Array, Array]:
        """Sums of the values over the vertices of each cluster, and of the responsibilities.

        Parameters
        ----------
        responsibilities : (n_vertices, n_clusters)
            z_lk.

        Returns
        -------
        sums, weights : (n_visits, n_clusters)
            sum_l z_lk V_ln in standard units and sum_l z_lk over the vertices observed at n.
        """

    def sweep(
        self,
        curves: Array,
        assign: AssignVertices,
        field: Array | None = None,
        derivatives: Array | None = None,
    ) -> Swept:
        """Distances, assignment and pooling in one read of the values.

        Parameters
        ----------
        curves : (n_visits, n_clusters)
            F_nk in standard units.
        assign : callable
            Takes what was found of some vertices, their counts (n,) and field (n, n_clusters) or
            None; returns log-densities and responsibilities, each (n, n_clusters), and sums over
            these vertices. Found are distances (n_clusters, n) and, with derivatives, the rest of
            what `values.coordinates.Coordinates` returns.
        field : (n_vertices, n_clusters), optional
            What the neighbours say.
        derivatives : (n_visits, n_clusters, n_parameters), optional
            Of the curves by their parameters.

        Returns
        -------
        log_densities, responsibilities : (n_vertices, n_clusters)
        sums, weights : (n_visits, n_clusters)
            As from `pool` with these responsibilities.
        more : tuple
            Sums over all vertices of what `assign` returned.
        """

    def features(self, directions: Array) -> Array:
        """Level of every vertex and its deviations from it along some directions.

        Parameters
        ----------
        directions : (n_visits, n_features)
            Linear combinations of visits.

        Returns
        -------
        (n_vertices, n_features + 1)
            sqrt(n_visits) times the vertex mean, then sum_n x_ln G_n, in standard units.
        """

    def power_step(self, directions: Array) -> Array:
        """Take a step of the power iteration towards the leading components, in one read.

        Where vertices are many, an even sample of them tells the components.

        Parameters
        ----------
        directions : (n_visits, n_features)
            Linear combinations of visits.

        Returns
        -------
        (n_visits, n_features)
            What `pool` finds for the deviations that `features` finds.
        """

    def sum_residuals(self, curves: Array, responsibilities: Array, power: int) -> Array:
        """sum_l z_lk (V_ln - F_nk)^power over observed vertices, one residual at a time.

        Parameters
        ----------
        curves : (n_visits, n_clusters)
            F_nk in standard units.
        responsibilities : (n_vertices, n_clusters)
            z_lk.
        power : 1 or 2
            Residuals or their squares.

        Returns
        -------
        (n_visits, n_clusters)
        """

    def run(self, step: Step, *own: Array | None) -> Found:
        """Run a step over all vertices.

        Parameters
        ----------
        step : Step
            What to do with a block.
        *own : (n_vertices, ...) or None
            Inputs of which the step is given the rows of its block.

        Returns
        -------
        arrays, sums : tuples
            Arrays of all vertices, along the last axis, and sums over them.
        """

    def run_on_some(self, step: Step, chosen: BoolArray | None, *own: Array | None) -> Found:
        """Run a step over some of the vertices; over all of them where none are chosen.

        Parameters
        ----------
        step : Step
            What to do with a block.
        chosen : (n_vertices,) bool or None
            Which vertices, as from `values.sampling.evenly_spread`.
        *own : (n_vertices, ...) or None
            Inputs of all vertices.

        Returns
        -------
        arrays, sums : tuples
            Arrays of the chosen vertices, along the last axis, and sums over them.
        """

    def sample(self, chosen: BoolArray) -> Products:
        """Products of some of the vertices, in the same unit; their values are copied."""

    def run_residuals(
        self,
        step: ResidualStep,
        means: Array,
        course: Array,
        loadings: Array,
        *own: Array | None,
    ) -> Found:
        """Run a step over the values less their vertex's mean and less a course.

        Residuals are V_ln - mean_l - sum_j course_nj loading_lj in standard units, and 0 where
        nothing was observed.

        Parameters
        ----------
        step : ResidualStep
            What to do with a block's residuals.
        means : (n_vertices,)
            Mean of every vertex in standard units.
        course : (n_visits, n)
            What visits have in common ...
        loadings : (n_vertices, n)
            ... and how much of it goes with a vertex.
        *own : (n_vertices, ...) or None
            Other inputs of which the step is given the rows of its block.

        Returns
        -------
        arrays, sums : tuples
        """

    def select(self, visits: IntArray) -> Products:
        """Products of some visits, in the same unit; the values are not copied."""

    def weighted(self, weights: Array | None) -> Products:
        """Products in which visits count as often as their weights say, in the same unit.

        Sums over visits (`distances`, `counts`, `means`, `energies`, `squares`, `features`) are
        the same as if visit n were there weights[n] times, and row n of `sum_residuals` is
        multiplied by weights[n]. `pool` and `run_residuals` give what they find visit by visit,
        and do not change.

        Parameters
        ----------
        weights : (n_visits,) or None
            0 or more, not all 0; in place of those there were. None counts every visit once.
        """

    def adjusted(self, adjustment: Adjustment | None) -> Products:
        """Products of values less the offsets of their sites, in the same unit; none are copied.

        Parameters
        ----------
        adjustment : Adjustment or None
            In place of the one there was; None for the values as they are.
        """
