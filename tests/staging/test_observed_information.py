"""How the marginal likelihood bends, against differences of its gradient."""

import numpy as np
import pytest
from people_who_differ import draw, fit

from braindive.staging.observed_information import scale_moves
from braindive.staging.optimum import Frame, look
from braindive.staging.posterior import FINE


@pytest.fixture(scope="module")
def found():
    # Controls who stand where the curves begin: further back, the integral over where they are is
    # too rough for differences. As many people as have normal shifts: the curvature by a skew is
    # near to none.
    found = fit(draw(0, n_controls=60, controls_at=-12.0, n_patients=140))
    assert not found.packing.is_skewed
    return found


@pytest.fixture(scope="module")
def frame(found):
    at = found.climb
    points = at.evaluation.posterior.lay_points(at.problem.prior, FINE)
    moves = scale_moves(at.problem, at.evaluation.posterior, found.packing, at.vector)
    return Frame(points, at.vector, moves)


def differences(found, points, of, around, size):
    """Derivatives around a vector by differences, each number in its turn."""
    rows = []
    for step in size * np.eye(len(around)):
        up, down = (
            of(look(found.climb.problem, vector, points, found.packing, found.priors))
            for vector in (around + step, around - step)
        )
        rows.append((up - down) / (2 * size))
    return np.array(rows)


def test_the_gradient_knows_that_points_move(found, frame):
    """Away from the optimum, where the gradient is not nothing."""
    there = found.climb.vector + 0.02 * np.cos(np.arange(len(found.climb.vector)))
    away = look(found.climb.problem, there, frame, found.packing, found.priors)
    numeric = differences(found, frame, lambda climb: climb.objective, there, 1e-5)
    assert np.abs(away.gradient).max() > 10
    np.testing.assert_allclose(away.gradient, numeric, atol=1e-5 * np.abs(numeric).max())


def test_points_move_with_all_curves(found, frame):
    """Curves that all come later by 0.1 take the points along."""
    packing, problem = found.packing, found.climb.problem
    vector = found.climb.vector.copy()
    vector[: packing.sizes[0]] = packing.pack_curves(
        problem.trajectories.rescored(-0.1, 1.0)
    ).ravel()
    origin, log_unit = frame.moves @ (vector - found.climb.vector)
    assert origin == pytest.approx(0.1, rel=0.02)
    assert log_unit == pytest.approx(0.0, abs=0.002)


def test_what_is_left_is_near_the_true_curvature(found, frame):
    """In every direction to within a factor of two; outer products of gradients are not."""
    at = found.climb
    true = -differences(found, frame, lambda climb: climb.gradient, at.vector, 1e-4)
    told, products = (
        np.linalg.eigvals(inverse @ (true + true.T) / 2).real
        for inverse in (at.inverse_information(found.packing), at.inverse_products(found.packing))
    )
    assert told.min() > 0.5
    assert told.max() < 2
    assert products.min() < 0.3
