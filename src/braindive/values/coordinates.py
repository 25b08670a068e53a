"""How vertices lie around curves: distances, and residuals in coordinates of the curves' span.

The residual of a vertex from a curve, V_l - f_k, has a part in the span of the constant and of the
curve's derivatives by its parameters, and the rest. The first part is told by a few coordinates,
the second by its length alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from braindive.arrays import Array
from braindive.values.blocks import Block, Found, Step
from braindive.values.multiplication import over_visits
from braindive.values.protocol import AssignVertices

# Directions whose singular value is below this share of the largest add nothing that single
# precision could tell.
_RANK = 1e-5


@dataclass(frozen=True)
class Coordinates(Step):
    """Squared distances of the vertices to curves, and coordinates of their residuals.

    With A_k an orthonormal basis, over the visits and their weights, of the constant and of the
    derivatives of curve k, the coordinates are b = A_k'(V_l - f_k), over the visits at which the
    vertex was observed. Where there are holes the basis is not orthonormal for every vertex, and
    its inner products A_k'A_k over the vertex's own visits are found as well.

    Parameters
    ----------
    curves : (n_visits, n_clusters)
        F_nk in standard units.
    derivatives : (n_visits, n_clusters, n_parameters)
        Of the curves by their parameters.
    weights : (n_visits,) or None
        Of the visits.
    dtype : dtype
        Precision of the values.
    """

    curves: Array
    derivatives: Array
    weights: Array | None
    dtype: np.dtype[Any]
    needs_summary: ClassVar[bool] = True

    @cached_property
    def _basis(self) -> tuple[Array, Array, Array, Array, Array]:
        """Mean of each curve; roots of the weights; bases; coordinates of curves, of derivatives.

        Bases, (n_clusters, n_visits, rank), are of what is left of derivatives and curve without
        their means, times the roots of the weights, and padded by 0 to the same rank.
        """
        n_visits, n_clusters = self.curves.shape
        weights = np.ones(n_visits) if self.weights is None else self.weights
        root, total = np.sqrt(weights), float(weights.sum())
        centre = weights @ self.curves / total
        bases, lengths = [], []
        for k in range(n_clusters):
            columns = np.column_stack([self.derivatives[:, k], self.curves[:, k]])
            columns = (columns - weights @ columns / total) * root[:, None]
            norms = np.linalg.norm(columns, axis=0)
            columns = columns[:, norms > 0] / norms[norms > 0]
            left, values, _ = np.linalg.svd(columns, full_matrices=False)
            bases.append(left[:, values > _RANK * values[:1].max(initial=0.0)])
            lengths.append(bases[-1].shape[1])
        basis = np.zeros((n_clusters, n_visits, max(lengths)))
        for k, (own, length) in enumerate(zip(bases, lengths, strict=True)):
            basis[k, :, :length] = own
        of_curves = np.einsum("knr,nk->kr", basis, root[:, None] * (self.curves - centre))
        means = np.einsum("n,nkp->kp", weights, self.derivatives) / total
        away = root[:, None, None] * (self.derivatives - means)
        of_derivatives = np.concatenate(
            [np.sqrt(total) * means[:, None, :], np.einsum("knr,nkp->krp", basis, away)], axis=1
        )
        return centre, root, basis, of_curves, of_derivatives

    @property
    def rank(self) -> int:
        """Number of coordinates of a residual."""
        return int(self._basis[2].shape[2]) + 1

    @property
    def bases(self) -> Array:
        """Orthonormal bases without weights, (n_clusters, n_visits, rank), the constant first."""
        basis = self._basis[2]
        constant = np.full((*basis.shape[:2], 1), 1 / np.sqrt(basis.shape[1]))
        return np.concatenate([constant, basis], axis=2)

    @property
    def of_derivatives(self) -> Array:
        """Coordinates of the derivatives, (n_clusters, rank, n_parameters)."""
        return self._basis[4]

    @cached_property
    def _rows(self) -> Array:
        """The bases as rows in the precision of the values, times the roots of the weights."""
        _, root, basis, *_ = self._basis
        rows = (basis * root[:, None]).transpose(0, 2, 1).reshape(-1, len(root))
        return np.ascontiguousarray(rows, self.dtype)

    @cached_property
    def _square_rows(self) -> Array:
        """Products of two directions of the same basis, each pair once."""
        basis = self._basis[2]
        one, other = np.triu_indices(basis.shape[2])
        rows = (basis[:, :, one] * basis[:, :, other]).transpose(0, 2, 1)
        return np.ascontiguousarray(rows.reshape(-1, basis.shape[1]), self.dtype)

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return distances (n_clusters, n) and coordinates (n_clusters * rank, n).

        With holes also inner products of the basis, (n_clusters * rank * rank, n).
        """
        centre, _, basis, of_curves, _ = self._basis
        n_clusters, n_visits, rank = basis.shape
        shape = (n_clusters, rank, block.n_vertices)
        cross = over_visits(self._rows, block.deviations()).astype(float)
        cross = cross.reshape(shape) / block.unit.scale
        gap = block.means - centre[:, None]
        total = float(n_visits if self.weights is None else self.weights.sum())
        found = np.empty((n_clusters, rank + 1, block.n_vertices))
        if block.observed is None:
            found[:, 0], found[:, 1:] = np.sqrt(total) * gap, cross - of_curves[:, :, None]
            beyond = block.energies - np.einsum("krl,krl->kl", cross, cross)
            distances = np.maximum(beyond, 0.0) + np.einsum("krl,krl->kl", found, found)
            return (distances, found.reshape(-1, block.n_vertices)), ()
        mask = block.observed.astype(self.dtype)
        sums = over_visits(self._rows, mask).astype(float).reshape(shape)
        pairs = over_visits(self._square_rows, mask).astype(float)
        inner = np.empty((n_clusters, rank + 1, rank + 1, block.n_vertices))
        one, other = np.triu_indices(rank)
        pairs = pairs.reshape(n_clusters, len(one), -1)
        inner[:, 1 + one, 1 + other] = inner[:, 1 + other, 1 + one] = pairs
        inner[:, 0, 0] = block.counts / total
        inner[:, 0, 1:] = inner[:, 1:, 0] = sums / np.sqrt(total)
        curve = of_curves[:, :, None]
        on_curve = np.einsum("kr,krl->kl", of_curves, sums)
        within = np.einsum("krsl,ks->krl", inner[:, 1:, 1:], of_curves)
        found[:, 0] = (block.counts * gap - on_curve) / np.sqrt(total)
        found[:, 1:] = cross + gap[:, None] * sums - within
        distances = block.energies + block.counts * gap**2 - 2 * gap * on_curve
        distances += np.einsum("krl,krl->kl", curve, within - 2 * cross)
        flat = found.reshape(-1, block.n_vertices), inner.reshape(-1, block.n_vertices)
        return (np.maximum(distances, 0.0), *flat), ()


@dataclass(frozen=True)
class SumAssigned(Step):
    """Coordinates and assignment of a block, of which only the sums of the latter are wanted.

    Parameters
    ----------
    coordinates : Coordinates
        Of the vertices around the curves.
    assign : callable
        As of `Products.sweep`.
    """

    coordinates: Coordinates
    assign: AssignVertices
    needs_summary: ClassVar[bool] = True

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return the sums over vertices that the assignment finds."""
        (field,) = own
        return (), self.assign(self.coordinates(block)[0], block.counts, field)[2]
