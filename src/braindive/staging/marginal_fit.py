"""The marginal fit: people differ, persistently, and nobody's stage is known for sure.

The EM takes a person's thin cortex for disease, and every stage for known with the weight of
thousands of independent vertices. Here the mean of cluster k at visit j of subject i is
f_k(s_ij) + u_ik + e_ijk with u_i ~ N(0, B) and e_ij ~ N(0, E); stages have the distribution of the
population and are integrated out. Curves, B, E and the population are estimated jointly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.curves import Bounds, Curves
from braindive.dive.em import Parameters
from braindive.dive.initial import CLEAR
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Normal, Priors
from braindive.dive.stages import find_stages, fit_stages
from braindive.dive.starts import CLEAR_ODDS
from braindive.dive.timeline import Timeline, evenly
from braindive.dive.trajectories import search_trajectories
from braindive.staging.covariance import CorrelatedStageProblem, Covariance
from braindive.staging.likelihood import COARSE, FINE, Points, Posterior, Rule
from braindive.staging.optimum import EXACTLY_THERE, Climb, climb, look
from braindive.staging.packing import Packing
from braindive.staging.population import Population, StagePrior
from braindive.staging.weak_priors import WeakPriors

# Subjects on whom starts are compared, and then those of the fine points before all are taken:
# choices that bound the cost; the last steps always take everybody.
_FEW_SUBJECTS, _MANY_SUBJECTS = 300, 1000
# Steps after which only the best start of each direction goes on, most coarse and fine steps, and
# most steps with everybody where there are more than many. Choices.
_SCREENING, _COARSE_STEPS, _FINE_STEPS, _LAST_STEPS = 8, 150, 300, 15
# Most searches for other modes of the subjects' stages, each followed by a climb; a choice.
_SEARCHES = 6
# Steps of the EM that E and B take at once, where they are not climbed. A choice.
_COVARIANCE_STEPS = 5
# Gain in log-likelihood from other modes for which climbing goes on. A choice.
_WORTH_CLIMBING = 0.5
# Squared length of the gradient in standard errors at which a coarse climb ends. A choice.
_ON_THE_WAY = 0.03
# Fewer controls, or others, than this have no distribution of their own. A choice.
_LEAST_GROUP = 8
# Speeds and spreads from which a fit starts: controls at 60 % of the others' speed. Choices.
_LOG_SPEED_MEANS, _LOG_SPEED_SD = (-0.5, -0.08), 0.4
# Spread of the log speed where speeds do not vary: small enough to be none.
_NO_SPREAD = 1e-3
# Standard deviations from the mean of a prior of the user's within which a fit begins. A choice.
_ALLOWED = 3.0
# Least variance between people from which a fit begins, as a share of that within; a choice.
_LEAST_BETWEEN = 0.01
# Longest course of a disease in multiples of the change that one subject shows: keeps the start
# finite where nobody changes. A choice.
_LONGEST_COURSE = 30.0


@dataclass(frozen=True)
class MarginalFit:
    """Where the marginal fit stands.

    Parameters
    ----------
    climb : Climb
        Near the optimum, and at it when refined.
    packing, priors : Packing, WeakPriors
        What was climbed.
    direction_is_clear : bool
        Whether the other direction of the disease is ruled out.
    """

    climb: Climb
    packing: Packing
    priors: WeakPriors
    direction_is_clear: bool = True

    def refined(self, pooled: PooledMeans, noise: Array) -> MarginalFit:
        """Climb to the optimum with fine points, on means of slightly different clusters.

        With many of the subjects first, and then with all.

        Parameters
        ----------
        pooled : PooledMeans
            Cluster means of every visit.
        noise : (n_clusters,)
            Of a vertex.
        """
        everyone = replace(self.climb.problem, pooled=pooled, noise=noise)
        n_subjects, posterior = everyone.timeline.n_subjects, self.climb.evaluation.posterior
        if n_subjects <= _MANY_SUBJECTS:
            return self._go_on(everyone, posterior, _FINE_STEPS)
        many = evenly(np.arange(n_subjects), _MANY_SUBJECTS)
        nearly = self._go_on(everyone.select(many), posterior.select(many), _FINE_STEPS)
        return nearly._go_on(everyone, posterior, _LAST_STEPS)

    def seen_by(self, everyone: CorrelatedStageProblem) -> MarginalFit:
        """Return the same fit with the posteriors of other subjects."""
        here = self.climb
        points = points_at(everyone, *find_stages(everyone, here.known_shifts), COARSE)
        there = look(everyone, here.vector, points, self.packing, self.priors)
        return replace(self, climb=replace(there, inverse=self._inverse(len(there.gradients))))

    def _go_on(
        self, problem: CorrelatedStageProblem, posterior: Posterior, steps: int
    ) -> MarginalFit:
        """Climb with fine points that begin from what is known of where subjects are."""
        here = climb(
            self.packing.unpack(self.climb.vector, problem),
            posterior.lay_points(problem.prior, FINE),
            self.packing,
            self.priors,
            FINE,
            steps,
            self._inverse(problem.timeline.n_subjects),
            near=np.inf,
            there=EXACTLY_THERE,
        )
        return replace(self, climb=here)

    def _inverse(self, n_subjects: int) -> Array | None:
        """Inverse of the Hessian for so many subjects, with whose number the curvature grows.

        None where subjects are so many that their own gradients tell it better.
        """
        here = self.climb
        if n_subjects > _MANY_SUBJECTS:
            return None
        return None if here.inverse is None else here.inverse * (len(here.gradients) / n_subjects)


@dataclass(frozen=True)
class _Start:
    """Curves and stages to begin from."""

    trajectories: Curves
    speeds: Array
    shifts: Array


def groups_of(
    timeline: Timeline, controls: BoolArray | None, least: int = _LEAST_GROUP
) -> IntArray:
    """Group of each subject: 0 for controls and 1 for others, or 0 for all.

    A control is who is one at every visit. Groups of less than the least size are none.
    """
    everyone = np.zeros(timeline.n_subjects, dtype=int)
    if controls is None:
        return everyone
    is_control = timeline.by_subject(controls.astype(int)) == timeline.n_visits_of_subject
    fewest = min(int(is_control.sum()), int((~is_control).sum()))
    return np.where(is_control, 0, 1) if fewest >= least else everyone


def fit_marginal(
    pooled: PooledMeans,
    timeline: Timeline,
    parameters: Parameters,
    priors: Priors,
    controls: BoolArray | None,
) -> MarginalFit:
    """Fit the marginal model to pooled means, roughly: `refined` takes it to the optimum.

    Parameters
    ----------
    pooled : PooledMeans
        Cluster means of every visit.
    timeline : Timeline
        When subjects were seen.
    parameters : Parameters
        What the EM found: one of the starts.
    priors : Priors
        Given by the user; whether speeds vary, and of the curves.
    controls : (n_visits,) bool or None
        Control visits.

    Returns
    -------
    MarginalFit
    """
    groups = groups_of(timeline, controls)
    speeds_vary = not priors.speed.is_fixed
    few = evenly(np.arange(timeline.n_subjects), _FEW_SUBJECTS)
    ways = _starts(pooled, timeline, parameters, groups)
    outcomes = [
        _follow_best(pooled, timeline, parameters, priors, groups, few, starts, speeds_vary)
        for starts in ways
    ]
    order = np.argsort([-outcome.climb.objective for outcome in outcomes])
    best, clear = outcomes[order[0]], True
    if len(outcomes) > 1:
        other = outcomes[order[1]]
        clear = best.climb.objective - other.climb.objective > CLEAR_ODDS
        if not clear:
            # What the likelihood leaves open, known controls decide.
            is_control = np.zeros(timeline.n_subjects, dtype=bool)
            if controls is not None:
                is_control = timeline.by_subject(controls.astype(int)) > 0
            leads = [_controls_lead(way, is_control[few]) for way in (best, other)]
            clear, best = max(leads) >= CLEAR, other if leads[1] > max(leads[0], CLEAR) else best
    if not timeline.has_follow_up:
        clear = best.climb.problem.prior.population.n_groups > 1
    everyone = replace(
        best.climb.problem,
        pooled=pooled,
        timeline=timeline,
        prior=replace(best.climb.problem.prior, groups=groups),
    )
    best = replace(best, direction_is_clear=clear)
    return best if len(few) == timeline.n_subjects else best.seen_by(everyone)


def _controls_lead(fit: MarginalFit, is_control: BoolArray) -> float:
    """By how many standard errors controls come before the others; 0 without both."""
    shifts = fit.climb.evaluation.posterior.mean()[1]
    controls, others = shifts[is_control], shifts[~is_control]
    if min(len(controls), len(others)) < 2:
        return 0.0
    error = np.sqrt(controls.var(ddof=1) / len(controls) + others.var(ddof=1) / len(others))
    return float((others.mean() - controls.mean()) / max(float(error), 1e-300))


def _follow_best(
    pooled: PooledMeans,
    timeline: Timeline,
    parameters: Parameters,
    priors: Priors,
    groups: IntArray,
    few: IntArray,
    starts: list[_Start],
    speeds_vary: bool,
) -> MarginalFit:
    """Climb from several starts on some of the subjects, and follow the best of them."""
    found = []
    for start in starts:
        problem = _set_out(pooled, timeline, parameters.noise, groups, start, speeds_vary)
        if priors.trajectory is not None:
            problem = replace(problem, trajectories=_within(priors.trajectory, problem))
        scores = timeline.scores(start.speeds, start.shifts)
        bounds: Bounds = type(start.trajectories).bounds(scores)
        packing = Packing.of(problem, bounds, speeds_vary)
        independent = Covariance.independent(problem.covariance.weights, problem.noise)
        weak = WeakPriors.of(problem, packing, bounds, independent.within, priors.trajectory)
        some = problem.select(few)
        points = points_at(some, start.speeds[few], start.shifts[few], COARSE)
        reached = climb(some, points, packing, weak, COARSE, max_iter=_SCREENING)
        found.append(MarginalFit(reached, packing, weak))
    best = max(found, key=lambda outcome: outcome.climb.objective)
    here, before = best.climb, -np.inf
    for _ in range(_SEARCHES):
        # Points follow a subject's posterior, and so cannot see another mode far away.
        if best.packing.within is None:
            here = _update_covariance(here, best.packing, best.priors)
        points = searched_points(here, COARSE)
        there = look(here.problem, here.vector, points, best.packing, best.priors)
        if there.objective < before + _WORTH_CLIMBING:
            break
        here = climb(
            here.problem,
            points,
            best.packing,
            best.priors,
            COARSE,
            _COARSE_STEPS,
            here.inverse,
            there=_ON_THE_WAY,
        )
        if here.objective < before + _WORTH_CLIMBING:
            break
        before = here.objective
    return replace(best, climb=here)


def _update_covariance(here: Climb, packing: Packing, priors: WeakPriors) -> Climb:
    """E and B of the EM, in a few steps: B = mean of E[u u'], by what the gradients say of it."""
    for _ in range(_COVARIANCE_STEPS):
        problem, at = here.problem, here.evaluation
        e, b = problem.covariance.within, problem.covariance.between
        by_within, by_between = at.by_within.sum(axis=0), at.by_between.sum(axis=0)
        e = e + 2 * e @ by_within @ e / len(problem.timeline.times)
        if problem.timeline.has_follow_up:
            b = b + 2 * b @ by_between @ b / problem.timeline.n_subjects
        problem = replace(problem, covariance=replace(problem.covariance, within=e, between=b))
        points = at.posterior.lay_points(problem.prior, COARSE)
        here = replace(look(problem, here.vector, points, packing, priors), inverse=here.inverse)
    return here


def _within(prior: Normal, problem: CorrelatedStageProblem) -> Curves:
    """Curves no further from a prior of the user's than it allows: a fit begins from them."""
    array = problem.trajectories.to_array()
    low, high = (np.asarray(prior.mean + reach * prior.sd) for reach in (-_ALLOWED, _ALLOWED))
    return type(problem.trajectories).from_array(np.clip(array, low, high))


def searched_points(here: Climb, rule: Rule) -> Points:
    """Points around the best modes of all subjects, wherever they are."""
    return points_at(here.problem, *find_stages(here.problem, here.known_shifts), rule)


def points_at(problem: CorrelatedStageProblem, speeds: Array, shifts: Array, rule: Rule) -> Points:
    """Points around the modes of the subjects, which are looked for from the given stages."""
    speeds, shifts = fit_stages(problem, speeds, shifts, max_iter=10)
    covariance = np.linalg.inv(problem.gradient(speeds, shifts)[1])
    mean = np.stack([np.log(speeds), shifts], axis=1)
    return Points.around(problem.prior, mean, covariance, rule)


def _starts(
    pooled: PooledMeans, timeline: Timeline, parameters: Parameters, groups: IntArray
) -> list[list[_Start]]:
    """Starts of each direction of the disease that is possible.

    The leading component of the cluster means in units of the noise within people, which
    persistent differences hardly spoil; and what the EM found.
    """
    shifts, z_value = _component_shifts(pooled, timeline)
    if not timeline.has_follow_up:
        # Time says nothing: controls come first, or else it is as the EM has it.
        gap = shifts[groups == groups.max()].mean() - shifts[groups == 0].mean()
        agree = np.corrcoef(shifts, parameters.shifts)[0, 1]
        shifts = shifts * (np.sign(gap if groups.any() else agree) or 1.0)
    doubtful = timeline.has_follow_up and abs(z_value) < CLEAR
    ones, found = np.ones(timeline.n_subjects), []
    for sign in (1.0, -1.0) if doubtful else (1.0,):
        starts = [_search(pooled, timeline, parameters, ones, sign * shifts)]
        same_way = float(np.corrcoef(sign * shifts, parameters.shifts)[0, 1]) >= 0
        if same_way:
            starts.append(_Start(parameters.trajectories, parameters.speeds, parameters.shifts))
        else:
            starts.append(
                _search(pooled, timeline, parameters, parameters.speeds, -parameters.shifts)
            )
        found.append(starts)
    return found


def _search(
    pooled: PooledMeans, timeline: Timeline, parameters: Parameters, speeds: Array, shifts: Array
) -> _Start:
    """Look for curves at given stages."""
    scores = timeline.scores(speeds, shifts)
    curve = type(parameters.trajectories)
    return _Start(search_trajectories(curve, pooled, scores, curve.bounds(scores)), speeds, shifts)


def _component_shifts(pooled: PooledMeans, timeline: Timeline) -> tuple[Array, float]:
    """Leading component of the means, moving forward in time at speed 1, and how sure that is."""
    means = _filled(pooled)
    root = np.linalg.cholesky(within_people(means, timeline))
    white = np.linalg.solve(root, (means - means.mean(axis=0)).T).T
    scores = np.linalg.svd(white, full_matrices=False)[0][:, 0]
    scores = scores / max(float(np.std(scores)), 1e-300)
    averages = timeline.by_subject(scores) / timeline.n_visits_of_subject
    power = float(np.sum(timeline.times**2))
    if not power:
        return averages, 0.0
    within = scores - averages[timeline.subject_of_visit]
    slope = float(within @ timeline.times) / power
    residual = within - slope * timeline.times
    freedom = max(len(scores) - timeline.n_subjects - 1, 1)
    z_value = slope / (np.sqrt(residual @ residual / freedom / power) + 1e-300)
    pace = max(abs(slope), 1.0 / _LONGEST_COURSE)
    return (np.sign(slope) or 1.0) * averages / pace, float(z_value)


def _filled(pooled: PooledMeans) -> Array:
    """Cluster means, with that of all visits where a visit does not show the cluster."""
    total = np.maximum(pooled.weights.sum(axis=0), 1e-300)
    average = (pooled.weights * pooled.means).sum(axis=0) / total
    return np.where(pooled.weights > 0, pooled.means, average)


def within_people(means: Array, timeline: Timeline) -> Array:
    """Covariance of visits around a line of each subject's own: a start for E.

    Where nobody was seen often enough for that, around the common slope, or around the mean.
    """
    times, of_visit = timeline.times, timeline.subject_of_visit
    counts = timeline.n_visits_of_subject
    centred = means - (timeline.by_subject(means) / counts[:, None])[of_visit]
    n_clusters = means.shape[1]
    variances = means.var(axis=0)
    # A cluster without vertices has no variance of its own.
    floor = 1e-6 * np.diag(np.maximum(variances, variances.mean()) + 1e-300)
    power = timeline.by_subject(times**2)
    own_slope = (counts > 2) & (power > 0)
    if int((counts[own_slope] - 2).sum()) >= 2 * n_clusters:
        slopes = (
            timeline.by_subject(times[:, None] * centred) / np.where(power > 0, power, 1)[:, None]
        )
        residuals = (centred - times[:, None] * slopes[of_visit])[own_slope[of_visit]]
        return np.asarray(residuals.T @ residuals / (counts[own_slope] - 2).sum() + floor)
    freedom = len(means) - timeline.n_subjects - 1
    if freedom >= n_clusters:
        slope = times @ centred / float(times @ times)
        residuals = centred - np.outer(times, slope)
        return np.asarray(residuals.T @ residuals / freedom + floor)
    return np.diag(0.1 * variances) + floor


def _set_out(
    pooled: PooledMeans,
    timeline: Timeline,
    noise: Array,
    groups: IntArray,
    start: _Start,
    speeds_vary: bool,
) -> CorrelatedStageProblem:
    """Covariances and population to begin with, and the origin and unit of the packed score."""
    last = groups == groups.max()
    centre = float(start.shifts[last].mean())
    unit = float(start.speeds[last].mean() if timeline.has_follow_up else start.shifts[last].std())
    shifts, speeds = (start.shifts - centre) / unit, start.speeds / unit
    trajectories = start.trajectories.rescored(centre, unit)
    own = [shifts[groups == group] for group in range(int(groups.max()) + 1)]
    means, spreads = (np.array([float(f(each)) for each in own]) for f in (np.mean, np.std))
    means[-1] = 0.0
    spreads = np.maximum(spreads, 0.05 * spreads.max() + 1e-6)
    if not timeline.has_follow_up:
        spreads[-1] = 1.0
    vary = speeds_vary and timeline.has_follow_up
    log_speeds = np.array(_LOG_SPEED_MEANS[-len(own) :]) if vary else np.zeros(len(own))
    population = Population(
        means,
        spreads,
        log_speeds,
        np.full(len(own), _LOG_SPEED_SD if vary else _NO_SPREAD),
        np.bincount(groups) / len(groups),
    )
    problem = CorrelatedStageProblem(
        pooled,
        timeline,
        trajectories,
        noise,
        StagePrior(population, groups),
        Covariance.independent(pooled.weights.mean(axis=0), noise),
    )
    return replace(problem, covariance=_moments(problem, speeds, shifts))


def _moments(problem: CorrelatedStageProblem, speeds: Array, shifts: Array) -> Covariance:
    """E and B from the spread of visits within people, and of people's mean residuals."""
    pooled, timeline = problem.pooled, problem.timeline
    within = within_people(_filled(pooled), timeline) + problem.covariance.within
    residuals = np.where(pooled.weights > 0, problem.residuals(speeds, shifts), 0.0)
    averages = timeline.by_subject(residuals) / timeline.n_visits_of_subject[:, None]
    between = averages.T @ averages / len(averages)
    between = between - within * np.mean(1 / timeline.n_visits_of_subject)
    # In units of E, B is at least a little, and in no direction negative.
    root = np.linalg.cholesky(within)
    values, vectors = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, between).T))
    turned = root @ vectors
    between = (turned * np.maximum(values, _LEAST_BETWEEN)) @ turned.T
    return Covariance(within, between, problem.covariance.weights)


def moment_problem(
    pooled: PooledMeans,
    timeline: Timeline,
    trajectories: Curves,
    noise: Array,
    speeds: Array,
    shifts: Array,
) -> CorrelatedStageProblem:
    """Return subjects at known stages, with covariances of their residuals by moments."""
    log_speeds = np.log(speeds)
    population = Population(
        np.array([shifts.mean()]),
        np.array([shifts.std() + 1e-6]),
        np.array([log_speeds.mean()]),
        np.array([log_speeds.std() + 1e-6]),
        np.ones(1),
    )
    problem = CorrelatedStageProblem(
        pooled,
        timeline,
        trajectories,
        noise,
        StagePrior(population, np.zeros(timeline.n_subjects, dtype=int)),
        Covariance.independent(pooled.weights.mean(axis=0), noise),
    )
    return replace(problem, covariance=_moments(problem, speeds, shifts))
