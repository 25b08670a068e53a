"""What the disease's course says of visits, as seen from a part of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.curves import Curves
from braindive.dive.timeline import Timeline
from braindive.staging.marginal_stager import Training
from braindive.staging.stagers import Stager, Stages


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
    def of(cls, trajectories: Curves, stages: Stages, subjects: IntArray, years: Array) -> Course:
        """Follow subjects of a history to other times.

        Parameters
        ----------
        trajectories : Curves
            Of the clusters.
        stages : Stages
            Where the subjects are, as known from the history.
        subjects : (n_visits,) int
            Subject in the history of each visit to follow.
        years : (n_visits,)
            Its time in the user's unit.
        """
        history, speeds, shifts = stages.timeline, stages.speeds, stages.shifts
        times = (years - history.centres[subjects]) / history.unit
        levels = trajectories.evaluate(shifts)[subjects]
        scores = speeds[subjects] * times + shifts[subjects]
        changes = trajectories.evaluate(scores) - levels
        since = times - history.times[history.starts][subjects]
        return cls(subjects, levels, changes, times, since)

    def curves(self) -> Array:
        """Curves at the visits, (n_visits, n_clusters)."""
        return self.levels + self.changes

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


def foresee(stager: Stager, training: Training) -> Course:
    """Course of all training visits as seen from all but each subject's last visit.

    To learn how to predict, everybody is staged without the last visit, and what comes true of it
    is seen. Who was seen once is staged from that visit.

    Parameters
    ----------
    stager : Stager
        Places the subjects.
    training : Training
        Their visits and pooled measurements.
    """
    timeline = training.timeline
    index, years = timeline.subject_of_visit, timeline.years
    number = np.arange(len(index)) - timeline.starts[index]
    early = number < np.maximum(timeline.n_visits_of_subject[index] - 1, 1)
    history = Timeline.from_times(index[early], years[early], timeline.unit)
    stages = stager.place(history, training.sums[early], training.weights[early], training.groups)
    return Course.of(stager.trajectories, stages, index, years)
