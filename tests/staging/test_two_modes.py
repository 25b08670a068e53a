"""People who may be at either of two places."""

from dataclasses import replace

import numpy as np
import pytest
from people_who_differ import make_problem

from braindive.dive.pooled import PooledMeans
from braindive.staging.marginal_stager import place_subjects
from braindive.staging.residuals import heights_at

RANGE = np.array([-8.0, 10.0])


def torn_problem(rng, level):
    """The first subject has the same values at all visits, between the early and late plateaus."""
    problem = make_problem(rng, between=0.0)
    problem = replace(
        problem,
        covariance=replace(problem.covariance, between=np.diag([0.3, 0.9])),
        prior=replace(
            problem.prior,
            population=replace(
                problem.prior.population,
                shift_means=np.array([0.0, 0.0]),
                shift_sds=np.array([5.0, 5.0]),
            ),
        ),
    )
    means = problem.pooled.means.copy()
    means[:3] = level
    return replace(problem, pooled=PooledMeans(means, problem.pooled.weights, np.zeros(2)))


def dense(problem):
    log_speeds, shifts = np.linspace(-3, 2, 61), np.linspace(-30, 30, 1201)
    grid = np.stack(np.meshgrid(log_speeds, shifts, indexing="ij")).reshape(2, -1)
    heights = heights_at(problem, *(np.repeat(x[:, None], 3, axis=1) for x in grid))
    weights = np.exp(heights - heights.max(axis=0))
    weights /= weights.sum(axis=0)
    mean = grid[1] @ weights
    return mean, np.sqrt(np.sum((grid[1][:, None] - mean) ** 2 * weights, axis=0))


def test_a_person_between_two_plateaus_may_be_on_either(rng):
    problem = torn_problem(rng, [-0.5, -0.85])
    placed = place_subjects(problem, RANGE)
    mean, spread = dense(problem)
    found = placed.posterior
    np.testing.assert_allclose(found.weights.sum(axis=0), 1.0)
    np.testing.assert_allclose(placed.shifts[0], mean[0], atol=0.15 * spread[0])
    error = np.sqrt(placed.posterior.moments()[1][:, 1, 1])
    np.testing.assert_allclose(error[0], spread[0], rtol=0.1)
    # The likelier place is one at which the person may be: what is expected is not.
    away = abs(placed.likeliest[1][0] - placed.shifts[0])
    assert away > 1.0


def test_whoever_is_at_one_place_has_as_many_points_as_ever(rng):
    problem = torn_problem(rng, [-0.1, 0.2])
    placed = place_subjects(problem.select(np.array([1, 2])), RANGE)
    torn = place_subjects(torn_problem(rng, [-0.5, -0.85]), RANGE)
    assert len(torn.posterior.weights) == 2 * len(placed.posterior.weights)
    for own, likeliest in zip((placed.speeds, placed.shifts), placed.likeliest, strict=True):
        assert own.tolist() == likeliest.tolist()


def test_where_a_person_is_does_not_depend_on_who_is_placed_with_it(rng):
    problem = torn_problem(rng, [-0.5, -0.85])
    together = place_subjects(problem, RANGE)
    for i in range(3):
        alone = place_subjects(problem.select(np.array([i])), RANGE)
        assert alone.shifts[0] == pytest.approx(together.shifts[i], abs=1e-9)
