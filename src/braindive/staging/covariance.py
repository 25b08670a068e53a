"""How the pooled residuals vary together, learnt from the residuals themselves.

The noise of neighbouring vertices is correlated, and people differ persistently from the curve of
their stage, so a mean over w vertices is known much less well than sigma / sqrt(w). The residual
of visit j of subject i is modelled as u_i + e_ij with u_i ~ N(0, B) and e_ij ~ N(0, E), both
K x K; `marginal` learns them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.stats import chi2

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.curves import Curves
from braindive.dive.pooled import PooledMeans
from braindive.dive.timeline import Timeline
from braindive.staging.population import StagePrior
from braindive.staging.site_means import SiteMeans

# A cluster that a visit does not show counts as seen with this share of one vertex: small enough
# that its mean has no weight, large enough that matrices stay invertible.
_NOTHING = 1e-6


@dataclass(frozen=True)
class Covariance:
    """Covariance of the pooled residuals.

    Parameters
    ----------
    within : (n_clusters, n_clusters)
        E, of one visit around the person's own level.
    between : (n_clusters, n_clusters)
        B, of the people's own levels.
    weights : (n_clusters,)
        Vertices behind the means from which they were estimated.
    """

    within: Array
    between: Array
    weights: Array

    @classmethod
    def independent(cls, weights: Array, noise: Array) -> Covariance:
        """Return what the covariance would be were vertices independent and people alike."""
        floor = np.diag(noise**2 / np.maximum(weights, _NOTHING))
        return cls(floor, np.zeros_like(floor), weights)

    def precisions(self, weights: Array, noise: Array, multipliers: Array | None = None) -> Array:
        """E_ij^-1 of each visit, (n_visits or 1, K, K).

        E_ij = D_ij (E + X_ij) D_ij, where D_ij is diagonal, of the visit's multipliers.
        """
        found = np.linalg.inv(self.of_visits(weights, noise))
        if multipliers is None:
            return found
        return np.asarray(found / (multipliers[:, :, None] * multipliers[:, None, :]))

    def of_visits(self, weights: Array, noise: Array) -> Array:
        """E + X_ij of each visit, or of all where it is the same, (n_visits or 1, K, K).

        X_ij is the independent noise that fewer vertices add.
        """
        missing = 1 / np.maximum(weights, _NOTHING) - 1 / np.maximum(self.weights, _NOTHING)
        extra = np.maximum(missing, 0.0) * noise**2
        if not np.any(np.ptp(extra, axis=0) > 1e-9 * np.diag(self.within)):
            extra = extra[:1]
        return np.asarray(self.within + extra[:, :, None] * np.eye(len(noise)))


@dataclass(frozen=True)
class CorrelatedStageProblem:
    """Speeds and shifts by generalised least squares: `StageProblem` with correlated residuals.

    Parameters
    ----------
    pooled : PooledMeans
        Cluster means of every visit.
    timeline : Timeline
        When subjects were seen.
    trajectories : Curves
        The clusters' curves.
    noise : (n_clusters,)
        Noise standard deviations of one vertex.
    prior : StagePrior
        How log speeds and shifts are distributed.
    covariance : Covariance
        Of the pooled residuals.
    multipliers : (n_visits, n_clusters), optional
        By how much a visit's noise is larger than usual, as factors of its standard deviations.
        Without them all are 1.
    sites : SiteMeans or None
        Offsets of the sites.
    """

    pooled: PooledMeans
    timeline: Timeline
    trajectories: Curves
    noise: Array
    prior: StagePrior
    covariance: Covariance
    multipliers: Array | None = None
    sites: SiteMeans | None = None

    def select(self, subjects: IntArray) -> CorrelatedStageProblem:
        """Return the problem of some of the subjects, ascending."""
        timeline, visits = self.timeline.select(subjects)
        part = replace(
            self,
            timeline=timeline,
            pooled=self.pooled.select(visits),
            prior=self.prior.select(subjects),
            multipliers=None if self.multipliers is None else self.multipliers[visits],
            sites=None if self.sites is None else self.sites.select(visits),
        )
        if len(self.precisions) == 1:
            # One for all visits is that of some of them too.
            vars(part)["precisions"] = self.precisions
        return part

    @cached_property
    def means(self) -> Array:
        """Cluster means of every visit less the offsets of its site, (n_visits, K)."""
        if self.sites is None:
            return self.pooled.means
        return self.pooled.means - self.sites.of_visits()

    @cached_property
    def precisions(self) -> Array:
        """P_ij = E_ij^-1 of each visit, (n_visits or 1, K, K)."""
        return self.covariance.precisions(self.pooled.weights, self.noise, self.multipliers)

    @property
    def is_common(self) -> bool:
        """Whether all visits have the same E."""
        return self.multipliers is None and len(self.precisions) == 1

    @cached_property
    def totals(self) -> Array:
        """sum_j P_ij of each subject, (n_subjects, K, K)."""
        if len(self.precisions) == 1:
            return self.timeline.n_visits_of_subject[:, None, None] * self.precisions
        return self.timeline.by_subject(self.precisions)

    @cached_property
    def intercept_covariances(self) -> Array:
        """Posterior covariance of u_i given the stage, (B^-1 + sum_j P_ij)^-1."""
        between = self.covariance.between
        return np.linalg.solve(np.eye(len(between)) + between @ self.totals, between)

    @cached_property
    def log_constants(self) -> Array:
        """Log-density of each subject's visits but for the squared length, (n_subjects,)."""
        n_clusters, counts = len(self.noise), self.timeline.n_visits_of_subject
        log_precision = np.linalg.slogdet(self.precisions)[1]
        if len(self.precisions) == 1:
            within = counts * log_precision
        else:
            within = self.timeline.by_subject(log_precision)
        between = np.linalg.slogdet(np.eye(n_clusters) + self.covariance.between @ self.totals)[1]
        return np.asarray(0.5 * (within - between - counts * n_clusters * np.log(2 * np.pi)))

    def weigh(self, x: Array) -> Array:
        """P_ij x_ij for rows x (..., n_visits, K)."""
        if len(self.precisions) == 1:
            return x @ self.precisions[0]
        return np.einsum("nkl,...nl->...nk", self.precisions, x)

    def curves(self, scores: Array) -> Array:
        """f_nk at scores: (..., n_visits) to (..., n_visits, K)."""
        flat = self.trajectories.evaluate(scores.ravel())
        return flat.reshape(*scores.shape, flat.shape[1])

    def residuals(self, speeds: Array, shifts: Array) -> Array:
        """m_nk - f_nk, (n_visits, K)."""
        return self.means - self.curves(self.timeline.scores(speeds, shifts))

    def misfit(self, speeds: Array, shifts: Array) -> Array:
        """Squared Mahalanobis length of the residuals of each subject, (..., n_subjects).

        r' Sigma_i^-1 r, by Woodbury: sum_j r' P r - (sum_j P r)' (B^-1 + sum_j P)^-1 (sum_j P r).
        """
        residuals = self.residuals(speeds, shifts)
        weighed = self.weigh(residuals)
        total = self.timeline.by_subject(weighed, axis=-2)
        squares = self.timeline.by_subject(row_products(residuals, weighed), axis=-1)
        intercepts = np.einsum("ikl,...il->...ik", self.intercept_covariances, total)
        return np.asarray(squares - row_products(intercepts, total))

    def loss(self, speeds: Array, shifts: Array) -> Array:
        """Negative log-posterior of every subject up to a constant, (n_subjects,)."""
        log_prior = self.prior.log_density(np.log(speeds), shifts)
        return np.asarray(0.5 * self.misfit(speeds, shifts) - log_prior)

    def start(self) -> tuple[Array, Array]:
        """Usual speeds and shifts, from which a search may begin."""
        return self.prior.start()

    def gradient(self, speeds: Array, shifts: Array) -> tuple[Array, Array]:
        """Gradient (n_subjects, 2) and Gauss-Newton Hessian (n_subjects, 2, 2) of `loss`."""
        timeline, means = self.timeline, self.means
        values, slope = self.trajectories.values_and_slope(timeline.scores(speeds, shifts))
        lever = speeds[timeline.subject_of_visit] * timeline.times
        # Of each visit the derivatives by log speed and shift, and the residuals.
        rows = np.empty((len(means), 3, means.shape[1]))
        np.multiply(slope, lever[:, None], out=rows[:, 0])
        rows[:, 1] = slope
        np.subtract(means, values, out=rows[:, 2])
        weighed = rows @ self.precisions
        totals = timeline.by_subject(weighed)
        products = timeline.by_subject(np.einsum("nak,nbk->nab", rows, weighed))
        products -= totals @ self.intercept_covariances @ totals.swapaxes(1, 2)
        gradient, curvature = self.prior.pull(np.log(speeds), shifts)
        gradient -= products[:, :2, 2]
        hessian = products[:, :2, :2].copy()
        hessian[:, [0, 1], [0, 1]] += curvature
        return gradient, hessian

    def expected_intercepts(self, residuals: Array) -> Array:
        """Expected u_i of each subject given the residuals, (..., n_subjects, K)."""
        total = self.timeline.by_subject(self.weigh(residuals), axis=-2)
        return np.einsum("ikl,...il->...ik", self.intercept_covariances, total)


def row_products(one: Array, other: Array) -> Array:
    """Products summed over the last axis."""
    return np.asarray(np.einsum("...k,...k->...", one, other))


def is_unlike(
    problem: CorrelatedStageProblem, speeds: Array, shifts: Array, level: float = 1e-6
) -> BoolArray:
    """Whether a subject's residuals are larger than chance would have it."""
    seen = problem.timeline.by_subject((problem.pooled.weights > 0).sum(axis=1))
    return np.asarray(problem.misfit(speeds, shifts) > chi2.isf(level, seen))
