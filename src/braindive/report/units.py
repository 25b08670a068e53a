"""The unit in which the report shows scores, where years would be meaningless."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd

from braindive.estimator import DIVE
from braindive.score_names import years_are_meaningless

# Fitted attributes in the unit of the score.
_IN_SCORES = (
    "scores_", "shifts_", "speeds_", "shifts_se_", "speeds_se_", "baseline_scores_se_",
    "vertex_midpoints_", "vertex_midpoints_se_",
)  # fmt: skip


def with_shown_scores(model: DIVE) -> DIVE:
    """Return the model, or one whose scores are standard deviations where they cannot be years.

    Parameters
    ----------
    model : DIVE
        Fitted; it does not change.

    Returns
    -------
    DIVE
        For reading its attributes, `stage` and `trajectory_errors` only.
    """
    if not years_are_meaningless(model):
        return model
    spread = float(np.std(model.scores_))
    again = copy.copy(model)
    shown: Any = again  # whose attributes have other types for once
    shown.scale = "spread"
    shown.trajectories_ = model.trajectories_.rescored(0.0, spread)
    for name in _IN_SCORES:
        if hasattr(model, name):
            setattr(shown, name, getattr(model, name) / spread)
    # Standard deviations a year: what is left of them beyond three digits is nothing to read.
    shown.speeds_, shown.speeds_se_ = shown.speeds_.round(3), shown.speeds_se_.round(3)
    shown.stage = lambda cohort: _in_spreads(model.stage(cohort), spread)
    shown.trajectory_errors = lambda scores: model.trajectory_errors(np.asarray(scores) * spread)
    if getattr(model, "effects_", None) is not None:
        effects = model.effects_.copy()
        columns = ["estimate", "se", "low", "high"]
        effects.loc[effects["parameter"] == "shift", columns] /= spread
        shown.effects_ = effects
    return again


def _in_spreads(stages: pd.DataFrame, spread: float) -> pd.DataFrame:
    """Stages in standard deviations of the scores."""
    columns = [name + end for name in ("score", "speed", "shift") for end in ("", "_se")]
    found = stages.copy()
    found[columns] = found[columns] / spread
    return found
