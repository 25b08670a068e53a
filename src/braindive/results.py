"""What a fit found, put in order: clusters from the earliest to the latest, and a scale.

The controls' scores, or without controls everybody's, get mean 0 and standard deviation 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.em import Parameters
from braindive.dive.priors import Priors
from braindive.dive.starts import Outcome
from braindive.scale import Scale
from braindive.staging.marginal_stager import Training
from braindive.values.protocol import Unit


@dataclass(frozen=True)
class Internal:
    """Fitted quantities in the internal units of the model, and the way to the user's units.

    Parameters
    ----------
    parameters : Parameters
        Curves, noise, speeds, shifts and strength of the field; clusters in order.
    priors : Priors
        Of speeds, shifts and curves.
    unit, time_unit, centre, spread
        As in `Scale`.
    known : (n_vertices,) bool
        Vertices with measurements that belong to a cluster.
    training : Training
        The pooled measurements of the training subjects.
    """

    parameters: Parameters
    priors: Priors
    unit: Unit
    time_unit: float
    centre: float
    spread: float
    known: BoolArray
    training: Training

    @property
    def scale(self) -> Scale:
        """From internal units to the user's."""
        return Scale(self.unit, self.time_unit, self.centre, self.spread)


@dataclass(frozen=True)
class Results:
    """A fit in order.

    Parameters
    ----------
    internal : Internal
        What staging and prediction go on from.
    responsibilities : (n_vertices, n_clusters)
        z_lk; uniform where a vertex has no data.
    scores : (n_visits,)
        For the user, visits in canonical order.
    order : (n_clusters,) int
        Which cluster of the fit is the first, the second and so on.
    """

    internal: Internal
    responsibilities: Array
    scores: Array
    order: IntArray


def put_in_order(outcome: Outcome, controls: BoolArray | None) -> Results:
    """Order the clusters of a fit and fix the scale of its score.

    Parameters
    ----------
    outcome : Outcome
        The fit.
    controls : (n_visits,) bool or None
        Control visits in canonical order.
    """
    state, problem = outcome.state, outcome.problem
    timeline, unit = problem.timeline, problem.measurements.unit
    scores = timeline.scores(state.parameters.speeds, state.parameters.shifts)
    order = np.argsort(state.parameters.trajectories.onset(scores), kind="stable")
    found = replace(
        state.parameters,
        trajectories=state.parameters.trajectories[order],
        noise=state.parameters.noise[order],
        strength=state.parameters.strength if problem.graph is not None else 0.0,
    )
    responsibilities = np.ascontiguousarray(state.responsibilities[:, order])
    unseen = problem.measurements.counts == 0
    unseen |= responsibilities.sum(axis=1) < 0.5
    responsibilities[unseen] = 1 / len(order)

    reference = _reference(controls, scores)
    centre, spread = 0.0, 1.0 / timeline.unit
    if problem.staging:
        centre = float(np.mean(scores[reference]))
        spread = float(np.std(scores[reference])) or 1.0
    assert state.pooled is not None
    sums, weights = (pooled[:, order] for pooled in state.pooled)
    training = Training(timeline, sums, weights, reference, problem.bounds)
    internal = Internal(
        found, problem.priors, unit, timeline.unit, centre, spread, ~unseen, training
    )
    return Results(internal, responsibilities, internal.scale.scores(scores), order)


def _reference(controls: BoolArray | None, scores: Array) -> BoolArray:
    """Visits whose scores get mean 0 and spread 1: controls', or everybody's without them."""
    if controls is not None and controls.sum() > 1 and np.std(scores[controls]) > 0:
        return controls
    return np.ones(len(scores), dtype=bool)
