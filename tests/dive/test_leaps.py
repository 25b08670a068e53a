"""Leaps: Newton's step in the span of the last steps of an iteration."""

import numpy as np
import pytest

from braindive.dive.leaps import Leaps


def iterate(eigenvalues, n_steps, rng, leaping=True):
    """Follow x -> x + A x, with A symmetric in the inner product of M, and return the points."""
    n = len(eigenvalues)
    root = np.linalg.cholesky(np.cov(rng.normal(size=(n, 3 * n)))).T  # M = root.T @ root
    turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
    matrix = np.linalg.solve(root, turn @ np.diag(eigenvalues) @ turn.T @ root)
    point, leaps, points = np.linalg.solve(root, turn @ np.ones(n)), Leaps(), []
    for _ in range(n_steps):
        points.append(turn.T @ root @ point)
        image = point + matrix @ point
        point = leaps.ahead(point, image, lambda x: root @ x) if leaping else image
    return np.array(points)


def test_leaps_end_in_as_many_steps_as_there_are_slow_directions(rng):
    """Along the first three the iteration itself would need hundreds of steps."""
    eigenvalues = np.array([-0.01, -0.02, -0.05, -1.0])
    points = iterate(eigenvalues, 12, rng)
    assert np.abs(points[-1]).max() < 1e-6
    plain = iterate(eigenvalues, 12, rng, leaping=False)
    assert np.abs(plain[-1]).max() > 0.5


def test_a_leap_leaves_a_saddle_in_place_of_going_back_to_it(rng):
    """Along the first direction steps grow: a plain Newton step would end where they vanish."""
    points = iterate(np.array([0.05, -0.5, -1.0]), 6, rng)
    assert points[-1][0] > 2 * iterate(np.array([0.05, -0.5, -1.0]), 6, rng, False)[-1][0]
    assert abs(points[-1][1]) < 0.1


def test_the_first_step_and_the_image_itself_are_no_leaps():
    leaps, image = Leaps(), np.array([1.0, 2.0])
    assert leaps.ahead(np.zeros(2), image, lambda x: x) is image
    assert leaps.length == 0


def test_a_leap_that_was_taken_back_is_shorter_and_one_that_was_kept_may_be_longer():
    leaps = Leaps()
    leaps.ahead(np.array([1.0]), np.array([0.98]), lambda x: x)
    leap = leaps.ahead(np.array([0.9]), np.array([0.882]), lambda x: x)
    assert leap == pytest.approx(np.array([0.0]), abs=1e-9)
    leaps.take_back()
    shorter = leaps.ahead(np.array([0.9]), np.array([0.882]), lambda x: x)
    assert 0.882 - shorter == pytest.approx(0.25 * 0.882)
    leaps.keep()
    longer = leaps.ahead(shorter, 0.98 * shorter, lambda x: x)
    assert 0.98 * shorter - longer == pytest.approx(0.5 * 0.882)


def test_a_leap_that_is_ever_shorter_ends_as_a_step():
    leaps = Leaps()
    leaps.ahead(np.array([1.0]), np.array([0.98]), lambda x: x)
    for _ in range(10):
        leap = leaps.ahead(np.array([0.9]), np.array([0.882]), lambda x: x)
        if leaps.length == 0:
            break
        leaps.take_back()
    assert leap == np.array([0.882])
