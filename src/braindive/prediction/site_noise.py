"""How noisy visits are at the sites where they were, or will be, measured."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, IntArray


@dataclass(frozen=True)
class SiteNoise:
    """Noise of some visits relative to that of all sites.

    Parameters
    ----------
    scales : (n_vertices, n_sites)
        By how much each site multiplies the standard deviation of noise.
    sites : (n_visits,) int
        Where the visits are.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.prediction.site_noise import SiteNoise
    >>> noise = SiteNoise(np.array([[1.0, 3.0], [1.0, 1.0]]), np.array([1, 0]))
    >>> noise.of_visits().round(3)
    array([2.236, 1.   ])
    >>> noise.variances(np.array([0]))
    array([[9., 1.]])
    """

    scales: Array
    sites: IntArray

    def of_visits(self) -> Array:
        """Root mean square over the vertices of each visit's factors, (n_visits,)."""
        return np.asarray(np.sqrt(np.mean(self.scales**2, axis=0))[self.sites])

    def variances(self, visits: IntArray | slice) -> Array:
        """Factors of the noise variance of some visits, (n, n_vertices)."""
        return np.asarray(self.scales.T[self.sites[visits]] ** 2)

    def select(self, visits: IntArray) -> SiteNoise:
        """Return that of some visits."""
        return replace(self, sites=self.sites[visits])

    def at(self, vertices: IntArray) -> SiteNoise:
        """Return that of some vertices."""
        return replace(self, scales=self.scales[vertices])
