"""Information about curves and noise, against derivatives of the likelihood itself."""

import numpy as np
import pytest

from braindive.dive.compressed import Compressed
from braindive.dive.curves import Trajectories
from braindive.dive.e_step import log_densities
from braindive.dive.field import expectation, log_evidence
from braindive.dive.information import information
from braindive.values.backends import open_products


@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["dense", "gaps"])
def test_complete_less_missing_information_is_that_of_the_likelihood(missing, rng):
    """Minus the second derivatives by finite differences, where the first ones are expected."""
    n_visits, n_vertices, noise = 60, 20_000, np.array([0.8, 0.6])
    scores = np.sort(rng.normal(size=n_visits))
    curves = Trajectories(*np.array([[-1.0, -1.2], [2.0, 1.5], [-0.5, 0.6], [0.1, 0.0]]))
    labels = rng.integers(0, 2, n_vertices)
    values = curves.evaluate(scores)[:, labels]
    values += noise[labels] * rng.normal(size=values.shape)
    values[rng.random(values.shape) < missing] = np.nan
    products = open_products(values, missing=missing > 0)
    # In the values' own unit.
    unit = products.unit
    curves, noise = curves.revalued(-unit.offset / unit.scale, 1 / unit.scale), noise / unit.scale
    data = Compressed.of(products, curves, scores)
    packed = np.column_stack([curves.to_array(), np.log(noise)]).ravel()

    def densities(packed):
        found = packed.reshape(2, 5)
        theta = Trajectories.from_array(found[:, :-1]).evaluate(scores)
        return log_densities(data.distances(theta), data.counts, np.exp(found[:, -1]))

    def value(packed):
        return log_evidence(densities(packed)).sum()

    z = expectation(densities(packed))
    complete, lost = information(data, curves, noise, scores, z)
    step = 2e-3 * np.eye(10)
    found = np.empty((10, 10))
    for i in range(10):
        for j in range(10):
            signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
            corners = (a * b * value(packed + a * step[i] + b * step[j]) for a, b in signs)
            found[i, j] = -sum(corners) / (4 * 2e-3**2)
    size = np.sqrt(np.diag(complete))
    np.testing.assert_allclose(
        found / np.outer(size, size), (complete - lost) / np.outer(size, size), atol=0.03
    )
    # Little is known of some directions beside what would be if z were: that is what is missing.
    assert np.linalg.eigvals(np.linalg.solve(complete, lost)).real.max() > 0.2
