"""Who stages: the marginal model, the published objective, or time itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.curves import Curves
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Priors
from braindive.dive.problem import Parameters
from braindive.dive.stages import StageProblem, find_stages
from braindive.dive.timeline import Timeline
from braindive.staging.population import Design


@dataclass(frozen=True)
class Stages:
    """Speeds and shifts of some subjects, in internal units."""

    timeline: Timeline
    speeds: Array
    shifts: Array

    def for_prediction(self) -> Stages:
        """Stages to go on from into the future: the same."""
        return self


class Stager(Protocol):
    """Places subjects on trajectories."""

    @property
    def trajectories(self) -> Curves:
        """The curves that stages are read off."""

    def place(
        self,
        timeline: Timeline,
        sums: Array,
        weights: Array,
        groups: IntArray | None = None,
        design: Design | None = None,
        sites: IntArray | None = None,
    ) -> Stages:
        """Place the subjects whose measurements were pooled into sums and weights.

        Their groups in the population, such as controls, and their covariates are given where they
        are known.
        """

    def errors(self, placed: Any) -> Array:
        """Standard errors of speed, shift at time 0 and first score, (n_subjects, 3)."""

    def score_errors(self, placed: Any) -> Array:
        """Standard errors of the scores of all visits, (n_visits,)."""

    def is_outside(self, placed: Any, errors: Array) -> BoolArray:
        """Where a stage should not be relied upon, (n_subjects,)."""


@dataclass(frozen=True)
class PublishedStages(Stages):
    """Most probable speeds and shifts, in internal units, and the objective behind them."""

    problem: StageProblem


@dataclass(frozen=True)
class PublishedStager:
    """Most probable stages by the published objective: independent vertices, known curves.

    Parameters
    ----------
    parameters : Parameters
        What the EM found.
    priors : Priors
        Of speeds and shifts.
    known_scores : (n,)
        Of the training visits.
    """

    parameters: Parameters
    priors: Priors
    known_scores: Array

    @property
    def trajectories(self) -> Curves:
        """The curves of the EM."""
        return self.parameters.trajectories

    def place(
        self,
        timeline: Timeline,
        sums: Array,
        weights: Array,
        groups: IntArray | None = None,
        design: Design | None = None,
        sites: IntArray | None = None,
    ) -> PublishedStages:
        """Most probable speeds and shifts; groups and covariates do not matter."""
        problem = StageProblem(
            PooledMeans.from_sums(sums, weights),
            timeline,
            self.trajectories,
            self.parameters.noise,
            self.priors.speed,
            self.priors.shift,
        )
        found = find_stages(problem, self.parameters.shifts)
        return PublishedStages(timeline, *found, problem)

    def errors(self, placed: PublishedStages) -> Array:
        """By the curvature of the objective: as small as if vertices were independent."""
        timeline, speeds = placed.timeline, placed.speeds
        _, curvature = placed.problem.gradient(speeds, placed.shifts)
        covariance = np.linalg.inv(curvature)
        zeros, ones = np.zeros_like(speeds), np.ones_like(speeds)
        origin, first = -timeline.centres / timeline.unit, timeline.times[timeline.starts]
        found = []
        for by_speed, by_shift in ((ones, zeros), (origin, ones), (first, ones)):
            lever = np.stack([by_speed * speeds, by_shift], axis=1)
            found.append(np.sqrt(np.einsum("ia,iab,ib->i", lever, covariance, lever)))
        return np.stack(found, axis=1)

    def score_errors(self, placed: PublishedStages) -> Array:
        """The same for the scores of all visits, (n_visits,)."""
        timeline, speeds = placed.timeline, placed.speeds
        of_visit = timeline.subject_of_visit
        _, curvature = placed.problem.gradient(speeds, placed.shifts)
        lever = np.stack([timeline.times * speeds[of_visit], np.ones(len(of_visit))], axis=1)
        covariance = np.linalg.inv(curvature)[of_visit]
        return np.sqrt(np.einsum("ia,iab,ib->i", lever, covariance, lever))

    def is_outside(self, placed: PublishedStages, errors: Array) -> BoolArray:
        """Beyond the training scores, or where curves are too flat to tell."""
        scores = placed.timeline.scores(placed.speeds, placed.shifts)[placed.timeline.starts]
        beyond = (scores < self.known_scores.min()) | (scores > self.known_scores.max())
        return np.asarray(beyond | (errors[:, 2] > np.std(self.known_scores)))


@dataclass(frozen=True)
class TimeStager:
    """The no-staging model: the score is the time itself."""

    trajectories: Curves

    def place(
        self,
        timeline: Timeline,
        sums: Array,
        weights: Array,
        groups: IntArray | None = None,
        design: Design | None = None,
        sites: IntArray | None = None,
    ) -> Stages:
        """Speed 1, and the shift that makes the score the time."""
        return Stages(timeline, np.ones(timeline.n_subjects), timeline.centres / timeline.unit)

    def errors(self, placed: Stages) -> Array:
        """None: nothing is estimated."""
        return np.zeros((placed.timeline.n_subjects, 3))

    def score_errors(self, placed: Stages) -> Array:
        """None: nothing is estimated."""
        return np.zeros(len(placed.timeline.times))

    def is_outside(self, placed: Stages, errors: Array) -> BoolArray:
        """Nowhere."""
        return np.zeros(placed.timeline.n_subjects, dtype=bool)
