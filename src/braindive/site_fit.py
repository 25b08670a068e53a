"""Sites within a fit: offsets of vertices before it, with it, and what it makes of them.

A fit begins with offsets that controls and others tell as they are. The marginal fit then finds the
mean offset of every cluster together with stages and curves; given these, one read of the values
finds what each vertex has beside it. What was found is taken off the values as they are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.pooled import PooledMeans
from braindive.dive.problem import Parameters, Problem
from braindive.dive.site_offsets import (
    Sites,
    curve_directions,
    learn_sites,
    starting_directions,
)
from braindive.dive.timeline import Timeline
from braindive.staging.marginal_fit import MarginalFit
from braindive.staging.population import groups_of
from braindive.staging.site_means import ClusterSites, SiteMeans
from braindive.values.protocol import Products

# How far the spread of clusters' offsets over sites is looked for, in root mean squares of what was
# found and of its errors together, and at how many values. Choices.
_WIDEST, _N_SPREADS = 4.0, 200


@dataclass(frozen=True)
class SiteFit:
    """Sites of the visits, and what is known of them so far.

    Parameters
    ----------
    known : Sites
        Their offsets and scales.
    sites : (n_visits,) int
        Of the visits, in canonical order.
    n_parameters : float
        Effective number of the offsets with which the EM began, and one spread of each site.
    """

    known: Sites
    sites: IntArray
    n_parameters: float

    @classmethod
    def begin(
        cls,
        measurements: Products,
        timeline: Timeline,
        controls: Array | None,
        column: str,
        names: tuple[str, ...],
        sites: IntArray,
    ) -> SiteFit:
        """Offsets before anything is known of stages, from one read of the values.

        Controls and others may differ, and so may how they change.
        """
        n_vertices = measurements.n_vertices
        shape = (len(names), n_vertices)
        nothing = np.zeros(n_vertices)
        known = Sites(column, names, np.zeros(shape), np.ones(shape), np.inf, nothing, nothing)
        groups = groups_of(timeline, controls)
        directions = starting_directions(timeline, groups)
        everywhere = np.ones((n_vertices, 1))
        known, freedom = learn_sites(measurements, timeline, sites, known, directions, everywhere)
        return cls(replace(known, scales=np.ones(shape)), sites, freedom + len(names))

    def adjust(self, measurements: Products) -> Products:
        """Take what is known of the sites off the values."""
        return measurements.adjusted(self.known.adjustment(self.sites))

    def start(self, z: Array, pooled: PooledMeans, scale: float) -> SiteMeans:
        """Mean offsets of clusters to begin with; they may be as large as people differ."""
        taken = self.known.cluster_offsets(z, scale)
        total = np.maximum(pooled.weights.sum(axis=0), 1e-300)
        centres = (pooled.weights * pooled.means).sum(axis=0) / total
        variances = (pooled.weights * (pooled.means - centres) ** 2).sum(axis=0) / total
        return SiteMeans(
            self.sites, np.zeros_like(taken), taken, float(np.sqrt(np.mean(variances)))
        )

    def learn(self, fit: MarginalFit, problem: Problem, shown: Parameters, z: Array) -> SiteFit:
        """Offsets and scales of vertices, given the stages and clusters' offsets of a fit."""
        found = fit.climb.problem.sites
        assert found is not None
        assert found.taken is not None
        timeline = problem.timeline
        directions = curve_directions(
            shown.trajectories, timeline.scores(shown.speeds, shown.shifts)
        )
        known, _ = learn_sites(
            problem.measurements,
            timeline,
            self.sites,
            self.known,
            directions,
            z,
            found.taken + found.offsets,
        )
        return replace(self, known=replace(known, spread=site_spread(fit)))

    def by_cluster(self, z: Array, scale: float) -> ClusterSites:
        """What is known of the sites, cluster by cluster."""
        known = self.known
        return ClusterSites(known.cluster_offsets(z, scale), known.cluster_scales(z), known.spread)

    def end(self, fit: MarginalFit, z: Array, scale: float) -> SiteFit:
        """Take what the marginal fit has found last off the values too."""
        assert fit.climb.problem.sites is not None
        moved = self.known.moved(z, fit.climb.problem.sites.offsets, scale)
        return replace(self, known=moved)

    def with_levels(
        self, measurements: Products, curves: Array, z: Array, reference: BoolArray
    ) -> SiteFit:
        """Note how vertices differ from the curves of their clusters, from one read of the values.

        Parameters
        ----------
        measurements : Products
            Adjusted.
        curves : (n_visits, n_clusters)
            At the scores that are shown.
        z : (n_vertices, n_clusters)
            Responsibilities.
        reference : (n_visits,) bool
            Visits that are looked at: of controls, or all.
        """
        found = measurements.select(np.flatnonzero(reference))
        levels = found.means - z @ curves[reference].mean(axis=0)
        return replace(self, known=replace(self.known, levels=levels))


def site_spread(fit: MarginalFit) -> float:
    """Standard deviation over sites of the mean offsets of clusters.

    The expected variance given what was found with a prior that hardly matters, every standard
    deviation being as likely before: it is not 0 where offsets might well be larger than found.
    """
    here, packing = fit.climb, fit.packing
    sites = here.problem.sites
    assert packing.sites is not None
    assert sites is not None
    assert sites.taken is not None
    own = packing.of_sites
    covariance = here.inverse_products(packing)[own, own]
    found = here.vector[own] + (packing.sites.T @ sites.taken).ravel()
    variances, directions = np.linalg.eigh(covariance)
    squares, variances = (directions.T @ found) ** 2, np.maximum(variances, 0.0)
    widest = _WIDEST * np.sqrt(np.mean(squares + variances))
    spreads = np.linspace(widest / _N_SPREADS, widest, _N_SPREADS)[:, None]
    total = spreads**2 + variances
    heights = -0.5 * np.sum(np.log(total) + squares / total, axis=1)
    weights = np.exp(heights - heights.max())
    return float(np.sqrt(weights @ spreads[:, 0] ** 2 / weights.sum()))
