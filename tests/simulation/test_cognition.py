"""Simulated cognitive scores and gene effects."""

import numpy as np
import pytest
from scipy import stats

import braindive as bd
from braindive.simulation.cognition import TESTS, draw_cognition


def test_scores_are_bounded_and_some_are_missing(rng):
    table = draw_cognition(np.linspace(-3, 3, 5000), rng, missing=0.2)
    for name, test in TESTS.items():
        assert table[name].min() >= test.lowest
        assert table[name].max() <= test.highest
        assert table[name].isna().mean() == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize(
    ("name", "sign"), [("CDRSOB", 1), ("ADAS13", 1), ("MMSE", -1), ("RAVLT", -1)]
)
def test_scores_are_monotone_in_the_true_stage(rng, name, sign):
    stages = np.repeat(np.linspace(-2, 2, 9), 4000)
    means = draw_cognition(stages, rng)[name].groupby(stages).mean()
    assert (sign * np.diff(means) > 0).all()


def test_a_planted_effect_is_of_the_size_asked_for():
    simulation = bd.simulate_cohort(
        n_subjects=4000, n_visits=1, n_vertices=1, group_effect=0.5, random_state=0
    )
    carriers = simulation.cohort.table["apoe4"].to_numpy() == 1
    shifts = simulation.truth.shifts
    assert (shifts[carriers].mean() - shifts[~carriers].mean()) / 10 == pytest.approx(0.5, abs=0.1)
    logs = np.log(simulation.truth.speeds)
    assert logs[carriers].mean() - logs[~carriers].mean() == pytest.approx(0.2, abs=0.05)


def test_no_effect_leaves_groups_alike():
    simulation = bd.simulate_cohort(
        n_subjects=2000, n_visits=1, n_vertices=1, group_effect=0.0, random_state=0
    )
    carriers = simulation.cohort.table["apoe4"].to_numpy() == 1
    shifts = simulation.truth.shifts
    assert stats.mannwhitneyu(shifts[carriers], shifts[~carriers]).pvalue > 0.01


def test_extras_do_not_change_the_measurements():
    plain = bd.simulate_cohort(n_subjects=5, n_vertices=4, random_state=0).cohort
    rich = bd.simulate_cohort(n_subjects=5, n_vertices=4, cognition=True, random_state=0).cohort
    np.testing.assert_array_equal(plain.values, rich.values)
