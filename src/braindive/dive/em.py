"""The EM algorithm of DIVE: theta, sigma, alpha and beta, then D, lambda and z, until they stay.

Between two passes over the values everything but z is brought to its optimum on the pooled
measurements, which are tiny.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from braindive.arrays import Array, BoolArray
from braindive.dive.convergence import Monitor
from braindive.dive.curves import Bounds, Curves, choose
from braindive.dive.exact import VertexSums
from braindive.dive.field import (
    estimate_strength,
    expectation,
    log_evidence,
    neighbour_field,
    start_strength,
)
from braindive.dive.joint import joint_step
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Priors
from braindive.dive.stages import StageProblem, fit_stages, search_shifts, shift_grid
from braindive.dive.timeline import Timeline
from braindive.dive.trajectories import Sums, fit_trajectories, search_trajectories
from braindive.values.protocol import Products

# Least noise, as a share of the spread of all values: about the precision of single-precision
# measurements.
_NOISE_FLOOR = 1e-5
# A cluster whose responsibilities add up to less than this many vertices is empty, and keeps the
# curve and noise it had; a choice.
_EMPTY = 1e-3
# First passes in which curves, and subjects, are also searched for on a grid, because their losses
# have several minima; and every how many passes subjects are searched for again. Choices.
_SEARCHING = (2, 5)
_LOOK_AGAIN = 10
# The field: growth of lambda in a pass while many labels change and when few do (less than the
# given share of vertices), most updates of z for each pass, and the share of the old z that is
# kept. Measured on a simulated cortex: a lambda that grows at once froze wrong labels (agreement
# .972 instead of .983), and updates without damping went round in circles.
_GROWTH = (1.5, 3.0)
_FEW = 0.01
_SWEEPS = 10
_KEEP = 0.5
# Shares of lambda at which z is settled in turn when it begins from the data alone: at full
# strength at once, islands of wrong labels hold themselves (agreement .913 in place of .981 on a
# noisy cortex).
_STRENGTHENING = (1 / 3, 2 / 3, 1.0)


@dataclass(frozen=True)
class Parameters:
    """Everything that is estimated but z, in internal units."""

    trajectories: Curves
    noise: Array
    speeds: Array
    shifts: Array
    strength: float | None = None


@dataclass(frozen=True)
class Problem:
    """What a fit is given.

    Parameters
    ----------
    measurements : Products
        The products of the values.
    timeline : Timeline
        When subjects were seen.
    priors : Priors
        Priors, with the shift's in score units.
    bounds : Bounds
        Of the trajectories.
    graph : sparse (n_vertices, n_vertices) or None
        Neighbours; None for no Markov random field.
    strength : float or None
        lambda where it is fixed; None to estimate it.
    fixed : (n_vertices, n_clusters) or None
        Responsibilities where they are fixed.
    staging : bool
        Whether alpha and beta are estimated.
    exact : bool
        Whether the M-step sums over vertices instead of using pooled means.
    """

    measurements: Products
    timeline: Timeline
    priors: Priors
    bounds: Bounds
    graph: csr_array | None = None
    strength: float | None = None
    fixed: Array | None = None
    staging: bool = True
    exact: bool = False


@dataclass(frozen=True)
class State:
    """Where a fit stands after an iteration: enough to report it, to keep it and to go on.

    Parameters
    ----------
    parameters : Parameters
        theta, sigma, alpha, beta, lambda.
    responsibilities : (n_vertices, n_clusters)
        z.
    log_densities : (n_vertices, n_clusters) or None
        D at these parameters; None before the first iteration.
    settled : (n_vertices, n_clusters) or None
        z after its neighbours have adapted to it, which the next iteration's field is made from.
    pooled : tuple of (n_visits, n_clusters), or None
        Sums of the measurements and of the weights over z, as the iteration found them; None
        before the first one. Pooled anew they would differ in the last digits.
    """

    parameters: Parameters
    responsibilities: Array
    log_densities: Array | None = None
    settled: Array | None = None
    pooled: tuple[Array, Array] | None = None


def run_em(
    problem: Problem,
    state: State,
    monitor: Monitor,
    callback: Callable[[State, Monitor], None] | None = None,
    leap: Callable[[Problem, Parameters, State, Monitor], Parameters | None] | None = None,
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
        Given the problem, the parameters from the M-step, the state before it and the monitor,
        returns better parameters or None. An iteration in which they turn out worse is taken back.

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
        before = state.responsibilities
        parameters = m_step(sums, problem, state.parameters, monitor.n_iter)
        ahead = leap(problem, parameters, state, monitor) if leap is not None else None
        few_change = bool(monitor.changes) and monitor.changes[-1] < _FEW
        there, sums_there, objective = e_step(
            problem, ahead or parameters, state, _GROWTH[few_change]
        )
        change = float(np.abs(there.responsibilities - before).sum(axis=1).mean() / 2)
        if ahead is not None and objective < monitor.objectives[-1]:
            monitor.take_back(change)
        else:
            state, sums = there, sums_there
            monitor.update(objective, change)
        if callback is not None:
            callback(state, monitor)
    return state


def pool(problem: Problem, responsibilities: Array) -> Sums:
    """Pool the measurements over vertices, in the fast form or in the exact one."""
    return gather(problem, responsibilities, *problem.measurements.pool(responsibilities))


def gather(problem: Problem, responsibilities: Array, sums: Array, weights: Array) -> Sums:
    """What the M-step needs, from sums over vertices."""
    if problem.exact:
        return VertexSums(problem.measurements, responsibilities, weights)
    squares = problem.measurements.squares
    return PooledMeans.from_products(sums, weights, responsibilities, squares)


def m_step(
    sums: Sums,
    problem: Problem,
    parameters: Parameters,
    n_iter: int,
    tol: float = 1e-9,
    share: float = 0.001,
) -> Parameters:
    """Best theta, sigma, alpha and beta for the given pooled measurements.

    One round of updates in turn, now and then with a search for other valleys. Then theta, alpha
    and beta together with sigma in between, until a round gains less than `tol` of the objective or
    less than the given share of what all have gained: the next pass goes on from there.
    """
    occupied = sums.weights.sum(axis=0) > _EMPTY * len(problem.timeline.times)
    here = update_trajectories(sums, problem, parameters, occupied, n_iter < _SEARCHING[0])
    here = update_noise(sums, problem, here, occupied)
    if not problem.staging:
        return here
    search = n_iter < _SEARCHING[1] or n_iter % _LOOK_AGAIN == 0
    here = update_stages(sums, problem, here, search)
    here = update_noise(sums, problem, here, occupied)

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
        there = update_noise(sums, problem, there, occupied)
        value_there = m_step_objective(sums, problem, there)
        gain = value_there - value
        if gain > 0:
            here, value, damping = there, value_there, max(damping / 10, 1e-9)
        else:
            damping *= 10
        nothing = tol * (1 + abs(value))
        if -nothing <= gain <= max(nothing, share * (value - first)) or damping > 1e6:
            break
    return here


def m_step_objective(sums: Sums, problem: Problem, parameters: Parameters) -> float:
    """Expected log-posterior of theta, sigma, alpha and beta given z, up to a constant."""
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    variance = sums.variance(parameters.trajectories.evaluate(scores))
    misfit = np.log(parameters.noise) + variance / (2 * parameters.noise**2)
    return log_prior(problem, parameters) - float(sums.weights.sum(axis=0) @ misfit)


def log_prior(problem: Problem, parameters: Parameters) -> float:
    """Log-density of the priors at the parameters, up to a constant."""
    priors, value = problem.priors, 0.0
    if problem.staging:
        value += float(np.sum(priors.speed.log_density(parameters.speeds)))
        value += float(np.sum(priors.shift.log_density(parameters.shifts)))
    if priors.trajectory is not None:
        value += float(np.sum(priors.trajectory.log_density(parameters.trajectories.to_array())))
    return value


def update_trajectories(
    sums: Sums, problem: Problem, parameters: Parameters, occupied: BoolArray, search: bool
) -> Parameters:
    """theta_k = argmin sum_ln z_lk (V_ln - f(s_n; theta_k))^2 / 2 sigma_k^2 - log p(theta_k)."""
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    starts = [parameters.trajectories]
    if search:
        curve = type(parameters.trajectories)
        starts.append(search_trajectories(curve, sums, scores, problem.bounds))
    prior = problem.priors.trajectory
    found = fit_trajectories(
        sums, scores, parameters.noise, starts, problem.bounds, prior, max_iter=10
    )
    return replace(parameters, trajectories=choose(occupied, found, parameters.trajectories))


def update_noise(
    sums: Sums, problem: Problem, parameters: Parameters, occupied: BoolArray
) -> Parameters:
    """sigma_k^2 = sum_ln z_lk (V_ln - f(s_n; theta_k))^2 / sum_ln z_lk."""
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    variance = sums.variance(parameters.trajectories.evaluate(scores))
    noise = np.sqrt(np.maximum(variance, _NOISE_FLOOR**2))
    return replace(parameters, noise=np.where(occupied, noise, parameters.noise))


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


def log_densities(distances: Array, counts: Array, noise: Array) -> Array:
    """D_lk = -n_l / 2 log(2 pi sigma_k^2) - distance_lk / (2 sigma_k^2)."""
    constant = -0.5 * np.log(2 * np.pi * noise**2)
    return counts[:, None] * constant - distances / (2 * noise**2)


@dataclass(frozen=True)
class Assign:
    """z of some vertices from their distances to the curves: the E-step on a block."""

    noise: Array

    def __call__(self, distances: Array, counts: Array, field: Array | None) -> tuple[Array, Array]:
        """Return D and z, each (n, n_clusters)."""
        density = log_densities(distances, counts, self.noise)
        return density, expectation(density, field)


def e_step(
    problem: Problem, parameters: Parameters, state: State, growth: float
) -> tuple[State, Sums, float]:
    """D, z and the pooled measurements from one read of the values, then lambda for the next.

    Without the Markov random field the objective is the log-posterior. With it, it is a
    pseudo-likelihood, in which each vertex is judged given its neighbours.
    """
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    curves = parameters.trajectories.evaluate(scores)
    if problem.fixed is not None:
        density, z = densities(problem, parameters, curves), problem.fixed
        value = float(np.vdot(z, density)) + log_prior(problem, parameters)
        pooled = state.pooled or problem.measurements.pool(z)
        return State(parameters, z, density, None, pooled), gather(problem, z, *pooled), value
    if problem.graph is None:
        field, settled = None, None
        density, z, total, weights = problem.measurements.sweep(curves, Assign(parameters.noise))
        pooled = total, weights
    elif state.settled is None or parameters.strength is None:
        # The first strength needs D, so here z is found between two reads.
        density, before = densities(problem, parameters, curves), state.responsibilities
        strength = problem.strength
        if strength is None:
            strength = start_strength(density, before, problem.graph)
        settled, field = settle(density, before, problem.graph, strength)
        z, pooled = settled, problem.measurements.pool(settled)
        parameters = replace(parameters, strength=strength)
    else:
        strength = parameters.strength
        field = neighbour_field(state.settled, problem.graph, strength)
        assign = Assign(parameters.noise)
        density, z, total, weights = problem.measurements.sweep(curves, assign, field)
        pooled = total, weights
        if problem.strength is None:
            strength = estimate_strength(density, z, problem.graph, strength, growth)
        settled, _ = settle(density, z, problem.graph, strength)
        parameters = replace(parameters, strength=strength)
    value = float(log_evidence(density, field).sum()) + log_prior(problem, parameters)
    return State(parameters, z, density, settled, pooled), gather(problem, z, *pooled), value


def relabel(problem: Problem, parameters: Parameters, state: State) -> State:
    """Z that belongs to other parameters, found from the data first and then with its neighbours.

    One read of the values, and with a Markov random field two.
    """
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    curves = parameters.trajectories.evaluate(scores)
    if problem.fixed is not None:
        return State(parameters, problem.fixed, state.log_densities, None, state.pooled)
    if problem.graph is None:
        density, z, *pooled = problem.measurements.sweep(curves, Assign(parameters.noise))
        return State(parameters, z, density, None, (pooled[0], pooled[1]))
    density = densities(problem, parameters, curves)
    z = expectation(density, None)
    for share in _STRENGTHENING:
        z, _ = settle(density, z, problem.graph, share * (parameters.strength or 0.0))
    return State(parameters, z, density, z, problem.measurements.pool(z))


def densities(problem: Problem, parameters: Parameters, curves: Array) -> Array:
    """D of all vertices, from one read of the values."""
    distances = problem.measurements.distances(curves)
    return log_densities(distances, problem.measurements.counts, parameters.noise)


def settle(
    density: Array, before: Array, graph: csr_array, strength: float, tol: float = 1e-4
) -> tuple[Array, Array]:
    """Update z a few times at the same D and lambda, and return it with its neighbours' field.

    Neighbours that are updated at the same time can swap labels for ever, so from the second
    update on half of the old z is kept.
    """
    after = before
    for sweep in range(_SWEEPS):
        field = neighbour_field(after, graph, strength)
        update = expectation(density, field)
        if sweep:
            update = _KEEP * after + (1 - _KEEP) * update
        change = float(np.abs(update - after).sum(axis=1).mean() / 2)
        after = update
        if change < tol:
            break
    return after, field
