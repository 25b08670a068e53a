"""What is decided before the first pass, where some of the vertices stand for all."""

from dataclasses import replace

import numpy as np
import pytest

import braindive as bd
from braindive.dive.convergence import Monitor
from braindive.dive.partitions import leading_vertices, of_some
from braindive.values import sampling
from braindive.values.local import LocalProducts

SETTINGS = {"n_clusters": 3, "people": "alike", "personal": False, "random_state": 0}


@pytest.fixture
def one_in_twelve(monkeypatch):
    monkeypatch.setattr(sampling, "ENOUGH", 100)


@pytest.fixture
def steps(monkeypatch):
    """Names of the steps that all vertices are asked for."""
    seen = []
    run_step = LocalProducts.run_step

    def noted(self, step, unit, own):
        seen.append(type(step).__name__)
        return run_step(self, step, unit, own)

    monkeypatch.setattr(LocalProducts, "run_step", noted)
    return seen


def test_a_clear_progression_is_seen_by_some_of_the_vertices(one_in_twelve, steps):
    cohort = bd.simulate_cohort(60, n_vertices=1200, random_state=0).cohort
    model = bd.DIVE(**SETTINGS).fit(cohort)
    assert model.progression_found_
    assert model.progression_p_ <= 0.001
    # Neither features of all vertices nor means over other clusters of them were needed.
    assert "Features" not in steps
    assert "Pool" not in steps


@pytest.mark.filterwarnings("ignore::braindive.BraindiveWarning")
def test_what_some_of_the_vertices_leave_open_all_of_them_are_asked(one_in_twelve, steps, rng):
    cohort = bd.simulate_cohort(60, n_vertices=1200, random_state=0).cohort
    noise = bd.Cohort(
        rng.normal(size=cohort.values.shape), subjects=cohort.subjects, times=cohort.times
    )
    model = bd.DIVE(**SETTINGS).fit(noise)
    assert not model.progression_found_
    assert "Features" in steps
    assert "Pool" in steps


def test_a_small_cluster_of_the_start_is_not_lost(one_in_twelve, monkeypatch):
    simulation = bd.simulate_cohort(40, n_vertices=1200, random_state=1)
    chosen = sampling.evenly_spread(1200)
    # The last cluster has a few vertices only, none of them among those that lead.
    true = simulation.truth.labels
    mine = np.flatnonzero(~chosen & (true == 2))
    start = np.where(true == 2, 0, true)
    start[mine[:20]] = 2
    seen = []

    def noted(settings, n_vertices):
        seen.append((leading_vertices(settings, n_vertices), settings))
        return seen[-1][0]

    monkeypatch.setattr("braindive.dive.starts.leading_vertices", noted)
    # And a little of it in each vertex is not enough.
    soft = np.full((1200, 3), 1e-9)
    soft[np.arange(1200), start] = 1.0
    for labels in (start, true):
        model = bd.DIVE(**SETTINGS | {"n_clusters": None, "start": labels}).fit(simulation.cohort)
        assert bd.match_clusters(model, true).agreement > 0.9
    (nobody, _), (some, settings) = seen
    assert nobody is None
    np.testing.assert_array_equal(some, chosen)
    np.testing.assert_array_equal(of_some(settings, some).start, settings.start[chosen])
    assert leading_vertices(replace(settings, start=soft), 1200) is None


def test_all_vertices_make_two_passes_where_the_em_is_quick(monkeypatch):
    monkeypatch.setattr(sampling, "ENOUGH", 600)
    cohort = bd.simulate_cohort(100, n_vertices=1200, noise=0.5, random_state=0).cohort
    assert bd.DIVE(tol=1e-3, **SETTINGS).fit(cohort).n_iter_ == 2
    # Without what is known of the rate, one more would have to show that nothing changes.
    monkeypatch.setattr(Monitor, "last_rate", lambda self: 1.0)
    assert bd.DIVE(tol=1e-3, **SETTINGS).fit(cohort).n_iter_ == 3
