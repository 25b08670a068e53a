"""The fast form: measurements pooled into one mean per visit and cluster.

sum_l z_lk sum_n (V_ln - f)^2 = constant + sum_n w_nk (m_nk - f)^2, so the M-step on the weighted
cluster means has the very objective of the M-step on all vertices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array, IntArray


@dataclass(frozen=True)
class PooledMeans:
    """Weighted cluster means of every visit.

    Parameters
    ----------
    means : (n_visits, n_clusters)
        m_nk, the mean of the observed vertices weighted by z_lk.
    weights : (n_visits, n_clusters)
        w_nk, the sum of those z_lk.
    within : (n_clusters,)
        sum_ln z_lk (V_ln - m_nk)^2, the constant between the two forms.
    """

    means: Array
    weights: Array
    within: Array

    @classmethod
    def from_sums(cls, sums: Array, weights: Array) -> PooledMeans:
        """Build from sums and weights alone; the constant between the two forms is left at 0."""
        return cls(sums / np.maximum(weights, 1e-300), weights, np.zeros(sums.shape[1]))

    @classmethod
    def from_products(
        cls, sums: Array, weights: Array, responsibilities: Array, squares: Array
    ) -> PooledMeans:
        """Build from the products of the measurements.

        Parameters
        ----------
        sums, weights : (n_visits, n_clusters)
            sum_l z_lk V_ln and sum_l z_lk over observed vertices.
        responsibilities : (n_vertices, n_clusters)
            z_lk.
        squares : (n_vertices,)
            sum_n V_ln^2 over observed visits.
        """
        # Visits are many and clusters few: sums run along contiguous columns.
        sums, weights = np.asfortranarray(sums), np.asfortranarray(weights)
        means = sums / np.maximum(weights, 1e-300)
        within = responsibilities.T @ squares - np.sum(weights * means**2, axis=0)
        return cls(means, weights, np.maximum(within, 0.0))

    def repeated(self, times: float) -> PooledMeans:
        """Return the means of so many times as many vertices, all like these."""
        return PooledMeans(self.means, times * self.weights, times * self.within)

    def select(self, visits: IntArray) -> PooledMeans:
        """Return the means of some of the visits; the constant between the two forms is lost."""
        return PooledMeans(self.means[visits], self.weights[visits], np.zeros_like(self.within))

    def residuals(self, curves: Array) -> Array:
        """sum_l z_lk (V_ln - F_nk)."""
        return self.weights * (self.means - curves)

    def squares(self, curves: Array) -> Array:
        """sum_l z_lk (V_ln - F_nk)^2 less the constant."""
        return self.weights * (self.means - curves) ** 2

    def variance(self, curves: Array) -> Array:
        """Mean squared residual of the vertices of each cluster."""
        total = np.maximum(self.weights.sum(axis=0), 1e-300)
        return (self.squares(curves).sum(axis=0) + self.within) / total

    def guess(self) -> tuple[Array, Array]:
        """Means and weights."""
        return self.means, self.weights
