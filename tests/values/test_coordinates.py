"""Coordinates of residuals in the span of curves' derivatives, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from braindive.dive.curves import Trajectories
from braindive.values.coordinates import Coordinates
from braindive.values.local import LocalProducts

CURVES = Trajectories(
    np.array([1.0, -2.0]), np.array([0.7, 1.2]), np.array([0.0, 1.0]), np.array([0.5, -0.1])
)


@pytest.mark.parametrize("holes", [False, True], ids=["dense", "holes"])
@pytest.mark.parametrize("weighted", [False, True], ids=["once", "weighted"])
def test_distances_and_products_with_the_derivatives(rng, holes, weighted):
    n_visits, n_vertices = 30, 40
    scores = 2 * rng.normal(size=n_visits)
    # Far from 0, where sums of squares would cancel.
    values = rng.normal(size=(n_visits, n_vertices)) + 50
    if holes:
        values[rng.random(values.shape) < 0.2] = np.nan
    weights = rng.integers(0, 3, n_visits).astype(float) if weighted else None
    products = LocalProducts(values, missing=holes).weighted(weights)
    curves, derivatives = CURVES.evaluate(scores), CURVES.jacobian(scores)
    design = Coordinates(curves, derivatives, weights, products.dtype)
    (distances, coordinates, *inner), _ = products.run(design)
    standard = (values - products.unit.offset) / products.unit.scale
    each = np.ones(n_visits) if weights is None else weights
    rank = design.rank
    assert rank == 4
    for k in range(2):
        for vertex in range(n_vertices):
            seen = ~np.isnan(standard[:, vertex])
            residuals = standard[seen, vertex] - curves[seen, k]
            own, weight = derivatives[seen, k], each[seen]
            assert distances[k, vertex] == pytest.approx(np.sum(weight * residuals**2), rel=1e-8)
            found = coordinates.reshape(2, rank, -1)[k, :, vertex]
            expected = own.T @ (weight * residuals)
            np.testing.assert_allclose(design.of_derivatives[k].T @ found, expected, atol=1e-7)
            gram = inner[0].reshape(2, rank, rank, -1)[k, :, :, vertex] if holes else np.eye(rank)
            turned = design.of_derivatives[k].T @ gram @ design.of_derivatives[k]
            np.testing.assert_allclose(turned, (own * weight[:, None]).T @ own, atol=1e-7)


def test_bases_are_orthonormal_and_hold_the_curves(rng):
    scores = rng.normal(size=50)
    design = Coordinates(
        CURVES.evaluate(scores), CURVES.jacobian(scores), None, np.dtype("float64")
    )
    for k, basis in enumerate(design.bases):
        np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-10)
        for column in np.column_stack([design.derivatives[:, k], design.curves[:, k]]).T:
            np.testing.assert_allclose(basis @ (basis.T @ column), column, atol=1e-6)
