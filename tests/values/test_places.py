"""Prediction, staging and goodness of fit give the same wherever the values are kept."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
import zarr

import braindive as bd
from braindive import estimator
from braindive import fitted as fitted_models
from braindive.prediction import learning
from braindive.prediction.learning import learn_personal
from braindive.values.blocks import Step
from braindive.values.local import LocalProducts, add, rows_of
from braindive.values.products import BlockProducts


def as_store(cohort, folder):
    values = cohort.values
    store = zarr.create_array(
        folder / "values.zarr", shape=values.shape, chunks=(len(values), 64), dtype=values.dtype
    )
    store[:] = values
    stored = zarr.open_array(folder / "values.zarr", mode="r")
    return bd.Cohort(stored, subjects=cohort.subjects, times=cohort.times)


@pytest.fixture(scope="module", params=[0.0, 0.1], ids=["dense", "holes"])
def cohort(request):
    """Wide enough for two workers."""
    return bd.simulate_cohort(
        60, 3, 700, personal_offset=0.5, missing=request.param, random_state=0
    ).cohort


@pytest.fixture(scope="module", autouse=True)
def enough_people():
    """Learning needs fewer people than the cohort has, so that it selects visits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "_JUDGES", 50)
        yield


@pytest.fixture(scope="module")
def fitted(cohort):
    """A model, and what it was given to learn prediction from."""
    given = []

    def remember(products, *others):
        given.extend(others)
        return learn_personal(products, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimator, "learn_personal", remember)
        model = bd.DIVE(3, n_init=1, random_state=0).fit(cohort)
    return model, given


@pytest.fixture(scope="module")
def in_memory(cohort, fitted):
    return everything(cohort, *fitted)


def everything(cohort, model, given, client=None):
    """What is learnt and found of a cohort, by name."""
    learnt = learn_personal(model.products(cohort, client), *given)
    early, late = cohort.first_visits(2), cohort.later_visits(2)
    values, spread = model.predict(late, history=early, return_std=True, client=client)
    fit = bd.goodness_of_fit(model, cohort, client=client)
    return {
        "rates": learnt.rates,
        "shrinkage": learnt.shrinkage,
        "inflation": learnt.inflation,
        "persistent": learnt.vertex_kernel.persistent,
        "noise": learnt.vertex_kernel.noise,
        "components": learnt.components,
        "predicted": values,
        "spread": spread,
        "published": model.predict(late, history=early, personal=False, client=client),
        "stages": model.stage(cohort, client=client).astype(float),
        "score": model.score(cohort, client=client),
        "explained": fit.vertices,
        "visits": fit.visits.drop(columns=["subject", "reason"]).astype(float),
        "clusters": fit.clusters,
    }


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-8, atol=1e-9, err_msg=name)


def assert_same_fit(model, reference):
    """Added in another order, an EM ends elsewhere within its tolerance, and prediction with it."""
    np.testing.assert_allclose(model.responsibilities_, reference.responsibilities_, atol=1e-5)
    # In years; their standard deviation is the unit of a score.
    spread = reference.scores_.std()
    np.testing.assert_allclose(model.scores_ / spread, reference.scores_ / spread, atol=1e-6)
    ours, theirs = model._personal, reference._personal
    np.testing.assert_allclose(ours.rates, theirs.rates, atol=1e-9)
    np.testing.assert_allclose(ours.shrinkage, theirs.shrinkage, atol=1e-3)
    np.testing.assert_allclose(ours.vertex_kernel.noise, theirs.vertex_kernel.noise, rtol=1e-3)


def test_on_workers_as_in_memory(cohort, fitted, in_memory, two_workers):
    assert_same(everything(cohort, *fitted, two_workers), in_memory)


def test_from_a_store_as_in_memory(cohort, fitted, in_memory, tmp_path):
    assert_same(everything(as_store(cohort, tmp_path), *fitted), in_memory)


def test_from_a_store_that_workers_read(cohort, fitted, in_memory, tmp_path, two_workers):
    assert_same(everything(as_store(cohort, tmp_path), *fitted, two_workers), in_memory)


def test_a_fit_with_workers_computes_nothing_in_the_caller(
    monkeypatch, cohort, fitted, two_workers
):
    def refuse(*_):
        raise AssertionError("computed by the caller")

    monkeypatch.setattr(LocalProducts, "run_step", refuse)
    model = bd.DIVE(3, n_init=1, random_state=0).fit(cohort, client=two_workers)
    assert_same_fit(model, fitted[0])
    with pytest.raises(AssertionError, match="by the caller"):
        model.stage(cohort)


class TwoHalves(BlockProducts):
    """A place for values: two halves of the vertices, each by itself."""

    def __init__(self, values, *, order, missing, unit=None, **_):
        middle = values.shape[1] // 2
        super().__init__(len(order), values.shape[1], values.dtype, missing, unit)
        self.halves = [
            LocalProducts(half, order=order, missing=missing, unit=unit)
            for half in (values[:, :middle], values[:, middle:])
        ]

    def with_visits(self, visits):
        other = copy.copy(self)
        other.halves = [half.with_visits(visits) for half in self.halves]
        return other

    def run_step(self, step, unit, own):
        arrays, totals, done = [], (), 0
        for half in self.halves:
            where = slice(done, done + half.n_vertices)
            here = half.weighted(self.weights)
            found, sums = here.run_step(step, unit, rows_of(own, where))
            arrays.append(found)
            totals, done = add(totals, sums), where.stop
        joined = zip(*arrays, strict=True)
        return tuple(np.concatenate(parts, axis=-1) for parts in joined), totals


def test_a_new_place_for_values_is_one_class(monkeypatch, cohort, fitted, in_memory):
    def open_halves(values, *, n_jobs, memory, client, **options):
        opened.append(TwoHalves(values, **options))
        return opened[-1]

    opened = []
    monkeypatch.setattr(fitted_models, "open_products", open_halves)
    assert_same(everything(cohort, *fitted), in_memory)
    assert_same_fit(bd.DIVE(3, n_init=1, random_state=0).fit(cohort), fitted[0])
    assert len(opened) > 3


@dataclass(frozen=True)
class Sloppy(Step):
    """Uses what it did not ask for."""

    def __call__(self, block, *own):
        return (block.means,), ()


def test_a_step_that_did_not_ask_for_the_summary_is_told():
    with pytest.raises(TypeError, match="needs_summary"):
        LocalProducts(np.eye(3)).run(Sloppy())
