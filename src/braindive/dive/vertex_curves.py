"""Every vertex's own curve: around its cluster's, as far as its own measurements tell it apart.

V_ln = f(s_n; theta_l) + noise with theta_l ~ N(theta_k, Psi_k): the most probable theta_l, found
by Levenberg-Marquardt steps, and Newton's at last, on the vertex's means in bins of the score, and
how well it is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.curves import Bounds, Curves, onset_gradients
from braindive.dive.design_effect import without_personal_noise
from braindive.dive.problem import Parameters
from braindive.dive.timeline import Timeline
from braindive.dive.vertices import (
    small_cholesky,
    solve_lower,
    solve_upper,
    with_shared_spread,
)
from braindive.values.blocks import Block, Found, Step
from braindive.values.protocol import Products
from braindive.values.threads import in_threads

# Bins of the score: narrower than curves are steep.
_BINS = 16
# Most steps, and the squared length of a step in standard errors below which it is a vertex's last.
# And the squared length after which the next step is Newton's: farther away its Hessian may be of a
# saddle. And the first damping, and what it is multiplied by after a step that gains and after one
# that does not. Found by trying: on a cohort of the size of ADNI half of the estimates end within
# .0001 standard errors of their optimum, and 99 of 100 within .005. Without Newton's steps, curves
# that lie far from their points took many more. With a first damping of 0.001, 2 of 100 ended
# more than 2 away in 5 steps, because curves bend.
_STEPS = 12
_HARDLY = 0.003
_NEAR = 2.0
_DAMPING, _GAIN, _LOSS = 1.0, 0.1, 10.0
# Share of the vertices up to which those that still move go on alone: copies take time too. A
# choice.
_MOST = 0.7
# Least standard deviation of a vertex's own parameter, as a share of the parameter's scale: less
# makes no visible difference, and keeps covariances invertible.
_LEAST_SPREAD = 0.01
# Clusters to which a vertex belongs with less than this probability are left out.
_LEAST_SHARE = 0.01
# Vertices that are worked on at once. So many that numpy is busy with each array for longer than
# threads take to wait for each other: pieces of 2,048 took 8.3 sums of all values in one thread and
# 11 in two on a cohort of the size of ADNI, and these 3.5 and 3.0.
_AT_ONCE = 2**14


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
        """Bins with about as many visits in each, and fewer at both ends, where scores spread."""
        levels = (1 - np.cos(np.pi * np.linspace(0, 1, n_bins + 1)[1:-1])) / 2
        edges = np.unique(np.quantile(scores, levels))
        _, of_visit, sizes = np.unique(
            np.searchsorted(edges, scores), return_inverse=True, return_counts=True
        )
        return cls(of_visit, np.bincount(of_visit, scores) / sizes)

    @property
    def sizes(self) -> IntArray:
        """Number of visits in each bin."""
        return np.bincount(self.of_visit)

    def pool(self, block: Block) -> tuple[Array, Array]:
        """Mean and number of each vertex's visits in each bin, in standard units.

        Each (n_bins, n); without holes the numbers are the same for all, (n_bins, 1).
        """
        sizes = self.sizes[:, None].astype(float)
        sums = self._sums(block.deviations())
        if block.observed is None:
            return (sums / sizes - block.unit.offset) / block.unit.scale, sizes
        weights = self._sums(block.observed.astype(block.values.dtype))
        means = sums / np.maximum(weights, 1) / block.unit.scale
        return means + block.means, weights

    def _sums(self, values: Array) -> Array:
        """Sums over the visits of each bin, (n_bins, n)."""
        sums = np.empty((len(self.scores), values.shape[1]))
        for number, out in enumerate(sums):
            rows = np.flatnonzero(self.of_visit == number)
            out[:] = np.ones(len(rows), dtype=values.dtype) @ values[rows]
        return sums


class OwnCurve(NamedTuple):
    """Estimates of vertices: parameters (n_parameters, n), and their information from the data."""

    parameters: Array
    information: Array


def own_curves(
    means: Array,
    weights: Array,
    scores: Array,
    centres: Curves,
    of: IntArray,
    precisions: Array,
    bounds: Bounds,
) -> OwnCurve:
    """Most probable curve of each vertex around one of a few curves.

    Parameters
    ----------
    means, weights : (n_bins, n)
        Means of the vertices, and how many times the reciprocal noise variance each is known, both
        of the precision in which all is computed.
    scores : (n_bins,)
        Where.
    centres : Curves
        Curves that vertices vary around.
    of : (n,) int
        Which of them each vertex varies around.
    precisions : (n_curves, n_parameters, n_parameters)
        Inverse covariances of the vertices' parameters around the curves.
    bounds : Bounds
        Of the parameters.

    Returns
    -------
    parameters : (n_parameters, n)
    information : (n_parameters, n_parameters, n)
        Of the measurements alone, near these parameters.
    """
    curve, dtype, diagonal = type(centres), means.dtype, np.arange(centres.n_parameters())
    scores, precision = scores.astype(dtype), _of_vertices(precisions.transpose(1, 2, 0), of, dtype)
    middle = _of_vertices(centres.to_array().T, of, dtype)
    out = OwnCurve(middle.copy(), np.zeros((*middle.shape[:1], *middle.shape), dtype=dtype))
    # Of the vertices that still move: which they are, where they are and where they go next.
    going, found, there = np.arange(len(of)), middle, middle
    moving, near = np.ones(len(of), dtype=bool), np.zeros(len(of), dtype=bool)
    information, gradient, bend = out.information, middle, out.information
    loss, damping = np.full(len(of), np.inf, dtype), np.full(len(of), _DAMPING, dtype)
    for step in range(_STEPS + 1):
        curves = bounds.clip(curve.from_array(there.T))
        there = np.stack([getattr(curves, name) for name in curve.names()])
        away = there - middle
        pull = np.einsum("pql,ql->pl", precision, away)
        value, slope, fisher, bending = curves.least_squares(means, weights, scores)
        value += np.einsum("pl,pl->l", away, pull)
        slope -= pull
        better = value < loss
        worse = np.flatnonzero(~better)
        if len(worse):
            # These stay where they were, and are less sure of their way.
            there[:, worse], value[worse], near[worse] = found[:, worse], loss[worse], False
            slope[:, worse], fisher[:, :, worse] = gradient[:, worse], information[:, :, worse]
            bending[:, :, worse] = bend[:, :, worse]
        found, loss, gradient, information, bend = there, value, slope, fisher, bending
        damping *= np.where(better, dtype.type(_GAIN), dtype.type(_LOSS))
        if step == _STEPS:
            break
        hessian = information + precision
        if near.any():
            hessian -= near * bend
        hessian[diagonal, diagonal] *= 1 + damping
        factor = small_cholesky(hessian)
        forward = solve_lower(factor, gradient)
        # Those that have hardly anything to gain take this step as their last. They go along as
        # long as they are few, but what is kept of a vertex never hangs on the others.
        there = found + solve_upper(factor, forward)
        length = np.einsum("pl,pl->l", forward, forward)
        near, last = length <= _NEAR, moving & (length <= _HARDLY)
        ending = np.flatnonzero(last)
        out.parameters[:, going[ending]] = there[:, ending]
        out.information[:, :, going[ending]] = information[:, :, ending]
        moving &= ~last
        if np.count_nonzero(moving) < _MOST * len(moving):
            go_on = np.flatnonzero(moving)
            arrays = going, moving, near, loss, damping, found, there, gradient, information, bend
            going, moving, near, loss, damping, found, there, gradient, information, bend = (
                each.take(go_on, axis=-1) for each in arrays
            )
            means, weights, middle, precision = (
                each.take(go_on, axis=-1) for each in (means, weights, middle, precision)
            )
        if not len(going):
            break
    left = np.flatnonzero(moving)
    out.parameters[:, going[left]] = found[:, left]
    out.information[:, :, going[left]] = information[:, :, left]
    out.parameters[:] = bounds.clip(curve.from_array(out.parameters.T)).to_array().T
    return out


def _of_vertices(each: Array, of: IntArray, dtype: np.dtype[Any]) -> Array:
    """What there is of every curve, along the last axis, of the curve of each vertex."""
    return each.astype(dtype).take(of, axis=-1)


@dataclass(frozen=True)
class PoolBins(Step):
    """Means of each vertex in bins of the score: a step over all vertices.

    Parameters
    ----------
    bins : Bins
        Of the visits.
    """

    bins: Bins
    needs_summary = True

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return means, (n_bins, n), and where there are holes the numbers of visits too."""
        means, numbers = (each.astype(block.values.dtype) for each in self.bins.pool(block))
        return (means,) if block.observed is None else (means, numbers), ()


@dataclass(frozen=True)
class OwnOnsets:
    """When each of some vertices is half-way, and the variance of that.

    Parameters
    ----------
    scores : (n_bins,)
        Of the bins.
    curves : Curves
        Of the clusters.
    noise : (n_clusters,)
        Standard deviation of a measurement around its vertex's curve, as far as visits are
        independent.
    precisions : (n_clusters, n_parameters, n_parameters)
        Inverse of Psi.
    bounds : Bounds
        Of the parameters.
    onsets : (n_clusters, n_parameters)
        Derivatives of the curves' onsets by their parameters.
    """

    scores: Array
    curves: Curves
    noise: Array
    precisions: Array
    bounds: Bounds
    onsets: Array

    def __call__(self, means: Array, weights: Array, z: Array) -> tuple[Array, Array]:
        """Return mean and variance of the onset, (n,) each.

        Parameters
        ----------
        means, weights : (n_bins, n)
            Means of the vertices and numbers of their visits, (n_bins, 1) where all have as many.
        z : (n, n_clusters)
            Of the vertices.
        """
        n_vertices, dtype = len(z), means.dtype
        # A vertex counts once for each cluster that it may belong to.
        vertex, cluster = np.nonzero(z > _LEAST_SHARE)
        shares = z[vertex, cluster]
        shares = shares / np.bincount(vertex, shares, n_vertices)[vertex]
        known = (self.noise**-2).astype(dtype)[cluster]
        known = known * (weights if weights.shape[1] == 1 else weights.take(vertex, axis=1))
        # Near a saddle a step may lead beyond all numbers, and is taken back.
        with np.errstate(over="ignore", invalid="ignore"):
            found = own_curves(
                means.take(vertex, axis=1),
                known,
                self.scores,
                self.curves,
                cluster,
                self.precisions,
                self.bounds,
            )
        precision = _of_vertices(self.precisions.transpose(1, 2, 0), cluster, dtype)
        factor = small_cholesky(found.information + precision)
        spread = solve_lower(factor, _of_vertices(self.onsets.T, cluster, dtype))
        onsets = type(self.curves).from_array(found.parameters.T).onset(self.scores)
        mean = np.bincount(vertex, shares * onsets, n_vertices)
        variances = np.einsum("pl,pl->l", spread, spread) + (onsets - mean[vertex]) ** 2
        return mean, np.bincount(vertex, shares * variances, n_vertices)


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
    curves, covariance = found.trajectories, found.vertex_covariance
    assert covariance is not None
    bins = Bins.of(scores)
    (means, *numbers), _ = measurements.run(PoolBins(bins))
    weights = numbers[0] if numbers else bins.sizes[:, None].astype(means.dtype)
    sizes = responsibilities.sum(axis=0) + 1.0
    spread = with_shared_spread(covariance, curves, found.noise, scores, sizes)
    onsets = OwnOnsets(
        bins.scores,
        curves,
        found.noise,
        inverse_covariances(spread, curves, bins.scores),
        bounds,
        onset_gradients(curves, scores),
    )

    def of_some(part: slice) -> tuple[Array, Array]:
        own = weights[:, part] if numbers else weights
        return onsets(means[:, part], own, responsibilities[part])

    parts = in_threads(of_some, len(responsibilities), _AT_ONCE)
    return VertexMap(*(np.concatenate(each) for each in zip(*parts, strict=True)))
