"""The fit of trajectories of any shape to pooled measurements."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from braindive.arrays import Array
from braindive.dive.curves import Bounds, Curves, choose
from braindive.dive.priors import Normal


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


def trajectory_loss(
    sums: Sums, scores: Array, trajectories: Curves, noise: Array, prior: Normal | None
) -> Array:
    """(1 / 2 sigma_k^2) sum_ln z_lk (V_ln - f(s_n; theta_k))^2 - log p(theta_k), (n_clusters,)."""
    curves = trajectories.evaluate(scores)
    loss = sums.squares(curves).sum(axis=0) / (2 * noise**2)
    if prior is not None:
        loss = loss - prior.log_density(trajectories.to_array()).sum(axis=1)
    return np.asarray(loss)


def trajectory_gradient(
    sums: Sums, scores: Array, trajectories: Curves, noise: Array, prior: Normal | None
) -> tuple[Array, Array]:
    """Gradient and Gauss-Newton Hessian of `trajectory_loss`.

    Returns
    -------
    gradient : (n_clusters, n_parameters)
    hessian : (n_clusters, n_parameters, n_parameters)
    """
    curves, jacobian = trajectories.values_and_jacobian(scores)
    residuals = sums.residuals(curves)
    gradient = -np.einsum("nkp,nk->kp", jacobian, residuals) / noise[:, None] ** 2
    by_cluster = jacobian.transpose(1, 2, 0)
    hessian = (by_cluster * sums.weights.T[:, None, :]) @ by_cluster.transpose(0, 2, 1)
    hessian /= noise[:, None, None] ** 2
    if prior is not None:
        precision = np.broadcast_to(prior.precision, (trajectories.n_parameters(),))
        gradient += precision * (trajectories.to_array() - prior.mean)
        hessian += np.diag(precision)
    return gradient, hessian


def fit_trajectories(
    sums: Sums,
    scores: Array,
    noise: Array,
    starts: list[Curves],
    bounds: Bounds,
    prior: Normal | None = None,
    max_iter: int = 30,
    tol: float = 1e-10,
) -> Curves:
    """Levenberg-Marquardt on all parameters, all clusters at once; never gets worse.

    Parameters
    ----------
    sums : Sums
        Measurements pooled over vertices.
    scores : (n_visits,)
        Disease progression scores.
    noise : (n_clusters,)
        Noise standard deviations.
    starts : list of Curves
        Where to begin, all of one shape; the best outcome is kept for each cluster.
    bounds : Bounds
        Of the parameters.
    prior : Normal or None
        Prior of the parameters, in their order.

    Returns
    -------
    Curves
    """
    best, lowest = _descend(sums, scores, noise, starts[0], bounds, prior, max_iter, tol)
    for start in starts[1:]:
        found, loss = _descend(sums, scores, noise, start, bounds, prior, max_iter, tol)
        best, lowest = choose(loss < lowest, found, best), np.minimum(loss, lowest)
    return best.canonical()


def _descend(
    sums: Sums,
    scores: Array,
    noise: Array,
    start: Curves,
    bounds: Bounds,
    prior: Normal | None,
    max_iter: int,
    tol: float,
) -> tuple[Curves, Array]:
    here = bounds.clip(start.canonical())
    loss = trajectory_loss(sums, scores, here, noise, prior)
    damping = np.full(len(here), 1e-3)
    for _ in range(max_iter):
        gradient, hessian = trajectory_gradient(sums, scores, here, noise, prior)
        diagonal = np.einsum("kpp->kp", hessian)
        scale = np.maximum(diagonal, 1e-12 * diagonal.max(axis=1, keepdims=True) + 1e-300)
        damped = hessian + damping[:, None, None] * scale[:, :, None] * np.eye(scale.shape[1])
        step = np.linalg.solve(damped, gradient[:, :, None])[:, :, 0]
        there = bounds.clip(here.from_array(here.to_array() - step))
        loss_there = trajectory_loss(sums, scores, there, noise, prior)
        better = loss_there < loss
        gain = np.where(better, loss - loss_there, 0.0)
        here = choose(better, there, here)
        loss = np.where(better, loss_there, loss)
        damping = np.clip(np.where(better, damping / 10, damping * 10), 1e-12, 1e12)
        if not np.any(gain > tol * (1 + np.abs(loss))) and np.all(better | (damping > 1e3)):
            break
    return here, loss


def search_trajectories(
    curve: type[Curves], sums: Sums, scores: Array, bounds: Bounds, n_bins: int = 64
) -> Curves:
    """Roughly the best curves of a shape: a global start for the fit.

    Visits are first averaged in bins of the score, which is enough to find the right valley.
    """
    means, weights = sums.guess()
    edges = np.quantile(scores, np.linspace(0, 1, n_bins + 1)[1:-1])
    bin_of_visit = np.searchsorted(edges, scores)
    members = (np.arange(n_bins)[:, None] == bin_of_visit).astype(float)
    total = members @ weights  # (bins, clusters)
    values = (members @ (weights * means)) / np.maximum(total, 1e-300)
    centres = (members @ scores) / np.maximum(members.sum(axis=1), 1)
    return curve.search(values, total, centres, bounds)
