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
    with_shared_spread,
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


# The second curve is half-way at 2, where nobody was seen.
EARLY = np.linspace(-4, 0.5, 200)


def known_alone(noise, scores=EARLY):
    """Variance of each curve's midpoint in a least-squares fit to one vertex's measurements."""
    derivatives = CURVES.jacobian(scores)
    of_vertex = [np.linalg.inv(each.T @ each) for each in derivatives.transpose(1, 0, 2)]
    return noise**2 * np.array([each[2, 2] for each in of_vertex])


@pytest.mark.parametrize("hidden", [0.0, 3.0], ids=["too narrow", "too wide"])
def test_spread_that_noise_hides_is_that_of_the_other_cluster(hidden):
    covariance, noise = np.stack([COVARIANCE, COVARIANCE]), np.array([0.3, 0.3])
    covariance[1, 2, 2] = hidden
    covariance[1, 0, 2] = covariance[1, 2, 0] = 0.1 * np.sqrt(hidden)
    found = with_shared_spread(covariance, CURVES, noise, EARLY, np.array([300.0, 100.0]))
    own, unknown = np.array([0.4, hidden]), known_alone(noise)
    rough = (3 * own[0] + own[1]) / 4
    weights = np.array([3, 1]) / (rough**2 + unknown**2)
    mean = weights @ own / weights.sum()
    shrinkage = unknown**2 / (unknown**2 + mean**2)
    np.testing.assert_allclose(found[:, 2, 2], own + shrinkage * (mean - own), rtol=1e-4)
    # The first is told by its own vertices, the second by the first.
    np.testing.assert_allclose(found[:, 2, 2], 0.4, rtol=0.1)
    assert np.linalg.eigvalsh(found).min() > -1e-9
    if not hidden:
        others = np.arange(4) != 2
        np.testing.assert_allclose(found[:, others], covariance[:, others], atol=1e-9)


def test_spreads_that_measurements_tell_stay():
    covariance = np.stack([COVARIANCE, 4 * COVARIANCE])
    scores, sizes = np.linspace(-6, 8, 400), np.array([300.0, 100.0])
    found = with_shared_spread(covariance, CURVES, np.array([0.01, 0.01]), scores, sizes)
    np.testing.assert_allclose(found, covariance, rtol=1e-4, atol=1e-6)
    # With much noise they are not told, and both are the same.
    found = with_shared_spread(covariance, CURVES, np.array([20.0, 20.0]), scores, sizes)
    np.testing.assert_allclose(found[0, 2, 2], found[1, 2, 2], rtol=1e-2)


def test_a_curve_that_does_not_move_says_nothing_of_spreads():
    """Nor does it make a number that is none."""
    flat = Trajectories(
        np.array([-1.0, 0.0]), np.array([0.8, 0.6]), np.array([-1.0, 2.0]), np.array([0.5, 0.7])
    )
    covariance = np.stack([COVARIANCE, np.zeros((4, 4))])
    noise, sizes = np.array([0.3, 0.3]), np.array([100.0, 300.0])
    found = with_shared_spread(covariance, flat, noise, EARLY, sizes)
    np.testing.assert_allclose(found[0], covariance[0], rtol=1e-2, atol=1e-6)
    assert np.isfinite(found).all()


def test_many_small_matrices_are_solved_at_once(rng):
    roots = rng.normal(size=(7, 4, 4))
    matrices = roots @ roots.transpose(0, 2, 1) + np.eye(4)
    right = rng.normal(size=(7, 4))
    factor = small_cholesky(matrices.transpose(1, 2, 0))
    found = solve_upper(factor, solve_lower(factor, right.T))
    np.testing.assert_allclose(found.T, np.linalg.solve(matrices, right[:, :, None])[:, :, 0])


def test_field_holds_against_many_people(monkeypatch):
    """With the published likelihood data are so sure of themselves that the field gives in."""
    # From labels that the EM finds without a field, it holds in this cohort all the same.
    monkeypatch.setattr("braindive.dive.starts.may_begin_without_field", lambda settings: False)
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
