"""Information about curves and noise, and how much of it is missing because nobody knows z.

Louis (1982): with g_lk the derivatives of D_lk, the information of the complete data less that of
the measurements is sum_l (sum_k z_lk g_lk g_lk' - (sum_k z_lk g_lk) (sum_k z_lk g_lk)').
"""

from __future__ import annotations

import numpy as np

from braindive.arrays import Array
from braindive.dive.compressed import AT_ONCE, Compressed
from braindive.dive.curves import Curves
from braindive.values.threads import in_threads


def information(
    data: Compressed,
    trajectories: Curves,
    noise: Array,
    scores: Array,
    responsibilities: Array,
) -> tuple[Array, Array]:
    """Information of the complete data, and the part of it that is missing.

    Parameters
    ----------
    data : Compressed
        The measurements.
    trajectories, noise, scores
        theta, sigma and the scores of the visits.
    responsibilities : (n_vertices, n_clusters)
        z at these parameters.

    Returns
    -------
    complete, missing : (n, n)
        Cluster by cluster: the parameters of its curve, then the logarithm of its noise.
    """
    of_clusters = _complete(data.weights(responsibilities), trajectories, noise, scores)
    missing = _missing(data, trajectories, noise, scores, responsibilities)
    complete = np.zeros_like(missing)
    own = of_clusters.shape[1]
    for k, found in enumerate(of_clusters):
        complete[k * own : (k + 1) * own, k * own : (k + 1) * own] = found
    return complete, missing


def _complete(weights: Array, trajectories: Curves, noise: Array, scores: Array) -> Array:
    """Of each cluster: sum_n w_n J_n J_n' / sigma^2 for the curve, and 2 sum_n w_n for the rest."""
    jacobian = trajectories.jacobian(scores).transpose(1, 2, 0)
    n_clusters, n_parameters, _ = jacobian.shape
    found = np.zeros((n_clusters, n_parameters + 1, n_parameters + 1))
    found[:, :-1, :-1] = (jacobian * weights.T[:, None]) @ jacobian.transpose(0, 2, 1)
    found[:, :-1, :-1] /= noise[:, None, None] ** 2
    found[:, -1, -1] = 2 * weights.sum(axis=0)
    return found


def _missing(
    data: Compressed, trajectories: Curves, noise: Array, scores: Array, responsibilities: Array
) -> Array:
    curves, jacobian = trajectories.evaluate(scores), trajectories.jacobian(scores)
    n_visits, n_clusters, n_parameters = jacobian.shape
    along = (data.basis.T @ jacobian.reshape(n_visits, -1)).T
    on_curves = jacobian * curves[:, :, None]
    expected = on_curves.sum(axis=0)
    over_holes = (data.squares_basis.T @ on_curves.reshape(n_visits, -1)).T
    shape, variance = (n_clusters, n_parameters + 1), noise**2

    def of_block(block: slice) -> tuple[Array, Array]:
        part, z = data.only(block), responsibilities[block].T
        slopes = np.empty((*shape, len(part.counts)))
        inner = along @ part.coefficients.T
        if part.holes.shape[1]:
            inner += over_holes @ part.holes.T
        np.subtract(
            inner.reshape(n_clusters, n_parameters, -1), expected[:, :, None], out=slopes[:, :-1]
        )
        slopes[:, :-1] /= variance[:, None, None]
        slopes[:, -1] = part.distances(curves).T / variance[:, None] - part.counts
        weighted = slopes * z[:, None]
        flat = weighted.reshape(-1, len(part.counts))
        return weighted @ slopes.transpose(0, 2, 1), flat @ flat.T

    found = np.zeros((n_clusters * shape[1], n_clusters * shape[1]))
    for within, between in in_threads(of_block, len(data.counts), AT_ONCE):
        found -= between
        for k in range(n_clusters):
            own = slice(k * shape[1], (k + 1) * shape[1])
            found[own, own] += within[k]
    return found
