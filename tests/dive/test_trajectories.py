"""Sigmoids, and their fit against closed forms, finite differences and another optimiser."""

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

import braindive as bd
from braindive.dive.curves import Bounds, Trajectories
from braindive.dive.pooled import PooledMeans
from braindive.dive.trajectories import (
    fit_trajectories,
    search_trajectories,
    trajectory_gradient,
    trajectory_loss,
)

SCORES = np.linspace(-3, 3, 80)
NOISE = np.array([0.7, 1.1, 0.4])
PARAMETERS = np.array([[-1.0, 0.8, -1.5, 0.2], [2.0, 1.5, 0.3, -1.0], [-0.5, 4.0, 1.4, 0.1]])
CURVES = Trajectories.from_array(PARAMETERS)
PRIOR = bd.Normal(np.array([0.0, 1.0, 0.0, 0.0]), np.array([0.5, 0.8, 0.5, 0.4]))


@pytest.fixture
def sums(rng):
    """Noisy pooled means around three sigmoids, with weights that differ between visits."""
    curves = Trajectories.from_array(PARAMETERS).evaluate(SCORES)
    means = curves + 0.1 * rng.normal(size=curves.shape)
    return PooledMeans(means, rng.uniform(5, 20, size=means.shape), np.array([30.0, 20.0, 10.0]))


def naive_loss(sums, parameters, k, prior=None):
    loss = 0.0
    a, b, c, d = parameters
    for n, score in enumerate(SCORES):
        value = a / (1 + math.exp(-b * (score - c))) + d
        loss += sums.weights[n, k] * (sums.means[n, k] - value) ** 2 / (2 * NOISE[k] ** 2)
    if prior is not None:
        loss += sum(
            (x - mean) ** 2 / (2 * sd**2)
            for x, mean, sd in zip(parameters, prior.mean, prior.sd, strict=True)
        )
    return loss


def test_evaluate_is_the_sigmoid():
    found = Trajectories.from_array(PARAMETERS).evaluate(SCORES)
    for k, (a, b, c, d) in enumerate(PARAMETERS):
        expected = [a / (1 + math.exp(-b * (s - c))) + d for s in SCORES]
        np.testing.assert_allclose(found[:, k], expected, rtol=1e-12)


def test_slope_at_the_midpoint_is_a_quarter_of_amplitude_times_steepness():
    curves = Trajectories.from_array(PARAMETERS)
    slopes = np.diag(curves.slope(curves.midpoint))
    np.testing.assert_allclose(slopes, curves.amplitude * curves.steepness / 4)


def test_far_scores_do_not_overflow():
    values = Trajectories.from_array(PARAMETERS).evaluate([-1e6, 1e6])
    np.testing.assert_allclose(values, [PARAMETERS[:, 3], PARAMETERS[:, 3] + PARAMETERS[:, 0]])


def test_canonical_curves_are_the_same_curves_with_positive_steepness(rng):
    mirrored = Trajectories.from_array(PARAMETERS * [1, -1, 1, 1])
    canonical = mirrored.canonical()
    assert (canonical.steepness > 0).all()
    np.testing.assert_allclose(canonical.evaluate(SCORES), mirrored.evaluate(SCORES), atol=1e-12)


@pytest.mark.parametrize("prior", [None, PRIOR])
def test_loss_keeps_the_weight_of_the_data_against_the_prior(sums, prior):
    found = trajectory_loss(sums, SCORES, CURVES, NOISE, prior)
    expected = [naive_loss(sums, PARAMETERS[k], k, prior) for k in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("prior", [None, PRIOR])
def test_gradient_agrees_with_finite_differences(sums, prior):
    gradient, _ = trajectory_gradient(sums, SCORES, CURVES, NOISE, prior)
    for k in range(3):
        expected = approx_fprime(PARAMETERS[k], lambda x, k=k: naive_loss(sums, x, k, prior), 1e-7)
        np.testing.assert_allclose(gradient[k], expected, rtol=1e-4, atol=1e-3)


def test_gauss_newton_hessian_is_the_hessian_where_the_fit_is_perfect():
    curves = Trajectories.from_array(PARAMETERS).evaluate(SCORES)
    exact = PooledMeans(curves, np.full(curves.shape, 3.0), np.zeros(3))
    _, hessian = trajectory_gradient(exact, SCORES, CURVES, NOISE, None)
    for p in range(4):
        step = np.zeros(4)
        step[p] = 1e-6
        up, _ = trajectory_gradient(
            exact, SCORES, Trajectories.from_array(PARAMETERS + step), NOISE, None
        )
        down, _ = trajectory_gradient(
            exact, SCORES, Trajectories.from_array(PARAMETERS - step), NOISE, None
        )
        np.testing.assert_allclose(hessian[:, p], (up - down) / 2e-6, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("prior", [None, PRIOR])
def test_fit_has_no_gradient_left_and_beats_random_restarts(sums, rng, prior):
    bounds = Trajectories.bounds(SCORES)
    start = search_trajectories(Trajectories, sums, SCORES, bounds)
    found = fit_trajectories(sums, SCORES, NOISE, [start], bounds, prior, max_iter=300, tol=1e-15)
    gradient, hessian = trajectory_gradient(sums, SCORES, found, NOISE, prior)
    scaled = gradient / np.sqrt(np.einsum("kpp->kp", hessian))
    np.testing.assert_allclose(scaled, 0.0, atol=1e-4)
    loss = trajectory_loss(sums, SCORES, found, NOISE, prior)
    limits = [bounds.limits.get(name, (None, None)) for name in Trajectories.names()]

    def alike(x):
        return Trajectories.from_array(np.tile(x, (3, 1)))

    for k in range(3):
        others = [
            minimize(
                lambda x, k=k: trajectory_loss(sums, SCORES, alike(x), NOISE, prior)[k],
                rng.normal(size=4) * [2, 1, 2, 1] + [0, 2, 0, 0],
                jac=lambda x, k=k: trajectory_gradient(sums, SCORES, alike(x), NOISE, prior)[0][k],
                bounds=limits,
            ).fun
            for _ in range(5)
        ]
        assert loss[k] <= min(others) + 1e-6


def test_fit_never_gets_worse_than_its_start(sums, rng):
    bounds = Trajectories.bounds(SCORES)
    start = Trajectories.from_array(PARAMETERS + 0.3 * rng.normal(size=PARAMETERS.shape))
    before = trajectory_loss(sums, SCORES, start, NOISE, None)
    for max_iter in (1, 2, 5):
        found = fit_trajectories(sums, SCORES, NOISE, [start], bounds, max_iter=max_iter)
        after = trajectory_loss(sums, SCORES, found, NOISE, None)
        assert (after <= before).all()
        before = after


def test_strong_prior_holds_the_trajectory_at_its_mean(sums):
    prior = bd.Normal(np.array([-1.0, 1.0, 0.0, 0.0]), 1e-6)
    bounds = Trajectories.bounds(SCORES)
    start = search_trajectories(Trajectories, sums, SCORES, bounds)
    found = fit_trajectories(sums, SCORES, NOISE, [start], bounds, prior, max_iter=200)
    np.testing.assert_allclose(found.to_array(), np.tile(prior.mean, (3, 1)), atol=1e-4)


def test_fit_stays_in_its_bounds(sums):
    bounds = Bounds({"steepness": (0.5, 1.0), "midpoint": (-0.5, 0.5)})
    found = fit_trajectories(sums, SCORES, NOISE, [Trajectories.from_array(PARAMETERS)], bounds)
    assert (found.steepness >= 0.5).all()
    assert (found.steepness <= 1.0).all()
    assert (np.abs(found.midpoint) <= 0.5).all()


def test_bounds_bind_only_parameters_that_would_cross_them():
    bounds = Bounds({"steepness": (0.5, 2.0), "midpoint": (-1.0, 1.0)})
    parameters = np.array([[1.0, 0.5, 1.0, 0.0], [1.0, 0.5, 1.0, 0.0]])
    outwards = np.array([[0.0, 1.0, -1.0, 0.0], [0.0, -1.0, 1.0, 0.0]])
    np.testing.assert_array_equal(
        bounds.binding(Trajectories.from_array(parameters), outwards),
        [[False, True, True, False], [False] * 4],
    )


def test_search_finds_the_valley_of_the_true_curves():
    curves = Trajectories.from_array(PARAMETERS).evaluate(SCORES)
    exact = PooledMeans(curves, np.ones_like(curves), np.zeros(3))
    found = search_trajectories(Trajectories, exact, SCORES, Trajectories.bounds(SCORES))
    np.testing.assert_allclose(found.midpoint, PARAMETERS[:, 2], atol=0.5)
    np.testing.assert_array_equal(np.sign(found.amplitude), np.sign(PARAMETERS[:, 0]))
