"""Sigmoid trajectories and their fit to pooled measurements.

f(s) = a / (1 + exp(-b (s - c))) + d, one per cluster, with b > 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from braindive.arrays import Array, IntArray
from braindive.dive.priors import Normal


@dataclass(frozen=True)
class Trajectories:
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

    @classmethod
    def from_array(cls, parameters: Array) -> Trajectories:
        """Return trajectories from an array of shape (n_clusters, 4)."""
        return cls(*np.ascontiguousarray(np.asarray(parameters, dtype=float).T))

    def to_array(self) -> Array:
        """Return an array of shape (n_clusters, 4)."""
        return np.stack([self.amplitude, self.steepness, self.midpoint, self.baseline], axis=1)

    def __len__(self) -> int:
        return len(self.amplitude)

    def __getitem__(self, index: IntArray) -> Trajectories:
        return Trajectories.from_array(self.to_array()[index])

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
        g = self._rise(scores)
        bend = self.amplitude * g * (1 - g)
        away = np.asarray(scores, dtype=float)[:, None] - self.midpoint
        return np.stack([g, bend * away, -bend * self.steepness, np.ones_like(g)], axis=2)

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

    def _rise(self, scores: Array) -> Array:
        away = np.asarray(scores, dtype=float)[:, None] - self.midpoint
        away *= self.steepness
        return np.asarray(expit(away, out=away))


class Sums(Protocol):
    """What the M-step needs to know of the measurements: sums over vertices weighted by z.

    `pooled.PooledMeans` gives them in the fast form, `exact.VertexSums` by running over vertices.
    """

    @property
    def weights(self) -> Array:
        """sum_l z_lk over the vertices observed at each visit, (n_visits, n_clusters)."""

    def residuals(self, curves: Array) -> Array:
        """sum_l z_lk (V_ln - F_nk), (n_visits, n_clusters)."""

    def squares(self, curves: Array) -> Array:
        """sum_l z_lk (V_ln - F_nk)^2 up to a constant per cluster, (n_visits, n_clusters)."""

    def variance(self, curves: Array) -> Array:
        """sum_ln z_lk (V_ln - F_nk)^2 / sum_ln z_lk, (n_clusters,)."""

    def guess(self) -> tuple[Array, Array]:
        """Cluster means at each visit and their weights, to start a search from."""


@dataclass(frozen=True)
class Box:
    """Where steepness and midpoint may lie: beyond the box the data cannot tell curves apart."""

    steepness: tuple[float, float]
    midpoint: tuple[float, float]

    @classmethod
    def around(cls, scores: Array) -> Box:
        """Midpoints up to six spreads from the mean score; from nearly linear to nearly a step."""
        centre, spread = float(np.mean(scores)), max(float(np.std(scores)), 1e-6)
        return cls((0.1 / spread, 100.0 / spread), (centre - 6 * spread, centre + 6 * spread))

    def clip(self, parameters: Array) -> Array:
        """Return parameters (n_clusters, 4) moved into the box."""
        inside = parameters.copy()
        inside[:, 1] = np.clip(inside[:, 1], *self.steepness)
        inside[:, 2] = np.clip(inside[:, 2], *self.midpoint)
        return inside

    def binding(self, parameters: Array, gradient: Array) -> Array:
        """Which of the parameters (n_clusters, 4) lie on a bound and would leave the box."""
        binding = np.zeros(parameters.shape, dtype=bool)
        for column, (low, high) in ((1, self.steepness), (2, self.midpoint)):
            value, downhill = parameters[:, column], -gradient[:, column]
            binding[:, column] = ((value <= low) & (downhill < 0)) | (
                (value >= high) & (downhill > 0)
            )
        return binding


def trajectory_loss(
    sums: Sums, scores: Array, parameters: Array, noise: Array, prior: Normal | None
) -> Array:
    """(1 / 2 sigma_k^2) sum_ln z_lk (V_ln - f(s_n; theta_k))^2 - log p(theta_k), (n_clusters,)."""
    curves = Trajectories.from_array(parameters).evaluate(scores)
    loss = sums.squares(curves).sum(axis=0) / (2 * noise**2)
    if prior is not None:
        loss = loss - prior.log_density(parameters).sum(axis=1)
    return np.asarray(loss)


def trajectory_gradient(
    sums: Sums, scores: Array, parameters: Array, noise: Array, prior: Normal | None
) -> tuple[Array, Array]:
    """Gradient (n_clusters, 4) and Gauss-Newton Hessian (n_clusters, 4, 4) of `trajectory_loss`."""
    trajectories = Trajectories.from_array(parameters)
    jacobian = trajectories.jacobian(scores)
    residuals = sums.residuals(trajectories.evaluate(scores))
    gradient = -np.einsum("nkp,nk->kp", jacobian, residuals) / noise[:, None] ** 2
    by_cluster = jacobian.transpose(1, 2, 0)
    hessian = (by_cluster * sums.weights.T[:, None, :]) @ by_cluster.transpose(0, 2, 1)
    hessian /= noise[:, None, None] ** 2
    if prior is not None:
        precision = np.broadcast_to(prior.precision, (4,))
        gradient += precision * (parameters - prior.mean)
        hessian += np.diag(precision)
    return gradient, hessian


def fit_trajectories(
    sums: Sums,
    scores: Array,
    noise: Array,
    starts: list[Trajectories],
    box: Box,
    prior: Normal | None = None,
    max_iter: int = 30,
    tol: float = 1e-10,
) -> Trajectories:
    """Levenberg-Marquardt on all four parameters, all clusters at once; never gets worse.

    Parameters
    ----------
    sums : Sums
        Measurements pooled over vertices.
    scores : (n_visits,)
        Disease progression scores.
    noise : (n_clusters,)
        Noise standard deviations.
    starts : list of Trajectories
        Where to begin; the best outcome is kept for each cluster.
    box : Box
        Bounds of steepness and midpoint.
    prior : Normal or None
        Prior of the four parameters.

    Returns
    -------
    Trajectories
    """
    found = [_descend(sums, scores, noise, start, box, prior, max_iter, tol) for start in starts]
    losses = np.stack([loss for _, loss in found])
    parameters = np.stack([parameters for parameters, _ in found])
    best = np.argmin(losses, axis=0)
    return Trajectories.from_array(parameters[best, np.arange(len(noise))]).canonical()


def _descend(
    sums: Sums,
    scores: Array,
    noise: Array,
    start: Trajectories,
    box: Box,
    prior: Normal | None,
    max_iter: int,
    tol: float,
) -> tuple[Array, Array]:
    here = box.clip(start.canonical().to_array())
    loss = trajectory_loss(sums, scores, here, noise, prior)
    damping = np.full(len(here), 1e-3)
    for _ in range(max_iter):
        gradient, hessian = trajectory_gradient(sums, scores, here, noise, prior)
        diagonal = np.einsum("kpp->kp", hessian)
        scale = np.maximum(diagonal, 1e-12 * diagonal.max(axis=1, keepdims=True) + 1e-300)
        damped = hessian + damping[:, None, None] * scale[:, :, None] * np.eye(4)
        there = box.clip(here - np.linalg.solve(damped, gradient[:, :, None])[:, :, 0])
        loss_there = trajectory_loss(sums, scores, there, noise, prior)
        better = loss_there < loss
        gain = np.where(better, loss - loss_there, 0.0)
        here = np.where(better[:, None], there, here)
        loss = np.where(better, loss_there, loss)
        damping = np.clip(np.where(better, damping / 10, damping * 10), 1e-12, 1e12)
        if not np.any(gain > tol * (1 + np.abs(loss))) and np.all(better | (damping > 1e3)):
            break
    return here, loss


def search_trajectories(sums: Sums, scores: Array, box: Box, n_bins: int = 64) -> Trajectories:
    """Best sigmoids on a grid of (b, c), with a and d solved for: a global start for the fit.

    Visits are first averaged in bins of the score, which is enough to find the right valley.
    """
    means, weights = sums.guess()
    edges = np.quantile(scores, np.linspace(0, 1, n_bins + 1)[1:-1])
    bin_of_visit = np.searchsorted(edges, scores)
    members = (np.arange(n_bins)[:, None] == bin_of_visit).astype(float)
    total = members @ weights  # (bins, clusters)
    filled = np.maximum(total, 1e-300)
    values = (members @ (weights * means)) / filled
    centres = (members @ scores) / np.maximum(members.sum(axis=1), 1)

    steepness = np.geomspace(*box.steepness, 14)[1:-1]
    midpoint = np.linspace(*box.midpoint, 41)
    b, c = (x.ravel() for x in np.meshgrid(steepness, midpoint, indexing="ij"))
    rise = expit(b[:, None] * (centres - c[:, None]))  # (grid, bins)
    # Weighted regression of the values on the rise, for every grid point and cluster.
    share = total / np.maximum(total.sum(axis=0), 1e-300)
    mean_rise, mean_value = rise @ share, (share * values).sum(axis=0)
    variance = (rise**2) @ share - mean_rise**2
    covariance = rise @ (share * (values - mean_value))
    explained = np.where(variance > 1e-6, covariance**2 / np.maximum(variance, 1e-6), 0.0)
    best = np.argmax(explained, axis=0)
    cluster = np.arange(means.shape[1])
    amplitude = covariance[best, cluster] / np.maximum(variance[best, cluster], 1e-6)
    baseline = mean_value - amplitude * mean_rise[best, cluster]
    return Trajectories(amplitude, b[best], c[best], baseline)
