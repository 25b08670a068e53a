"""The three products of the values that the model needs, and nothing else.

    project(F)_lk = sum_n V_ln F_nk,   pool(Z)_nk = sum_l V_ln z_lk,   energy_l = sum_n V_ln^2

V (visits x vertices) is read in blocks of vertices that hold all visits, in parallel, and never
copied. Blocks have a fixed size and partial sums are added in a fixed order, so that the number
of threads cannot change a result. Holes (NaN) are left out of every sum.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from braindive.arrays import Array, BoolArray, IntArray
from braindive.values.storage import fitting_width, mapped, read_columns

T = TypeVar("T")
Sums = tuple[Array, Array]
Assign = Callable[[Array, Array, Array | None], tuple[Array, Array]]

# Blocks that the disk is told to fetch before they are needed.
_AHEAD = 3
# Rows summed in the precision of the values before the total is carried on in float64.
_ROWS = 128


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


@dataclass(frozen=True)
class Block:
    """All visits of some vertices, visits in canonical order."""

    where: slice
    values: Array
    observed: BoolArray | None

    def pieces(self, width: int) -> Iterator[Block]:
        """The same in narrower blocks."""
        for start in range(0, self.values.shape[1], width):
            own = slice(start, min(start + width, self.values.shape[1]))
            seen = None if self.observed is None else self.observed[:, own]
            first = self.where.start
            where = slice(first + own.start, first + own.stop)
            yield Block(where, self.values[:, own], seen)


class Products(Protocol):
    """What the model asks of the measurements, wherever they are kept."""

    missing: bool
    n_visits: int
    n_vertices: int

    @property
    def unit(self) -> Unit:
        """Standard unit of the values."""

    @property
    def summary(self) -> tuple[Array, Array, Array]:
        """Count, mean and energy of each vertex in the unit of the values."""

    @property
    def counts(self) -> Array:
        """Number of observed visits of each vertex."""

    @property
    def means(self) -> Array:
        """Mean of each vertex."""

    @property
    def energies(self) -> Array:
        """Sum of squared deviations of each vertex from its mean."""

    @property
    def squares(self) -> Array:
        """Sum of squares of each vertex."""

    def project(self, curves: Array) -> Array:
        """Squared distance of every vertex to every curve."""

    def pool(self, responsibilities: Array) -> Sums:
        """Sums over the vertices of each cluster, and of the weights."""

    def sweep(
        self, curves: Array, assign: Assign, field: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """Project, assign and pool in one read."""

    def features(self, directions: Array) -> Array:
        """Level of every vertex and its deviations along directions."""

    def sum_residuals(self, curves: Array, responsibilities: Array, power: int) -> Array:
        """Sums of residuals over the vertices."""


class Measurements:
    """Products of (V - offset) / scale with curves and responsibilities.

    Parameters
    ----------
    values : (n_visits, n_vertices) array, memory map or Zarr array
        float32 or float64; NaN = not measured. Never copied, never written to; what lies on disk
        is read in blocks.
    order : (n_visits,) int or None
        Canonical order of the visits: row `order[n]` of the values is visit n.
    missing : bool
        Whether there are NaNs.
    n_jobs : int or None
        Threads; None means all cores.
    block_size : int or None
        Vertices in a block; None chooses one that keeps a block in cache.
    memory : int or None
        Bytes that the blocks in work may take together.
    unit : Unit or None
        Standard unit of the values; None takes their own global mean and spread.
    summary : tuple of arrays or None
        `summary` of the same values where it is known already; None reads them for it.
    """

    def __init__(
        self,
        values: Array,
        *,
        order: IntArray | None = None,
        missing: bool = False,
        n_jobs: int | None = None,
        block_size: int | None = None,
        memory: int | None = None,
        unit: Unit | None = None,
        summary: tuple[Array, Array, Array] | None = None,
    ) -> None:
        self._values = mapped(values)
        if order is not None and np.array_equal(order, np.arange(values.shape[0])):
            order = None
        self._order = order
        self.missing = missing
        self.n_vertices = values.shape[1]
        self.n_visits = values.shape[0] if order is None else len(order)
        # A positive number is meant: joblib would make it 1 inside the processes of a cluster.
        n_jobs = n_jobs or -1
        self._n_threads: int = n_jobs if n_jobs > 0 else effective_n_jobs(n_jobs)
        self._block_size = block_size or fitting_width(
            values, self.n_visits, missing, self._n_threads, memory
        )
        self._unit = unit
        if summary is not None:
            self.__dict__["summary"] = summary

    @cached_property
    def unit(self) -> Unit:
        """Standard unit of the values: standard values are (V - offset) / scale."""
        if self._unit is not None:
            return self._unit
        return Unit.of(*self.summary)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Precision of the values."""
        return np.dtype(self._values.dtype)

    @cached_property
    def counts(self) -> Array:
        """Number of observed visits of each vertex."""
        return self.summary[0] if self.missing else np.full(self.n_vertices, float(self.n_visits))

    @cached_property
    def means(self) -> Array:
        """Mean of each vertex over its observed visits, in standard units."""
        counts, means, _ = self.summary
        return np.where(counts > 0, means - self.unit.offset, 0.0) / self.unit.scale

    @cached_property
    def energies(self) -> Array:
        """Sum of squared deviations of each vertex from its mean, in standard units."""
        return self.summary[2] / self.unit.scale**2

    @property
    def squares(self) -> Array:
        """sum_n V_ln^2 of each vertex in standard units."""
        return self.energies + self.counts * self.means**2

    def project(self, curves: Array) -> Array:
        """Squared distance of every vertex to every curve over its observed visits.

        sum_n (V_ln - F_nk)^2, computed from V'(F - mean F) so that nothing cancels when values
        lie far from 0: with x = V - mean_l and G = F - mean_k it is
        energy_l - 2 x'G + count_l (mean_l - mean_k)^2 - 2 (mean_l - mean_k) 1'G + 1'G^2.

        Parameters
        ----------
        curves : (n_visits, n_clusters)
            F_nk in standard units.

        Returns
        -------
        (n_vertices, n_clusters)
        """
        distances_of = self._distances(curves)
        out = np.empty((curves.shape[1], self.n_vertices))

        def project_block(block: Block) -> None:
            out[:, block.where] = distances_of(block)

        self._for_blocks(project_block)
        return out.T

    def pool(self, responsibilities: Array) -> tuple[Array, Array]:
        """Sums of the values over the vertices of each cluster, and of the weights.

        Parameters
        ----------
        responsibilities : (n_vertices, n_clusters)
            z_lk.

        Returns
        -------
        sums, weights : (n_visits, n_clusters)
            sum_l z_lk V_ln in standard units and sum_l z_lk over the vertices observed at n.
        """
        columns = np.ascontiguousarray(responsibilities.T, dtype=self._values.dtype)

        def pool_block(block: Block) -> Sums:
            return self._sums(block, columns[:, block.where])

        return self._total(self.map_blocks(pool_block), len(columns))

    def sweep(
        self, curves: Array, assign: Assign, field: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """Project, assign and pool in one read of the values.

        Parameters
        ----------
        curves : (n_visits, n_clusters)
            F_nk in standard units.
        assign : callable
            Takes distances (n, n_clusters), counts (n,) and field (n, n_clusters) or None of some
            vertices; returns their log-densities and responsibilities, each (n, n_clusters).
        field : (n_vertices, n_clusters), optional
            What the neighbours say.

        Returns
        -------
        log_densities, responsibilities : (n_vertices, n_clusters)
        sums, weights : (n_visits, n_clusters)
            As from `pool` with these responsibilities.
        """
        distances_of = self._distances(curves)
        n_clusters = curves.shape[1]
        densities = np.empty((n_clusters, self.n_vertices))
        z = np.empty((n_clusters, self.n_vertices))

        def sweep_block(block: Block) -> Sums:
            where = block.where
            near = None if field is None else field[where]
            density, responsibilities = assign(distances_of(block).T, self.counts[where], near)
            densities[:, where], z[:, where] = density.T, responsibilities.T
            return self._sums(block, np.ascontiguousarray(z[:, where], self._values.dtype))

        sums, weights = self._total(self.map_blocks(sweep_block), n_clusters)
        return densities.T, z.T, sums, weights

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
        rows = np.ascontiguousarray((directions - directions.mean(axis=0)).T, self._values.dtype)
        out = np.empty((1 + len(rows), self.n_vertices), dtype=rows.dtype)
        out[0] = np.sqrt(self.n_visits) * self.means

        def features_of_block(block: Block) -> None:
            out[1:, block.where] = rows @ self.deviations(block)

        self._for_blocks(features_of_block)
        out[1:] /= self.unit.scale
        return out.T

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

        def sum_block(block: Block) -> Array:
            standard = (block.values.astype(float) - self.unit.offset) / self.unit.scale
            sums = np.empty_like(curves)
            for k in range(curves.shape[1]):
                residuals = (standard - curves[:, k, None]) ** power
                if block.observed is not None:
                    np.copyto(residuals, 0.0, where=~block.observed)
                sums[:, k] = residuals @ responsibilities[block.where, k]
            return sums

        return np.sum(list(self.map_blocks(sum_block)), axis=0)

    @cached_property
    def summary(self) -> tuple[Array, Array, Array]:
        """Count, mean and sum of squared deviations of each vertex, in the unit of the values."""
        counts = np.full(self.n_vertices, float(self.n_visits))
        means = np.zeros(self.n_vertices)
        energies = np.zeros(self.n_vertices)

        def summarise(block: Block) -> None:
            where, values, observed = block.where, block.values, block.observed
            if observed is None:
                reference = values[0]
            else:
                first = observed.argmax(axis=0)
                reference = np.nan_to_num(values[first, np.arange(values.shape[1])])
                counts[where] = observed.sum(axis=0)
            total = np.zeros(values.shape[1])
            square = np.zeros(values.shape[1])
            for start in range(0, self.n_visits, _ROWS):
                away = values[start : start + _ROWS] - reference
                if observed is not None:
                    np.copyto(away, 0.0, where=~observed[start : start + _ROWS])
                ones = np.ones(len(away), dtype=away.dtype)
                total += ones @ away
                square += ones @ np.square(away, out=away)
            count = np.maximum(counts[where], 1.0)
            means[where] = reference + total / count
            energies[where] = np.maximum(square - total**2 / count, 0.0)

        self._for_blocks(summarise)
        return counts, means, energies

    def _distances(self, curves: Array) -> Callable[[Block], Array]:
        """Squared distances of the vertices of a block to the curves, (n_clusters, n)."""
        centre = curves.mean(axis=0)
        centred = curves - centre
        rows = in_fours(centred.T, self._values.dtype)
        square_rows, n_clusters = rows * rows, len(centre)
        totals = (centred.sum(axis=0)[:, None], (centred**2).sum(axis=0)[:, None])
        means, energies, scale = self.means, self.energies, self.unit.scale

        def distances(block: Block) -> Array:
            where = block.where
            cross = (rows @ self.deviations(block))[:n_clusters] / scale
            if block.observed is None:
                sums, squares = totals
            else:
                mask = block.observed.astype(rows.dtype)
                sums, squares = (rows @ mask)[:n_clusters], (square_rows @ mask)[:n_clusters]
            gap = means[where] - centre[:, None]
            out = energies[where] - 2.0 * cross + squares
            out += gap * (self.counts[where] * gap - 2.0 * sums)
            return np.maximum(out, 0.0, out=out)

        return distances

    def _sums(self, block: Block, columns: Array) -> Sums:
        """Sums over the vertices of a block, weighted by columns (n_clusters, n)."""
        rows, n_clusters = in_fours(columns, columns.dtype), len(columns)
        if block.observed is None:
            return (rows @ block.values.T)[:n_clusters].T, columns.sum(axis=1, dtype=float)
        above = block.values - block.values.dtype.type(self.unit.offset)
        np.copyto(above, 0.0, where=~block.observed)
        observed = block.observed.astype(columns.dtype)
        return (rows @ above.T)[:n_clusters].T, (rows @ observed.T)[:n_clusters].T

    def _total(self, parts: Iterator[Sums], n_clusters: int) -> Sums:
        """Add the parts of the blocks, in their order, and convert to standard units."""
        sums = np.zeros((self.n_visits, n_clusters))
        weights = np.zeros((self.n_visits, n_clusters))
        for part_sums, part_weights in parts:
            sums += part_sums
            weights += part_weights
        offset = 0.0 if self.missing else self.unit.offset
        return (sums - offset * weights) / self.unit.scale, weights

    def deviations(self, block: Block) -> Array:
        """Values less their vertex mean and 0 where not observed, in the unit of the values.

        Products with directions that sum to 0 do not need the mean removed where all is observed,
        and the values are returned as they are.
        """
        if block.observed is None:
            return block.values
        deviations = block.values - self.summary[1][block.where].astype(block.values.dtype)
        np.copyto(deviations, 0.0, where=~block.observed)
        return deviations

    def _columns(self, start: int) -> slice:
        return slice(start, min(start + self._block_size, self.n_vertices))

    def _block(self, start: int) -> Block:
        where = self._columns(start)
        if isinstance(self._values, np.ndarray):
            rows = slice(None) if self._order is None else self._order
            values = self._values[rows, where]
        else:
            if hasattr(self._values, "read_ahead"):
                # Past the end these are blocks of the next pass, fetched during the M-step.
                starts = range(0, self.n_vertices, self._block_size)
                later = (start // self._block_size + _AHEAD) % len(starts)
                self._values.read_ahead(self._columns(starts[later]))
            values = read_columns(self._values, where)
            values = values if self._order is None else values[self._order]
        return Block(where, values, ~np.isnan(values) if self.missing else None)

    def read_all(self) -> Array:
        """Copy of all values in memory, rows as they are stored."""
        return np.concatenate(
            [
                read_columns(self._values, self._columns(start))
                for start in range(0, self.n_vertices, self._block_size)
            ],
            axis=1,
        )

    def in_unit(self, unit: Unit) -> Measurements:
        """Return the same measurements in another standard unit."""
        other = copy.copy(self)
        other._unit = unit
        for name in ("unit", "means", "energies"):
            other.__dict__.pop(name, None)
        return other

    def select(self, visits: IntArray) -> Measurements:
        """Return the measurements of some visits, in the same unit; the values are not copied."""
        other = self.in_unit(self.unit)
        other._order = visits if self._order is None else self._order[visits]
        other.n_visits = len(visits)
        for name in ("summary", "counts"):
            other.__dict__.pop(name, None)
        return other

    def map_blocks(self, function: Callable[[Block], T]) -> Iterator[T]:
        """Call with every block, in parallel; results in the order of the blocks."""
        starts = range(0, self.n_vertices, self._block_size)
        if self._n_threads == 1 or len(starts) == 1:
            yield from (function(self._block(start)) for start in starts)
            return
        with ThreadPoolExecutor(self._n_threads) as pool:
            yield from pool.map(lambda start: function(self._block(start)), starts)

    def _for_blocks(self, function: Callable[[Block], None]) -> None:
        for _ in self.map_blocks(function):
            pass


def in_fours(rows: Array, dtype: np.dtype[np.floating]) -> Array:
    """The same rows and as many of zeros as make their number a multiple of four.

    BLAS multiplies four rows in less time than three.
    """
    n_rows, length = rows.shape
    out = np.zeros((-(-n_rows // 4) * 4, length), dtype=dtype)
    out[:n_rows] = rows
    return out


@contextmanager
def one_thread_per_product() -> Iterator[None]:
    """Keep BLAS and OpenMP to one thread: blocks are the unit of parallel work."""
    with threadpool_limits(limits=1):
        yield
