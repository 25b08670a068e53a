"""Some of the vertices, evenly spread."""

import numpy as np
import pytest

from braindive.dive.curves.sigmoid import Trajectories
from braindive.dive.e_step import Assign, with_covariance
from braindive.dive.problem import Parameters
from braindive.dive.timeline import Timeline
from braindive.values import products as module
from braindive.values import sampling
from braindive.values.blocks import Adjustment
from braindive.values.local import LocalProducts
from braindive.values.sampling import evenly_spread
from braindive.values.walking import one_thread_per_product


@pytest.fixture(params=[0.0, 0.1], ids=["dense", "holes"])
def values(request):
    random = np.random.default_rng(0)
    values = 2.5 + random.standard_normal((30, 200))
    values[random.random(values.shape) < request.param] = np.nan
    return values


def products(values, **settings):
    return LocalProducts(values, missing=bool(np.isnan(values).any()), n_jobs=1, **settings)


@pytest.mark.parametrize("weighted", [False, True])
def test_products_of_a_sample_are_those_of_its_vertices(values, weighted):
    random = np.random.default_rng(1)
    chosen = random.random(200) < 0.3
    weights = random.integers(0, 3, 30).astype(float) if weighted else None
    everything = products(values, block_size=64).weighted(weights)
    some = everything.sample(chosen)
    alone = products(values[:, chosen], unit=everything.unit).weighted(weights)
    z = random.dirichlet(np.ones(3), int(chosen.sum()))
    curves = random.standard_normal((30, 3))
    assign = Assign(np.ones(3))
    for found, expected in [
        (some.pool(z), alone.pool(z)),
        (some.distances(curves), alone.distances(curves)),
        (some.sweep(curves, assign)[:4], alone.sweep(curves, assign)[:4]),
        (some.select(np.arange(9)).squares, alone.select(np.arange(9)).squares),
    ]:
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_a_sample_of_adjusted_values_has_their_summary(values):
    random = np.random.default_rng(1)
    sites, offsets = np.arange(30) % 3, random.standard_normal((3, 200))
    chosen = random.random(200) < 0.3
    everything = products(values, block_size=64).adjusted(Adjustment(offsets, sites))
    some, less = everything.sample(chosen), (values - offsets[sites])[:, chosen]
    alone = products(less, unit=everything.unit)
    for one, other in zip(some.summary, alone.summary, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    z = random.dirichlet(np.ones(3), int(chosen.sum()))
    for one, other in zip(some.pool(z), alone.pool(z), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_threads_do_not_change_a_sample(monkeypatch):
    monkeypatch.setattr(module, "_PIECE", 16)
    random = np.random.default_rng(0)
    values = random.standard_normal((30, 200)).astype(np.float32)
    chosen, curves = np.arange(200) % 2 == 0, random.standard_normal((30, 3))
    found = []
    for n_jobs in (1, 4):
        some = products(values).sample(chosen)
        with one_thread_per_product(n_jobs):
            found.append(some.sweep(curves, Assign(np.ones(3)))[:4])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_copy_is_kept_of_few_vertices_only(values):
    """Half of a cohort that is larger than memory would be larger than memory too."""
    everything, half, few = products(values), np.arange(200) % 2 == 0, np.arange(200) % 20 == 0
    assert everything.sample(half) is not everything.sample(half)
    assert everything.sample(few) is everything.sample(few)
    # Others that are asked for once in between do not take its place.
    assert everything.sample(~half & few[::-1]) is not None
    assert everything.sample(few) is everything.sample(few)


def test_components_come_from_the_sample_where_vertices_are_many(values, monkeypatch):
    directions = np.random.default_rng(2).standard_normal((30, 4))
    everything, chosen = products(values, block_size=64), evenly_spread(200, 50)
    assert chosen.sum() == 50
    expected = products(values[:, chosen], unit=everything.unit).power_step(directions)
    of_all = everything.power_step(directions)
    monkeypatch.setattr(sampling, "ENOUGH", 50)
    found = everything.power_step(directions)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert not np.allclose(found, of_all, rtol=0.1)


def test_how_vertices_differ_is_told_by_a_sample(monkeypatch):
    random = np.random.default_rng(3)
    n_subjects, n_vertices = 40, 4000
    subjects, years = np.repeat(np.arange(n_subjects), 2), np.tile([0.0, 1.0], n_subjects)
    timeline = Timeline.from_times(subjects, years)
    speeds, shifts = np.ones(n_subjects), random.normal(0, 2, n_subjects)
    scores = timeline.scores(speeds, shifts)
    own = Trajectories(
        np.full(n_vertices, -2.0),
        np.ones(n_vertices),
        random.normal(0, 0.5, n_vertices),
        np.zeros(n_vertices),
    )
    values = own.evaluate(scores) + 0.2 * random.standard_normal((len(scores), n_vertices))
    everything = products(values)
    unit = everything.unit
    curves = Trajectories(*np.array([[-2.0], [1.0], [0.0], [0.0]]))
    curves = curves.revalued(-unit.offset / unit.scale, 1 / unit.scale)
    parameters = Parameters(curves, np.array([0.3]), speeds, shifts)
    z = np.ones((n_vertices, 1))
    whole = with_covariance(everything, timeline, parameters, z)
    monkeypatch.setattr(sampling, "ENOUGH", 1000)
    sampled = with_covariance(everything, timeline, parameters, z)
    assert not np.array_equal(sampled.noise, whole.noise)
    np.testing.assert_allclose(sampled.noise, whole.noise, rtol=0.02)
    spreads = [np.sqrt(found.vertex_covariance[0, 2, 2]) for found in (whole, sampled)]
    np.testing.assert_allclose(spreads, 0.5, rtol=0.1)
