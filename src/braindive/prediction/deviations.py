"""Deviations of the values from what is expected of them, a block of vertices at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np

from braindive.arrays import Array
from braindive.values.measurements import Block, Measurements

T = TypeVar("T")

# Bytes of deviations that are worked on at once, so that they stay in the cache.
_CACHE = 2**21


@dataclass(frozen=True)
class Deviations:
    """Values less their vertex's mean and less a course, in standard units.

    Parameters
    ----------
    measurements : Measurements
        The values.
    means : (n_vertices,)
        Mean of every vertex.
    course : (n_visits, n)
        What visits have in common ...
    loadings : (n_vertices, n)
        ... and how much of it goes with a vertex.
    """

    measurements: Measurements
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

    def map(self, function: Callable[[Block, Array], T]) -> Iterator[T]:
        """Call with pieces of every block and their deviations, 0 where not observed.

        The deviations may be changed by the function and are overwritten after it.
        """
        unit, dtype = self.measurements.unit, self.measurements.dtype
        course = np.column_stack([np.ones(len(self.course)), unit.scale * self.course])
        course = course.astype(dtype)
        width = max(_CACHE // (len(course) * dtype.itemsize), 1)

        def call(block: Block, buffer: Array) -> T:
            level = unit.offset + unit.scale * self.means[block.where]
            weights = np.column_stack([level, self.loadings[block.where]]).astype(dtype)
            deviations = buffer[: len(course) * len(weights)].reshape(len(course), len(weights))
            np.matmul(course, weights.T, out=deviations)
            np.subtract(block.values, deviations, out=deviations)
            deviations *= dtype.type(1 / unit.scale)
            if block.observed is not None:
                np.copyto(deviations, 0.0, where=~block.observed)
            return function(block, deviations)

        def call_pieces(block: Block) -> list[T]:
            buffer = np.empty(len(course) * width, dtype=dtype)
            return [call(piece, buffer) for piece in block.pieces(width)]

        return chain.from_iterable(self.measurements.map_blocks(call_pieces))

    def project(self, components: Array) -> Array:
        """Scores of the deviations on orthonormal components, (n_visits, n_components)."""
        n_visits, number = len(self.course), components.shape[1]
        parts = np.asarray(components, dtype=self.measurements.dtype)
        if not number:
            return np.zeros((n_visits, 0))

        def score(block: Block, deviations: Array) -> tuple[Array, Array | None]:
            own = parts[block.where]
            return deviations @ own, overlap(block, own)

        return solve_scores(self.map(score), n_visits, number)


def overlap(block: Block, parts: Array) -> Array | None:
    """Products of the components over the vertices that each visit shows, (n_visits, n, n)."""
    if block.observed is None:
        return None
    squares = (parts[:, :, None] * parts[:, None, :]).reshape(len(parts), -1)
    seen = block.observed.astype(parts.dtype) @ squares
    return np.asarray(seen.reshape(len(seen), parts.shape[1], parts.shape[1]))


def solve_scores(sums: Iterator[tuple[Array, Array | None]], n_visits: int, number: int) -> Array:
    """Scores from sums over blocks of products with the components, and their overlaps."""
    scores: Array = np.zeros((n_visits, number))
    seen: Array = np.zeros((n_visits, number, number))
    holes = False
    for score, part in sums:
        scores += score
        if part is not None:
            holes = True
            seen += part
    if holes:
        scores = np.linalg.solve(seen + 1e-6 * np.eye(number), scores[:, :, None])[:, :, 0]
    return scores
