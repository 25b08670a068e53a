"""Fits that begin from clusters they are given: labels, or an earlier model."""

import numpy as np
import pytest
from sklearn.base import clone

import braindive as bd
from braindive.dive.initial import fill_in

SETTINGS = {"people": "alike", "personal": False, "random_state": 0}


@pytest.fixture(scope="module")
def simulation():
    return bd.simulate_cohort(
        n_subjects=60, n_vertices=90, noise=0.5, control_share=0.4, random_state=3
    )


@pytest.fixture(scope="module")
def cohort(simulation):
    return simulation.cohort


@pytest.fixture(scope="module")
def rough(simulation):
    """The true labels, wrong at every fourth vertex."""
    labels = simulation.truth.labels
    return np.where(np.arange(90) % 4, labels, (labels + 1) % 3)


@pytest.fixture(scope="module")
def earlier(cohort, rough):
    return bd.DIVE(start=rough, **SETTINGS).fit(cohort)


def first_curves(model, cohort):
    """Curves of the first pass, which are made from the responsibilities of the start alone."""
    seen = []
    model.fit(cohort, callback=lambda progress: seen.append(progress.state.parameters.trajectories))
    return seen[0].to_array()


@pytest.mark.filterwarnings("ignore::braindive.ConvergenceWarning")
def test_the_first_pass_is_that_of_the_given_labels(cohort, rough):
    once = SETTINGS | {"max_iter": 1}
    begun = first_curves(bd.DIVE(start=rough, **once), cohort)
    np.testing.assert_array_equal(begun, first_curves(bd.roi_model(rough, **once), cohort))
    assert not np.allclose(begun, first_curves(bd.DIVE(**once), cohort))


def test_given_labels_are_refined_and_not_fixed(simulation, earlier, rough):
    true = simulation.truth.labels
    assert np.mean(rough == true) < 0.8
    found = bd.match_clusters(earlier, true).agreement
    assert found > 0.95
    # As good as the fit that begins from k-means.
    assert (
        found > bd.match_clusters(bd.DIVE(**SETTINGS).fit(simulation.cohort), true).agreement - 0.01
    )
    assert earlier.start is rough


def test_the_number_of_clusters_is_that_of_the_labels(cohort, simulation):
    model = bd.DIVE(n_clusters=3, start=simulation.truth.labels // 2, **SETTINGS).fit(cohort)
    assert model.responsibilities_.shape == (90, 2)
    assert model.n_clusters == 3
    assert model.cluster_names_.tolist() == [0, 1]


@pytest.mark.parametrize("names", [["b", "a", "c"], [11.0, 7.0, 90.0]], ids=["names", "numbers"])
def test_what_the_labels_are_called_does_not_matter(cohort, earlier, rough, names):
    model = bd.DIVE(start=np.array(names)[rough].tolist(), **SETTINGS).fit(cohort)
    # Sums over clusters in another order, through all passes; scores range over 50.
    np.testing.assert_allclose(model.scores_, earlier.scores_, atol=1e-4)
    np.testing.assert_array_equal(model.labels_, earlier.labels_)


def test_vertices_of_which_nothing_is_known_begin_in_the_nearest_cluster(rng):
    features = rng.normal(size=(30, 4))
    given = rng.dirichlet(np.ones(3), size=30)
    given[::3] = 0
    filled = fill_in(given, features)
    for vertex in range(30):
        if vertex % 3:
            np.testing.assert_array_equal(filled[vertex], given[vertex])
            continue
        distances = []
        for k in range(3):
            centre = sum(given[i, k] * features[i] for i in range(30)) / given[:, k].sum()
            distances.append(np.sum((features[vertex] - centre) ** 2))
        np.testing.assert_array_equal(filled[vertex], np.arange(3) == np.argmin(distances))


def test_labels_of_a_few_vertices_are_enough(cohort, simulation, earlier):
    few = np.where(np.arange(90) % 5, -1, simulation.truth.labels)
    model = bd.DIVE(start=few, **SETTINGS).fit(cohort)
    np.testing.assert_array_equal(model.labels_, earlier.labels_)


def test_a_fit_from_its_own_result_stays_there(cohort, earlier):
    again = bd.DIVE(start=earlier, **SETTINGS).fit(cohort)
    assert again.n_iter_ < earlier.n_iter_
    np.testing.assert_allclose(again.responsibilities_, earlier.responsibilities_, atol=0.01)
    # The spread of the scores from which a fit sets out scales the prior of the shifts.
    assert np.corrcoef(again.scores_, earlier.scores_)[0, 1] > 0.9999


def test_a_model_whose_regions_leave_vertices_out_fills_them_in(cohort, simulation, earlier):
    regions = np.where(np.arange(90) % 2, simulation.truth.labels, -1)
    atlas = bd.roi_model(regions, **SETTINGS).fit(cohort)
    by_model = bd.DIVE(start=atlas, **SETTINGS).fit(cohort)
    by_labels = bd.DIVE(start=regions, **SETTINGS).fit(cohort)
    np.testing.assert_allclose(by_model.scores_, by_labels.scores_, rtol=1e-6)
    np.testing.assert_array_equal(by_model.labels_, earlier.labels_)


def test_a_copy_for_another_fit_still_starts_from_the_fitted_model(cohort, earlier):
    model = bd.DIVE(start=earlier, **SETTINGS)
    assert clone(model).start is earlier
    assert not hasattr(clone(earlier), "labels_")
    assert clone(model).set_params(start=None).start is None


@pytest.mark.parametrize("spatial", [None, 0.5])
def test_an_interrupted_fit_goes_on_to_the_same_answer(simulation, earlier, spatial):
    cohort = simulation.cohort
    graph = np.eye(90, k=1) + np.eye(90, k=-1)
    cohort = bd.Cohort(
        cohort.values,
        subjects=cohort.subjects,
        times=cohort.times,
        controls=cohort.controls,
        graph=graph,
    )
    few = np.where(np.arange(90) % 5, -1, simulation.truth.labels)
    for start in (few, earlier):
        model = bd.DIVE(start=start, spatial=spatial, tol=1e-8, **SETTINGS)
        kept = []
        whole = clone(model).fit(
            cohort, callback=lambda progress, kept=kept: kept.append(progress.checkpoint)
        )
        assert len(kept) > 2
        resumed = clone(model).fit(cohort, resume=kept[1])
        np.testing.assert_array_equal(resumed.scores_, whole.scores_)
        np.testing.assert_array_equal(resumed.responsibilities_, whole.responsibilities_)


def test_a_saved_model_keeps_the_labels_it_began_from(cohort, earlier, tmp_path):
    holes = cohort.values.copy()
    holes[:, 5] = np.nan
    gap = bd.Cohort(holes, subjects=cohort.subjects, times=cohort.times, controls=cohort.controls)
    with pytest.warns(bd.DataWarning, match="1 vertices have no data"):
        first = bd.DIVE(start=earlier, **SETTINGS).fit(gap)
    second = bd.DIVE(start=first, **SETTINGS).fit(cohort)
    second.save(tmp_path / "fit.dive")
    loaded = bd.load_model(tmp_path / "fit.dive")
    assert loaded.start[5] == -1
    np.testing.assert_array_equal(np.delete(loaded.start, 5), np.delete(first.labels_, 5))
    assert second.start is first
    again = clone(loaded).fit(cohort)
    np.testing.assert_array_equal(again.labels_, second.labels_)


def test_labels_of_vertices_that_the_preprocessing_drops_may_be_left_in(cohort, earlier, rough):
    values = cohort.values.copy()
    values[:, [4, 50]] = 1.0
    constant = bd.Cohort(
        values, subjects=cohort.subjects, times=cohort.times, controls=cohort.controls
    )
    settings = SETTINGS | {"preprocessing": bd.Preprocessing(standardise=False)}
    short = np.delete(rough, [4, 50])
    for name in ("start", "assignments"):
        whole, cut = (
            bd.DIVE(**{name: labels}, **settings).fit(constant) for labels in (rough, short)
        )
        assert whole.labels_.shape == (88,)
        np.testing.assert_array_equal(whole.scores_, cut.scores_)
    np.testing.assert_array_equal(
        bd.DIVE(start=earlier, **settings).fit(constant).labels_,
        np.delete(earlier.labels_, [4, 50]),
    )


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (np.zeros(7, dtype=int), r"labels of start have shape \(7,\), but the cohort has 90 vert"),
        (np.full(90, 0.5), "labels of start must be whole numbers or names"),
        (np.full(90, -2), "labels of start hold no region"),
        (bd.DIVE(), "model to start from is not fitted"),
    ],
)
def test_starts_that_cannot_be_used_are_refused(cohort, start, message):
    with pytest.raises(bd.ParameterError, match=message):
        bd.DIVE(start=start).fit(cohort)


def test_a_model_of_other_vertices_is_refused(cohort, earlier):
    other = cohort.select(visits=np.arange(cohort.n_visits))
    fewer = bd.Cohort(other.values[:, :80], subjects=other.subjects, times=other.times)
    with pytest.raises(bd.ParameterError, match="has 90 vertices, but the cohort has 80; start"):
        bd.DIVE(start=earlier).fit(fewer)


def test_fixed_clusters_need_no_start(cohort, rough):
    with pytest.raises(bd.ParameterError, match="give one of the two"):
        bd.DIVE(assignments=rough, start=rough).fit(cohort)


def test_the_number_of_clusters_of_a_start_is_not_to_be_chosen(cohort, rough):
    with pytest.raises(bd.ParameterError, match="has its number of clusters; leave start out"):
        bd.select_n_clusters(cohort, [2, 3], model=bd.DIVE(start=rough))


def smooth_people():
    """People who differ by smooth maps that are larger than what the disease changes in years."""
    return bd.simulate_cohort(
        200,
        4,
        space="fsaverage5-left",
        midpoints=(-6.0, 0.0, 6.0, 12.0),
        n_patches=20,
        amplitude=-2.0,
        slope=-0.2,
        steepness_variation=0.0,
        midpoint_variation=0.0,
        mean_shift=2.0,
        shift_sd=9.0,
        control_share=0.35,
        controls_shift=(-22.0, 3.0),
        controls_speed=0.3,
        personal_offset=1.3,
        personal_smoothing=40,
        noise=0.45,
        noise_smoothing=3,
        dtype="float32",
        random_state=8306,
    )


def test_a_field_does_not_hold_how_people_differ(monkeypatch):
    simulation = smooth_people()
    without = "braindive.dive.starts.may_begin_without_field"

    def fit(people):
        model = bd.DIVE(4, people=people, personal=False, random_state=0).fit(simulation.cohort)
        return model, bd.match_clusters(model, simulation.truth.labels).agreement

    model, agreement = fit("alike")
    assert agreement > 0.95
    # From k-means alone a worse optimum is found, by labels and by the objective.
    monkeypatch.setattr(without, lambda settings: False)
    other, worse = fit("alike")
    assert worse < 0.93
    assert other.objective_[-1] < model.objective_[-1] - 1000
    # The marginal fit leaves most of it behind, the more when curves of the new labels are found.
    several = fit("differ")[1]
    assert several > 0.95
    monkeypatch.setattr("braindive.answers._MOST_LABELLINGS", 1)
    assert fit("differ")[1] < several - 0.002


def test_a_fit_with_a_field_and_few_passes_ends_where_it_is_told():
    simulation = bd.simulate_cohort(
        30, 3, space="fsaverage5-left", dtype="float32", random_state=0, noise=0.5
    )
    with pytest.warns(bd.ConvergenceWarning):
        model = bd.DIVE(3, max_iter=1, **SETTINGS).fit(simulation.cohort)
    assert model.n_iter_ == 1
    assert np.isfinite(model.objective_).all()
