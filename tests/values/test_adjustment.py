"""Offsets of sites: every product of adjusted values against a loop, wherever the values lie."""

import numpy as np
import pytest
import zarr

from braindive.dive.e_step import Assign
from braindive.values.backends import open_products
from braindive.values.blocks import Adjustment, Unit
from braindive.values.site_residuals import SiteResiduals

N_VISITS, N_VERTICES, N_CLUSTERS, N_SITES = 9, 23, 3, 3
UNIT = Unit(4.5, 1.7)
SITES = np.array([0, 0, 1, 2, 2, 1, 0, 1, 2])
SUBJECTS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3])


@pytest.fixture(params=["dense", "holes"])
def values(request, rng):
    values = 5 + 2 * rng.normal(size=(N_VISITS, N_VERTICES))
    if request.param == "holes":
        values[rng.random(values.shape) < 0.3] = np.nan
        values[:, 4] = np.nan
    return values


@pytest.fixture
def offsets(rng):
    return rng.normal(size=(N_SITES, N_VERTICES))


@pytest.fixture(params=["memory", "packed", "workers"])
def opened(request, values, offsets, tmp_path):
    """Adjusted products of values in canonical order, and standard values less their offsets."""
    client = request.getfixturevalue("two_workers") if request.param == "workers" else None
    order = np.random.default_rng(1).permutation(N_VISITS)
    stored = np.empty_like(values)
    stored[order] = values
    if request.param == "packed":
        store = zarr.create_array(
            tmp_path / "values.zarr", shape=stored.shape, dtype=stored.dtype, chunks=(N_VISITS, 8)
        )
        store[:] = stored
        stored = store
    missing = bool(np.isnan(values).any())
    products = open_products(stored, order=order, missing=missing, unit=UNIT, client=client)
    products = products.adjusted(Adjustment(offsets, SITES))
    standard = np.empty_like(values)
    for n in range(N_VISITS):
        for vertex in range(N_VERTICES):
            adjusted = values[n, vertex] - offsets[SITES[n], vertex]
            standard[n, vertex] = (adjusted - UNIT.offset) / UNIT.scale
    return products, standard


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_distances_pools_and_squares_are_those_of_the_adjusted_values(opened, rng):
    products, standard = opened
    curves, z = rng.normal(size=(N_VISITS, N_CLUSTERS)), rng.random((N_VERTICES, N_CLUSTERS))
    seen = ~np.isnan(standard)
    filled = np.where(seen, standard, 0.0)
    away = np.where(seen[:, :, None], standard[:, :, None] - curves[:, None], 0.0)
    assert_close(products.distances(curves), (away**2).sum(axis=0))
    sums, weights = products.pool(z)
    assert_close(sums, filled @ z)
    assert_close(weights, seen @ z)
    assert_close(products.squares, (filled**2).sum(axis=0))
    assert_close(products.sum_residuals(curves, z, 2), np.einsum("nlk,lk->nk", away**2, z))
    swept = products.sweep(curves, Assign(np.full(N_CLUSTERS, 0.7)))
    assert_close(swept.sums, filled @ swept.responsibilities)


def test_visits_that_are_chosen_keep_their_own_sites(opened, rng):
    products, standard = opened
    visits = np.array([1, 3, 4, 7])
    curves = rng.normal(size=(len(visits), N_CLUSTERS))
    away = np.nan_to_num(standard[visits][:, :, None] - curves[:, None])
    assert_close(products.select(visits).distances(curves), (away**2).sum(axis=0))


def test_an_adjustment_can_be_taken_back(values, offsets):
    missing = bool(np.isnan(values).any())
    plain = open_products(values, missing=missing, unit=UNIT)
    adjusted = plain.adjusted(Adjustment(offsets, SITES))
    assert not np.allclose(adjusted.energies, plain.energies)
    assert_close(adjusted.adjusted(None).energies, plain.energies)


def test_coefficients_and_scatter_within_people_and_sites_are_those_of_a_loop(opened, rng):
    products, standard = opened
    design = np.column_stack([np.ones(N_VISITS), rng.normal(size=N_VISITS)])
    rows = np.linalg.pinv(design)
    step = SiteResiduals(rows, design, SUBJECTS, SITES, N_SITES)
    nothing = np.zeros((N_VERTICES, 0))
    found, squares, freedoms, visits, levels, inverse = products.run_residuals(
        step, products.means, np.zeros((N_VISITS, 0)), nothing
    )[0]
    for vertex in range(N_VERTICES):
        seen = ~np.isnan(standard[:, vertex])
        column = np.where(seen, standard[:, vertex] - products.means[vertex], 0.0)
        expected = rows @ column
        assert_close(found[:, vertex], expected)
        left = np.where(seen, column - design @ expected, 0.0)
        own = [left[seen & (person == SUBJECTS)] for person in range(4)]
        own = [each for each in own if len(each)]
        if own:
            assert_close(levels[vertex], np.mean([each.mean() ** 2 for each in own]))
            assert_close(inverse[vertex], np.mean([1 / len(each) for each in own]))
        for site in range(N_SITES):
            assert visits[site, vertex] == np.sum(seen & (site == SITES))
            cells = [left[seen & (site == SITES) & (i == SUBJECTS)] for i in range(4)]
            cells = [cell for cell in cells if len(cell)]
            assert freedoms[site, vertex] == sum(len(cell) - 1 for cell in cells)
            scatter = sum(((cell - cell.mean()) ** 2).sum() for cell in cells)
            assert_close(squares[site, vertex], scatter)
