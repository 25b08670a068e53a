"""Simulated cohorts are what they say, and DIVE finds their truth again."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse.csgraph import connected_components
from scipy.special import softmax
from scipy.stats import spearmanr

import braindive as bd

SEEDS = range(5)
ON_CORTEX = {
    "n_subjects": 40,
    "midpoints": np.linspace(-1, 1.4, 5),
    "slope": 2.0,
    "amplitude": 5.0,
    "noise": 3.0,
    "space": "fsaverage5-left",
    "n_patches": 25,
    "shift_sd": 1.0,
    "mean_speed": 0.1,
    "midpoint_variation": 0.116,
    "dtype": "float32",
    "random_state": 0,
}


def correlation(x, y):
    return np.corrcoef(x, y)[0, 1]


def agreement(model, simulation):
    return bd.match_clusters(model, simulation.truth.labels).agreement


def ceiling(simulation):
    """Agreement of the E-step with the true curves and scores and each cluster's variance."""
    values, truth = simulation.cohort.values, simulation.truth
    curves = truth.trajectories.evaluate(truth.scores)
    distances = np.stack([((values - f[:, None]) ** 2).sum(axis=0) for f in curves.T], axis=1)
    variances = np.array(
        [distances[truth.labels == k, k].mean() / len(values) for k in range(curves.shape[1])]
    )
    density = -len(values) / 2 * np.log(2 * np.pi * variances) - distances / (2 * variances)
    return softmax(density, axis=1)[np.arange(len(truth.labels)), truth.labels].mean()


def mean_shortfall(seeds=SEEDS, **settings):
    """Ceiling less agreement, averaged over seeds."""
    shortfalls = []
    for seed in seeds:
        simulation = bd.simulate_cohort(random_state=seed, **settings)
        # Without a field, labels do not depend on `vertices`.
        model = bd.DIVE(n_clusters=3, vertices="alike", personal=False, random_state=0)
        model.fit(simulation.cohort)
        shortfalls.append(ceiling(simulation) - agreement(model, simulation))
    return np.mean(shortfalls)


@pytest.fixture(scope="module")
def basic():
    """Simulations of the basic setting and their fits."""
    simulations = [bd.simulate_cohort(random_state=seed) for seed in SEEDS]
    return [
        (s, bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(s.cohort))
        for s in simulations
    ]


@pytest.fixture(scope="module")
def on_cortex():
    return bd.simulate_cohort(**ON_CORTEX)


def test_defaults_are_the_basic_setting(basic):
    simulation, _ = basic[0]
    cohort, truth = simulation.cohort, simulation.truth
    assert (cohort.n_subjects, cohort.n_visits, cohort.n_vertices) == (300, 1200, 1000)
    np.testing.assert_array_equal(cohort.times[:4], [0, 1, 2, 3])
    np.testing.assert_allclose(truth.trajectories.midpoint, [-15, 2.5, 20])
    np.testing.assert_allclose(truth.trajectories.steepness, 0.4)
    speeds = np.concatenate([s.truth.speeds for s, _ in basic])
    shifts = np.concatenate([s.truth.shifts for s, _ in basic])
    assert speeds.mean() == pytest.approx(1.0, abs=0.05)
    assert speeds.std() == pytest.approx(0.4, abs=0.05)
    assert shifts.std() == pytest.approx(10.0, abs=0.5)


def test_scores_are_speed_times_time_plus_shift(basic):
    simulation, _ = basic[0]
    cohort, truth = simulation.cohort, simulation.truth
    index = cohort.subject_index
    np.testing.assert_allclose(
        truth.scores, truth.speeds[index] * cohort.times + truth.shifts[index]
    )


def test_values_without_variation_and_noise_lie_on_the_true_curves():
    simulation = bd.simulate_cohort(
        n_subjects=5,
        n_vertices=20,
        noise=0.0,
        steepness_variation=0.0,
        midpoint_variation=0.0,
        random_state=0,
    )
    truth = simulation.truth
    expected = truth.trajectories.evaluate(truth.scores)[:, truth.labels]
    np.testing.assert_allclose(simulation.cohort.values, expected, atol=1e-12)


def test_same_seed_same_cohort_other_seed_another():
    one, same, other = (
        bd.simulate_cohort(n_subjects=5, n_vertices=20, random_state=seed).cohort.values
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_missing_share_and_controls_are_as_asked():
    simulation = bd.simulate_cohort(
        n_subjects=40, n_vertices=200, missing=0.3, control_share=0.25, random_state=0
    )
    cohort, truth = simulation.cohort, simulation.truth
    assert np.isnan(cohort.values).mean() == pytest.approx(0.3, abs=0.01)
    control = cohort.controls[::4]
    assert control.sum() == 10
    assert truth.shifts[control].max() < truth.shifts[~control].min()


def test_true_areas_on_a_surface_are_contiguous_patches(on_cortex):
    labels, graph = on_cortex.truth.labels, on_cortex.cohort.graph
    assert set(labels) == set(range(5))
    pieces = 0
    for k in range(5):
        inside = np.flatnonzero(labels == k)
        pieces += connected_components(graph[inside][:, inside])[0]
    assert pieces <= 25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"slope": 0.0}, "slope must not be 0"),
        ({"slope": 0.1, "amplitude": -1.0}, "must have the sign of the amplitude"),
        ({"n_subjects": 0}, "at least one"),
        ({"space": "moon"}, "no space .*'moon'"),
    ],
)
def test_impossible_simulations_are_refused(arguments, message):
    with pytest.raises(bd.ParameterError, match=message):
        bd.simulate_cohort(**arguments)


def test_basic_setting_is_recovered_up_to_the_ceiling(basic):
    for simulation, model in basic:
        assert agreement(model, simulation) > ceiling(simulation) - 0.01


def test_basic_setting_gives_the_true_scores_and_speeds(basic):
    pearson = [correlation(m.scores_, s.truth.scores) for s, m in basic]
    spearman = [spearmanr(m.scores_, s.truth.scores).statistic for s, m in basic]
    speeds = [correlation(m.speeds_, s.truth.speeds) for s, m in basic]
    assert min(pearson) >= 0.995
    assert min(spearman) >= 0.995
    assert np.mean(pearson) >= 0.996
    assert np.mean(spearman) >= 0.996
    assert np.mean(speeds) >= 0.6


def test_basic_setting_gives_the_true_trajectories(basic):
    for simulation, model in basic:
        truth = simulation.truth
        true = truth.trajectories.rescored(truth.scores.mean(), truth.scores.std())
        found = model.trajectories_.rescored(model.scores_.mean(), model.scores_.std())
        np.testing.assert_allclose(found.midpoint, true.midpoint, atol=0.25)
        np.testing.assert_allclose(model.trajectories_.amplitude, true.amplitude, atol=0.15)
        own_error = np.sqrt(simulation.cohort.values.size / 1000)
        np.testing.assert_allclose(model.noise_, 1.0, atol=5 / own_error)


def test_no_subject_runs_away_in_the_basic_setting(basic):
    for simulation, model in basic:
        true, found = simulation.truth.scores, model.scores_
        furthest = np.abs(true - true.mean()).max() / true.std()
        assert np.abs(found - found.mean()).max() / found.std() < 1.2 * furthest


def test_subjects_on_a_plateau_do_not_run_away():
    """Half of the subjects lie before the first or after the last change."""
    simulation = bd.simulate_cohort(
        n_subjects=60, n_vertices=200, noise=0.5, shift_sd=30, random_state=3
    )
    model = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(simulation.cohort)
    away = model.scores_ - model.scores_.mean()
    assert np.abs(away).max() / away.std() < 4
    assert correlation(model.scores_, simulation.truth.scores) > 0.95


# The basic setting, which has five seeds above, is that of 300 subjects and a spacing of 0.33.
@pytest.mark.slow
@pytest.mark.parametrize("spacing", [0.30, 0.23, 0.17, 0.10, 0.07, 0.03, 0.02])
def test_closer_trajectories_are_separated_up_to_the_ceiling(spacing):
    midpoints = 2.5 + 53 * spacing * np.array([-1.0, 0.0, 1.0])
    assert mean_shortfall(SEEDS[:2], midpoints=midpoints) < 0.01


# Five people do not show for sure which way their curves run, nor always that they change at all.
@pytest.mark.filterwarnings("ignore:which way the disease runs")
@pytest.mark.filterwarnings("ignore:No progression was found")
@pytest.mark.slow
@pytest.mark.parametrize("n_subjects", [200, 100, 50, 35, 20, 10, 5])
def test_fewer_subjects_are_enough_up_to_the_ceiling(n_subjects):
    # Many subjects differ less from seed to seed, and take longer.
    assert mean_shortfall(SEEDS[:1] if n_subjects > 50 else SEEDS, n_subjects=n_subjects) < 0.01


def test_field_finds_the_patches_that_are_lost_without_it(on_cortex):
    with_field = bd.DIVE(n_clusters=5, personal=False, random_state=0).fit(on_cortex.cohort)
    without = bd.DIVE(n_clusters=5, spatial=None, personal=False, random_state=0).fit(
        on_cortex.cohort
    )
    assert agreement(with_field, on_cortex) >= 0.97
    assert agreement(without, on_cortex) < 0.75
    assert with_field.spatial_strength_ > 1
    assert without.spatial_strength_ == 0


def test_field_goes_away_where_labels_have_no_spatial_pattern(on_cortex):
    cohort = on_cortex.cohort
    shuffle = np.random.default_rng(0).permutation(cohort.n_vertices)
    scattered = bd.Cohort(
        cohort.values[:, shuffle], subjects=cohort.subjects, times=cohort.times, graph=cohort.graph
    )
    labels = on_cortex.truth.labels[shuffle]
    with_field = bd.DIVE(n_clusters=5, personal=False, random_state=0).fit(scattered)
    without = bd.DIVE(n_clusters=5, spatial=None, personal=False, random_state=0).fit(scattered)
    assert with_field.spatial_strength_ < 0.3
    gain = (
        bd.match_clusters(with_field, labels).agreement
        - bd.match_clusters(without, labels).agreement
    )
    assert gain > -0.005


@pytest.fixture(scope="module")
def fewer():
    """The basic setting with a third of its subjects, for fits to what makes no sense."""
    simulation = bd.simulate_cohort(100, random_state=0)
    model = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(simulation.cohort)
    return simulation, model


@pytest.mark.filterwarnings("ignore:which way the disease runs")
def test_times_shuffled_within_subjects_lose_speeds_and_the_pace(fewer, rng):
    """Where a subject stands is in the values; how fast it moves is in the times alone."""
    simulation, model = fewer
    cohort, truth = simulation.cohort, simulation.truth
    times = rng.permuted(cohort.times.reshape(-1, 4), axis=1).ravel()
    shuffled = bd.DIVE(n_clusters=3, personal=False, random_state=0)
    with pytest.warns(bd.StagingWarning, match="No progression was found"):
        shuffled.fit(bd.Cohort(cohort.values, subjects=cohort.subjects, times=times))
    assert model.progression_found_
    # One in 24 orders is the true one: a little is left.
    before = correlation(model.speeds_, truth.speeds)
    assert abs(correlation(shuffled.speeds_, truth.speeds)) < 0.5 * before > 0.25
    # A year is what people move in a year: without a pace, all of the disease seems to take longer.
    assert shuffled.scores_.std() > 2.5 * model.scores_.std()
    residual = 1 - correlation(model.scores_, truth.scores) ** 2
    shuffled_residual = 1 - correlation(shuffled.scores_, truth.scores) ** 2
    assert shuffled_residual > 2 * residual


@pytest.mark.filterwarnings("ignore:which way the disease runs")
def test_scans_shuffled_between_subjects_lose_the_staging(fewer, rng):
    simulation, model = fewer
    cohort, truth = simulation.cohort, simulation.truth
    shuffle = rng.permutation(cohort.n_visits)
    shuffled = bd.DIVE(n_clusters=3, personal=False, random_state=0)
    with pytest.warns(bd.StagingWarning, match="No progression was found"):
        shuffled.fit(
            bd.Cohort(cohort.values[shuffle], subjects=cohort.subjects, times=cohort.times)
        )
    assert correlation(model.scores_, truth.scores) > 0.99
    assert abs(correlation(shuffled.scores_, truth.scores[shuffle])) < 0.7
    assert abs(correlation(shuffled.scores_, truth.scores)) < 0.2
    assert abs(correlation(shuffled.speeds_, truth.speeds)) < 0.25


def test_age_and_sex_change_nothing_else():
    plain = bd.simulate_cohort(20, 3, 10, cognition=True, control_share=0.3, random_state=4).cohort
    asked = bd.simulate_cohort(
        20, 3, 10, cognition=True, control_share=0.3, demographics=True, random_state=4
    ).cohort
    np.testing.assert_array_equal(asked.values, plain.values)
    pd.testing.assert_frame_equal(asked.table.drop(columns=["age", "sex"]), plain.table)
    assert len(asked.table[["participant_id", "age"]].drop_duplicates()) == 20  # first visits
    assert set(asked.table["sex"]) == {"F", "M"}
