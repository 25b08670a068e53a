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


def histories(counts: IntArray) -> list[IntArray]:
    """How many of its first visits each subject is seen from, to learn how to predict the last.

    From the first alone, from half of them and from all but the last: people of whom much or little
    is known are predicted soon or late, and what the course is worth depends on both.

    Parameters
    ----------
    counts : (n_subjects,) int
        Visits of each subject.

    Returns
    -------
    list of (n_subjects,) int
        All but the last visit first; those that would be the same for everybody once.
    """
    found: list[IntArray] = []
    for known in (counts - 1, counts // 2, np.ones_like(counts)):
        known = np.maximum(known, 1)
        if not any(np.array_equal(known, other) for other in found):
            found.append(known)
    return found


def foresee(stager: Stager, training: Training, n_known: IntArray) -> Course:
    """Course of all training visits as seen from each subject's first visits.

    To learn how to predict, everybody is staged without the later visits, and what comes true of
    them is seen.

    Parameters
    ----------
    stager : Stager
        Places the subjects.
    training : Training
        Their visits and pooled measurements.
    n_known : (n_subjects,) int
        From how many first visits; one at least.
    """
    timeline = training.timeline
    index, years = timeline.subject_of_visit, timeline.years
    early = np.arange(len(index)) - timeline.starts[index] < n_known[index]
    history = Timeline.from_times(index[early], years[early], timeline.unit)
    sums, weights = training.sums[early], training.weights[early]
    sites = None if training.sites is None else training.sites[early]
    stages = stager.place(history, sums, weights, training.groups, training.design, sites)
    return Course.of(stager.trajectories, stages.for_prediction(), index, years)
