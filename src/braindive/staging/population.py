"""How stages are distributed in the population: shifts and log speeds, by group.

Controls, where they are known, and everybody else have distributions of their own: controls sit
before the disease and hardly move. Log speeds are normal, so that speeds are positive and people
who hardly move have room near 0. Shifts are normal too, or skewed where the data say so: a study
may have found many people early and few late. Covariates move the means of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.timeline import Timeline
from braindive.staging.skewed import Skewed

# Group of a subject of whom it is not known whether it is a control.
UNKNOWN = -1

# Fewer controls, or others, than this have no distribution of their own. A choice.
_LEAST_GROUP = 8


@dataclass(frozen=True)
class Effects:
    """By how much covariates move the means of shift and log speed.

    Parameters
    ----------
    shift : (n_shift_effects,)
        Of the score at the first visit, for one unit of each column of `Design.shift`.
    log_speed : (n_speed_effects,)
        The same of the log speed.
    """

    shift: Array
    log_speed: Array


@dataclass(frozen=True)
class Design:
    """What covariates say of each subject, in the units of `Effects`.

    Parameters
    ----------
    shift : (n_subjects, n_shift_effects)
        Covariates of the shift; 0 is the training subjects' mean.
    log_speed : (n_subjects, n_speed_effects)
        Of the log speed.
    lead : (n_subjects,)
        Internal time from a subject's first visit to the mean of its visits. Covariates act on the
        score at the first visit: of two people alike in it, the one who was followed for longer is
        further on at the mean of its visits, where the internal shift is.
    """

    shift: Array
    log_speed: Array
    lead: Array

    def select(self, subjects: IntArray | slice) -> Design:
        """Return the covariates of some of the subjects."""
        return Design(self.shift[subjects], self.log_speed[subjects], self.lead[subjects])

    def at(self, timeline: Timeline) -> Design:
        """Return the covariates of the same subjects, seen at other times."""
        return replace(self, lead=-timeline.times[timeline.starts])

    def repeated(self, n_times: int) -> Design:
        """Return those of the same subjects, several times over."""
        return Design(
            np.tile(self.shift, (n_times, 1)),
            np.tile(self.log_speed, (n_times, 1)),
            np.tile(self.lead, n_times),
        )

    def no_effects(self) -> Effects:
        """Effects of nothing, from which a fit starts."""
        return Effects(np.zeros(self.shift.shape[1]), np.zeros(self.log_speed.shape[1]))


@dataclass(frozen=True)
class Population:
    """Distributions of shift and log speed in each group.

    Parameters
    ----------
    shift_means, shift_sds, log_speed_means, log_speed_sds : (n_groups,)
        In internal units. The last group is that of the people who are not controls.
    shares : (n_groups,)
        Share of each group, for subjects whose group is not known.
    effects : Effects or None
        Of covariates on the means; the means above are then those of usual covariates, and that of
        the shift is the one at the first visit.
    skews : (n_groups,) or None
        Of the shifts (`skewed`), whose means and spreads are then no more than their origin and
        unit; None where they are normal.
    """

    shift_means: Array
    shift_sds: Array
    log_speed_means: Array
    log_speed_sds: Array
    shares: Array
    effects: Effects | None = None
    skews: Array | None = None

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.shares)

    def spread(self) -> float:
        """Standard deviation of the shifts of all groups together."""
        mean = float(self.shares @ self.shift_means)
        return float(np.sqrt(self.shares @ (self.shift_sds**2 + (self.shift_means - mean) ** 2)))

    def centre(self) -> float:
        """Mean of the shifts of all groups together."""
        return float(self.shares @ self.shift_means)


@dataclass(frozen=True)
class StagePrior:
    """The population seen from subjects whose group is known, or not.

    Parameters
    ----------
    population : Population
        The groups' distributions.
    groups : (n_subjects,) int
        Each subject's group, `UNKNOWN` where all are possible.
    design : Design or None
        What covariates say of each subject; None where they have no effects.
    """

    population: Population
    groups: IntArray
    design: Design | None = None

    def select(self, subjects: IntArray | slice) -> StagePrior:
        """Return the prior of some of the subjects."""
        design = None if self.design is None else self.design.select(subjects)
        return replace(self, groups=self.groups[subjects], design=design)

    def repeated(self, n_times: int) -> StagePrior:
        """Return the prior of the same subjects, several times over."""
        design = None if self.design is None else self.design.repeated(n_times)
        return replace(self, groups=np.tile(self.groups, n_times), design=design)

    def means(self, groups: IntArray) -> tuple[Array, Array]:
        """Means of log speed and shift of the subjects, were they of the given groups.

        Parameters
        ----------
        groups : (n_subjects,) or (..., 1) int
            One for each subject, or one for all of them.
        """
        people = self.population
        log_speeds, shifts = people.log_speed_means[groups], people.shift_means[groups]
        if self.design is None or people.effects is None:
            return log_speeds, shifts
        log_speeds = log_speeds + self.design.log_speed @ people.effects.log_speed
        on_the_way = self.design.lead * np.exp(log_speeds + people.log_speed_sds[groups] ** 2 / 2)
        return log_speeds, shifts + self.design.shift @ people.effects.shift + on_the_way

    def leads(self, groups: IntArray) -> Array:
        """Derivative of the mean shift by that of the log speed, like the means of `means`.

        By the log-sd of the log speed it is the square of that sd times as much.
        """
        if self.design is None or self.population.effects is None:
            return np.zeros(np.broadcast_shapes(np.shape(groups), self.groups.shape))
        sds = self.population.log_speed_sds[groups]
        return np.asarray(self.design.lead * np.exp(self.means(groups)[0] + sds**2 / 2))

    def of_subjects(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Mean and spread of log speed, and of shift, of each subject, whose group is known."""
        people, groups = self.population, self.groups
        log_speeds, shifts = self.means(groups)
        return (log_speeds, people.log_speed_sds[groups]), (shifts, people.shift_sds[groups])

    def of_groups(self) -> tuple[Array, Array]:
        """Means of log speed and shift of every subject in every group, (n_groups, n_subjects)."""
        return self.means(np.arange(self.population.n_groups)[:, None])

    def log_density(self, log_speeds: Array, shifts: Array) -> Array:
        """Log-density of log speed and shift, (..., n_subjects)."""
        if np.all(self.groups >= 0):
            return self._of_group(self.groups, log_speeds, shifts)
        return np.asarray(logsumexp(self._of_all(log_speeds, shifts), axis=0))

    def pull(self, log_speeds: Array, shifts: Array) -> tuple[Array, Array]:
        """Minus the gradient of `log_density`, and its curvature: two of (n_subjects, 2).

        Of a mixture, the components' averaged over the groups a subject may belong to.
        """
        people, membership = self.population, self.membership(log_speeds, shifts)
        precision = np.stack([people.log_speed_sds**-2.0, people.shift_sds**-2.0], axis=1)
        log_speed_means, shift_means = self.of_groups()
        away = np.stack([log_speeds - log_speed_means, shifts - shift_means], axis=2)
        gradient = np.einsum("gi,gia,ga->ia", membership, away, precision)
        curvature = membership.T @ precision
        if people.skews is not None:
            sds = people.shift_sds[:, None]
            skewed = Skewed.at(away[:, :, 1] / sds, people.skews[:, None])
            gradient[:, 1] = np.sum(membership * skewed.pull / sds, axis=0)
            curvature[:, 1] = np.sum(membership * skewed.curvature / sds**2, axis=0)
        return gradient, curvature

    def skewed_at(self, along: Array, groups: IntArray) -> Skewed:
        """Log-density of shifts in standard deviations, and its derivatives, in their groups."""
        assert self.population.skews is not None
        return Skewed.at(along, self.population.skews[groups])

    def membership(self, log_speeds: Array, shifts: Array) -> Array:
        """Probability of each group given log speed and shift, (n_groups, n_subjects)."""
        if np.all(self.groups >= 0):
            return (np.arange(self.population.n_groups)[:, None] == self.groups).astype(float)
        all_groups = self._of_all(log_speeds, shifts)
        return np.asarray(np.exp(all_groups - logsumexp(all_groups, axis=0)))

    def _of_all(self, log_speeds: Array, shifts: Array) -> Array:
        """Log of share times density of every group, -inf where a subject is of another."""
        people, found = self.population, []
        for group in range(people.n_groups):
            density = self._of_group(np.array(group), log_speeds, shifts)
            share = np.where(self.groups < 0, people.shares[group], self.groups == group)
            with np.errstate(divide="ignore"):
                found.append(density + np.log(share))
        return np.stack(found)

    def _of_group(self, groups: IntArray, log_speeds: Array, shifts: Array) -> Array:
        people = self.population
        speed_sds, shift_sds = people.log_speed_sds[groups], people.shift_sds[groups]
        log_speed_means, shift_means = self.means(groups)
        along_speed = (log_speeds - log_speed_means) / speed_sds
        along_shift = (shifts - shift_means) / shift_sds
        if people.skews is None:
            height = -0.5 * (along_speed**2 + along_shift**2)
        else:
            height = self.skewed_at(along_shift, groups).log_density - 0.5 * along_speed**2
        return np.asarray(height - np.log(speed_sds * shift_sds) - np.log(2 * np.pi))

    def start(self) -> tuple[Array, Array]:
        """Usual speed and shift of each subject's group, from which a search may begin."""
        usual = np.where(self.groups < 0, self.population.n_groups - 1, self.groups)
        log_speeds, shifts = self.means(usual)
        return np.exp(log_speeds), shifts


def groups_of(
    timeline: Timeline, controls: BoolArray | None, least: int = _LEAST_GROUP
) -> IntArray:
    """Group of each subject: 0 for controls and 1 for others, or 0 for all.

    A control is who is one at every visit. Groups of less than the least size are none.
    """
    everyone = np.zeros(timeline.n_subjects, dtype=int)
    if controls is None:
        return everyone
    is_control = timeline.by_subject(controls.astype(int)) == timeline.n_visits_of_subject
    fewest = min(int(is_control.sum()), int((~is_control).sum()))
    return np.where(is_control, 0, 1) if fewest >= least else everyone


def controls_lead(shifts: Array, is_control: BoolArray) -> float:
    """By how many standard errors controls come before the others; 0 without both."""
    controls, others = shifts[is_control], shifts[~is_control]
    if min(len(controls), len(others)) < 2:
        return 0.0
    error = np.sqrt(controls.var(ddof=1) / len(controls) + others.var(ddof=1) / len(others))
    return float((others.mean() - controls.mean()) / max(float(error), 1e-300))
