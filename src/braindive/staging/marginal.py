"""Trajectories and covariances with the subjects' stages integrated out.

The EM of DIVE takes every subject's stage for known once it is estimated, with the weight of
thousands of independent vertices. Where stages are uncertain that makes curves too steep and
stages too sure. Here the stage of each subject is a distribution, on a few points around its mode,
and curves, the population's stages and the covariance of residuals are refitted by EM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.curves import Bounds
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Normal
from braindive.dive.stages import fit_stages
from braindive.dive.timeline import Timeline
from braindive.dive.trajectories import fit_trajectories
from braindive.staging.covariance import CorrelatedStageProblem, Covariance

# Points of the integral in units of the posterior's standard deviation. Along the shift, where the
# posterior may be skewed, evenly spaced ones; along the speed the three of Gauss and Hermite.
_ALONG_SHIFT = np.linspace(-3.6, 3.6, 9)
_ALONG_SPEED = np.sqrt(3.0) * np.array([-1.0, 0.0, 1.0])
_SPEED_WEIGHTS = np.array([1.0, 4.0, 1.0]) / 6
# Visits times points of the integral that are worked on at once, so that arrays stay in the cache:
# a choice.
_ROWS_AT_ONCE = 2**14
# Bins of the score in which measurements are gathered for the curves' update: a choice, far finer
# than any curve bends, that makes the update independent of the number of subjects.
_BINS = 400
# Least variance between people from which a fit begins, as a share of that within: an EM cannot
# leave a variance of 0. A choice.
_LEAST_BETWEEN = 0.01
# Longest extrapolation, in updates; a choice.
_LONGEST_STEP = 16.0


@dataclass(frozen=True)
class StagePosterior:
    """Where each subject may be: points with their probabilities.

    Parameters
    ----------
    timeline : Timeline
        When subjects were seen.
    speeds, shifts, weights : (n_points, n_subjects)
        The points and their probabilities, which sum to 1 over points.
    """

    timeline: Timeline
    speeds: Array
    shifts: Array
    weights: Array

    def mean(self) -> tuple[Array, Array]:
        """Expected speed and shift of each subject."""
        return (self.weights * self.speeds).sum(axis=0), (self.weights * self.shifts).sum(axis=0)

    def select(self, subjects: IntArray) -> StagePosterior:
        """Posterior of some of the subjects, ascending."""
        return StagePosterior(
            self.timeline.select(subjects)[0],
            self.speeds[:, subjects],
            self.shifts[:, subjects],
            self.weights[:, subjects],
        )

    def standard_errors(self) -> Array:
        """Spread of speed, of shift at the user's time 0, and of the first visit's score, (S, 3).

        In internal units of score and time.
        """
        timeline = self.timeline
        origin, first = -timeline.centres / timeline.unit, timeline.times[timeline.starts]
        quantities = (
            self.speeds,
            self.speeds * origin + self.shifts,
            self.speeds * first + self.shifts,
        )
        return np.stack([self._spread(quantity) for quantity in quantities], axis=1)

    def _spread(self, quantity: Array) -> Array:
        away = quantity - (self.weights * quantity).sum(axis=0)
        return np.sqrt((self.weights * away**2).sum(axis=0))


def integrate(problem: CorrelatedStageProblem, speeds: Array, shifts: Array) -> StagePosterior:
    """Posterior of every subject's stage on points around its mode.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects.
    speeds, shifts : (n_subjects,)
        The modes.
    """
    _, precision = problem.gradient(speeds, shifts)
    # Spread of the shift, and the speed's regression on it with what that leaves over.
    determinant = precision[:, 0, 0] * precision[:, 1, 1] - precision[:, 0, 1] ** 2
    shift_sd = np.sqrt(precision[:, 0, 0] / np.maximum(determinant, 1e-300))
    speed_slope = -precision[:, 0, 1] / precision[:, 0, 0]
    speed_sd = 1 / np.sqrt(precision[:, 0, 0])
    along_shift = np.repeat(_ALONG_SHIFT, len(_ALONG_SPEED))[:, None]
    along_speed = np.tile(_ALONG_SPEED, len(_ALONG_SHIFT))[:, None]
    away = along_shift * shift_sd
    log_speeds = np.log(speeds) + np.clip(speed_slope * away + along_speed * speed_sd, -3.0, 3.0)
    all_speeds, all_shifts = np.exp(log_speeds), shifts + away
    # The integral runs over log speed, which adds log speed to the log-density.
    heights = np.log(np.tile(_SPEED_WEIGHTS, len(_ALONG_SHIFT)))[:, None] + 0.5 * along_speed**2
    heights = heights + log_speeds
    for some in _in_groups(len(heights), problem.timeline):
        heights[some] -= problem.loss(all_speeds[some], all_shifts[some])
    weights = np.exp(heights - heights.max(axis=0))
    return StagePosterior(problem.timeline, all_speeds, all_shifts, weights / weights.sum(axis=0))


def _in_groups(n_points: int, timeline: Timeline) -> Iterator[slice]:
    """Points in groups that are worked on at once: all of them where subjects are few."""
    size = max(1, _ROWS_AT_ONCE // len(timeline.times))
    for start in range(0, n_points, size):
        yield slice(start, start + size)


def refine(
    problem: CorrelatedStageProblem,
    speeds: Array,
    shifts: Array,
    bounds: Bounds,
    trajectory_prior: Normal | None,
    max_iter: int = 30,
    tol: float = 1e-3,
) -> CorrelatedStageProblem:
    """Refit curves, the shifts' prior and the covariance with the stages integrated out.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The training subjects, with the curves from which to begin.
    speeds, shifts : (n_subjects,)
        Where the subjects are taken to be.
    bounds : Bounds
        Of the curves.
    trajectory_prior : Normal or None
        Prior of the curves.
    max_iter, tol
        Most pairs of updates, and the relative change of curves and variances at which to stop.

    Returns
    -------
    CorrelatedStageProblem
        The same subjects with what was found.
    """
    independent = problem.covariance
    problem = replace(problem, covariance=_start(problem, speeds, shifts))
    modes = speeds, shifts

    def update(here: CorrelatedStageProblem) -> CorrelatedStageProblem:
        nonlocal modes
        modes = fit_stages(here, *modes, max_iter=3)
        return _update(here, integrate(here, *modes), independent, bounds, trajectory_prior)

    longest = 1.0
    for _ in range(max_iter):
        first = update(problem)
        second = update(first)
        if _change(first, second) < tol:
            break
        further, longest = _extrapolate(
            problem.covariance, first.covariance, second.covariance, longest
        )
        problem = replace(second, covariance=further)
    return second


def _extrapolate(
    start: Covariance, first: Covariance, second: Covariance, longest: float
) -> tuple[Covariance, float]:
    """Go on from two updates as far as their change tells (SQUAREM of Varadhan and Roland, 2008).

    EM creeps where variances are small. Curves are left out: far extrapolation harms them.

    Returns
    -------
    covariance, longest
        Where to go on, and how far the next extrapolation may go, in updates.
    """
    here, there, beyond = (_pack(covariance) for covariance in (start, first, second))
    step, bend = there - here, beyond - 2 * there + here
    length = float(np.linalg.norm(step) / max(float(np.linalg.norm(bend)), 1e-300))
    if length >= longest:
        length, longest = longest, min(4 * longest, _LONGEST_STEP)
    if length <= 1:
        return second, longest
    return _unpack(here + 2 * length * step + length**2 * bend, second.weights), longest


def _pack(covariance: Covariance) -> Array:
    """E and B as numbers that may take any value: factors of Cholesky, diagonals as logarithms."""
    numbers = []
    for matrix in (covariance.within, covariance.between):
        root = np.linalg.cholesky(matrix)
        size = np.diag(root)
        numbers += [np.log(size), (root / size[:, None])[np.tril_indices(len(root), -1)]]
    return np.concatenate(numbers)


def _unpack(numbers: Array, weights: Array) -> Covariance:
    """Undo `_pack`."""
    n = len(weights)
    lower = np.tril_indices(n, -1)
    matrices: list[Array] = []
    for half in np.split(numbers, 2):
        root = np.eye(n)
        root[lower] = half[n:]
        root *= np.exp(half[:n])[:, None]
        matrices.append(root @ root.T)
    return Covariance(matrices[0], matrices[1], weights)


def _start(problem: CorrelatedStageProblem, speeds: Array, shifts: Array) -> Covariance:
    """E and B by analysis of variance: EM would take long to forget too large a B."""
    timeline, floor = problem.timeline, problem.covariance.within
    residuals = np.where(problem.pooled.weights > 0, problem.residuals(speeds, shifts), 0.0)
    counts, freedom = timeline.n_visits_of_subject, len(residuals) - timeline.n_subjects
    if not freedom:
        seen = residuals.T @ residuals / len(residuals)
        return Covariance(seen + floor, 0.1 * seen + 1e-3 * floor, problem.covariance.weights)
    means = timeline.by_subject(residuals) / counts[:, None]
    away = residuals - means[timeline.subject_of_visit]
    within = away.T @ away / freedom + floor
    between = means.T @ means / len(means) - within * np.mean(1 / counts)
    # In units of E, B is at least a little, and in no direction negative.
    root = np.linalg.cholesky(within)
    values, vectors = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, between).T))
    turned = root @ vectors
    between = (turned * np.maximum(values, _LEAST_BETWEEN)) @ turned.T
    return Covariance(within, between, problem.covariance.weights)


def _change(here: CorrelatedStageProblem, there: CorrelatedStageProblem) -> float:
    """Largest relative change of the curves over the people, and of the residual variances.

    Curves are compared at the same places among the people: the scale of the internal score is
    nearly free, creeps along for long, and is taken out of every score that is shown.
    """
    before, after = here.covariance, there.covariance
    total = np.diag(before.within + before.between)
    variances = np.abs(np.diag(after.within - before.within)) / total
    levels = np.abs(np.diag(after.between - before.between)) / total
    old, new = (_curves_over_people(problem) for problem in (here, there))
    curves = np.abs(new - old).max(axis=0) / np.maximum(np.ptp(old, axis=0), 1e-300)
    return float(np.max([variances, levels, curves]))


def _curves_over_people(problem: CorrelatedStageProblem) -> Array:
    prior = problem.shift_prior
    scores = float(prior.mean) + float(prior.sd) * np.linspace(-2, 2, 41)
    return problem.trajectories.evaluate(scores)


def _update(
    problem: CorrelatedStageProblem,
    posterior: StagePosterior,
    independent: Covariance,
    bounds: Bounds,
    trajectory_prior: Normal | None,
) -> CorrelatedStageProblem:
    """One update of curves, shift prior, E and B from the moments over the points."""
    timeline, pooled = problem.timeline, problem.pooled
    n_clusters, of_visit = len(problem.noise), timeline.subject_of_visit
    precisions = problem.precisions
    own = np.einsum("nkk->nk", precisions)
    seen = (pooled.weights > 0).astype(float)

    all_scores = timeline.scores(posterior.speeds, posterior.shifts)
    lowest = float(all_scores.min())
    per_bin = max(float(all_scores.max()) - lowest, 1e-300) * (1 + 1e-9) / _BINS
    gathered = np.zeros((_BINS, 1 + 2 * n_clusters))
    within = np.zeros((n_clusters, n_clusters))
    between = np.zeros((n_clusters, n_clusters))
    for some in _in_groups(len(all_scores), timeline):
        scores, weights = all_scores[some], posterior.weights[some]
        curves = problem.curves(scores)
        residuals = (pooled.means - curves) * seen
        intercepts = problem.expected_intercepts(residuals)
        errors = (residuals - intercepts[:, of_visit]) * seen
        share = weights[:, of_visit]
        within += np.tensordot(share[..., None] * errors, errors, axes=((0, 1), (0, 1)))
        between += np.tensordot(weights[..., None] * intercepts, intercepts, ((0, 1), (0, 1)))
        # What the other clusters' residuals say of this one's: sum_l P_kl r_l / P_kk.
        target = curves + problem.weigh(errors) / own
        weight = share[..., None] * (own * seen)
        bins = ((scores - lowest) / per_bin).astype(int).ravel()
        columns = [scores * weight[..., 0], *np.moveaxis(weight, -1, 0)]
        columns += list(np.moveaxis(weight * target, -1, 0))
        for column, values in enumerate(columns):
            gathered[:, column] += np.bincount(bins, values.ravel(), minlength=_BINS)

    unknown = problem.intercept_covariances
    between = (between + unknown.sum(axis=0)) / timeline.n_subjects
    if seen.min() == 0:
        within += np.einsum("ikl,ik,il->kl", unknown[of_visit], seen, seen)
    else:
        within += np.einsum("ikl,i->kl", unknown, timeline.n_visits_of_subject.astype(float))
    # The mode under an inverse-Wishart prior that is worth so many visits with independent
    # vertices: it keeps E invertible where clusters are many and visits few.
    prior_visits = n_clusters + 2.0
    within = (within + prior_visits * independent.within) / (seen.T @ seen + prior_visits)
    between += 1e-4 * np.diag(np.diag(within))

    filled = gathered[:, 1] > 1e-12 * gathered[:, 1].max()
    weights = gathered[filled, 1 : 1 + n_clusters]
    targets = gathered[filled, 1 + n_clusters :] / np.maximum(weights, 1e-300)
    trajectories = fit_trajectories(
        PooledMeans(targets, weights, np.zeros(n_clusters)),
        gathered[filled, 0] / gathered[filled, 1],
        np.ones(n_clusters),
        [problem.trajectories],
        bounds,
        trajectory_prior,
        max_iter=5,
    )
    mean = float(np.mean((posterior.weights * posterior.shifts).sum(axis=0)))
    square = float(np.mean((posterior.weights * (posterior.shifts - mean) ** 2).sum(axis=0)))
    return replace(
        problem,
        trajectories=trajectories,
        shift_prior=Normal(mean, np.sqrt(square)),
        covariance=Covariance(within, between, problem.covariance.weights),
    )
