"""The fast form on pooled means is the published sum over vertices: objective, gradient, fit."""

import numpy as np
import pytest

import braindive as bd
from braindive.dive.curves import Trajectories
from braindive.dive.exact import VertexSums
from braindive.dive.pooled import PooledMeans
from braindive.dive.stages import StageProblem
from braindive.dive.timeline import Timeline
from braindive.dive.trajectories import trajectory_gradient, trajectory_loss
from braindive.values.local import LocalProducts

NOISE = np.array([0.7, 1.3])
PRIOR = bd.Normal(0.0, np.array([1.0, 2.0, 3.0, 0.5]))


@pytest.fixture(params=["dense", "gaps"])
def forms(request, rng):
    """The same measurements and labels in the fast and in the exact form, 5 subjects x 4."""
    values = 3 + rng.normal(size=(20, 40))
    missing = request.param == "gaps"
    if missing:
        values[rng.random(values.shape) < 0.3] = np.nan
    measurements = LocalProducts(values, missing=missing, block_size=16)
    z = rng.dirichlet(np.ones(2), 40)
    sums, weights = measurements.pool(z)
    fast = PooledMeans.from_products(sums, weights, z, measurements.squares)
    return fast, VertexSums(measurements, z, weights)


def random_parameters(rng):
    return rng.normal(size=(2, 4)) * [1, 0.3, 1, 1] + [0, 1.5, 0, 0]


def test_objectives_differ_by_a_constant(forms, rng):
    fast, exact = forms
    gaps = []
    for _ in range(10):
        curves = Trajectories.from_array(random_parameters(rng))
        scores = rng.normal(size=20)
        gaps.append(
            trajectory_loss(exact, scores, curves, NOISE, PRIOR)
            - trajectory_loss(fast, scores, curves, NOISE, PRIOR)
        )
    expected = np.tile(fast.within / (2 * NOISE**2), (10, 1))
    np.testing.assert_allclose(gaps, expected, rtol=1e-10)


def test_variances_are_equal(forms, rng):
    fast, exact = forms
    curves = rng.normal(size=(20, 2))
    np.testing.assert_allclose(fast.variance(curves), exact.variance(curves), rtol=1e-12)


def test_guesses_are_equal(forms):
    fast, exact = forms
    for a, b in zip(fast.guess(), exact.guess(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_fast_gradient_is_the_finite_difference_of_the_exact_loss(forms, rng):
    fast, exact = forms
    for _ in range(3):
        parameters, scores = random_parameters(rng), rng.normal(size=20)
        curves = Trajectories.from_array(parameters)
        gradient, _ = trajectory_gradient(fast, scores, curves, NOISE, PRIOR)
        for p in range(4):
            step = np.zeros(4)
            step[p] = 1e-5
            up = Trajectories.from_array(parameters + step)
            down = Trajectories.from_array(parameters - step)
            rise = trajectory_loss(exact, scores, up, NOISE, PRIOR)
            rise = rise - trajectory_loss(exact, scores, down, NOISE, PRIOR)
            np.testing.assert_allclose(gradient[:, p], rise / 2e-5, rtol=1e-5, atol=1e-5)


def test_fast_gradient_of_stages_is_the_finite_difference_of_the_exact_loss(forms, rng):
    timeline = Timeline.from_times(np.repeat(np.arange(5), 4), np.tile(np.arange(4.0), 5))
    curves = bd.Trajectories(*random_parameters(rng).T)
    fast, exact = (
        StageProblem(sums, timeline, curves, NOISE, bd.Priors().speed, bd.Priors().shift)
        for sums in forms
    )
    speeds, shifts, h = rng.gamma(6, 1 / 6, 5), rng.normal(size=5), 1e-5
    gradient, _ = fast.gradient(speeds, shifts)
    by_speed = exact.loss(speeds * np.exp(h), shifts) - exact.loss(speeds * np.exp(-h), shifts)
    by_shift = exact.loss(speeds, shifts + h) - exact.loss(speeds, shifts - h)
    expected = np.stack([by_speed, by_shift], axis=1) / (2 * h)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["cohort", "gappy_cohort"])
def test_both_methods_end_in_the_same_fit(request, name):
    cohort = request.getfixturevalue(name)
    states, models = {}, {}
    for method in ("fast", "exact"):
        models[method] = bd.DIVE(
            3, random_state=0, n_init=1, method=method, people="alike", personal=False
        ).fit(cohort, callback=lambda progress, key=method: states.update({key: progress.state}))
    fast, exact = (states[method].parameters for method in ("fast", "exact"))
    np.testing.assert_allclose(models["exact"].objective_, models["fast"].objective_, rtol=1e-9)
    np.testing.assert_allclose(
        models["exact"].responsibilities_, models["fast"].responsibilities_, atol=1e-6
    )
    np.testing.assert_allclose(exact.speeds, fast.speeds, atol=1e-6)
    np.testing.assert_allclose(exact.shifts, fast.shifts, atol=1e-5)
    np.testing.assert_allclose(exact.noise, fast.noise, rtol=1e-6)
    np.testing.assert_allclose(
        exact.trajectories.to_array(), fast.trajectories.to_array(), atol=1e-6
    )
