"""Where the marginal fit begins."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from people_who_differ import draw

import braindive as bd
from braindive.dive.curves import Trajectories
from braindive.dive.pooled import PooledMeans
from braindive.dive.problem import Parameters
from braindive.dive.timeline import Timeline
from braindive.staging import marginal_starts
from braindive.staging.marginal_starts import find_starts


def draw_straight(rng, between):
    """People on straight lines, who keep differing by levels with covariance B; and the truth."""
    n_subjects, n_visits, direction = 400, 4, np.array([1.0, 0.5, -0.5])
    within = 0.1 * np.eye(3)
    places = rng.normal(0, 3, n_subjects)
    levels = rng.multivariate_normal(np.zeros(3), between, n_subjects)
    subjects = np.repeat(np.arange(n_subjects), n_visits)
    years = np.tile(np.arange(float(n_visits)), n_subjects)
    means = np.outer(places[subjects] + years, direction) + levels[subjects]
    means += rng.normal(size=means.shape) @ np.linalg.cholesky(within).T
    pooled = PooledMeans(means, np.full(means.shape, 100.0), np.zeros(3))
    averages = means.reshape(n_subjects, n_visits, 3).mean(axis=1)
    # The best linear estimate, by someone who knows how people change and differ.
    best = averages @ np.linalg.solve(between + within / n_visits, direction)
    return pooled, Timeline.from_times(subjects, years), places, best


def begin(pooled, timeline):
    """Starts of every direction that is possible, where the EM knows nothing."""
    curves = Trajectories(np.ones(3), np.ones(3), np.zeros(3), np.zeros(3))
    n_subjects = timeline.n_subjects
    blind = np.random.default_rng(0).normal(size=n_subjects)
    parameters = Parameters(curves, np.ones(3), np.ones(n_subjects), blind)
    return find_starts(pooled, timeline, parameters, np.zeros(n_subjects, dtype=int))


def test_people_begin_where_the_direction_of_change_has_them(rng):
    large = 9 * np.array([[1.0, 0.9, 0.8], [0.9, 1.0, 0.9], [0.8, 0.9, 1.0]])
    pooled, timeline, places, best = draw_straight(rng, large)
    ((component, change, _),) = begin(pooled, timeline)
    known = np.corrcoef(best, places)[0, 1]
    assert np.corrcoef(change.shifts, places)[0, 1] == pytest.approx(known, abs=0.01)
    # One year moves people by one.
    slope = np.polyfit(places, change.shifts * timeline.unit, 1)[0]
    assert slope == pytest.approx(1.0, abs=0.1)
    # Negative control: the leading component is how people differ.
    assert abs(np.corrcoef(component.shifts, places)[0, 1]) < known - 0.2


def test_starts_stay_finite_where_nobody_changes(rng):
    drawn = draw(1, n_controls=0, n_patients=20, midpoints=(-6.0, 2.0, 10.0))
    still = drawn.pooled.means.reshape(20, 4, 3).mean(axis=1).repeat(4, axis=0)
    for starts in begin(replace(drawn.pooled, means=still), drawn.timeline):
        for start in starts:
            assert np.isfinite(start.shifts).all()
            assert np.isfinite(start.trajectories.to_array()).all()


def test_people_who_differ_much_in_few_ways_do_not_reverse_the_disease(monkeypatch):
    simulation = bd.simulate_cohort(
        150,
        n_visits=5,
        n_vertices=1000,
        group_effect=0.0,
        control_share=0.3,
        noise=0.5,
        personal_offset=0.9,
        personal_components=5,
        random_state=2,
    )

    def agreement():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = bd.DIVE(3, personal=False, random_state=2).fit(simulation.cohort)
        return np.corrcoef(model.scores_[::5], simulation.truth.shifts)[0, 1]

    assert agreement() > 0.97
    # Negative control: without the direction of change, the best of all starts ends reversed.
    leading = marginal_starts._component_shifts
    monkeypatch.setattr(marginal_starts, "_change_shifts", lambda *cohort: leading(*cohort)[0])
    assert agreement() < 0
