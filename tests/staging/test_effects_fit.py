"""Covariates in the marginal model, against differences and simulations."""

from dataclasses import replace

import numpy as np
import pytest
from people_who_differ import draw, make_problem
from scipy.stats import norm

from braindive.dive.curves import Trajectories
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Priors
from braindive.dive.problem import Parameters
from braindive.dive.trajectories import search_trajectories
from braindive.staging.curve_uncertainty import sensitivities
from braindive.staging.expected_information import known_information
from braindive.staging.likelihood import evaluate
from braindive.staging.marginal_fit import fit_marginal
from braindive.staging.packing import Packing
from braindive.staging.population import UNKNOWN, Design, Effects, StagePrior
from braindive.staging.posterior import FINE, integrate, points_at
from braindive.staging.simulated import simulate_again
from braindive.staging.site_means import SiteMeans


def with_covariates(problem, rng):
    """The same subjects with two covariates of the shift, one of the speed, and effects."""
    n_subjects = problem.timeline.n_subjects
    design = Design(
        rng.normal(size=(n_subjects, 2)), rng.normal(size=(n_subjects, 1)), np.zeros(n_subjects)
    ).at(problem.timeline)
    population = replace(
        problem.prior.population, effects=Effects(np.array([0.5, -0.3]), np.array([0.2]))
    )
    return replace(problem, prior=StagePrior(population, problem.prior.groups, design))


def packed(problem):
    bounds = Trajectories.bounds(np.linspace(-3, 3, 20))
    packing = Packing.of(problem, bounds)
    return packing, packing.pack(problem)


def test_means_are_those_at_the_first_visit_moved_to_the_mean_of_the_visits(rng):
    prior = with_covariates(make_problem(rng), rng).prior
    people, design = prior.population, prior.design
    for i, group in enumerate(prior.groups):
        log_speed = people.log_speed_means[group] + 0.2 * design.log_speed[i, 0]
        speed = np.exp(log_speed + people.log_speed_sds[group] ** 2 / 2)
        at_first = people.shift_means[group] + design.shift[i] @ [0.5, -0.3]
        expected = at_first + speed * design.lead[i]
        found = prior.log_density(np.full(3, 0.1), np.full(3, 0.4))[i]
        assert found == pytest.approx(
            norm.logpdf(0.1, log_speed, people.log_speed_sds[group])
            + norm.logpdf(0.4, expected, people.shift_sds[group])
        )


def test_covariates_of_subjects_whose_group_is_unknown_move_every_group(rng):
    known = with_covariates(make_problem(rng), rng).prior
    unknown = replace(known, groups=np.full(3, UNKNOWN))
    log_speeds, shifts = rng.normal(size=3), rng.normal(size=3)
    parts = [
        np.exp(replace(known, groups=np.full(3, g)).log_density(log_speeds, shifts)) for g in (0, 1)
    ]
    expected = known.population.shares @ np.stack(parts)
    np.testing.assert_allclose(np.exp(unknown.log_density(log_speeds, shifts)), expected)
    step = 1e-6
    pull, _ = unknown.pull(log_speeds, shifts)
    for column, (a, b) in enumerate(((step, 0.0), (0.0, step))):
        up, down = (unknown.log_density(log_speeds + s * a, shifts + s * b) for s in (1, -1))
        np.testing.assert_allclose(pull[:, column], -(up - down) / (2 * step), rtol=1e-4, atol=1e-6)


def test_gradients_with_covariates_are_those_by_differences(rng):
    problem = with_covariates(make_problem(rng), rng)
    packing, vector = packed(problem)
    problem = packing.unpack(vector, problem)
    points = points_at(problem, *problem.start(), FINE)
    gradients = packing.gradients(vector, problem, evaluate(problem, points))
    assert gradients.shape == (3, len(vector))
    for place in range(len(vector)):
        step = np.zeros_like(vector)
        step[place] = 1e-5
        up, down = (
            evaluate(packing.unpack(vector + s * step, problem), points).log_likelihoods
            for s in (1, -1)
        )
        np.testing.assert_allclose(gradients[:, place], (up - down) / 2e-5, rtol=2e-4, atol=2e-5)


def test_curves_that_are_held_are_no_part_of_the_vector(rng):
    problem = with_covariates(make_problem(rng), rng)
    packing, vector = packed(problem)
    held = replace(packing, curves_vary=False, within=None, between=None)
    short = held.pack(problem)
    np.testing.assert_array_equal(short, vector[-len(short) :])
    again = held.unpack(short, problem)
    assert again.trajectories is problem.trajectories
    gradients = held.gradients(
        short, again, evaluate(again, points_at(again, *again.start(), FINE))
    )
    assert gradients.shape == (3, len(short))


def test_how_stages_move_with_effects_is_what_differences_say(rng):
    problem = with_covariates(make_problem(rng, groups=(0, UNKNOWN, 1)), rng)
    stages = problem.start()
    dense = np.linspace(-6, 6, 61), np.linspace(-5, 5, 31)
    by_speed, by_shift = sensitivities(problem, integrate(problem, *stages, dense))
    n_effects, step = 3, 1e-4
    effects = problem.prior.population.effects
    for place in range(n_effects):
        moved = []
        for sign in (1, -1):
            change = sign * step * (np.arange(n_effects) == place)
            there = Effects(effects.shift + change[:2], effects.log_speed + change[2:])
            people = replace(problem.prior.population, effects=there)
            prior = replace(problem.prior, population=people)
            moved.append(integrate(replace(problem, prior=prior), *stages, dense).mean())
        column = by_speed.shape[1] - n_effects + place
        for derivative, up, down in zip((by_speed, by_shift), *moved, strict=True):
            expected = (up - down) / (2 * step)
            np.testing.assert_allclose(derivative[:, column], expected, rtol=5e-3, atol=1e-3)


def test_how_stages_move_with_offsets_of_sites_is_what_differences_say(rng):
    sites = SiteMeans(np.array([0, 1, 1, 0, -1, 0]), np.zeros((2, 2)))
    problem = replace(with_covariates(make_problem(rng), rng), sites=sites)
    stages = problem.start()
    dense = np.linspace(-6, 6, 61), np.linspace(-5, 5, 31)
    by_speed, by_shift = sensitivities(problem, integrate(problem, *stages, dense))
    first, step = problem.trajectories.to_array().size + 4 * 2, 1e-4
    for place in range(4):
        moved = []
        for sign in (1, -1):
            there = replace(sites, offsets=(sign * step * np.eye(4)[place]).reshape(2, 2))
            moved.append(integrate(replace(problem, sites=there), *stages, dense).mean())
        for derivative, up, down in zip((by_speed, by_shift), *moved, strict=True):
            expected = (up - down) / (2 * step)
            np.testing.assert_allclose(derivative[:, first + place], expected, rtol=5e-3, atol=1e-3)


def test_people_who_are_measured_again_keep_their_covariates(rng):
    problem = with_covariates(make_problem(rng), rng)
    posterior = integrate(problem, *problem.start())
    again, _, _ = simulate_again(problem, posterior, 2, np.random.default_rng(0))
    np.testing.assert_array_equal(again.prior.design.shift[3:], problem.prior.design.shift)
    np.testing.assert_array_equal(
        again.prior.of_subjects()[1][0][:3], again.prior.of_subjects()[1][0][3:]
    )


def test_planted_effects_are_found_and_follow_up_of_different_length_is_no_effect():
    """Carriers are 4 years ahead and 1.4 times as fast; those seen twice only are not behind."""
    drawn = draw(3, n_controls=0, n_patients=200, level=0.2, noise=0.05)
    rng = np.random.default_rng(3)
    carriers = rng.permutation(200) < 60
    briefly = rng.permutation(200) < 100
    first, speeds = drawn.first + 4 * carriers, drawn.speeds * np.where(carriers, 1.4, 1.0)
    timeline, of_visit = drawn.timeline, drawn.timeline.subject_of_visit
    moved = drawn.curves.evaluate(first[of_visit] + speeds[of_visit] * timeline.years)
    old = drawn.curves.evaluate(drawn.first[of_visit] + drawn.speeds[of_visit] * timeline.years)
    keep = ~briefly[of_visit] | (timeline.years < 2)
    shown = type(timeline).from_times(of_visit[keep], timeline.years[keep])
    pooled = PooledMeans(
        (drawn.pooled.means + moved - old)[keep], drawn.pooled.weights[keep], np.zeros(4)
    )
    columns = np.column_stack([carriers, briefly]).astype(float)
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    design = Design(columns, columns[:, :1], np.zeros(200)).at(shown)
    middle = first + speeds * -shown.times[shown.starts] * shown.unit
    shifts = middle / shown.unit
    start = search_trajectories(
        Trajectories, pooled, shown.scores(np.ones(200), shifts), Trajectories.bounds(shifts)
    )
    parameters = Parameters(start, np.ones(4), np.ones(200), shifts)
    fit = fit_marginal(pooled, shown, parameters, Priors(), None, design)
    fit = fit.refined(pooled, parameters.noise)
    found = fit.climb.problem.prior.population
    assert fit.climb.converged
    years = found.effects.shift * shown.unit
    of_carriers, of_brief = years / np.array([carriers.std(), briefly.std()])
    truth = first[carriers].mean() - first[~carriers].mean()
    unit = speeds.mean()
    assert of_carriers == pytest.approx(truth / unit, abs=1.0)
    # At the mean of their visits they are a year behind the others; at the first they are not.
    chance = first[briefly].mean() - first[~briefly].mean()
    assert of_brief == pytest.approx(chance / unit, abs=0.5)
    ratio = np.exp(found.effects.log_speed[0] / carriers.std())
    assert ratio == pytest.approx(speeds[carriers].mean() / speeds[~carriers].mean(), rel=0.1)


def test_errors_of_effects_are_those_of_a_regression_however_much_a_small_group_varies():
    """Stages are nearly known: the error is the spread of the shifts over the root of people."""
    drawn = draw(5, n_controls=0, n_patients=120, level=0.05, noise=0.02)
    timeline, first = drawn.timeline, drawn.first
    few = np.argsort(np.abs(first - first.mean()))[-12:]  # who are furthest away
    column = np.zeros(120)
    column[few] = 1.0
    column = ((column - column.mean()) / column.std())[:, None]
    design = Design(column, np.zeros((120, 0)), np.zeros(120)).at(timeline)
    shifts = (first + 1.5 * drawn.speeds) / timeline.unit
    parameters = Parameters(
        drawn.curves.rescored(0.0, timeline.unit), np.ones(4), np.ones(120), shifts
    )
    fit = fit_marginal(drawn.pooled, timeline, parameters, Priors(), None, design)
    fit = fit.refined(drawn.pooled, parameters.noise)
    information = known_information(fit.climb, fit.packing)
    error = np.sqrt(np.linalg.inv(information)[-1, -1])
    expected = fit.climb.problem.prior.population.shift_sds[0] / np.sqrt(120)
    assert error == pytest.approx(expected, rel=0.1)
