"""The arithmetic of one block: every product of the values as a step.

Holes are left out of every sum, and sums over visits are weighted where visits have weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from braindive.arrays import Array
from braindive.values.blocks import Block, Found, ResidualStep, Step
from braindive.values.multiplication import over_vertices, over_visits
from braindive.values.protocol import AssignVertices

# Rows summed in the precision of the values before the total is carried on in float64.
_ROWS = 128
# Bytes of residuals that are worked on at once, so that they stay in the cache.
_CACHE = 2**21
# Bytes of values that are worked on at once where they are used twice. One core can already read as
# fast as memory goes, so that two gain nothing where values are read twice: a sweep of 1,816 visits
# took 3.8 sums in two threads in blocks of 32 MiB, and 1.9 so.
_USED_TWICE = 2**23
# Fewest vertices of such a piece: with less, calls cost more than reading. A choice.
_NARROWEST = 256


@dataclass(frozen=True)
class Summarise(Step):
    """Count, mean and sum of squared deviations of each vertex, in the unit of the values."""

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return them, each (n,)."""
        values, observed, weights = block.values, block.observed, block.weights
        n_visits, n = values.shape
        if observed is None:
            reference = values[0]
            counts = np.full(n, float(n_visits) if weights is None else weights.sum())
        else:
            first = observed.argmax(axis=0)
            reference = np.nan_to_num(values[first, np.arange(n)])
            counts = observed.sum(axis=0) if weights is None else weights @ observed
        total, square = np.zeros(n), np.zeros(n)
        for start in range(0, n_visits, _ROWS):
            rows = slice(start, start + _ROWS)
            away = values[rows] - reference
            if observed is not None:
                np.copyto(away, 0.0, where=~observed[rows])
            if weights is None:
                each = np.ones(len(away), dtype=away.dtype)
            else:
                each = weights[rows].astype(away.dtype)
            total += each @ away
            square += each @ np.square(away, out=away)
        # Without weights the least count is 1; with them a vertex may count for less.
        count = np.maximum(counts, 1.0) if weights is None else np.where(counts > 0, counts, 1.0)
        energies = np.maximum(square - total**2 / count, 0.0)
        return (counts.astype(float), reference + total / count, energies), ()


@dataclass(frozen=True)
class Distances(Step):
    """Squared distances of the vertices to curves.

    sum_n (V_ln - F_nk)^2, computed from V'(F - mean F) so that nothing cancels when values lie far
    from 0: with x = V - mean_l and G = F - mean_k it is
    energy_l - 2 x'G + count_l (mean_l - mean_k)^2 - 2 (mean_l - mean_k) 1'G + 1'G^2.
    With weights, every sum over n has them, also those of the means.

    Parameters
    ----------
    curves : (n_visits, n_clusters)
        F_nk in standard units.
    weights : (n_visits,) or None
        Of the visits.
    dtype : dtype
        Precision of the values.
    """

    curves: Array
    weights: Array | None
    dtype: np.dtype[Any]
    needs_summary: ClassVar[bool] = True

    @cached_property
    def _centred(self) -> tuple[Array, Array, Array]:
        """Mean of each curve, G and G^2, the last two times the weights."""
        centre = _mean_over_visits(self.curves, self.weights)
        centred = self.curves - centre
        if self.weights is None:
            return centre, centred, centred**2
        each = self.weights[:, None]
        return centre, each * centred, each * centred**2

    @cached_property
    def _rows(self) -> tuple[Array, Array]:
        """G and G^2 as rows in the precision of the values, times the weights."""
        _, centred, squares = self._centred
        rows = np.ascontiguousarray(centred.T, self.dtype)
        if self.weights is None:
            return rows, rows * rows
        return rows, np.ascontiguousarray(squares.T, self.dtype)

    @cached_property
    def _totals(self) -> tuple[Array, Array]:
        """1'G and 1'G^2 of vertices that were always observed."""
        _, centred, squares = self._centred
        return centred.sum(axis=0)[:, None], squares.sum(axis=0)[:, None]

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return them, (n_clusters, n)."""
        centre, (rows, square_rows) = self._centred[0], self._rows
        cross = over_visits(rows, block.deviations()) / block.unit.scale
        if block.observed is None:
            sums, squares = self._totals
        else:
            mask = block.observed.astype(rows.dtype)
            sums, squares = over_visits(rows, mask), over_visits(square_rows, mask)
        gap = block.means - centre[:, None]
        out = block.energies - 2.0 * cross + squares
        out += gap * (block.counts * gap - 2.0 * sums)
        return (np.maximum(out, 0.0, out=out),), ()


@dataclass(frozen=True)
class Pool(Step):
    """Sums over the vertices weighted by responsibilities, in the unit of the values.

    Without holes the sums of the responsibilities are the same at every visit and are given once,
    and the offset of the unit is still in the sums of the values.
    """

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return sums (n_visits, n_clusters) and weights, without holes (n_clusters,)."""
        (responsibilities,) = own
        columns = np.ascontiguousarray(responsibilities, block.values.dtype)
        if block.observed is None:
            sums = over_vertices(block.values, columns)
            return (), (sums, columns.sum(axis=0, dtype=float))
        above = block.values - block.values.dtype.type(block.unit.offset)
        np.copyto(above, 0.0, where=~block.observed)
        observed = block.observed.astype(columns.dtype)
        return (), (over_vertices(above, columns), over_vertices(observed, columns))


@dataclass(frozen=True)
class Sweep(Step):
    """Distances, assignment and pooling of the same block.

    Parameters
    ----------
    distances : Distances or Coordinates
        To the curves.
    assign : callable
        From distances, counts and field to log-densities, responsibilities and sums.
    returns_distances : bool
        Return the distances in place of what was assigned: half as much has to travel, and the
        caller assigns once more.
    """

    distances: Step
    assign: AssignVertices
    returns_distances: bool
    needs_summary: ClassVar[bool] = True

    def width(self, block: Block) -> int:
        """As many as stay in the cache, in pieces of about the same size."""
        n_pieces = -(-block.values.nbytes // _USED_TWICE)
        width = max(-(-block.n_vertices // max(n_pieces, 1)), _NARROWEST)
        return -(-width // 64) * 64

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return log-densities and responsibilities, or distances, the sums of `Pool` and more."""
        (field,) = own
        found, _ = self.distances(block)
        density, responsibilities, more = self.assign(found, block.counts, field)
        _, sums = Pool()(block, responsibilities)
        if self.returns_distances:
            return found, (*sums, *more)
        return (density.T, responsibilities.T), (*sums, *more)


@dataclass(frozen=True)
class Features(Step):
    """Level of the vertices and their deviations from it along directions.

    Parameters
    ----------
    directions : (n_visits, n_features)
        Linear combinations of visits.
    weights : (n_visits,) or None
        Of the visits.
    dtype : dtype
        Precision of the values.
    """

    directions: Array
    weights: Array | None
    dtype: np.dtype[Any]
    needs_summary: ClassVar[bool] = True

    @cached_property
    def _rows(self) -> Array:
        centred = self.directions - _mean_over_visits(self.directions, self.weights)
        if self.weights is not None:
            centred = self.weights[:, None] * centred
        return np.ascontiguousarray(centred.T, self.dtype)

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return them, (1 + n_features, n)."""
        rows = self._rows
        number = len(self.directions) if self.weights is None else self.weights.sum()
        out = np.empty((1 + len(rows), block.n_vertices), dtype=rows.dtype)
        out[0] = np.sqrt(number) * block.means
        np.divide(over_visits(rows, block.deviations()), block.unit.scale, out=out[1:])
        return (out,), ()


@dataclass(frozen=True)
class PowerStep(Step):
    """Features and their pooling, in the same block: a step of the power iteration.

    Parameters
    ----------
    features : Features
        Of the vertices.
    """

    features: Features
    needs_summary: ClassVar[bool] = True

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return the sums of `Pool` over the deviations along the directions."""
        (found,), _ = self.features(block)
        return Pool()(block, found[1:].T)


@dataclass(frozen=True)
class SumResiduals(Step):
    """sum_l z_lk (V_ln - F_nk)^power over observed vertices, one residual at a time."""

    curves: Array
    power: int

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return the sums, (n_visits, n_clusters)."""
        (responsibilities,) = own
        standard = (block.values.astype(float) - block.unit.offset) / block.unit.scale
        sums = np.empty_like(self.curves)
        for k in range(self.curves.shape[1]):
            residuals = (standard - self.curves[:, k, None]) ** self.power
            if block.observed is not None:
                np.copyto(residuals, 0.0, where=~block.observed)
            sums[:, k] = residuals @ responsibilities[:, k]
        if block.weights is not None:
            sums *= block.weights[:, None]
        return (), (sums,)


@dataclass(frozen=True)
class Residuals(Step):
    """Values less their vertex's mean and less a course, handed on to another step.

    Parameters
    ----------
    step : ResidualStep
        What is done with them.
    course : (n_visits, n)
        What visits have in common.
    dtype : dtype
        Precision of the values.
    """

    step: ResidualStep
    course: Array
    dtype: np.dtype[Any]

    def width(self, block: Block) -> int:
        """As many as stay in the cache."""
        return max(_CACHE // (len(self.course) * self.dtype.itemsize), 1)

    def __call__(self, block: Block, *own: Any) -> Found:
        """What the other step finds."""
        means, loadings, *more = own
        unit = block.unit
        # Vertex by vertex: the level with a course of 1, and every loading with its course.
        course = np.column_stack([np.ones(len(self.course)), unit.scale * self.course])
        level = unit.offset + unit.scale * means
        weights = np.column_stack([level, loadings]).astype(self.dtype)
        residuals = block.buffer("residuals", len(course))
        np.matmul(course.astype(self.dtype), weights.T, out=residuals)
        np.subtract(block.values, residuals, out=residuals)
        residuals *= self.dtype.type(1 / unit.scale)
        if block.observed is not None:
            np.copyto(residuals, 0.0, where=~block.observed)
        return self.step(block, residuals, means, loadings, *more)


def _mean_over_visits(x: Array, weights: Array | None) -> Array:
    """Mean along the first axis."""
    if weights is None:
        return np.asarray(x.mean(axis=0))
    return np.asarray(weights @ x / weights.sum())
