"""Every vertex's own curve: around its cluster's, as far as its own measurements tell it apart.

V_ln = f(s_n; theta_l) + noise with theta_l ~ N(theta_k, Psi_k): the most probable theta_l, found
by Gauss-Newton steps on the vertex's means in bins of the score, and how well it is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.curves import Bounds, Curves, onset_gradients
from braindive.dive.design_effect import without_personal_noise
from braindive.dive.problem import Parameters
from braindive.dive.timeline import Timeline
from braindive.dive.vertices import small_cholesky, solve_lower, solve_upper
from braindive.values.protocol import Block, Found, Products, Step, in_fours

# Bins of the score, with as many visits in each: far narrower than any curve is steep.
_BINS = 32
# Gauss-Newton steps; more change no estimate by a hundredth of its error. Measured.
_STEPS = 5
# Least standard deviation of a vertex's own parameter, as a share of the parameter's scale: less
# makes no visible difference, and keeps covariances invertible.
_LEAST_SPREAD = 0.01
# Clusters to which a vertex belongs with less than this probability are left out.
_LEAST_SHARE = 0.01
# Bytes of derivatives that are worked on at once, so that they stay in the cache.
_CACHE = 2**21


@dataclass(frozen=True)
class Bins:
    """Visits in bins of their scores.

    Parameters
    ----------
    of_visit : (n_visits,) int
        Bin of each visit.
    scores : (n_bins,)
        Mean score of the visits in each bin.
    """

    of_visit: IntArray
    scores: Array

    @classmethod
    def of(cls, scores: Array, n_bins: int = _BINS) -> Bins:
        """Bins with about as many visits in each."""
        edges = np.unique(np.quantile(scores, np.linspace(0, 1, n_bins + 1)[1:-1]))
        _, of_visit, sizes = np.unique(
            np.searchsorted(edges, scores), return_inverse=True, return_counts=True
        )
        return cls(of_visit, np.bincount(of_visit, scores) / sizes)

    def pool(self, block: Block) -> tuple[Array, Array]:
        """Mean and number of each vertex's visits in each bin, (n_bins, n), in standard units."""
        rows = np.zeros((len(self.scores), len(self.of_visit)), dtype=block.values.dtype)
        rows[self.of_visit, np.arange(len(self.of_visit))] = 1
        rows = in_fours(rows, rows.dtype)
        sizes = np.bincount(self.of_visit)[:, None].astype(float)
        if block.observed is None:
            weights = np.broadcast_to(sizes, (len(sizes), block.n_vertices))
        else:
            weights = (rows @ block.observed.astype(rows.dtype))[: len(sizes)].astype(float)
        sums = (rows @ block.deviations())[: len(sizes)].astype(float)
        if block.observed is None:
            return (sums / sizes - block.unit.offset) / block.unit.scale, weights
        means = sums / np.maximum(weights, 1) / block.unit.scale
        return means + block.means, weights


class OwnCurve(NamedTuple):
    """Estimates of vertices: parameters (n_parameters, n), and their information from the data."""

    parameters: Array
    information: Array


def own_curves(
    means: Array,
    weights: Array,
    scores: Array,
    centre: Curves,
    precision: Array,
    bounds: Bounds,
) -> OwnCurve:
    """Most probable curve of each vertex around one curve.

    Parameters
    ----------
    means, weights : (n_bins, n)
        Means of the vertices, and how many times the reciprocal noise variance each is known.
    scores : (n_bins,)
        Where.
    centre : Curves
        The one curve that vertices vary around.
    precision : (n_parameters, n_parameters)
        Inverse covariance of the vertices' parameters around it.
    bounds : Bounds
        Of the parameters.

    Returns
    -------
    parameters : (n_parameters, n)
    information : (n_parameters, n_parameters, n)
        Of the measurements alone, at these parameters.
    """
    shape = type(centre)
    middle = centre.to_array()[0][:, None]
    here = np.repeat(middle, means.shape[1], axis=1)
    loss = np.full(means.shape[1], np.inf)
    damping = np.full(means.shape[1], 1e-3)
    best, information = here, np.zeros((len(middle), len(middle), means.shape[1]))
    for step in range(_STEPS + 1):
        curves = bounds.clip(shape.from_array(here.T))
        here = curves.to_array().T
        values, derivatives = curves.evaluate(scores), curves.jacobian(scores)
        residuals, away = means - values, here - middle
        value = np.einsum("bl,bl,bl->l", weights, residuals, residuals)
        value += np.einsum("pl,pq,ql->l", away, precision, away)
        better = value < loss
        weighted = derivatives * weights[:, :, None]
        found = np.einsum("blp,blq->pql", weighted, derivatives)
        pull = np.einsum("blp,bl->pl", weighted, residuals) - precision @ away
        if step == 0:
            gradient, information = pull, found
        else:
            gradient = np.where(better, pull, gradient)
            information = np.where(better, found, information)
        best = np.where(better, here, best)
        loss = np.where(better, value, loss)
        damping = np.where(better, damping / 10, damping * 10)
        if step < _STEPS:
            hessian = information + precision[:, :, None]
            diagonal = np.arange(len(middle))
            hessian[diagonal, diagonal] *= 1 + damping
            factor = small_cholesky(hessian)
            here = best + solve_upper(factor, solve_lower(factor, gradient))
    return OwnCurve(best, information)


@dataclass(frozen=True)
class MapVertices(Step):
    """When each vertex is half-way, and the variance of that: a step over all vertices.

    Parameters
    ----------
    bins : Bins
        Of the visits.
    curves : Curves
        Of the clusters.
    noise : (n_clusters,)
        Standard deviation of a measurement around its vertex's curve, as far as visits are
        independent.
    covariance : (n_clusters, n_parameters, n_parameters)
        Psi.
    bounds : Bounds
        Of the parameters.
    onsets : (n_clusters, n_parameters)
        Derivatives of the curves' onsets by their parameters.
    """

    bins: Bins
    curves: Curves
    noise: Array
    covariance: Array
    bounds: Bounds
    onsets: Array

    def width(self, block: Block) -> int:
        """As many as stay in the cache."""
        each = 8 * len(self.bins.scores) * self.curves.n_parameters()
        return max(_CACHE // each, 1)

    needs_summary = True

    @cached_property
    def _precisions(self) -> Array:
        return inverse_covariances(self.covariance, self.curves, self.bins.scores)

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return mean and variance of the onset, (n,) each, given z of the vertices."""
        (z,) = own
        means, weights = self.bins.pool(block)
        shares = np.zeros(z.shape)
        onsets, variances = np.zeros(z.shape), np.zeros(z.shape)
        for k in range(z.shape[1]):
            mine = np.flatnonzero(z[:, k] > _LEAST_SHARE)
            if not len(mine):
                continue
            centre, precision = self.curves[np.array([k])], self._precisions[k]
            known = weights[:, mine] / self.noise[k] ** 2
            found = own_curves(
                means[:, mine], known, self.bins.scores, centre, precision, self.bounds
            )
            factor = small_cholesky(found.information + precision[:, :, None])
            along = np.broadcast_to(self.onsets[k][:, None], found.parameters.shape)
            spread = solve_lower(factor, along)
            shares[mine, k] = z[mine, k]
            curves = type(self.curves).from_array(found.parameters.T)
            onsets[mine, k] = curves.onset(self.bins.scores)
            variances[mine, k] = np.einsum("pl,pl->l", spread, spread)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        mean = np.einsum("lk,lk->l", shares, onsets)
        variance = np.einsum("lk,lk->l", shares, variances + (onsets - mean[:, None]) ** 2)
        return (mean, variance), ()


def inverse_covariances(covariance: Array, curves: Curves, scores: Array) -> Array:
    """Inverse of Psi_k, with a least spread for every parameter."""
    derivatives = curves.jacobian(scores)
    change = np.ptp(curves.evaluate(scores), axis=0).mean()
    sizes = np.sqrt(np.mean(derivatives**2, axis=0))
    # A parameter's scale is what moves the curve by as much as the curves change.
    least = _LEAST_SPREAD * change / np.maximum(sizes, 1e-6 * sizes.max())
    found = covariance.copy()
    for k in range(len(found)):
        found[k] = np.linalg.inv(covariance[k] + np.diag(least[k] ** 2))
    return found


class VertexMap(NamedTuple):
    """When each vertex is half-way, (n_vertices,), and the variance of that in its cluster."""

    onsets: Array
    variances: Array


def map_vertices(
    measurements: Products,
    timeline: Timeline,
    parameters: Parameters,
    bounds: Bounds,
    responsibilities: Array,
) -> VertexMap:
    """When each vertex is half-way, around its cluster: two reads of the values.

    Parameters
    ----------
    measurements : Products
        The products of the values.
    timeline : Timeline
        When subjects were seen.
    parameters : Parameters
        What was found, with the vertices' covariance.
    bounds : Bounds
        Of the curves.
    responsibilities : (n_vertices, n_clusters)
        z.
    """
    found = without_personal_noise(measurements, timeline, parameters, responsibilities)
    scores = timeline.scores(found.speeds, found.shifts)
    covariance = found.vertex_covariance
    assert covariance is not None
    step = MapVertices(
        Bins.of(scores),
        found.trajectories,
        found.noise,
        covariance,
        bounds,
        onset_gradients(found.trajectories, scores),
    )
    (onsets, variances), _ = measurements.run(step, responsibilities)
    return VertexMap(onsets, variances)


@dataclass(frozen=True)
class EstimateVertices(Step):
    """Curves of some vertices, by their own measurements and a weak prior.

    Parameters
    ----------
    bins, curves, noise, bounds
        As in `MapVertices`.
    precisions : (n_clusters, n_parameters, n_parameters)
        Of the prior around each cluster's curve.
    """

    bins: Bins
    curves: Curves
    noise: Array
    precisions: Array
    bounds: Bounds
    needs_summary = True
    chooses_vertices = True

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return parameters, their information and the gradient, given labels or -1."""
        (labels,) = own
        n_parameters, mine = self.curves.n_parameters(), np.flatnonzero(labels >= 0)
        found = np.zeros((n_parameters, len(mine)))
        information = np.zeros((n_parameters, n_parameters, len(mine)))
        gradient = np.zeros((n_parameters, len(mine)))
        some = replace(
            block,
            values=block.values[:, mine],
            observed=None if block.observed is None else block.observed[:, mine],
            summary=(block.known[0][mine], block.known[1][mine], block.known[2][mine]),
        )
        means, weights = self.bins.pool(some)
        scores = self.bins.scores
        for k in range(len(self.curves)):
            each = np.flatnonzero(labels[mine] == k)
            if not len(each):
                continue
            known = weights[:, each] / self.noise[k] ** 2
            centre = self.curves[np.array([k])]
            one = own_curves(means[:, each], known, scores, centre, self.precisions[k], self.bounds)
            curves = type(centre).from_array(one.parameters.T)
            residuals = known * (means[:, each] - curves.evaluate(scores))
            found[:, each], information[:, :, each] = one
            gradient[:, each] = np.einsum("blp,bl->pl", curves.jacobian(scores), residuals)
        flat = information.reshape(-1, len(mine))
        return (found, flat, gradient), ()
