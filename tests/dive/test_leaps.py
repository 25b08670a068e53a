"""Leaps: Newton's step from a step of the EM and the information that it does not see."""

import numpy as np
import pytest

from braindive.dive.leaps import Leaps


def quadratic(shares, rng):
    """Information of a quadratic objective with its optimum at 0, and a step of its EM."""
    n = len(shares)
    root = np.linalg.cholesky(np.cov(rng.normal(size=(n, 3 * n))))
    turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
    complete = root @ root.T
    missing = root @ turn @ np.diag(shares) @ turn.T @ root.T
    step = np.linalg.solve(complete, complete - missing)
    return complete, missing, lambda point: point - step @ point


def test_a_leap_ends_where_the_em_would_after_hundreds_of_steps(rng):
    complete, missing, em = quadratic([0.99, 0.98, 0.5, 0.0], rng)
    point = rng.normal(size=4)
    leap = Leaps().ahead(point, em(point), complete, missing)
    assert np.abs(leap).max() < 1e-4
    for _ in range(50):
        point = em(point)
    assert np.abs(point).max() > 0.1


def test_a_leap_leaves_a_saddle_in_place_of_going_back_to_it(rng):
    """Along the first direction steps grow: a plain Newton step would end where they vanish."""
    complete, missing, em = quadratic([1.05, 0.5, 0.0], rng)
    point = rng.normal(size=3)
    leap = Leaps().ahead(point, em(point), complete, missing)
    _, vectors = np.linalg.eig(np.linalg.solve(complete, missing))
    away = np.abs(np.linalg.solve(vectors, np.column_stack([point, leap])))
    grows = np.argmax(np.linalg.eigvals(np.linalg.solve(complete, missing)))
    assert away[grows, 1] > 1.9 * away[grows, 0]
    assert np.delete(away[:, 1], grows).max() < 1e-4


def test_where_nothing_is_missing_the_step_itself_is_taken(rng):
    complete, _, _ = quadratic([0.5, 0.5], rng)
    leaps, image = Leaps(), np.array([1.0, 2.0])
    assert leaps.ahead(np.zeros(2), image, complete, np.zeros((2, 2))) is image
    assert leaps.length == 0


def test_a_leap_that_was_taken_back_is_shorter_and_one_that_was_kept_may_be_longer():
    leaps, one, missing = Leaps(), np.eye(1), np.full((1, 1), 0.98)
    point, image = np.array([0.9]), np.array([0.882])
    assert leaps.ahead(point, image, one, missing) == pytest.approx(0.0, abs=1e-6)
    leaps.take_back()
    shorter = leaps.ahead(point, image, one, missing)
    assert 0.882 - shorter == pytest.approx(0.25 * 0.882)
    leaps.keep()
    longer = leaps.ahead(shorter, 0.98 * shorter, one, missing)
    assert 0.98 * shorter - longer == pytest.approx(0.5 * 0.882)


def test_a_leap_that_is_ever_shorter_ends_as_a_step():
    leaps, point, image = Leaps(), np.array([0.9]), np.array([0.882])
    for _ in range(10):
        leap = leaps.ahead(point, image, np.eye(1), np.full((1, 1), 0.98))
        if leaps.length == 0:
            break
        leaps.take_back()
    assert leap == np.array([0.882])
