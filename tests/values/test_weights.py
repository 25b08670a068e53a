"""Weights of visits: every sum over visits against a loop, in memory and on workers."""

import numpy as np
import pytest

from braindive.dive.e_step import Assign
from braindive.errors import ParameterError
from braindive.values.backends import open_products
from braindive.values.blocks import Unit

N_VISITS, N_VERTICES, N_CLUSTERS = 9, 23, 3
UNIT = Unit(4.5, 1.7)


@pytest.fixture(params=["dense", "holes"])
def values(request, rng):
    values = 5 + 2 * rng.normal(size=(N_VISITS, N_VERTICES))
    if request.param == "holes":
        values[rng.random(values.shape) < 0.3] = np.nan
        values[:, 4] = np.nan
        values[:, 7] = np.nan
        values[2, 7] = 3.0  # seen once, at a visit whose weight is 0
    return values


@pytest.fixture
def weights(rng):
    weights = rng.random(N_VISITS) * 3
    weights[2] = 0.0
    return weights


@pytest.fixture(params=["memory", "workers"])
def opened(request, values):
    """Products of the values in canonical order, and the standard values in that order."""
    client = request.getfixturevalue("two_workers") if request.param == "workers" else None
    order = np.random.default_rng(1).permutation(N_VISITS)
    stored = np.empty_like(values)
    stored[order] = values
    missing = bool(np.isnan(values).any())
    products = open_products(stored, order=order, missing=missing, unit=UNIT, client=client)
    return products, (values - UNIT.offset) / UNIT.scale


def observed_pairs(standard):
    for n, vertex in np.argwhere(~np.isnan(standard)):
        yield n, vertex, standard[n, vertex]


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def naive_summary(standard, weights):
    counts, totals, squares = np.zeros((3, N_VERTICES))
    for n, vertex, value in observed_pairs(standard):
        counts[vertex] += weights[n]
        totals[vertex] += weights[n] * value
        squares[vertex] += weights[n] * value**2
    means = np.divide(totals, counts, out=np.zeros(N_VERTICES), where=counts > 0)
    return counts, means, squares


def test_weighted_counts_means_and_energies(opened, weights):
    products, standard = opened
    counts, means, squares = naive_summary(standard, weights)
    found = products.weighted(weights)
    assert_close(found.counts, counts)
    assert_close(found.means, means)
    assert_close(found.squares, squares)
    assert_close(found.energies, squares - counts * means**2)


def test_weighted_distances(opened, weights, rng):
    products, standard = opened
    curves = rng.normal(size=(N_VISITS, N_CLUSTERS))
    expected = np.zeros((N_VERTICES, N_CLUSTERS))
    for n, vertex, value in observed_pairs(standard):
        expected[vertex] += weights[n] * (value - curves[n]) ** 2
    assert_close(products.weighted(weights).distances(curves), expected)


def test_weighted_features(opened, weights, rng):
    products, standard = opened
    directions = rng.normal(size=(N_VISITS, 4))
    centred = directions - weights @ directions / weights.sum()
    _, means, _ = naive_summary(standard, weights)
    expected = np.zeros((N_VERTICES, 5))
    expected[:, 0] = np.sqrt(weights.sum()) * means
    for n, vertex, value in observed_pairs(standard):
        expected[vertex, 1:] += weights[n] * (value - means[vertex]) * centred[n]
    assert_close(products.weighted(weights).features(directions), expected)


@pytest.mark.parametrize("power", [1, 2])
def test_weighted_sums_of_residuals(opened, weights, rng, power):
    products, standard = opened
    curves = rng.normal(size=(N_VISITS, N_CLUSTERS))
    z = rng.dirichlet(np.ones(N_CLUSTERS), N_VERTICES)
    expected = np.zeros((N_VISITS, N_CLUSTERS))
    for n, vertex, value in observed_pairs(standard):
        expected[n] += weights[n] * z[vertex] * (value - curves[n]) ** power
    assert_close(products.weighted(weights).sum_residuals(curves, z, power), expected)


def test_sweep_assigns_by_weighted_distances_and_pools_every_visit_as_it_is(opened, weights, rng):
    products, _ = opened
    curves, assign = rng.normal(size=(N_VISITS, N_CLUSTERS)), Assign(np.ones(N_CLUSTERS))
    found = products.weighted(weights)
    density, z, sums, total, _ = found.sweep(curves, assign)
    expected = assign((found.distances(curves).T,), found.counts, None)
    assert_close(density, expected[0])
    assert_close(z, expected[1])
    for ours, theirs in zip((sums, total), products.pool(z), strict=True):
        assert_close(ours, theirs)


def test_whole_weights_are_repeated_visits(opened, rng):
    products, _ = opened
    often = np.array([1, 2, 0, 3, 1, 1, 2, 0, 1])
    repeated = np.repeat(np.arange(N_VISITS), often)
    curves = rng.normal(size=(N_VISITS, N_CLUSTERS))
    weighted, longer = products.weighted(often), products.select(repeated)
    assert_close(weighted.distances(curves), longer.distances(curves[repeated]))
    assert_close(weighted.features(curves), longer.features(curves[repeated]))
    assert_close(weighted.squares, longer.squares)


def test_weights_are_selected_with_their_visits(opened, weights, rng):
    products, _ = opened
    visits = np.array([6, 1, 3, 8])
    curves = rng.normal(size=(len(visits), N_CLUSTERS))
    one = products.weighted(weights).select(visits)
    other = products.select(visits).weighted(weights[visits])
    np.testing.assert_array_equal(one.distances(curves), other.distances(curves))
    assert one.unit == products.unit


def test_no_weights_change_no_bit(opened, weights, rng):
    products, _ = opened
    curves = rng.normal(size=(N_VISITS, N_CLUSTERS))
    before = products.distances(curves)
    again = products.weighted(weights).weighted(None)
    np.testing.assert_array_equal(again.distances(curves), before)
    np.testing.assert_array_equal(products.distances(curves), before)


@pytest.mark.parametrize(
    "bad", [np.ones(N_VISITS - 1), np.zeros(N_VISITS), np.full(N_VISITS, -1.0), [np.nan] * N_VISITS]
)
def test_weights_that_are_none_are_refused(bad):
    with pytest.raises(ParameterError, match="weights"):
        open_products(np.ones((N_VISITS, 2))).weighted(bad)
