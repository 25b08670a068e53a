"""The published sums over vertices, for `method="exact"`.

Slow by design: every evaluation of a loss or gradient runs over all measurements. It serves to
show that the fast form in `pooled` is the same problem.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array
from braindive.values.protocol import Products


@dataclass(frozen=True)
class VertexSums:
    """Sums of residuals over the vertices, each recomputed from the values when asked for.

    Parameters
    ----------
    measurements : Products
        The values.
    responsibilities : (n_vertices, n_clusters)
        z_lk.
    weights : (n_visits, n_clusters)
        sum_l z_lk over the vertices observed at each visit.
    """

    measurements: Products
    responsibilities: Array
    weights: Array

    def residuals(self, curves: Array) -> Array:
        """sum_l z_lk (V_ln - F_nk)."""
        return self.measurements.sum_residuals(curves, self.responsibilities, power=1)

    def squares(self, curves: Array) -> Array:
        """sum_l z_lk (V_ln - F_nk)^2."""
        return self.measurements.sum_residuals(curves, self.responsibilities, power=2)

    def variance(self, curves: Array) -> Array:
        """Mean squared residual of the vertices of each cluster."""
        total = np.maximum(self.weights.sum(axis=0), 1e-300)
        return np.asarray(self.squares(curves).sum(axis=0) / total)

    def guess(self) -> tuple[Array, Array]:
        """Means and weights."""
        at_zero = self.residuals(np.zeros_like(self.weights))
        return at_zero / np.maximum(self.weights, 1e-300), self.weights
