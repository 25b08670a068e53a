"""Correlated residuals and a level of every person's own."""

import numpy as np
import pytest
from people_who_differ import SUBJECTS, make_problem
from scipy.stats import multivariate_normal


@pytest.mark.parametrize("gaps", [False, True])
def test_misfit_is_that_of_a_normal_with_a_persons_own_level(rng, gaps):
    problem = make_problem(rng, gaps=gaps)
    speeds, shifts = np.array([0.8, 1.0, 1.4]), np.array([-0.3, 0.5, 1.0])
    residuals, weights = problem.residuals(speeds, shifts), problem.pooled.weights
    covariance, misfits = problem.covariance, problem.misfit(speeds, shifts)
    for i, misfit in enumerate(misfits):
        rows = np.flatnonzero(i == SUBJECTS)
        dense = np.kron(np.ones((len(rows), len(rows))), covariance.between)
        for j, row in enumerate(rows):
            fewer = problem.noise**2 * (1 / np.maximum(weights[row], 1e-6) - 1 / 40.0)
            dense[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] += covariance.within + np.diag(fewer)
        own = residuals[rows].ravel()
        density = multivariate_normal(np.zeros(len(own)), dense, allow_singular=False)
        expected = density.logpdf(own)
        np.testing.assert_allclose(problem.log_constants[i] - 0.5 * misfit, expected, rtol=1e-6)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("groups", [(0, 1, 1), (-1, -1, 0)])
def test_gradient_is_the_derivative_of_the_loss(rng, gaps, groups):
    problem = make_problem(rng, gaps=gaps, groups=groups)
    log_speeds, shifts, step = np.array([-0.2, 0.1, 0.3]), np.array([-0.3, 0.5, 1.0]), 1e-6
    gradient, _ = problem.gradient(np.exp(log_speeds), shifts)
    by_speed = problem.loss(np.exp(log_speeds + step), shifts)
    by_speed -= problem.loss(np.exp(log_speeds - step), shifts)
    by_shift = problem.loss(np.exp(log_speeds), shifts + step)
    by_shift -= problem.loss(np.exp(log_speeds), shifts - step)
    expected = np.stack([by_speed, by_shift], axis=1) / (2 * step)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)
