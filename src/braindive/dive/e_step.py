"""The E-step of the EM: D and z from one read of the values, lambda, and how vertices differ."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array
from braindive.dive.exact import VertexSums
from braindive.dive.field import (
    estimate_strength,
    evidence_of,
    expectation,
    log_evidence,
    neighbour_field,
    settle,
    settle_anew,
    settling_strength,
    start_strength,
)
from braindive.dive.pooled import PooledMeans
from braindive.dive.problem import Parameters, Problem, State, log_prior
from braindive.dive.timeline import Timeline
from braindive.dive.trajectories import Sums
from braindive.dive.vertices import (
    AssignDiffering,
    Scatter,
    carried_over,
    effects_of,
    estimate_covariance,
)
from braindive.values.coordinates import Coordinates, SumAssigned
from braindive.values.protocol import Products, Swept
from braindive.values.sampling import evenly_spread

# The field: growth of lambda in a pass while many labels change, and when few do. Measured on a
# simulated cortex: a lambda that grows at once froze wrong labels (agreement .972 instead of .983).
_GROWTH = (1.5, 3.0)
NOISE_FLOOR = 1e-5
"""Least noise, as a share of the spread of all values: about the precision of single precision."""


def pool(problem: Problem, responsibilities: Array) -> Sums:
    """Pool the measurements over vertices, in the fast form or in the exact one."""
    return gather(problem, responsibilities, *problem.measurements.pool(responsibilities))


def gather(problem: Problem, responsibilities: Array, sums: Array, weights: Array) -> Sums:
    """What the M-step needs, from sums over vertices."""
    if problem.exact:
        return VertexSums(problem.measurements, responsibilities, weights)
    squares = problem.measurements.squares
    found = PooledMeans.from_products(sums, weights, responsibilities, squares)
    return found if problem.each == 1 else found.repeated(problem.each)


def log_densities(distances: Array, counts: Array, noise: Array) -> Array:
    """D_lk = -n_l / 2 log(2 pi sigma_k^2) - distance_lk / (2 sigma_k^2)."""
    constant = -0.5 * np.log(2 * np.pi * noise**2)
    # Clusters are few and vertices many: columns are contiguous.
    return np.multiply(counts[:, None], constant, order="F") - distances / (2 * noise**2)


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
    problem: Problem, parameters: Parameters, state: State, few_change: bool = False
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
        parameters = replace(parameters, strength=strength)
        swept, parameters = sweep_known(problem, parameters, density, settled)
    else:
        strength = parameters.strength
        field = neighbour_field(state.settled, problem.graph, strength)
        swept, parameters = sweep(problem, parameters, field, few_change=few_change)
        density, z = swept.log_densities, swept.responsibilities
        if problem.strength is None:
            growth = _GROWTH[few_change]
            strength = estimate_strength(density, z, problem.graph, strength, growth)
        settled, _ = settle(density, z, problem.graph, strength)
        parameters = replace(parameters, strength=strength)
    density, pooled = swept.log_densities, (swept.sums, swept.weights)
    if problem.fixed is not None:
        value = float(np.vdot(z, density))
    elif problem.graph is None and parameters.shares is None:
        value = float(evidence_of(density, z).sum())
    else:
        value = float(log_evidence(density, field, parameters.shares is not None).sum())
    value *= problem.each
    value += log_prior(problem, parameters)
    return State(parameters, z, density, settled, pooled), gather(problem, z, *pooled), value


def sweep(
    problem: Problem,
    parameters: Parameters,
    field: Array | None = None,
    fixed: bool = False,
    few_change: bool = False,
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
    few_change : bool
        Whether labels have nearly settled.
    """
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    differ = problem.vertices_differ(parameters, few_change)
    if not differ:
        parameters = replace(parameters, vertex_covariance=None)
    elif parameters.vertex_covariance is None:
        parameters = replace(parameters, vertex_covariance=_nothing(parameters))
    before = parameters.vertex_covariance
    swept, parameters = sweep_vertices(problem.measurements, scores, parameters, field, fixed)
    if before is not None and before.any() and parameters.vertex_covariance is not None:
        # Psi and z are found by turns; half a step keeps them from going round in circles.
        half = 0.5 * (before + parameters.vertex_covariance)
        parameters = replace(parameters, vertex_covariance=half)
    if differ and problem.graph is None and problem.fixed is None:
        # One vertex more in each, so that no cluster can vanish for ever.
        total = swept.responsibilities.sum(axis=0) + 1.0
        parameters = replace(parameters, shares=total / total.sum())
    return swept, parameters


def sweep_known(
    problem: Problem, parameters: Parameters, density: Array, z: Array
) -> tuple[Swept, Parameters]:
    """What `sweep` finds where D and z are known: then only pooled measurements are left."""
    if problem.vertices_differ(parameters):
        return sweep(problem, parameters, z, fixed=True)
    swept = Swept(density, z, *problem.measurements.pool(z), ())
    return swept, replace(parameters, vertex_covariance=None)


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
    design, assign = _differing(measurements, scores, parameters, fixed)
    swept = measurements.sweep(curves, assign, field, design.derivatives)
    return swept, _with_scatter(parameters, Scatter(*swept.more), design)


def _differing(
    measurements: Products, scores: Array, parameters: Parameters, fixed: bool
) -> tuple[Coordinates, AssignDiffering]:
    """Coordinates of vertices around the curves, and z given how vertices differ."""
    assert parameters.vertex_covariance is not None
    curves = parameters.trajectories
    design = Coordinates(curves.evaluate(scores), curves.jacobian(scores), None, measurements.dtype)
    effects = effects_of(parameters.vertex_covariance, design)
    shares = None if parameters.shares is None else np.log(parameters.shares)
    return design, AssignDiffering(parameters.noise, effects, shares, fixed)


def _with_scatter(parameters: Parameters, scatter: Scatter, design: Coordinates) -> Parameters:
    """Sigma and Psi from the scatter of vertices around the curves."""
    assert parameters.vertex_covariance is not None
    covariance = estimate_covariance(scatter, design, parameters.vertex_covariance)
    noise = np.sqrt(np.maximum(scatter.variances(parameters.noise**2), NOISE_FLOOR**2))
    return replace(parameters, noise=noise, vertex_covariance=covariance)


def with_covariance(
    measurements: Products, timeline: Timeline, parameters: Parameters, z: Array
) -> Parameters:
    """Return the same with how vertices differ, from enough of them where not known yet."""
    if parameters.vertex_covariance is not None:
        return parameters
    scores = timeline.scores(parameters.speeds, parameters.shifts)
    none = replace(parameters, vertex_covariance=_nothing(parameters), shares=None)
    design, assign = _differing(measurements, scores, none, fixed=True)
    enough = evenly_spread(measurements.n_vertices)
    _, sums = measurements.run_on_some(SumAssigned(design, assign), enough, z)
    found = _with_scatter(none, Scatter(*sums), design)
    return replace(found, shares=parameters.shares)


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
        if problem.strength is None:
            strength = settling_strength(strength, density)
        z = settle_anew(density, before, problem.graph, strength)
        swept, parameters = sweep_known(problem, parameters, density, z)
        settled = z
    return State(parameters, z, swept.log_densities, settled, (swept.sums, swept.weights))


def densities(problem: Problem, parameters: Parameters) -> Array:
    """D of all vertices, from one read of the values."""
    if problem.vertices_differ(parameters):
        return sweep(problem, parameters)[0].log_densities
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    distances = problem.measurements.distances(parameters.trajectories.evaluate(scores))
    return log_densities(distances, problem.measurements.counts, parameters.noise)
