"""How much is known of the parameters, by people who are measured again in simulation."""

from dataclasses import replace

import numpy as np
import pytest
from people_who_differ import MULTIPLIERS, draw, fit, make_problem

from braindive.staging import expected_information
from braindive.staging.expected_information import known_information
from braindive.staging.likelihood import evaluate
from braindive.staging.optimum import look
from braindive.staging.posterior import FINER, integrate
from braindive.staging.simulated import simulate_again


def posterior_of(problem):
    return integrate(problem, *problem.start())


@pytest.mark.parametrize(
    ("gaps", "multipliers"), [(False, None), (True, None), (False, MULTIPLIERS)]
)
def test_people_measured_again_vary_as_the_model_says(rng, gaps, multipliers):
    problem, n_times = make_problem(rng, gaps=gaps, multipliers=multipliers), 20_000
    posterior = posterior_of(problem)
    again, speeds, shifts = simulate_again(problem, posterior, n_times, rng)
    assert again.timeline.n_subjects == 3 * n_times
    mean, covariance = posterior.moments()
    stages = np.stack([np.log(speeds), shifts], axis=1).reshape(n_times, 3, 2)
    for subject in range(3):
        drawn = stages[:, subject]
        np.testing.assert_allclose(drawn.mean(axis=0), mean[subject], atol=0.05)
        np.testing.assert_allclose(np.cov(drawn.T), covariance[subject], rtol=0.1, atol=0.01)
    residuals = again.residuals(speeds, shifts).reshape(n_times, 6, 2)
    within = np.broadcast_to(np.linalg.inv(problem.precisions), (6, 2, 2))
    between = problem.covariance.between
    for visit in range(6):
        expected = within[visit] + between
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        np.testing.assert_allclose(
            np.cov(residuals[:, visit].T) / scale, expected / scale, atol=0.05
        )
    # The first three visits are one person's, who keeps its random intercept; the fourth is not.
    shared = np.cov(residuals[:, 0].T, residuals[:, 1].T)[:2, 2:]
    np.testing.assert_allclose(shared, between, atol=0.05 * np.diag(within[0] + between).max())
    apart = np.cov(residuals[:, 0].T, residuals[:, 3].T)[:2, 2:]
    np.testing.assert_allclose(apart, 0.0, atol=0.05 * np.diag(within[0] + between).max())


def hessian(found, length=0.05):
    """Of what stages depend on: differences of gradients, with points laid anew."""
    at, packing, staged = found.climb, found.packing, found.packing.of_stages()
    errors = 1 / np.sqrt(np.diag(np.linalg.inv(at.inverse_products(packing))))
    rows = []
    for number in staged:
        ends = []
        for sign in (1.0, -1.0):
            moved = at.vector.copy()
            moved[number] += sign * length * errors[number]
            posterior, prior = at.evaluation.posterior, at.problem.prior
            for _ in range(3):
                points = posterior.lay_points(prior, FINER)
                there = look(at.problem, moved, points, packing, found.priors)
                posterior, prior = there.evaluation.posterior, there.problem.prior
            ends.append(there.gradient[staged])
        rows.append((ends[1] - ends[0]) / (2 * length * errors[number]))
    return (np.array(rows) + np.array(rows).T) / 2


def test_errors_of_few_people_are_those_of_the_curvature_of_the_likelihood(monkeypatch):
    def errors(information):
        return np.sqrt(np.diag(np.linalg.inv(information)))

    expected, own = [], []
    for seed in (1, 2):
        people = {"n_controls": 0, "n_patients": 60, "level": 0.1}
        found = fit(draw(seed, midpoints=(-6.0, 2.0, 10.0), **people))
        staged = np.ix_(*[found.packing.of_stages()] * 2)
        truth = errors(hessian(found))
        expected.append(errors(known_information(found.climb, found.packing)[staged]) / truth)
        with monkeypatch.context() as patch:
            patch.setattr(expected_information, "ENOUGH_PER_NUMBER", 0)
            own.append(errors(known_information(found.climb, found.packing)[staged]) / truth)
    np.testing.assert_allclose(np.mean(expected, axis=0), 1.0, atol=0.35)
    assert np.mean(expected) == pytest.approx(1.0, abs=0.1)
    # Negative control: by their own gradients they would be larger.
    assert np.mean(own) > np.mean(expected) + 0.1


def shares_of(inverse, found):
    """Of the curvature that an inverse of the information takes for 1: steps too short or long."""
    staged = np.ix_(*[found.packing.of_stages()] * 2)
    root = np.linalg.cholesky(hessian(found))
    return np.linalg.eigvalsh(root.T @ inverse[staged] @ root)


def test_climbs_begin_with_what_the_curvature_of_the_likelihood_is():
    people = {"n_controls": 0, "n_patients": 60, "level": 0.1}
    found = fit(draw(1, midpoints=(-6.0, 2.0, 10.0), **people))
    information = shares_of(found.climb.inverse_information(found.packing), found)
    assert 0.2 < information.min() < information.max() < 5.0
    # Negative control: a diagonal that is added makes steps too short by far.
    points = found.climb.evaluation.posterior.lay_points(found.climb.problem.prior, FINER)
    products = shares_of(found.climb.inverse_products(found.packing, points), found)
    assert products.min() < 0.1


def test_climbs_of_many_begin_with_the_curvature_where_curves_do_not_fit():
    people = {"n_controls": 0, "n_patients": 400, "level": 0.02, "noise": 0.01}
    drawn = draw(1, midpoints=(-6.0, 2.0, 10.0), **people)
    # Ramps in place of sigmoids.
    scores = (drawn.first[:, None] + drawn.speeds[:, None] * np.arange(4.0)).ravel()
    ramps = -2 * np.clip((scores[:, None] - drawn.curves.midpoint + 8) / 16, 0.0, 1.0)
    means = drawn.pooled.means - drawn.curves.evaluate(scores) + ramps
    found = fit(replace(drawn, pooled=replace(drawn.pooled, means=means)))
    at = found.climb
    information = shares_of(at.inverse_information(found.packing), found)
    assert information.min() > 0.2
    assert np.sum(information > 3.0) <= 2
    # Negative control: by the gradients of what was measured, steps are too long by far.
    points = at.evaluation.posterior.lay_points(at.problem.prior, FINER)
    gradients = found.packing.gradients(at.vector, at.problem, evaluate(at.problem, points))
    own = np.linalg.inv(gradients.T @ gradients + np.diag(at.curvature))
    assert np.sum(shares_of(own, found) > 3.0) >= 4


def test_errors_are_the_same_whenever_a_fit_is_repeated():
    found = fit(draw(1, n_controls=0, n_patients=20, midpoints=(-6.0, 6.0)))
    once, again = (known_information(found.climb, found.packing) for _ in range(2))
    np.testing.assert_array_equal(once, again)
