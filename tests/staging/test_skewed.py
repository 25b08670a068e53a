"""Skewed shifts: the density, its derivatives, and fits that need it and that do not."""

from dataclasses import replace

import numpy as np
import pytest
from people_who_differ import draw, fit, make_problem
from scipy.stats import norm
from test_likelihood import lay

from braindive.staging.likelihood import evaluate
from braindive.staging.packing import Packing, Part
from braindive.staging.skewed import Skewed, skewed_mean


@pytest.mark.parametrize("skew", [-0.7, 0.0, 0.4])
def test_density_integrates_to_one_and_is_that_of_transformed_normal_draws(rng, skew):
    grid = np.linspace(-30, 30, 60_001)
    density = np.exp(Skewed.at(grid, np.array(skew)).log_density) * norm.pdf(0)
    assert np.trapezoid(density, grid) == pytest.approx(1, abs=1e-6)
    drawn = np.sinh(np.arcsinh(rng.normal(size=100_000)) + skew)
    below = np.trapezoid(density[grid <= 0.5], grid[grid <= 0.5])
    assert np.mean(drawn <= 0.5) == pytest.approx(below, abs=0.01)


def test_derivatives_are_those_of_the_density():
    places, skew, step = np.array([-3.0, -0.2, 0.0, 1.5, 6.0]), np.array(0.5), 1e-6
    at = Skewed.at(places, skew)
    ends = [Skewed.at(places + sign * step, skew).log_density for sign in (1, -1)]
    np.testing.assert_allclose(at.pull, -np.subtract(*ends) / (2 * step), rtol=1e-6, atol=1e-8)
    ends = [Skewed.at(places, skew + sign * step).log_density for sign in (1, -1)]
    np.testing.assert_allclose(at.by_skew, np.subtract(*ends) / (2 * step), rtol=1e-6, atol=1e-8)
    assert (at.curvature > 0).all()
    np.testing.assert_allclose(Skewed.at(places, np.array(0.0)).pull, places, atol=1e-12)


def skewed_problem(rng, groups=(0, 1, 1)):
    problem = make_problem(rng, groups=groups)
    population = replace(problem.prior.population, skews=np.array([0.0, 0.4]))
    return replace(problem, prior=replace(problem.prior, population=population))


def test_gradient_of_a_skewed_population_is_the_derivative_of_the_likelihood(rng):
    problem = skewed_problem(rng)
    packing = Packing.of(problem, type(problem.trajectories).bounds(np.array([-2.0, 2.0])))
    assert packing.sizes[Part.SKEW] == 1
    vector, points = packing.pack(problem), lay(problem)
    problem = packing.unpack(vector, problem)
    assert problem.prior.population.skews.tolist() == [0.0, 0.4]
    found = packing.gradients(vector, problem, evaluate(problem, points))
    for number in range(len(vector)):
        ends = []
        for step in (1e-5, -1e-5):
            moved = vector.copy()
            moved[number] += step
            ends.append(evaluate(packing.unpack(moved, problem), points).log_likelihoods)
        numeric = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(found[:, number], numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("groups", [(0, 1, 1), (-1, -1, 0)])
def test_pull_of_a_skewed_population_is_the_gradient_of_its_density(rng, groups):
    prior = skewed_problem(rng, groups).prior
    log_speeds, shifts, step = np.array([-0.2, 0.1, 0.3]), np.array([-2.3, 0.5, 3.0]), 1e-6
    ends = [prior.log_density(log_speeds, shifts + sign * step) for sign in (1, -1)]
    expected = -np.subtract(*ends) / (2 * step)
    np.testing.assert_allclose(prior.pull(log_speeds, shifts)[0][:, 1], expected, rtol=1e-5)


def test_patients_who_were_found_early_are_skewed_and_others_are_not():
    normal = draw(3, n_controls=30, n_patients=90)
    rng = np.random.default_rng(3)
    late = rng.gamma(1.5, 7.0, len(normal.first)) - 8
    shift = np.where(normal.patients, late - normal.first, 0.0)
    of_visit = normal.timeline.subject_of_visit
    scores = normal.first + normal.speeds * 0
    years = normal.timeline.years - normal.timeline.years[normal.timeline.starts][of_visit]
    before = normal.curves.evaluate(scores[of_visit] + normal.speeds[of_visit] * years)
    after = normal.curves.evaluate((scores + shift)[of_visit] + normal.speeds[of_visit] * years)
    pooled = replace(normal.pooled, means=normal.pooled.means + after - before)
    skewed = replace(normal, pooled=pooled, first=scores + shift)
    assert fit(normal).climb.problem.prior.population.skews is None
    skews = fit(skewed).climb.problem.prior.population.skews
    assert skews is not None
    assert skews[0] == 0
    assert skews[1] > 0.1


@pytest.mark.parametrize("skew", [-0.4, 0.0, 0.7])
def test_the_mean_is_that_of_the_density(skew):
    places = np.linspace(-40, 40, 400_001)
    density = np.exp(Skewed.at(places, np.array(skew)).log_density) / np.sqrt(2 * np.pi)
    mean, by_skew = skewed_mean(skew)
    assert mean == pytest.approx(np.sum(places * density) * (places[1] - places[0]), abs=1e-6)
    step = 1e-5
    ends = skewed_mean(skew + step)[0] - skewed_mean(skew - step)[0]
    assert by_skew == pytest.approx(ends / (2 * step))
