"""The internal units of a fit and the user's, both ways: values, scores, stages and their errors.

Inside a fit values have mean 0 and spread 1, time is centred on each subject's own mean and counted
in multiples of the usual spread of visits, and the score's origin and unit are whatever the fit
began with. This is the one place that converts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array
from braindive.dive.curves import Curves
from braindive.dive.timeline import Timeline
from braindive.values.blocks import Unit


@dataclass(frozen=True)
class Scale:
    """From internal units to the user's, and back.

    Parameters
    ----------
    unit : Unit
        The user's value is offset + scale * internal value.
    time_unit : float
        One internal unit of time in the user's.
    centre, spread : float
        The user's score is (internal score - centre) / spread.

    Examples
    --------
    >>> from braindive.scale import Scale
    >>> from braindive.values.blocks import Unit
    >>> scale = Scale(Unit(offset=2.5, scale=0.5), time_unit=2.0, centre=1.0, spread=4.0)
    >>> float(scale.scores(9.0)), float(scale.internal_scores(2.0)), float(scale.values(1.0))
    (2.0, 9.0, 3.0)
    """

    unit: Unit
    time_unit: float
    centre: float
    spread: float

    def with_scores(self, centre: float, spread: float) -> Scale:
        """Return the same units of values and time with another origin and unit of the score."""
        return replace(self, centre=centre, spread=spread)

    def scores(self, internal: Array | float) -> Array:
        """Scores for the user."""
        return np.asarray((internal - self.centre) / self.spread)

    def score_errors(self, internal: Array | float) -> Array:
        """Standard errors of scores for the user."""
        return np.asarray(internal) / abs(self.spread)

    def score_changes(self, internal: Array | float) -> Array:
        """Differences of scores for the user."""
        return np.asarray(internal) / self.spread

    def internal_scores(self, scores: Array | float) -> Array:
        """Scores for the model: undoes `scores`."""
        return np.asarray(self.centre + self.spread * scores)

    def values(self, internal: Array | float) -> Array:
        """Values for the user."""
        return np.asarray(self.unit.offset + self.unit.scale * internal)

    def internal_values(self, values: Array | float) -> Array:
        """Values for the model: undoes `values`."""
        return np.asarray((values - self.unit.offset) / self.unit.scale)

    def value_errors(self, internal: Array | float) -> Array:
        """Standard deviations of values for the user."""
        return np.asarray(self.unit.scale * internal)

    def log_densities(self, internal: Array | float, n_measured: float = 1.0) -> Array:
        """Log-densities of so many measurements in the user's unit."""
        return np.asarray(internal - n_measured * np.log(self.unit.scale))

    def curves(self, internal: Curves) -> Curves:
        """Trajectories over the user's score, in the user's values."""
        rescored = internal.rescored(self.centre, self.spread)
        return rescored.revalued(self.unit.offset, self.unit.scale)

    def internal_curves(self, curves: Curves) -> Curves:
        """Trajectories for the model: undoes `curves`."""
        offset, scale = self.unit.offset, self.unit.scale
        rescored = curves.rescored(-self.centre / self.spread, 1 / self.spread)
        return rescored.revalued(-offset / scale, 1 / scale)

    def stages(
        self, timeline: Timeline, speeds: Array, shifts: Array
    ) -> tuple[Array, Array, Array]:
        """Speeds per unit of the user's time, shifts at the user's time 0, and first scores.

        Parameters
        ----------
        timeline : Timeline
            When the subjects were seen.
        speeds, shifts : (n_subjects,)
            Internal; the shift is the score at the subject's mean time.

        Returns
        -------
        speeds, shifts, scores : (n_subjects,)
            The score is that of the subject's first visit.
        """
        user_speeds = speeds / (self.time_unit * self.spread)
        user_shifts = self.scores(shifts) - user_speeds * timeline.centres
        first = self.scores(timeline.scores(speeds, shifts)[timeline.starts])
        return user_speeds, user_shifts, first

    def internal_stages(
        self, timeline: Timeline, speeds: Array, shifts: Array
    ) -> tuple[Array, Array]:
        """Speeds and shifts for the model: undoes `stages`."""
        at_centre = shifts + speeds * timeline.centres
        return speeds * (self.time_unit * self.spread), self.internal_scores(at_centre)

    def stage_errors(self, internal: Array) -> Array:
        """Standard errors of speed, shift and first score for the user, (n_subjects, 3).

        Parameters
        ----------
        internal : (n_subjects, 3)
            In internal units of score and time, the shift's at the user's time 0.
        """
        return np.asarray(internal / (self.spread * np.array([self.time_unit, 1.0, 1.0])))

    def internal_stage_errors(self, errors: Array) -> Array:
        """Standard errors for the model: undoes `stage_errors`."""
        return np.asarray(errors * (self.spread * np.array([self.time_unit, 1.0, 1.0])))
