"""What the disease's course says of visits, as seen from a part of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.timeline import Timeline


@dataclass(frozen=True)
class Course:
    """Expected course of some visits given the history of their subjects.

    Parameters
    ----------
    subject_of_visit : (n_visits,) int
        Subject in the history's timeline.
    levels : (n_visits, n_clusters)
        Curves at the score of the mean time of the history.
    changes : (n_visits, n_clusters)
        Curves at the visit less the level.
    times, since : (n_visits,)
        Internal time from the mean of the history, and from its first visit.
    """

    subject_of_visit: IntArray
    levels: Array
    changes: Array
    times: Array
    since: Array

    @classmethod
    def of(
        cls,
        evaluate: Callable[[Array], Array],
        history: Timeline,
        speeds: Array,
        shifts: Array,
        subjects: IntArray,
        years: Array,
    ) -> Course:
        """Follow subjects of a history to other times.

        Parameters
        ----------
        evaluate : callable
            From internal scores (n,) to curves (n, n_clusters).
        history : Timeline
            What the stages are known from.
        speeds, shifts : (n_subjects,)
            Internal stages from the history.
        subjects : (n_visits,) int
            Subject in the history of each visit to follow.
        years : (n_visits,)
            Its time in the user's unit.
        """
        times = (years - history.centres[subjects]) / history.unit
        levels = evaluate(shifts)[subjects]
        changes = evaluate(speeds[subjects] * times + shifts[subjects]) - levels
        since = times - history.times[history.starts][subjects]
        return cls(subjects, levels, changes, times, since)

    def select(self, visits: IntArray) -> Course:
        """Course of some of the visits, of the same history."""
        return Course(
            self.subject_of_visit[visits],
            self.levels[visits],
            self.changes[visits],
            self.times[visits],
            self.since[visits],
        )

    def columns(self, centres: Array) -> Array:
        """Level, change and time of every cluster less their centres, (3, n_visits, K + 1).

        The first K columns go with the responsibilities of a vertex, the last with its own rate.
        """
        n_visits, n_clusters = self.levels.shape
        columns = np.zeros((3, n_visits, n_clusters + 1))
        columns[0, :, :-1] = self.levels
        columns[1, :, :-1] = self.changes
        columns[2, :, -1] = self.times
        return columns - centres
