"""What a vertex says together with those next to it about when they change, and by how much."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.special import logsumexp

from braindive.arrays import Array, IntArray
from braindive.dive.vertex_evidence import Binned, Population, log_evidence

# Rings from which it is learnt how much vertices next to each other differ.
_LEARN_FROM = 200
# How much vertices next to each other may differ, in spreads of the scores (midpoints) and of the
# vertices' changes; the likeliest is taken.
_DIFFERENCES = (0.05, 0.15, 0.3, 0.6)
# Least share of the noise that vertices next to each other do not share.
_LEAST_APART = 0.05
# Probability that a vertex's neighbour is of another group.
_FOREIGN = 0.1


def noise_in_common(residuals: Array, rings: csr_array) -> float:
    """Mean correlation of the noise of a ring's vertices.

    Parameters
    ----------
    residuals : (n_bins, n)
        Of vertices around curves of their own, in standard units.
    rings : sparse (n_rings, n)
        1 where a vertex belongs to a ring.
    """
    sizes = rings.sum(axis=1)
    single = np.mean(residuals**2)
    sums = np.asarray(rings @ residuals.T)
    pairs = np.sum(np.mean(sums**2, axis=1) - sizes * single)
    return float(np.clip(pairs / (single * np.sum(sizes * (sizes - 1)) + 1e-300), 0.0, 1.0))


def evidence_of_rings(population: Population, binned: Binned, rings: csr_array) -> Array:
    """Logarithm of the evidence for where a ring of vertices lies, (n_midpoints, n_changes, n).

    Vertices next to each other have some noise in common, differ somewhat, and some may be of
    another group: where a border passes, the evidence has two peaks instead of one between them.

    Parameters
    ----------
    population : Population
        Of all vertices.
    binned : Binned
        Vertices.
    rings : sparse (n_rings, n)
        1 where a vertex belongs to a ring.
    """
    size = float(rings.sum(axis=1).mean())
    common = noise_in_common(population.residuals(binned), rings)
    # What vertices of a ring differ by is judged by the noise that they do not share.
    apart = binned.known_less(max(1 - common, _LEAST_APART))
    some = np.unique(np.linspace(0, rings.shape[0] - 1, _LEARN_FROM).astype(int))
    few = csr_array(rings[some])
    members = np.unique(few.indices)
    few, apart = csr_array(few[:, members]), apart.of(members)
    # A ring is known as well as all its vertices together.
    apart = apart.known_less(population.coarseness(apart.known_less(1 / size)))
    density = _density(log_evidence(population, apart))
    best, best_value = _DIFFERENCES[0], -np.inf
    for difference in _DIFFERENCES:
        found = _of_rings(population, density, few, difference)
        value = float(np.sum(logsumexp(found, axis=0)))
        if value > best_value:
            best, best_value = difference, value
    together = binned.known_less(1 + (size - 1) * common)
    together = together.known_less(population.coarseness(together.known_less(1 / size)))
    found = _of_rings(population, _density(log_evidence(population, together)), rings, best)
    return found.reshape(len(population.midpoints), len(population.changes), -1)


def _density(log_evidence: Array) -> Array:
    return np.asarray(np.exp(log_evidence - log_evidence.max(axis=(0, 1))))


def _of_rings(population: Population, density: Array, rings: csr_array, difference: float) -> Array:
    """Logarithm of the evidence of rings, (n_midpoints * n_changes, n_rings)."""
    spread = difference * np.sqrt(population.covariance[0, 0])
    kernels = _blur(population.midpoints, difference), _blur(population.changes, spread)
    blurred = np.tensordot(kernels[0].astype(density.dtype), density, axes=(1, 0))
    blurred = kernels[1].astype(density.dtype) @ blurred
    member = (1 - _FOREIGN) * blurred + _FOREIGN * density.mean(axis=(0, 1))
    logarithm = np.log(np.maximum(member, 1e-30)).reshape(-1, density.shape[-1])
    return np.asarray(rings @ logarithm.T).T


def _blur(grid: Array, spread: float) -> Array:
    kernel = np.exp(-0.5 * ((grid[:, None] - grid) / spread) ** 2)
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))


def neighbourhoods(graph: csr_array) -> csr_array:
    """Vertices within two steps of each, itself included: nonzero in its row."""
    near = csr_array(graph != 0, dtype=float)
    near = near + csr_array(near @ near) + eye_array(graph.shape[0])
    return csr_array(near)


def rings_of(near: csr_array, chosen: IntArray, wanted: IntArray) -> csr_array:
    """Rings around chosen vertices, among the wanted ones.

    Parameters
    ----------
    near : sparse (n_vertices, n_vertices)
        Of `neighbourhoods`.
    chosen, wanted : int
        Centres of the rings, and the vertices that are counted.
    """
    rings = csr_array(csr_array(near[chosen])[:, wanted])
    rings.data[:] = 1.0
    return rings
