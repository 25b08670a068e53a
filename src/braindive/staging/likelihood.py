"""The marginal likelihood of the pooled means, stages integrated out, and its gradient.

m_ij = f(s_ij) + u_i + e_ij with u_i ~ N(0, B), e_ij ~ N(0, E) and the stage of subject i from the
population. The stage is integrated on a few points; the gradient of each subject's log-likelihood
is the expected gradient of the complete one over its posterior (Fisher's identity).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.timeline import Timeline
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.pieces import NUMBERS_AT_ONCE, in_pieces, over_subjects
from braindive.staging.population import StagePrior

Rule = tuple[Array, Array]
"""Points along the shift, and along what the log speed varies beyond it, in standard deviations."""

# Evenly spaced points: for smooth densities no other rule converges faster. The coarse points are
# for the first steps of a fit only.
FINE: Rule = (np.linspace(-4.0, 4.0, 9), np.linspace(-2.8, 2.8, 5))
# Where posteriors are wide for how steep the curves are, twice as many along the shift: with four
# times as many of these, the log-likelihood of 100 subjects differed by 0.15 at most.
FINER: Rule = (np.linspace(-4.0, 4.0, 17), FINE[1])
# Where people are placed once and no step follows, a posterior that ends where the curves begin may
# have more points.
_PLACING: Rule = (np.linspace(-4.2, 4.2, 13), FINE[1])
COARSE: Rule = (np.linspace(-3.0, 3.0, 6), np.linspace(-1.8, 1.8, 3))
# Rounds in which the points of a posterior are laid around the one before, and how much wider than
# by the curvature the first ones lie. Of 180 subjects all but one were then within 0.15 of a
# standard error of a dense grid; that one had two far modes.
_ROUNDS, _WIDER = 3, 2.0
# Least variance of a posterior: keeps its points apart.
_LEAST_VARIANCE = 1e-10


@dataclass(frozen=True)
class Coordinate:
    """Log speeds or shifts of the points, which move with the population as posteriors do.

    Points of a subject of whom the visits say nothing stay where they are in standard deviations
    from the mean of the group: between points that stayed in place, a spread could shrink and seem
    likely. Points of a subject whose visits say it all stay in place. In between they follow as a
    normal posterior would, by its variance as a share of that of the group.

    Parameters
    ----------
    anchors : (n_points, n_subjects)
        Where they were laid.
    means, sds : (n_subjects,)
        Of the group then.
    follow : (n_subjects,)
        The share.
    """

    anchors: Array
    means: Array
    sds: Array
    follow: Array

    @property
    def along(self) -> Array:
        """Anchors in standard deviations from the mean then."""
        return (self.anchors - self.means) / self.sds

    def at(self, means: Array, sds: Array) -> Array:
        """Return where they are with another mean and spread of the group, like `anchors`."""
        moved = means - self.means + (sds - self.sds) * self.along
        return np.asarray(self.anchors + self.follow * moved)

    def stretch(self, sds: Array) -> Array:
        """How much further apart they are then, (n_subjects,)."""
        return 1 + self.follow * (sds / self.sds - 1)

    def by_group(
        self, weights: Array, by_place: Array, means: Array, sds: Array, pull: Array | None = None
    ) -> tuple[Array, Array]:
        """Gradients of log-likelihoods by mean and log-sd of the group, each (n_subjects,).

        Parameters
        ----------
        weights, by_place : (n_points, n_subjects)
            Posterior probabilities, and expected gradients by where the points are, but for what
            the population says.
        means, sds : (n_subjects,)
            Of the group.
        pull : (n_points, n_subjects), optional
            Minus the derivative of the group's log-density by the place in standard deviations;
            without it the group is normal.
        """
        away = (self.at(means, sds) - means) / sds
        pull = away if pull is None else pull
        by_place = by_place - weights * pull / sds
        by_mean = self.follow * by_place.sum(axis=0) + (weights * pull).sum(axis=0) / sds
        lever = self.follow * sds
        by_sd = lever * (by_place * self.along).sum(axis=0)
        by_sd = by_sd + (weights * (pull * away)).sum(axis=0) - 1
        return by_mean, by_sd + lever / self.sds / self.stretch(sds)


@dataclass(frozen=True)
class Points:
    """Where the integrand is evaluated, and the volume that each point stands for.

    Parameters
    ----------
    log_speeds, shifts : Coordinate
        Where.
    log_volumes : (n_subjects,)
        Where they were laid.
    """

    log_speeds: Coordinate
    shifts: Coordinate
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
        *anchors, log_volumes = _lay(mean, covariance, rule)
        variances = np.diagonal(covariance, axis1=1, axis2=2).T
        log_speeds, shifts = (
            Coordinate(anchors, means, sds, np.minimum(variance / sds**2, 1.0))
            for anchors, (means, sds), variance in zip(
                anchors, prior.of_subjects(), variances, strict=True
            )
        )
        return cls(log_speeds, shifts, log_volumes)

    def log_weights(self, prior: StagePrior) -> tuple[Array, Array, Array]:
        """Log speeds and shifts of the points, and how probable these are in the population.

        The logarithm of the density times the volume; each (n_points, n_subjects).
        """
        found, heights = [], self.log_volumes - np.log(2 * np.pi)
        for coordinate, (means, sds) in zip(
            (self.log_speeds, self.shifts), prior.of_subjects(), strict=True
        ):
            place = coordinate.at(means, sds)
            heights = heights + np.log(coordinate.stretch(sds) / sds)
            along = (place - means) / sds
            if coordinate is self.shifts and prior.population.skews is not None:
                heights = heights + prior.skewed_at(along, prior.groups).log_density
            else:
                heights = heights - 0.5 * along**2
            found.append(place)
        return found[0], found[1], heights


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

    @classmethod
    def joined(cls, parts: list[Posterior]) -> Posterior:
        """Posterior of the subjects of all parts, one part after the other."""
        return cls(
            *(
                np.concatenate([getattr(part, name) for part in parts], axis=1)
                for name in ("log_speeds", "shifts", "weights")
            )
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

    def score_errors(self, timeline: Timeline) -> Array:
        """Spread of the score of every visit, (n_visits,), in internal units."""
        of_visit = timeline.subject_of_visit
        mean, square = np.zeros(len(of_visit)), np.zeros(len(of_visit))
        expected = timeline.scores(*self.mean())
        for speeds, shifts, weights in zip(self.speeds, self.shifts, self.weights, strict=True):
            away = timeline.scores(speeds, shifts) - expected
            mean += weights[of_visit] * away
            square += weights[of_visit] * away**2
        return np.sqrt(np.maximum(square - mean**2, 0.0))

    def _spread(self, quantity: Array) -> Array:
        away = quantity - (self.weights * quantity).sum(axis=0)
        return np.sqrt((self.weights * away**2).sum(axis=0))


def integrate(
    problem: CorrelatedStageProblem, speeds: Array, shifts: Array, rule: Rule = _PLACING
) -> Posterior:
    """Posterior of every subject's stage, on points around its mode; see `integrate_around`."""
    return integrate_around(problem, speeds, shifts, rule)[0]


def integrate_around(
    problem: CorrelatedStageProblem,
    speeds: Array,
    shifts: Array,
    rule: Rule = _PLACING,
    limits: Array | None = None,
) -> tuple[Posterior, Array]:
    """Posterior of every subject's stage, on points around its mode and then around itself.

    Also the logarithm of the integral over these points, (n_subjects,), up to a constant of each
    subject.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects.
    speeds, shifts : (n_subjects,)
        The modes.
    rule : Rule
        How many points, and where.
    limits : (2, n_subjects), optional
        Lowest and highest shift of each subject.
    """

    def take(some: CorrelatedStageProblem, part: slice) -> tuple[Posterior, Array]:
        mean = np.stack([np.log(speeds[part]), shifts[part]], axis=1)
        # Wider than the curvature says, to see what lies beyond a bend of the curves.
        covariance = _WIDER**2 * np.linalg.inv(some.gradient(speeds[part], shifts[part])[1])
        for _ in range(_ROUNDS):
            log_speeds, all_shifts, log_volumes = _lay(mean, covariance, rule)
            heights = some.heights(log_speeds, all_shifts)
            if limits is not None:
                low, high = limits[:, part]
                heights[(all_shifts < low) | (all_shifts > high)] = -np.inf
            highest = heights.max(axis=0)
            weights = np.exp(heights - highest)
            total = weights.sum(axis=0)
            found = Posterior(log_speeds, all_shifts, weights / total)
            mean, covariance = found.moments()
        return found, highest + np.log(total) + log_volumes

    n_points = len(rule[0]) * len(rule[1])
    parts = over_subjects(take, problem, NUMBERS_AT_ONCE // n_points)
    posteriors, integrals = zip(*parts, strict=True)
    return Posterior.joined(list(posteriors)), np.concatenate(integrals)


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
    by_means : (n_visits, n_clusters)
        By what is added to the curves at each visit; no rows where there are no sites.
    by_skew : (n_subjects,) or None
        By the skew of the shifts of its group; None where they are normal.
    """

    log_likelihoods: Array
    posterior: Posterior
    by_curves: Array
    by_within: Array
    by_between: Array
    by_population: Array
    by_means: Array
    by_skew: Array | None = None


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
    n_points, n_parameters = len(points.shifts.anchors), problem.trajectories.n_parameters()
    log_speeds, shifts, log_weights = points.log_weights(problem.prior)
    has_sites = problem.sites is not None
    found = Evaluation(
        np.empty(n_subjects),
        Posterior(log_speeds, shifts, np.empty_like(shifts)),
        np.empty((n_subjects, n_clusters, n_parameters)),
        np.empty((n_subjects, n_clusters, n_clusters)),
        np.empty((n_subjects, n_clusters, n_clusters)),
        np.empty((n_subjects, 4)),
        np.empty((len(timeline.times) if has_sites else 0, n_clusters)),
    )
    precisions, totals = problem.precisions, problem.totals
    intercepts, constants = problem.intercept_covariances, problem.log_constants
    by_stage = np.empty((2, n_points, n_subjects))
    n_numbers = problem.pooled.means.size * n_points
    ends = np.append(timeline.starts, len(timeline.times))
    shared, outer = len(precisions) == 1, None
    if problem.multipliers is not None:
        shared, outer = False, problem.multipliers[:, :, None] * problem.multipliers[:, None, :]

    def take(some: slice) -> None:
        """Fill in what belongs to some of the subjects."""
        visits = slice(ends[some.start], ends[some.stop])
        of_visit = timeline.subject_of_visit[visits] - some.start
        starts = timeline.starts[some] - visits.start
        # Points come last, since they are many: what belongs to one visit lies together.
        moved = np.exp(log_speeds[:, some]).T[of_visit] * timeline.times[visits, None]
        scores = moved + shifts[:, some].T[of_visit]
        curves = problem.trajectories.at_points(scores)

        # P (r - u) of every visit, where u is what is expected of the level given the stage.
        residuals = problem.means[visits, :, None] - curves.values
        own = precisions if shared else precisions[visits]
        if shared:
            total = own @ np.add.reduceat(residuals, starts, axis=0)
        else:
            total = np.add.reduceat(own @ residuals, starts, axis=0)
        unknown = intercepts[some]
        levels = unknown @ total
        errors = own @ (residuals - levels[of_visit])
        misfit = np.add.reduceat(np.einsum("nkq,nkq->nq", residuals, errors), starts, axis=0)
        heights = log_weights[:, some].T - 0.5 * misfit
        highest = heights.max(axis=1)
        weights = np.exp(heights - highest[:, None])
        height = weights.sum(axis=1)
        weights /= height[:, None]
        found.posterior.weights[:, some] = weights.T
        evidence = highest + np.log(height)
        found.log_likelihoods[some] = evidence + constants[some]

        # By curves and scores, and from the scores by shift and log speed.
        weighted = weights[of_visit, None] * errors
        if has_sites:
            found.by_means[visits] = weighted.sum(axis=2)
        by_curves, by_score = curves.pull_back(weighted)
        found.by_curves[some] = np.add.reduceat(by_curves, starts, axis=0)
        by_stage[0, :, some] = np.add.reduceat(by_score * moved, starts, axis=0).T
        by_stage[1, :, some] = np.add.reduceat(by_score, starts, axis=0).T
        # By E, and by B, for which B^-1 u = sum_j P (r - u).
        # What is said of E_ij is said of E by the visit's multipliers.
        factors = 1.0 if outer is None else outer[visits]
        by_within = np.add.reduceat(factors * (weighted @ errors.swapaxes(1, 2)), starts, axis=0)
        if shared:
            counts = timeline.n_visits_of_subject[some, None, None]
            by_within += counts * (own @ unknown @ own - own)
        else:
            left = own @ unknown[of_visit] @ own - own
            by_within += np.add.reduceat(factors * left, starts, axis=0)
        found.by_within[some] = 0.5 * by_within
        whole = totals[some]
        pulled = total - whole @ levels
        by_between = (weights[:, None] * pulled) @ pulled.swapaxes(1, 2)
        found.by_between[some] = 0.5 * (by_between + whole @ unknown @ whole - whole)

    in_pieces(take, n_subjects, max(1, int(NUMBERS_AT_ONCE * n_subjects / n_numbers)))
    weights, (speed_group, shift_group) = found.posterior.weights, problem.prior.of_subjects()
    pull, by_skew = None, None
    if problem.prior.population.skews is not None:
        means, sds = shift_group
        skewed = problem.prior.skewed_at((shifts - means) / sds, problem.prior.groups)
        pull, by_skew = skewed.pull, np.sum(weights * skewed.by_skew, axis=0)
    of_speed = points.log_speeds.by_group(weights, by_stage[0], *speed_group)
    of_shift = points.shifts.by_group(weights, by_stage[1], *shift_group, pull)
    np.stack([*of_shift, *of_speed], axis=1, out=found.by_population)
    return replace(found, by_skew=by_skew)
