"""The updates of the EM, that it climbs, and when it stops."""

from dataclasses import replace

import numpy as np
import pytest

import braindive as bd
from braindive.dive.convergence import Monitor
from braindive.dive.curves import Trajectories
from braindive.dive.e_step import log_densities, pool
from braindive.dive.em import (
    _SEARCHING,
    m_step,
    m_step_objective,
    run_em,
    update_noise,
    update_stages,
    update_trajectories,
)
from braindive.dive.problem import Parameters, Problem, State, log_prior
from braindive.dive.timeline import Timeline
from braindive.values.backends import open_products
from braindive.values.local import LocalProducts

EVERYONE = np.ones(3, dtype=bool)


@pytest.fixture(params=["dense", "gaps"])
def setting(request, rng):
    """A problem of 12 subjects x 3 visits and 30 vertices, parameters near it, soft labels."""
    simulation = bd.simulate_cohort(
        n_subjects=12,
        n_visits=3,
        n_vertices=30,
        noise=0.3,
        missing=0.2 if request.param == "gaps" else 0.0,
        random_state=4,
    )
    cohort, truth = simulation.cohort, simulation.truth
    measurements = open_products(
        cohort.stored, order=cohort.canonical_rows, missing=cohort.has_missing
    )
    timeline = Timeline.from_times(cohort.subject_index, cohort.times)
    shifts = truth.shifts + truth.speeds * timeline.centres
    speeds = truth.speeds * timeline.unit
    scores = timeline.scores(speeds, shifts)
    problem = Problem(
        measurements, timeline, bd.Priors().scaled_to(scores), Trajectories.bounds(scores)
    )
    unit = measurements.unit
    curves = truth.trajectories.revalued(-unit.offset / unit.scale, 1 / unit.scale)
    parameters = Parameters(curves, np.full(3, 0.5), speeds, shifts)
    z = 0.8 * np.eye(3)[truth.labels] + 0.2 * rng.dirichlet(np.ones(3), 30)
    standard = (cohort.values - unit.offset) / unit.scale
    return problem, parameters, z, standard


def naive_squares(setting, parameters):
    """sum_ln z_lk (V_ln - f_nk)^2 and sum_ln z_lk over observed values, one at a time."""
    problem, _, z, standard = setting
    curves = parameters.trajectories.evaluate(
        problem.timeline.scores(parameters.speeds, parameters.shifts)
    )
    squares, weights = np.zeros((2, 3))
    for n in range(standard.shape[0]):
        for vertex in range(standard.shape[1]):
            if not np.isnan(standard[n, vertex]):
                for k in range(3):
                    squares[k] += z[vertex, k] * (standard[n, vertex] - curves[n, k]) ** 2
                    weights[k] += z[vertex, k]
    return squares, weights


def naive_objective(setting, parameters):
    """Expected log-posterior given z, up to a constant."""
    problem = setting[0]
    squares, weights = naive_squares(setting, parameters)
    noise = parameters.noise
    value = -np.sum(weights * np.log(noise) + squares / (2 * noise**2))
    return value + log_prior(problem, parameters)


def test_noise_is_the_weighted_mean_squared_residual(setting):
    problem, parameters, z, _ = setting
    updated = update_noise(pool(problem, z), problem, parameters, EVERYONE)
    squares, weights = naive_squares(setting, parameters)
    np.testing.assert_allclose(updated.noise, np.sqrt(squares / weights), rtol=1e-10)


def test_noise_of_an_empty_cluster_stays(setting):
    problem, parameters, z, _ = setting
    occupied = np.array([True, False, True])
    updated = update_noise(pool(problem, z), problem, parameters, occupied)
    assert updated.noise[1] == parameters.noise[1]


def test_densities_are_those_of_independent_normal_values(setting):
    problem, parameters, _, standard = setting
    curves = parameters.trajectories.evaluate(
        problem.timeline.scores(parameters.speeds, parameters.shifts)
    )
    found = log_densities(
        problem.measurements.distances(curves), problem.measurements.counts, parameters.noise
    )
    for vertex in range(standard.shape[1]):
        for k in range(3):
            residuals = (standard[:, vertex] - curves[:, k])[~np.isnan(standard[:, vertex])]
            sigma = parameters.noise[k]
            expected = -0.5 * np.sum(np.log(2 * np.pi * sigma**2) + (residuals / sigma) ** 2)
            assert found[vertex, k] == pytest.approx(expected, rel=1e-9)


def test_m_step_objective_is_the_sum_over_vertices_and_priors(setting, rng):
    problem, parameters, z, _ = setting
    sums = pool(problem, z)
    for _ in range(3):
        parameters = replace(
            parameters,
            noise=rng.uniform(0.3, 1.0, 3),
            shifts=parameters.shifts + rng.normal(size=12),
        )
        found = m_step_objective(sums, problem, parameters)
        assert found == pytest.approx(naive_objective(setting, parameters), rel=1e-10)


@pytest.mark.parametrize("update", ["trajectories", "noise", "stages"])
def test_every_update_raises_the_expected_log_posterior(setting, update):
    problem, parameters, z, _ = setting
    sums = pool(problem, z)
    updated = {
        "trajectories": lambda: update_trajectories(sums, problem, parameters, EVERYONE, True),
        "noise": lambda: update_noise(sums, problem, parameters, EVERYONE),
        "stages": lambda: update_stages(sums, problem, parameters, True),
    }[update]()
    assert naive_objective(setting, updated) > naive_objective(setting, parameters)


def test_repeated_m_steps_end_where_no_parameter_can_gain(setting):
    """Slope^2 / (2 curvature), what a Newton step along one parameter would gain, is nothing."""
    problem, parameters, z, _ = setting
    sums = pool(problem, z)
    best = m_step(sums, problem, parameters, n_iter=0, tol=1e-14, share=0.0)
    for _ in range(3):
        best = m_step(sums, problem, best, n_iter=1 + max(_SEARCHING), tol=1e-14, share=0.0)
    value = m_step_objective(sums, problem, best)

    def gain(name, index):
        changes = []
        for by in (1e-3, -1e-3):
            on_curve = name in best.trajectories.names()
            array = getattr(best.trajectories if on_curve else best, name).copy()
            array[index] *= 1 + by
            moved = (
                replace(best, trajectories=replace(best.trajectories, **{name: array}))
                if on_curve
                else replace(best, **{name: array})
            )
            changes.append(m_step_objective(sums, problem, moved) - value)
        up, down = changes
        assert up + down < 0
        return ((up - down) / 2) ** 2 / (2 * abs(up + down))

    sizes = {"noise": 3, "amplitude": 3, "steepness": 3, "baseline": 3, "speeds": 12, "shifts": 12}
    at_bound = best.trajectories.steepness == problem.bounds.limits["steepness"][1]
    gains = [
        gain(name, index)
        for name, size in sizes.items()
        for index in range(size)
        if not (name == "steepness" and at_bound[index])
    ]
    assert max(gains) < 1e-4


def test_single_start_of_the_em_climbs_and_keeps_labels_and_parameters_together(setting):
    problem, parameters, z, _ = setting
    monitor = Monitor(tol=1e-8, max_iter=60)
    state = run_em(problem, State(parameters, z), monitor)
    assert np.all(np.diff(monitor.objectives) >= -1e-9 * np.abs(monitor.objectives[:-1]))
    scores = problem.timeline.scores(state.parameters.speeds, state.parameters.shifts)
    distances = problem.measurements.distances(state.parameters.trajectories.evaluate(scores))
    density = log_densities(distances, problem.measurements.counts, state.parameters.noise)
    expected = np.exp(density - density.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(state.responsibilities, expected, atol=1e-12)


@pytest.mark.parametrize("gaps", [False, True], ids=["dense", "gaps"])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"staging": False}, {"assignments": "true"}, {"method": "exact", "max_iter": 4}],
    ids=["dive", "no staging", "assignments", "exact"],
)
@pytest.mark.filterwarnings("ignore::braindive.ConvergenceWarning")
def test_objective_never_falls_without_the_field(gaps, parameters):
    simulation = bd.simulate_cohort(
        n_subjects=15,
        n_vertices=60,
        noise=0.3,
        missing=0.2 * gaps,
        control_share=0.3,
        random_state=8,
    )
    if parameters.get("assignments"):
        parameters = {"assignments": simulation.truth.labels}
    history = {}
    settings = {"people": "alike", "personal": False, "random_state": 0, "tol": 1e-9}
    bd.DIVE(3, **settings, **parameters).fit(
        simulation.cohort,
        callback=lambda progress: history.setdefault(progress.start, []).append(progress.objective),
    )
    assert max(map(len, history.values())) >= 2
    for objectives in history.values():
        assert np.all(np.diff(objectives) >= -1e-10 * np.abs(objectives[:-1]))


def test_monitor_converges_only_when_labels_and_objective_both_stay():
    monitor = Monitor(tol=1e-3, max_iter=100)
    monitor.update(-100.0, 0.5)
    monitor.update(-100.0, 0.2)
    assert monitor.reason == ""
    monitor.update(-50.0, 1e-5)
    assert monitor.reason == ""
    monitor.update(-50.0, 1e-5)
    assert monitor.reason == "converged"


def test_monitor_counts_the_change_to_come_where_it_is_known():
    for rate, reason in ((0.1, "converged"), (0.9, "")):
        monitor = Monitor(tol=1e-3, max_iter=100, rate=rate)
        monitor.update(-100.0, 0.5)
        monitor.update(-100.0, 0.005)
        assert monitor.reason == reason
    # A rate that turns out to be wrong is no longer believed.
    monitor = Monitor(tol=1e-3, max_iter=100, rate=0.1)
    for change in (0.5, 0.02, 0.008):
        monitor.update(-100.0, change)
        assert monitor.reason == ""


def test_monitor_takes_the_slower_of_the_last_two_rates():
    monitor = Monitor(tol=1e-3, max_iter=100)
    monitor.update(-100.0, 0.5)
    assert monitor.last_rate() == 1.0
    monitor.update(-100.0, 0.2)
    assert monitor.last_rate() == pytest.approx(0.4)
    monitor.update(-100.0, 0.0)
    assert monitor.last_rate() == pytest.approx(0.4)
    monitor.update(-100.0, 0.0)
    assert monitor.last_rate() == 1.0
    quick = Monitor(tol=1e-3, max_iter=100)
    quick.update(-100.0, 0.5)
    quick.update(-100.0, 1e-9)
    # One change says little.
    assert quick.last_rate() == pytest.approx(0.1)


def test_monitor_does_not_call_the_iteration_cap_converged():
    monitor = Monitor(tol=1e-3, max_iter=2)
    monitor.update(-100.0, 0.5)
    monitor.update(-90.0, 0.5)
    assert monitor.reason == "max_iter"


def test_monitor_detects_labels_that_swap_for_ever():
    monitor = Monitor(tol=1e-6, max_iter=1000)
    while not monitor.reason:
        monitor.update(-100.0 - monitor.n_iter % 2, 0.1 + 0.01 * (monitor.n_iter % 2))
    assert monitor.reason == "cycling"
    assert monitor.n_iter < 50


def test_monitor_does_not_take_slow_progress_for_a_cycle():
    monitor = Monitor(tol=1e-12, max_iter=200)
    while not monitor.reason:
        monitor.update(-100.0 + 0.01 * monitor.n_iter, 0.1)
    assert monitor.reason == "max_iter"


def test_noise_floor_keeps_a_perfect_fit_finite():
    """Values that follow one sigmoid without noise leave no residual at all."""
    scores = np.linspace(-2, 2, 24)
    curve = Trajectories(*np.array([[1.0], [2.0], [0.0], [0.0]])).evaluate(scores)
    values = np.repeat(curve, 6, axis=1)
    timeline = Timeline.from_times(np.repeat(np.arange(8), 3), np.tile(np.arange(3.0), 8))
    measurements = LocalProducts(values)
    unit = measurements.unit
    shifts = scores.reshape(8, 3).mean(axis=1)
    parameters = Parameters(
        Trajectories(*np.array([[1.0], [2.0], [0.0], [0.0]])).revalued(
            -unit.offset / unit.scale, 1 / unit.scale
        ),
        np.ones(1),
        np.full(8, (scores[1] - scores[0]) * timeline.unit),
        shifts,
    )
    problem = Problem(
        measurements, timeline, bd.Priors().scaled_to(scores), Trajectories.bounds(scores)
    )
    updated = update_noise(
        pool(problem, np.ones((6, 1))), problem, parameters, np.ones(1, dtype=bool)
    )
    assert 0 < updated.noise[0] < 1e-4
