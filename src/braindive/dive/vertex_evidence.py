"""What the measurements of a vertex say about when it changes, and by how much.

The evidence of every vertex for every midpoint (and change) on a grid: the density of its
measurements with everything else about its curve integrated out. Errors of estimates are skewed
where few people were seen; the evidence is exact there too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.problem import Parameters
from braindive.dive.timeline import Timeline
from braindive.dive.vertex_curves import Bins
from braindive.values.blocks import Block, Found, Step
from braindive.values.protocol import Products

# Midpoints of the grid, and how far it goes beyond nearly all scores, in their spreads.
_MIDPOINTS = 81
_BEYOND = 1.0
# Logarithms of steepnesses, in units of the spread of the scores: around curves that take about
# that spread for most of their change.
_STEEPNESSES = np.log(4.0) + np.linspace(-1.5, 1.5, 7)
_LEAST_SPREAD_OF_STEEPNESS = 0.15
# Changes of the grid, in standard deviations of all vertices' changes.
_CHANGES = np.linspace(-2.6, 2.6, 17)
# Vertices from which the distribution of curves is learnt, and steps of its EM.
_LEARN_FROM = 400
_STEPS = 15
# Errors are at least so many steps of the grid, or sums over it would miss what lies between.
_LEAST_ERROR = 0.7


@dataclass(frozen=True)
class PoolVertices(Step):
    """Means of chosen vertices in bins of the score, and how many visits each has."""

    bins: Bins
    needs_summary = True
    chooses_vertices = True

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return means and numbers of visits, (n_bins, n) each, of vertices that are wanted."""
        (wanted,) = own
        means, sizes = self.bins.pool(block)
        sizes = np.broadcast_to(sizes, means.shape)
        return (means[:, wanted], sizes[:, wanted]), ()


class Binned(NamedTuple):
    """Measurements of vertices in bins of the score.

    Parameters
    ----------
    scores : (n_bins,)
        In spreads from their mean.
    means, precisions : (n_bins, n)
        Of the vertices, in standard units.
    """

    scores: Array
    means: Array
    precisions: Array

    def of(self, vertices: IntArray) -> Binned:
        """Of some vertices."""
        return Binned(self.scores, self.means[:, vertices], self.precisions[:, vertices])

    def known_less(self, factor: float) -> Binned:
        """With variances so many times as large."""
        return Binned(self.scores, self.means, self.precisions / factor)


def learn_population(
    measurements: Products,
    timeline: Timeline,
    parameters: Parameters,
    z: Array,
    wanted: BoolArray | None = None,
) -> tuple[Population, Binned]:
    """How the curves of some vertices vary, and their measurements: one read of the values.

    Parameters
    ----------
    measurements : Products
        The products of the values.
    timeline : Timeline
        When subjects were seen.
    parameters : Parameters
        Scores, and the noise that counts for the curve of a vertex (`design_effect`).
    z : (n_vertices, n_clusters)
        Responsibilities.
    wanted : (n_vertices,) bool, optional
        Which vertices; all by default.
    """
    if wanted is None:
        wanted = np.ones(len(z), dtype=bool)
    scores = timeline.scores(parameters.speeds, parameters.shifts)
    bins = Bins.of(scores)
    (means, sizes), _ = measurements.run(PoolVertices(bins), wanted)
    centre, spread = scores.mean(), scores.std() or 1.0
    noise = parameters.noise[z[wanted].argmax(axis=1)]
    binned = Binned((bins.scores - centre) / spread, means, sizes / noise**2)
    low, high = (np.quantile(scores, [0.01, 0.99]) - centre) / spread
    return Population.learn(binned, low, high), binned


class _Moments(NamedTuple):
    """Sums over bins of products of shapes x, 1 and measurements y: (n_shapes, n) or (n,)."""

    xx: Array
    xo: Array
    xy: Array
    oo: Array
    oy: Array
    yy: Array


@dataclass(frozen=True)
class Population:
    """How the curves baseline + change / (1 + exp(-steepness (s - midpoint))) of vertices vary.

    Parameters
    ----------
    midpoints : (n_midpoints,)
        Grid of midpoints, in spreads of the scores.
    shares : (n_midpoints,)
        Of the vertices at each of them.
    steepnesses : (n_steepnesses,)
        Probability of each steepness of the grid.
    mean, covariance : (2,), (2, 2)
        Of change and baseline.
    """

    midpoints: Array
    shares: Array
    steepnesses: Array
    mean: Array
    covariance: Array

    @classmethod
    def learn(cls, binned: Binned, low: float, high: float) -> Population:
        """Learn the distribution by EM.

        Parameters
        ----------
        binned : Binned
            Vertices.
        low, high : float
            Scores between which nearly all lie, in their spreads.
        """
        n_vertices = binned.means.shape[1]
        some = np.unique(np.linspace(0, n_vertices - 1, _LEARN_FROM).astype(int))
        binned = binned.of(some)
        population = cls._rough(binned, np.linspace(low - _BEYOND, high + _BEYOND, _MIDPOINTS))
        moments = population.moments(binned)
        for _ in range(_STEPS):
            population = population._improved(moments)
        return population

    @classmethod
    def _rough(cls, binned: Binned, midpoints: Array) -> Population:
        quarter = max(len(binned.scores) // 4, 1)
        early = binned.means[:quarter].mean(axis=0)
        late = binned.means[-quarter:].mean(axis=0)
        pair = np.stack([late - early, early])
        spread = 0.3 * np.ptp(np.quantile(binned.means, [0.02, 0.98]))
        n_steepnesses = len(_STEEPNESSES)
        return cls(
            midpoints,
            np.full(len(midpoints), 1 / len(midpoints)),
            np.full(n_steepnesses, 1 / n_steepnesses),
            np.median(pair, axis=1),
            np.cov(pair) + spread**2 * np.eye(2),
        )

    def shapes(self, scores: Array) -> Array:
        """Share of the change that is done, (n_midpoints * n_steepnesses, n_bins)."""
        away = scores - self.midpoints[:, None, None]
        rise = expit(np.exp(_STEEPNESSES)[:, None] * away)
        return np.asarray(rise.reshape(-1, len(scores)))

    def moments(self, binned: Binned) -> _Moments:
        """Sums over bins from which all evidence follows."""
        x, known = self.shapes(binned.scores), binned.precisions
        weighted = known * binned.means
        return _Moments(
            x**2 @ known,
            x @ known,
            x @ weighted,
            known.sum(axis=0),
            weighted.sum(axis=0),
            (weighted * binned.means).sum(axis=0),
        )

    def log_evidence(self, moments: _Moments) -> tuple[Array, tuple[Array, ...]]:
        """Of each shape, change and baseline integrated out, (n_shapes, n), and their posterior.

        The posterior is the means of change and baseline and their variances and covariance.
        """
        m, precision = self.mean, np.linalg.inv(self.covariance)
        xx, xo, xy, oo, oy, yy = moments
        first = xy - m[0] * xx - m[1] * xo
        second = oy - m[0] * xo - m[1] * oo
        a, b, c = xx + precision[0, 0], xo + precision[0, 1], oo + precision[1, 1]
        determinant = a * c - b**2
        change = (c * first - b * second) / determinant
        baseline = (a * second - b * first) / determinant
        square = yy - 2 * (m[0] * xy + m[1] * oy)
        square += m[0] ** 2 * xx + 2 * m[0] * m[1] * xo + m[1] ** 2 * oo
        square -= change * first + baseline * second
        value = -0.5 * (square + np.log(determinant * np.linalg.det(self.covariance)))
        posterior = (
            m[0] + change,
            m[1] + baseline,
            c / determinant,
            a / determinant,
            -b / determinant,
        )
        return value, posterior

    def _improved(self, moments: _Moments) -> Population:
        value, (change, baseline, v_change, v_baseline, v_both) = self.log_evidence(moments)
        prior = np.outer(self.shares, self.steepnesses).ravel()
        value += np.log(np.maximum(prior, 1e-300))[:, None]
        weights = np.exp(value - logsumexp(value, axis=0))
        n_vertices = weights.shape[1]
        weights /= n_vertices
        mean = np.array([np.vdot(weights, change), np.vdot(weights, baseline)])
        d_change, d_baseline = change - mean[0], baseline - mean[1]
        both = np.vdot(weights, d_change * d_baseline + v_both)
        covariance = np.array(
            [
                [np.vdot(weights, d_change**2 + v_change), both],
                [both, np.vdot(weights, d_baseline**2 + v_baseline)],
            ]
        )
        covariance += 1e-4 * mean[0] ** 2 * np.eye(2) + 1e-9 * np.eye(2)
        by_both = weights.sum(axis=1).reshape(len(self.midpoints), -1)
        steepnesses = by_both.sum(axis=0)
        centre = steepnesses @ _STEEPNESSES
        spread = steepnesses @ (_STEEPNESSES - centre) ** 2
        spread = max(spread, _LEAST_SPREAD_OF_STEEPNESS**2)
        steepnesses = np.exp(-0.5 * (_STEEPNESSES - centre) ** 2 / spread)
        return Population(
            self.midpoints,
            by_both.sum(axis=1),
            steepnesses / steepnesses.sum(),
            mean,
            covariance,
        )

    @property
    def changes(self) -> Array:
        """Grid of changes."""
        return np.asarray(self.mean[0] + np.sqrt(self.covariance[0, 0]) * _CHANGES)

    def coarseness(self, binned: Binned) -> float:
        """How many times as large variances must be for the grid to be fine enough, at least 1."""
        steepness = np.exp(self.steepnesses @ _STEEPNESSES)
        rise = expit(steepness * binned.scores)
        slope = self.mean[0] * steepness * rise * (1 - rise)
        when = np.median(slope**2 @ binned.precisions) * np.ptp(self.midpoints[:2]) ** 2
        much = np.median((rise - rise.mean()) ** 2 @ binned.precisions)
        much *= np.ptp(self.changes[:2]) ** 2
        return float(max(1.0, _LEAST_ERROR**2 * when, _LEAST_ERROR**2 * much))

    def residuals(self, binned: Binned) -> Array:
        """Standard residuals around the likeliest curve of each vertex, (n_bins, n)."""
        value, (change, baseline, *_) = self.log_evidence(self.moments(binned))
        best, each = value.argmax(axis=0), np.arange(value.shape[1])
        curves = change[best, each] * self.shapes(binned.scores)[best].T + baseline[best, each]
        return np.asarray(np.sqrt(binned.precisions) * (binned.means - curves))


def log_evidence(population: Population, binned: Binned) -> Array:
    """Logarithm of the evidence for each midpoint and change, (n_midpoints, n_changes, n).

    Steepness and baseline are integrated out.
    """
    xx, xo, xy, oo, oy, yy = population.moments(binned)
    mean, covariance = population.mean, population.covariance
    follows = covariance[0, 1] / covariance[0, 0]
    variance = max(covariance[1, 1] - follows * covariance[0, 1], 1e-9)
    shape = (len(population.midpoints), len(_STEEPNESSES), -1)
    found = np.empty((len(population.midpoints), len(_CHANGES), len(oo)), dtype=np.float32)
    for j, change in enumerate(population.changes):
        baseline = mean[1] + follows * (change - mean[0])
        off = oy - change * xo - baseline * oo
        square = yy - 2 * change * xy + change**2 * xx
        square -= baseline * (2 * (oy - change * xo) - baseline * oo)
        square -= off**2 / (oo + 1 / variance)
        value = -0.5 * (square + np.log1p(oo * variance))
        found[:, j] = _over_steepnesses(population, value.reshape(shape))
    return found


def _over_steepnesses(population: Population, value: Array) -> Array:
    top = value.max(axis=1)
    value = value - top[:, None]
    np.exp(value, out=value)
    return np.asarray(top + np.log(np.einsum("mhl,h->ml", value, population.steepnesses)))


def log_evidence_of_midpoints(population: Population, binned: Binned) -> Array:
    """Logarithm of the evidence for each midpoint, (n_midpoints, n); all else is integrated out."""
    value, _ = population.log_evidence(population.moments(binned))
    shape = (len(population.midpoints), len(_STEEPNESSES), -1)
    return _over_steepnesses(population, value.reshape(shape))
