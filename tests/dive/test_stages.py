"""Time axis, speeds and shifts, and the joint step, against loops and other optimisers."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import braindive as bd
from braindive.dive.curves import Bounds, Trajectories
from braindive.dive.joint import joint_step
from braindive.dive.pooled import PooledMeans
from braindive.dive.stages import StageProblem, fit_stages, search_shifts, shift_grid
from braindive.dive.timeline import Timeline

CURVES = Trajectories.from_array(np.array([[-1.0, 1.2, -1.0, 0.3], [1.5, 0.9, 0.8, -0.4]]))
NOISE = np.array([0.8, 1.1])
SPEED_PRIOR, SHIFT_PRIOR = bd.Gamma.from_mode(1.0, sd=0.4), bd.Normal(0.2, 1.5)
N_VISITS = [4, 1, 3, 2, 4, 5]


@pytest.fixture
def stage(rng):
    """Six subjects with unequal numbers of visits at uneven times."""
    subject = np.repeat(np.arange(len(N_VISITS)), N_VISITS)
    times = np.concatenate([60 + i + np.sort(rng.uniform(0, 4, n)) for i, n in enumerate(N_VISITS)])
    timeline = Timeline.from_times(subject, times)
    true = timeline.scores(rng.gamma(6, 1 / 6, 6), rng.normal(0, 1.5, 6))
    means = CURVES.evaluate(true) + 0.15 * rng.normal(size=(len(times), 2))
    sums = PooledMeans(means, rng.uniform(10, 30, means.shape), np.zeros(2))
    return StageProblem(sums, timeline, CURVES, NOISE, SPEED_PRIOR, SHIFT_PRIOR)


def naive_loss(stage, subject, speed, shift):
    loss = -(SPEED_PRIOR.shape - 1) * math.log(speed) + SPEED_PRIOR.rate * speed
    loss += (shift - SHIFT_PRIOR.mean) ** 2 / (2 * SHIFT_PRIOR.sd**2)
    for n in np.flatnonzero(stage.timeline.subject_of_visit == subject):
        score = speed * stage.timeline.times[n] + shift
        for k, (a, b, c, d) in enumerate(CURVES.to_array()):
            value = a / (1 + math.exp(-b * (score - c))) + d
            misfit = stage.sums.weights[n, k] * (stage.sums.means[n, k] - value) ** 2
            loss += misfit / (2 * NOISE[k] ** 2)
    return loss


def test_timeline_centres_each_subject_and_scales_by_the_pooled_spread():
    timeline = Timeline.from_times(np.array([0, 0, 1, 2, 2, 2]), np.array([70.0, 72, 50, 1, 2, 6]))
    np.testing.assert_allclose(timeline.centres, [71, 50, 3])
    unit = math.sqrt((1 + 1 + 0 + 4 + 1 + 9) / 3)
    np.testing.assert_allclose(timeline.times, np.array([-1, 1, 0, -2, -1, 3]) / unit)
    np.testing.assert_array_equal(timeline.n_visits_of_subject, [2, 1, 3])


def test_gamma_prior_has_the_mode_and_spread_that_were_asked_for():
    prior = bd.Gamma.from_mode(1.3, sd=0.5)
    assert prior.mode == pytest.approx(1.3)
    assert math.sqrt(prior.shape) / prior.rate == pytest.approx(0.5)


def test_loss_is_the_misfit_and_both_priors_of_each_subject(stage, rng):
    speeds, shifts = rng.gamma(6, 1 / 6, 6), rng.normal(size=6)
    expected = [naive_loss(stage, i, speeds[i], shifts[i]) for i in range(6)]
    np.testing.assert_allclose(stage.loss(speeds, shifts), expected, rtol=1e-12)


def test_gradient_agrees_with_finite_differences(stage, rng):
    speeds, shifts, h = rng.gamma(6, 1 / 6, 6), rng.normal(size=6), 1e-6
    gradient, _ = stage.gradient(speeds, shifts)
    up, down = speeds * np.exp(h), speeds * np.exp(-h)
    by_speed = (stage.loss(up, shifts) - stage.loss(down, shifts)) / (2 * h)
    by_shift = (stage.loss(speeds, shifts + h) - stage.loss(speeds, shifts - h)) / (2 * h)
    np.testing.assert_allclose(gradient, np.stack([by_speed, by_shift], axis=1), atol=1e-6)


def test_fit_has_no_gradient_left_and_beats_random_restarts(stage, rng):
    speeds, shifts = np.ones(6), np.zeros(6)
    shifts = search_shifts(stage, speeds, shifts, np.linspace(-6, 6, 61))
    speeds, shifts = fit_stages(stage, speeds, shifts, max_iter=200, tol=1e-15)
    gradient, _ = stage.gradient(speeds, shifts)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-4)
    loss = stage.loss(speeds, shifts)
    for i in range(6):
        others = [
            minimize(
                lambda x, i=i: naive_loss(stage, i, math.exp(x[0]), x[1]),
                [0.3 * rng.normal(), 3 * rng.normal()],
                bounds=[(-3, 3), (-10, 10)],
            ).fun
            for _ in range(6)
        ]
        assert loss[i] <= min(others) + 1e-6


def test_no_subject_gets_worse_in_a_fit(stage, rng):
    speeds, shifts = rng.gamma(6, 1 / 6, 6), 3 * rng.normal(size=6)
    before = stage.loss(speeds, shifts)
    for _ in range(5):
        speeds, shifts = fit_stages(stage, speeds, shifts, max_iter=1)
        after = stage.loss(speeds, shifts)
        assert (after <= before).all()
        before = after


def test_search_leaves_the_wrong_valley(stage):
    speeds = np.ones(6)
    far = np.full(6, 20.0)
    found = search_shifts(stage, speeds, far, np.linspace(-6, 6, 121))
    grid_losses = np.stack([stage.loss(speeds, np.full(6, x)) for x in np.linspace(-6, 6, 121)])
    np.testing.assert_allclose(stage.loss(speeds, found), grid_losses.min(axis=0))


def test_shift_grid_covers_all_subjects():
    grid = shift_grid(np.array([-2.0, 5.0]))
    assert grid[0] < -2
    assert grid[-1] > 5


def test_subject_with_one_visit_keeps_the_prior_speed(stage):
    speeds, shifts = np.full(6, 0.3), np.zeros(6)
    speeds, _ = fit_stages(stage, speeds, shifts, max_iter=100, tol=1e-15)
    assert speeds[1] == pytest.approx(SPEED_PRIOR.mode, abs=1e-5)
    assert not np.isclose(speeds[[0, 2, 3, 4, 5]], SPEED_PRIOR.mode, atol=1e-3).any()


def test_shift_without_informative_data_goes_to_the_prior(stage):
    silent = PooledMeans(stage.sums.means, np.full_like(stage.sums.weights, 1e-12), np.zeros(2))
    problem = StageProblem(silent, stage.timeline, CURVES, NOISE, SPEED_PRIOR, SHIFT_PRIOR)
    speeds, shifts = fit_stages(problem, np.full(6, 0.5), np.full(6, -2.0), 200, 1e-15)
    np.testing.assert_allclose(shifts, SHIFT_PRIOR.mean, atol=1e-5)
    np.testing.assert_allclose(speeds, SPEED_PRIOR.mode, atol=1e-5)


@pytest.mark.parametrize("prior", [None, bd.Normal(0.0, np.array([1.0, 2.0, 3.0, 0.5]))])
def test_joint_step_solves_the_dense_gauss_newton_system(stage, rng, prior):
    """Same step as from the full system of all 4 K + 2 S numbers, built residual by residual."""
    timeline, weights = stage.timeline, stage.sums.weights
    speeds, shifts, damping = rng.gamma(40, 1 / 40, 6), rng.normal(size=6), 0.05
    scores = timeline.scores(speeds, shifts)
    size = 8 + 2 * 6
    rows, residuals = [], []
    for n, i in enumerate(timeline.subject_of_visit):
        for k, (a, b, c, _) in enumerate(CURVES.to_array()):
            g = 1 / (1 + math.exp(-b * (scores[n] - c)))
            slope = a * b * g * (1 - g)
            row = np.zeros(size)
            row[4 * k : 4 * k + 4] = [g, a * g * (1 - g) * (scores[n] - c), -slope, 1.0]
            row[8 + 2 * i] = slope * speeds[i] * timeline.times[n]
            row[8 + 2 * i + 1] = slope
            scale = math.sqrt(weights[n, k]) / NOISE[k]
            rows.append(scale * row)
            residuals.append(scale * (stage.sums.means[n, k] - CURVES.evaluate(scores)[n, k]))
    rows, residuals = np.array(rows), np.array(residuals)
    hessian, gradient = rows.T @ rows, -rows.T @ residuals
    for i in range(6):
        gradient[8 + 2 * i] += SPEED_PRIOR.rate * speeds[i] - (SPEED_PRIOR.shape - 1)
        gradient[9 + 2 * i] += (shifts[i] - SHIFT_PRIOR.mean) / SHIFT_PRIOR.sd**2
        hessian[8 + 2 * i, 8 + 2 * i] += SPEED_PRIOR.rate * speeds[i]
        hessian[9 + 2 * i, 9 + 2 * i] += 1 / SHIFT_PRIOR.sd**2
    if prior is not None:
        for p in range(8):
            gradient[p] += CURVES.to_array().ravel()[p] / prior.sd[p % 4] ** 2
            hessian[p, p] += 1 / prior.sd[p % 4] ** 2
    hessian[np.diag_indices(size)] *= 1 + damping
    step = np.linalg.solve(hessian, gradient)

    wide = Bounds({"steepness": (1e-6, 1e6), "midpoint": (-1e6, 1e6)})
    curves, new_speeds, new_shifts = joint_step(stage, speeds, shifts, wide, prior, damping)
    np.testing.assert_allclose(
        curves.to_array().ravel(), CURVES.to_array().ravel() - step[:8], rtol=1e-6
    )
    np.testing.assert_allclose(new_speeds, speeds * np.exp(np.clip(-step[8::2], -1, 1)), rtol=1e-6)
    np.testing.assert_allclose(new_shifts, shifts - step[9::2], rtol=1e-6)


def test_joint_step_leaves_a_parameter_that_pushes_against_its_bound(stage):
    speeds, shifts = np.ones(6), np.zeros(6)
    one = StageProblem(
        PooledMeans(stage.sums.means[:, :1], stage.sums.weights[:, :1], np.zeros(1)),
        stage.timeline,
        CURVES[np.array([0])],
        NOISE[:1],
        SPEED_PRIOR,
        SHIFT_PRIOR,
    )
    wide = Bounds({"steepness": (1e-6, 1e6), "midpoint": (-1e6, 1e6)})
    free, _, _ = joint_step(one, speeds, shifts, wide, None, 1e-3)
    here = CURVES.steepness[0]
    limits = (1e-6, here) if free.steepness[0] > here else (here, 1e6)
    bound, _, _ = joint_step(one, speeds, shifts, Bounds({"steepness": limits}), None, 1e-3)
    assert bound.steepness[0] == here
    assert bound.midpoint[0] != CURVES.midpoint[0]
