"""Internal units to the user's and back, against plain arithmetic."""

import numpy as np
import pytest
from scipy.stats import norm

from braindive.dive.curves import Trajectories
from braindive.dive.timeline import Timeline
from braindive.scale import Scale
from braindive.values.blocks import Unit

SCALE = Scale(Unit(offset=2.5, scale=0.4), time_unit=1.7, centre=0.3, spread=2.2)


@pytest.fixture
def timeline():
    subjects = np.array([0, 0, 0, 1, 2, 2])
    years = np.array([70.0, 71.5, 73.0, 64.0, 55.0, 56.2])
    return Timeline.from_times(subjects, years, SCALE.time_unit)


def test_a_user_s_score_is_speed_times_time_plus_shift(timeline, rng):
    speeds, shifts = rng.uniform(0.5, 2, 3), rng.normal(size=3)
    user_speeds, user_shifts, first = SCALE.stages(timeline, speeds, shifts)
    expected = SCALE.scores(timeline.scores(speeds, shifts))
    found = user_speeds[timeline.subject_of_visit] * timeline.years
    found += user_shifts[timeline.subject_of_visit]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(first, expected[[0, 3, 4]], atol=1e-12)


def test_curves_take_a_user_s_score_to_a_user_s_value(rng):
    internal = Trajectories.from_array([[-1.0, 2.0, 0.5, 0.2], [0.7, 1.0, -1.0, -0.3]])
    scores = rng.normal(size=7)
    found = SCALE.curves(internal).evaluate(SCALE.scores(scores))
    np.testing.assert_allclose(found, 2.5 + 0.4 * internal.evaluate(scores))


def test_every_way_there_has_a_way_back(timeline, rng):
    x = rng.normal(size=5)
    for there, back in (("scores", "internal_scores"), ("values", "internal_values")):
        np.testing.assert_allclose(getattr(SCALE, back)(getattr(SCALE, there)(x)), x)
    errors = rng.uniform(size=(3, 3))
    np.testing.assert_allclose(SCALE.internal_stage_errors(SCALE.stage_errors(errors)), errors)
    stages = rng.uniform(0.5, 2, 3), rng.normal(size=3)
    user_speeds, user_shifts, _ = SCALE.stages(timeline, *stages)
    for found, expected in zip(
        SCALE.internal_stages(timeline, user_speeds, user_shifts), stages, strict=True
    ):
        np.testing.assert_allclose(found, expected)
    curves = Trajectories.from_array([[-1.0, 2.0, 0.5, 0.2]])
    again = SCALE.internal_curves(SCALE.curves(curves))
    np.testing.assert_allclose(again.to_array(), curves.to_array())


def test_errors_scale_like_the_spread_of_what_they_belong_to(timeline, rng):
    n = 20_000
    speeds, shifts = 1 + 0.1 * rng.normal(size=n), 0.2 * rng.normal(size=n)
    spread = []
    for speed, shift in zip(speeds[:200], shifts[:200], strict=True):
        spread.append(SCALE.stages(timeline, np.full(3, speed), np.full(3, shift)))
    found = np.std(np.array(spread), axis=0).T  # (subjects, 3)
    origin = -timeline.centres / timeline.unit
    first = timeline.times[timeline.starts]
    draws = speeds[:200], shifts[:200]
    internal = np.stack(
        [
            np.full(3, np.std(draws[0])),
            np.std(np.outer(draws[0], origin) + draws[1][:, None], axis=0),
            np.std(np.outer(draws[0], first) + draws[1][:, None], axis=0),
        ],
        axis=1,
    )
    np.testing.assert_allclose(SCALE.stage_errors(internal), found, rtol=1e-9)


def test_densities_are_those_of_the_user_s_unit(rng):
    values = rng.normal(2.5, 0.3, size=4)
    internal = norm.logpdf(SCALE.internal_values(values), 0.1, 0.7).sum()
    expected = norm.logpdf(values, SCALE.values(0.1), SCALE.value_errors(0.7)).sum()
    assert float(SCALE.log_densities(internal, 4)) == pytest.approx(expected)
