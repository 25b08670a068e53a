"""Moves out of poor optima: two clusters become one, and one becomes two (Ueda et al. 2000)."""

from __future__ import annotations

import numpy as np

from braindive.arrays import Array
from braindive.dive.compressed import Compressed


def most_similar(curves: Array, noise: Array, sizes: Array) -> list[tuple[int, int]]:
    """Pairs of clusters from the one whose merging costs least to the one that costs most.

    With sizes w and one curve for both in place of two, about w_i w_j / (w_i + w_j)
    sum_n (F_ni - F_nj)^2 / 2 sigma^2 of the log-likelihood is lost.

    Parameters
    ----------
    curves : (n_visits, n_clusters)
        F_nk.
    noise, sizes : (n_clusters,)
        sigma_k and w_k.
    """
    one, other = np.triu_indices(len(noise), 1)
    apart = np.sum((curves[:, one] - curves[:, other]) ** 2, axis=0)
    shared = sizes[one] * sizes[other] / np.maximum(sizes[one] + sizes[other], 1e-300)
    cost = shared * apart / (noise[one] * noise[other])
    order = np.argsort(cost, kind="stable")
    return [(int(one[pair]), int(other[pair])) for pair in order]


def widest(
    data: Compressed, curves: Array, noise: Array, responsibilities: Array
) -> tuple[Array, Array]:
    """How much the vertices of each cluster differ beyond noise, and along which direction.

    The vertices' residuals from their curve have a covariance, of which noise alone would make
    sigma_k^2 times the identity.

    Parameters
    ----------
    data : Compressed
        The measurements.
    curves, noise, responsibilities
        F_nk, sigma_k and z_lk.

    Returns
    -------
    excess : (n_clusters,)
        w_k (largest eigenvalue / sigma_k^2 - 1).
    sides : (n_vertices, n_clusters)
        Coordinates of the residuals along the eigenvector.
    """
    n_visits = len(data.basis)
    values = data.coefficients * (n_visits / np.maximum(data.counts, 1.0))[:, None]
    centres = (data.basis.T @ curves).T
    excess, sides = np.zeros(len(noise)), np.zeros(responsibilities.shape)
    for k, weights in enumerate(responsibilities.T):
        size = max(float(weights.sum()), 1e-300)
        residuals = values - centres[k]
        covariance = residuals.T @ (weights[:, None] * residuals) / size
        eigenvalues, vectors = np.linalg.eigh(covariance)
        excess[k] = size * (eigenvalues[-1] / noise[k] ** 2 - 1)
        sides[:, k] = residuals @ vectors[:, -1]
    return excess, sides


def split_and_merge(
    responsibilities: Array, merged: tuple[int, int], split: int, sides: Array
) -> Array:
    """Z in which the second of two clusters went to the first, and half of a third to the second.

    Parameters
    ----------
    responsibilities : (n_vertices, n_clusters)
        z.
    merged : (int, int)
        Two clusters.
    split : int
        Another one.
    sides : (n_vertices,)
        Vertices of the latter on the upper side go.
    """
    z, (kept, freed) = responsibilities.copy(), merged
    z[:, kept] += z[:, freed]
    z[:, freed] = np.where(sides > 0, z[:, split], 0.0)
    z[:, split] -= z[:, freed]
    return z
