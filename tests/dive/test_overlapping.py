"""Clusters that overlap: curves are drawn together, and labels follow them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

import braindive as bd
from braindive.dive.overlapping import draw_together, share_in_order

GRID = np.linspace(-8.0, 8.0, 161)
SPACING = 0.07 * 53
PAPER = (2.5 - SPACING, 2.5, 2.5 + SPACING)


def evidence_of(midpoints, error):
    return np.exp(-0.5 * ((GRID[:, None] - midpoints) / error) ** 2)


def midpoints_around(rng, centres, n_each=4000):
    return np.concatenate([centre + rng.normal(size=n_each) for centre in centres])


@pytest.mark.parametrize(("spacing", "error"), [(1.2, 0.1), (1.6, 0.4), (4.0, 0.4)])
def test_groups_lie_where_their_vertices_do_and_not_where_slices_of_them_do(rng, spacing, error):
    true = spacing * np.array([-1.0, 0.0, 1.0])
    midpoints = midpoints_around(rng, true)
    observed = midpoints + error * rng.normal(size=len(midpoints))
    slices = KMeans(3, n_init=3, random_state=0).fit(observed[:, None]).cluster_centers_
    slices = np.sort(slices.ravel())
    found = draw_together(GRID, evidence_of(observed, error), slices, observed.std())
    distance = np.diff(slices).mean()
    np.testing.assert_allclose(found.means, true, atol=0.15)
    assert found.width == pytest.approx(1.0, rel=0.1)
    # Slices lie further apart than groups that overlap, and as far as others.
    assert (distance > 1.15 * spacing) == (spacing < 2)


def test_members_are_those_of_bayes_rule(rng):
    midpoints = midpoints_around(rng, (-1.0, 1.0), 30)
    found = draw_together(GRID, evidence_of(midpoints, 0.3), np.array([-1.3, 1.3]), 1.5)
    expected = np.empty((len(midpoints), 2))
    for vertex, midpoint in enumerate(midpoints):
        for group in range(2):
            given = np.exp(-0.5 * ((GRID - midpoint) / 0.3) ** 2)
            expected[vertex, group] = sum(given * found.densities[:, group])
        expected[vertex] /= expected[vertex].sum()
    np.testing.assert_allclose(found.members(evidence_of(midpoints, 0.3)), expected)


def test_clusters_that_midpoints_do_not_tell_apart_are_not_in_order(rng):
    midpoints = rng.normal(size=900)
    labels = np.digitize(midpoints, [-0.4, 0.4])
    assert share_in_order(midpoints, labels) == 1.0
    assert share_in_order(midpoints, rng.permutation(labels)) < 0.45


def cohort_of(midpoints=PAPER, **settings):
    return bd.simulate_cohort(100, n_vertices=600, midpoints=midpoints, random_state=1, **settings)


def fitted(simulation, vertices):
    model = bd.DIVE(3, vertices=vertices, n_init=1, personal=False, random_state=0)
    return model.fit(simulation.cohort)


def expected_agreement(model, simulation):
    """Mean probability of the true cluster, whichever of the likely ones it happens to be."""
    midpoints, centres = simulation.truth.vertices.midpoint, simulation.truth.trajectories.midpoint
    likely = np.exp(-0.5 * (midpoints[:, None] - centres) ** 2 / 11.6)
    likely /= likely.sum(axis=1, keepdims=True)
    return float(np.sum(likely * model.responsibilities_) / len(midpoints))


def test_labels_are_better_where_clusters_overlap():
    simulation = cohort_of()
    published, ours = fitted(simulation, "alike"), fitted(simulation, "auto")
    gain = expected_agreement(ours, simulation) - expected_agreement(published, simulation)
    assert gain > 0.003
    # Curves are those of the vertices with these labels: nearer, too.
    scores = (np.polyfit(each.scores_, simulation.truth.scores, 1) for each in (published, ours))
    apart = [
        scale * np.ptp(each.trajectories_.midpoint)
        for (scale, _), each in zip(scores, (published, ours), strict=True)
    ]
    assert apart[1] < 0.95 * apart[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"midpoints": (-15.0, 2.5, 20.0)},
        {"midpoint_variation": 0.0, "steepness_variation": 0.0},
    ],
    ids=["apart", "alike"],
)
def test_labels_are_the_published_ones_where_clusters_do_not_overlap(settings):
    simulation = cohort_of(**settings)
    published, ours = fitted(simulation, "alike"), fitted(simulation, "auto")
    np.testing.assert_array_equal(ours.responsibilities_, published.responsibilities_)
