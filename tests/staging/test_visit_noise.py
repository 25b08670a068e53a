"""Noise that differs between visits: learnt where it does, and nothing where it does not."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from people_who_differ import MULTIPLIERS, draw, fit, make_problem

import braindive as bd
from braindive.staging.change import visit_series
from braindive.staging.marginal_stager import MarginalStager, place_subjects
from braindive.staging.posterior import integrate
from braindive.staging.visit_noise import VisitNoise, _Residuals


@pytest.fixture(scope="module")
def usual():
    """People whose noise is constant, and the true model of them."""
    drawn = draw(1, n_controls=40, n_patients=80)
    return drawn, fit(drawn)


def with_noise(usual, factors):
    """The fitted model of the people, whose residual noise is drawn anew and multiplied."""
    found = usual[1]
    problem = found.climb.problem
    rng = np.random.default_rng(5)
    means = problem.trajectories.evaluate(
        problem.timeline.scores(*found.climb.evaluation.posterior.mean())
    )
    roots = [np.linalg.cholesky(x) for x in (problem.covariance.between, problem.covariance.within)]
    of_visit = problem.timeline.subject_of_visit
    levels = rng.normal(size=(problem.timeline.n_subjects, means.shape[1])) @ roots[0].T
    errors = rng.normal(size=means.shape) @ roots[1].T
    pooled = replace(problem.pooled, means=means + levels[of_visit] + factors * errors)
    return replace(problem, pooled=pooled)


def placed(problem):
    return place_subjects(problem, np.array([-25.0, 25.0]))


def test_residuals_have_as_many_degrees_of_freedom_as_they_are_large(usual):
    """Over the places where people may be, squares are on average what is left for them."""
    there = placed(with_noise(usual, 1.0))
    left = _Residuals.of(there.problem, there.posterior, -25.0)
    squares, freedom = left.squares(np.ones_like(left.damage))
    assert squares.sum() / freedom.sum() == pytest.approx(1.0, abs=0.06)
    assert freedom.mean() == pytest.approx(4 * 3 / 4, abs=0.15)


def test_constant_noise_stays_constant(usual):
    there = placed(with_noise(usual, 1.0))
    assert VisitNoise.learn(there.problem, there.posterior).is_constant


def test_noise_that_grows_with_damage_is_found(usual):
    problem = usual[1].climb.problem
    scores = problem.timeline.scores(*usual[1].climb.evaluation.posterior.mean())
    damage = np.abs(problem.trajectories.evaluate(scores))
    there = placed(with_noise(usual, 0.6 + 0.6 * damage))
    found = VisitNoise.learn(there.problem, there.posterior)
    assert found.damage is not None
    factors = found.multipliers(there.problem, there.posterior, as_usual=True)
    assert np.corrcoef(factors.ravel(), damage.ravel())[0, 1] > 0.8
    assert factors.max() / factors.min() == pytest.approx(3.0, rel=0.4)
    assert factors.min() > 0


@pytest.mark.parametrize("whose", ["visits", "people"])
def test_bad_scans_and_noisy_people_are_found(usual, whose):
    timeline = usual[0].timeline
    rng = np.random.default_rng(2)
    if whose == "visits":
        factors = np.sqrt(4 / rng.chisquare(4, len(timeline.times)))
    else:
        factors = np.sqrt(4 / rng.chisquare(4, timeline.n_subjects))[timeline.subject_of_visit]
    there = placed(with_noise(usual, factors[:, None]))
    found = VisitNoise.learn(there.problem, there.posterior)
    assert 1.5 < getattr(found, whose) < 25
    assert getattr(found, "people" if whose == "visits" else "visits") == 0
    known = found.multipliers(there.problem, there.posterior)[:, 0]
    assert np.corrcoef(np.log(known), np.log(factors))[0, 1] > 0.4


def test_multipliers_weigh_the_visits_of_a_change(rng):
    """A series of a cluster has the inverse variances of its visits as weights."""
    drawn = draw(2, n_controls=10, n_patients=20)
    found = fit(drawn).climb.problem
    multipliers = np.exp(rng.normal(size=drawn.pooled.means.shape))
    there = placed(found)
    noisy = replace(there, problem=replace(found, multipliers=multipliers))

    stager = MarginalStager(
        found.trajectories,
        found.noise,
        found.prior.population,
        found.covariance,
        None,
        0.0,
        1.0,
        there.shifts,
        there.shifts,
    )
    sums = drawn.pooled.means * drawn.pooled.weights
    one, other = (visit_series(stager, x, sums, drawn.pooled.weights) for x in (there, noisy))
    np.testing.assert_allclose(other.weights[:, 1:], one.weights[:, 1:] / multipliers**2)


def test_a_model_keeps_the_noise_of_its_visits_and_judges_by_it(tmp_path):
    """From fit to file and back: noise that grows with damage, and one scan that is bad."""
    rng = np.random.default_rng(4)
    simulated = bd.simulate_cohort(
        60, 4, 60, noise=0.02, midpoint_variation=0.0, steepness_variation=0.0, random_state=4
    )
    values = np.array(simulated.cohort.values)
    damage = np.abs(values - values.max(axis=0))
    whole = rng.normal(size=(len(values), 1))
    values += (0.01 + 0.12 * damage) * whole
    cohort = bd.Cohort(values, subjects=simulated.cohort.subjects, times=simulated.cohort.times)
    model = bd.DIVE(3, personal=False, random_state=0).fit(cohort)
    assert model.marginal_.visit_noise.damage is not None
    model.save(tmp_path / "model.dive")
    again = bd.load_model(tmp_path / "model.dive")
    pd.testing.assert_frame_equal(again.stage(cohort), model.stage(cohort))
    scans = bd.goodness_of_fit(model, cohort).visits
    assert scans["outlier"].mean() < 0.1
    values[7] += 3.0 * (rng.random(values.shape[1]) < 0.5)
    worse = bd.Cohort(values, subjects=cohort.subjects, times=cohort.times)
    assert bd.goodness_of_fit(model, worse).visits["outlier"][7]


def test_posterior_is_wider_where_noise_is_larger(rng):
    state = rng.bit_generator.state
    one = make_problem(rng)
    rng.bit_generator.state = state
    other = make_problem(rng, multipliers=3 * np.ones_like(MULTIPLIERS))
    errors = [integrate(x, *x.start()).standard_errors(x.timeline)[:, 2] for x in (one, other)]
    assert (errors[1] > errors[0]).all()
