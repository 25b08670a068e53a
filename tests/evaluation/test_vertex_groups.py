"""Groups of vertices: mixtures against scikit-learn, and numbers of groups against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import braindive as bd
from braindive.evaluation.vertex_groups import (
    BELIEVED,
    count_groups,
    effective_number,
    fit_mixture,
)
from braindive.simulation.cohorts import smooth_over_graph


def places_of(rng, centres, spread, n_each=300):
    return np.concatenate([centre + spread * rng.normal(size=n_each) for centre in centres])


@pytest.mark.parametrize("common", [True, False])
def test_mixtures_without_errors_are_those_of_scikit_learn(rng, common):
    places = places_of(rng, (-4.0, 0.0, 5.0), 1.0)
    found = fit_mixture(places, np.full(len(places), 1e-9), 3, common)
    kind = "tied" if common else "full"
    theirs = GaussianMixture(3, covariance_type=kind, tol=1e-7, max_iter=500, random_state=0)
    theirs.fit(places[:, None])
    np.testing.assert_allclose(np.sort(found.means), np.sort(theirs.means_.ravel()), atol=0.03)
    # Outliers, of which there are none, cost next to nothing.
    expected = theirs.score(places[:, None])
    assert found.log_likelihood / len(places) == pytest.approx(expected, abs=2e-3)


def test_errors_of_places_are_no_spread_of_a_group(rng):
    variances = rng.uniform(0.5, 2.0, 2000)
    places = 0.5 * rng.normal(size=2000) + np.sqrt(variances) * rng.normal(size=2000)
    found = fit_mixture(places, variances, 1, True)
    assert np.sqrt(found.variances[0]) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("gap", "distinct"), [(6.0, 2), (1.0, 1)])
def test_groups_need_a_peak_of_their_own(rng, gap, distinct):
    places = places_of(rng, (0.0, gap), 1.0)
    nothing = np.full(len(places), 1e-9)
    assert fit_mixture(places, nothing, 2, True).n_distinct(places, nothing) == distinct


def test_neighbours_that_are_alike_count_once(rng):
    graph = bd.load_space("fsaverage5-left").graph()
    chosen = np.arange(0, graph.shape[0], 5)
    rough = rng.normal(size=graph.shape[0])
    smooth = smooth_over_graph(rough[:, None], graph, 20)[:, 0]
    assert effective_number(rough[chosen], chosen, graph) == len(chosen)
    assert effective_number(smooth[chosen], chosen, graph) < 0.1 * graph.shape[0]


@pytest.mark.parametrize("alike", [False, True], ids=["differ", "alike"])
@pytest.mark.parametrize("n_true", [1, 3])
def test_number_of_groups_is_the_true_one(n_true, alike):
    variation = {"midpoint_variation": 0.0, "steepness_variation": 0.0} if alike else {}
    midpoints = (2.5,) if n_true == 1 else (-15.0, 2.5, 20.0)
    simulation = bd.simulate_cohort(
        100, n_vertices=500, midpoints=midpoints, random_state=2, **variation
    )
    model = bd.DIVE(5, people="alike", personal=False, random_state=0).fit(simulation.cohort)
    found = count_groups(model, simulation.cohort, 5)
    best = max(number for number in found if number == 1 or found[number].gain > BELIEVED)
    assert found[best].distinct == n_true
