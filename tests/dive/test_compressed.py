"""Products with smooth curves from a few numbers for each vertex."""

import numpy as np
import pytest

from braindive.dive.compressed import Compressed, basis_for, smooth_basis
from braindive.dive.curves import Trajectories
from braindive.values.local import LocalProducts


@pytest.fixture(params=["dense", "gaps"])
def data(request, rng):
    """Values of 30 vertices at 120 visits far from 0, and the scores of the visits."""
    values = 5 + rng.normal(size=(120, 30))
    if request.param == "gaps":
        values[rng.random(values.shape) < 0.2] = np.nan
    return LocalProducts(values, missing=request.param == "gaps"), rng.normal(size=120)


def sigmoids(steepness=2.0):
    return Trajectories(
        np.array([1.0, -2.0, 0.5]),
        np.full(3, steepness),
        np.array([-1.0, 0.0, 0.7]),
        np.array([0.2, 0.0, -1.0]),
    )


def test_products_with_curves_that_splines_hold_are_those_of_the_values(data):
    """Straight lines are splines, and so are their squares."""
    products, scores = data
    compressed = Compressed.of(products, sigmoids(), scores)
    lines = np.stack([0.3 * scores - 1, 2 * scores, np.full_like(scores, 0.4)], axis=1)
    np.testing.assert_allclose(
        compressed.distances(lines), products.distances(lines), rtol=1e-9, atol=1e-8
    )


def test_pooled_sums_are_those_of_the_values_as_far_as_curves_see_them(data, rng):
    products, scores = data
    compressed = Compressed.of(products, sigmoids(), scores)
    z = rng.dirichlet(np.ones(3), 30)
    sums, weights = compressed.pool(z)
    expected_sums, expected_weights = products.pool(z)
    line = 0.3 * scores - 1
    np.testing.assert_allclose(line @ sums, line @ expected_sums, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(line**2 @ weights, line**2 @ expected_weights, rtol=1e-8)


@pytest.mark.parametrize("steepness", [0.5, 60.0], ids=["smooth", "steep"])
def test_curves_themselves_are_held_whether_splines_follow_them_or_not(data, steepness):
    products, scores = data
    curves = sigmoids(steepness)
    values = curves.evaluate(scores)
    compressed = Compressed.of(products, curves, scores)
    expected = products.distances(values)
    if not products.missing:
        # With holes, squares of steps are seen through splines only.
        assert np.abs(compressed.distances(values) - expected).max() < 0.05
    assert compressed.distances(values).argmin(axis=1).tolist() == expected.argmin(1).tolist()
    basis = basis_for(curves, scores)
    missed = values - basis @ (basis.T @ values)
    assert np.linalg.norm(missed, axis=0).max() < 2e-3 * np.linalg.norm(values, axis=0).max()
    added = basis.shape[1] - smooth_basis(scores, 12).shape[1]
    assert added > 5 if steepness > 10 else added < 3


def test_a_basis_is_orthonormal_and_begins_with_a_constant(rng):
    scores = np.repeat(rng.normal(size=10), 4)
    basis = basis_for(sigmoids(60.0), scores)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-10)
    assert np.ptp(basis[:, 0]) == 0
    assert smooth_basis(np.zeros(8), 24).shape == (8, 1)


def test_some_vertices_are_evenly_spread(data):
    products, scores = data
    compressed = Compressed.of(products, sigmoids(), scores)
    part = compressed.some_vertices(10)
    curves = sigmoids().evaluate(scores)
    np.testing.assert_array_equal(part.distances(curves), compressed.distances(curves)[::3])
