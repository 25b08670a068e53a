"""Two cohorts: tests against closed forms and draws, areas against chance, and sentences."""

import numpy as np
import pytest
from scipy import stats

import braindive as bd
from braindive.evaluation.curve_differences import (
    Known,
    midpoint_test,
    order_agreement,
    order_test,
    steepness_test,
)
from braindive.evaluation.spatial_null import moved_by_chance, null_kind
from braindive.space.surface import Hemisphere


def known(values, sd=0.5, rng=None):
    """Midpoints around their mean, known to a standard deviation."""
    values = np.asarray(values, dtype=float)
    if rng is not None:
        values = values + sd * rng.standard_normal(len(values))
    centring = np.eye(len(values)) - 1 / len(values)
    return Known(values - values.mean(), sd**2 * centring)


@pytest.mark.parametrize(("test", "freedom"), [(midpoint_test, 3), (order_test, 2)])
def test_p_values_of_equal_cohorts_are_uniform(test, freedom, rng):
    truth = [-6.0, 0.0, 3.0, 9.0]
    found = [test(known(truth, rng=rng), known(truth, rng=rng)) for _ in range(400)]
    assert found[0]["df"] == freedom
    assert stats.kstest([each["p_value"] for each in found], "uniform").pvalue > 0.001


def test_a_slower_course_has_other_midpoints_but_the_same_order():
    a, b = known([-6.0, 0.0, 9.0]), known([-12.0, 0.0, 18.0])
    assert midpoint_test(a, b)["p_value"] < 1e-6
    assert order_test(a, b)["p_value"] > 0.99
    assert order_test(a, known([-6.0, 9.0, 0.0]))["p_value"] < 1e-6


def test_two_areas_are_compared_by_their_distance():
    a, b = known([-3.0, 3.0]), known([-4.0, 4.0])
    # The distances, 6 and 8, have the variance 2 * 0.25 each.
    assert order_test(a, b)["statistic"] == pytest.approx((8 - 6) ** 2 / (2 * 2 * 0.25))


def test_steepness_is_compared_area_by_area():
    a, b = (Known(np.log(x), 0.01 * np.eye(2)) for x in ([1.0, 2.0], [1.1, 2.0]))
    assert steepness_test(a, b)["statistic"] == pytest.approx(np.log(1.1) ** 2 / 0.02)


def test_orders_agree_as_far_as_midpoints_are_known(rng):
    sure = order_agreement(known([-6, 0, 9], 0.1), known([-5, 1, 8], 0.1), rng)
    assert (sure["tau"], sure["low"], sure["same_order"]) == (1.0, 1.0, 1.0)
    vague = order_agreement(known([-6, 0, 9], 8.0), known([-5, 1, 8], 8.0), rng)
    assert vague["tau"] == 1.0
    assert vague["low"] < 0
    assert 0.1 < vague["same_order"] < 0.6


def sphere():
    points = np.array(
        [
            [np.cos(t) * s, np.sin(t) * s, z]
            for z in np.linspace(-0.95, 0.95, 12)
            for s in [np.sqrt(1 - z * z)]
            for t in np.linspace(0, 2 * np.pi, 16, endpoint=False)
        ]
    )
    from scipy.spatial import ConvexHull

    return bd.Surface("ball", (Hemisphere("left", points, ConvexHull(points).simplices),))


def test_spins_keep_clusters_about_as_large_and_as_smooth(rng):
    space = sphere()
    labels = (space.hemispheres[0].coordinates[:, 2] > 0.3).astype(int)
    graph = space.graph()
    rows, columns = graph.nonzero()
    inside = np.mean(labels[rows] == labels[columns])
    spun = list(moved_by_chance(labels, space, graph, 40, rng))
    assert null_kind(space, graph) == "spins"
    assert np.mean([each.mean() for each in spun]) == pytest.approx(labels.mean(), abs=0.05)
    assert np.mean([np.mean(each[rows] == each[columns]) for each in spun]) > inside - 0.05
    # They end up everywhere.
    assert np.ptp(np.mean(spun, axis=0)) < 0.7


def test_without_a_sphere_maps_are_as_smooth_and_sizes_the_same(rng):
    space = sphere()
    labels = (space.hemispheres[0].coordinates[:, 2] > 0.3).astype(int)
    graph = space.graph()
    rows, columns = graph.nonzero()
    drawn = list(moved_by_chance(labels, None, graph, 20, rng))
    assert null_kind(None, graph) == "smooth maps"
    assert all(each.sum() == labels.sum() for each in drawn)
    agree = np.mean([np.mean(each[rows] == each[columns]) for each in drawn])
    assert agree == pytest.approx(np.mean(labels[rows] == labels[columns]), abs=0.06)
    shuffled = next(iter(moved_by_chance(labels, None, None, 1, rng)))
    assert null_kind(None, None) == "shuffled vertices"
    assert shuffled.sum() == labels.sum()


LABELS = np.repeat([0, 1, 2], 20)


def course(order, seed, n_subjects=60):
    return bd.simulate_cohort(
        n_subjects,
        n_vertices=60,
        noise=0.4,
        midpoints=(-8, 0, 8),
        midpoint_variation=0.5,
        labels=np.array(order)[LABELS],
        random_state=seed,
    ).cohort


@pytest.fixture(scope="module")
def compared():
    """Two cohorts whose second and third area change places; their areas are found."""
    model = bd.DIVE(3, n_init=1, personal=False, random_state=0)
    cohorts = course([0, 1, 2], 0), course([0, 2, 1], 1)
    return bd.compare_cohorts(*cohorts, model, n_permutations=49, random_state=0)


def test_another_order_is_found_and_said(compared):
    assert compared.tests.loc["order", "p_value"] < 0.001
    assert compared.order["tau"] == pytest.approx(1 / 3)
    assert "tau 0.33" in str(compared)
    first, second, third = compared.areas["midpoint_difference"]
    assert abs(first) < 2 < second
    assert third < -2


def test_areas_are_shared_although_their_curves_are_not(compared):
    labels = compared.models["a"].labels_
    order = np.argsort(compared.models["a"].cluster_names_)
    assert bd.match_clusters(order[labels], LABELS).agreement > 0.95
    assert compared.overlap.loc["all", "dice"] > 0.9
    assert compared.overlap.loc["all", "p_value"] == 1 / 50
    assert compared.overlap.attrs["by"] == "shuffled vertices"


def test_stages_are_those_that_both_fits_give(compared):
    own, other = compared.models["own_a"], compared.models["own_b"]
    cohort = course([0, 1, 2], 0)
    expected = np.corrcoef(own.stage(cohort)["score"], other.stage(cohort)["score"])[0, 1]
    row = compared.replication.iloc[0]
    assert (row["cohort"], row["parameter"]) == ("a", "score")
    assert row["pearson"] == pytest.approx(expected)
    assert row["low"] < row["pearson"] < row["high"]


def test_the_figure_shows_both_cohorts_and_their_differences(compared):
    both, apart = bd.plot_cohorts(compared).axes
    assert [label.get_text() for label in both.get_yticklabels()] == ["area 1", "area 2", "area 3"]
    drawn = [line.get_xdata()[0] for line in apart.lines[2::2]]
    np.testing.assert_allclose(drawn, compared.areas["midpoint_difference"])


def test_given_areas_are_compared_and_an_equal_course_is_not_told_apart():
    model = bd.DIVE(3, n_init=1, personal=False, random_state=0)
    names = np.array(["x", "y", "z"])[LABELS]
    cohorts = course([0, 1, 2], 0), course([0, 1, 2], 1)
    found = bd.compare_cohorts(*cohorts, model, areas=names, n_permutations=9, random_state=0)
    assert list(found.areas.index) == ["x", "y", "z"]
    assert found.tests.loc["order", "p_value"] > 0.01
    assert found.order["tau"] == 1.0


def test_cohorts_that_cannot_be_compared_are_refused():
    a = course([0, 1, 2], 0, 10)
    b = bd.simulate_cohort(10, n_vertices=50, random_state=0).cohort
    with pytest.raises(bd.CohortError, match="60 and 50 vertices"):
        bd.compare_cohorts(a, b)
    with pytest.raises(bd.ParameterError, match='people="differ"'):
        bd.compare_cohorts(a, a, bd.DIVE(people="alike"))
    with pytest.raises(bd.ParameterError, match="model must be a DIVE"):
        bd.compare_cohorts(a, a, "sigmoid")
