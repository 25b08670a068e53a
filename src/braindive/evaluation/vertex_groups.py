"""How many groups do the vertices' own curves form?

Every vertex has a curve of its own, known with an error. Where areas differ, these curves gather
around a few; where they do not, one normal distribution describes them. Mixtures of normal
distributions with the vertices' errors are compared by their integrated likelihood, along the
direction in which clusters differ most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from braindive.arrays import Array, IntArray
from braindive.cohort.cohort import Cohort
from braindive.dive.design_effect import without_personal_noise
from braindive.dive.e_step import with_covariance
from braindive.dive.vertex_curves import Bins, EstimateVertices, inverse_covariances
from braindive.estimator import DIVE
from braindive.values.walking import one_thread_per_product

BELIEVED = 6.0
"""Least gain of a number of groups that is strong evidence for it (Kass and Raftery, 1995)."""

# Vertices that are looked at, evenly spread; more do not change what is found.
_MOST_VERTICES = 1500
# Vertices whose neighbours differ by more than this times what is usual lie on a border.
_BORDER = 1.2
# Variance of a median in units of that of a mean.
_OF_MEDIAN = np.pi / 2
# Groups of fewer vertices than this share of them are not told apart from chance.
_LEAST_SHARE = 0.03
# Neighbouring groups are told apart when their centres are further than this many standard
# deviations from each other: two normal distributions closer than that have one peak.
_ONE_PEAK = 2.0
# Most of the vertices that may be outliers, which belong to no group.
_MOST_OUTLIERS = 0.1
# Vertices from which the correlation over the surface is learnt, how far it is followed, and where
# it is as good as none.
_SOURCES = 200
_FURTHEST = 14
_NO_CORRELATION = 0.03
_FEW_PAIRS = 50


class Groups(NamedTuple):
    """How well a number of groups describes the vertices' curves.

    Parameters
    ----------
    gain : float
        Twice the logarithm of the odds for this number against the best smaller one, as the
        Bayesian information criterion has it; 0 for one group.
    distinct : int
        Groups of the mixture that can be told apart.
    """

    gain: float
    distinct: int


def count_groups(model: DIVE, cohort: Cohort, most: int) -> dict[int, Groups]:
    """Judge numbers of groups among the vertices' curves around a fit.

    Parameters
    ----------
    model : DIVE
        Fitted to the cohort, with as many clusters as could be.
    cohort : Cohort
        The same cohort.
    most : int
        Largest number of groups to judge.

    Returns
    -------
    dict
        `Groups` of 1, 2, ... groups.
    """
    cohort = model.prepare(cohort)
    graph = None
    if cohort.graph is not None and cohort.graph.nnz:
        graph = csr_array(cohort.graph)
    chosen, places, variances = place_vertices(model, cohort, graph)
    best = fit_mixture(places, variances, 1, common=True)
    found = {1: Groups(0.0, 1)}
    for number in range(2, most + 1):
        judged = []
        for common in (True, False):
            mixture = fit_mixture(places, variances, number, common)
            effective = float(len(places))
            if graph is not None:
                deviations = mixture.deviations(places, variances)
                effective = effective_number(deviations, chosen, graph)
            # Neighbours that are alike count once, however many they are.
            gain = mixture.log_likelihood - best.log_likelihood
            price = (mixture.n_parameters - best.n_parameters) * np.log(effective)
            judged.append((float(2 * gain * effective / len(places) - price), mixture))
        gain, mixture = max(judged, key=lambda each: each[0])
        found[number] = Groups(gain, mixture.n_distinct(places, variances))
        if gain > BELIEVED:
            best = mixture
    return found


def place_vertices(
    model: DIVE, cohort: Cohort, graph: csr_array | None
) -> tuple[IntArray, Array, Array]:
    """Where vertices lie along the direction in which clusters differ most.

    Where there are neighbours, each place is the median of a vertex and its neighbours: areas are
    wider than that, and medians keep their borders.

    Parameters
    ----------
    model : DIVE
        Fitted to the cohort.
    cohort : Cohort
        The same cohort, prepared.
    graph : sparse (n_vertices, n_vertices) or None
        Neighbours.

    Returns
    -------
    chosen : (n,) int
        Which vertices.
    places, variances : (n,)
        Estimates, by the vertices' own measurements alone, and their error variances.
    """
    internal, products = model.internal_, model.products(cohort)
    z, timeline = model.responsibilities_ * internal.known[:, None], internal.training.timeline
    chosen = np.flatnonzero(internal.known)
    chosen = chosen[np.unique(np.linspace(0, len(chosen) - 1, _MOST_VERTICES).astype(int))]
    wanted = internal.known.copy()
    near = None
    if graph is not None:
        near = csr_array(graph[chosen])
        wanted &= near.sum(axis=0) > 0
    else:
        wanted[:] = False
    wanted[chosen] = True
    labels = np.where(wanted, z.argmax(axis=1), -1)
    with one_thread_per_product():
        found = with_covariance(products, timeline, internal.parameters, z)
        found = without_personal_noise(products, timeline, found, z)
        covariance = found.vertex_covariance
        assert covariance is not None
        bins = Bins.of(timeline.scores(found.speeds, found.shifts))
        # A prior as wide as the clusters differ, so that a vertex is free to lie anywhere.
        centres = found.trajectories.to_array()
        between = np.cov(centres.T) if len(centres) > 1 else 0.0
        precisions = inverse_covariances(covariance + between, found.trajectories, bins.scores)
        step = EstimateVertices(
            bins, found.trajectories, found.noise, precisions, internal.training.bounds
        )
        (parameters, information, gradient), _ = products.run(step, labels)
    n_parameters = len(parameters)
    flat = information.reshape(n_parameters, n_parameters, -1).transpose(2, 0, 1)
    places = np.full(len(z), np.nan)
    variances = np.full(len(z), np.nan)
    places[wanted], variances[wanted] = _along_discriminant(
        parameters.T, flat, gradient.T, labels[wanted]
    )
    if near is not None:
        around = zip(near.indptr[:-1], near.indptr[1:], strict=True)
        found_around = np.empty((3, len(chosen)))
        for i, (vertex, (start, end)) in enumerate(zip(chosen, around, strict=True)):
            ring = np.append(near.indices[start:end], vertex)
            median = np.nanmedian(places[ring])
            error = np.nanmean(variances[ring]) * _OF_MEDIAN / len(ring)
            found_around[:, i] = median, error, np.nanmedian(np.abs(places[ring] - median))
        # Where a border passes, vertices near each other differ more than elsewhere.
        inside = found_around[2] < _BORDER * np.median(found_around[2])
        return chosen[inside], found_around[0, inside], found_around[1, inside]
    places, variances = places[chosen], variances[chosen]
    # Vertices of which nothing is known say nothing about groups.
    known_well = variances < 4 * np.var(places)
    return chosen[known_well], places[known_well], variances[known_well]


def _along_discriminant(
    parameters: Array, information: Array, gradient: Array, labels: IntArray
) -> tuple[Array, Array]:
    """Estimates along the direction that tells the clusters best apart, and their variances.

    Of all other directions a vertex is as all vertices are.
    """
    low, high = np.percentile(parameters, [2, 98], axis=0)
    inside = np.clip(parameters, low, high)
    centre = inside.mean(axis=0)
    wide = np.cov(inside.T) + 1e-12 * np.eye(len(centre))
    precision = np.linalg.inv(wide)
    unknown = np.linalg.inv(information + precision)
    moved = gradient - (parameters - centre) @ precision
    estimates = parameters + np.einsum("lpq,lq->lp", unknown, moved)
    within = np.zeros_like(wide)
    between = np.zeros_like(wide)
    for k in np.unique(labels):
        mine = estimates[labels == k]
        away, gap = mine - mine.mean(axis=0), mine.mean(axis=0) - estimates.mean(axis=0)
        within += away.T @ away
        between += len(mine) * np.outer(gap, gap)
    scale = np.sqrt(np.diag(within + between))
    scale = np.maximum(scale, 1e-12 * scale.max() + 1e-300)
    _, directions = eigh(
        between / np.outer(scale, scale),
        within / np.outer(scale, scale) + 1e-9 * np.eye(len(scale)),
    )
    direction = directions[:, -1] / scale
    places = estimates @ direction
    variances = np.einsum("p,lpq,q->l", direction, unknown, direction)
    prior_mean, prior_variance = centre @ direction, direction @ wide @ direction
    own = np.maximum(1 / variances - 1 / prior_variance, 1e-3 / prior_variance)
    return (places / variances - prior_mean / prior_variance) / own, 1 / own


@dataclass(frozen=True)
class Mixture:
    """Normal groups and a few outliers.

    Parameters
    ----------
    means, variances, shares : (n_groups,)
        Of the groups, without the error of the places.
    outliers : float
        Share of places that are anywhere.
    log_likelihood : float
        Of all places.
    common : bool
        Whether all groups have the same variance.
    """

    means: Array
    variances: Array
    shares: Array
    outliers: float
    log_likelihood: float
    common: bool

    @property
    def n_parameters(self) -> int:
        """Numbers that were estimated: means, shares, variances and outliers."""
        n_groups = len(self.means)
        return 2 * n_groups + (1 if self.common else n_groups)

    def log_densities(self, places: Array, variances: Array) -> Array:
        """Log-density of each place in each group and, last, as an outlier, (n_groups + 1, n)."""
        total = self.variances[:, None] + variances
        density = np.empty((len(self.means) + 1, len(places)))
        density[:-1] = -0.5 * (
            np.log(2 * np.pi * total) + (places - self.means[:, None]) ** 2 / total
        )
        density[:-1] += np.log(self.shares * (1 - self.outliers))[:, None]
        density[-1] = np.log(self.outliers) - np.log(1.1 * np.ptp(places) + 1e-300)
        return density

    def improved(self, places: Array, variances: Array) -> Mixture:
        """One step of the EM; its likelihood is that of the mixture before."""
        density = self.log_densities(places, variances)
        top = density.max(axis=0)
        weights = np.exp(density - top)
        total = weights.sum(axis=0)
        value = float(np.sum(top + np.log(total)))
        weights /= total
        outliers = float(np.clip(weights[-1].mean(), 1e-4, _MOST_OUTLIERS))
        members = weights[:-1]
        sizes = members.sum(axis=1) + 1e-9
        gain = self.variances[:, None] / (self.variances[:, None] + variances)
        expected = self.means[:, None] + gain * (places - self.means[:, None])
        means = (members * expected).sum(axis=1) / sizes
        squares = (members * ((expected - means[:, None]) ** 2 + gain * variances)).sum(axis=1)
        wide = np.var(places)
        if self.common:
            spread = np.full(len(means), squares.sum() / sizes.sum())
        else:
            # One vertex more in each group, so that none shrinks to a point.
            spread = (squares + 1e-3 * wide) / (sizes + 1)
        spread = np.maximum(spread, 1e-6 * wide)
        return Mixture(means, spread, sizes / sizes.sum(), outliers, value, self.common)

    def deviations(self, places: Array, variances: Array) -> Array:
        """How far each place lies from the centre of its group, in standard deviations."""
        group = self.log_densities(places, variances)[:-1].argmax(axis=0)
        away = places - self.means[group]
        return np.asarray(away / np.sqrt(self.variances[group] + variances))

    def n_distinct(self, places: Array, variances: Array) -> int:
        """Groups that can be told apart: those with a peak of their own and enough vertices.

        The two closest groups are joined until all are.
        """
        group = self.log_densities(places, variances)[:-1].argmax(axis=0)
        usual = np.median(variances)
        order = np.argsort(self.means)
        groups = []
        for k in order:
            mine = variances[group == k]
            error = float(np.median(mine)) if len(mine) else usual
            groups.append([self.shares[k], self.means[k], self.variances[k] + error])
        while len(groups) > 1:
            gaps = [
                (right[1] - left[1]) / np.sqrt((left[2] + right[2]) / 2)
                for left, right in pairwise(groups)
            ]
            smallest = int(np.argmin([share for share, _, _ in groups]))
            joined = int(np.argmin(gaps))
            if groups[smallest][0] < _LEAST_SHARE:
                beside = [i for i in (smallest - 1, smallest) if 0 <= i < len(gaps)]
                joined = min(beside, key=gaps.__getitem__)
            elif gaps[joined] >= _ONE_PEAK:
                break
            pair = np.array(groups[joined : joined + 2])
            share = pair[:, 0].sum()
            mean = pair[:, 0] @ pair[:, 1] / share
            variance = pair[:, 0] @ (pair[:, 2] + (pair[:, 1] - mean) ** 2) / share
            groups[joined : joined + 2] = [[share, mean, variance]]
        return len(groups)


def fit_mixture(places: Array, variances: Array, number: int, common: bool) -> Mixture:
    """Best mixture with a number of groups, from several starts.

    Parameters
    ----------
    places, variances : (n,)
        Estimates and their error variances.
    number : int
        Number of groups.
    common : bool
        Whether all groups have the same variance.
    """
    random = np.random.default_rng(number)
    low, high = np.quantile(places, [0.03, 0.97])
    starts = [
        np.quantile(places, (np.arange(number) + 0.5) / number),
        np.linspace(low, high, number),
        *(np.sort(random.choice(places, number)) for _ in range(3)),
    ]
    narrow = np.full(number, np.var(places) / (4 * number**2))
    equal = np.full(number, 1 / number)
    found = [
        _climb(Mixture(start, narrow, equal, 0.02, -np.inf, common), places, variances, 40, 1e-5)
        for start in starts
    ]
    best = max(found, key=lambda mixture: mixture.log_likelihood)
    return _climb(best, places, variances, 300, 1e-6)


def _climb(mixture: Mixture, places: Array, variances: Array, max_iter: int, tol: float) -> Mixture:
    last = -np.inf
    for iteration in range(max_iter):
        after = mixture.improved(places, variances)
        # The likelihood is that of the parameters before the step.
        mixture, value = after, after.log_likelihood
        if iteration > 5 and value - last < tol * len(places):
            break
        last = value
    return replace(mixture, log_likelihood=value)


def effective_number(deviations: Array, chosen: IntArray, graph: csr_array) -> float:
    """Independent vertices that would tell as much as these, of which neighbours are alike.

    Parameters
    ----------
    deviations : (n,)
        Of some vertices from the centres of their groups.
    chosen : (n,) int
        Which vertices of the graph these are.
    graph : sparse
        Neighbours.
    """
    n_all = graph.shape[0]
    standard = np.clip((deviations - deviations.mean()) / (deviations.std() or 1.0), -4, 4)
    value = np.full(n_all, np.nan)
    value[chosen] = standard
    sources = chosen[np.unique(np.linspace(0, len(chosen) - 1, _SOURCES).astype(int))]
    steps = dijkstra(graph, indices=sources, unweighted=True, limit=_FURTHEST)
    alike = 1.0
    for distance in range(1, _FURTHEST + 1):
        source, vertex = np.nonzero(steps == distance)
        products = value[sources[source]] * value[vertex]
        products = products[np.isfinite(products)]
        if len(products) < _FEW_PAIRS:
            continue
        if products.mean() < _NO_CORRELATION:
            break
        alike += len(source) / len(sources) * float(products.mean())
    return float(max(min(n_all / alike, len(chosen)), 2.0))
