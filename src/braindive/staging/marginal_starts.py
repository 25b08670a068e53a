"""Where the marginal fit begins: curves, stages, covariances and population, from moments."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.curves import Curves
from braindive.dive.initial import CLEAR
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Normal
from braindive.dive.problem import Parameters
from braindive.dive.timeline import Timeline
from braindive.dive.trajectories import search_trajectories
from braindive.staging.covariance import CorrelatedStageProblem, Covariance
from braindive.staging.population import Design, Population, StagePrior

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
class Start:
    """Curves and stages to begin from."""

    trajectories: Curves
    speeds: Array
    shifts: Array


def find_starts(
    pooled: PooledMeans, timeline: Timeline, parameters: Parameters, groups: IntArray
) -> list[list[Start]]:
    """Starts of each direction of the disease that is possible.

    The leading component of the cluster means in units of the noise within people, which
    persistent differences hardly spoil where they are small; the direction in which people change,
    which they do not spoil where they are large; and what the EM found.
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
        if timeline.has_follow_up:
            forward = sign * _change_shifts(pooled, timeline)
            starts.append(_search(pooled, timeline, parameters, ones, forward))
        same_way = float(np.corrcoef(sign * shifts, parameters.shifts)[0, 1]) >= 0
        if same_way:
            starts.append(Start(parameters.trajectories, parameters.speeds, parameters.shifts))
        else:
            starts.append(
                _search(pooled, timeline, parameters, parameters.speeds, -parameters.shifts)
            )
        found.append(starts)
    return found


def _search(
    pooled: PooledMeans, timeline: Timeline, parameters: Parameters, speeds: Array, shifts: Array
) -> Start:
    """Look for curves at given stages."""
    scores = timeline.scores(speeds, shifts)
    curve = type(parameters.trajectories)
    return Start(search_trajectories(curve, pooled, scores, curve.bounds(scores)), speeds, shifts)


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


def _change_shifts(pooled: PooledMeans, timeline: Timeline) -> Array:
    """Where people are along the direction of change, moving forward at speed 1.

    Were curves straight, m = a s + u + e, with a known from how people change on average. The best
    linear estimate of s is a' (B + E)^-1 m, up to a factor, and a' Cov(m)^-1 m is the same, since
    Cov(m) is B + E and a multiple of a a'.
    """
    means, times = _filled(pooled), timeline.times
    counts = timeline.n_visits_of_subject[:, None]
    averages = timeline.by_subject(means) / counts
    slope = times @ (means - averages[timeline.subject_of_visit]) / float(times @ times)
    away = averages - averages.mean(axis=0)
    covariance = away.T @ away / len(away)
    floor = 1e-6 * np.diag(np.maximum(np.diag(covariance), np.diag(covariance).mean()) + 1e-300)
    weights = np.linalg.solve(covariance + floor, slope)
    along = away @ weights
    # No further apart than the longest course, where hardly anybody changes.
    pace = max(float(slope @ weights), float(np.std(along)) / _LONGEST_COURSE, 1e-300)
    return np.asarray(along / pace)


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


def set_out(
    pooled: PooledMeans,
    timeline: Timeline,
    noise: Array,
    groups: IntArray,
    start: Start,
    speeds_vary: bool,
    design: Design | None = None,
    multipliers: Array | None = None,
) -> CorrelatedStageProblem:
    """Covariances and population to begin with, and the origin and unit of the packed score."""
    last = groups == groups.max()
    first = start.shifts if design is None else start.shifts - design.lead * start.speeds
    centre = float(first[last].mean())
    unit = float(start.speeds[last].mean() if timeline.has_follow_up else start.shifts[last].std())
    shifts, speeds = (start.shifts - centre) / unit, start.speeds / unit
    trajectories = start.trajectories.rescored(centre, unit)
    first = (first - centre) / unit
    own = [first[groups == group] for group in range(int(groups.max()) + 1)]
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
        None if design is None else design.no_effects(),
    )
    problem = CorrelatedStageProblem(
        pooled,
        timeline,
        trajectories,
        noise,
        StagePrior(population, groups, design),
        Covariance.independent(pooled.weights.mean(axis=0), noise),
        multipliers,
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


def within_prior(prior: Normal, problem: CorrelatedStageProblem) -> Curves:
    """Curves no further from a prior of the user's than it allows: a fit begins from them."""
    array = problem.trajectories.to_array()
    low, high = (np.asarray(prior.mean + reach * prior.sd) for reach in (-_ALLOWED, _ALLOWED))
    return type(problem.trajectories).from_array(np.clip(array, low, high))
