"""DIVE as a user meets it: invariances, fitted attributes, special cohorts and bad input."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import braindive as bd
from braindive import estimator, fitted
from braindive.dive.field import STRONGEST
from braindive.values.blocks import Unit


def rebuilt(cohort, **changes):
    arguments = {
        "values": cohort.values,
        "subjects": cohort.subjects,
        "times": cohort.times,
        "controls": cohort.controls,
        "graph": cohort.graph,
        **changes,
    }
    return bd.Cohort(arguments.pop("values"), **arguments)


def fit(cohort, **parameters):
    """Fit, without what only personal predictions need unless a test asks for it."""
    settings = {"n_clusters": 3, "personal": False, "random_state": 0}
    return bd.DIVE(**(settings | parameters)).fit(cohort)


def assert_same_fit(found, expected, atol=1e-6):
    for name in ("responsibilities_", "scores_", "speeds_", "noise_"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=atol, atol=atol, err_msg=name
        )
    np.testing.assert_allclose(
        found.trajectories_.to_array(), expected.trajectories_.to_array(), rtol=atol, atol=atol
    )


BOTH = pytest.mark.parametrize("people", ["differ", "alike"])


# What must not matter


@pytest.mark.parametrize(("dtype", "people"), [("float32", "alike"), ("float64", "differ")])
@pytest.mark.parametrize("name", ["cohort", "gappy_cohort"])
def test_order_of_the_visits_does_not_change_a_bit(request, rng, name, dtype, people):
    cohort = request.getfixturevalue(name)
    values, shuffle = cohort.values.astype(dtype), rng.permutation(cohort.n_visits)
    expected = fit(rebuilt(cohort, values=values), people=people)
    found = fit(
        rebuilt(
            cohort,
            values=values[shuffle],
            subjects=cohort.subjects[shuffle],
            times=cohort.times[shuffle],
            controls=cohort.controls[shuffle],
        ),
        people=people,
    )
    np.testing.assert_array_equal(found.responsibilities_, expected.responsibilities_)
    np.testing.assert_array_equal(found.scores_, expected.scores_[shuffle])
    np.testing.assert_array_equal(found.speeds_, expected.speeds_)


def test_numbering_of_the_vertices_does_not_matter(cohort, model, rng):
    shuffle = rng.permutation(cohort.n_vertices)
    found = fit(rebuilt(cohort, values=cohort.values[:, shuffle]))
    back = np.argsort(shuffle)
    found.responsibilities_ = found.responsibilities_[back]
    assert_same_fit(found, model)


def test_unit_and_origin_of_the_values_do_not_matter(cohort, model):
    found = fit(rebuilt(cohort, values=0.1 * cohort.values + 2.5))
    n_values = cohort.values.size
    assert found.log_likelihood_ == pytest.approx(
        model.log_likelihood_ - n_values * np.log(0.1), rel=1e-8
    )
    found.noise_ = found.noise_ / 0.1
    found.trajectories_ = found.trajectories_.revalued(-25.0, 10.0)
    assert_same_fit(found, model)


def test_unit_of_time_does_not_matter_to_the_published_scale(cohort):
    found = fit(rebuilt(cohort, times=12 * cohort.times), scale="controls")
    found.speeds_ = 12 * found.speeds_
    assert_same_fit(found, fit(cohort, scale="controls"))


@BOTH
def test_scores_are_in_the_unit_of_time(cohort, people):
    in_years = fit(cohort, people=people)
    in_days = fit(rebuilt(cohort, times=365.25 * cohort.times), people=people)
    stages = in_days.stage(rebuilt(cohort, times=365.25 * cohort.times))
    expected = in_years.stage(cohort)
    for name, unit in (("speed", 1.0), ("shift", 365.25), ("score", 365.25)):
        for column in (name, f"{name}_se"):
            np.testing.assert_allclose(
                stages[column] / unit, expected[column], rtol=1e-6, atol=1e-6, err_msg=column
            )
    in_days.scores_ = in_days.scores_ / 365.25
    in_days.trajectories_ = in_days.trajectories_.rescored(0.0, 365.25)
    assert_same_fit(in_days, in_years)


def test_ages_instead_of_years_since_baseline_do_not_matter(cohort, model, rng):
    ages = rng.uniform(50, 90, cohort.n_subjects)[cohort.subject_index]
    assert_same_fit(fit(rebuilt(cohort, times=cohort.times + ages)), model)


@pytest.mark.parametrize("name", ["cohort", "gappy_cohort"])
def test_number_of_threads_does_not_change_a_bit(request, name):
    cohort = request.getfixturevalue(name)
    assert_same_fit(fit(cohort, n_jobs=1), fit(cohort, n_jobs=2), atol=0)


def test_same_seed_gives_the_same_bits(cohort, model):
    assert_same_fit(fit(cohort), model, atol=0)


def test_float32_gives_the_responsibilities_of_float64(cohort):
    thickness = 2.5 + 0.1 * cohort.values
    single = fit(rebuilt(cohort, values=thickness.astype("float32")))
    double = fit(rebuilt(cohort, values=thickness))
    np.testing.assert_allclose(single.responsibilities_, double.responsibilities_, atol=1e-3)


# What a fit leaves behind


def test_fit_returns_itself_and_changes_neither_parameters_nor_values(cohort):
    model, before = bd.DIVE(n_clusters=3, random_state=0), cohort.values.copy()
    parameters = model.get_params()
    assert model.fit(cohort) is model
    assert model.get_params() == parameters
    np.testing.assert_array_equal(cohort.values, before)


def test_clone_and_set_params_follow_scikit_learn(model):
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "responsibilities_")
    assert copy.set_params(n_clusters=7, spatial=None).n_clusters == 7


def test_shapes_of_the_fitted_attributes(cohort, model):
    assert model.responsibilities_.shape == (150, 3)
    np.testing.assert_allclose(model.responsibilities_.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.labels_, model.responsibilities_.argmax(axis=1))
    assert model.noise_.shape == (3,)
    assert model.trajectories_.evaluate(np.zeros(7)).shape == (7, 3)
    np.testing.assert_array_equal(model.subjects_, cohort.subject_ids)
    assert model.speeds_.shape == model.shifts_.shape == (40,)
    assert len(model.objective_) == model.n_iter_


def test_scores_are_speed_times_time_plus_shift(cohort, model, rng):
    index = cohort.subject_index
    expected = model.speeds_[index] * cohort.times + model.shifts_[index]
    np.testing.assert_allclose(model.scores_, expected, atol=1e-10)
    assert (model.speeds_ > 0).all()


@BOTH
def test_a_year_is_the_mean_speed_of_those_who_are_no_controls(cohort, people):
    model = fit(cohort, people=people)
    control = cohort.controls[::4]
    assert model.speeds_[~control].mean() == pytest.approx(1.0, abs=1e-9)
    assert model.speeds_.mean() != pytest.approx(1.0, abs=1e-3)
    assert model.trajectories_.midpoint.min() == pytest.approx(0.0, abs=1e-9)


@BOTH
def test_without_controls_a_year_is_the_mean_speed_of_all(cohort, people):
    model = fit(rebuilt(cohort, controls=None), people=people)
    assert model.speeds_.mean() == pytest.approx(1.0, abs=1e-9)
    assert model.trajectories_.midpoint.min() == pytest.approx(0.0, abs=1e-9)


@BOTH
def test_on_the_published_scale_scores_of_controls_have_mean_0_and_spread_1(cohort, people):
    model = fit(cohort, people=people, scale="controls")
    controls = model.scores_[cohort.controls]
    assert controls.mean() == pytest.approx(0.0, abs=1e-10)
    assert controls.std() == pytest.approx(1.0)


@BOTH
def test_without_controls_the_published_scale_is_that_of_everybody(cohort, people):
    model = fit(rebuilt(cohort, controls=None), people=people, scale="controls")
    scores = model.scores_
    assert scores.mean() == pytest.approx(0.0, abs=1e-10)
    assert scores.std() == pytest.approx(1.0)


def test_clusters_are_numbered_from_early_to_late(model):
    assert (np.diff(model.trajectories_.midpoint) > 0).all()
    assert (model.trajectories_.steepness > 0).all()


@pytest.mark.filterwarnings("ignore::braindive.DataWarning")  # of single visits
def test_controls_come_early_where_time_says_nothing(cohort, simulation):
    once, truth = cohort.first_visits(1), simulation.truth.scores[::4]
    reversed_model = fit(rebuilt(once, controls=~once.controls))
    assert np.corrcoef(reversed_model.scores_, truth)[0, 1] < -0.9
    assert np.corrcoef(fit(once).scores_, truth)[0, 1] > 0.9


def test_time_outweighs_controls_where_it_is_clear(cohort, simulation):
    """People who are called controls by mistake do not turn the disease around."""
    with pytest.warns(bd.StagingWarning, match="controls and time contradict each other"):
        model = fit(rebuilt(cohort, controls=~cohort.controls))
    assert np.corrcoef(model.scores_, simulation.truth.scores)[0, 1] > 0.9


def test_aic_and_bic_count_five_numbers_a_cluster_and_two_a_subject(gappy_cohort):
    model = fit(gappy_cohort, people="alike")
    n_parameters = 5 * 3 + 2 * 40 + 1
    n_measured = np.count_nonzero(~np.isnan(gappy_cohort.values))
    assert model.aic_ == pytest.approx(2 * n_parameters - 2 * model.log_likelihood_)
    assert model.bic_ == pytest.approx(
        np.log(n_measured) * n_parameters - 2 * model.log_likelihood_
    )


@pytest.mark.parametrize("name", ["cohort", "gappy_cohort"])
def test_log_likelihood_is_the_mixture_of_normal_densities_at_the_end_of_the_em(request, name):
    cohort = request.getfixturevalue(name)
    reports = []
    model = bd.DIVE(3, n_init=1, people="alike", personal=False, random_state=0)
    model.fit(cohort, callback=reports.append)
    found = reports[-1].state.parameters
    unit = Unit(np.nanmean(cohort.values), np.nanstd(cohort.values))
    # Internal time is centred on each subject's mean; every subject has the same four visits.
    times = cohort.times - 1.5
    index = cohort.subject_index
    scores = found.speeds[index] * times / np.sqrt(5 / 3) + found.shifts[index]
    curves = unit.offset + unit.scale * found.trajectories.evaluate(scores)
    noise = unit.scale * found.noise
    residuals = (cohort.values[:, :, None] - curves[:, None, :]) / noise
    terms = -0.5 * residuals**2 - np.log(noise) - 0.5 * np.log(2 * np.pi)
    density = np.nansum(terms, axis=0)
    top = density.max(axis=1, keepdims=True)
    expected = (top[:, 0] + np.log(np.exp(density - top).mean(axis=1))).sum()
    assert model.log_likelihood_ == pytest.approx(expected, rel=1e-8)


def test_a_fit_that_was_cut_short_warns_and_says_so(cohort):
    with pytest.warns(bd.ConvergenceWarning, match=r"after 1 iterations .*raise max_iter"):
        model = fit(cohort, max_iter=1)
    assert not model.converged_
    assert model.stop_reason_ == "max_iter"


def test_a_fit_that_met_its_tolerance_says_so(model):
    assert model.converged_
    assert model.stop_reason_ == "converged"


# Staging and prediction


@pytest.mark.parametrize("scale", ["years", "controls"])
@BOTH
@pytest.mark.parametrize("name", ["cohort", "gappy_cohort"])
def test_staging_the_training_subjects_is_what_the_fit_found(request, name, people, scale):
    cohort = request.getfixturevalue(name)
    model = fit(cohort, people=people, scale=scale)
    stages = model.stage(cohort)
    assert list(stages.index) == list(model.subjects_)
    assert (stages["n_visits"] == 4).all()
    np.testing.assert_allclose(stages["speed"], model.speeds_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(stages["shift"], model.shifts_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(stages["score"], model.scores_[::4], rtol=0, atol=1e-6)


def test_stages_are_read_off_the_trajectories(cohort, model):
    stages = model.stage(cohort)
    index = cohort.subject_index
    scores = stages["speed"].to_numpy()[index] * cohort.times + stages["shift"].to_numpy()[index]
    np.testing.assert_allclose(scores[::4], stages["score"], atol=1e-9)
    values = model.trajectories_.evaluate(scores) @ model.responsibilities_.T
    published = fit(cohort, people="alike")
    by_em = published.trajectories_.evaluate(published.scores_) @ published.responsibilities_.T
    assert np.std(cohort.values - values) < 1.01 * np.std(cohort.values - by_em)


def test_staging_does_not_depend_on_who_else_is_there(cohort, model):
    together = model.stage(cohort)
    for subject in cohort.subject_ids[[0, 17]]:
        alone = model.stage(cohort.select(subjects=[subject]))
        columns = ["speed", "shift", "score"]
        np.testing.assert_allclose(
            alone.loc[subject, columns], together.loc[subject, columns], rtol=1e-6, atol=1e-6
        )


def test_unseen_subjects_are_staged(simulation):
    cohort, truth = simulation.cohort, simulation.truth
    seen, unseen = cohort.subject_ids[:25], cohort.subject_ids[25:]
    stages = fit(cohort.select(subjects=seen)).stage(cohort.select(subjects=unseen))
    first = truth.scores.reshape(-1, 4)[25:, 0]
    assert np.corrcoef(stages["score"], first)[0, 1] > 0.95


def test_staging_one_visit_keeps_the_speed_of_the_group(cohort, model):
    stages, control = model.stage(cohort.first_visits(1)), cohort.controls[::4]
    for group in (control, ~control):
        assert np.ptp(stages["speed"][group]) < 1e-6
    # Nothing is known of a stranger but that he is a control or not: the speed lies between.
    strangers = model.stage(rebuilt(cohort.first_visits(1), controls=None))["speed"]
    low, high = sorted(stages["speed"][group].mean() for group in (control, ~control))
    assert strangers.between(low - 1e-6, high + 1e-6).all()
    assert np.corrcoef(stages["score"], model.scores_[::4])[0, 1] > 0.9


def test_prediction_by_the_curves_mixes_the_trajectories_of_each_vertex(cohort, model):
    predicted = model.predict(cohort, personal=False)
    expected = model.trajectories_.evaluate(model.scores_) @ model.responsibilities_.T
    assert predicted.shape == cohort.values.shape
    np.testing.assert_allclose(predicted, expected, atol=1e-6)


def test_ids_that_are_numbers_are_named_as_people_write_them(cohort, model):
    numbered = bd.Cohort(
        cohort.values, subjects=900 + cohort.subject_index, times=cohort.times, graph=cohort.graph
    )
    history = numbered.select(subjects=numbered.subject_ids[1:]).first_visits(2)
    with pytest.raises(bd.CohortError, match=r"no history for subject 900; predict"):
        model.predict(numbered, history=history)


def test_prediction_for_subjects_without_history_is_refused(cohort, model):
    history = cohort.select(subjects=cohort.subject_ids[1:]).first_visits(2)
    with pytest.raises(bd.CohortError, match=r"no history for subject 'sub-00'"):
        model.predict(cohort, history=history)


def test_people_without_history_are_called_by_their_ids(cohort, model):
    history = cohort.select(subjects=cohort.subject_ids[1:]).first_visits(2)
    at = pd.Series([5.0, 6.0], index=[901, 902])
    with pytest.raises(bd.CohortError, match="no history for subject 901, 902; predict"):
        model.predict(history, at=at)


# Variants and special cohorts


@pytest.mark.parametrize("all_of_them", [True, False])
def test_a_fit_of_controls_alone_says_that_there_is_no_disease(cohort, all_of_them):
    controls = np.ones(cohort.n_visits, dtype=bool)
    controls[cohort.subjects == cohort.subject_ids[-1]] = all_of_them
    model = bd.DIVE(2, n_init=1, max_iter=3, personal=False, people="alike", random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rebuilt(cohort, controls=controls))
    assert any("no disease to model" in str(each.message) for each in caught) == all_of_them


def test_roi_model_keeps_the_atlas_and_names_its_clusters(simulation):
    names = np.array(["early", "middle", "late"])[simulation.truth.labels]
    model = bd.roi_model(names, random_state=0).fit(simulation.cohort)
    assert list(model.cluster_names_) == ["early", "middle", "late"]
    np.testing.assert_array_equal(model.cluster_names_[model.labels_], names)
    assert set(np.unique(model.responsibilities_)) == {0.0, 1.0}


def test_no_staging_model_takes_the_time_for_the_score(cohort):
    model = bd.no_staging_model(n_clusters=3, random_state=0).fit(cohort)
    np.testing.assert_allclose(model.scores_, cohort.times, atol=1e-10)
    np.testing.assert_allclose(model.speeds_, 1.0)
    np.testing.assert_allclose(model.shifts_, 0.0, atol=1e-10)
    np.testing.assert_allclose(model.stage(cohort)["speed"], 1.0)


def test_one_cluster_holds_every_vertex(cohort):
    model = fit(cohort, n_clusters=1, personal=True)
    np.testing.assert_array_equal(model.responsibilities_, 1.0)
    assert np.isfinite(model.trajectories_.to_array()).all()


@pytest.mark.filterwarnings("error")
def test_subjects_with_unequal_numbers_of_visits_fit(simulation, rng):
    cohort = simulation.cohort
    keep = rng.random(cohort.n_visits) < 0.6
    keep[::4] = True
    keep[1:4] = keep[5:8] = False
    model = fit(cohort.select(visits=keep), personal=True)
    assert model.speeds_[0] == pytest.approx(model.speeds_[1], rel=1e-9)  # both the prior's
    assert np.ptp(model.speeds_) > 0.1 * model.speeds_[0]
    assert np.corrcoef(model.scores_, simulation.truth.scores[keep])[0, 1] > 0.95


def test_a_cohort_of_single_visits_fits_with_one_speed():
    simulation = bd.simulate_cohort(
        n_subjects=80, n_visits=1, n_vertices=200, noise=0.5, control_share=0.3, random_state=3
    )
    with pytest.warns(bd.DataWarning, match=r"one visit: .* no speed and no years"):
        model = fit(simulation.cohort, personal=True)
    assert np.ptp(model.speeds_) < 1e-9
    assert np.corrcoef(model.scores_, simulation.truth.scores)[0, 1] > 0.8


def test_regions_without_neighbours_are_fitted_without_a_field():
    drawn = bd.simulate_cohort(n_subjects=40, n_vertices=12, noise=0.1, random_state=0).cohort
    facts = {"subjects": drawn.subjects, "times": drawn.times}
    regions = bd.Regions("twelve", [f"region {i}" for i in range(12)])
    settings = {"n_init": 1, "people": "alike"}
    apart = fit(bd.Cohort(drawn.values, space=regions, **facts), **settings)
    plain = fit(bd.Cohort(drawn.values, **facts), **settings)
    assert apart.spatial_strength_ == 0
    np.testing.assert_array_equal(apart.responsibilities_, plain.responsibilities_)


@pytest.mark.parametrize(("length", "capped"), [(60, True), (12, False)])
def test_a_field_as_strong_as_can_be_says_so(length, capped):
    """Where few pairs of neighbours lie on a border: half the pairs inside for each such pair."""
    n_vertices, width = 6 * length, 6
    strip = np.arange(n_vertices).reshape(length, width)
    pairs = np.concatenate(
        [
            np.column_stack([strip[1:].ravel(), strip[:-1].ravel()]),
            np.column_stack([strip[:, 1:].ravel(), strip[:, :-1].ravel()]),
        ]
    )
    simulation = bd.simulate_cohort(
        20,
        n_vertices=n_vertices,
        labels=(np.arange(n_vertices) >= n_vertices // 2).astype(int),
        midpoints=(-5.0, 10.0),
        noise=0.3,
        random_state=0,
    )
    graph = csr_array((np.ones(len(pairs)), pairs.T), shape=(n_vertices, n_vertices))
    cohort = rebuilt(simulation.cohort, graph=graph + graph.T)
    model = bd.DIVE(2, people="alike", personal=False, n_init=1, random_state=0).fit(cohort)
    assert (model.spatial_strength_ == pytest.approx(STRONGEST)) == capped
    assert any("stopped at its largest value" in text for text in model.warnings_) == capped


def test_warnings_of_preprocessing_and_fit_are_given_and_kept():
    cohort = bd.simulate_cohort(n_subjects=40, n_visits=1, random_state=0).cohort
    model = bd.DIVE(n_clusters=2, preprocessing=bd.Preprocessing(), random_state=0)
    with pytest.warns(bd.DataWarning) as given:
        model.fit(cohort)
    assert model.warnings_ == [str(warning.message) for warning in given]
    assert "no controls" in model.warnings_[0]
    assert "one visit" in model.warnings_[-1]


def test_a_vertex_without_data_gets_uniform_responsibilities_and_a_warning(cohort):
    values = cohort.values.copy()
    values[:, 7] = np.nan
    with pytest.warns(bd.DataWarning, match=r"1 vertices have no data"):
        model = fit(rebuilt(cohort, values=values), personal=True)
    np.testing.assert_allclose(model.responsibilities_[7], 1 / 3)
    assert np.isfinite(model.responsibilities_).all()


def test_missing_values_are_left_out_and_not_imputed(simulation, gappy_cohort):
    model = fit(gappy_cohort, personal=True)
    assert bd.match_clusters(model, simulation.truth.labels).agreement > 0.95
    assert np.corrcoef(model.scores_, simulation.truth.scores)[0, 1] > 0.95


def test_more_clusters_than_different_vertices_leave_some_empty(rng):
    """Two curves, ten vertices each, without any noise: six clusters cannot all be filled."""
    values = np.repeat(rng.normal(size=(40, 2)).cumsum(axis=0), 10, axis=1)
    cohort = bd.Cohort(
        values, subjects=np.repeat(np.arange(10), 4), times=np.tile(np.arange(4.0), 10)
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(cohort, n_clusters=6, personal=True)
    expected = bd.DataWarning, bd.ConvergenceWarning
    assert all(issubclass(warning.category, expected) for warning in caught)
    assert any("of 6; use fewer clusters" in str(w.message) for w in caught)
    for array in (model.responsibilities_, model.noise_, model.trajectories_.to_array()):
        assert np.isfinite(array).all()
    assert np.isfinite(model.stage(cohort)[["speed", "shift", "score"]]).all(axis=None)


# Bad input


def constant(cohort, where):
    values = cohort.values.copy()
    values[:, where] = 0.1
    return rebuilt(cohort, values=values)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_clusters": 151}, r"n_clusters=151 is more than the 150 vertices; use fewer"),
        ({"n_clusters": 0}, r"n_clusters must be a whole number of at least 1; got 0"),
        ({"n_clusters": 2.5}, r"n_clusters must be a whole number of at least 1; got 2.5"),
        ({"method": "slow"}, r"method must be \"fast\" or \"exact\"; got 'slow'"),
        ({"people": "same"}, r"^people must be \"differ\" or \"alike\"; got 'same'\.$"),
        ({"people": True}, r"^people must be \"differ\" or \"alike\"; got True\.$"),
        ({"scale": "months"}, r"^scale must be \"years\" or \"controls\"; got 'months'\.$"),
        ({"scale": None}, r"^scale must be \"years\" or \"controls\"; got None\.$"),
        ({"tol": 0.0}, r"tol must be above 0; got 0.0"),
        ({"n_init": 0}, r"n_init must be a whole number"),
        ({"max_iter": 0}, r"max_iter must be a whole number"),
        ({"spatial": "strong"}, r"spatial must be \"auto\", None or a number"),
        ({"spatial": -1.0}, r"spatial must be \"auto\", None or a number of at least 0; got -1"),
        ({"spatial": 2.0}, r"the cohort has no graph; pass graph=... to Cohort, or use spatial=N"),
        (
            {"assignments": np.zeros(7, dtype=int)},
            r"assignments have shape \(7,\), but the cohort has 150 vertices; give one label",
        ),
        ({"assignments": np.full(150, 0.5)}, r"assignments must be whole numbers or names"),
        ({"assignments": np.full(150, -1)}, r"assignments hold no region"),
    ],
)
def test_impossible_parameters_are_refused(cohort, parameters, message):
    with pytest.raises(bd.ParameterError, match=message):
        bd.DIVE(**parameters).fit(cohort)


@pytest.mark.parametrize("named", [False, True])
def test_fewer_than_two_visits_per_cluster_are_refused(cohort, named):
    few = cohort.select(visits=np.arange(5))
    message = r"5 visits are too few for 3 clusters: at least two visits per cluster .*fewer"
    with pytest.raises(bd.CohortError, match=message):
        fit(few)
    labels = np.arange(150) % 3
    with pytest.raises(bd.CohortError, match=message):
        bd.roi_model(np.array(["a", "b", "c"])[labels] if named else labels).fit(few)


def test_a_constant_vertex_is_refused_by_its_number(cohort):
    with pytest.raises(bd.CohortError, match=r"vertices 3, 8 have the same .*set them to NaN"):
        fit(constant(cohort, [3, 8]))


def test_a_constant_cohort_is_refused(cohort):
    with pytest.raises(bd.CohortError, match=r"every vertex of the cohort is constant"):
        fit(constant(cohort, slice(None)))


def test_anything_but_a_cohort_is_refused(cohort, model):
    with pytest.raises(bd.ParameterError, match=r"a Cohort is needed, not ndarray; build one"):
        bd.DIVE().fit(cohort.values)
    with pytest.raises(bd.ParameterError, match=r"a Cohort is needed"):
        model.stage(cohort.values)


@pytest.mark.parametrize("method", ["stage", "predict", "score"])
def test_an_unfitted_model_says_that_fit_comes_first(cohort, method):
    with pytest.raises(bd.NotFittedError, match=r"call fit\(cohort\) first"):
        getattr(bd.DIVE(), method)(cohort)


@pytest.mark.parametrize("method", ["stage", "predict", "score"])
def test_a_cohort_with_other_vertices_is_refused(cohort, model, method):
    other = bd.Cohort(cohort.values[:, :9], subjects=cohort.subjects, times=cohort.times)
    with pytest.raises(bd.CohortError, match=r"fitted on 150 vertices, but this cohort has 9; use"):
        getattr(model, method)(other)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_pooled_measurements_of_the_training_are_kept(missing):
    cohort = bd.simulate_cohort(30, 3, 60, noise=0.3, missing=missing, random_state=0).cohort
    model = bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(cohort)
    training = model.internal_.training
    sums, weights = model.pool(model.products(cohort))
    np.testing.assert_allclose(training.sums, sums, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(training.weights, weights, rtol=1e-9)


def sizes_of_arrays(thing, seen=None):
    """Sizes of all arrays that an object holds, however deep."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        yield thing.size
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from sizes_of_arrays(value, seen)
    elif isinstance(thing, (list, tuple)):
        for value in thing:
            yield from sizes_of_arrays(value, seen)
    elif hasattr(thing, "__dict__"):
        yield from sizes_of_arrays(vars(thing), seen)


def test_a_fitted_model_does_not_hold_its_training_cohort():
    cohort = bd.simulate_cohort(n_subjects=30, n_vertices=2000, noise=0.6, random_state=0).cohort
    model = bd.DIVE(2, random_state=0).fit(cohort)
    # Components of the people's deviations are the largest thing that a fit learns.
    assert max(sizes_of_arrays(vars(model))) < cohort.values.size / 10
    assert len(pickle.dumps(model)) < cohort.values.nbytes / 2


def test_saving_staging_and_predicting_learn_nothing(cohort, monkeypatch, tmp_path):
    model = bd.DIVE(3, random_state=0).fit(cohort)

    def refuse(*_, **__):
        raise AssertionError("learnt after the fit")

    monkeypatch.setattr(estimator, "learn_personal", refuse)
    monkeypatch.setattr(estimator, "put_in_order", refuse)
    monkeypatch.setattr(fitted, "open_products", refuse)
    model.save(tmp_path / "fit.dive")
    monkeypatch.undo()
    monkeypatch.setattr(estimator, "learn_personal", refuse)
    monkeypatch.setattr(estimator, "put_in_order", refuse)
    assert len(model.stage(cohort)) == cohort.n_subjects
    assert model.predict(cohort).shape == cohort.values.shape


def test_a_model_that_learnt_no_deviations_says_so(cohort):
    model = bd.DIVE(3, personal=False, random_state=0).fit(cohort)
    with pytest.raises(bd.ParameterError, match="personal=True"):
        model.predict(cohort)
    full = bd.DIVE(3, random_state=0).fit(cohort)
    np.testing.assert_array_equal(
        model.predict(cohort, personal=False), full.predict(cohort, personal=False)
    )


def test_without_staging_visits_need_different_times():
    cohort = bd.simulate_cohort(20, n_visits=1, n_vertices=60, random_state=0).cohort
    with pytest.raises(bd.CohortError, match="all visits have the same time"):
        bd.no_staging_model(n_clusters=2).fit(cohort)
