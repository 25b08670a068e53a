"""Kernels by restricted likelihood: against dense matrices, and against what made the series."""

import numpy as np
import pytest

from braindive.dive.timeline import Timeline
from braindive.prediction.components import kernel_of_series
from braindive.prediction.kernel import Kernel
from braindive.prediction.likelihood import RATIOS, Turn, find_shape, tame, visit_factors


def naive_restricted(series, times, subjects, shape, ratio):
    """Restricted log-likelihood with an unknown mean at the best noise, by dense matrices."""
    kappa = Kernel(shape, np.zeros(0), np.zeros(0)).kappa(times, times)
    dense = ratio * kappa * (subjects[:, None] == subjects) + np.eye(len(series))
    inverse, ones = np.linalg.inv(dense), np.ones(len(series))
    mean = ones @ inverse @ series / (ones @ inverse @ ones)
    left = series - mean
    noise = left @ inverse @ left / (len(series) - 1)
    value = (len(series) - 1) * np.log(noise) + np.linalg.slogdet(dense)[1]
    return -0.5 * (value + np.log(ones @ inverse @ ones)), noise


def visits(counts, rng):
    subjects = np.repeat(np.arange(len(counts)), counts)
    times = np.concatenate(
        [np.arange(n) + 0.1 * rng.random(n) * (np.arange(n) > 0) for n in counts]
    )
    return subjects, times, Timeline.from_times(subjects, times)


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("holes", [False, True])
def test_likelihoods_are_those_of_dense_matrices(rng, holes, in_parts):
    subjects, times, timeline = visits([3, 1, 4, 2, 3, 3], rng)
    deviations, shape = rng.normal(size=(16, 2)), np.array([0.7, 0.2, 0.1])
    observed = np.ones((16, 2), dtype=bool)
    kept = np.ones(16, dtype=bool)
    if holes:
        observed[1, 0] = False  # a person of whom a value is missing has no part in that series
        kept = subjects != 0
    sums = Turn.of(shape, timeline, times).sums(deviations * observed, observed, in_parts)
    found, noise = sums.log_likelihood(), sums.noise()
    for i in (0, 7, len(RATIOS) - 1):
        for c, who in ((0, kept), (1, np.ones(16, dtype=bool))):
            given = deviations[who, c], times[who], subjects[who], shape, RATIOS[i]
            expected = naive_restricted(*given)
            np.testing.assert_allclose((found[i, c], noise[i, c]), expected, rtol=1e-8)


def test_few_rows_tell_the_weights_of_all_ratios(rng):
    _, times, timeline = visits([4] * 40, rng)
    turn, deviations = (
        Turn.of(np.array([0.5, 0.2, 0.3]), timeline, times),
        rng.normal(size=(160, 5)),
    )
    few, all_rows = (turn.sums(deviations, in_parts=each) for each in (True, False))
    assert len(turn.few_weights[1]) < len(RATIOS) / 2
    np.testing.assert_allclose(few.squares, all_rows.squares, rtol=1e-7)
    np.testing.assert_allclose(few.log_likelihood(), all_rows.log_likelihood(), atol=1e-5)


def test_level_and_noise_of_every_series_are_found(rng):
    subjects, times, timeline = visits([4] * 300, rng)
    level = rng.normal(0, [0.5, 1.0, 2.0], size=(300, 3))[subjects]
    deviations = level + rng.normal(0, 0.7, size=level.shape)
    kernel = kernel_of_series(deviations, None, timeline, times, False)
    np.testing.assert_allclose(kernel.persistent * kernel.shape[0], [0.25, 1.0, 4.0], rtol=0.25)
    np.testing.assert_allclose(kernel.noise, 0.49, rtol=0.2)


def test_many_holes_bias_nothing_much(rng):
    subjects, times, timeline = visits([6] * 300, rng)
    level = rng.normal(size=(300, 2))[subjects]
    deviations = level + rng.normal(0, 0.7, size=level.shape)
    observed = rng.random(deviations.shape) > np.array([0.05, 0.4])
    kernel = kernel_of_series(deviations * observed, observed, timeline, times, False)
    np.testing.assert_allclose(kernel.persistent, 1.0, rtol=0.25)
    np.testing.assert_allclose(kernel.noise, 0.49, rtol=0.15)


def test_slopes_are_told_from_levels(rng):
    subjects, times, timeline = visits([5] * 200, rng)
    slopes = rng.normal(0, 0.4, size=(200, 8))[subjects] * times[:, None]
    levels = rng.normal(size=(200, 8))[subjects]
    noise = 0.5 * rng.normal(size=slopes.shape)
    still, _ = find_shape(timeline, times, levels + noise)
    moving, _ = find_shape(timeline, times, levels + slopes + noise)
    assert still[1] < 0.02 * still[0]
    assert 0.05 < moving[1] / moving[0] < 0.4  # the truth is 0.16


def test_a_bad_visit_does_not_own_the_estimate(rng):
    subjects, times, timeline = visits([4] * 40, rng)
    level = rng.normal(size=(40, 30))[subjects]
    deviations = level + 0.5 * rng.normal(size=level.shape)
    bad = deviations.copy()
    bad[7] += 15.0
    estimates = []
    for values in (deviations, bad):
        tamed = tame(values * visit_factors(values)[:, None])
        estimates.append(np.mean(kernel_of_series(tamed, None, timeline, times, False).noise))
    raw = np.mean(kernel_of_series(bad, None, timeline, times, False).noise)
    assert estimates[1] < 1.3 * estimates[0]
    assert raw > 3 * estimates[0]
