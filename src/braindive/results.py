"""What a fit found, put in order: one answer, clusters from the earliest to the latest, a scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.e_step import carried, relabel, with_covariance
from braindive.dive.em import noise_variance, own_variance
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Priors
from braindive.dive.problem import Parameters, Problem, State
from braindive.dive.starts import Outcome
from braindive.dive.timeline import Timeline
from braindive.dive.vertex_curves import map_vertices
from braindive.scale import Scale
from braindive.site_fit import SiteFit
from braindive.staging.curve_uncertainty import unit_of_controls, unit_of_years
from braindive.staging.marginal_fit import MarginalFit, fit_marginal
from braindive.staging.marginal_stager import (
    MarginalStager,
    MarginalStages,
    Training,
)
from braindive.staging.population import Design, controls_lead, groups_of
from braindive.staging.site_means import ClusterSites, SiteMeans
from braindive.staging.stagers import PublishedStager
from braindive.staging.visit_noise import ROUNDS, VisitNoise
from braindive.values.blocks import Unit

ScoreScale = Literal["years", "controls"]


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
    state, problem = outcome.state, outcome.problem
    timeline, found = problem.timeline, state.parameters
    groups, reference = groups_of(timeline, controls), _reference(controls, timeline)
    fit: MarginalFit | None = None
    marginal: MarginalStager | None = None
    known_sites: ClusterSites | None = None
    centre, spread = 0.0, 1.0 / timeline.unit
    errors = np.zeros((timeline.n_subjects, 3))
    if problem.staging and people == "differ":
        pooled = _pooled(state, problem)
        unit_scale, z = problem.measurements.unit.scale, state.responsibilities
        offsets = None if sites is None else sites.start(z, pooled, unit_scale)
        fit = fit_marginal(pooled, timeline, found, problem.priors, controls, design, sites=offsets)
        # Clusters as these curves and stages have them, and then the curves of these clusters.
        shown = _shown(found, _stages(fit), pooled)
        if sites is not None:
            sites = sites.learn(fit, problem, shown, z)
            problem = replace(problem, measurements=sites.adjust(problem.measurements))
        state = relabel(problem, shown, z)
        pooled, z = _pooled(state, problem), state.responsibilities
        if sites is None:
            fit = fit.refined(pooled, state.parameters.noise)
        else:
            known_sites = sites.by_cluster(z, unit_scale)
            offsets = SiteMeans.at(sites.sites, known_sites)
            fit = fit.refined(pooled, state.parameters.noise, offsets)
        fit, visit_noise = _with_visit_noise(fit)
        if sites is not None:
            sites = sites.end(fit, z, unit_scale)
            problem = replace(problem, measurements=sites.adjust(problem.measurements))
            state = replace(state, pooled=problem.measurements.pool(z))
            pooled = _pooled(state, problem)
        if scale == "controls":
            unit = unit_of_controls(fit.climb.problem, fit.climb.evaluation.posterior, reference)
        else:
            unit = unit_of_years(fit.climb.problem, fit.climb.evaluation.posterior)
        known_sites = None if sites is None else sites.by_cluster(z, unit_scale)
        marginal = MarginalStager.of(fit, unit, visit_noise, known_sites)
        # Placed as anybody else would be, from what the model keeps, for the same answer.
        sums, weights = _sums(state)
        visits = None if sites is None else sites.sites
        placed = marginal.place(timeline, sums, weights, groups, design, visits)
        found = _shown(state.parameters, placed, pooled)
        # Origin and unit are those of the stages as they are shown.
        centre, spread = _unit_of(found, timeline, reference, groups, scale)
        marginal = replace(marginal, centre=centre, spread=spread)
        errors = marginal.errors(placed)
        if sites is not None:
            curves = found.trajectories.evaluate(timeline.scores(found.speeds, found.shifts))
            sites = sites.with_levels(problem.measurements, curves, z, reference)
    elif problem.staging:
        # Valleys are looked for over the range of the known shifts: once from those of the EM, and
        # once from those that the model keeps, as `stage` will.
        for _ in range(2):
            scores = timeline.scores(found.speeds, found.shifts)
            published = PublishedStager(found, problem.priors, scores)
            stages = published.place(timeline, *_sums(state))
            found = replace(found, speeds=stages.speeds, shifts=stages.shifts)
        errors = published.errors(stages)
        centre, spread = _unit_of(found, timeline, reference, groups, scale)
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
    sums, weights = _sums(state)
    training = Training(
        timeline,
        sums[:, order],
        weights[:, order],
        reference,
        problem.bounds,
        groups,
        design,
        None if sites is None else sites.sites,
    )
    internal = Internal(
        found,
        problem.priors,
        problem.measurements.unit,
        timeline.unit,
        centre,
        spread,
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
        internal.scale.stage_errors(errors),
        order,
        outcome.direction_is_clear if fit is None else fit.direction_is_clear,
        fit is None or fit.climb.converged,
        _lead(outcome, found, controls),
        sites,
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


def _with_visit_noise(fit: MarginalFit) -> tuple[MarginalFit, VisitNoise | None]:
    """The fit with noise that differs between visits, where it does, and how."""
    found = None
    for _ in range(ROUNDS):
        problem, posterior = fit.climb.problem, fit.climb.evaluation.posterior
        learnt = VisitNoise.learn(problem, posterior)
        if learnt.is_constant:
            break
        found = learnt
        fit = fit.with_multipliers(found.multipliers(problem, posterior))
    return fit, found


def _stages(fit: MarginalFit) -> MarginalStages:
    problem, posterior = fit.climb.problem, fit.climb.evaluation.posterior
    expected = posterior.mean()
    return MarginalStages(problem.timeline, *expected, problem, posterior, expected)


def _pooled(state: State, problem: Problem) -> PooledMeans:
    z, squares = state.responsibilities, problem.measurements.squares
    return PooledMeans.from_products(*_sums(state), z, squares)


def _sums(state: State) -> tuple[Array, Array]:
    assert state.pooled is not None
    return state.pooled


def _shown(found: Parameters, placed: MarginalStages, pooled: PooledMeans) -> Parameters:
    """Return the curves and stages of the marginal fit, with the noise of a vertex around them."""
    curves, timeline = placed.problem.trajectories, placed.timeline
    scores = timeline.scores(placed.speeds, placed.shifts)
    own = own_variance(pooled, timeline, found)
    around = replace(pooled, means=placed.problem.means)
    noise = np.sqrt(noise_variance(around.variance(curves.evaluate(scores)), own))
    shown = replace(
        found, trajectories=curves, speeds=placed.speeds, shifts=placed.shifts, noise=noise
    )
    return carried(found, shown, timeline)


def _reference(controls: BoolArray | None, timeline: Timeline) -> BoolArray:
    """Visits whose scores have mean 0 and spread 1 in the published scale: controls', or all."""
    if controls is not None and controls.sum() > 1:
        return controls
    return np.ones(len(timeline.times), dtype=bool)


def _unit_of(
    found: Parameters,
    timeline: Timeline,
    reference: BoolArray,
    groups: IntArray,
    scale: ScoreScale,
) -> tuple[float, float]:
    """Origin and unit of the user's score, from the stages and curves that are shown."""
    scores = timeline.scores(found.speeds, found.shifts)
    if scale == "controls":
        return float(np.mean(scores[reference])), float(np.std(scores[reference])) or 1.0
    centre = float(np.min(found.trajectories.onset(scores)))
    if not timeline.has_follow_up:
        return centre, float(np.std(scores)) or 1.0
    # Of those who are no controls, or of all without controls.
    usual_speed = float(found.speeds[groups == groups.max()].mean())
    return centre, usual_speed / timeline.unit
