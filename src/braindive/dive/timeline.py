"""Visits of subjects on the internal time axis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from braindive.arrays import Array, IntArray


def evenly(subjects: IntArray, most: int) -> IntArray:
    """Choose so many of the subjects, or all if there are fewer, evenly spread."""
    places = np.linspace(0, len(subjects) - 1, min(most, len(subjects))).round().astype(int)
    return np.asarray(subjects[places])


@dataclass(frozen=True)
class Timeline:
    """When each subject was seen; visits are sorted by subject, then by time.

    Time is centred on each subject's own mean and divided by `unit`, so that neither the origin
    of time (age, or years since baseline) nor its unit can matter to a fit.

    Parameters
    ----------
    subject_of_visit : (n_visits,) int
        0 to n_subjects - 1, ascending.
    times : (n_visits,)
        Internal times: centred within each subject, in multiples of `unit`.
    centres : (n_subjects,)
        Mean visit time of each subject in the user's unit.
    unit : float
        Length of one internal time unit in the user's unit.
    """

    subject_of_visit: IntArray
    times: Array
    centres: Array
    unit: float

    @classmethod
    def from_times(
        cls, subject_of_visit: IntArray, times: Array, unit: float | None = None
    ) -> Timeline:
        """Centre and scale; the unit is the pooled within-subject spread unless it is given."""
        starts = np.flatnonzero(np.diff(subject_of_visit, prepend=-1))
        counts = np.diff(np.append(starts, len(times)))
        centres = np.add.reduceat(times, starts) / counts
        centred = times - centres[subject_of_visit]
        centred[np.repeat(counts == 1, counts)] = 0.0
        if unit is None:
            freedom = int(np.sum(counts - 1))
            unit = float(np.sqrt(np.sum(centred**2) / freedom)) if freedom else 1.0
        return cls(subject_of_visit, centred / unit, centres, unit)

    @property
    def n_subjects(self) -> int:
        """Number of subjects."""
        return len(self.centres)

    @property
    def years(self) -> Array:
        """Time of every visit in the user's unit."""
        return self.centres[self.subject_of_visit] + self.unit * self.times

    @cached_property
    def starts(self) -> IntArray:
        """Index of the first visit of each subject."""
        return np.flatnonzero(np.diff(self.subject_of_visit, prepend=-1))

    @cached_property
    def n_visits_of_subject(self) -> IntArray:
        """Number of visits of each subject."""
        return np.bincount(self.subject_of_visit, minlength=self.n_subjects)

    @property
    def has_follow_up(self) -> bool:
        """Whether anybody was seen more than once."""
        return len(self.times) > self.n_subjects

    def select(self, subjects: IntArray) -> tuple[Timeline, IntArray]:
        """Timeline of some subjects, ascending, and which visits are theirs."""
        counts = self.n_visits_of_subject[subjects]
        own = np.repeat(np.arange(len(subjects)), counts)
        rows = np.arange(len(own)) + (self.starts[subjects] - np.cumsum(counts) + counts)[own]
        return Timeline(own, self.times[rows], self.centres[subjects], self.unit), rows

    def scores(self, speeds: Array, shifts: Array) -> Array:
        """Disease progression score of every visit (equation: s_ij = alpha_i t_ij + beta_i).

        From (..., n_subjects) to (..., n_visits).
        """
        of_visit = self.subject_of_visit
        return speeds[..., of_visit] * self.times + shifts[..., of_visit]

    def by_subject(self, x: Array, axis: int = 0) -> Array:
        """Sum over the visits of each subject, along the first axis or another."""
        return np.add.reduceat(x, self.starts, axis=axis)
