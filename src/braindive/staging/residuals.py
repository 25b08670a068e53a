"""Residuals of subjects at many stages at once: their squared lengths, and derivatives of these.

The residuals of subject i have the covariance Sigma_i = B + E at one visit, and B between visits.
Where all visits have the same E, one basis makes E the identity and B diagonal, so that no matrix
is left that belongs to a visit or a subject. Clusters come first in all arrays, and points last: a
product with a matrix of clusters is then one for all visits and points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.curves import AtPoints
from braindive.dive.timeline import Timeline
from braindive.staging.covariance import CorrelatedStageProblem

Covariances = Literal["each", "sum", "none"]
"""Whether derivatives by E and B are wanted: of each subject, of all together, or not at all."""


@dataclass(frozen=True)
class Part:
    """Some of the subjects, one after the other.

    Parameters
    ----------
    subjects, visits : slice
        Which.
    of_visit : (n_visits,) int
        Subject of each of these visits, from 0.
    starts, counts : (n_subjects,) int
        First of each subject's visits, from 0, and their number.
    """

    subjects: slice
    visits: slice
    of_visit: IntArray
    starts: IntArray
    counts: IntArray

    @classmethod
    def of(cls, timeline: Timeline, subjects: slice) -> Part:
        """Return a part of the subjects."""
        starts = timeline.starts
        first = int(starts[subjects.start])
        last = len(timeline.times) if subjects.stop >= len(starts) else int(starts[subjects.stop])
        visits = slice(first, last)
        own = timeline.subject_of_visit[visits] - subjects.start
        counts = timeline.n_visits_of_subject[subjects]
        return cls(subjects, visits, own, starts[subjects] - first, counts)

    @cached_property
    def n_each(self) -> int:
        """Visits of each subject where all have as many, and else 0."""
        most = int(self.counts.max())
        return most if most == self.counts.min() else 0

    def combine(self, operation: np.ufunc, x: Array, y: Array) -> Array:
        """Operation on what belongs to visits, (..., n_visits, n_points), and to their subjects."""
        if not self.n_each:
            return np.asarray(operation(x, np.repeat(y, self.counts, axis=-2)))
        shape = (*x.shape[:-2], len(self.counts), self.n_each, x.shape[-1])
        return np.asarray(operation(x.reshape(shape), y[..., None, :]).reshape(x.shape))

    def moves(self, speeds: Array, timeline: Timeline) -> Array:
        """Speeds (n_subjects, n_points) times the times of the visits, (n_visits, n_points)."""
        return np.repeat(speeds, self.counts, axis=0) * timeline.times[self.visits, None]

    def total(self, x: Array) -> Array:
        """Sum over the visits of each subject, (..., n_visits, n_points).

        One visit of everybody after the other: `numpy.add.reduceat` takes ten times as long.
        """
        if self.n_each:
            found = x[..., :: self.n_each, :].copy()
            for visit in range(1, self.n_each):
                found += x[..., visit :: self.n_each, :]
            return found
        found = x[..., self.starts, :]
        for visit in range(1, int(self.counts.max())):
            more = np.flatnonzero(self.counts > visit)
            found[..., more, :] += x[..., self.starts[more] + visit, :]
        return found


@dataclass(frozen=True)
class Pull:
    """How the log-density of residuals changes, on average over points.

    Parameters
    ----------
    by_values : (n_clusters, n_visits, n_points)
        With the curves, weighted.
    by_within, by_between : (n_subjects or 1 or 0, n_clusters, n_clusters)
        With E and B, all entries taken for free.
    """

    by_values: Array
    by_within: Array
    by_between: Array


class Residuals(Protocol):
    """Residuals of some subjects at several stages."""

    @property
    def squares(self) -> Array:
        """Squared lengths, r' Sigma_i^-1 r, (n_subjects, n_points)."""

    def pull(self, weights: Array, covariances: Covariances) -> Pull:
        """Derivatives of -r' Sigma_i^-1 r / 2 and of the constant of the density.

        Parameters
        ----------
        weights : (n_subjects, n_points)
            Of the points.
        covariances : {"each", "sum", "none"}
            Derivatives by E and B that are wanted.
        """


class Noise(Protocol):
    """What is known of the visits' noise, and of the people's own levels."""

    @property
    def log_constants(self) -> Array:
        """Log-density of each subject's visits but for the squared length, (n_subjects,)."""

    def residuals(self, part: Part, curves: AtPoints) -> Residuals:
        """Residuals of some of the subjects around curves."""


def noise_of(problem: CorrelatedStageProblem) -> Noise:
    """Noise of a problem, in the form that costs least."""
    return CommonNoise.of(problem) if problem.is_common else OwnNoise(problem)


def heights_at(
    problem: CorrelatedStageProblem, log_speeds: Array, shifts: Array, noise: Noise | None = None
) -> Array:
    """Log-density of every subject at several stages up to a constant, (n_points, n_subjects).

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects.
    log_speeds, shifts : (n_points, n_subjects)
        The stages.
    noise : Noise, optional
        Of the problem, where it is known already.
    """
    timeline, noise = problem.timeline, noise or noise_of(problem)
    part = Part.of(timeline, slice(0, timeline.n_subjects))
    scores = part.combine(np.add, part.moves(np.exp(log_speeds.T), timeline), shifts.T)
    found = noise.residuals(part, problem.trajectories.at_points(scores))
    return np.asarray(problem.prior.log_density(log_speeds, shifts) - 0.5 * found.squares.T)


@dataclass(frozen=True)
class CommonNoise:
    """All visits have the same E.

    Parameters
    ----------
    basis : (n_clusters, n_clusters)
        T, for which T E T' = I and T B T' is diagonal.
    between : (n_clusters,)
        That diagonal.
    means : (n_clusters, n_visits)
        T m.
    counts : (n_subjects,)
        Visits of each subject.
    log_constants : (n_subjects,)
        As in `Noise`.
    """

    basis: Array
    between: Array
    means: Array
    counts: Array
    log_constants: Array

    @classmethod
    def of(cls, problem: CorrelatedStageProblem) -> CommonNoise:
        """Find the basis."""
        covariance, counts = problem.covariance, problem.timeline.n_visits_of_subject
        root = np.linalg.cholesky(
            covariance.of_visits(problem.pooled.weights[:1], problem.noise)[0]
        )
        half = np.linalg.inv(root)
        between, turn = np.linalg.eigh(half @ covariance.between @ half.T)
        basis = turn.T @ half
        of_visit = 2 * np.sum(np.log(np.diag(root))) + len(root) * np.log(2 * np.pi)
        of_levels = np.log1p(np.outer(counts, between)).sum(axis=1)
        constants = -0.5 * (counts * of_visit + of_levels)
        return cls(basis, between, basis @ problem.means.T, counts.astype(float), constants)

    def residuals(self, part: Part, curves: AtPoints) -> CommonResiduals:
        """In the basis."""
        residuals = curves.mixed(-self.basis, self.means[:, part.visits])
        counts = self.counts[part.subjects]
        # What is expected of the level, of the sum of the residuals.
        shares = self.between[:, None] / (1 + np.multiply.outer(self.between, counts))
        totals = part.total(residuals)
        levels = shares[:, :, None] * totals
        squares = part.total(np.einsum("knq,knq->nq", residuals, residuals))
        squares -= np.einsum("kiq,kiq->iq", levels, totals)
        return CommonResiduals(squares, self.basis, part, residuals, totals, levels, shares, counts)


@dataclass(frozen=True)
class CommonResiduals:
    """`Residuals` in a basis in which E is the identity and B diagonal.

    Parameters
    ----------
    squares : (n_subjects, n_points)
    basis : (n_clusters, n_clusters)
        T.
    part : Part
        Whose.
    residuals : (n_clusters, n_visits, n_points)
        T r.
    totals, levels : (n_clusters, n_subjects, n_points)
        Their sums, and T u as it is expected.
    shares : (n_clusters, n_subjects)
        One over the other.
    counts : (n_subjects,)
        Visits.
    """

    squares: Array
    basis: Array
    part: Part
    residuals: Array
    totals: Array
    levels: Array
    shares: Array
    counts: Array

    def pull(self, weights: Array, covariances: Covariances) -> Pull:
        """As in `Residuals`."""
        n_clusters, part, basis = len(self.basis), self.part, self.basis
        errors = part.combine(np.subtract, self.residuals, self.levels)
        weighted = part.combine(np.multiply, errors, weights)
        by_values = (basis.T @ weighted.reshape(n_clusters, -1)).reshape(weighted.shape)
        if covariances == "none":
            nothing = np.empty((0, n_clusters, n_clusters))
            return Pull(by_values, nothing, nothing)
        by_within = _products(weighted, errors, covariances, part.starts)
        # B^-1 u = sum_j P (r - u)
        pulled = self.totals - self.counts[:, None] * self.levels
        by_between = _products(weights * pulled, pulled, covariances)
        # P U P - P and its sums over visits, of which the level has no part.
        lost = (self.shares - 1) * self.counts
        lost_between = (self.shares * self.counts - 1) * self.counts
        on_diagonal = np.arange(n_clusters)
        for by, of_constant in ((by_within, lost), (by_between, lost_between)):
            constant = of_constant.T
            if covariances == "sum":
                constant = constant.sum(axis=0, keepdims=True)
            by[:, on_diagonal, on_diagonal] += constant
        return Pull(
            by_values, 0.5 * (basis.T @ by_within @ basis), 0.5 * (basis.T @ by_between @ basis)
        )


@dataclass(frozen=True)
class OwnNoise:
    """Visits differ in E: values are missing, or some visits are noisier than others.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects.
    """

    problem: CorrelatedStageProblem

    @property
    def log_constants(self) -> Array:
        """As in `Noise`."""
        return self.problem.log_constants

    def residuals(self, part: Part, curves: AtPoints) -> OwnResiduals:
        """As they are."""
        problem = self.problem
        residuals = problem.means.T[:, part.visits, None] - curves.values
        own = problem.precisions[part.visits]
        # Matrices belong to visits and subjects, which come first here.
        weighed = own @ residuals.swapaxes(0, 1)
        totals = part.total(weighed.swapaxes(0, 1)).swapaxes(0, 1)
        levels = problem.intercept_covariances[part.subjects] @ totals
        squares = part.total(np.einsum("knq,nkq->nq", residuals, weighed))
        squares -= np.einsum("ikq,ikq->iq", levels, totals)
        return OwnResiduals(squares, problem, part, own, weighed, totals, levels)


@dataclass(frozen=True)
class OwnResiduals:
    """`Residuals` of visits with precisions of their own.

    Parameters
    ----------
    squares : (n_subjects, n_points)
    problem : CorrelatedStageProblem
        All subjects.
    part : Part
        Whose.
    own : (n_visits, n_clusters, n_clusters)
        P of the visits.
    weighed : (n_visits, n_clusters, n_points)
        P r.
    totals, levels : (n_subjects, n_clusters, n_points)
        Their sums, and u as it is expected.
    """

    squares: Array
    problem: CorrelatedStageProblem
    part: Part
    own: Array
    weighed: Array
    totals: Array
    levels: Array

    def pull(self, weights: Array, covariances: Covariances) -> Pull:
        """As in `Residuals`."""
        part, own, problem = self.part, self.own, self.problem
        errors = self.weighed - own @ self.levels[part.of_visit]
        weighted = weights[part.of_visit, None] * errors
        by_values = np.ascontiguousarray(weighted.swapaxes(0, 1))
        if covariances == "none":
            nothing = np.empty((0, *own.shape[1:]))
            return Pull(by_values, nothing, nothing)
        unknown, whole = problem.intercept_covariances[part.subjects], problem.totals[part.subjects]
        left = own @ unknown[part.of_visit] @ own - own
        by_visit = weighted @ errors.swapaxes(1, 2) + left
        if problem.multipliers is not None:
            # What is said of E_ij is said of E by the visit's multipliers.
            factors = problem.multipliers[part.visits]
            by_visit *= factors[:, :, None] * factors[:, None, :]
        pulled = self.totals - whole @ self.levels
        by_subject = (weights[:, None] * pulled) @ pulled.swapaxes(1, 2)
        by_subject += whole @ unknown @ whole - whole
        if covariances == "sum":
            by_within, by_between = (x.sum(axis=0)[None] for x in (by_visit, by_subject))
        else:
            by_within, by_between = np.add.reduceat(by_visit, part.starts, axis=0), by_subject
        return Pull(by_values, 0.5 * by_within, 0.5 * by_between)


def _products(
    one: Array, other: Array, covariances: Covariances, starts: IntArray | None = None
) -> Array:
    """Products of clusters, summed over points and over visits of each subject, or of all.

    Parameters
    ----------
    one, other : (n_clusters, n, n_points)
        What is multiplied.
    covariances : {"each", "sum"}
        Whether to sum over all.
    starts : (n_subjects,), optional
        First of the n of each subject; without it there is one of each.
    """
    n_clusters = len(one)
    if covariances == "sum":
        found = one.reshape(n_clusters, -1) @ other.reshape(n_clusters, -1).T
        return np.asarray(found[None])
    found = one.swapaxes(0, 1) @ other.transpose(1, 2, 0)
    return found if starts is None else np.add.reduceat(found, starts, axis=0)
