"""Mean offset of every cluster at every site, beside the clusters' curves.

The part of a site's offset that all vertices of a cluster share can be taken for a stage, so it is
a parameter of the marginal likelihood, in which stages are integrated out: the mean of cluster k at
visit j of subject i is f_k(s_ij) + c_gk + u_ik + e_ijk, where g is the site of the visit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.timeline import Timeline


@dataclass(frozen=True)
class ClusterSites:
    """What a marginal model knows of sites, cluster by cluster.

    Parameters
    ----------
    offsets : (n_sites, n_clusters)
        Mean offsets of the clusters, all of which have been taken off the values.
    scales : (n_sites, n_clusters)
        Noise of the clusters' means, relative to that of all sites.
    spread : float
        Standard deviation of offsets over sites.
    """

    offsets: Array
    scales: Array
    spread: float

    def in_order(self, order: IntArray) -> ClusterSites:
        """Return the same with clusters in another order."""
        return replace(self, offsets=self.offsets[:, order], scales=self.scales[:, order])

    def with_site(self, offsets: Array, scales: Array) -> ClusterSites:
        """Return the same with one more site."""
        return replace(
            self,
            offsets=np.vstack([self.offsets, offsets]),
            scales=np.vstack([self.scales, scales]),
        )


@dataclass(frozen=True)
class SiteMeans:
    """Offsets of cluster means.

    Parameters
    ----------
    sites : (n_visits,) int
        Site of each visit; -1 where it has no offset.
    offsets : (n_sites, n_clusters)
        c_gk, beyond what has been taken off the values.
    taken : (n_sites, n_clusters) or None
        What has been taken off them; None where all of it has.
    spread : float
        Prior standard deviation over sites of both together.
    scales : (n_sites, n_clusters) or None
        Noise of the clusters' means at each site, relative to that of all; None where it is alike.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.staging.site_means import SiteMeans
    >>> SiteMeans(np.array([1, -1, 0]), np.array([[0.5], [2.0]])).of_visits().ravel()
    array([2. , 0. , 0.5])
    """

    sites: IntArray
    offsets: Array
    taken: Array | None = None
    spread: float = np.inf
    scales: Array | None = None

    @classmethod
    def at(cls, sites: IntArray, known: ClusterSites) -> SiteMeans:
        """Return no further offsets of visits at known sites; their uncertainty bears on stages."""
        return cls(sites, np.zeros_like(known.offsets), known.offsets, known.spread, known.scales)

    def of_visits(self) -> Array:
        """Return c of every visit, (n_visits, n_clusters)."""
        return np.where(self.sites[:, None] >= 0, self.offsets[self.sites], 0.0)

    def scales_of_visits(self) -> Array | None:
        """Return the relative noise of every visit, (n_visits, n_clusters), or None for usual."""
        if self.scales is None:
            return None
        return np.where(self.sites[:, None] >= 0, self.scales[self.sites], 1.0)

    def select(self, visits: IntArray | slice) -> SiteMeans:
        """Return those of some visits."""
        return replace(self, sites=self.sites[visits])

    def repeated(self, n_times: int) -> SiteMeans:
        """Return those of the same visits, several times over."""
        return replace(self, sites=np.tile(self.sites, n_times))

    def by_subject(self, by_visit: Array, timeline: Timeline) -> Array:
        """Sum what belongs to visits over those of each subject at each site.

        From (n_visits, n_clusters) to (n_subjects, n_sites, n_clusters).
        """
        found = np.zeros((timeline.n_subjects, *self.offsets.shape))
        known = self.sites >= 0
        index = (timeline.subject_of_visit[known], self.sites[known])
        np.add.at(found, index, by_visit[known])
        return found
