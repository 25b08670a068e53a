"""Noise that depends on level and person, learnt from errors of people left out."""

import numpy as np
import pytest

import braindive as bd
from braindive.prediction.noise import Errors, PersonalNoise, learn_noise


def errors(rng, by_level=0.0, by_person=0.0, n_people=80, n_vertices=60, n_visits=4):
    """Errors with a known noise, and histories of the same people with the same noise."""
    levels = rng.normal(size=(n_people, n_vertices))
    factors = np.exp(by_level * levels + by_person * rng.normal(size=(n_people, 1)))
    history = rng.normal(size=(n_visits, n_people, n_vertices)) * np.sqrt(factors)
    squares = 0.2 * rng.normal(size=levels.shape) ** 2
    squares = (np.sqrt(factors) * rng.normal(size=levels.shape)) ** 2 + squares
    people = np.repeat(np.arange(n_people), n_vertices)
    found = Errors(
        squares.ravel(),
        levels.ravel(),
        np.full(levels.size, 0.2),
        np.ones(levels.size),
        people,
        people,
        history.var(axis=0, ddof=1).ravel(),
        levels.ravel(),
        np.full(levels.size, n_visits),
    )
    return found, factors


def test_noise_by_level_is_recovered_and_never_negative(rng):
    found, factors = errors(rng, by_level=0.8)
    noise, inflation = learn_noise(found)
    told = noise.at(found.levels)
    inner = np.abs(found.levels) < 2
    assert np.corrcoef(np.log(told[inner]), np.log(factors.ravel()[inner]))[0, 1] > 0.98
    assert told.min() > 0
    np.testing.assert_allclose(inflation, 1.0, atol=0.15)
    assert np.all(noise.at(np.array([-50.0, 50.0])) > 0)


def test_constant_noise_stays_nearly_constant(rng):
    noise, inflation = learn_noise(errors(rng)[0])
    told = noise.at(np.linspace(-2, 2, 9))
    np.testing.assert_allclose(told / np.mean(told), 1.0, atol=0.15)
    people = noise.of_people(np.array([0.8, 1.25]), np.array([4, 4]))
    np.testing.assert_allclose(people, 1.0, atol=0.15)
    np.testing.assert_allclose(inflation, 1.0, atol=0.1)


def test_the_persons_own_noise_is_told_by_its_history(rng):
    found, factors = errors(rng, by_person=0.8)
    noise, _ = learn_noise(found)
    assert not noise.is_alike
    told = noise.of_people(found.scatter(noise), np.full(80, 4))
    assert np.corrcoef(np.log(told), np.log(factors[:, 0]))[0, 1] > 0.9
    # Who was seen once is like everybody.
    assert noise.of_people(np.array([7.0]), np.array([1]))[0] == 1.0


def test_factors_are_linear_between_knots_and_constant_beyond():
    noise = PersonalNoise(np.array([-1.0, 0.0, 1.0]), np.log([1.0, 2.0, 8.0]))
    expected = [1.0, 1.0, np.sqrt(2.0), 2.0, 8.0, 8.0]  # linear in the logarithm
    at = noise.at(np.array([-3.0, -1.0, -0.5, 0.0, 1.0, 4.0]))
    np.testing.assert_allclose(at, expected)


@pytest.fixture(scope="module")
def noisy_below():
    """A cohort whose noise is four times as large at low values as at high ones."""
    rng = np.random.default_rng(0)
    simulated = bd.simulate_cohort(
        150, 4, 80, noise=1e-3, personal_offset=0.5, personal_components=3, random_state=1
    ).cohort
    clean = np.array(simulated.values)
    spread = 0.4 * np.exp(-0.7 * (clean - clean.mean()) / clean.std())
    values = clean + spread * rng.normal(size=clean.shape)
    cohort = bd.Cohort(values, subjects=simulated.subjects, times=simulated.times)
    ids = list(cohort.subject_ids)
    model = bd.DIVE(3, random_state=0).fit(cohort.select(subjects=ids[:90]))
    return model, cohort.select(subjects=ids[90:])


def test_intervals_cover_at_every_level(noisy_below, tmp_path):
    model, test = noisy_below
    early, late = test.first_visits(3), test.later_visits(3)
    expected, spread = model.predict(late, history=early, return_std=True)
    covered = (np.abs(late.values - expected) < 1.96 * spread).ravel()
    fifths = np.array_split(np.argsort(expected.ravel()), 5)
    shares = [covered[fifth].mean() for fifth in fifths]
    assert min(shares) > 0.91
    assert max(shares) < 0.98
    # One spread for all levels would not.
    same = np.sqrt(np.mean(spread**2))
    simple = (np.abs(late.values - expected) < 1.96 * same).ravel()
    assert simple[fifths[-1]].mean() - simple[fifths[0]].mean() > 0.1
    model.save(tmp_path / "fit.dive")
    again = bd.load_model(tmp_path / "fit.dive").predict(late, history=early, return_std=True)
    np.testing.assert_array_equal(again[1], spread)


def test_spreads_do_not_depend_on_holes_elsewhere(noisy_below):
    model, test = noisy_below
    early, late = test.first_visits(3), test.later_visits(3)
    values = np.array(early.values)
    values[0, :5] = np.nan
    holed = bd.Cohort(values, subjects=early.subjects, times=early.times)
    _, whole = model.predict(late, history=early, return_std=True)
    _, found = model.predict(late, history=holed, return_std=True)
    others = late.subjects != early.subjects[0]
    np.testing.assert_allclose(found[others], whole[others], rtol=1e-5)
