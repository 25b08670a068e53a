"""Groups of vertices: evidence against integrals, mixtures against scikit-learn, and numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

import braindive as bd
from braindive.dive.vertex_evidence import Binned, Population, log_evidence
from braindive.evaluation.ring_evidence import (
    evidence_of_rings,
    neighbourhoods,
    noise_in_common,
    rings_of,
)
from braindive.evaluation.vertex_groups import compare_mixtures, count_groups, effective_number
from braindive.evaluation.vertex_mixtures import Places, fit_mixture
from braindive.simulation.cohorts import smooth_over_graph

GRID = np.linspace(-10.0, 10.0, 401)[:, None]


def places_of(estimates, errors):
    """Places along a line that are known with normal errors."""
    evidence = np.exp(-0.5 * ((GRID - estimates) / errors) ** 2)
    n = len(estimates)
    return Places(GRID, evidence, 0.0, np.arange(n), np.zeros((1, n)))


def drawn(rng, centres, spread, n_each=300):
    return np.concatenate([centre + spread * rng.normal(size=n_each) for centre in centres])


@pytest.mark.parametrize("common", [True, False])
def test_mixtures_are_those_of_scikit_learn_where_errors_are_small(rng, common):
    estimates = drawn(rng, (-4.0, 0.0, 5.0), 1.0)
    found = fit_mixture(places_of(estimates, 0.05), 3, common)
    kind = "tied" if common else "full"
    theirs = GaussianMixture(3, covariance_type=kind, tol=1e-7, max_iter=500, random_state=0)
    theirs.fit(estimates[:, None])
    ours = np.sort(found.means.ravel())
    np.testing.assert_allclose(ours, np.sort(theirs.means_.ravel()), atol=0.03)
    # The evidence of a vertex is not divided by the constant of its normal density.
    ours = found.log_likelihood / len(estimates) - np.log(np.sqrt(2 * np.pi) * 0.05)
    # Outliers, of which there are none, cost next to nothing.
    assert ours == pytest.approx(theirs.score(estimates[:, None]), abs=2e-3)


def test_errors_of_places_are_no_spread_of_a_group(rng):
    errors = np.sqrt(rng.uniform(0.5, 2.0, 2000))
    estimates = 0.5 * rng.normal(size=2000) + errors * rng.normal(size=2000)
    found = fit_mixture(places_of(estimates, errors), 1, True)
    assert np.sqrt(found.covariances[0, 0, 0]) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("gap", "distinct"), [(6.0, 2), (1.0, 1)])
def test_groups_need_a_peak_of_their_own(rng, gap, distinct):
    places = places_of(drawn(rng, (0.0, gap), 1.0), 0.05)
    assert fit_mixture(places, 2, True).n_distinct() == distinct


def test_groups_that_vary_alike_cost_least(rng):
    narrow, wide = rng.normal(-5, 0.3, 300), rng.normal(4, 1.5, 300)
    places = places_of(np.concatenate([narrow, wide]), 0.05)
    assert fit_mixture(places, 2, True).unlikeness == pytest.approx(0, abs=1e-9)
    ratio = np.var(wide) / np.var(narrow)
    expected = 0.5 * np.log(ratio) ** 2 / np.log(2) ** 2
    # A few of the wide group count as outliers.
    assert fit_mixture(places, 2, False).unlikeness == pytest.approx(expected, rel=0.1)


def test_even_groups_have_the_same_share_and_fewer_parameters(rng):
    estimates = np.concatenate([drawn(rng, (-4.0,), 1.0, 600), drawn(rng, (0.0, 5.0), 1.0, 150)])
    places = places_of(estimates, 0.05)
    even, free = (fit_mixture(places, 3, True, each) for each in (True, False))
    np.testing.assert_allclose(even.shares, 1 / 3)
    np.testing.assert_allclose(np.sort(free.shares), [1 / 6, 1 / 6, 2 / 3], atol=0.02)
    # Three means, a variance and the outliers; and two of the shares.
    assert (even.n_parameters, free.n_parameters) == (5, 7)
    # Shares that are not the same are not taken for it: that many vertices tell.
    assert free.log_likelihood > even.log_likelihood + 20


@pytest.mark.parametrize(("centres", "n_groups"), [((0.0,), 1), ((-5.4, -2.7, 0.0, 2.7, 5.4), 5)])
def test_even_groups_that_overlap_are_counted(rng, centres, n_groups):
    """2.7 standard deviations apart: shares of their own would cost too much."""
    when = places_of(drawn(rng, centres, 1.0, 500 // len(centres)), 0.3)
    # On a coarser grid, and the same for both changes, of which nothing is known.
    grid, evidence = GRID[::8, 0], np.repeat(when.evidence[::8], 2, axis=0)
    points = np.column_stack([np.repeat(grid, 2), np.tile([-1.0, 1.0], len(grid))])
    places = Places(points, evidence, 0.0, when.vertices, when.residuals)
    found = compare_mixtures(places, 6, None)
    best = max(number for number in found if number == 1 or found[number].are_believed(number))
    assert found[best].distinct == n_groups


@pytest.fixture(scope="module")
def sigmoids():
    """Binned measurements of 60 vertices: midpoints of -1 and 1, half of them change twice."""
    rng = np.random.default_rng(0)
    scores = np.linspace(-2.5, 2.5, 16)
    midpoints, changes = np.repeat([-1.0, 1.0], 30), np.tile([-1.0, -2.0], 30)
    means = changes / (1 + np.exp(-4 * (scores[:, None] - midpoints)))
    noise = 0.1
    means += noise * rng.normal(size=means.shape)
    return Binned(scores, means, np.full(means.shape, noise**-2)), midpoints, changes


@pytest.fixture(scope="module")
def population(sigmoids):
    return Population.learn(sigmoids[0], -2.0, 2.0)


def test_evidence_is_the_density_with_steepness_and_baseline_integrated_out(sigmoids, population):
    binned = sigmoids[0].of(np.arange(3))
    found = log_evidence(population, binned)
    change, baseline = population.mean
    covariance = population.covariance
    shapes = population.shapes(binned.scores).reshape(len(population.midpoints), -1, 16)
    middle = len(population.changes) // 2
    variance = covariance[1, 1] - covariance[0, 1] ** 2 / covariance[0, 0]
    total = np.diag(1 / binned.precisions[:, 0]) + variance
    for m in (20, 40):
        for vertex in range(3):
            densities = [
                multivariate_normal(baseline + change * shape, total).pdf(binned.means[:, vertex])
                for shape in shapes[m]
            ]
            expected = np.log(population.steepnesses @ densities)
            constant = 0.5 * np.sum(np.log(2 * np.pi / binned.precisions[:, vertex]))
            assert found[m, middle, vertex] == pytest.approx(expected + constant, rel=1e-3)


def test_evidence_is_greatest_at_the_truth(sigmoids, population):
    binned, midpoints, changes = sigmoids
    evidence = log_evidence(population, binned)
    best = evidence.reshape(-1, evidence.shape[-1]).argmax(axis=0)
    when, much = np.unravel_index(best, evidence.shape[:2])
    np.testing.assert_allclose(population.midpoints[when], midpoints, atol=0.3)
    np.testing.assert_allclose(population.changes[much], changes, atol=0.3)


def test_groups_may_differ_in_their_changes_alone(sigmoids, population):
    """Two midpoints and two changes are four groups; midpoints alone would tell two."""
    binned, *_ = sigmoids
    evidence = log_evidence(population, binned.known_less(population.coarseness(binned)))
    places = Places.of(population, evidence, np.arange(60), np.zeros((16, 60)))
    found = compare_mixtures(places, 5, None)
    best = max(number for number in found if number == 1 or found[number].are_believed(number))
    assert found[best].distinct == 4
    when = places.along_first(population.mean[0], population.covariance[0, 0])
    assert fit_mixture(when, 4, True).n_distinct() == 2


def test_a_ring_on_a_border_lies_on_one_side_and_not_between(sigmoids, population):
    binned, *_ = sigmoids
    # Vertices that change by as much: rings of five with one midpoint, and one with both.
    inside = np.tile(np.kron(np.eye(6), np.ones((1, 5))), (8, 1))
    border = np.zeros((1, 30))
    border[0, 12:18] = 1
    rings = csr_array(np.vstack([inside, border]))
    found = evidence_of_rings(population, binned.of(np.arange(0, 60, 2)), rings).max(axis=1)[:, -1]
    at = [int(np.abs(population.midpoints - x).argmin()) for x in (-1.0, 0.0, 1.0)]
    assert found[at[1]] < min(found[at[0]], found[at[2]])


def test_noise_in_common_is_the_correlation_of_neighbours(rng):
    rings = csr_array(np.kron(np.eye(50), np.ones((1, 6))))
    shared = np.repeat(rng.normal(size=(16, 50)), 6, axis=1)
    residuals = np.sqrt(0.7) * shared + np.sqrt(0.3) * rng.normal(size=(16, 300))
    assert noise_in_common(residuals, rings) == pytest.approx(0.7, abs=0.05)
    assert noise_in_common(rng.normal(size=(16, 300)), rings) == pytest.approx(0, abs=0.05)


def test_rings_reach_two_steps(mesh_graph):
    near = neighbourhoods(csr_array(mesh_graph))
    steps = csr_array(mesh_graph).toarray() != 0
    within = np.eye(9, dtype=bool) | steps | (steps.astype(int) @ steps > 0)
    np.testing.assert_array_equal(near.toarray() > 0, within)
    wanted = np.arange(0, 9, 2)
    rings = rings_of(near, np.array([0, 4]), wanted).toarray()
    np.testing.assert_array_equal(rings, within[[0, 4]][:, wanted])


def test_neighbours_that_are_alike_count_once(rng):
    graph = bd.load_space("fsaverage5-left").graph()
    chosen = np.arange(0, graph.shape[0], 5)
    rough = rng.normal(size=graph.shape[0])
    smooth = smooth_over_graph(rough[:, None], graph, 20)[:, 0]
    assert effective_number(rough[chosen], chosen, graph) == len(chosen)
    assert effective_number(smooth[chosen], chosen, graph) < 0.1 * graph.shape[0]
    twice = np.stack([smooth, smooth])[:, chosen]
    one = effective_number(smooth[chosen], chosen, graph)
    assert effective_number(twice, chosen, graph) == pytest.approx(one)


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
    best = max(number for number in found if number == 1 or found[number].are_believed(number))
    assert found[best].distinct == n_true
