"""Vertices that differ, against normal densities written out and covariances that were planted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import braindive as bd
from braindive.dive.curves import Trajectories
from braindive.dive.e_step import sweep_vertices
from braindive.dive.problem import Parameters
from braindive.dive.vertices import (
    AssignDiffering,
    carried_over,
    effects_of,
    small_cholesky,
    solve_lower,
    solve_upper,
)
from braindive.values.coordinates import Coordinates
from braindive.values.local import LocalProducts

CURVES = Trajectories(
    np.array([-1.0, -1.5]), np.array([0.8, 0.6]), np.array([-1.0, 2.0]), np.array([0.5, 0.7])
)


def planted(rng, n_visits, n_vertices, covariance, noise=0.5, holes=False):
    """Vertices of the second curve, each with coefficients of its own."""
    scores = np.sort(rng.uniform(-4, 6, n_visits))
    own = rng.multivariate_normal(np.zeros(4), covariance, n_vertices)
    values = CURVES.evaluate(scores)[:, [1]] + CURVES.jacobian(scores)[:, 1] @ own.T
    values += noise * rng.normal(size=values.shape)
    if holes:
        values[rng.random(values.shape) < 0.15] = np.nan
    return scores, values


COVARIANCE = np.diag([0.1, 0.02, 0.4, 0.05])


@pytest.mark.parametrize("holes", [False, True], ids=["dense", "holes"])
def test_densities_are_those_of_correlated_normal_values(rng, holes):
    scores, values = planted(rng, 20, 15, COVARIANCE, holes=holes)
    products = LocalProducts(values, missing=holes)
    unit = products.unit
    curves, derivatives = CURVES.evaluate(scores), CURVES.jacobian(scores)
    design = Coordinates(curves, derivatives, None, products.dtype)
    covariance, noise = np.stack([COVARIANCE, 2 * COVARIANCE]), np.array([0.4, 0.7])
    shares = np.log([0.3, 0.7])
    assign = AssignDiffering(noise, effects_of(covariance, design), shares)
    density, z, *_ = products.sweep(curves, assign, None, derivatives)
    standard = (values - unit.offset) / unit.scale
    for vertex in range(values.shape[1]):
        seen = ~np.isnan(standard[:, vertex])
        for k in range(2):
            spread = derivatives[seen, k] @ covariance[k] @ derivatives[seen, k].T
            spread += noise[k] ** 2 * np.eye(seen.sum())
            expected = multivariate_normal(curves[seen, k], spread).logpdf(standard[seen, vertex])
            assert density[vertex, k] == pytest.approx(expected + shares[k], rel=1e-7)
    np.testing.assert_allclose(z.sum(axis=1), 1)


@pytest.mark.parametrize("holes", [False, True], ids=["dense", "holes"])
def test_planted_covariance_and_noise_are_found(rng, holes):
    scores, values = planted(rng, 120, 4000, COVARIANCE, holes=holes)
    products = LocalProducts(values, missing=holes)
    unit = products.unit
    curves = CURVES.revalued(-unit.offset / unit.scale, 1 / unit.scale)
    nothing = np.zeros((2, 4, 4))
    start = Parameters(curves, np.ones(2), np.ones(1), np.zeros(1), None, nothing)
    z = np.tile([0.0, 1.0], (values.shape[1], 1))
    _, found = sweep_vertices(products, scores, start, z, fixed=True)
    assert found.noise[1] * unit.scale == pytest.approx(0.5, rel=0.01)
    # Amplitude and baseline are in units of the values, steepness and midpoint are not.
    scale = np.array([unit.scale, 1.0, 1.0, unit.scale])
    covariance = found.vertex_covariance[1] * np.outer(scale, scale)
    # By the functions of the score that they stand for: parameters of a curve stand in for others.
    derivatives = CURVES.jacobian(scores)[:, 1]
    expected = np.diag(derivatives @ COVARIANCE @ derivatives.T)
    np.testing.assert_allclose(
        np.diag(derivatives @ covariance @ derivatives.T), expected, rtol=0.12
    )
    # A cluster without vertices keeps what it had.
    np.testing.assert_array_equal(found.vertex_covariance[0], 0)
    assert found.noise[0] == 1.0


def test_vertices_that_are_alike_have_no_covariance(rng):
    scores, values = planted(rng, 120, 2000, np.zeros((4, 4)))
    products = LocalProducts(values)
    unit = products.unit
    curves = CURVES.revalued(-unit.offset / unit.scale, 1 / unit.scale)
    start = Parameters(curves, np.ones(2), np.ones(1), np.zeros(1), None, np.zeros((2, 4, 4)))
    z = np.tile([0.0, 1.0], (values.shape[1], 1))
    _, found = sweep_vertices(products, scores, start, z, fixed=True)
    derivatives = curves.jacobian(scores)[:, 1]
    added = np.diag(derivatives @ found.vertex_covariance[1] @ derivatives.T)
    assert added.mean() < 0.002 * found.noise[1] ** 2


def test_covariance_goes_with_its_functions_when_parameters_change():
    scores = np.linspace(-3, 5, 60)
    before = CURVES.jacobian(scores)
    # The same functions of the visits, told by a score in other units.
    after = CURVES.rescored(1.0, 2.0).jacobian((scores - 1.0) / 2.0)
    covariance = np.stack([COVARIANCE, COVARIANCE])
    moved = carried_over(covariance, before, after)
    for k in range(2):
        np.testing.assert_allclose(
            after[:, k] @ moved[k] @ after[:, k].T,
            before[:, k] @ COVARIANCE @ before[:, k].T,
            atol=1e-8,
        )


def test_many_small_matrices_are_solved_at_once(rng):
    roots = rng.normal(size=(7, 4, 4))
    matrices = roots @ roots.transpose(0, 2, 1) + np.eye(4)
    right = rng.normal(size=(7, 4))
    factor = small_cholesky(matrices.transpose(1, 2, 0))
    found = solve_upper(factor, solve_lower(factor, right.T))
    np.testing.assert_allclose(found.T, np.linalg.solve(matrices, right[:, :, None])[:, :, 0])


def test_field_holds_against_many_people():
    """With the published likelihood data are so sure of themselves that the field gives in."""
    simulation = bd.simulate_cohort(
        n_subjects=300,
        noise=0.5,
        midpoints=np.linspace(-15, 20, 5),
        space="fsaverage5-left",
        dtype="float32",
        random_state=0,
    )
    agreement = {}
    for vertices in ("alike", "auto"):
        model = bd.DIVE(5, people="alike", vertices=vertices, personal=False, random_state=0)
        model.fit(simulation.cohort)
        agreement[vertices] = bd.match_clusters(model, simulation.truth.labels).agreement
    assert agreement["alike"] < 0.9
    assert agreement["auto"] > 0.97
