"""The Markov random field against double loops."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax

import braindive as bd
from braindive.dive.field import (
    STRONGEST,
    WEAKEST,
    _log_posterior,
    bearable_strength,
    estimate_strength,
    expectation,
    log_evidence,
    neighbour_field,
    settle_anew,
    settling_strength,
    start_strength,
    strength_objective,
)
from braindive.space.smoothing import smooth_over_graph


@pytest.fixture
def z(rng):
    """Responsibilities of nine vertices, some of them exactly 0 and 1."""
    responsibilities = rng.dirichlet(np.ones(3), 9)
    responsibilities[2] = [1, 0, 0]
    responsibilities[7] = [0, 0.5, 0.5]
    return responsibilities


def neighbours(graph, vertex):
    return graph.toarray()[vertex].nonzero()[0]


def naive_field(z, graph, strength):
    field = np.zeros_like(z)
    same, different = math.exp(strength), math.exp(-(strength**2))
    for vertex in range(len(z)):
        for other in neighbours(graph, vertex):
            for k in range(z.shape[1]):
                field[vertex, k] += math.log(different + z[other, k] * (same - different))
    return field


@pytest.mark.parametrize("strength", [0.01, 0.5, 1.0, 3.0, 10.0, 25.0])
def test_neighbour_field_is_the_double_loop(z, mesh_graph, strength):
    found = neighbour_field(z, mesh_graph, strength)
    np.testing.assert_allclose(found, naive_field(z, mesh_graph, strength), rtol=1e-9, atol=1e-12)


def test_neighbour_field_is_finite_where_the_plain_formula_underflows(z, mesh_graph):
    field = neighbour_field(z, mesh_graph, 60.0)
    assert np.isfinite(field).all()
    lonely = neighbour_field(np.tile([1.0, 0.0], (9, 1)), mesh_graph, 60.0)
    n_neighbours = np.diff(mesh_graph.indptr)
    np.testing.assert_allclose(lonely, np.outer(n_neighbours, [60.0, -3600.0]))


def test_expectation_is_the_softmax_of_densities_and_field(rng):
    density, field = 10 * rng.normal(size=(9, 3)), rng.normal(size=(9, 3))
    np.testing.assert_allclose(expectation(density), softmax(density, axis=1), rtol=1e-12)
    np.testing.assert_allclose(
        expectation(density, field), softmax(density + field, axis=1), rtol=1e-12
    )


def test_expectation_survives_very_unlikely_vertices():
    z = expectation(np.array([[-1e8, -1e8 - 1.0], [-5e5, -9e5]]))
    np.testing.assert_allclose(z.sum(axis=1), 1.0)
    np.testing.assert_allclose(z[0], softmax([0.0, -1.0]), rtol=1e-6)


def test_e_step_is_the_published_update(rng, z, mesh_graph):
    density, strength = rng.normal(size=(9, 3)), 0.7
    expected = np.zeros_like(z)
    for vertex in range(9):
        for k in range(3):
            product = math.exp(density[vertex, k])
            for other in neighbours(mesh_graph, vertex):
                product *= math.exp(-(strength**2)) + z[other, k] * (
                    math.exp(strength) - math.exp(-(strength**2))
                )
            expected[vertex, k] = product
        expected[vertex] /= expected[vertex].sum()
    found = expectation(density, neighbour_field(z, mesh_graph, strength))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("strength", [0.1, 1.0, 10.0])
def test_strength_objective_is_the_published_sum_with_normalised_zeta(rng, z, mesh_graph, strength):
    density = 5 * rng.normal(size=(9, 3))
    zeta = softmax(density + naive_field(z, mesh_graph, strength), axis=1)
    expected = 0.0
    for vertex in range(9):
        for k in range(3):
            inside = density[vertex, k]
            for other in neighbours(mesh_graph, vertex):
                inside += strength * zeta[other, k] - strength**2 * (1 - zeta[other, k])
            expected += zeta[vertex, k] * inside
    found = strength_objective(strength, density, z, mesh_graph)
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.fixture
def patches():
    """Densities and starting responsibilities of a chain of 400 vertices in four patches."""
    random = np.random.default_rng(3)
    labels = np.repeat([0, 1, 0, 1], 100)
    off = np.ones(399)
    graph = sparse.csr_array(sparse.diags([off, off], [-1, 1]))
    density = random.normal(size=(400, 2))
    density[np.arange(400), labels] += 2.0
    return density, expectation(density), graph


def test_repeated_estimates_of_the_strength_end_at_a_maximum(patches):
    density, z, graph = patches
    strength = 1.0
    for _ in range(40):
        strength = estimate_strength(density, z, graph, strength)
    assert WEAKEST < strength < STRONGEST

    def value(x):
        return strength_objective(x, density, z, graph)

    nearby = strength * np.geomspace(0.9, 1.1, 21)
    assert value(strength) >= max(map(value, nearby)) - 1e-3 * abs(value(strength))
    assert value(strength) > value(strength / 2)
    assert value(strength) > value(strength * 2)


def test_an_estimate_is_never_worse_than_the_strength_before(patches):
    density, z, graph = patches
    for start in (0.02, 0.3, 2.0, 15.0):
        found = estimate_strength(density, z, graph, start)
        assert strength_objective(found, density, z, graph) >= strength_objective(
            start, density, z, graph
        )


def test_strength_grows_by_no_more_than_the_given_factor(patches):
    density, z, graph = patches
    assert estimate_strength(density, z, graph, 0.02, growth=1.5) <= 0.03 + 1e-12


@pytest.mark.parametrize("n_clusters", [2, 3, 5])
def test_strength_of_certain_labels_follows_from_their_equal_and_unequal_edges(
    rng, mesh_graph, n_clusters
):
    """With z of 0 and 1 the objective is lambda * same - lambda^2 * different + constant."""
    labels = rng.integers(n_clusters, size=9)
    density = np.where(np.arange(n_clusters) == labels[:, None], 0.0, -1e4)
    first, second = mesh_graph.nonzero()
    same = np.count_nonzero(labels[first] == labels[second])
    different = len(first) - same
    strength = 1.0
    for _ in range(30):
        strength = estimate_strength(density, expectation(density), mesh_graph, strength)
    assert strength == pytest.approx(same / (2 * different), rel=1e-2)


def test_first_strength_does_not_outweigh_the_median_vertex(patches):
    density, z, graph = patches
    strength = start_strength(density, z, graph)
    gap = np.median(np.abs(density[:, 0] - density[:, 1]))
    assert strength > 0
    assert strength + strength**2 <= gap + 1e-9


def test_a_vertex_bears_a_neighbour_that_knows_no_more_than_itself():
    density = np.array([[0.0, -6.0, -9.0], [-6.0, 0.0, -9.0], [-40.0, -2.0, 0.0]])
    strength = bearable_strength(density)
    assert strength + strength**2 == pytest.approx(6.0)
    assert bearable_strength(np.zeros((4, 1))) == WEAKEST


def test_labels_that_a_strong_field_likes_do_not_stay_where_measurements_say_otherwise():
    """Teeth of three vertices on a grid: a straight border through wrong ones is shorter."""
    side = 40
    chain = sparse.diags([np.ones(side - 1)] * 2, [-1, 1])
    eye = sparse.eye(side)
    graph = sparse.csr_array(sparse.kron(chain, eye) + sparse.kron(eye, chain))
    rows, columns = np.divmod(np.arange(side**2), side)
    labels = (columns >= np.where(rows // 3 % 2, 8, 32)).astype(int)
    density = np.where(np.arange(2) == labels[:, None], 0.0, -30.0)
    before = np.eye(2)[(columns >= 20).astype(int)]
    strength = 12.0
    found = settle_anew(density, before, graph, strength)
    assert np.mean(before.argmax(axis=1) == labels) < 0.75
    assert np.mean(found.argmax(axis=1) == labels) > 0.95
    # At its full strength the field has it the other way round.
    kept, changed = (_log_posterior(density, z, graph, strength) for z in (before, found))
    assert kept > changed


def test_labels_settle_with_a_quarter_of_what_a_typical_vertex_knows():
    density = np.array([[0.0, -80.0], [-80.0, 0.0], [-20.0, -100.0]])
    strength = settling_strength(20.0, density)
    assert strength + strength**2 == pytest.approx(80.0 / 4)
    # No stronger than what was estimated, and where hardly anything is known, not as weak as that.
    assert settling_strength(2.0, density) == 2.0
    assert settling_strength(20.0, density / 100) == 1.5
    assert settling_strength(0.7, density / 100) == 0.7


def test_vertices_at_borders_can_contradict_the_field_that_was_estimated(monkeypatch):
    simulation = bd.simulate_cohort(
        20, 4, space="fsaverage5-left", dtype="float32", random_state=900
    )
    labels = simulation.truth.labels

    def share_wrong(spatial):
        model = bd.DIVE(3, spatial=spatial, personal=False, random_state=0).fit(simulation.cohort)
        found = bd.match_clusters(model, labels).permutation
        return np.mean(model.responsibilities_[:, found].argmax(axis=1) != labels), model

    as_it_is, model = share_wrong("auto")
    strength = model.spatial_strength_
    assert strength > 5
    # A strength that was given is meant.
    given, _ = share_wrong(strength)
    assert given > 2 * as_it_is
    full_strength = "braindive.dive.e_step.settling_strength"
    monkeypatch.setattr(full_strength, lambda strength, log_densities: strength)
    full, other = share_wrong("auto")
    assert full > 2 * as_it_is
    # The EM before the marginal fit has the strength that is estimated either way.
    assert other.spatial_strength_ == strength


def test_log_evidence_weighs_clusters_equally_without_a_field(rng):
    density = 3 * rng.normal(size=(9, 3))
    expected = [math.log(sum(math.exp(x) / 3 for x in row)) for row in density]
    np.testing.assert_allclose(log_evidence(density), expected, rtol=1e-12)


def test_log_evidence_weighs_clusters_by_their_share_of_the_field(rng):
    density, field = 3 * rng.normal(size=(2, 9, 3))
    shares = softmax(field, axis=1)
    expected = [
        math.log(sum(p * math.exp(x) for p, x in zip(share, row, strict=True)))
        for share, row in zip(shares, density, strict=True)
    ]
    np.testing.assert_allclose(log_evidence(density, field), expected, rtol=1e-12)


def test_smoothing_averages_each_vertex_with_its_neighbours(rng, mesh_graph):
    features = rng.normal(size=(9, 2))
    expected = features
    for _ in range(2):
        expected = np.stack(
            [expected[[v, *neighbours(mesh_graph, v)]].mean(axis=0) for v in range(9)]
        )
    np.testing.assert_allclose(smooth_over_graph(features, mesh_graph, 2), expected, rtol=1e-12)
