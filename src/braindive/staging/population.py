"""How stages are distributed in the population: shifts and log speeds, by group.

Controls, where they are known, and everybody else have distributions of their own: controls sit
before the disease and hardly move. Log speeds are normal, so that speeds are positive and people
who hardly move have room near 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from braindive.arrays import Array, IntArray

# Group of a subject of whom it is not known whether it is a control.
UNKNOWN = -1


@dataclass(frozen=True)
class Population:
    """Normal distributions of shift and log speed in each group.

    Parameters
    ----------
    shift_means, shift_sds, log_speed_means, log_speed_sds : (n_groups,)
        In internal units. The last group is that of the people who are not controls.
    shares : (n_groups,)
        Share of each group, for subjects whose group is not known.
    """

    shift_means: Array
    shift_sds: Array
    log_speed_means: Array
    log_speed_sds: Array
    shares: Array

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
    """

    population: Population
    groups: IntArray

    def select(self, subjects: IntArray | slice) -> StagePrior:
        """Return the prior of some of the subjects."""
        return StagePrior(self.population, self.groups[subjects])

    def of_subjects(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Mean and spread of log speed, and of shift, of each subject's group, which is known."""
        people, groups = self.population, self.groups
        return (
            (people.log_speed_means[groups], people.log_speed_sds[groups]),
            (people.shift_means[groups], people.shift_sds[groups]),
        )

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
        away = np.stack(
            [
                log_speeds - people.log_speed_means[:, None],
                shifts - people.shift_means[:, None],
            ],
            axis=2,
        )
        gradient = np.einsum("gi,gia,ga->ia", membership, away, precision)
        return gradient, membership.T @ precision

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
        along_speed = (log_speeds - people.log_speed_means[groups]) / speed_sds
        along_shift = (shifts - people.shift_means[groups]) / shift_sds
        height = -0.5 * (along_speed**2 + along_shift**2) - np.log(speed_sds * shift_sds)
        return np.asarray(height - np.log(2 * np.pi))

    def start(self) -> tuple[Array, Array]:
        """Usual speed and shift of each subject's group, from which a search may begin."""
        people = self.population
        usual = np.where(self.groups < 0, people.n_groups - 1, self.groups)
        return np.exp(people.log_speed_means[usual]), people.shift_means[usual]
