"""Mean offsets of the clusters at a site that a model has not seen, from a few people there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.pooled import PooledMeans
from braindive.dive.timeline import Timeline
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.likelihood import evaluate
from braindive.staging.marginal_fit import searched_points
from braindive.staging.marginal_stager import MarginalStager
from braindive.staging.population import Design, StagePrior
from braindive.staging.posterior import FINE, Points
from braindive.staging.site_means import ClusterSites, SiteMeans

# Most steps, and the length of the last one in standard errors. Choices.
_MOST_STEPS, _SHORT = 50, 1e-4
# Length of the steps by which the curvature is told, in spreads of the prior. A choice.
_STEP = 1e-3


def fit_new_site(
    stager: MarginalStager,
    timeline: Timeline,
    sums: Array,
    weights: Array,
    groups: IntArray,
    design: Design | None = None,
) -> tuple[Array, Array]:
    """Offsets at which people of a new site are most likely, everything else being known.

    Their stages are integrated out, and offsets have the spread of those of the known sites.

    Parameters
    ----------
    stager : MarginalStager
        That knows other sites.
    timeline : Timeline
        Of visits at the new one.
    sums, weights : (n_visits, n_clusters)
        Their measurements pooled, without any offset taken off.
    groups : (n_subjects,) int
        Who is a control.
    design : Design, optional
        What covariates say of the people.

    Returns
    -------
    offsets : (n_clusters,)
    covariance : (n_clusters, n_clusters)
    """
    assert stager.sites is not None
    spread, n_clusters = stager.sites.spread, len(stager.noise)
    problem = CorrelatedStageProblem(
        PooledMeans.from_sums(sums, weights),
        timeline,
        stager.trajectories,
        stager.noise,
        StagePrior(stager.population, groups, stager.seen(design, timeline)),
        stager.covariance,
        sites=SiteMeans(np.zeros(len(timeline.times), dtype=int), np.zeros((1, n_clusters))),
    )

    def gradient(at: Array, points: Points) -> Array:
        found = evaluate(_at(problem, at), points).by_means.sum(axis=0)
        return np.asarray(found - at / spread**2)

    def curvature(at: Array, points: Points) -> Array:
        steps = _STEP * spread * np.eye(n_clusters)
        columns = [gradient(at - step, points) - gradient(at + step, points) for step in steps]
        found = np.stack(columns) / (2 * _STEP * spread)
        values, vectors = np.linalg.eigh((found + found.T) / 2)
        # Where a posterior has two modes the likelihood may bend upwards; the prior does not.
        return np.asarray((vectors * np.maximum(values, spread**-2.0)) @ vectors.T)

    offsets = np.zeros(n_clusters)
    for _ in range(_MOST_STEPS):
        points = searched_points(_at(problem, offsets), stager.known_shifts, FINE)
        posterior = evaluate(_at(problem, offsets), points).posterior
        points = posterior.lay_points(problem.prior, FINE)
        step = np.linalg.solve(curvature(offsets, points), gradient(offsets, points))
        offsets = offsets + step
        bent = curvature(offsets, points)
        if float(step @ bent @ step) < _SHORT**2:
            break
    return offsets, np.linalg.inv(bent)


def _at(problem: CorrelatedStageProblem, offsets: Array) -> CorrelatedStageProblem:
    assert problem.sites is not None
    return replace(problem, sites=replace(problem.sites, offsets=offsets[None]))


def with_site(
    stager: MarginalStager, offsets: Array, scales: Array, covariance: Array
) -> MarginalStager:
    """Return a stager that knows one more site, and how well it is known.

    Parameters
    ----------
    stager : MarginalStager
        That knows other sites.
    offsets, scales : (n_clusters,)
        Of the site.
    covariance : (n_clusters, n_clusters)
        Of the offsets.
    """
    known, place = stager.curve_uncertainty, stager.offsets_at.stop
    assert isinstance(stager.sites, ClusterSites)
    n_new, size = len(offsets), len(known.centre)
    old = np.r_[:place, place + n_new : size + n_new]
    wider = np.zeros((size + n_new, size + n_new))
    wider[np.ix_(old, old)] = known.covariance
    wider[place : place + n_new, place : place + n_new] = covariance
    # The origin and the unit of the score are those of the training cohort.
    centre, spread = (np.zeros(size + n_new) for _ in range(2))
    centre[old], spread[old] = known.centre, known.spread
    return replace(
        stager,
        sites=stager.sites.with_site(offsets, scales),
        curve_uncertainty=replace(known, covariance=wider, centre=centre, spread=spread),
    )
