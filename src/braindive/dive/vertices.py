"""Vertices of one cluster differ: random coefficients on the derivatives of the cluster's curve.

V_l = f_k + J_k u_l + noise with u_l ~ N(0, Psi_k) and J_k the derivatives of the curve by its own
parameters. Given z everything is normal, so the density of a vertex needs no more than its distance
to the curve and the coordinates of its residual in the span of J_k (`values.coordinates`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from braindive.arrays import Array
from braindive.dive.curves import Curves, onset_gradients
from braindive.dive.field import expectation
from braindive.values.coordinates import Coordinates

# Vertices with fewer observed visits than this for each coordinate say nothing about how vertices
# differ; a choice.
_LEAST_VISITS = 3
# Vertices of a cluster from which on it is told how they differ. A choice.
_LEAST_VERTICES = 30
# Directions of the derivatives that are shorter than this share of the longest are not told apart.
_RANK = 1e-4
# Parameters by which a curve moves less than this share of what it moves by another are left alone.
_FLAT = 1e-3


class Scatter(NamedTuple):
    """Sums over vertices, weighted by z, from which Psi and sigma are estimated.

    Parameters
    ----------
    weights : (n_clusters,)
        Sum of z.
    misfit, freedom : (n_clusters,)
        Squared residuals beyond the span of the derivatives, and their number.
    squares, unknown : (n_clusters, rank, rank)
        Sums of b b' and, for each unit of sigma^2, of the part of it that is noise.
    """

    weights: Array
    misfit: Array
    freedom: Array
    squares: Array
    unknown: Array

    def variances(self, before: Array) -> Array:
        """sigma_k^2; those before where there are too few vertices."""
        known = (self.weights >= 1) & (self.freedom > 0)
        return np.where(known, self.misfit / np.where(known, self.freedom, 1.0), before)


@dataclass(frozen=True)
class AssignDiffering:
    """z of some vertices where those of a cluster differ: the E-step on a block.

    Parameters
    ----------
    noise : (n_clusters,)
        sigma_k, around the vertex's own curve.
    effects : (n_clusters, rank, rank)
        Covariance of the coordinates that is no noise, J Psi J' in coordinates.
    log_shares : (n_clusters,) or None
        Logarithms of the clusters' shares of the vertices; None where they are equal.
    fixed : bool
        Whether z is given, in place of the field.
    """

    noise: Array
    effects: Array
    log_shares: Array | None = None
    fixed: bool = False

    def __call__(
        self, found: tuple[Array, ...], counts: Array, field: Array | None
    ) -> tuple[Array, Array, tuple[Array, ...]]:
        """Return D and z, each (n, n_clusters), and the sums of `Scatter`."""
        n_clusters, rank, _ = self.effects.shape
        distances, coordinates = found[0], found[1].reshape(n_clusters, rank, -1)
        inner = found[2].reshape(n_clusters, rank, rank, -1) if len(found) > 2 else None
        density = np.empty((len(counts), n_clusters), order="F")
        solved = np.empty_like(coordinates)
        beyond = np.empty_like(distances)
        unknown = None if inner is None else np.empty_like(inner)
        for k in range(n_clusters):
            b, variance = coordinates[k], self.noise[k] ** 2
            values, vectors = np.linalg.eigh(self.effects[k])
            values = np.maximum(values, 0.0)
            if inner is None:
                solved[k] = b
                beyond[k] = distances[k] - np.einsum("rl,rl->l", b, b)
                turned = vectors.T @ b
                log_determinant = float(np.log1p(values / variance).sum())
                explained = (values / (variance + values)) @ turned**2
            else:
                root = vectors * np.sqrt(values)
                ratio = np.einsum("ri,rsl,sj->ijl", root, inner[k], root) / variance
                ratio[np.arange(rank), np.arange(rank)] += 1.0
                factor = small_cholesky(ratio)
                log_determinant = 2 * np.log(factor[np.arange(rank), np.arange(rank)]).sum(axis=0)
                forward = solve_lower(factor, root.T @ b)
                explained = np.einsum("rl,rl->l", forward, forward) / variance
                # How the vertex's visits alone tell its coordinates, kept finite where they do not.
                own = inner[k] + 1e-6 * np.eye(rank)[:, :, None]
                factor = small_cholesky(own)
                inverse = solve_lower(factor, np.eye(rank)[:, :, None] * np.ones(len(counts)))
                unknown_k = np.einsum("irl,isl->rsl", inverse, inverse)
                solved[k] = np.einsum("rsl,sl->rl", unknown_k, b)
                beyond[k] = distances[k] - np.einsum("rl,rl->l", solved[k], b)
                assert unknown is not None
                unknown[k] = unknown_k
            density[:, k] = -0.5 * (
                counts * np.log(2 * np.pi * variance)
                + log_determinant
                + (distances[k] - explained) / variance
            )
        if self.log_shares is not None:
            density += self.log_shares
        z = expectation(density, field) if not self.fixed or field is None else field
        enough = counts >= _LEAST_VISITS * rank
        return density, z, _scatter(z.T * enough, counts - rank, beyond, solved, unknown)


def _scatter(
    z: Array, freedom: Array, beyond: Array, solved: Array, unknown: Array | None
) -> Scatter:
    rank = solved.shape[1]
    weights = z.sum(axis=1)
    squares = (solved * z[:, None]) @ solved.transpose(0, 2, 1)
    if unknown is None:
        noise = weights[:, None, None] * np.eye(rank)
    else:
        noise = np.einsum("krsl,kl->krs", unknown, z)
    misfit = np.einsum("kl,kl->k", z, np.maximum(beyond, 0.0))
    return Scatter(weights, misfit, z @ freedom, squares, noise)


def effects_of(covariance: Array, design: Coordinates) -> Array:
    """J Psi J' in coordinates, (n_clusters, rank, rank)."""
    return np.einsum("krp,kpq,ksq->krs", design.of_derivatives, covariance, design.of_derivatives)


def estimate_covariance(scatter: Scatter, design: Coordinates, before: Array) -> Array:
    """Psi_k from the scatter of the vertices' coordinates, less what is noise.

    Parameters
    ----------
    scatter : Scatter
        Sums over vertices.
    design : Coordinates
        Curves and derivatives at which they were found.
    before : (n_clusters, n_parameters, n_parameters)
        Psi of the last iteration, which a cluster without vertices keeps; one with few has the
        mean of the others.

    Returns
    -------
    (n_clusters, n_parameters, n_parameters)
    """
    found, variances = before.copy(), scatter.variances(np.zeros(len(before)))
    many = (scatter.weights >= _LEAST_VERTICES) & (scatter.freedom > 0)
    for k in np.flatnonzero(many):
        own = (scatter.squares[k] - variances[k] * scatter.unknown[k]) / scatter.weights[k]
        found[k] = _in_parameters(own, design.of_derivatives[k])
    if many.any():
        # Too few vertices to tell differ as those of the other clusters do.
        few = ~many & (scatter.weights >= 1)
        found[few] = np.average(found[many], axis=0, weights=scatter.weights[many])
    return found


def without_noise(covariance: Array, design: Coordinates, variances: Array) -> Array:
    """Psi without noise that was taken for it, of the same variance in every coordinate."""
    left = effects_of(covariance, design) - variances[:, None, None] * np.eye(design.rank)
    each = zip(left, design.of_derivatives, strict=True)
    return np.stack([_in_parameters(own, derivatives) for own, derivatives in each])


def with_shared_spread(
    covariance: Array, curves: Curves, noise: Array, scores: Array, sizes: Array
) -> Array:
    """Psi whose spread of onsets is the other clusters' where noise hides a cluster's own.

    Psi is what is left of the scatter of vertices without noise. Where noise is most of it, as at
    the ends of the scores, a noise that is slightly wrong leaves nothing, or far too much. Spreads
    v_k of the onsets are therefore shrunk to their mean, by u_k^2 / (u_k^2 + mean^2), where u_k is
    the variance of an onset by one vertex's measurements alone. That is the best linear predictor
    where spreads of clusters differ by about the same share as that by which noise is wrong, a
    choice.

    Parameters
    ----------
    covariance : (n_clusters, n_parameters, n_parameters)
        Psi.
    curves : Curves
        Of the clusters.
    noise : (n_clusters,)
        That counts for the curve of a vertex.
    scores : (n_visits,)
        At which vertices were seen.
    sizes : (n_clusters,)
        Number of vertices.

    Returns
    -------
    (n_clusters, n_parameters, n_parameters)
    """
    derivatives, slopes = curves.jacobian(scores), curves.slope(scores)
    gradients = onset_gradients(curves, scores)
    unknown = np.empty(len(curves))
    for k, gradient in enumerate(gradients):
        information = derivatives[:, k].T @ derivatives[:, k] / noise[k] ** 2
        # Kept invertible where a parameter does not move the curve.
        information += 1e-9 * np.trace(information) * np.eye(len(gradient))
        unknown[k] = gradient @ np.linalg.solve(information, gradient)
    own = np.einsum("kp,kpq,kq->k", gradients, covariance, gradients)
    rough = np.average(own, weights=sizes)
    mean = np.average(own, weights=sizes / np.maximum(rough**2 + unknown**2, 1e-300))
    shrinkage = unknown**2 / np.maximum(mean**2 + unknown**2, 1e-300)
    found = covariance.copy()
    for k, spread in enumerate(own + shrinkage * (mean - own)):
        if spread > own[k]:
            # The parameters change so when the whole curve moves along the score.
            along = _inverse(derivatives[:, k]) @ slopes[:, k]
            found[k] += (spread - own[k]) * np.outer(along, along)
        elif spread < own[k]:
            along = covariance[k] @ gradients[k]
            found[k] -= (1 - spread / own[k]) * np.outer(along, along) / own[k]
    return found


def _in_parameters(own: Array, derivatives: Array) -> Array:
    """Psi from J Psi J' in coordinates, as near to it as a covariance can be."""
    to_parameters = _inverse(derivatives)
    span = derivatives @ to_parameters
    values, vectors = np.linalg.eigh(span @ own @ span.T)
    root = to_parameters @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    return np.asarray(root @ root.T)


def _inverse(derivatives: Array) -> Array:
    """Generalised inverse of derivatives, (n_parameters, n), each first in units of its length.

    Parameters that hardly move the curve, as the midpoint of a flat one, do not differ.
    """
    lengths = np.linalg.norm(derivatives, axis=0)
    units = np.where(lengths > _FLAT * lengths.max(), lengths, np.inf)
    return np.asarray(np.linalg.pinv(derivatives / units, rcond=_RANK) / units[:, None])


def carried_over(covariance: Array, before: Array, after: Array) -> Array:
    """Psi in terms of other derivatives of about the same functions of the visits.

    Parameters
    ----------
    covariance : (n_clusters, n_parameters, n_parameters)
        Psi.
    before, after : (n_visits, n_clusters, n_parameters)
        The derivatives that it belongs to, and those it shall belong to.
    """
    found = np.empty_like(covariance)
    for k in range(len(covariance)):
        turn = _inverse(after[:, k]) @ before[:, k]
        found[k] = turn @ covariance[k] @ turn.T
    return found


def small_cholesky(matrices: Array) -> Array:
    """Lower factors of many small matrices, (rank, rank, n); what is above has no meaning."""
    factor = np.array(matrices)
    for i in range(len(factor)):
        # Few calls for all rows below at once: with few matrices calls take the time.
        below = factor[i + 1 :, i]
        pivot = np.sqrt(np.maximum(factor[i, i], 1e-12), out=factor[i, i])
        below /= pivot
        factor[i + 1 :, i + 1 :] -= below[:, None] * below
    return factor


def solve_lower(factor: Array, right: Array) -> Array:
    """Solve L x = b for many small lower L, (rank, rank, n); b is (rank, ..., n)."""
    out = np.array(right)
    for i in range(len(factor)):
        out[i] /= factor[i, i]
        out[i + 1 :] -= _beside(factor[i + 1 :, i], out) * out[i]
    return out


def solve_upper(factor: Array, right: Array) -> Array:
    """Solve L' x = b for many small lower L, (rank, rank, n); b is (rank, ..., n)."""
    out = np.array(right)
    for i in reversed(range(len(factor))):
        out[i] /= factor[i, i]
        out[:i] -= _beside(factor[i, :i], out) * out[i]
    return out


def _beside(rows: Array, right: Array) -> Array:
    """Rows, (m, n), with as many axes as the right-hand sides have."""
    return rows.reshape(len(rows), *(1,) * (right.ndim - 2), rows.shape[1])
