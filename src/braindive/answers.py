"""Curves, speeds and stages of a fit: those of the marginal model, or as published.

The marginal model gives one answer in turns with what it rests on: labels follow its curves, sites
its stages, and the noise of visits what it leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.dive.e_step import carried, relabel
from braindive.dive.em import change_between, noise_variance, own_variance
from braindive.dive.overlapping import curves_of_mixture
from braindive.dive.pooled import PooledMeans
from braindive.dive.problem import Parameters, Problem, State
from braindive.dive.starts import Outcome
from braindive.site_fit import SiteFit
from braindive.staging.change import Lines, visit_series
from braindive.staging.curve_uncertainty import ScoreUnit, unit_of_controls, unit_of_years
from braindive.staging.marginal_fit import MarginalFit, fit_marginal
from braindive.staging.marginal_stager import MarginalStager, MarginalStages
from braindive.staging.population import Design, groups_of
from braindive.staging.site_means import SiteMeans
from braindive.staging.stagers import PublishedStager
from braindive.staging.visit_noise import ROUNDS, VisitNoise

ScoreScale = Literal["years", "controls"]

# Share of the vertices that a field must have given to other clusters for curves of these to be
# looked for from new starts, and how often that is done. Where people differ much, a field may have
# held wrong labels (agreement .81 to .92), and two rounds find .97 to .99. Choices.
_MANY_MOVE, _MOST_LABELLINGS = 0.02, 3


@dataclass(frozen=True)
class Answer:
    """What is shown of a fit, in internal units and with clusters in no order yet.

    Parameters
    ----------
    state, problem : State, Problem
        Labels and pooled measurements, and the values they are of.
    found : Parameters
        Curves, noise, speeds and shifts.
    errors : (n_subjects, 3)
        Standard errors of speed, shift at time 0 and score at the first visit.
    centre, spread : float
        The user's score is (internal score - centre) / spread.
    direction_is_clear, converged : bool
        Whether the other direction is ruled out, and whether the optimum was reached.
    marginal : MarginalStager or None
        The marginal model, where people differ.
    sites : SiteFit or None
        What was found of sites.
    lines : Lines or None
        Lines through the visits of people who were placed by the marginal model, of the score and
        of each cluster.
    """

    state: State
    problem: Problem
    found: Parameters
    errors: Array
    centre: float
    spread: float
    direction_is_clear: bool
    converged: bool = True
    marginal: MarginalStager | None = None
    sites: SiteFit | None = None
    lines: Lines | None = None


def without_stages(outcome: Outcome) -> Answer:
    """Answer where the score is the time."""
    problem = outcome.problem
    return Answer(
        outcome.state,
        problem,
        outcome.state.parameters,
        np.zeros((problem.timeline.n_subjects, 3)),
        0.0,
        1.0 / problem.timeline.unit,
        outcome.direction_is_clear,
    )


def published_answer(outcome: Outcome, controls: BoolArray | None, scale: ScoreScale) -> Answer:
    """Answer of the EM, with its stages at their optimum.

    Parameters
    ----------
    outcome, controls, scale
        As in `results.put_in_order`.
    """
    state, problem = outcome.state, outcome.problem
    timeline, found = problem.timeline, state.parameters
    # Valleys are looked for over the range of the known shifts: once from those of the EM, and
    # once from those that the model keeps, as `stage` will.
    for _ in range(2):
        scores = timeline.scores(found.speeds, found.shifts)
        published = PublishedStager(found, problem.priors, scores)
        stages = published.place(timeline, *sums_of(state))
        found = replace(found, speeds=stages.speeds, shifts=stages.shifts)
    unit = _unit_of(found, outcome, controls, scale)
    errors = published.errors(stages)
    return Answer(state, problem, found, errors, *unit, outcome.direction_is_clear)


def marginal_answer(
    outcome: Outcome,
    controls: BoolArray | None,
    scale: ScoreScale,
    design: Design | None,
    sites: SiteFit | None,
) -> Answer:
    """Answer of the marginal fit that starts from the EM.

    Parameters
    ----------
    outcome, controls, scale, design, sites
        As in `results.put_in_order`.
    """
    state, problem, timeline = outcome.state, outcome.problem, outcome.problem.timeline
    found, z, pooled = state.parameters, state.responsibilities, _pooled(state, problem)
    unit_scale = problem.measurements.unit.scale
    for _ in range(_MOST_LABELLINGS):
        offsets = None if sites is None else sites.start(z, pooled, unit_scale)
        fit = fit_marginal(pooled, timeline, found, problem.priors, controls, design, sites=offsets)
        # Clusters as these curves and stages have them, and then the curves of these clusters.
        shown = _shown(found, _stages(fit), pooled)
        if sites is not None:
            sites = sites.learn(fit, problem, shown, z)
            problem = replace(problem, measurements=sites.adjust(problem.measurements))
        before = state
        state = relabel(problem, curves_of_mixture(problem, shown, z) or shown, z)
        found, pooled, z = state.parameters, _pooled(state, problem), state.responsibilities
        # Without a field the EM has let them move as they like.
        if problem.graph is None or change_between(before, state) < _MANY_MOVE:
            break
    if sites is not None:
        offsets = SiteMeans.at(sites.sites, sites.by_cluster(z, unit_scale))
    fit, visit_noise = _with_visit_noise(fit.refined(pooled, state.parameters.noise, offsets))
    if sites is not None:
        sites = sites.end(fit, z, unit_scale)
        problem = replace(problem, measurements=sites.adjust(problem.measurements))
        state = replace(state, pooled=problem.measurements.pool(z))
        pooled = _pooled(state, problem)
    known_sites = None if sites is None else sites.by_cluster(z, unit_scale)
    unit = _score_unit(fit, reference_of(outcome, controls), scale)
    marginal = MarginalStager.of(fit, unit, visit_noise, known_sites)
    # Placed as anybody else would be, from what the model keeps, for the same answer.
    groups, visits = groups_of(timeline, controls), None if sites is None else sites.sites
    placed = marginal.place(timeline, *sums_of(state), groups, design, visits)
    found = _shown(state.parameters, placed, pooled)
    # Origin and unit are those of the stages as they are shown.
    centre, spread = _unit_of(found, outcome, controls, scale)
    marginal = replace(marginal, centre=centre, spread=spread)
    if sites is not None:
        curves = found.trajectories.evaluate(timeline.scores(found.speeds, found.shifts))
        reference = reference_of(outcome, controls)
        sites = sites.with_levels(problem.measurements, curves, z, reference)
    return Answer(
        state,
        problem,
        found,
        marginal.errors(placed),
        centre,
        spread,
        fit.direction_is_clear,
        fit.climb.converged,
        marginal,
        sites,
        visit_series(marginal, placed, *sums_of(state)).lines(),
    )


def reference_of(outcome: Outcome, controls: BoolArray | None) -> BoolArray:
    """Visits whose scores have mean 0 and spread 1 in the published scale: controls', or all."""
    if controls is not None and controls.sum() > 1:
        return controls
    return np.ones(len(outcome.problem.timeline.times), dtype=bool)


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
    return PooledMeans.from_products(*sums_of(state), z, squares)


def sums_of(state: State) -> tuple[Array, Array]:
    """Sums and weights of the clusters at every visit."""
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


def _score_unit(fit: MarginalFit, reference: BoolArray, scale: ScoreScale) -> ScoreUnit:
    """Origin and unit of the user's score, and how they hang on what was estimated."""
    problem, posterior = fit.climb.problem, fit.climb.evaluation.posterior
    if scale == "controls":
        return unit_of_controls(problem, posterior, reference)
    return unit_of_years(problem, posterior)


def _unit_of(
    found: Parameters, outcome: Outcome, controls: BoolArray | None, scale: ScoreScale
) -> tuple[float, float]:
    """Origin and unit of the user's score, from the stages and curves that are shown."""
    timeline = outcome.problem.timeline
    groups, reference = groups_of(timeline, controls), reference_of(outcome, controls)
    scores = timeline.scores(found.speeds, found.shifts)
    if scale == "controls":
        return float(np.mean(scores[reference])), float(np.std(scores[reference])) or 1.0
    centre = float(np.min(found.trajectories.onset(scores)))
    if not timeline.has_follow_up:
        return centre, float(np.std(scores)) or 1.0
    # Of those who are no controls, or of all without controls.
    usual_speed = float(found.speeds[groups == groups.max()].mean())
    return centre, usual_speed / timeline.unit
