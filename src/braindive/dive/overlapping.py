"""Clusters that overlap: curves nearer to each other than the published likelihood has them.

The published likelihood gives nearly every vertex to one cluster. Where vertices have midpoints of
their own and clusters overlap, what it finds are slices of all vertices, as k-means does, whose
curves lie further apart than those that the vertices vary around. How much further is told by a
mixture of normal distributions of midpoints, of one variance and with equal shares as the published
model has them. Labels are better where they follow the curves of the mixture.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from braindive.arrays import Array, IntArray
from braindive.dive.curves import Trajectories, onset_gradients
from braindive.dive.design_effect import without_personal_noise
from braindive.dive.e_step import pool, with_covariance
from braindive.dive.em import m_step
from braindive.dive.problem import Parameters, Problem
from braindive.dive.vertex_evidence import learn_population, log_evidence_of_midpoints

# Vertices whose own midpoints are looked at, evenly spread; and how many there must be for each
# cluster. Choices.
_MOST_VERTICES = 1000
_LEAST_VERTICES = 100
# Distance of neighbouring slices of evenly spread vertices, in standard deviations inside a slice:
# clusters that lie further apart have fewer vertices between them than that, and hardly overlap.
_EVENLY_SPREAD = np.sqrt(12.0)
# Least share of the vertices that must be in the cluster of their midpoint: else it is something
# else that tells clusters apart. Measured: .95 to .99 where it is midpoints.
_IN_ORDER = 0.9
# Largest error of a vertex's midpoint, in standard deviations of a group: with larger ones the
# published likelihood is not too sure of labels. Measured: agreement with the truth gains with 75
# people (0.5) and more, and loses with 30 (0.8).
_KNOWN = 0.5
# Distance in standard deviations below which two normal distributions have one peak.
_ONE_PEAK = 2.0
# Least distance of groups, as a share of that of the slices. Measured with midpoints a third of a
# standard deviation apart, which no data tell from one group: nearer than this, labels gain nothing
# more, and few are sure.
_NEAREST = 0.6


def curves_of_mixture(problem: Problem, parameters: Parameters, z: Array) -> Parameters | None:
    """Curves that labels should follow where clusters overlap, and None where they do not.

    At most one read of the values.

    Parameters
    ----------
    problem : Problem
        What is fitted.
    parameters : Parameters
        What was found; speeds and shifts stay.
    z : (n_vertices, n_clusters)
        Responsibilities that belong to them.

    Returns
    -------
    Parameters or None
        None unless clusters are told apart by midpoints, and overlap because vertices differ.
    """
    n_clusters = len(parameters.trajectories)
    known = np.flatnonzero((problem.measurements.counts > 0) & (z.sum(axis=1) > 0.5))
    if not _one_by_one(problem, parameters) or len(known) < _LEAST_VERTICES * n_clusters:
        return None
    chosen = np.zeros(len(z), dtype=bool)
    chosen[known[np.unique(np.linspace(0, len(known) - 1, _MOST_VERTICES).astype(int))]] = True
    measurements, timeline, z = problem.measurements, problem.timeline, z[chosen]
    if not chosen.all():
        measurements = measurements.sample(chosen)
    some = replace(problem, measurements=measurements, staging=False)
    # Clusters without vertices have no midpoints.
    if z.sum(axis=0).min() < 1:
        return None
    found = with_covariance(measurements, timeline, parameters, z)
    found = without_personal_noise(measurements, timeline, found, z)
    scores = timeline.scores(found.speeds, found.shifts)
    if least_distance(found, scores) > _EVENLY_SPREAD:
        return None
    population, binned = learn_population(measurements, timeline, found, z)
    binned = binned.known_less(population.coarseness(binned))
    evidence = log_evidence_of_midpoints(population, binned)
    evidence = np.exp(evidence - evidence.max(axis=0))
    order = np.argsort(found.trajectories.onset(scores), kind="stable")
    midpoints, errors = _estimates(population.midpoints, evidence)
    if share_in_order(midpoints, z[:, order].argmax(axis=1)) < _IN_ORDER:
        return None
    weights = z / z.sum(axis=0)
    groups = draw_together(population.midpoints, evidence, midpoints @ weights, midpoints.std())
    distance = float(np.diff(np.sort(groups.means)).min())
    if distance > _ONE_PEAK * groups.width or np.median(errors) > _KNOWN * groups.width:
        return None
    ended = m_step(pool(some, groups.members(evidence)), some, parameters, 0)
    # With one noise for all, labels are those of the nearest curves.
    return replace(ended, noise=np.full(n_clusters, np.sqrt(np.mean(ended.noise**2))))


def _one_by_one(problem: Problem, parameters: Parameters) -> bool:
    """Whether vertices are given to several sigmoids one by one, by the published likelihood."""
    free = problem.graph is None and problem.fixed is None and problem.vertices == "auto"
    curves = parameters.trajectories
    return free and isinstance(curves, Trajectories) and len(curves) > 1


def least_distance(parameters: Parameters, scores: Array) -> float:
    """Least distance of two clusters' onsets, in standard deviations of their vertices' onsets.

    Parameters
    ----------
    parameters : Parameters
        Curves of the clusters, and the covariance of those of their vertices.
    scores : (n_visits,)
        At which they are known.
    """
    curves, covariance = parameters.trajectories, parameters.vertex_covariance
    assert covariance is not None
    gradients = onset_gradients(curves, scores)
    variance = float(np.mean(np.einsum("kp,kpq,kq->k", gradients, covariance, gradients)))
    distance = float(np.diff(np.sort(curves.onset(scores))).min())
    return distance / np.sqrt(variance) if variance > 0 else np.inf


def _estimates(points: Array, evidence: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of each vertex's midpoint, (n,) each."""
    shares = evidence / evidence.sum(axis=0)
    means = points @ shares
    return means, np.sqrt(np.maximum(points**2 @ shares - means**2, 0.0))


def share_in_order(midpoints: Array, labels: IntArray) -> float:
    """Share of vertices with the label that they would have by their midpoints alone.

    By midpoints alone, the first vertices belong to the first cluster, as many as it has, and so on
    to the last.

    Parameters
    ----------
    midpoints : (n,)
        Of the vertices.
    labels : (n,) int
        Clusters, numbered from the earliest to the latest.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.dive.overlapping import share_in_order
    >>> share_in_order(np.array([0.1, 0.4, 0.5, 0.7]), np.array([0, 1, 0, 1]))
    0.5
    """
    return float(np.mean(labels[np.argsort(midpoints, kind="stable")] == np.sort(labels)))


@dataclass(frozen=True)
class Groups:
    """Normal groups of midpoints on a grid, with one variance and equal shares.

    Parameters
    ----------
    means : (n_groups,)
        Of the groups.
    width : float
        Standard deviation of a group.
    densities : (n_points, n_groups)
        Probability of each point of the grid in each group.
    """

    means: Array
    width: float
    densities: Array

    def evidence(self, of_points: Array) -> Array:
        """Evidence of vertices for each group, (n, n_groups), from that for points."""
        return np.asarray(np.maximum(of_points.T @ self.densities, 1e-30))

    def members(self, of_points: Array) -> Array:
        """Probability of each group, (n, n_groups), from the evidence for points."""
        evidence = self.evidence(of_points)
        return np.asarray(evidence / evidence.sum(axis=1, keepdims=True))


def draw_together(points: Array, evidence: Array, centres: Array, spread: float) -> Groups:
    """Likeliest groups whose centres lie as the given ones do, nearer to each other.

    Parameters
    ----------
    points : (n_points,)
        Grid of midpoints.
    evidence : (n_points, n)
        Of vertices for each of them, at most 1.
    centres : (n_groups,)
        Where the slices of the published likelihood lie.
    spread : float
        Standard deviation of all midpoints; no group is wider.
    """
    middle, step = float(centres.mean()), float(points[1] - points[0])

    def groups(numbers: Array) -> Groups:
        where, log_width, nearer = (float(number) for number in numbers)
        means, width = where + nearer * (centres - middle), np.exp(log_width)
        density = np.exp(-0.5 * ((points[:, None] - means) / width) ** 2)
        density /= np.maximum(density.sum(axis=0), 1e-300)
        return Groups(means, width, density)

    def loss(numbers: Array) -> float:
        return -float(np.log(groups(numbers).evidence(evidence).mean(axis=1)).mean())

    narrowest, widest = np.log(step / 2), np.log(max(spread, step))
    limits = [(points[0], points[-1]), (narrowest, widest), (_NEAREST, 1.0)]
    # From groups apart, as wide as slices of evenly spread vertices, and from groups that overlap.
    slices = max(np.ptp(centres) / (len(centres) - 1) / _EVENLY_SPREAD, step / 2)
    starts = [(middle, np.log(slices), 1.0), (middle, np.log(2 * slices), 0.8)]
    lower, upper = np.array(limits).T
    found = [
        minimize(loss, np.clip(start, lower, upper), method="L-BFGS-B", bounds=limits)
        for start in starts
    ]
    return groups(min(found, key=lambda each: float(each.fun)).x)
