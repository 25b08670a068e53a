"""What a fit found, put in order: one answer, clusters from the earliest to the latest, a scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from braindive.answers import (
    ScoreScale,
    marginal_answer,
    published_answer,
    reference_of,
    sums_of,
    without_stages,
)
from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.e_step import with_covariance
from braindive.dive.priors import Priors
from braindive.dive.problem import Parameters, Problem
from braindive.dive.starts import Outcome
from braindive.dive.vertex_curves import map_vertices
from braindive.scale import Scale
from braindive.site_fit import SiteFit
from braindive.staging.change import Lines
from braindive.staging.marginal_stager import (
    MarginalStager,
    Training,
)
from braindive.staging.population import Design, controls_lead, groups_of
from braindive.values.blocks import Unit


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
    marginal : MarginalStager or None
        The marginal model, where people differ.
    responsibilities : (n_vertices, n_clusters)
        z_lk; uniform where a vertex has no data.
    vertex_map : (2, n_vertices) or None
        When each vertex is half-way, and the standard error of that, for the user.
    scores : (n_visits,)
        For the user, visits in canonical order.
    stage_errors : (n_subjects, 3)
        Standard errors of speed, shift and score at the first visit, for the user.
    order : (n_clusters,) int
        Which cluster of the fit is the first, the second and so on.
    direction_is_clear, converged : bool
        Whether the other direction of the disease is ruled out, and whether the marginal fit has
        come to its optimum.
    controls_lead : float
        By how many standard errors controls come before the others; negative where they come
        after them, and 0 where it is not known.
    sites : SiteFit or None
        What was found of sites.
    lines : Lines or None
        Lines through the training subjects' visits, where the marginal model has placed them.
    """

    internal: Internal
    marginal: MarginalStager | None
    responsibilities: Array
    vertex_map: Array | None
    scores: Array
    stage_errors: Array
    order: IntArray
    direction_is_clear: bool
    converged: bool
    controls_lead: float
    sites: SiteFit | None = None
    lines: Lines | None = None


def put_in_order(
    outcome: Outcome,
    controls: BoolArray | None,
    people: Literal["differ", "alike"] = "differ",
    scale: ScoreScale = "years",
    maps_vertices: bool = True,
    design: Design | None = None,
    sites: SiteFit | None = None,
) -> Results:
    """Take the EM's outcome, or the marginal fit that starts from it, to what is shown.

    Parameters
    ----------
    outcome : Outcome
        The EM.
    controls : (n_visits,) bool or None
        Control visits in canonical order.
    people : {"differ", "alike"}
        Whether curves, stages and speeds come from the marginal fit or are the published ones.
    scale : {"years", "controls"}
        Origin and unit of the score.
    maps_vertices : bool
        Whether to find every vertex's own curve.
    design : Design, optional
        Covariates that move people's shifts and speeds.
    sites : SiteFit, optional
        Sites as the EM knew them.
    """
    problem, reference = outcome.problem, reference_of(outcome, controls)
    if not problem.staging:
        answer = without_stages(outcome)
    elif people == "alike":
        answer = published_answer(outcome, controls, scale)
    else:
        answer = marginal_answer(outcome, controls, scale, design, sites)
    state, found, marginal = answer.state, answer.found, answer.marginal
    problem, timeline, sites = answer.problem, problem.timeline, answer.sites
    scores = timeline.scores(found.speeds, found.shifts)
    order = np.argsort(found.trajectories.onset(scores), kind="stable")
    found = replace(
        found,
        trajectories=found.trajectories[order],
        noise=found.noise[order],
        vertex_covariance=_in_order(found.vertex_covariance, order),
        shares=_in_order(found.shares, order),
        strength=found.strength if problem.graph is not None else 0.0,
    )
    responsibilities = np.ascontiguousarray(state.responsibilities[:, order])
    unseen = problem.measurements.counts == 0
    unseen |= responsibilities.sum(axis=1) < 0.5
    responsibilities[unseen] = 1 / len(order)
    sums, weights = sums_of(state)
    training = Training(
        timeline,
        sums[:, order],
        weights[:, order],
        reference,
        problem.bounds,
        groups_of(timeline, controls),
        design,
        None if sites is None else sites.sites,
    )
    internal = Internal(
        found,
        problem.priors,
        problem.measurements.unit,
        timeline.unit,
        answer.centre,
        answer.spread,
        ~unseen,
        training,
    )
    marginal = None if marginal is None else marginal.in_order(order)
    vertex_map = None
    if maps_vertices:
        vertex_map = _map_vertices(problem, internal, marginal, responsibilities)
    return Results(
        internal,
        marginal,
        responsibilities,
        vertex_map,
        internal.scale.scores(scores),
        internal.scale.stage_errors(answer.errors),
        order,
        answer.direction_is_clear,
        answer.converged,
        _lead(outcome, found, controls),
        sites,
        None if answer.lines is None else answer.lines.in_order(order),
    )


def _lead(outcome: Outcome, found: Parameters, controls: BoolArray | None) -> float:
    """By how many standard errors controls come before the others; negative where after them."""
    problem, direction = outcome.problem, outcome.direction
    if controls is None or not problem.timeline.has_follow_up:
        return 0.0
    if problem.staging:
        own = problem.timeline.by_subject(controls.astype(int)) > 0
        return controls_lead(found.shifts, own)
    # Nobody has a stage: what there is to compare is how people differ and how they change.
    if direction.source != "controls" or not direction.is_clear:
        return 0.0
    return direction.time_z_value


def _map_vertices(
    problem: Problem, internal: Internal, marginal: MarginalStager | None, z: Array
) -> Array:
    """When each vertex is half-way and the standard error of that; NaN where nothing is known."""
    timeline, bounds = internal.training.timeline, internal.training.bounds
    z = z * internal.known[:, None]
    found = with_covariance(problem.measurements, timeline, internal.parameters, z)
    onsets, variances = map_vertices(problem.measurements, timeline, found, bounds, z)
    if marginal is not None:
        scores = timeline.scores(found.speeds, found.shifts)
        known = marginal.curve_uncertainty
        of_clusters = known.onset_variances(
            found.trajectories, scores, internal.centre, internal.spread
        )
        variances = variances + z @ of_clusters
    errors = internal.scale.score_errors(np.sqrt(variances))
    found_map = np.stack([internal.scale.scores(onsets), errors])
    found_map[:, ~internal.known] = np.nan
    return found_map


def _in_order(each: Array | None, order: IntArray) -> Array | None:
    return None if each is None else each[order]
