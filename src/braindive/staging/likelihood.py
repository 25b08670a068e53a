"""The marginal likelihood of the pooled means, stages integrated out, and its gradient.

m_ij = f(s_ij) + u_i + e_ij with u_i ~ N(0, B), e_ij ~ N(0, E) and the stage of subject i from the
population. The stage is integrated on a few points; the gradient of each subject's log-likelihood
is the expected gradient of the complete one over its posterior (Fisher's identity).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.timeline import Timeline
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.population import StagePrior

Rule = tuple[Array, Array]
"""Points along the shift, and along what the log speed varies beyond it, in standard deviations."""

# Evenly spaced points: for smooth densities no other rule converges faster. The coarse points are
# for the first steps of a fit only.
FINE: Rule = (np.linspace(-4.0, 4.0, 9), np.linspace(-2.8, 2.8, 5))
COARSE: Rule = (np.linspace(-3.0, 3.0, 6), np.linspace(-1.8, 1.8, 3))
# Rows (visits times points) that are worked on at once, so that arrays stay in the cache: a choice.
_ROWS_AT_ONCE = 2**14
# Rounds in which the points of a posterior are laid around the one before, and how much wider than
# by the curvature the first ones lie. Of 180 subjects all but one were then within 0.15 of a
# standard error of a dense grid; that one had two far modes.
_ROUNDS, _WIDER = 3, 2.0
# Least variance of a posterior: keeps its points apart.
_LEAST_VARIANCE = 1e-10


@dataclass(frozen=True)
class Points:
    """Where the integrand is evaluated, and the volume that each point stands for.

    Points are kept in standard deviations from the mean of the subject's group, so that they move
    with the population: between points that stayed, a spread could shrink and seem likely.

    Parameters
    ----------
    along_speed, along_shift, log_volumes : (n_points, n_subjects)
    """

    along_speed: Array
    along_shift: Array
    log_volumes: Array

    @classmethod
    def around(cls, prior: StagePrior, mean: Array, covariance: Array, rule: Rule) -> Points:
        """Points that cover a normal distribution of each subject.

        Parameters
        ----------
        prior : StagePrior
            The population; the group of every subject is known.
        mean : (n_subjects, 2)
            Of log speed and shift.
        covariance : (n_subjects, 2, 2)
            Of both.
        rule : Rule
            How many points, and where.
        """
        log_speeds, shifts, log_volumes = _lay(mean, covariance, rule)
        people, group = prior.population, prior.groups
        speed_sds, shift_sds = people.log_speed_sds[group], people.shift_sds[group]
        return cls(
            (log_speeds - people.log_speed_means[group]) / speed_sds,
            (shifts - people.shift_means[group]) / shift_sds,
            np.broadcast_to(log_volumes - np.log(speed_sds * shift_sds), shifts.shape),
        )

    def stages(self, prior: StagePrior) -> tuple[Array, Array]:
        """Log speeds and shifts of the points, each (n_points, n_subjects)."""
        people, group = prior.population, prior.groups
        return (
            people.log_speed_means[group] + people.log_speed_sds[group] * self.along_speed,
            people.shift_means[group] + people.shift_sds[group] * self.along_shift,
        )


def _lay(mean: Array, covariance: Array, rule: Rule) -> tuple[Array, Array, Array]:
    """Log speeds, shifts (n_points, n_subjects) and log-volumes (n_subjects,) of points."""
    along_shift, along_speed = rule
    shift_sd = np.sqrt(covariance[:, 1, 1])
    slope = covariance[:, 0, 1] / covariance[:, 1, 1]
    left = covariance[:, 0, 0] - slope * covariance[:, 0, 1]
    speed_sd = np.sqrt(np.maximum(left, _LEAST_VARIANCE))
    one = np.repeat(along_shift, len(along_speed))[:, None] * shift_sd
    other = np.tile(along_speed, len(along_shift))[:, None] * speed_sd
    step = (along_shift[1] - along_shift[0]) * (along_speed[1] - along_speed[0])
    return (
        mean[:, 0] + slope * one + other,
        mean[:, 1] + one,
        np.log(step * shift_sd * speed_sd),
    )


@dataclass(frozen=True)
class Posterior:
    """Where each subject may be: points with their probabilities, which sum to 1.

    Parameters
    ----------
    log_speeds, shifts, weights : (n_points, n_subjects)
    """

    log_speeds: Array
    shifts: Array
    weights: Array

    @property
    def speeds(self) -> Array:
        """Speeds of the points, (n_points, n_subjects)."""
        return np.exp(self.log_speeds)

    def mean(self) -> tuple[Array, Array]:
        """Expected speed and shift of each subject."""
        return (self.weights * self.speeds).sum(axis=0), (self.weights * self.shifts).sum(axis=0)

    def select(self, subjects: IntArray) -> Posterior:
        """Posterior of some of the subjects."""
        return Posterior(
            self.log_speeds[:, subjects], self.shifts[:, subjects], self.weights[:, subjects]
        )

    def moments(self) -> tuple[Array, Array]:
        """Mean (n_subjects, 2) and covariance (n_subjects, 2, 2) of log speed and shift."""
        both = np.stack([self.log_speeds, self.shifts], axis=2)
        mean = np.einsum("qi,qia->ia", self.weights, both)
        away = both - mean
        covariance = np.einsum("qi,qia,qib->iab", self.weights, away, away)
        covariance[:, [0, 1], [0, 1]] += _LEAST_VARIANCE
        return mean, covariance

    def lay_points(self, prior: StagePrior, rule: Rule) -> Points:
        """Points that cover it."""
        return Points.around(prior, *self.moments(), rule)

    def standard_errors(self, timeline: Timeline) -> Array:
        """Spread of speed, of shift at the user's time 0, and of the first visit's score, (S, 3).

        In internal units of score and time.
        """
        origin, first = -timeline.centres / timeline.unit, timeline.times[timeline.starts]
        speeds = self.speeds
        quantities = (speeds, speeds * origin + self.shifts, speeds * first + self.shifts)
        return np.stack([self._spread(quantity) for quantity in quantities], axis=1)

    def _spread(self, quantity: Array) -> Array:
        away = quantity - (self.weights * quantity).sum(axis=0)
        return np.sqrt((self.weights * away**2).sum(axis=0))


def integrate(
    problem: CorrelatedStageProblem, speeds: Array, shifts: Array, rule: Rule = FINE
) -> Posterior:
    """Posterior of every subject's stage, on points around its mode and then around itself.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects.
    speeds, shifts : (n_subjects,)
        The modes.
    rule : Rule
        How many points, and where.
    """
    mean = np.stack([np.log(speeds), shifts], axis=1)
    # Wider than the curvature says, to see what lies beyond a bend of the curves.
    covariance = _WIDER**2 * np.linalg.inv(problem.gradient(speeds, shifts)[1])
    for _ in range(_ROUNDS):
        log_speeds, all_shifts, _ = _lay(mean, covariance, rule)
        heights = np.empty_like(all_shifts)
        size = max(1, _ROWS_AT_ONCE // len(problem.timeline.times))
        for first in range(0, len(heights), size):
            some = slice(first, first + size)
            heights[some] = -problem.loss(np.exp(log_speeds[some]), all_shifts[some])
        weights = np.exp(heights - heights.max(axis=0))
        found = Posterior(log_speeds, all_shifts, weights / weights.sum(axis=0))
        mean, covariance = found.moments()
    return found


@dataclass(frozen=True)
class Evaluation:
    """Log-likelihoods of all subjects, their posteriors and, if asked for, gradients.

    Parameters
    ----------
    log_likelihoods : (n_subjects,)
    posterior : Posterior
    by_curves : (n_subjects, n_clusters, n_parameters)
        Gradient by the curves' parameters.
    by_within, by_between : (n_subjects, n_clusters, n_clusters)
        By E and B, all entries taken for free.
    by_population : (n_subjects, 4)
        By mean and log-sd of the shift, and mean and log-sd of the log speed, of its own group.
    """

    log_likelihoods: Array
    posterior: Posterior
    by_curves: Array
    by_within: Array
    by_between: Array
    by_population: Array


def evaluate(problem: CorrelatedStageProblem, points: Points) -> Evaluation:
    """Integrate the stages of all subjects, and differentiate.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        Subjects and parameters; the group of every subject is known.
    points : Points
        Where to evaluate.
    """
    timeline = problem.timeline
    n_subjects, n_clusters = timeline.n_subjects, len(problem.noise)
    n_points, n_parameters = len(points.along_shift), problem.trajectories.n_parameters()
    found = Evaluation(
        np.empty(n_subjects),
        Posterior(*points.stages(problem.prior), np.empty((n_points, n_subjects))),
        np.empty((n_subjects, n_clusters, n_parameters)),
        np.empty((n_subjects, n_clusters, n_clusters)),
        np.empty((n_subjects, n_clusters, n_clusters)),
        np.empty((n_subjects, 4)),
    )
    precisions, totals = problem.precisions, problem.totals
    intercepts, constants = problem.intercept_covariances, problem.log_constants
    people, groups = problem.prior.population, problem.prior.groups
    per_chunk = max(1, int(_ROWS_AT_ONCE * n_subjects / (len(timeline.times) * n_points)))
    ends = np.append(timeline.starts, len(timeline.times))
    shared = len(precisions) == 1
    for first in range(0, n_subjects, per_chunk):
        last = min(first + per_chunk, n_subjects)
        some, visits = slice(first, last), slice(ends[first], ends[last])
        of_visit = timeline.subject_of_visit[visits] - first
        starts = timeline.starts[some] - ends[first]
        # Points come last, since they are many: what belongs to one visit lies together.
        speeds = np.exp(found.posterior.log_speeds[:, some]).T
        moved = speeds[of_visit] * timeline.times[visits, None]
        scores = moved + found.posterior.shifts[:, some].T[of_visit]
        curves = problem.trajectories.at_points(scores)

        # P (r - u) of every visit, where u is what is expected of the level given the stage.
        residuals = problem.pooled.means[visits, :, None] - curves.values
        own = precisions if shared else precisions[visits]
        if shared:
            total = own @ np.add.reduceat(residuals, starts, axis=0)
        else:
            total = np.add.reduceat(own @ residuals, starts, axis=0)
        unknown = intercepts[some]
        levels = unknown @ total
        errors = own @ (residuals - levels[of_visit])
        misfit = np.add.reduceat(np.einsum("nkq,nkq->nq", residuals, errors), starts, axis=0)
        along_speed, along_shift = points.along_speed[:, some].T, points.along_shift[:, some].T
        heights = points.log_volumes[:, some].T - 0.5 * (misfit + along_shift**2 + along_speed**2)
        highest = heights.max(axis=1)
        weights = np.exp(heights - highest[:, None])
        height = weights.sum(axis=1)
        weights /= height[:, None]
        found.posterior.weights[:, some] = weights.T
        evidence = highest + np.log(height)
        found.log_likelihoods[some] = evidence + constants[some] - np.log(2 * np.pi)

        # By curves and scores, and from the scores by shift and log speed.
        weighted = weights[of_visit, None] * errors
        by_curves, by_score = curves.pull_back(weighted)
        found.by_curves[some] = np.add.reduceat(by_curves, starts, axis=0)
        by_shift = np.add.reduceat(by_score, starts, axis=0)
        by_speed = np.add.reduceat(by_score * moved, starts, axis=0)
        # By E, and by B, for which B^-1 u = sum_j P (r - u).
        by_within = np.add.reduceat(weighted @ errors.swapaxes(1, 2), starts, axis=0)
        if shared:
            counts = timeline.n_visits_of_subject[some, None, None]
            by_within += counts * (own @ unknown @ own - own)
        else:
            by_within += np.add.reduceat(own @ unknown[of_visit] @ own - own, starts, axis=0)
        found.by_within[some] = 0.5 * by_within
        whole = totals[some]
        pulled = total - whole @ levels
        by_between = (weights[:, None] * pulled) @ pulled.swapaxes(1, 2)
        found.by_between[some] = 0.5 * (by_between + whole @ unknown @ whole - whole)
        group = groups[some]
        found.by_population[some] = np.stack(
            [
                by_shift.sum(axis=1),
                people.shift_sds[group] * (by_shift * along_shift).sum(axis=1),
                by_speed.sum(axis=1),
                people.log_speed_sds[group] * (by_speed * along_speed).sum(axis=1),
            ],
            axis=1,
        )
    return found
