"""Where each subject may be: points over log speed and shift, and posteriors on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.timeline import Timeline
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.pieces import NUMBERS_AT_ONCE, over_subjects, search_stages
from braindive.staging.population import StagePrior
from braindive.staging.residuals import heights_at, noise_of

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

    @cached_property
    def along(self) -> Array:
        """Anchors in standard deviations from the mean then."""
        return (self.anchors - self.means) / self.sds

    def at(self, means: Array, sds: Array) -> Array:
        """Return where they are with another mean and spread of the group, like `anchors`."""
        found = self.follow * (sds - self.sds) * self.along
        found += self.follow * (means - self.means)
        found += self.anchors
        return found

    def stretch(self, sds: Array) -> Array:
        """How much further apart they are then, (n_subjects,)."""
        return 1 + self.follow * (sds / self.sds - 1)

    def by_group(
        self,
        weights: Array,
        by_place: Array,
        away: Array,
        sds: Array,
        pull: Array | None = None,
    ) -> tuple[Array, Array]:
        """Gradients of log-likelihoods by mean and log-sd of the group, each (n_subjects,).

        Parameters
        ----------
        weights, by_place : (n_points, n_subjects)
            Posterior probabilities, and expected gradients by where the points are, but for what
            the population says.
        away : (n_points, n_subjects)
            Where the points are, in standard deviations from the mean of the group.
        sds : (n_subjects,)
            Of the group.
        pull : (n_points, n_subjects), optional
            Minus the derivative of the group's log-density by the place in standard deviations;
            without it the group is normal.
        """
        pulled = weights * (away if pull is None else pull)
        expected = pulled.sum(axis=0) / sds
        by_mean = self.follow * (by_place.sum(axis=0) - expected) + expected
        lever = self.follow * sds
        by_sd = lever * _sums(by_place, self.along) - self.follow * _sums(pulled, self.along)
        by_sd += _sums(pulled, away) - 1
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

    def by_population(
        self, prior: StagePrior, posterior: Posterior, by_stage: Array
    ) -> tuple[Array, Array | None]:
        """Gradients of log-likelihoods by the population.

        Parameters
        ----------
        prior : StagePrior
            The population.
        posterior : Posterior
            On these points.
        by_stage : (2, n_points, n_subjects)
            Expected gradients by the log speeds and shifts of the points, but for what the
            population says.

        Returns
        -------
        by_population : (n_subjects, 4)
            By mean and log-sd of the shift, and of the log speed.
        by_skew : (n_subjects,) or None
            By the skew; None where shifts are normal.
        """
        (speed_means, speed_sds), (means, sds) = prior.of_subjects()
        weights, pull, by_skew = posterior.weights, None, None
        away = (posterior.shifts - means) / sds
        if prior.population.skews is not None:
            skewed = prior.skewed_at(away, prior.groups)
            pull, by_skew = skewed.pull, np.sum(weights * skewed.by_skew, axis=0)
        of_shift = self.shifts.by_group(weights, by_stage[1], away, sds, pull)
        away = (posterior.log_speeds - speed_means) / speed_sds
        of_speed = self.log_speeds.by_group(weights, by_stage[0], away, speed_sds)
        return np.stack([*of_shift, *of_speed], axis=1), by_skew


def _sums(one: Array, other: Array) -> Array:
    """Products summed over the points, (n_subjects,)."""
    return np.asarray(np.einsum("qi,qi->i", one, other))


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


def points_at(problem: CorrelatedStageProblem, speeds: Array, shifts: Array, rule: Rule) -> Points:
    """Points around given stages of the subjects, as wide as the curvature there has it."""
    covariance = np.linalg.inv(problem.gradient(speeds, shifts)[1])
    mean = np.stack([np.log(speeds), shifts], axis=1)
    return Points.around(problem.prior, mean, covariance, rule)


def searched_points(problem: CorrelatedStageProblem, known_shifts: Array, rule: Rule) -> Points:
    """Points around the best modes of all subjects, which are looked for in a range of shifts."""
    return points_at(problem, *search_stages(problem, known_shifts), rule)


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
        places = self.log_speeds, self.shifts
        mean = np.stack([_sums(self.weights, place) for place in places], axis=1)
        away = [place - own for place, own in zip(places, mean.T, strict=True)]
        covariance = np.empty((len(mean), 2, 2))
        for i in range(2):
            weighted = self.weights * away[i]
            for j in range(i + 1):
                covariance[:, i, j] = covariance[:, j, i] = _sums(weighted, away[j])
            covariance[:, i, i] += _LEAST_VARIANCE
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
        noise = noise_of(some)
        for _ in range(_ROUNDS):
            log_speeds, all_shifts, log_volumes = _lay(mean, covariance, rule)
            heights = heights_at(some, log_speeds, all_shifts, noise)
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
