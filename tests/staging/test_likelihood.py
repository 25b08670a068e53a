"""The marginal likelihood against dense integration, and its gradient against differences."""

from dataclasses import replace

import numpy as np
import pytest
from people_who_differ import (
    MULTIPLIERS,
    SUBJECTS,
    YEARS,
    draw,
    fit,
    make_problem,
    noise_of_visit,
)
from scipy.stats import multivariate_normal

from braindive.dive.stages import find_stages
from braindive.dive.timeline import Timeline
from braindive.staging.covariance_information import expected_information, observed_information
from braindive.staging.likelihood import evaluate
from braindive.staging.packing import Packing, Part
from braindive.staging.posterior import FINE, Points, Posterior, integrate
from braindive.staging.site_means import SiteMeans

# Of the six visits: the first person changes site.
SITES = SiteMeans(np.array([0, 1, 1, 2, 0, 2]), np.array([[0.1, 0.2], [-0.2, 0.1], [0.1, -0.3]]))


def lay(problem):
    speeds, shifts = find_stages(problem, np.array([-4.0, 4.0]))
    covariance = np.linalg.inv(problem.gradient(speeds, shifts)[1])
    mean = np.stack([np.log(speeds), shifts], axis=1)
    points = Points.around(problem.prior, mean, covariance, FINE)
    # Once more around what was found, as a fit does.
    return evaluate(problem, points).posterior.lay_points(problem.prior, FINE)


def dense_log_likelihoods(problem):
    """Sums over a fine grid of stages, with every subject's whole covariance written out."""
    people = problem.prior.population
    log_speeds, shifts = np.linspace(-2.6, 1.6, 61), np.linspace(-9, 9, 361)
    cell = (log_speeds[1] - log_speeds[0]) * (shifts[1] - shifts[0])
    found = []
    for i in range(3):
        rows = np.flatnonzero(i == SUBJECTS)
        dense = np.kron(np.ones((len(rows), len(rows))), problem.covariance.between)
        for j, row in enumerate(rows):
            block = slice(2 * j, 2 * j + 2)
            dense[block, block] += noise_of_visit(problem, row)
        grid = np.stack(np.meshgrid(log_speeds, shifts, indexing="ij")).reshape(2, -1)
        scores = np.exp(grid[0])[:, None] * problem.timeline.times[rows] + grid[1][:, None]
        curves = problem.trajectories.evaluate(scores.ravel()).reshape(*scores.shape, 2)
        residuals = (problem.pooled.means[rows] - curves).reshape(len(scores), -1)
        density = multivariate_normal(np.zeros(len(dense)), dense).logpdf(residuals)
        group = problem.prior.groups[i]
        for column, (mean, sd) in enumerate(
            [
                (people.log_speed_means[group], people.log_speed_sds[group]),
                (people.shift_means[group], people.shift_sds[group]),
            ]
        ):
            density += multivariate_normal(mean, sd**2).logpdf(grid[column])
        found.append(np.log(np.sum(np.exp(density - density.max())) * cell) + density.max())
    return np.array(found)


@pytest.mark.parametrize("multipliers", [None, MULTIPLIERS])
@pytest.mark.parametrize("gaps", [False, True])
def test_likelihood_agrees_with_dense_integration(rng, gaps, multipliers):
    problem = make_problem(rng, gaps=gaps, multipliers=multipliers)
    found = evaluate(problem, lay(problem)).log_likelihoods
    np.testing.assert_allclose(found, dense_log_likelihoods(problem), atol=0.02)


@pytest.mark.parametrize("multipliers", [None, MULTIPLIERS])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("sites", [None, SITES])
def test_gradient_is_the_derivative_of_the_likelihood_at_the_same_points(
    rng, gaps, multipliers, sites
):
    problem = replace(make_problem(rng, gaps=gaps, multipliers=multipliers), sites=sites)
    packing = Packing.of(problem, type(problem.trajectories).bounds(np.array([-2.0, 2.0])))
    vector, points = packing.pack(problem), lay(problem)
    problem = packing.unpack(vector, problem)  # the last group's mean speed is 1
    found = packing.gradients(vector, problem, evaluate(problem, points))
    for number in range(len(vector)):
        ends = []
        for step in (1e-5, -1e-5):
            moved = vector.copy()
            moved[number] += step
            ends.append(evaluate(packing.unpack(moved, problem), points).log_likelihoods)
        numeric = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(found[:, number], numeric, rtol=1e-5, atol=1e-6)


def test_offsets_of_sites_are_taken_off_the_means(rng):
    problem = make_problem(rng)
    moved = replace(
        problem,
        pooled=replace(problem.pooled, means=problem.pooled.means + SITES.of_visits()),
        sites=SITES,
    )
    points = lay(problem)
    there, here = evaluate(moved, points), evaluate(problem, points)
    np.testing.assert_allclose(there.log_likelihoods, here.log_likelihoods)
    unadjusted = evaluate(replace(moved, sites=None), points)
    assert np.abs(unadjusted.log_likelihoods - here.log_likelihoods).max() > 0.1


def test_packing_and_unpacking_give_the_same_parameters(rng):
    problem = make_problem(rng)
    packing = Packing.of(problem, type(problem.trajectories).bounds(np.array([-2.0, 2.0])))
    once = packing.unpack(packing.pack(problem), problem)
    np.testing.assert_allclose(once.covariance.within, problem.covariance.within)
    np.testing.assert_allclose(once.covariance.between, problem.covariance.between)
    np.testing.assert_allclose(once.trajectories.to_array(), problem.trajectories.to_array())
    people = once.prior.population
    speed = np.exp(people.log_speed_means[-1] + 0.5 * people.log_speed_sds[-1] ** 2)
    assert speed == pytest.approx(1.0)
    assert len(packing.pack(problem)) == sum(packing.sizes)


@pytest.mark.parametrize("multipliers", [None, np.repeat(MULTIPLIERS[:, :1], 2, axis=1)])
def test_information_on_the_covariances_is_that_of_many_subjects_whose_stages_are_known(
    rng, multipliers
):
    """At known stages the gradients by E and B scatter as much as there is information on them."""
    problem = make_problem(rng, multipliers=multipliers)
    packing = Packing.of(problem, type(problem.trajectories).bounds(np.array([-2.0, 2.0])))
    vector, covariance, timeline = packing.pack(problem), problem.covariance, problem.timeline
    parts, n_within = packing.parts(vector), packing.sizes[Part.WITHIN]
    numbers = np.concatenate([parts[Part.WITHIN], parts[Part.BETWEEN]])

    def log_densities(numbers, residuals, squares):
        e, b = packing.within.unpack(numbers[:n_within]), packing.between.unpack(numbers[n_within:])
        whole = np.kron(np.diag(squares), e) + np.kron(np.ones((len(squares),) * 2), b)
        return multivariate_normal(np.zeros(len(whole)), whole).logpdf(residuals)

    expected = np.zeros((len(numbers), len(numbers)))
    for first, count in zip(timeline.starts, timeline.n_visits_of_subject, strict=True):
        rows = slice(first, first + count)
        squares = np.ones(count) if multipliers is None else multipliers[rows, 0] ** 2
        whole = np.kron(np.diag(squares), covariance.within)
        whole += np.kron(np.ones((count, count)), covariance.between)
        drawn = rng.multivariate_normal(np.zeros(len(whole)), whole, size=40_000)
        scores = []
        for step in 1e-5 * np.eye(len(numbers)):
            ends = (log_densities(numbers + sign * step, drawn, squares) for sign in (1, -1))
            scores.append(np.subtract(*ends) / 2e-5)
        expected += np.cov(scores)
    found = expected_information(packing, vector, problem)
    np.testing.assert_allclose(found, expected, atol=0.03 * np.diag(expected).max())


def test_observed_information_on_the_covariances_is_the_curvature_at_known_stages(rng):
    # One visit less of the first and one more of the second: all are seen twice.
    timeline = Timeline.from_times(np.repeat(np.arange(3), 2), YEARS)
    problem = replace(make_problem(rng), timeline=timeline)
    packing = Packing.of(problem, type(problem.trajectories).bounds(np.array([-2.0, 2.0])))
    # Less noise than was found, and people who differ more.
    covariance = problem.covariance
    covariance = replace(covariance, within=covariance.within / 2, between=2 * covariance.between)
    problem = replace(problem, covariance=covariance)
    vector = packing.pack(problem)
    numbers = np.setdiff1d(np.arange(len(vector)), packing.of_stages())
    mean = np.stack([np.zeros(3), rng.normal(size=3)], axis=1)
    points = Points.around(problem.prior, mean, np.tile(1e-12 * np.eye(2), (3, 1, 1)), FINE)

    def gradient(vector):
        there = packing.unpack(vector, problem)
        return packing.gradient(vector, there, evaluate(there, points))[numbers]

    steps = 1e-5 * np.eye(len(vector))[numbers]
    curvature = [(gradient(vector - step) - gradient(vector + step)) / 2e-5 for step in steps]
    found = observed_information(packing, vector, problem, evaluate(problem, points))
    expected = expected_information(packing, vector, problem)
    # Where the curvature is that of a valley, it is not believed.
    root = np.linalg.inv(np.linalg.cholesky(expected))
    shares, vectors = np.linalg.eigh(root @ np.array(curvature) @ root.T)
    turned = np.linalg.inv(root) @ vectors
    believed = (turned * np.maximum(shares, 0.2)) @ turned.T
    np.testing.assert_allclose(found, believed, atol=1e-4 * np.abs(believed).max())
    assert shares.min() < 0.2 < 1.5 < shares.max()


def test_posterior_agrees_with_a_fine_grid(rng):
    problem = make_problem(rng)
    posterior = integrate(problem, *find_stages(problem, np.array([-4.0, 4.0])))
    log_speeds, shifts = np.linspace(-3, 2, 81), np.linspace(-9, 9, 361)
    grid = np.stack(np.meshgrid(log_speeds, shifts, indexing="ij")).reshape(2, -1)
    at = (np.repeat(x[:, None], 3, axis=1) for x in (np.exp(grid[0]), grid[1]))
    heights = -problem.loss(*at)
    weights = np.exp(heights - heights.max(axis=0))
    weights /= weights.sum(axis=0)
    speed, shift = np.exp(grid[0]) @ weights, grid[1] @ weights
    spread = np.sqrt((grid[1] ** 2) @ weights - shift**2)
    found_speed, found_shift = posterior.mean()
    np.testing.assert_allclose(found_speed, speed, atol=0.01)
    np.testing.assert_allclose(found_shift, shift, atol=0.02 * spread.max())
    errors = posterior.standard_errors(problem.timeline)
    at_zero = replace(problem.timeline, centres=np.zeros(3))
    np.testing.assert_allclose(posterior.standard_errors(at_zero)[:, 1], spread, rtol=0.03)
    assert (errors > 0).all()


def test_moments_are_those_of_weighted_points(rng):
    posterior = Posterior(*rng.random((2, 5, 3)), rng.dirichlet(np.ones(5), size=3).T)
    mean, covariance = posterior.moments()
    for subject in range(3):
        both = np.stack([posterior.log_speeds[:, subject], posterior.shifts[:, subject]])
        weights = posterior.weights[:, subject]
        np.testing.assert_allclose(mean[subject], both @ weights)
        expected = np.cov(both, aweights=weights, ddof=0)
        np.testing.assert_allclose(covariance[subject], expected, atol=2e-10)


def test_twice_as_many_points_hardly_change_the_stages():
    drawn = draw(6, n_controls=20, n_patients=40)
    problem = fit(drawn).climb.problem
    modes = find_stages(problem, np.array([-20.0, 20.0]))
    twice = (np.linspace(-4.5, 4.5, 19), np.linspace(-3.5, 3.5, 13))
    few, many = integrate(problem, *modes), integrate(problem, *modes, twice)
    errors = many.standard_errors(drawn.timeline)
    for one, other, error in zip(few.mean(), many.mean(), errors.T[:2], strict=True):
        assert np.max(np.abs(one - other) / error) < 0.1
