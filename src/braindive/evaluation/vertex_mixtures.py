"""Mixtures of normal groups of vertices, each of which is known by its evidence on a grid."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.vertex_evidence import Population

# Variances of groups are alike up to about this factor (its logarithm); a choice.
_ALIKE = np.log(2.0)
# Groups of fewer vertices than this share of them are not told apart from chance.
_LEAST_SHARE = 0.03
# Neighbouring groups are told apart when their centres are further than this many standard
# deviations from each other. Two normal distributions closer than 2 have one peak, but of five
# groups 2.6 apart the estimates of their distances err by some tenths: with 2, two of five cohorts
# were counted right, and with 1.7 four (seeds 300 to 304 of `benchmarks/clusters.py`).
_ONE_PEAK = 1.7
# Most of the vertices that may be outliers, which belong to no group.
_MOST_OUTLIERS = 0.1
# Steps of the EM from each start, and of the best of them.
_STEPS = (40, 300)


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
    even : bool
        Whether all groups have the same share of the vertices.
    """

    means: Array
    covariances: Array
    shares: Array
    outliers: float
    log_likelihood: float
    common: bool
    even: bool = False

    @property
    def n_parameters(self) -> int:
        """Numbers that were estimated: means, shares, covariances and outliers."""
        n_groups, n_dimensions = self.means.shape
        of_covariance = n_dimensions * (n_dimensions + 1) // 2
        n_covariances = 1 if self.common else n_groups
        # Shares add up to one, and there is the share of the outliers.
        n_shares = 1 if self.even else n_groups
        return int(n_groups * n_dimensions + n_shares + of_covariance * n_covariances)

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
        # As wide as the grid is coarse, at least: else the EM creeps towards points.
        spread = spread + np.diag((places.steps / 2) ** 2)
        shares = self.shares if self.even else sizes / sizes.sum()
        return replace(
            self,
            means=means,
            covariances=spread,
            shares=shares,
            outliers=outliers,
            log_likelihood=value,
        )

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
        return np.asarray(expected / np.sqrt(self.covariances[group, 0, 0]))

    def n_distinct(self) -> int:
        """Groups that can be told apart: those far enough from others and with enough vertices.

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


def fit_mixture(places: Places, number: int, common: bool, even: bool = False) -> Mixture:
    """Best mixture with a number of groups, from several starts.

    Parameters
    ----------
    places : Places
        Of vertices.
    number : int
        Number of groups.
    common : bool
        Whether all groups have the same covariance.
    even : bool
        Whether all groups have the same share of the vertices.
    """
    random = np.random.default_rng(number)
    shares, points = places.shares, places.points
    centre = shares @ points
    wide = (points - centre).T @ (shares[:, None] * (points - centre))
    order = np.argsort(points[:, 0], kind="stable")
    so_far = np.cumsum(shares[order]) / shares.sum()

    quantiles = np.interp((np.arange(number) + 0.5) / number, so_far, points[order, 0])
    low, high = np.interp([0.03, 0.97], so_far, points[order, 0])
    starts = []
    for first in (quantiles, np.linspace(float(low), float(high), number)):
        start = np.tile(centre, (number, 1))
        start[:, 0] = first
        starts.append(start)
    # Others begin at the likeliest points of vertices that are drawn.
    for _ in range(2 if number > 1 else 0):
        drawn = random.choice(places.evidence.shape[1], number)
        starts.append(points[places.evidence[:, drawn].argmax(axis=0)])
    narrow = np.tile(wide / (4 * number**2) + np.diag(places.steps**2), (number, 1, 1))
    equal = np.full(number, 1 / number)
    begun = [Mixture(start, narrow, equal, 0.02, -np.inf, common, even) for start in starts]
    found = [_climb(mixture, places, wide, _STEPS[0], 1e-5) for mixture in begun]
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
