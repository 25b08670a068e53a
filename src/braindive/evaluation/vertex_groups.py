"""How many groups do the vertices' own curves form?

Every vertex has a curve of its own, known with an error. Where areas differ, these curves gather
around a few; where they do not, one normal distribution describes them. Mixtures of normal
distributions of midpoints, or of midpoints and changes, are compared by their likelihood with each
vertex's curve integrated out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from braindive.arrays import Array, IntArray
from braindive.cohort.cohort import Cohort
from braindive.dive.design_effect import without_personal_noise
from braindive.dive.e_step import with_covariance
from braindive.dive.vertex_curves import Bins
from braindive.estimator import DIVE
from braindive.evaluation.vertex_evidence import (
    Binned,
    PoolVertices,
    Population,
    evidence_of_rings,
    log_evidence,
    neighbourhoods,
    rings_of,
)
from braindive.values.walking import one_thread_per_product

BELIEVED = 2.0
"""Least gain of a number of groups that is positive evidence for it (Kass and Raftery, 1995)."""

# What every parameter must gain, in twice the log-likelihood: Akaike's criterion with 3 instead of
# 2, which is known to choose numbers of mixture components well (Bozdogan, 1994). The usual
# Bayesian criterion asks for about 7 here and misses groups that overlap.
_PRICE = 3.0
# Variances of groups are alike up to about this factor (its logarithm); a choice.
_ALIKE = np.log(2.0)
# Vertices that are looked at, evenly spread; where each is looked at with its neighbours, fewer.
_MOST_VERTICES = 1000
_MOST_RINGS = 600
# Groups of fewer vertices than this share of them are not told apart from chance.
_LEAST_SHARE = 0.03
# Neighbouring groups are told apart when their centres are further than this many standard
# deviations from each other: two normal distributions closer than that have one peak.
_ONE_PEAK = 2.0
# Most of the vertices that may be outliers, which belong to no group.
_MOST_OUTLIERS = 0.1
# Steps of the EM from each start, and of the best of them.
_STEPS = (40, 300)
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
        Twice the gain in the logarithm of the likelihood over the best smaller number, less what
        its parameters cost; 0 for one group.
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
    with one_thread_per_product():
        return compare_mixtures(place_vertices(model, cohort, graph), most, graph)


def compare_mixtures(places: Places, most: int, graph: csr_array | None) -> dict[int, Groups]:
    """Judge mixtures with 1, 2, ... groups.

    Parameters
    ----------
    places : Places
        Of vertices.
    most : int
        Largest number of groups.
    graph : sparse or None
        Neighbours.
    """
    # Where groups do not differ in their changes, these vary as those of all vertices do.
    all_alike = fit_mixture(places, 1, common=True)
    when = places.along_first(all_alike.means[0, 1], all_alike.covariances[0, 1, 1])
    one = fit_mixture(when, 1, common=True)
    effective = 1.0
    if graph is not None:
        # Neighbours that are alike count once, however many they are, be it in their noise or in
        # where they lie. What groups would explain is no likeness of the latter kind, so that it
        # is judged around as many groups as there may be.
        deviations = fit_mixture(when, most, common=True).deviations(when)
        effective = min(
            effective_number(each, places.vertices, graph)
            for each in (deviations, places.residuals)
        ) / len(places.vertices)
    best, found = 0.0, {1: Groups(0.0, 1)}
    for number in range(2, most + 1):
        kinds = [
            fit_mixture(when, number, common=True),
            fit_mixture(when, number, common=False),
            fit_mixture(places, number, common=True),
        ]
        judged = []
        for mixture in kinds:
            gain = 2 * effective * (mixture.log_likelihood - one.log_likelihood)
            price = _PRICE * (mixture.n_parameters - one.n_parameters)
            judged.append(gain - price - mixture.unlikeness)
        value = max(judged)
        mixture = kinds[judged.index(value)]
        found[number] = Groups(float(value - best), mixture.n_distinct())
        if value - best > BELIEVED:
            best = value
    return found


def place_vertices(model: DIVE, cohort: Cohort, graph: csr_array | None) -> Places:
    """What vertices say about when they change and by how much.

    Where there are neighbours, each vertex is looked at together with them: areas are wider than
    that.

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
    Places
        Their evidence.
    """
    internal, products = model.internal_, model.products(cohort)
    z, timeline = model.responsibilities_ * internal.known[:, None], internal.training.timeline
    chosen = np.flatnonzero(internal.known)
    most = _MOST_VERTICES if graph is None else _MOST_RINGS
    chosen = chosen[np.unique(np.linspace(0, len(chosen) - 1, most).astype(int))]
    wanted = np.zeros(len(z), dtype=bool)
    wanted[chosen] = True
    near = None
    if graph is not None:
        near = neighbourhoods(graph)
        wanted[csr_array(near[chosen]).indices] = True
        wanted &= internal.known
    found = with_covariance(products, timeline, internal.parameters, z)
    found = without_personal_noise(products, timeline, found, z)
    scores = timeline.scores(found.speeds, found.shifts)
    bins = Bins.of(scores)
    (means, sizes), _ = products.run(PoolVertices(bins), wanted)
    centre, spread = scores.mean(), scores.std() or 1.0
    noise = found.noise[z[wanted].argmax(axis=1)]
    binned = Binned((bins.scores - centre) / spread, means, sizes / noise**2)
    low, high = (np.quantile(scores, [0.01, 0.99]) - centre) / spread
    population = Population.learn(binned, low, high)
    if near is None:
        evidence = log_evidence(population, binned.known_less(population.coarseness(binned)))
    else:
        rings = rings_of(near, chosen, np.flatnonzero(wanted))
        evidence = evidence_of_rings(population, binned, rings)
    residuals = population.residuals(binned)[:, np.isin(np.flatnonzero(wanted), chosen)]
    return Places.of(population, evidence, chosen, residuals)


@dataclass(frozen=True)
class Places:
    """Evidence of vertices for where they lie on a grid.

    Parameters
    ----------
    points : (n_points, n_dimensions)
        The grid.
    evidence : (n_points, n)
        Of each vertex for each point, at most 1.
    offset : float
        Sum over vertices of the logarithm of what the evidence was divided by.
    vertices : (n,) int
        Which vertices these are.
    residuals : (n_bins, n)
        Of their measurements around their curves.
    """

    points: Array
    evidence: Array
    offset: float
    vertices: IntArray
    residuals: Array

    @classmethod
    def of(
        cls, population: Population, log_evidence: Array, vertices: IntArray, residuals: Array
    ) -> Places:
        """From the logarithm of the evidence, (n_midpoints, n_changes, n)."""
        midpoints, changes = population.midpoints, population.changes
        top = log_evidence.max(axis=(0, 1))
        evidence = np.exp(log_evidence - top).reshape(-1, log_evidence.shape[-1])
        points = np.stack(np.meshgrid(midpoints, changes, indexing="ij"), axis=-1).reshape(-1, 2)
        offset = float(top.sum(dtype=float))
        return cls(points, evidence.astype(np.float32), offset, vertices, residuals)

    def along_first(self, mean: float, variance: float) -> Places:
        """In the first dimension alone, the other integrated out with a normal distribution."""
        points = np.unique(self.points[:, :1], axis=0)
        others = self.points[:, 1].reshape(len(points), -1)[0]
        usual = np.exp(-0.5 * (others - mean) ** 2 / variance)
        usual = (usual / usual.sum()).astype(self.evidence.dtype)
        by_both = self.evidence.reshape(len(points), len(others), -1)
        together = np.einsum("pol,o->pl", by_both, usual)
        top = together.max(axis=0)
        offset = self.offset + float(np.log(top).sum(dtype=float))
        evidence = (together / top).astype(float)
        return Places(points, evidence, offset, self.vertices, self.residuals)

    @property
    def shares(self) -> Array:
        """Rough distribution of the vertices over the points."""
        return np.asarray((self.evidence / self.evidence.sum(axis=0)).mean(axis=1), dtype=float)

    @property
    def steps(self) -> Array:
        """Distance of neighbouring points in each dimension."""
        return np.array([np.diff(np.unique(column))[0] for column in self.points.T])


@dataclass(frozen=True)
class Mixture:
    """Normal groups and a few outliers.

    Parameters
    ----------
    means : (n_groups, n_dimensions)
    covariances : (n_groups, n_dimensions, n_dimensions)
    shares : (n_groups,)
        Of the groups.
    outliers : float
        Share of vertices that are anywhere.
    log_likelihood : float
        Of all vertices.
    common : bool
        Whether all groups have the same covariance.
    """

    means: Array
    covariances: Array
    shares: Array
    outliers: float
    log_likelihood: float
    common: bool

    @property
    def n_parameters(self) -> int:
        """Numbers that were estimated: means, shares, covariances and outliers."""
        n_groups, n_dimensions = self.means.shape
        of_covariance = n_dimensions * (n_dimensions + 1) // 2
        return n_groups * (n_dimensions + 1) + of_covariance * (1 if self.common else n_groups)

    @property
    def unlikeness(self) -> float:
        """What groups cost that vary more, or less, than the others: areas vary about alike."""
        sizes = np.log(np.linalg.det(self.covariances))
        return float(np.sum((sizes - sizes.mean()) ** 2) / _ALIKE**2)

    def densities(self, points: Array) -> Array:
        """Probability of each point in each group, (n_points, n_groups)."""
        away = points[:, None] - self.means
        square = np.einsum("pki,kij,pkj->pk", away, np.linalg.inv(self.covariances), away)
        density = np.exp(-0.5 * (square - square.min(axis=0)))
        return np.asarray(density / density.sum(axis=0))

    def memberships(self, places: Places) -> tuple[Array, Array, Array]:
        """Density of vertices in each group and, last, as outliers, (n_groups + 1, n).

        Also the densities of the points and the evidence for each group.
        """
        density = self.densities(places.points)
        evidence = density.T.astype(places.evidence.dtype) @ places.evidence
        evidence = np.maximum(evidence, 1e-30).astype(float)
        weights = np.empty((len(self.means) + 1, evidence.shape[1]))
        weights[:-1] = (1 - self.outliers) * self.shares[:, None] * evidence
        weights[-1] = self.outliers * places.evidence.mean(axis=0)
        return weights, density, evidence

    def improved(self, places: Places, wide: Array) -> Mixture:
        """One step of the EM; its likelihood is that of the mixture before."""
        weights, density, evidence = self.memberships(places)
        total = weights.sum(axis=0)
        value = float(np.log(total).sum()) + places.offset
        weights /= total
        outliers = float(np.clip(weights[-1].mean(), 1e-4, _MOST_OUTLIERS))
        members = weights[:-1]
        sizes = members.sum(axis=1) + 1e-9
        posterior = places.evidence @ (members / evidence).T.astype(places.evidence.dtype)
        posterior = density * posterior
        posterior /= np.maximum(posterior.sum(axis=0), 1e-300)
        means = posterior.T @ places.points
        away = places.points[:, None] - means
        spread = np.einsum("pk,pki,pkj->kij", posterior, away, away)
        if self.common:
            spread = np.broadcast_to(np.average(spread, axis=0, weights=sizes), spread.shape)
        else:
            # One vertex more in each group, so that none shrinks to a point.
            spread = (sizes[:, None, None] * spread + 1e-3 * wide) / (sizes[:, None, None] + 1)
        spread = spread + np.diag((places.steps / 2) ** 2)
        return Mixture(means, spread, sizes / sizes.sum(), outliers, value, self.common)

    def deviations(self, places: Places) -> Array:
        """How far each vertex lies from the centre of its group, in the first dimension."""
        weights, density, _ = self.memberships(places)
        group = weights[:-1].argmax(axis=0)
        expected = np.empty(len(group))
        for k in range(len(self.means)):
            mine = group == k
            posterior = density[:, k, None] * places.evidence[:, mine]
            posterior /= np.maximum(posterior.sum(axis=0), 1e-300)
            expected[mine] = places.points[:, 0] @ posterior - self.means[k, 0]
        return expected / np.sqrt(self.covariances[group, 0, 0])

    def n_distinct(self) -> int:
        """Groups that can be told apart: those with a peak of their own and enough vertices.

        The two closest groups are joined until all are.
        """
        shares, means, covariances = list(self.shares), list(self.means), list(self.covariances)
        while len(shares) > 1:
            n_groups = len(shares)
            gaps = np.full((n_groups, n_groups), np.inf)
            for i in range(n_groups):
                for j in range(i):
                    away = means[i] - means[j]
                    between = np.linalg.solve((covariances[i] + covariances[j]) / 2, away)
                    gaps[i, j] = gaps[j, i] = np.sqrt(away @ between)
            smallest = int(np.argmin(shares))
            if shares[smallest] < _LEAST_SHARE:
                i, j = smallest, int(gaps[smallest].argmin())
            elif gaps.min() < _ONE_PEAK:
                i, j = (int(x) for x in np.unravel_index(gaps.argmin(), gaps.shape))
            else:
                break
            share = shares[i] + shares[j]
            mean = (shares[i] * means[i] + shares[j] * means[j]) / share
            joined = np.zeros_like(covariances[0])
            for k in (i, j):
                away = means[k] - mean
                joined += shares[k] / share * (covariances[k] + np.outer(away, away))
            shares[i], means[i], covariances[i] = share, mean, joined
            for each in (shares, means, covariances):
                del each[j]
        return len(shares)


def fit_mixture(places: Places, number: int, common: bool) -> Mixture:
    """Best mixture with a number of groups, from several starts.

    Parameters
    ----------
    places : Places
        Of vertices.
    number : int
        Number of groups.
    common : bool
        Whether all groups have the same covariance.
    """
    random = np.random.default_rng(number)
    shares, points = places.shares, places.points
    centre = shares @ points
    wide = (points - centre).T @ (shares[:, None] * (points - centre))
    order = np.argsort(points[:, 0], kind="stable")
    so_far = np.cumsum(shares[order]) / shares.sum()

    def at(levels: Array) -> Array:
        found = np.tile(centre, (number, 1))
        found[:, 0] = np.interp(levels, so_far, points[order, 0])
        return found

    even = at(np.array([0.03] * number))
    even[:, 0] = np.linspace(*np.interp([0.03, 0.97], so_far, points[order, 0]), number)
    starts = [at((np.arange(number) + 0.5) / number), even]
    # Others begin at the likeliest points of vertices that are drawn.
    for _ in range(2 if number > 1 else 0):
        drawn = random.choice(places.evidence.shape[1], number)
        starts.append(points[places.evidence[:, drawn].argmax(axis=0)])
    narrow = np.tile(wide / (4 * number**2) + np.diag(places.steps**2), (number, 1, 1))
    equal = np.full(number, 1 / number)
    found = [
        _climb(Mixture(start, narrow, equal, 0.02, -np.inf, common), places, wide, _STEPS[0], 1e-5)
        for start in starts
    ]
    best = max(found, key=lambda mixture: mixture.log_likelihood)
    return _climb(best, places, wide, _STEPS[1], 1e-6)


def _climb(mixture: Mixture, places: Places, wide: Array, max_iter: int, tol: float) -> Mixture:
    last, n_vertices = -np.inf, places.evidence.shape[1]
    for iteration in range(max_iter):
        after = mixture.improved(places, wide)
        # The likelihood is that of the parameters before the step.
        mixture, value = after, after.log_likelihood
        if iteration > 5 and value - last < tol * n_vertices:
            break
        last = value
    return replace(mixture, log_likelihood=value)


def effective_number(deviations: Array, chosen: IntArray, graph: csr_array) -> float:
    """Independent vertices that would tell as much as these, of which neighbours are alike.

    Parameters
    ----------
    deviations : (n,) or (n_bins, n)
        Of some vertices from the centres of their groups, or from their curves.
    chosen : (n,) int
        Which vertices of the graph these are.
    graph : sparse
        Neighbours.
    """
    n_all, deviations = graph.shape[0], np.atleast_2d(deviations)
    standard = deviations - deviations.mean(axis=1, keepdims=True)
    standard = np.clip(standard / np.maximum(standard.std(axis=1, keepdims=True), 1e-300), -4, 4)
    value = np.full((len(standard), n_all), np.nan)
    value[:, chosen] = standard
    sources = chosen[np.unique(np.linspace(0, len(chosen) - 1, _SOURCES).astype(int))]
    steps = dijkstra(graph, indices=sources, unweighted=True, limit=_FURTHEST)
    alike = 1.0
    for distance in range(1, _FURTHEST + 1):
        source, vertex = np.nonzero(steps == distance)
        products = np.mean(value[:, sources[source]] * value[:, vertex], axis=0)
        products = products[np.isfinite(products)]
        if len(products) < _FEW_PAIRS:
            continue
        if products.mean() < _NO_CORRELATION:
            break
        alike += len(source) / len(sources) * float(products.mean())
    return float(max(min(n_all / alike, len(chosen)), 2.0))
