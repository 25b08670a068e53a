"""The published shape: f(s) = a / (1 + exp(-b (s - c))) + d with b > 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.dive.curves.protocol import Bounds, Curves, LeastSquares
from braindive.dive.priors import Normal

# In units of the spread of the scores: from nearly linear to nearly a step, with midpoints up to
# so far from the mean score that a curve is flat over the data.
_STEEPNESS = (0.1, 100.0)
_FURTHEST_MIDPOINT = 6
# Usual steepness in units of the spread of the scores: a curve takes about that spread for most of
# its change. A choice.
_USUAL_STEEPNESS = 4.0
# Share of the change within which a plateau counts as reached; a choice.
_NEAR_PLATEAU = 0.1
# Steepnesses and midpoints of the grid on which a start is looked for.
_GRID = (14, 41)
# Place of each entry of a symmetric matrix of four parameters in the list of the different ones.
_UPPER = np.array([[0, 1, 2, 3], [1, 4, 5, 6], [2, 5, 7, 8], [3, 6, 8, 9]])


@dataclass(frozen=True)
class Trajectories(Curves):
    """One sigmoid per cluster.

    Parameters
    ----------
    amplitude, steepness, midpoint, baseline : (n_clusters,)
        a, b, c, d of f(s) = a / (1 + exp(-b (s - c))) + d. The slope at the midpoint is a b / 4.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive import Trajectories
    >>> curves = Trajectories(*np.array([[-1.0], [0.4], [2.0], [0.0]]))
    >>> float(curves.evaluate([2.0])[0, 0])
    -0.5
    """

    amplitude: Array
    steepness: Array
    midpoint: Array
    baseline: Array

    def evaluate(self, scores: Array) -> Array:
        """Expected values at scores: (n,) to (n, n_clusters)."""
        curves = self._rise(scores)
        curves *= self.amplitude
        curves += self.baseline
        return curves

    def slope(self, scores: Array) -> Array:
        """Derivative with respect to the score: (n,) to (n, n_clusters)."""
        g = self._rise(scores)
        return np.asarray(self.amplitude * self.steepness * (g * (1 - g)))

    def jacobian(self, scores: Array) -> Array:
        """Derivatives with respect to a, b, c, d: (n,) to (n, n_clusters, 4)."""
        return self._derivatives(self._rise(scores), scores)

    def values_and_jacobian(self, scores: Array) -> tuple[Array, Array]:
        """Both, of the same exponentials."""
        g = self._rise(scores)
        return self.amplitude * g + self.baseline, self._derivatives(g, scores)

    def values_and_slope(self, scores: Array) -> tuple[Array, Array]:
        """Both, of the same exponentials."""
        g = self._rise(scores)
        values = self.amplitude * g
        return values + self.baseline, values * self.steepness * (1 - g)

    def _derivatives(self, g: Array, scores: Array) -> Array:
        bend = self.amplitude * g * (1 - g)
        # Parameters lie apart in memory: sums over scores run along each of them.
        if g.flags.f_contiguous:
            parts = np.empty((4, *g.T.shape), dtype=g.dtype).transpose(0, 2, 1)
        else:
            parts = np.empty((4, *g.shape), dtype=g.dtype)
        parts[0], parts[3] = g, 1.0
        np.subtract(_floating(scores)[:, None], self.midpoint, out=parts[1])
        parts[1] *= bend
        np.multiply(bend, -self.steepness, out=parts[2])
        return np.moveaxis(parts, 0, 2)

    def least_squares(self, points: Array, weights: Array, scores: Array) -> LeastSquares:
        """How far each of many curves lies from points of its own.

        With t = s - c and h = g (1 - g) the derivatives are g, a t h, -a b h and 1: all that is
        needed are sums of a few products of g, h and the residuals, times 1, t and t^2.
        """
        a, b = self.amplitude, self.steepness
        # Sums with powers of the score, from which those with powers of t follow.
        origin = scores.mean()
        places, c = scores - origin, self.midpoint - origin
        parts = np.empty((8, *points.shape), dtype=points.dtype)
        with_g, with_h, with_gh, with_hh, with_r, with_rg, with_rh, with_bend = parts
        g = self._rise(scores)
        np.multiply(weights, g, out=with_g)
        np.multiply(with_g, 1 - g, out=with_h)
        np.multiply(with_h, g, out=with_gh)
        np.subtract(with_h, with_gh, out=with_hh)
        with_hh *= g
        residuals = points - (a * g + self.baseline)
        np.multiply(weights, residuals, out=with_r)
        loss = np.einsum("nk,nk->k", with_r, residuals)
        np.multiply(with_r, g, out=with_rg)
        # The second derivative of the logistic function is h (1 - 2 g).
        np.multiply(with_rg, 1 - g, out=with_rh)
        np.multiply(with_rh, 1 - 2 * g, out=with_bend)
        powers = np.stack([np.ones_like(places), places, places**2])
        sums = np.matmul(powers, parts)
        once, by_s = sums[:, 0], sums[:, 1]
        by_t = by_s - c * once
        by_t2 = sums[[3, 7], 2] - c * (by_s[[3, 7]] + by_t[[3, 7]])
        s_g, s_h, s_gh, s_hh, s_r, s_rg, s_rh, s_bend = once
        scale = np.stack([np.ones_like(a), a, -a * b, np.ones_like(a)])
        gradient = np.stack([s_rg, by_t[6], s_rh, s_r])
        gradient *= scale
        total = powers[0] @ np.broadcast_to(weights, points.shape)
        unique = np.stack(
            [s_g - s_h, by_t[2], s_gh, s_g, by_t2[0], by_t[3], by_t[1], s_hh, s_h, total]
        )
        information = unique[_UPPER]
        information *= scale[:, None] * scale
        bend = np.zeros_like(information)
        bend[0, 1] = bend[1, 0] = by_t[6]
        bend[0, 2] = bend[2, 0] = -b * s_rh
        bend[1, 1] = a * by_t2[1]
        bend[1, 2] = bend[2, 1] = -a * (s_rh + b * by_t[7])
        bend[2, 2] = a * b**2 * s_bend
        return LeastSquares(loss, gradient, information, bend)

    def at_points(self, scores: Array) -> SigmoidsAtPoints:
        """Values at several scores of every visit; derivatives come of the same exponentials."""
        b, c = self.steepness[:, None, None], self.midpoint[:, None, None]
        rise = b * scores
        rise -= b * c
        return SigmoidsAtPoints(_logistic(rise), scores, self)

    def canonical(self) -> Trajectories:
        """Return the same curves with positive steepness: (a, b, c, d) = (-a, -b, c, d + a)."""
        flip = self.steepness < 0
        return Trajectories(
            np.where(flip, -self.amplitude, self.amplitude),
            np.abs(self.steepness),
            self.midpoint,
            np.where(flip, self.baseline + self.amplitude, self.baseline),
        )

    def rescored(self, centre: float, spread: float) -> Trajectories:
        """Return the same curves over the score (s - centre) / spread."""
        return Trajectories(
            self.amplitude,
            self.steepness * spread,
            (self.midpoint - centre) / spread,
            self.baseline,
        )

    def revalued(self, offset: float, scale: float) -> Trajectories:
        """Return curves whose values are offset + scale times these."""
        return Trajectories(
            scale * self.amplitude, self.steepness, self.midpoint, offset + scale * self.baseline
        )

    @classmethod
    def has_amplitude(cls) -> bool:
        """Yes: a is the change from one plateau to the other."""
        return True

    def weak_prior(
        self, centre: float, spread: float, values: Array, change: float, logarithmic: BoolArray
    ) -> Normal:
        """Prior of a, log b, c and d; a's own is the t distribution of all clusters' changes.

        Midpoints lie within a few spreads of the scores, and curves take about one spread to
        change, give or take a factor of e; a choice.
        """
        steepness = np.log(_USUAL_STEEPNESS / spread)
        return Normal(
            np.column_stack([np.tile([0.0, steepness, centre], (len(self), 1)), values]),
            np.tile([np.inf, 1.0, 3 * spread, 2 * change], (len(self), 1)),
        )

    def reached(self, scores: Array) -> BoolArray:
        """Whether anybody has gone through less than a tenth, or more than nine, of the change."""
        first, last = self._rise(np.array([np.min(scores), np.max(scores)]))
        return np.stack([first <= _NEAR_PLATEAU, last >= 1 - _NEAR_PLATEAU], axis=1)

    def change(self, scores: Array) -> Array:
        """From the one plateau to the other: the amplitude, whatever scores were seen."""
        return self.canonical().amplitude

    def onset(self, scores: Array) -> Array:
        """Where half of the change has happened: the midpoint, whatever scores were seen."""
        return self.midpoint

    @classmethod
    def bounds(cls, scores: Array) -> Bounds:
        """Limits of steepness and midpoint; amplitude and baseline are free."""
        centre, spread = float(np.mean(scores)), max(float(np.std(scores)), 1e-6)
        reach = _FURTHEST_MIDPOINT * spread
        flattest, steepest = _STEEPNESS
        return Bounds(
            {
                "steepness": (flattest / spread, steepest / spread),
                "midpoint": (centre - reach, centre + reach),
            }
        )

    @classmethod
    def search(cls, values: Array, weights: Array, scores: Array, bounds: Bounds) -> Trajectories:
        """Best sigmoids on a grid of (b, c), with a and d solved for."""
        n_steepnesses, n_midpoints = _GRID
        steepness = np.geomspace(*bounds.limits["steepness"], n_steepnesses)[1:-1]
        midpoint = np.linspace(*bounds.limits["midpoint"], n_midpoints)
        b, c = (x.ravel() for x in np.meshgrid(steepness, midpoint, indexing="ij"))
        rise = _logistic(b[:, None] * (scores - c[:, None]))  # (grid, points)
        # Weighted regression of the values on the rise, for every grid point and cluster.
        share = weights / np.maximum(weights.sum(axis=0), 1e-300)
        mean_rise, mean_value = rise @ share, (share * values).sum(axis=0)
        variance = (rise**2) @ share - mean_rise**2
        covariance = rise @ (share * (values - mean_value))
        explained = np.where(variance > 1e-6, covariance**2 / np.maximum(variance, 1e-6), 0.0)
        best = np.argmax(explained, axis=0)
        cluster = np.arange(values.shape[1])
        amplitude = covariance[best, cluster] / np.maximum(variance[best, cluster], 1e-6)
        baseline = mean_value - amplitude * mean_rise[best, cluster]
        return Trajectories(amplitude, b[best], c[best], baseline)

    def _rise(self, scores: Array) -> Array:
        # Along what there is more of: a loop over three curves takes twice the time.
        order: Literal["C", "F"] = "F" if len(scores) > len(self) else "C"
        away = np.subtract(_floating(scores)[:, None], self.midpoint, order=order)
        away *= self.steepness
        return _logistic(away)


def _floating(scores: Array) -> Array:
    """Scores in single precision where they have it, and else in double precision."""
    scores = np.asarray(scores)
    return scores if scores.dtype == np.float32 else scores.astype(float, copy=False)


def _logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)), in place: a third of the time of SciPy's, which takes one at a time."""
    np.negative(x, out=x)
    # Where the exponential overflows, the curve is level.
    with np.errstate(over="ignore"):
        np.exp(x, out=x)
    x += 1.0
    return np.asarray(np.divide(1.0, x, out=x))


@dataclass(frozen=True)
class SigmoidsAtPoints:
    """`AtPoints` whose values and derivatives are made when they are needed.

    Parameters
    ----------
    rise : (n_clusters, n_visits, n_points)
        How much of the change is done.
    scores : (n_visits, n_points)
        Where.
    curves : Trajectories
        Which.
    """

    rise: Array
    scores: Array
    curves: Trajectories

    @property
    def values(self) -> Array:
        """Of the curves."""
        values = self.curves.amplitude[:, None, None] * self.rise
        values += self.curves.baseline[:, None, None]
        return values

    def mixed(self, matrix: Array, offsets: Array) -> Array:
        """Product of a matrix of clusters with the values, and offsets of visits."""
        flat = self.rise.reshape(len(self.rise), -1)
        mixed = ((matrix * self.curves.amplitude) @ flat).reshape(self.rise.shape)
        mixed += (offsets + (matrix @ self.curves.baseline)[:, None])[:, :, None]
        return mixed

    def pull_back(self, by_values: Array) -> tuple[Array, Array]:
        """From a gradient by the values to those by a, b, c, d and by the scores."""
        a, b, c = self.curves.amplitude, self.curves.steepness, self.curves.midpoint
        n_clusters, ones = len(self.rise), np.ones(self.scores.shape[1])
        by_rise = by_values * self.rise
        by_amplitude = by_rise @ ones
        # g (1 - g), by which the rise changes with b (s - c)
        by_rise -= by_rise * self.rise
        total = (by_rise @ ones).T
        away = np.einsum("knq,nq->nk", by_rise, self.scores) - c * total
        by_parameters = [by_amplitude.T, a * away, -a * b * total, (by_values @ ones).T]
        by_scores = (a * b) @ by_rise.reshape(n_clusters, -1)
        return np.stack(by_parameters, axis=2), by_scores.reshape(self.scores.shape)
