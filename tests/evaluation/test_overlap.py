"""Dice overlap against a naive count."""

import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.evaluation.overlap import overlap_table, parcellation_agreement


def naive_dice(a, b):
    a, b = set(np.flatnonzero(a)), set(np.flatnonzero(b))
    return 2 * len(a & b) / (len(a) + len(b))


def test_dice_is_that_of_matched_clusters(rng):
    first = rng.integers(3, size=90)
    second = (first + 1) % 3
    flipped = rng.random(90) < 0.2
    second[flipped] = rng.integers(3, size=flipped.sum())
    expected = [naive_dice(first == k, second == (k + 1) % 3) for k in range(3)]
    np.testing.assert_allclose(bd.cluster_overlap(first, second), expected)


def test_a_cluster_without_a_partner_has_no_overlap():
    assert bd.cluster_overlap([0, 0, 1, 1, 2], [0, 0, 1, 1, 1])[2] == 0


def test_unrelated_parcellations_have_an_adjusted_rand_index_of_about_zero(rng):
    first, second = rng.integers(3, size=(2, 5000))
    assert abs(parcellation_agreement(first, second)[0]) < 0.01


def test_the_table_does_not_depend_on_how_clusters_are_numbered(rng):
    labels = [rng.integers(3, size=60) for _ in range(3)]
    labels = [np.where(rng.random(60) < 0.8, labels[0], other) for other in labels]
    renamed = [labels[0], (labels[1] + 1) % 3, (labels[2] + 2) % 3]
    np.testing.assert_allclose(overlap_table(renamed), overlap_table(labels))


def test_the_same_parcellation_overlaps_completely():
    table = overlap_table([np.array([0, 0, 1, 2])] * 3)
    np.testing.assert_array_equal(table["dice"], 1.0)
    assert table.index.tolist() == [1, 2, 3]


def test_clear_clusters_overlap_across_folds(simulation):
    model = bd.DIVE(3, n_init=1, tol=1e-2, people="alike", random_state=0)
    table = bd.fold_overlap(simulation.cohort, model, n_folds=2, random_state=0)
    assert (table["dice"] > 0.8).all()


def test_one_parcellation_is_refused():
    with pytest.raises(bd.ParameterError, match="two parcellations"):
        overlap_table([np.array([0, 1])])


def test_the_number_of_workers_does_not_change_the_overlap(simulation):
    model = bd.DIVE(2, n_init=1, tol=1e-2, people="alike", random_state=0)
    one = bd.fold_overlap(simulation.cohort, model, n_folds=3, n_jobs=1, random_state=0)
    two = bd.fold_overlap(simulation.cohort, model, n_folds=3, n_jobs=2, random_state=0)
    pd.testing.assert_frame_equal(one, two, check_exact=True)
