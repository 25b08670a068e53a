"""Products of a block with a few rows or columns, tile by tile."""

import numpy as np
import pytest

from braindive.values.multiplication import over_vertices, over_visits


@pytest.mark.parametrize("number", [1, 3, 4, 7, 12, 17, 30, 33])
@pytest.mark.parametrize(("n_visits", "n_vertices"), [(5, 7), (60, 5000), (131, 2501), (640, 1030)])
def test_tiles_add_up_to_the_product(number, n_visits, n_vertices):
    random = np.random.default_rng(number)
    # A block is part of wider values, so that its rows do not lie together.
    values = random.standard_normal((n_visits, n_vertices + 9))[:, 4:-5]
    rows = random.standard_normal((number, n_visits))
    columns = random.standard_normal((n_vertices, number))
    np.testing.assert_allclose(over_visits(rows, values), rows @ values, rtol=0, atol=1e-11)
    np.testing.assert_allclose(over_vertices(values, columns), values @ columns, rtol=0, atol=1e-11)


def test_single_precision_is_kept_over_visits_and_left_over_vertices():
    random = np.random.default_rng(0)
    values = random.standard_normal((300, 3000)).astype(np.float32)
    rows, columns = np.ones((3, 300), np.float32), np.ones((3000, 3), np.float32)
    assert over_visits(rows, values).dtype == np.float32
    sums = over_vertices(values, columns)
    exact = values.sum(axis=1, dtype=float)
    assert sums.dtype == float
    np.testing.assert_allclose(sums, np.tile(exact[:, None], (1, 3)), rtol=0, atol=1e-4)
