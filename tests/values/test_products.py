"""Every product of the values against a loop in float64."""

import itertools

import numpy as np
import pytest
from scipy.special import softmax

from braindive.dive.e_step import log_densities
from braindive.dive.field import expectation
from braindive.values.blocks import Unit
from braindive.values.local import LocalProducts

N_VISITS, N_VERTICES, N_CLUSTERS = 9, 23, 3
PRECISION = {"float64": 1e-11, "float32": 2e-5}


@pytest.fixture(
    params=list(
        itertools.product(["float64", "float32"], [False, True], [False, True], [1, 7, None])
    ),
    ids=lambda p: f"{p[0]}-{'gaps' if p[1] else 'dense'}-{'shuffled' if p[2] else 'sorted'}-{p[3]}",
)
def case(request, rng):
    """Measurements, the same values in standard units in float64, and the precision to expect."""
    dtype, missing, shuffled, block_size = request.param
    values = (5 + 2 * rng.normal(size=(N_VISITS, N_VERTICES))).astype(dtype)
    if missing:
        values[rng.random(values.shape) < 0.3] = np.nan
        values[:, 4] = np.nan
    order = rng.permutation(N_VISITS) if shuffled else None
    unit = Unit(4.5, 1.7)
    measurements = LocalProducts(
        values, order=order, missing=missing, block_size=block_size, unit=unit, n_jobs=2
    )
    standard = (values.astype(float) - unit.offset) / unit.scale
    return measurements, standard if order is None else standard[order], PRECISION[dtype]


def observed_pairs(standard):
    """Every (visit, vertex) with a measurement, one at a time."""
    for n, vertex in itertools.product(range(N_VISITS), range(N_VERTICES)):
        if not np.isnan(standard[n, vertex]):
            yield n, vertex, standard[n, vertex]


def test_project_gives_the_squared_distance_to_every_curve(case, rng):
    measurements, standard, precision = case
    curves = rng.normal(size=(N_VISITS, N_CLUSTERS))
    expected = np.zeros((N_VERTICES, N_CLUSTERS))
    for n, vertex, value in observed_pairs(standard):
        for k in range(N_CLUSTERS):
            expected[vertex, k] += (value - curves[n, k]) ** 2
    np.testing.assert_allclose(
        measurements.distances(curves), expected, rtol=precision, atol=10 * precision
    )


def test_pool_gives_the_weighted_sums_and_weights_of_every_visit(case, rng):
    measurements, standard, precision = case
    responsibilities = rng.dirichlet(np.ones(N_CLUSTERS), N_VERTICES)
    sums, weights = np.zeros((2, N_VISITS, N_CLUSTERS))
    for n, vertex, value in observed_pairs(standard):
        for k in range(N_CLUSTERS):
            sums[n, k] += responsibilities[vertex, k] * value
            weights[n, k] += responsibilities[vertex, k]
    found_sums, found_weights = measurements.pool(responsibilities)
    np.testing.assert_allclose(found_sums, sums, rtol=precision, atol=10 * precision)
    np.testing.assert_allclose(found_weights, weights, rtol=precision)


def test_summary_gives_counts_means_and_energies(case):
    measurements, standard, precision = case
    counts, totals, squares = np.zeros((3, N_VERTICES))
    for _, vertex, value in observed_pairs(standard):
        counts[vertex] += 1
        totals[vertex] += value
        squares[vertex] += value**2
    means = totals / np.maximum(counts, 1)
    np.testing.assert_array_equal(measurements.counts, counts)
    np.testing.assert_allclose(measurements.means, means, rtol=precision, atol=precision)
    np.testing.assert_allclose(
        measurements.energies, squares - counts * means**2, rtol=precision, atol=10 * precision
    )
    np.testing.assert_allclose(measurements.squares, squares, rtol=precision, atol=10 * precision)


def test_features_give_the_level_and_the_deviations_along_directions(case, rng):
    measurements, standard, precision = case
    directions = rng.normal(size=(N_VISITS, 4))
    centred = directions - directions.mean(axis=0)
    counts = np.maximum((~np.isnan(standard)).sum(axis=0), 1)
    means = np.nansum(standard, axis=0) / counts
    expected = np.zeros((N_VERTICES, 5))
    expected[:, 0] = np.sqrt(N_VISITS) * means
    for n, vertex, value in observed_pairs(standard):
        for j in range(4):
            expected[vertex, 1 + j] += (value - means[vertex]) * centred[n, j]
    np.testing.assert_allclose(
        measurements.features(directions), expected, rtol=precision, atol=10 * precision
    )


def test_power_step_pools_the_deviations_along_directions(case, rng):
    measurements, _, precision = case
    directions = rng.normal(size=(N_VISITS, 4))
    expected, _ = measurements.pool(measurements.features(directions)[:, 1:])
    found = measurements.power_step(directions)
    np.testing.assert_allclose(found, expected, rtol=precision, atol=10 * precision)


@pytest.mark.parametrize("power", [1, 2])
def test_sum_residuals_sums_over_the_vertices_of_every_cluster(case, rng, power):
    measurements, standard, _ = case
    curves = rng.normal(size=(N_VISITS, N_CLUSTERS))
    responsibilities = rng.dirichlet(np.ones(N_CLUSTERS), N_VERTICES)
    expected = np.zeros((N_VISITS, N_CLUSTERS))
    for n, vertex, value in observed_pairs(standard):
        for k in range(N_CLUSTERS):
            expected[n, k] += responsibilities[vertex, k] * (value - curves[n, k]) ** power
    found = measurements.sum_residuals(curves, responsibilities, power)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("missing", [False, True])
def test_own_unit_is_the_mean_and_spread_of_all_observed_values(rng, missing):
    values = 3 + 0.5 * rng.normal(size=(N_VISITS, N_VERTICES))
    if missing:
        values[rng.random(values.shape) < 0.3] = np.nan
    unit = LocalProducts(values, missing=missing).unit
    np.testing.assert_allclose([unit.offset, unit.scale], [np.nanmean(values), np.nanstd(values)])


@pytest.mark.parametrize("missing", [False, True])
def test_float32_values_far_from_zero_give_densities_as_in_float64(rng, missing):
    """Thickness of 2.5 +/- 0.1: the sums cancel badly unless the curves are centred."""
    n_visits, n_vertices = 1800, 60
    score = rng.normal(size=n_visits)
    true = 2.5 - 0.1 / (1 + np.exp(-3 * (score[:, None] - np.array([-0.15, 0.0, 0.15]))))
    values = true[:, rng.integers(3, size=n_vertices)]
    values = (values + 0.1 * rng.normal(size=values.shape)).astype("float32")
    if missing:
        values[rng.random(values.shape) < 0.2] = np.nan
    measurements = LocalProducts(values, missing=missing)
    unit, noise = measurements.unit, np.array([0.1, 0.103, 0.098])

    distances = np.stack(
        [np.nansum((values.astype(float) - true[:, [k]]) ** 2, axis=0) for k in range(3)], axis=1
    )
    n_observed = (~np.isnan(values)).sum(axis=0)[:, None]
    # Density of the standard values, whose unit shifts D by a known amount.
    expected = -n_observed / 2 * np.log(2 * np.pi * (noise / unit.scale) ** 2)
    expected = expected - distances / (2 * noise**2)
    found = log_densities(
        measurements.distances((true - unit.offset) / unit.scale),
        measurements.counts,
        noise / unit.scale,
    )
    assert np.abs(found - expected).max() < 0.01
    responsibilities = softmax(expected, axis=1)
    assert ((responsibilities > 0.01) & (responsibilities < 0.99)).any()
    assert np.abs(expectation(found) - responsibilities).max() < 1e-3


@pytest.mark.parametrize("missing", [False, True])
def test_number_of_threads_does_not_change_a_bit(rng, missing):
    values = rng.normal(size=(N_VISITS, 300)).astype("float32")
    if missing:
        values[rng.random(values.shape) < 0.3] = np.nan
    curves, z = rng.normal(size=(N_VISITS, 3)), rng.dirichlet(np.ones(3), 300)
    one, two = (
        LocalProducts(values, missing=missing, n_jobs=n_jobs, block_size=16) for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.distances(curves), two.distances(curves))
    np.testing.assert_array_equal(one.pool(z)[0], two.pool(z)[0])
    np.testing.assert_array_equal(one.features(curves), two.features(curves))


def test_values_are_read_and_never_written(rng):
    values = rng.normal(size=(N_VISITS, N_VERTICES))
    values[0, 0] = np.nan
    before = values.copy()
    measurements = LocalProducts(values, missing=True)
    measurements.distances(rng.normal(size=(N_VISITS, 2)))
    measurements.pool(rng.random((N_VERTICES, 2)))
    measurements.features(rng.normal(size=(N_VISITS, 2)))
    np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize("missing", [False, True])
def test_selected_visits_are_those_of_the_whole(missing):
    rng = np.random.default_rng(0)
    values = rng.normal(5, 2, size=(9, 40))
    if missing:
        values[rng.random(values.shape) < 0.2] = np.nan
    order, visits = rng.permutation(9), np.array([1, 4, 8])
    whole = LocalProducts(values, order=order, missing=missing)
    part = whole.select(visits)
    rows = values[order[visits]]
    alone = LocalProducts(rows, missing=missing, unit=whole.unit)
    z = rng.dirichlet(np.ones(3), size=40)
    for one, other in zip((*part.pool(z), part.means), (*alone.pool(z), alone.means), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(part.counts, np.isfinite(rows).sum(axis=0))
