"""Who stages: the marginal model, the published objective, or time itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from braindive.arrays import Array
from braindive.dive.curves import Curves
from braindive.dive.em import Parameters
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Priors
from braindive.dive.stages import StageProblem, find_stages
from braindive.dive.timeline import Timeline


@dataclass(frozen=True)
class Stages:
    """Speeds and shifts of some subjects, in internal units."""

    timeline: Timeline
    speeds: Array
    shifts: Array


class Stager(Protocol):
    """Places subjects on trajectories."""

    @property
    def trajectories(self) -> Curves:
        """The curves that stages are read off."""

    def place(self, timeline: Timeline, sums: Array, weights: Array) -> Stages:
        """Place the subjects whose measurements were pooled into sums and weights."""


@dataclass(frozen=True)
class PublishedStager:
    """Most probable stages by the published objective: independent vertices, known curves.

    Parameters
    ----------
    parameters : Parameters
        What the EM found.
    priors : Priors
        Of speeds and shifts.
    """

    parameters: Parameters
    priors: Priors

    @property
    def trajectories(self) -> Curves:
        """The curves of the EM."""
        return self.parameters.trajectories

    def place(self, timeline: Timeline, sums: Array, weights: Array) -> Stages:
        """Most probable speeds and shifts."""
        problem = StageProblem(
            PooledMeans.from_sums(sums, weights),
            timeline,
            self.trajectories,
            self.parameters.noise,
            self.priors.speed,
            self.priors.shift,
        )
        return Stages(timeline, *find_stages(problem, self.parameters.shifts))


@dataclass(frozen=True)
class TimeStager:
    """The no-staging model: the score is the time itself."""

    trajectories: Curves

    def place(self, timeline: Timeline, sums: Array, weights: Array) -> Stages:
        """Speed 1, and the shift that makes the score the time."""
        return Stages(timeline, np.ones(timeline.n_subjects), timeline.centres / timeline.unit)
