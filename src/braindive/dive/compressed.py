"""The measurements in a few numbers for each vertex, for curves over scores that stay.

Curves are smooth in the score, so over given scores all of them lie near the span of a few
splines. What an E-step and the M-step of the curves ask of a vertex are then its products with
these splines, found in one read of the values, and whole fits of the curves need no other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.interpolate import BSpline

from braindive.arrays import Array
from braindive.dive.curves import Curves
from braindive.values.blocks import Block, Found, Step
from braindive.values.protocol import AssignVertices, Products, Swept
from braindive.values.threads import in_threads

# Pieces of the cubic splines, between quantiles of the scores, and most of them for each visit.
# Measured on 18 clusters: with twice as many pieces the optimum is the same to a hundredth of
# a unit of the log-likelihood.
_PIECES = 12
_PIECES_PER_VISIT = 0.25
AT_ONCE = 4096
"""Vertices that are worked on at once, so that they stay in cache. A choice."""
# Directions of which splines miss more than this share, in steep curves, are added to them.
_MISSED = 1e-3


def smooth_basis(scores: Array, n_pieces: int) -> Array:
    """Orthonormal columns that span cubic splines of the score; the first one is constant."""
    n_pieces = max(1, min(n_pieces, int(_PIECES_PER_VISIT * len(scores))))
    knots = np.unique(np.quantile(scores, np.linspace(0, 1, n_pieces + 1)))
    constant = np.ones((len(scores), 1))
    if len(knots) < 2:
        return constant / np.sqrt(len(scores))
    knots = np.concatenate([[knots[0]] * 3, knots, [knots[-1]] * 3])
    splines = BSpline.design_matrix(scores, knots, 3).toarray()
    return orthonormal(np.concatenate([constant, splines], axis=1))


def orthonormal(columns: Array) -> Array:
    """Orthonormal basis of the span of the columns that begins with the first of them."""
    first = columns[:, :1] / np.linalg.norm(columns[:, 0])
    rest = columns - first @ (first.T @ columns)
    left, sizes, _ = np.linalg.svd(rest, full_matrices=False)
    # Rounding leaves about 1e-15 of a column that depends on others.
    return np.concatenate([first, left[:, sizes > 1e-10 * max(sizes[0], 1e-300)]], axis=1)


def basis_for(curves: Curves, scores: Array) -> Array:
    """Splines, and what they miss of these curves and their derivatives, (n_visits, m)."""
    basis = smooth_basis(scores, _PIECES)
    jacobian = curves.jacobian(scores).reshape(len(scores), -1)
    wanted = np.concatenate([curves.evaluate(scores), jacobian], axis=1)
    wanted = wanted / np.maximum(np.linalg.norm(wanted, axis=0), 1e-300)
    missed = wanted - basis @ (basis.T @ wanted)
    directions, sizes, _ = np.linalg.svd(missed, full_matrices=False)
    directions = directions[:, sizes > _MISSED]
    return orthonormal(np.concatenate([basis, directions], axis=1)) if directions.size else basis


@dataclass(frozen=True)
class Compress(Step):
    """Products of every vertex with directions, and sums of others over its holes.

    Parameters
    ----------
    directions : (m, n_visits)
        Linear combinations of visits that sum to 0.
    over_holes : (n, n_visits)
        What is summed over the visits that a vertex lacks.
    """

    directions: Array
    over_holes: Array
    needs_summary: ClassVar[bool] = True

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return them, (m, n_vertices) and (n, n_vertices)."""
        along = block.along(self.directions).astype(float)
        if block.observed is None:
            return (along, np.zeros((len(self.over_holes), block.n_vertices))), ()
        return (along, self.over_holes @ ~block.observed), ()


@dataclass(frozen=True)
class Compressed:
    """Products of the measurements with curves in the span of a basis, without reading them.

    Parameters
    ----------
    basis : (n_visits, m)
        Orthonormal; the curves.
    coefficients : (n_vertices, m)
        sum_n V_ln basis_n over observed visits, in standard units.
    squares_basis : (n_visits, n)
        Orthonormal; the squares of the curves.
    holes : (n_vertices, n)
        sum_n squares_basis_n over the visits that are missing; n is 0 where nothing is.
    counts, squares : (n_vertices,)
        As in `Products`.
    """

    basis: Array
    coefficients: Array
    squares_basis: Array
    holes: Array
    counts: Array
    squares: Array

    @classmethod
    def of(cls, measurements: Products, curves: Curves, scores: Array) -> Compressed:
        """Read the values once."""
        basis = basis_for(curves, scores)
        # Squares of splines are smooth too, and vary twice as fast.
        fine = smooth_basis(scores, 2 * _PIECES) if measurements.missing else basis[:, :0]
        over_holes = np.concatenate([fine, basis], axis=1) if measurements.missing else fine
        (along, missed), _ = measurements.run(Compress(basis[:, 1:].T, over_holes.T))
        # The step knows deviations from the vertex's mean, which is added over what was observed.
        coefficients = np.multiply.outer(measurements.means, basis.sum(axis=0))
        if measurements.missing:
            coefficients -= measurements.means[:, None] * missed[fine.shape[1] :].T
        coefficients[:, 1:] += along.T
        holes = missed[: fine.shape[1]].T
        return cls(basis, coefficients, fine, holes, measurements.counts, measurements.squares)

    def some_vertices(self, most: int) -> Compressed:
        """The same of at most about so many vertices, evenly spread."""
        return self.only(slice(None, None, self.every(most)))

    def every(self, most: int) -> int:
        """How many vertices each of `some_vertices` stands for."""
        return max(1, len(self.counts) // most)

    def only(self, part: slice) -> Compressed:
        """The same of some of the vertices."""
        return replace(
            self,
            coefficients=self.coefficients[part],
            holes=self.holes[part],
            counts=self.counts[part],
            squares=self.squares[part],
        )

    def distances(self, curves: Array) -> Array:
        """Squared distance of every vertex to every curve; see `Products.distances`."""
        found = self.coefficients @ (-2 * self.basis.T @ curves)
        found += np.sum(curves**2, axis=0)
        if self.holes.shape[1]:
            found -= self.holes @ (self.squares_basis.T @ curves**2)
        found += self.squares[:, None]
        return np.asarray(found)

    def pool(self, responsibilities: Array) -> tuple[Array, Array]:
        """Sums over the vertices of each cluster, as far as curves see them."""
        return self._in_visits(*self._totals(responsibilities))

    def _totals(self, z: Array) -> tuple[Array, Array, Array]:
        """Sums over vertices of what is known of each, (m, n_clusters) and so on."""
        return self.coefficients.T @ z, z.sum(axis=0), self.holes.T @ z

    def weights(self, responsibilities: Array) -> Array:
        """Sums of the responsibilities over the vertices that were seen, (n_visits, n_clusters)."""
        return self._weights(responsibilities.sum(axis=0), self.holes.T @ responsibilities)

    def _in_visits(self, sums: Array, sizes: Array, missed: Array) -> tuple[Array, Array]:
        return self.basis @ sums, self._weights(sizes, missed)

    def _weights(self, sizes: Array, missed: Array) -> Array:
        weights = np.tile(sizes, (len(self.basis), 1))
        if self.holes.shape[1]:
            weights -= self.squares_basis @ missed
        return np.maximum(weights, 0.0)

    def sweep(
        self,
        curves: Array,
        assign: AssignVertices,
        field: Array | None = None,
        derivatives: Array | None = None,
    ) -> Swept:
        """Distances, assignment and pooling; see `Products.sweep`. Vertices are alike here."""
        assert derivatives is None
        density, z = np.empty((2, curves.shape[1], len(self.counts)))

        def take(block: slice) -> tuple[Array, Array, Array]:
            part = self.only(block)
            there = None if field is None else field[block]
            found = assign((part.distances(curves).T,), part.counts, there)
            density[:, block], z[:, block] = found[0].T, found[1].T
            return part._totals(found[1])

        totals = in_threads(take, len(self.counts), AT_ONCE)
        sums, sizes, missed = (np.sum(each, axis=0) for each in zip(*totals, strict=True))
        return Swept(density.T, z.T, *self._in_visits(sums, sizes, missed), ())
