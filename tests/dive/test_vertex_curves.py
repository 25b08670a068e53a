"""Every vertex's own curve, against an optimiser, and its error, against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import least_squares, minimize

import braindive as bd
from braindive.dive.curves import Trajectories
from braindive.dive.design_effect import without_personal_noise
from braindive.dive.vertex_curves import Bins, own_curves
from braindive.values.blocks import Block
from braindive.values.local import LocalProducts

CENTRE = Trajectories(np.array([-1.0]), np.array([0.5]), np.array([1.0]), np.array([0.2]))


def find(values, weights, scores, precision):
    """Curves around `CENTRE`, which is the second of two; nobody is around the first."""
    centres = Trajectories.from_array(np.vstack([2 * CENTRE.to_array(), CENTRE.to_array()]))
    of = np.ones(values.shape[1], dtype=int)
    precisions = np.stack([np.eye(4), precision])
    bounds = Trajectories.bounds(scores)
    return own_curves(values, weights, scores, centres, of, precisions, bounds)


def test_own_curves_are_the_most_probable_ones(rng):
    scores = np.linspace(-8, 10, 25)
    truth = CENTRE.to_array()[0] + rng.normal(size=(6, 4)) * [0.2, 0.1, 1.5, 0.1]
    values = Trajectories.from_array(truth).evaluate(scores) + 0.1 * rng.normal(size=(25, 6))
    weights = np.full((25, 6), 100.0)
    precision = np.linalg.inv(np.diag([0.04, 0.01, 2.25, 0.01]))
    found = find(values, weights, scores, precision)

    def loss(parameters, vertex):
        curve = Trajectories.from_array(parameters[None]).evaluate(scores)[:, 0]
        away = parameters - CENTRE.to_array()[0]
        return 100 * np.sum((values[:, vertex] - curve) ** 2) + away @ precision @ away

    for vertex in range(6):
        best = minimize(loss, truth[vertex], args=(vertex,), method="BFGS")
        assert loss(found.parameters[:, vertex], vertex) == pytest.approx(best.fun, rel=1e-3)
        np.testing.assert_allclose(found.parameters[:, vertex], best.x, atol=0.02)


def test_own_curves_are_found_from_afar(rng):
    """Curves bend so much that a first Gauss-Newton step may lead away, and does for some."""
    scores, n = np.linspace(-8, 10, 16), 400
    truth = CENTRE.to_array()[0] + rng.normal(size=(n, 4)) * [0.2, 0.1, 3.0, 0.2]
    noise = 0.05
    values = Trajectories.from_array(truth).evaluate(scores) + noise * rng.normal(size=(16, n))
    weights = np.full((16, n), noise**-2)
    precision = np.linalg.inv(np.diag([0.04, 0.01, 9.0, 0.04]))
    found = find(values, weights, scores, precision)
    # What is found of a vertex hangs on no other.
    for vertex in range(0, n, 40):
        alone = find(values[:, [vertex]], weights[:, [vertex]], scores, precision)
        np.testing.assert_allclose(alone.parameters[:, 0], found.parameters[:, vertex], rtol=1e-6)
    middle, tell = CENTRE.to_array()[0], []
    for vertex in range(n):

        def residuals(parameters, vertex=vertex):
            curve = Trajectories.from_array(parameters[None]).evaluate(scores)[:, 0]
            own = (values[:, vertex] - curve) / noise
            return np.concatenate([own, np.sqrt(np.diag(precision)) * (parameters - middle)])

        here = found.parameters[:, vertex]
        best = least_squares(residuals, here).x
        hessian = found.information[:, :, vertex] + precision
        tell.append(np.sqrt((best - here) @ hessian @ (best - here)))
    # In standard errors, of where an optimiser goes on to.
    assert np.median(tell) < 0.02
    assert np.mean(np.array(tell) > 0.5) < 0.02


@pytest.mark.parametrize("holes", [False, True], ids=["dense", "holes"])
def test_means_in_bins(rng, holes):
    scores = rng.normal(size=60)
    values = rng.normal(size=(60, 5)) + 20
    if holes:
        values[rng.random(values.shape) < 0.2] = np.nan
    products = LocalProducts(values, missing=holes)
    bins, unit = Bins.of(scores, 6), products.unit
    block = Block(slice(0, 5), values, ~np.isnan(values) if holes else None, unit, products.summary)
    means, weights = bins.pool(block)
    for b in range(6):
        mine = values[bins.of_visit == b]
        expected = np.sum(~np.isnan(mine), axis=0)
        np.testing.assert_array_equal(np.broadcast_to(weights[b], 5), expected)
        expected = (np.nanmean(mine, axis=0) - unit.offset) / unit.scale
        np.testing.assert_allclose(means[b], expected, atol=1e-12)


def coverage(simulation, model, width=1.96):
    """Correlation with the true midpoints in years, and share of them inside the intervals."""
    truth = simulation.truth
    years = (truth.vertices.midpoint - truth.trajectories.midpoint.min()) / truth.speeds.mean()
    found, errors = model.vertex_midpoints_, model.vertex_midpoints_se_
    inside = np.abs(found - years) < width * errors
    return np.corrcoef(found, years)[0, 1], float(inside.mean())


def test_midpoints_of_vertices_are_found_with_honest_errors():
    found = []
    for seed in range(4):
        simulation = bd.simulate_cohort(n_subjects=200, n_vertices=400, random_state=seed)
        model = bd.DIVE(3, personal=False, random_state=0).fit(simulation.cohort)
        by_cluster = model.trajectories_.midpoint[model.labels_]
        correlation, inside = coverage(simulation, model)
        _, third = coverage(simulation, model, 0.65)
        truth = simulation.truth.vertices.midpoint
        assert correlation > np.corrcoef(by_cluster, truth)[0, 1] + 0.01
        found.append((correlation, inside, third))
    correlation, inside, third = np.mean(found, axis=0)
    assert correlation > 0.98
    assert 0.88 < inside < 0.99
    # A third as wide they cover far less, so that the range above is one they could miss.
    assert third < 0.75


def test_midpoints_are_the_same_in_little_memory():
    cohort = bd.simulate_cohort(60, n_vertices=1200, random_state=0).cohort
    fits = [
        bd.DIVE(2, personal=False, memory=memory, random_state=0).fit(cohort)
        for memory in (None, 200_000)
    ]
    expected, found = (model.vertex_midpoints_ for model in fits)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore::braindive.ConvergenceWarning")
def test_people_who_differ_make_visits_count_for_less():
    inflation = []
    for offset in (0.0, 0.7):
        simulation = bd.simulate_cohort(
            60, n_vertices=200, noise=0.7, personal_offset=offset, random_state=0
        )
        model = bd.DIVE(3, people="alike", vertices="differ", personal=False, random_state=0)
        model.fit(simulation.cohort)
        found = model.internal_.parameters
        timeline, products = model.internal_.training.timeline, model.products(simulation.cohort)
        z = model.responsibilities_
        inflated = without_personal_noise(products, timeline, found, z)
        inflation.append((inflated.noise / found.noise) ** 2)
    np.testing.assert_allclose(inflation[0], 1, atol=0.1)
    # Half of the variance lasts, over four visits: 1 + 3 / 2, less what the stages have taken up.
    assert np.all(inflation[1] > 1.7)
    assert np.all(inflation[1] < 2.7)


def test_published_likelihood_has_no_vertices_of_their_own():
    cohort = bd.simulate_cohort(40, n_vertices=60, noise=0.3, random_state=0).cohort
    model = bd.DIVE(2, vertices="alike", personal=False, random_state=0).fit(cohort)
    assert not hasattr(model, "vertex_midpoints_")
    with pytest.raises(bd.ParameterError, match='vertices="differ"'):
        bd.plot_midpoints(model)
    with pytest.raises(bd.ParameterError, match="vertices must be"):
        bd.DIVE(2, vertices="maybe").fit(cohort)


@pytest.mark.parametrize("setting", ["holes", "atlas", "no staging", "exact"])
def test_midpoints_whatever_the_variant(setting):
    missing = 0.1 if setting == "holes" else 0.0
    simulation = bd.simulate_cohort(
        n_subjects=40, n_vertices=80, noise=0.3, missing=missing, random_state=1
    )
    options = {
        "atlas": {"assignments": simulation.truth.labels},
        "no staging": {"staging": False},
        "exact": {"method": "exact", "max_iter": 5, "tol": 1e-2},
    }.get(setting, {})
    model = bd.DIVE(3, vertices="differ", personal=False, random_state=0, **options)
    model.fit(simulation.cohort)
    assert np.isfinite(model.vertex_midpoints_).all()
    assert (model.vertex_midpoints_se_ > 0).all()
