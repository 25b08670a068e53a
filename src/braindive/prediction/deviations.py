"""Deviations of the values from what is expected of them, wherever the values are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.values.blocks import Block, Found, ResidualStep
from braindive.values.protocol import Products


@dataclass(frozen=True)
class Deviations:
    """Values less their vertex's mean and less a course, in standard units.

    Parameters
    ----------
    measurements : Products
        Of the values.
    means : (n_vertices,)
        Mean of every vertex.
    course : (n_visits, n)
        What visits have in common ...
    loadings : (n_vertices, n)
        ... and how much of it goes with a vertex.
    """

    measurements: Products
    means: Array
    course: Array
    loadings: Array

    def beyond(self, scores: Array, components: Array) -> Deviations:
        """Return what is left over when components have been taken out too."""
        return Deviations(
            self.measurements,
            self.means,
            np.column_stack([self.course, scores]),
            np.column_stack([self.loadings, components]),
        )

    def run(self, step: ResidualStep, *own: Array) -> Found:
        """Run a step over the deviations of all vertices; see `Products.run_residuals`."""
        return self.measurements.run_residuals(step, self.means, self.course, self.loadings, *own)

    def scores(self, components: Array) -> Array:
        """Scores of the deviations on orthonormal components, (n_visits, n_components)."""
        if not components.shape[1]:
            return np.zeros((len(self.course), 0))
        parts = np.asarray(components, dtype=self.measurements.dtype)
        return solve_scores(*self.run(_Score(), parts)[1])


@dataclass(frozen=True)
class Sample:
    """Evenly spaced vertices, whose values are kept in memory.

    Parameters
    ----------
    vertices : (n_sample,) int
        Which.
    values : (n_visits, n_sample)
        Values less their means in standard units, 0 where not observed.
    observed : (n_visits, n_sample) bool
        Where there are values.
    """

    vertices: IntArray
    values: Array
    observed: BoolArray

    def thinned(self, most: int) -> Sample:
        """Return about so many of them."""
        every = slice(None, None, max(1, len(self.vertices) // most))
        return Sample(self.vertices[every], self.values[:, every], self.observed[:, every])


@dataclass(frozen=True)
class _Score:
    """Products of the deviations with components."""

    def __call__(
        self, block: Block, residuals: Array, means: Array, loadings: Array, *own: Any
    ) -> Found:
        """Return them, (n_visits, n_components), and with holes the components' overlaps."""
        (parts,) = own
        return (), (residuals @ parts, *overlap(block, parts))


def overlap(block: Block, parts: Array) -> tuple[Array, ...]:
    """Products of the components over the vertices that each visit shows, (n_visits, n, n).

    Nothing where all is observed: there it is the same for all visits.
    """
    if block.observed is None:
        return ()
    squares = (parts[:, :, None] * parts[:, None, :]).reshape(len(parts), -1)
    seen = block.observed.astype(parts.dtype) @ squares
    return (seen.reshape(len(seen), parts.shape[1], parts.shape[1]),)


def solve_scores(sums: Array, seen: Array | None = None) -> Array:
    """Scores from products with orthonormal components and, with holes, from their overlaps."""
    if seen is None:
        return sums
    ridge = 1e-6 * np.eye(sums.shape[1])
    return np.asarray(np.linalg.solve(seen + ridge, sums[:, :, None])[:, :, 0])
