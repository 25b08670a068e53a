"""The EM algorithm of DIVE: theta, sigma, alpha and beta, then D, lambda and z, until they stay.

Between two passes over the values everything but z is brought to its optimum on the pooled
measurements, which are tiny.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.dive.convergence import Monitor
from braindive.dive.curves import choose
from braindive.dive.e_step import NOISE_FLOOR, carried, e_step, gather, pool
from braindive.dive.joint import joint_step
from braindive.dive.problem import Parameters, Problem, State, log_prior
from braindive.dive.stages import StageProblem, fit_stages, search_shifts, shift_grid
from braindive.dive.timeline import Timeline
from braindive.dive.trajectories import Sums, fit_trajectories, search_trajectories

# Least share of what varies around a cluster's curve that is noise and no difference between
# vertices; a choice that only cohorts without noise meet.
_LEAST_NOISE = 1e-6
# A cluster whose responsibilities add up to less than this many vertices is empty, and keeps the
# curve and noise it had; a choice.
_EMPTY = 1e-3
# First passes in which curves, and subjects, are also searched for on a grid, because their losses
# have several minima; and every how many passes subjects are searched for again. Choices.
_SEARCHING = (2, 5)
_LOOK_AGAIN = 10
# Few labels change when less than this share of the responsibilities does. A choice.
_FEW = 0.01

Leap = Callable[[Problem, Parameters, State, Monitor], Parameters | None]
"""Given the problem, the parameters from the M-step, the state before it and the monitor, returns
better parameters or None."""


def run_em(
    problem: Problem,
    state: State,
    monitor: Monitor,
    callback: Callable[[State, Monitor], None] | None = None,
    leap: Leap | None = None,
) -> State:
    """Iterate M-step and E-step until the monitor says stop.

    Parameters
    ----------
    problem : Problem
        What to fit.
    state : State
        Where to begin.
    monitor : Monitor
        Records every iteration and decides when to stop.
    callback : callable, optional
        Called with the state and the monitor after each iteration.
    leap : callable, optional
        Better parameters than those of the M-step. An iteration in which they turn out worse is
        taken back.

    Returns
    -------
    State
        The last one; its responsibilities belong to its parameters.
    """
    if monitor.reason:
        return state
    z = state.responsibilities
    sums = gather(problem, z, *state.pooled) if state.pooled else pool(problem, z)
    while not monitor.reason:
        parameters = m_step(sums, problem, state.parameters, monitor.n_iter)
        ahead = leap(problem, parameters, state, monitor) if leap is not None else None
        few_change = bool(monitor.changes) and monitor.changes[-1] < _FEW
        there, sums_there, objective = e_step(problem, ahead or parameters, state, few_change)
        change = change_between(state, there)
        if ahead is not None and monitor.objectives and objective < monitor.objectives[-1]:
            monitor.take_back(change)
        else:
            state, sums = there, sums_there
            monitor.update(objective, change)
        if callback is not None:
            callback(state, monitor)
    return state


def change_between(before: State, after: State) -> float:
    """Mean change of the responsibilities: 1 where every vertex has another cluster."""
    z, other = after.responsibilities, before.responsibilities
    return float(np.abs(z - other).sum(axis=1).mean() / 2)


def m_step(
    sums: Sums,
    problem: Problem,
    parameters: Parameters,
    n_iter: int,
    tol: float = 1e-9,
    share: float = 0.001,
    steps: int = 10,
) -> Parameters:
    """Best theta, sigma, alpha and beta for the given pooled measurements.

    One round of updates in turn, now and then with a search for other valleys. Then theta, alpha
    and beta together with sigma in between, until a round gains less than `tol` of the objective or
    less than the given share of what all have gained: the next pass goes on from there. Curves
    take so many steps at most in their own turn.
    """
    occupied = sums.weights.sum(axis=0) > _EMPTY * len(problem.timeline.times)
    own = own_variance(sums, problem.timeline, parameters)
    here = update_trajectories(sums, problem, parameters, occupied, n_iter < _SEARCHING[0], steps)
    here = update_noise(sums, problem, here, occupied, own)
    if not problem.staging:
        return carried(parameters, here, problem.timeline)
    search = n_iter < _SEARCHING[1] or n_iter % _LOOK_AGAIN == 0
    here = update_stages(sums, problem, here, search)
    here = update_noise(sums, problem, here, occupied, own)

    first = value = m_step_objective(sums, problem, here)
    damping = 1e-3
    for _ in range(50):
        stage = stage_problem(sums, problem, here)
        trajectories, speeds, shifts = joint_step(
            stage, here.speeds, here.shifts, problem.bounds, problem.priors.trajectory, damping
        )
        there = replace(here, trajectories=choose(occupied, trajectories, here.trajectories))
        stage = stage_problem(sums, problem, there)
        # Keep a subject's stage if the joint step raised its loss; then every subject takes one
        # Gauss-Newton step of its own.
        stays = stage.loss(here.speeds, here.shifts) <= stage.loss(speeds, shifts)
        speeds = np.where(stays, here.speeds, speeds)
        shifts = np.where(stays, here.shifts, shifts)
        speeds, shifts = fit_stages(stage, speeds, shifts, max_iter=1)
        there = replace(there, speeds=speeds, shifts=shifts)
        there = update_noise(sums, problem, there, occupied, own)
        value_there = m_step_objective(sums, problem, there)
        gain = value_there - value
        if gain > 0:
            here, value, damping = there, value_there, max(damping / 10, 1e-9)
        else:
            damping *= 10
        nothing = tol * (1 + abs(value))
        if -nothing <= gain <= max(nothing, share * (value - first)) or damping > 1e6:
            break
    return carried(parameters, here, problem.timeline)


def m_step_objective(sums: Sums, problem: Problem, parameters: Parameters) -> float:
    """Expected log-posterior of theta, sigma, alpha and beta given z, up to a constant."""
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    variance = sums.variance(parameters.trajectories.evaluate(scores))
    misfit = np.log(parameters.noise) + variance / (2 * parameters.noise**2)
    return log_prior(problem, parameters) - float(sums.weights.sum(axis=0) @ misfit)


def update_trajectories(
    sums: Sums,
    problem: Problem,
    parameters: Parameters,
    occupied: BoolArray,
    search: bool,
    steps: int = 10,
) -> Parameters:
    """theta_k = argmin sum_ln z_lk (V_ln - f(s_n; theta_k))^2 / 2 sigma_k^2 - log p(theta_k)."""
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    starts = [parameters.trajectories]
    if search:
        curve = type(parameters.trajectories)
        starts.append(search_trajectories(curve, sums, scores, problem.bounds))
    prior = problem.priors.trajectory
    found = fit_trajectories(
        sums, scores, parameters.noise, starts, problem.bounds, prior, max_iter=steps
    )
    return replace(parameters, trajectories=choose(occupied, found, parameters.trajectories))


def update_noise(
    sums: Sums,
    problem: Problem,
    parameters: Parameters,
    occupied: BoolArray,
    own: Array | float = 0.0,
) -> Parameters:
    """sigma_k^2 = sum_ln z_lk (V_ln - f(s_n; theta_k))^2 / sum_ln z_lk - own_k.

    The last is what vertices' own coefficients add where they differ, and else 0.
    """
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    variance = sums.variance(parameters.trajectories.evaluate(scores))
    noise = np.sqrt(noise_variance(variance, own))
    return replace(parameters, noise=np.where(occupied, noise, parameters.noise))


def noise_variance(variance: Array, own: Array | float) -> Array:
    """Variance of a measurement around its vertex's own curve, from that around the cluster's."""
    return np.maximum(np.maximum(variance - own, _LEAST_NOISE * variance), NOISE_FLOOR**2)


def own_variance(sums: Sums, timeline: Timeline, parameters: Parameters) -> Array:
    """How much vertices' own coefficients add to the variance around the cluster's curve."""
    if parameters.vertex_covariance is None:
        return np.zeros(len(parameters.noise))
    scores = timeline.scores(parameters.speeds, parameters.shifts)
    around = sums.variance(parameters.trajectories.evaluate(scores))
    return np.maximum(around - parameters.noise**2, 0.0)


def update_stages(sums: Sums, problem: Problem, parameters: Parameters, search: bool) -> Parameters:
    """alpha_i, beta_i = argmin of the misfit of subject i's visits - log p(alpha_i, beta_i)."""
    stage = stage_problem(sums, problem, parameters)
    speeds, shifts = parameters.speeds, parameters.shifts
    if search:
        shifts = search_shifts(stage, speeds, shifts, shift_grid(shifts))
    speeds, shifts = fit_stages(stage, speeds, shifts, max_iter=5)
    return replace(parameters, speeds=speeds, shifts=shifts)


def stage_problem(sums: Sums, problem: Problem, parameters: Parameters) -> StageProblem:
    """Losses of the subjects' speeds and shifts at these trajectories."""
    return StageProblem(
        sums,
        problem.timeline,
        parameters.trajectories,
        parameters.noise,
        problem.priors.speed,
        problem.priors.shift,
    )
