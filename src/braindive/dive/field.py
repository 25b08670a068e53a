"""The Markov random field: neighbours tend to belong to the same cluster.

The clique potential of two neighbours is exp(lambda) when their clusters are equal and
exp(-lambda^2) when they are not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from braindive.arrays import Array
from braindive.values.threads import in_threads

# Most updates of z in a pass, and the share of the old z that is kept: without damping, updates
# went round in circles on a simulated cortex.
_SWEEPS = 10
_KEEP = 0.5
# A field that grows: its first strength, the factor of the next, and updates of z at each. Choices.
_FIRST_LEVEL = 0.3
_GROWING = 1.6
_SWEEPS_ON_THE_WAY = 3
# Least logarithm of a share of a cluster: of about the smallest number there is.
_LEAST_LOG = -700.0
WEAKEST, STRONGEST = 0.01, 20.0
"""Range of the estimated strength: nothing below changes a label, beyond it is a hard rule."""
# Labels settle at last with a neighbour that outweighs at most this share of what a typical vertex
# knows of itself, but with this strength at least. Found by trying, on 40 simulated cortices and on
# two of vertices that differ; `benchmarks/labels.py` has others.
_SHARE, _STRONG_ENOUGH = 0.25, 1.5


def neighbour_field(responsibilities: Array, graph: csr_array, strength: float) -> Array:
    """Sum over neighbours l' of log(exp(-lambda^2) + z_l'k (exp(lambda) - exp(-lambda^2))).

    Parameters
    ----------
    responsibilities : (n_vertices, n_clusters)
        z of the previous iteration.
    graph : sparse (n_vertices, n_vertices)
        Adjacency.
    strength : float
        lambda.

    Returns
    -------
    (n_vertices, n_clusters)
    """
    # log(exp(-q) + z (exp(p) - exp(-q))) = p + log(z + (1 - z) exp(-(p + q))), and at least -q
    drop = strength + strength**2
    rest = np.exp(-drop)
    with np.errstate(divide="ignore", under="ignore"):
        message = responsibilities * (1 - rest)
        message += rest
        np.log(message, out=message)
    np.maximum(message, -drop, out=message)
    message += strength
    return over_neighbours(graph, message)


def over_neighbours(graph: csr_array, x: Array) -> Array:
    """Sum over the neighbours of each vertex, (n_vertices, n_columns), columns contiguous."""
    out = np.empty(x.shape, order="F")
    for column in range(x.shape[1]):
        out[:, column] = graph @ x[:, column]
    return out


def expectation(log_densities: Array, field: Array | None = None) -> Array:
    """E-step: z_lk proportional to exp(D_lk + field_lk), normalised over clusters."""
    # Clusters are few and vertices many: reductions run along contiguous columns.
    if field is None:
        z = np.array(log_densities.T, order="C")
    else:
        z = np.add(log_densities.T, field.T, order="C")
    z -= z.max(axis=0)
    # Numbers that are too small for double precision take seven times as long.
    np.maximum(z, _LEAST_LOG, out=z)
    np.exp(z, out=z)
    z /= z.sum(axis=0)
    return z.T


def strength_objective(
    strength: float, log_densities: Array, responsibilities: Array, graph: csr_array
) -> float:
    """Expected log-likelihood as a function of lambda, with zeta the E-step at that lambda.

    sum_lk zeta_lk [D_lk + lambda sum_l' zeta_l'k - lambda^2 sum_l' (1 - zeta_l'k)]
    """
    zeta = expectation(log_densities, neighbour_field(responsibilities, graph, strength))
    same = float(np.vdot(zeta.T, over_neighbours(graph, zeta).T))
    different = float(graph.nnz) - same
    data = float(np.vdot(zeta.T, log_densities.T))
    return data + strength * same - strength**2 * different


def _objectives(
    strengths: Sequence[float], log_densities: Array, responsibilities: Array, graph: csr_array
) -> list[float]:
    """`strength_objective` of several strengths, in threads."""

    def value(part: slice) -> float:
        return strength_objective(strengths[part.start], log_densities, responsibilities, graph)

    return in_threads(value, len(strengths), 1)


def bearable_strength(log_densities: Array) -> float:
    """Strength at which a neighbour does not outweigh what a typical vertex knows of itself.

    What it knows is the median gap between its two best clusters: lambda + lambda^2 <= gap.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.dive.field import bearable_strength
    >>> bearable_strength(np.array([[0.0, -6.0], [-1.0, -7.0]]))
    2.0
    """
    if log_densities.shape[1] == 1:
        return WEAKEST
    top = np.partition(log_densities, -2, axis=1)[:, -2:]
    gap = float(np.median(np.abs(top[:, 1] - top[:, 0])))
    return float(np.sqrt(1 + 4 * gap) - 1) / 2


def settling_strength(strength: float, log_densities: Array) -> float:
    """Strength at which labels settle at last: as estimated, as far as vertices can contradict it.

    The published objective has potentials that are not normalised, so that the strength grows with
    the share of equal neighbours (10 to 20 in most cortices), as if patches had hardly a border.
    Inside of patches labels are then no better, and at borders they follow the neighbours whatever
    a vertex says of itself.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.dive.field import settling_strength
    >>> density = np.array([[0.0, -80.0], [-80.0, 0.0]])
    >>> settling_strength(20.0, density), settling_strength(20.0, density / 80)
    (4.0, 1.5)
    """
    return min(strength, max(bearable_strength(_SHARE * log_densities), _STRONG_ENOUGH))


def start_strength(log_densities: Array, responsibilities: Array, graph: csr_array) -> float:
    """Strength of the first iteration: the best of a few, held back where the data speak softly."""
    if log_densities.shape[1] == 1:
        return WEAKEST
    strengths = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 16.0)
    values = _objectives(strengths, log_densities, np.asfortranarray(responsibilities), graph)
    return min(strengths[int(np.argmax(values))], bearable_strength(log_densities))


def estimate_strength(
    log_densities: Array,
    responsibilities: Array,
    graph: csr_array,
    start: float,
    growth: float = 1.5,
) -> float:
    """Climb `strength_objective` from the previous strength, by a factor `growth` at most upwards.

    Growing slowly matters while labels change: a field that is strong from the start freezes the
    labels it finds, and one that grows corrects them first.

    Parameters
    ----------
    log_densities : (n_vertices, n_clusters)
        D_lk.
    responsibilities : (n_vertices, n_clusters)
        z of the previous iteration.
    graph : sparse (n_vertices, n_vertices)
        Adjacency, entries 1.
    start : float
        Strength of the previous iteration.
    growth : float
        Largest factor by which the strength may grow.

    Returns
    -------
    float
    """

    def value(strength: float) -> float:
        return strength_objective(strength, log_densities, responsibilities, graph)

    here = min(max(start, WEAKEST), STRONGEST)
    above = min(here * growth, STRONGEST)
    first = list(dict.fromkeys((here / growth, here, above)))
    values = _objectives(first, log_densities, responsibilities, graph)
    points = dict(zip(first, values, strict=True))
    while max(points, key=points.__getitem__) == min(points) > WEAKEST:
        lower = min(points) / growth
        points[lower] = value(lower)
    best = max(points, key=points.__getitem__)
    if min(points) < best < max(points):
        vertex = _parabola_vertex(best, points)
        if value(vertex) > points[best]:
            return vertex
    return best


def _parabola_vertex(best: float, points: dict[float, float]) -> float:
    """Highest point of the parabola through the best point and its neighbours.

    The objective is a parabola in lambda where z does not depend on it.
    """
    place = sorted(points)
    index = place.index(best)
    x = np.array(place[index - 1 : index + 2])
    y = np.array([points[p] for p in place[index - 1 : index + 2]])
    left, right = x[1] - x[0], x[1] - x[2]
    up, down = left * (y[1] - y[2]), right * (y[1] - y[0])
    return float(x[1] - 0.5 * (left * up - right * down) / (up - down))


def settle(
    density: Array,
    before: Array,
    graph: csr_array,
    strength: float,
    tol: float = 1e-4,
    sweeps: int = _SWEEPS,
) -> tuple[Array, Array]:
    """Update z a few times at the same D and lambda, and return it with its neighbours' field.

    Neighbours that are updated at the same time can swap labels for ever, so from the second
    update on half of the old z is kept.
    """
    after = before
    for sweep in range(sweeps):
        field = neighbour_field(after, graph, strength)
        update = expectation(density, field)
        if sweep:
            update *= 1 - _KEEP
            update += _KEEP * after
        change = float(np.abs(update - after).sum()) / (2 * len(after))
        after = update
        if change < tol:
            break
    return after, field


def grown_field(density: Array, graph: csr_array, strength: float) -> Array:
    """Z at given D from the data alone, with a field that grows to nearly the given strength."""
    z = expectation(density)
    level = min(_FIRST_LEVEL, strength)
    while level < strength:
        z, _ = settle(density, z, graph, level, sweeps=_SWEEPS_ON_THE_WAY)
        level *= _GROWING
    return z


def settle_anew(density: Array, before: Array, graph: csr_array, strength: float) -> Array:
    """Z at another D: settled from what it was, or from the data alone, whichever is likelier.

    From the data alone, the field grows: at full strength at once, islands of wrong labels hold
    themselves (agreement .913 in place of .981 on a noisy cortex). Both are judged with a field
    that is no stronger than a vertex can bear: a stronger one makes short borders likelier than
    true ones, and labels that wrong curves had left were kept whatever right ones said (.813 in
    place of .969 where people differ much).
    """
    anew = grown_field(density, graph, strength)
    found = [settle(density, z, graph, strength)[0] for z in (anew, before)]
    judging = min(strength, bearable_strength(density))
    return max(found, key=lambda z: _log_posterior(density, z, graph, judging))


def _log_posterior(density: Array, z: Array, graph: csr_array, strength: float) -> float:
    """Log-posterior of the most probable labels, up to a constant that only lambda changes."""
    labels = z.argmax(axis=1)
    rows = np.repeat(np.arange(len(labels)), np.diff(graph.indptr))
    same = float(np.sum(labels[rows] == labels[graph.indices]))
    pairs = (strength * same - strength**2 * (graph.nnz - same)) / 2
    return float(density[np.arange(len(labels)), labels].sum()) + pairs


def log_evidence(log_densities: Array, field: Array | None = None, shares: bool = False) -> Array:
    """Log sum_k p_lk exp(D_lk) of each vertex.

    p is uniform, or the field's share with the MRF; with `shares` it is in the densities already.
    """
    if field is not None:
        return _log_sum(log_densities + field) - _log_sum(field)
    uniform = 0.0 if shares else float(np.log(log_densities.shape[1]))
    return _log_sum(log_densities) - uniform


def evidence_of(log_densities: Array, responsibilities: Array) -> Array:
    """Log sum_k exp(D_lk) / K of each vertex without a field, where z is known already.

    The largest z is exp(max_k D_lk) / sum_k exp(D_lk).
    """
    density, z = log_densities.T, responsibilities.T
    return np.asarray(density.max(axis=0) - np.log(len(z) * z.max(axis=0)))


def _log_sum(x: Array) -> Array:
    columns = np.ascontiguousarray(x.T)
    top = columns.max(axis=0)
    return np.asarray(top + np.log(np.exp(columns - top).sum(axis=0)))
