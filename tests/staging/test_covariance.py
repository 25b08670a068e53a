"""Correlated residuals and a level of every person's own."""

from dataclasses import replace

import numpy as np
import pytest
from people_who_differ import MULTIPLIERS, SUBJECTS, make_problem, noise_of_visit
from scipy.stats import multivariate_normal

from braindive.staging.residuals import heights_at
from braindive.staging.site_means import SiteMeans


@pytest.mark.parametrize("multipliers", [None, MULTIPLIERS])
@pytest.mark.parametrize("gaps", [False, True])
def test_misfit_is_that_of_a_normal_with_a_persons_own_level(rng, gaps, multipliers):
    problem = make_problem(rng, gaps=gaps, multipliers=multipliers)
    speeds, shifts = np.array([0.8, 1.0, 1.4]), np.array([-0.3, 0.5, 1.0])
    residuals = problem.residuals(speeds, shifts)
    covariance, misfits = problem.covariance, problem.misfit(speeds, shifts)
    for i, misfit in enumerate(misfits):
        rows = np.flatnonzero(i == SUBJECTS)
        dense = np.kron(np.ones((len(rows), len(rows))), covariance.between)
        for j, row in enumerate(rows):
            dense[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] += noise_of_visit(problem, row)
        own = residuals[rows].ravel()
        density = multivariate_normal(np.zeros(len(own)), dense, allow_singular=False)
        expected = density.logpdf(own)
        np.testing.assert_allclose(problem.log_constants[i] - 0.5 * misfit, expected, rtol=1e-6)


@pytest.mark.parametrize("multipliers", [None, MULTIPLIERS])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("groups", [(0, 1, 1), (-1, -1, 0)])
def test_gradient_is_the_derivative_of_the_loss(rng, gaps, groups, multipliers):
    problem = make_problem(rng, gaps=gaps, groups=groups, multipliers=multipliers)
    # Offsets of two sites are taken off the means.
    offsets = np.array([[0.3], [-0.4]]) * np.ones(len(problem.noise))
    at = np.arange(len(problem.pooled.means)) % 2
    problem = replace(problem, sites=SiteMeans(at, offsets))
    log_speeds, shifts, step = np.array([-0.2, 0.1, 0.3]), np.array([-0.3, 0.5, 1.0]), 1e-6
    gradient, _ = problem.gradient(np.exp(log_speeds), shifts)
    by_speed = problem.loss(np.exp(log_speeds + step), shifts)
    by_speed -= problem.loss(np.exp(log_speeds - step), shifts)
    by_shift = problem.loss(np.exp(log_speeds), shifts + step)
    by_shift -= problem.loss(np.exp(log_speeds), shifts - step)
    expected = np.stack([by_speed, by_shift], axis=1) / (2 * step)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_some_subjects_keep_the_noise_of_their_visits(rng):
    problem = make_problem(rng, multipliers=MULTIPLIERS)
    stages = np.array([0.8, 1.0, 1.4]), np.array([-0.3, 0.5, 1.0])
    some = problem.select(np.array([0, 2]))
    found = some.misfit(*(each[[0, 2]] for each in stages))
    np.testing.assert_allclose(found, problem.misfit(*stages)[[0, 2]])


def test_multipliers_of_one_are_none(rng):
    state = rng.bit_generator.state
    usual = make_problem(rng)
    rng.bit_generator.state = state
    ones = make_problem(rng, multipliers=np.ones_like(MULTIPLIERS))
    stages = np.array([0.8, 1.0, 1.4]), np.array([-0.3, 0.5, 1.0])
    np.testing.assert_allclose(ones.misfit(*stages), usual.misfit(*stages))
    assert len(usual.precisions) == 1


@pytest.mark.parametrize("multipliers", [None, MULTIPLIERS])
def test_who_was_seen_once_is_placed_alone_as_among_others(rng, multipliers):
    """A single visit has a single E, and yet noise of its own."""
    problem = make_problem(rng, multipliers=multipliers)
    log_speeds, shifts = np.zeros((5, 3)), np.tile(np.linspace(-2, 2, 5)[:, None], 3)
    among = heights_at(problem, log_speeds, shifts)
    alone = heights_at(problem.select(np.array([1])), log_speeds[:, 1:2], shifts[:, 1:2])
    np.testing.assert_allclose(alone[:, 0], among[:, 1], rtol=1e-10)
