"""People of simulated cohorts: their persistent maps, and controls who are before the disease."""

import numpy as np
import pytest

import braindive as bd

ROUNDS = 6
# Nothing but the persistent maps is random: no noise, and every vertex on its area's curve.
EXACT = {"noise": 0.0, "steepness_variation": 0.0, "midpoint_variation": 0.0}
WITH_CONTROLS = {
    "n_subjects": 2000,
    "n_vertices": 2,
    "mean_shift": 2.0,
    "shift_sd": 9.0,
    "control_share": 0.35,
    "controls_shift": (-22.0, 3.0),
    "controls_speed": 0.3,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def slab():
    return bd.Volume("slab", np.ones((9, 8, 2), dtype=bool), np.eye(4))


def maps_of(simulation):
    """What is left of the values without the disease, (n_visits, n_vertices)."""
    truth = simulation.truth
    return simulation.cohort.values - truth.vertices.evaluate(truth.scores)


def averaging(space):
    """One round of averaging every vertex with its neighbours, as a dense matrix."""
    matrix = np.eye(space.n_vertices)
    for i, j in space.edges():
        matrix[i, j] = matrix[j, i] = 1
    return matrix / matrix.sum(axis=1, keepdims=True)


def test_defaults_draw_the_recipe_of_the_basic_setting_number_by_number():
    simulation = bd.simulate_cohort(n_subjects=7, n_vertices=11, random_state=3)
    random = np.random.default_rng(np.random.RandomState(3).randint(2**31))
    speeds, shifts = random.gamma(6.25, 1 / 6.25, 7), random.normal(0, 10, 7)
    labels = random.integers(3, size=11)
    steepness = 0.4 * (1 + random.normal(0, np.sqrt(1 / 15), 11))
    midpoint = np.array([-15, 2.5, 20])[labels] + random.normal(0, np.sqrt(11.6), 11)
    scores = (speeds[:, None] * np.arange(4.0) + shifts[:, None]).ravel()
    curves = bd.Trajectories(np.full(11, -1.0), steepness, midpoint, np.zeros(11))
    values = curves.evaluate(scores) + random.standard_normal((28, 11))
    np.testing.assert_array_equal(simulation.truth.scores, scores)
    np.testing.assert_array_equal(simulation.cohort.values, values)
    assert not simulation.truth.mislabelled.any()


def test_smooth_maps_have_the_covariance_of_averaged_noise_and_the_size_asked_for(slab):
    simulation = bd.simulate_cohort(
        4000, 1, space=slab, personal_offset=0.9, personal_smoothing=ROUNDS, random_state=0, **EXACT
    )
    found = np.cov(maps_of(simulation).T)
    kernel = np.linalg.matrix_power(averaging(slab), ROUNDS)
    expected = kernel @ kernel.T
    expected *= 0.9**2 / np.trace(expected) * len(expected)
    assert np.diag(found).mean() == pytest.approx(0.81, rel=0.01)
    # The standard error of a covariance of 4,000 people is at most variance * sqrt(2 / 4000).
    np.testing.assert_allclose(found, expected, atol=5 * expected.max() * np.sqrt(2 / 4000))
    # Other rounds would not do.
    rougher = np.linalg.matrix_power(averaging(slab), ROUNDS // 2)
    rough = rougher @ rougher.T
    rough *= 0.9**2 / np.trace(rough) * len(rough)
    assert np.abs(found - rough).max() > 10 * expected.max() * np.sqrt(2 / 4000)


def test_maps_without_smoothing_are_independent_over_vertices(slab):
    simulation = bd.simulate_cohort(
        2000, 1, space=slab, personal_offset=0.9, random_state=0, **EXACT
    )
    found = np.cov(maps_of(simulation).T)
    np.testing.assert_allclose(found, 0.81 * np.eye(len(found)), atol=5 * 0.81 * np.sqrt(2 / 2000))


def test_everybody_has_one_map_at_all_visits(slab):
    simulation = bd.simulate_cohort(
        20, 4, space=slab, personal_offset=0.9, personal_smoothing=ROUNDS, random_state=0, **EXACT
    )
    by_subject = maps_of(simulation).reshape(20, 4, -1)
    np.testing.assert_allclose(by_subject, by_subject[:, :1].repeat(4, axis=1), atol=1e-12)
    assert by_subject[:, 0].std(axis=0).min() > 0.3


def test_maps_that_are_combinations_of_a_few_can_be_smooth_too(slab):
    settings = {"space": slab, "personal_offset": 0.9, "personal_components": 2, "random_state": 0}
    rough = maps_of(bd.simulate_cohort(30, 1, **settings, **EXACT))
    smooth = maps_of(bd.simulate_cohort(30, 1, personal_smoothing=ROUNDS, **settings, **EXACT))
    assert np.linalg.matrix_rank(smooth, tol=1e-8) == 2
    assert np.sqrt(np.mean(smooth**2)) == pytest.approx(0.9)
    # The same maps, averaged.
    averaged = rough @ np.linalg.matrix_power(averaging(slab), ROUNDS).T
    np.testing.assert_allclose(smooth, averaged * 0.9 / np.sqrt(np.mean(averaged**2)), atol=1e-12)


def test_controls_have_their_own_scores_and_speeds():
    simulation = bd.simulate_cohort(**WITH_CONTROLS)
    cohort, truth = simulation.cohort, simulation.truth
    control = cohort.controls[::4]
    assert control.sum() == 700
    assert control[:700].all()
    first_scores = truth.scores[::4]
    for who, mean, sd, speed in ((control, -22, 3, 0.3), (~control, 2, 9, 1.0)):
        n = who.sum()
        assert first_scores[who].mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(n))
        assert first_scores[who].std() == pytest.approx(sd, rel=4 / np.sqrt(2 * n))
        assert truth.speeds[who].mean() == pytest.approx(speed, abs=4 * 0.4 * speed / np.sqrt(n))
        assert truth.speeds[who].std() == pytest.approx(0.4 * speed, rel=0.15)
    assert not truth.mislabelled.any()
    assert set(cohort.table["diagnosis"][cohort.controls]) == {"CN"}


def test_earliest_people_can_be_slow_controls():
    simulation = bd.simulate_cohort(
        2000, 1, 2, control_share=0.5, controls_speed=0.1, random_state=0
    )
    control, truth = simulation.cohort.controls, simulation.truth
    assert truth.shifts[control].max() < truth.shifts[~control].min()
    assert truth.speeds[control].mean() == pytest.approx(0.1, rel=0.1)
    assert truth.speeds[~control].mean() == pytest.approx(1.0, rel=0.1)


def test_mislabelled_controls_progress_like_patients():
    simulation = bd.simulate_cohort(**WITH_CONTROLS, mislabelled=0.2)
    control, truth = simulation.cohort.controls[::4], simulation.truth
    wrong = truth.mislabelled
    assert (control.sum(), wrong.sum()) == (700, 140)
    assert control[wrong].all()
    genuine = control & ~wrong
    assert truth.shifts[genuine].mean() == pytest.approx(-22, abs=4 * 3 / np.sqrt(560))
    assert truth.shifts[wrong].mean() == pytest.approx(2, abs=4 * 9 / np.sqrt(140))
    assert truth.speeds[wrong].mean() == pytest.approx(1, abs=4 * 0.4 / np.sqrt(140))


def test_controls_that_are_all_mislabelled_are_random_people():
    simulation = bd.simulate_cohort(2000, 1, 2, control_share=0.3, mislabelled=1.0, random_state=0)
    control, shifts = simulation.cohort.controls, simulation.truth.shifts
    assert control.sum() == 600
    np.testing.assert_array_equal(control, simulation.truth.mislabelled)
    assert shifts[control].mean() == pytest.approx(shifts[~control].mean(), abs=2)


def test_carriers_among_the_controls_differ_by_the_controls_own_spread():
    simulation = bd.simulate_cohort(**WITH_CONTROLS, group_effect=1.0)
    cohort, shifts = simulation.cohort, simulation.truth.shifts
    control, carrier = cohort.controls[::4], cohort.table["apoe4"].to_numpy()[::4] == 1
    for who, sd in ((control, 3), (~control, 9)):
        effect = shifts[who & carrier].mean() - shifts[who & ~carrier].mean()
        assert effect == pytest.approx(sd, abs=0.35 * sd)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"personal_offset": 0.5, "personal_smoothing": 3}, "personal_smoothing .* needs a space"),
        ({"noise_smoothing": 3}, "noise_smoothing .* needs a space"),
        ({"personal_smoothing": 1.5}, "whole number of rounds; got 1.5"),
        ({"personal_smoothing": -1}, "whole number of rounds; got -1"),
        ({"controls_shift": (-22, 3)}, "controls_shift .* needs a control_share above 0"),
        ({"controls_speed": 0.3}, "controls_speed .* needs a control_share above 0"),
        ({"mislabelled": 0.3}, "mislabelled .* needs a control_share above 0"),
        ({"mislabelled": 1.2, "control_share": 0.3}, "0 to 1; got 1.2"),
        ({"controls_shift": -22.0, "control_share": 0.3}, "mean and the standard deviation"),
        ({"controls_shift": (-22, -3), "control_share": 0.3}, "mean and the standard deviation"),
        ({"controls_speed": -1.0, "control_share": 0.3}, "at least 0; got -1.0"),
    ],
)
def test_impossible_people_are_refused(arguments, message):
    with pytest.raises(bd.ParameterError, match=message):
        bd.simulate_cohort(n_subjects=5, n_vertices=5, **arguments)
