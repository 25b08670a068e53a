"""Agreement of clusters with the truth, against all permutations."""

import itertools

import numpy as np
import pytest

import braindive as bd


def test_agreement_is_the_best_over_all_permutations(rng):
    labels = rng.integers(4, size=50)
    found = rng.dirichlet(np.ones(4), 50)
    expected = max(
        np.mean([found[vertex, order[label]] for vertex, label in enumerate(labels)])
        for order in itertools.permutations(range(4))
    )
    matching = bd.match_clusters(found, labels)
    assert matching.agreement == pytest.approx(expected)
    reached = found[np.arange(50), matching.permutation[labels]].mean()
    assert reached == pytest.approx(expected)


def test_renamed_labels_agree_completely():
    matching = bd.match_clusters(np.array([2, 2, 0, 1]), [0, 0, 1, 2])
    assert matching.agreement == 1.0
    np.testing.assert_array_equal(matching.permutation, [2, 0, 1])


def test_a_model_is_matched_by_its_responsibilities(model, simulation):
    labels = simulation.truth.labels
    by_model = bd.match_clusters(model, labels)
    by_array = bd.match_clusters(model.responsibilities_, labels)
    assert by_model.agreement == by_array.agreement


def test_true_clusters_that_nothing_matches_count_as_missed():
    matching = bd.match_clusters(np.ones((4, 1)), [0, 0, 0, 1])
    assert matching.agreement == 0.75
    np.testing.assert_array_equal(matching.permutation, [0, -1])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], "cover 3 vertices, but there are 2 labels"),
        ([0.5, 1.0, 2.0], "whole numbers from 0"),
        ([-1, 0, 1], "whole numbers from 0"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(bd.ParameterError, match=message):
        bd.match_clusters(np.ones((3, 2)) / 2, labels)
