"""Noise is not a disease: whether people change along a common course at all."""

import itertools

import numpy as np
import pytest

from braindive.dive import progression
from braindive.dive.progression import common_change, derivatives, smallest_p_value
from braindive.dive.timeline import Timeline

LARGE, SMALL = np.array([40.0, 30.0, 30.0]), np.full(12, 10.0)


def timeline_of(n_subjects, n_visits=4, random=None):
    times = np.tile(np.arange(float(n_visits)), n_subjects)
    if random is not None:
        times = times + random.uniform(-0.4, 0.4, len(times))
    return Timeline.from_times(np.repeat(np.arange(n_subjects), n_visits), times)


def pooled(timeline, random, *, maps=1.0, drift=0.0, shift=0.0, common=0.0):
    """Means over small clusters, and over the large ones that they make up.

    People have maps that last, drifts of their own and visits that shift everything; what all
    people share is `common`.
    """
    of_visit, n = timeline.subject_of_visit, len(SMALL)
    means = random.standard_normal((len(of_visit), n))
    means += shift * random.standard_normal((len(of_visit), 1))
    means += maps * random.standard_normal((timeline.n_subjects, n))[of_visit]
    drifts = drift * random.standard_normal((timeline.n_subjects, n))[of_visit] + common
    means += drifts * timeline.times[:, None]
    together = np.repeat(np.eye(3), 4, axis=0)
    weights = np.tile(SMALL, (len(of_visit), 1))
    sums = means * weights
    return (sums @ together, weights @ together), (sums, weights)


def p_values(n_cohorts, n_subjects, **settings):
    found = []
    for seed in range(n_cohorts):
        random = np.random.default_rng(seed)
        timeline = timeline_of(n_subjects, random=random)
        found.append(common_change(timeline, *pooled(timeline, random, **settings), random))
    return np.array(found)


@pytest.fixture
def few_draws(monkeypatch):
    """As many orders as a test of sizes needs."""
    monkeypatch.setattr(progression, "_DRAWS", 199)


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(
    ("n_subjects", "settings"),
    [(4, {}), (12, {"shift": 2.0}), (30, {"maps": 3.0}), (40, {"maps": 3.0, "drift": 1.0})],
)
def test_people_who_stand_still_have_uniform_p_values(n_subjects, settings):
    found = p_values(200, n_subjects, **settings)
    # Four standard errors of the share of 200 cohorts.
    for level in (0.05, 0.5):
        assert abs(np.mean(found <= level) - level) < 4 * np.sqrt(level * (1 - level) / 200)


@pytest.mark.parametrize("n_subjects", [8, 30, 40])
@pytest.mark.parametrize("common", [-0.5, 0.5])
def test_a_common_change_is_found_whichever_way_it_goes(n_subjects, common):
    assert (p_values(10, n_subjects, maps=3.0, common=common) <= 0.01).all()


def test_change_that_cancels_over_the_map_is_found():
    up_and_down = np.tile([0.5, -0.5], 6)
    assert (p_values(10, 30, maps=3.0, common=up_and_down) <= 0.01).all()


def test_time_that_runs_backwards_gives_the_same_p_value():
    random = np.random.default_rng(0)
    timeline = timeline_of(30, random=random)
    clusters = pooled(timeline, random, common=0.1)
    backwards = Timeline(
        timeline.subject_of_visit, -timeline.times, timeline.centres, timeline.unit
    )
    first, second = (
        common_change(each, *clusters, np.random.default_rng(1)) for each in (timeline, backwards)
    )
    assert 0.001 < first < 1
    assert first == second


def test_people_seen_once_change_nothing_but_where_others_stand():
    random = np.random.default_rng(3)
    visits = np.array([4] * 30 + [1] * 10)
    subjects = np.repeat(np.arange(40), visits)
    times = np.concatenate([np.arange(float(number)) for number in visits])
    timeline = Timeline.from_times(subjects, times)
    clusters = pooled(timeline, random, common=0.5)
    assert common_change(timeline, *clusters, random) <= 0.01


def test_visits_without_data_in_a_cluster_are_left_out():
    random = np.random.default_rng(4)
    timeline = timeline_of(30)
    coarse, fine = pooled(timeline, random, common=0.5)
    for sums, weights in (coarse, fine):
        lost = random.random(weights.shape) < 0.2
        # What stands where nothing was seen must not matter.
        sums[lost], weights[lost] = 1e6, 0.0
    assert common_change(timeline, coarse, fine, random) <= 0.01


def test_course_is_the_slope_of_weighted_lines_through_the_levels():
    random = np.random.default_rng(5)
    level, stands = random.standard_normal((7, 3)), random.standard_normal(7)
    found = derivatives(level, stands)
    for i, k in itertools.product(range(7), range(3)):
        # polyfit wants the square roots of the weights.
        weights = np.exp(-0.25 * ((stands - stands[i]) / progression._WINDOW) ** 2)
        slope = np.polyfit(stands, level[:, k], 1, w=weights)[0]
        assert found[i, k] == pytest.approx(slope)


def test_smallest_p_value_is_that_of_all_orders():
    """Of two people with three visits, the mean of whose map rises as in no other order."""
    timeline = timeline_of(2, 3)
    means = timeline.times * np.array([1.0, 1.1])[timeline.subject_of_visit]
    changes = []
    for one, two in itertools.product(itertools.permutations(range(3)), repeat=2):
        order = np.array([*one, *(3 + np.array(two))])
        changes.append(abs(timeline.times[order] @ means))
    share = np.mean(np.array(changes) >= changes[0] - 1e-9)
    assert smallest_p_value(timeline.n_visits_of_subject) == pytest.approx(share)
    assert smallest_p_value(np.full(6, 2)) == 2**-5
    assert np.isnan(smallest_p_value(np.full(6, 1)))


def test_whitened_noise_has_unit_covariance_where_visits_are_many(rng):
    mixing = rng.standard_normal((4, 4))
    noise = rng.standard_normal((20_000, 4)) @ mixing
    size = 1 / np.sum(mixing**2, axis=0)
    white = noise @ progression._whitening(noise, size, len(noise))
    np.testing.assert_allclose(white.T @ white / len(white), np.eye(4), atol=0.02)
