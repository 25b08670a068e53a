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
    settle,
    settle_anew,
    start_strength,
)
from braindive.dive.joint import joint_step
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Priors
from braindive.dive.stages import StageProblem, fit_stages, search_shifts, shift_grid
from braindive.dive.timeline import Timeline
from braindive.dive.trajectories import Sums, fit_trajectories, search_trajectories
from braindive.dive.vertices import (
    AssignDiffering,
    Scatter,
    carried_over,
    effects_of,
    estimate_covariance,
)
from braindive.values.coordinates import Coordinates
from braindive.values.protocol import Products, Swept

# Least noise, as a share of the spread of all values: about the precision of single-precision
# measurements.
NOISE_FLOOR = 1e-5
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
# The field: growth of lambda in a pass while many labels change and when few do (less than the
# given share of vertices). Measured on a simulated cortex: a lambda that grows at once froze wrong
# labels (agreement .972 instead of .983).
_GROWTH = (1.5, 3.0)
_FEW = 0.01


@dataclass(frozen=True)
class Parameters:
    """Everything that is estimated but z, in internal units.

    Where vertices differ, `noise` is that around a vertex's own curve, `vertex_covariance` is
    Psi, (n_clusters, n_parameters, n_parameters), and `shares` are the clusters' shares of the
    vertices; both are None where vertices are alike.
    """

    trajectories: Curves
    noise: Array
    speeds: Array
    shifts: Array
    strength: float | None = None
    vertex_covariance: Array | None = None
    shares: Array | None = None


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
    vertices_differ : bool
        Whether vertices have curves of their own around their cluster's.
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
    vertices_differ: bool = False


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
    own = own_variance(sums, problem.timeline, parameters)
    here = update_trajectories(sums, problem, parameters, occupied, n_iter < _SEARCHING[0])
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
    sums: Sums, problem: Problem, parameters: Parameters, occupied: BoolArray, own: Array
) -> Parameters:
    """sigma_k^2 = sum_ln z_lk (V_ln - f(s_n; theta_k))^2 / sum_ln z_lk - own_k.

    The last is what vertices' own coefficients add where they differ, and else 0.
    """
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    variance = sums.variance(parameters.trajectories.evaluate(scores))
    noise = np.sqrt(noise_variance(variance, own))
    return replace(parameters, noise=np.where(occupied, noise, parameters.noise))


def noise_variance(variance: Array, own: Array) -> Array:
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


def log_densities(distances: Array, counts: Array, noise: Array) -> Array:
    """D_lk = -n_l / 2 log(2 pi sigma_k^2) - distance_lk / (2 sigma_k^2)."""
    constant = -0.5 * np.log(2 * np.pi * noise**2)
    return counts[:, None] * constant - distances / (2 * noise**2)


@dataclass(frozen=True)
class Assign:
    """z of some vertices from their distances to the curves: the E-step on a block."""

    noise: Array
    fixed: bool = False

    def __call__(
        self, found: tuple[Array, ...], counts: Array, field: Array | None
    ) -> tuple[Array, Array, tuple[Array, ...]]:
        """Return D and z, each (n, n_clusters); z is the field itself where it is fixed."""
        density = log_densities(found[0].T, counts, self.noise)
        if self.fixed and field is not None:
            return density, field, ()
        return density, expectation(density, field), ()


def e_step(
    problem: Problem, parameters: Parameters, state: State, growth: float
) -> tuple[State, Sums, float]:
    """D, z and the pooled measurements from one read of the values, then lambda for the next.

    Without the Markov random field the objective is the log-posterior. With it, it is a
    pseudo-likelihood, in which each vertex is judged given its neighbours.
    """
    if problem.fixed is not None:
        swept, parameters = sweep(problem, parameters, problem.fixed, fixed=True)
        z, field, settled = problem.fixed, None, None
    elif problem.graph is None:
        field, settled = None, None
        swept, parameters = sweep(problem, parameters)
        z = swept.responsibilities
    elif state.settled is None or parameters.strength is None:
        # The first strength needs D, so here z is found between two reads.
        density, before = densities(problem, parameters), state.responsibilities
        strength = problem.strength
        if strength is None:
            strength = start_strength(density, before, problem.graph)
        settled, field = settle(density, before, problem.graph, strength)
        z = settled
        swept, parameters = sweep(problem, parameters, settled, fixed=True)
        parameters = replace(parameters, strength=strength)
    else:
        strength = parameters.strength
        field = neighbour_field(state.settled, problem.graph, strength)
        swept, parameters = sweep(problem, parameters, field)
        density, z = swept.log_densities, swept.responsibilities
        if problem.strength is None:
            strength = estimate_strength(density, z, problem.graph, strength, growth)
        settled, _ = settle(density, z, problem.graph, strength)
        parameters = replace(parameters, strength=strength)
    density, pooled = swept.log_densities, (swept.sums, swept.weights)
    if problem.fixed is not None:
        value = float(np.vdot(z, density))
    else:
        value = float(log_evidence(density, field, parameters.shares is not None).sum())
    value += log_prior(problem, parameters)
    return State(parameters, z, density, settled, pooled), gather(problem, z, *pooled), value


def sweep(
    problem: Problem, parameters: Parameters, field: Array | None = None, fixed: bool = False
) -> tuple[Swept, Parameters]:
    """One read of the values: D, z and pooled measurements, and how vertices differ given z.

    Parameters
    ----------
    problem, parameters
        What to fit, and where it stands.
    field : (n_vertices, n_clusters), optional
        What the neighbours say, or z itself where it is fixed.
    fixed : bool
        Whether z is given.
    """
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    if problem.vertices_differ and parameters.vertex_covariance is None:
        parameters = replace(parameters, vertex_covariance=_nothing(parameters))
    swept, parameters = sweep_vertices(problem.measurements, scores, parameters, field, fixed)
    if problem.vertices_differ and problem.graph is None and problem.fixed is None:
        # One vertex more in each, so that no cluster can vanish for ever.
        total = swept.responsibilities.sum(axis=0) + 1.0
        parameters = replace(parameters, shares=total / total.sum())
    return swept, parameters


def sweep_vertices(
    measurements: Products,
    scores: Array,
    parameters: Parameters,
    field: Array | None = None,
    fixed: bool = False,
) -> tuple[Swept, Parameters]:
    """D, z and pooled measurements, and where vertices differ sigma and Psi given z."""
    curves = parameters.trajectories.evaluate(scores)
    if parameters.vertex_covariance is None:
        return measurements.sweep(curves, Assign(parameters.noise, fixed), field), parameters
    derivatives = parameters.trajectories.jacobian(scores)
    design = Coordinates(curves, derivatives, None, measurements.dtype)
    effects = effects_of(parameters.vertex_covariance, design)
    shares = None if parameters.shares is None else np.log(parameters.shares)
    assign = AssignDiffering(parameters.noise, effects, shares, fixed)
    swept = measurements.sweep(curves, assign, field, derivatives)
    scatter = Scatter(*swept.more)
    covariance = estimate_covariance(scatter, design, parameters.vertex_covariance)
    noise = np.sqrt(np.maximum(scatter.variances(parameters.noise**2), NOISE_FLOOR**2))
    return swept, replace(parameters, noise=noise, vertex_covariance=covariance)


def with_covariance(
    measurements: Products, timeline: Timeline, parameters: Parameters, z: Array
) -> Parameters:
    """Return the same with how vertices differ, from one read where that is not known yet."""
    if parameters.vertex_covariance is not None:
        return parameters
    scores = timeline.scores(parameters.speeds, parameters.shifts)
    none = replace(parameters, vertex_covariance=_nothing(parameters))
    return sweep_vertices(measurements, scores, none, z, fixed=True)[1]


def _nothing(parameters: Parameters) -> Array:
    shape = parameters.trajectories.to_array().shape
    return np.zeros((*shape, shape[1]))


def carried(before: Parameters, after: Parameters, timeline: Timeline) -> Parameters:
    """Return parameters after a step; vertices differ by the same functions of the visits."""
    covariance = before.vertex_covariance
    if covariance is None:
        return after
    old, new = (
        each.trajectories.jacobian(timeline.scores(each.speeds, each.shifts))
        for each in (before, after)
    )
    return replace(after, vertex_covariance=carried_over(covariance, old, new))


def relabel(problem: Problem, parameters: Parameters, before: Array) -> State:
    """Z that belongs to other parameters, with a Markov random field not too near to that before.

    One read of the values, and with a Markov random field two.
    """
    if problem.fixed is not None:
        swept, parameters = sweep(problem, parameters, problem.fixed, fixed=True)
        z, settled = problem.fixed, None
    elif problem.graph is None:
        swept, parameters = sweep(problem, parameters)
        z, settled = swept.responsibilities, None
    else:
        density, strength = densities(problem, parameters), parameters.strength or 0.0
        z = settle_anew(density, before, problem.graph, strength)
        swept, parameters = sweep(problem, parameters, z, fixed=True)
        settled = z
    return State(parameters, z, swept.log_densities, settled, (swept.sums, swept.weights))


def densities(problem: Problem, parameters: Parameters) -> Array:
    """D of all vertices, from one read of the values."""
    if problem.vertices_differ:
        return sweep(problem, parameters)[0].log_densities
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    distances = problem.measurements.distances(parameters.trajectories.evaluate(scores))
    return log_densities(distances, problem.measurements.counts, parameters.noise)
