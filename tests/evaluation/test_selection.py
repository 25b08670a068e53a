"""Choice of the number of clusters."""

import re

import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.evaluation.selection import (
    recommend_n_clusters,
)

# Fits that end soon; one test chooses among those of the default.
SOON = {"n_init": 1, "tol": 1e-2, "people": "alike", "random_state": 0}


@pytest.fixture(scope="module")
def table(clear_cohort):
    model = bd.DIVE(**SOON)
    return bd.select_n_clusters(
        clear_cohort, [2, 4], model=model, n_splits=2, n_resamples=2, random_state=0
    )


def test_clusters_that_are_clear_are_found(table):
    assert recommend_n_clusters(table).n_clusters == 2
    assert table.loc[2, "rand"] > 0.95
    assert table.loc[4, "rand"] < table.loc[2, "rand"]


def test_criteria_are_those_of_a_fit_of_everybody(table, clear_cohort):
    model = bd.DIVE(2, **SOON).fit(clear_cohort)
    assert table.loc[2, "aic"] == model.aic_
    assert table.loc[2, "bic"] == model.bic_


def test_one_cluster_is_not_called_stable_for_agreeing_with_itself(clear_cohort):
    model = bd.DIVE(n_init=1, tol=1e-2, random_state=0)
    table = bd.select_n_clusters(
        clear_cohort, [1, 2], model=model, n_splits=0, n_resamples=1, random_state=0
    )
    assert np.isnan(table.loc[1, "rand"])
    assert recommend_n_clusters(table).n_clusters == 2


def test_one_cluster_is_recommended_where_more_add_nothing(rng):
    cohort = bd.simulate_cohort(
        n_subjects=40,
        n_vertices=60,
        midpoints=(0.0,),
        midpoint_variation=0.0,
        steepness_variation=0.0,
        noise=0.5,
        control_share=0.3,
        random_state=0,
    ).cohort
    model = bd.DIVE(**SOON)
    table = bd.select_n_clusters(
        cohort, [1, 2, 3], model=model, n_splits=0, n_resamples=1, random_state=0
    )
    assert recommend_n_clusters(table).n_clusters == 1
    assert "no areas to tell apart" in recommend_n_clusters(table).reason


def test_the_number_of_workers_does_not_change_the_table(clear_cohort, table):
    model = bd.DIVE(**SOON)
    again = bd.select_n_clusters(
        clear_cohort, [2, 4], model=model, n_splits=2, n_resamples=2, n_jobs=2, random_state=0
    )
    pd.testing.assert_frame_equal(again, table, check_exact=True)


def groups(gains, distinct, **more):
    return pd.DataFrame({"groups_gain": gains, "groups": distinct, **more}, index=[2, 3, 4])


def test_the_largest_number_of_groups_that_gains_is_recommended():
    found = recommend_n_clusters(groups([50.0, 7.0, -3.0], [2, 3, 4]))
    assert found == (3, "The vertices' own curves form 3 groups.")


@pytest.mark.parametrize(("gain", "number"), [(8.0, 2), (12.0, 3)])
def test_groups_that_cannot_be_told_apart_count_once_and_need_more_evidence(gain, number):
    assert recommend_n_clusters(groups([50.0, -1.0, gain], [2, 2, 3])).n_clusters == number


def test_one_group_is_no_area():
    found = recommend_n_clusters(groups([-4.0, -9.0, 1.0], [2, 3, 4]))
    assert found.n_clusters == 1
    assert "no areas" in found.reason


def test_groups_that_do_not_come_back_in_other_people_are_none():
    table = groups([50.0, 30.0, 20.0], [2, 3, 4], rand=[0.05, 0.1, 0.02], rand_se=0.01)
    found = recommend_n_clusters(table)
    assert found.n_clusters == 1
    assert "adjusted Rand at most 0.10" in found.reason


def test_the_reason_tells_of_stability_and_of_the_end_of_the_range():
    table = groups([50.0, 30.0, 20.0], [2, 3, 4], rand=[0.9, 0.8, 0.4], rand_se=0.01)
    found = recommend_n_clusters(table)
    assert found.n_clusters == 4
    assert "adjusted Rand of 0.40, which is little" in found.reason
    assert "try more" in found.reason


def test_without_stability_unseen_subjects_decide():
    table = pd.DataFrame(
        {"held_out": [-1.5, -1.401, -1.4], "held_out_gap_se": [0.01, 0.002, 0.0]}, index=[2, 3, 4]
    )
    chosen = recommend_n_clusters(table)
    assert chosen.n_clusters == 3
    assert "of the best, 4" in chosen.reason


def test_progress_counts_every_fit(clear_cohort):
    seen = []
    bd.select_n_clusters(
        clear_cohort,
        [2],
        model=bd.DIVE(**SOON),
        n_splits=2,
        n_resamples=0,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("candidates", "message"),
    [([], "empty"), ([0, 2], "at least 1"), ([2, 100], "more than the 60 vertices")],
)
def test_impossible_candidates_are_refused(clear_cohort, candidates, message):
    with pytest.raises(bd.ParameterError, match=message):
        bd.select_n_clusters(clear_cohort, candidates)


def test_warnings_of_many_fits_are_told_once_with_the_numbers_of_clusters(recwarn):
    """Not those of scores and speeds, which the choice does not show."""
    two = bd.simulate_cohort(
        n_subjects=40, n_visits=1, n_vertices=2, midpoints=(-10, 10), noise=0.05, random_state=0
    ).cohort
    # Two kinds of vertices: a third cluster stays empty.
    repeated = np.repeat(two.values, 6, axis=1)
    cohort = bd.Cohort(repeated, subjects=two.subjects, times=two.times)
    with pytest.warns(bd.StagingWarning, match="every subject has one visit"):
        bd.DIVE(2, **SOON).fit(cohort)
    recwarn.clear()
    bd.select_n_clusters(
        cohort, [2, 3, 4], model=bd.DIVE(**SOON), n_splits=2, n_resamples=1, random_state=0
    )
    (warning,) = recwarn
    # Which copy of a vertex goes where is decided by rounding, so that a fit of many may leave a
    # cluster more or less empty; none of the five with two clusters does.
    told = re.fullmatch(
        r"in (\d+) of 15 fits \(3 clusters, 4 clusters\): empty clusters: 1 to 2 of 3 to 4; use "
        r"fewer clusters\.",
        str(warning.message),
    )
    assert 2 <= int(told[1]) <= 10


def test_fixed_assignments_are_refused(clear_cohort):
    model = bd.roi_model(np.zeros(60, dtype=int))
    with pytest.raises(bd.ParameterError, match="fixed assignments"):
        bd.select_n_clusters(clear_cohort, [2], model=model)


@pytest.mark.parametrize(("p_value", "number"), [(0.4, None), (0.01, 3), (np.nan, 3)])
def test_none_is_recommended_where_no_progression_was_found(p_value, number):
    """And a number where that could not be judged."""
    table = pd.DataFrame({"bic": [3.0, 1.0], "progression_p": p_value}, index=[2, 3])
    found = recommend_n_clusters(table)
    assert found.n_clusters == number
    assert found.reason.startswith("None: no progression was found") == (number is None)


@pytest.mark.parametrize(("gain", "told"), [(30.0, "the vertices' own curves form 3"), (0.0, None)])
def test_what_the_number_would_be_is_said_where_no_progression_was_found(gain, told):
    """But not where there is nothing to tell apart."""
    columns = {"groups_gain": [40.0 * (gain > 0), gain], "groups": [2, 3], "progression_p": 0.4}
    found = recommend_n_clusters(pd.DataFrame(columns, index=[2, 3]))
    assert found.n_clusters is None
    assert (f"If there is one all the same: {told}" in found.reason) == (told is not None)
    assert ("all the same" in found.reason) == (told is not None)


@pytest.mark.parametrize(("rand", "number"), [(0.95, 3), (0.3, None)])
def test_areas_that_other_people_show_too_need_no_progression(rand, number):
    """Noise makes no areas that are found again, and is no disease."""
    columns = {"groups_gain": [40.0, 30.0], "groups": [2, 3], "rand": rand, "progression_p": 0.4}
    found = recommend_n_clusters(pd.DataFrame(columns, index=[2, 3]))
    assert found.n_clusters == number
    assert "no progression was found" in found.reason
