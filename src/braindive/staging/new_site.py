"""Mean offsets of the clusters at a site that a model has not seen, from a few people there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.pooled import PooledMeans
from braindive.dive.timeline import Timeline
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.likelihood import evaluate
from braindive.staging.marginal_stager import MarginalStager
from braindive.staging.population import Design, StagePrior
from braindive.staging.posterior import FINE, Points, searched_points
from braindive.staging.site_means import ClusterSites, SiteMeans

# Most steps, the length of the last one in standard errors, and how often a step is tried that
# does not lead uphill, half as long each time. Choices.
_MOST_STEPS, _SHORT, _MOST_HALVES = 50, 1e-4, 30
# So much lower a log-likelihood may seem because the points of its integral are others. A choice.
_ROUGH = 1e-3
# Length of the steps by which the curvature is told, in spreads of the prior. A choice.
_STEP = 1e-3


def fit_new_site(
    stager: MarginalStager,
    timeline: Timeline,
    sums: Array,
    weights: Array,
    groups: IntArray,
    design: Design | None = None,
) -> tuple[Array, Array, bool]:
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
    converged : bool
        Whether the steps came to an end.
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

    def look(at: Array) -> tuple[float, Points]:
        there = _at(problem, at)
        points = searched_points(there, stager.known_shifts, FINE)
        points = evaluate(there, points).posterior.lay_points(problem.prior, FINE)
        found = float(evaluate(there, points).log_likelihoods.sum())
        return found - 0.5 * float(at @ at) / spread**2, points

    return newton(look, gradient, curvature, np.zeros(n_clusters))


Place = TypeVar("Place")


def newton(
    look: Callable[[Array], tuple[float, Place]],
    gradient: Callable[[Array, Place], Array],
    curvature: Callable[[Array, Place], Array],
    start: Array,
) -> tuple[Array, Array, bool]:
    """Climb by Newton's steps, which are halved until they lead uphill.

    Parameters
    ----------
    look : callable
        The objective somewhere, and whatever gradient and curvature need to know of that place.
    gradient, curvature : callable
        Of the objective there; the curvature is minus the second derivatives, positive definite.
    start : (n,)
        Where to begin.

    Returns
    -------
    optimum, covariance, converged
        The place, the inverse of the curvature there, and whether the last step was short.
    """
    at, (here, place), converged = start, look(start), False
    bent = curvature(at, place)
    for _ in range(_MOST_STEPS):
        step = np.linalg.solve(bent, gradient(at, place))
        converged = float(step @ bent @ step) < _SHORT**2
        if converged:
            break
        for _ in range(_MOST_HALVES):
            there, there_place = look(at + step)
            if there >= here - _ROUGH:
                break
            step = step / 2
        else:
            break
        at, here, place = at + step, there, there_place
        bent = curvature(at, place)
    return at, np.linalg.inv(bent), converged


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
