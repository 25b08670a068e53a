import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

import braindive as bd
from braindive.space import Hemisphere, Surface

N_VERTICES = 12


@pytest.fixture
def cohort(rng):
    return make_cohort(rng)


def make_cohort(rng, n_subjects=30, n_vertices=N_VERTICES, **changes):
    subjects = np.repeat([f"s{i:02d}" for i in range(n_subjects)], 2)
    n_visits = len(subjects)
    table = pd.DataFrame(
        {
            "age": rng.uniform(55, 85, n_visits),
            "sex": np.repeat(rng.choice(["F", "M"], n_subjects), 2),
            "site": np.repeat(rng.choice([1, 2, 3], n_subjects), 2),
        }
    )
    effects = rng.normal(size=(2, n_vertices))
    values = 2.5 + rng.normal(size=(n_visits, n_vertices)) * rng.uniform(0.1, 2, n_vertices)
    values += np.outer(table["age"] - 70, effects[0]) + np.outer(table["sex"] == "M", effects[1])
    given = {
        "subjects": subjects,
        "times": table["age"].to_numpy(),
        "controls": np.repeat(np.arange(n_subjects) % 2 == 0, 2),
        "table": table,
    }
    return bd.Cohort(values, **{**given, **changes})


def with_values(cohort, values, **changes):
    given = {
        "subjects": cohort.subjects,
        "times": cohort.times,
        "controls": cohort.controls,
        "table": cohort.table,
        "space": cohort.space,
    }
    return bd.Cohort(values, **{**given, **changes})


def test_standardised_values_are_z_scores_to_the_controls(cohort):
    controls = cohort.values[cohort.controls]
    expected = (cohort.values - controls.mean(axis=0)) / controls.std(axis=0, ddof=1)
    result = bd.Preprocessing().fit(cohort).transform(cohort)
    np.testing.assert_allclose(result.values, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("standardise", [True, False])
def test_what_is_standardised_and_adjusted_comes_back_as_it_was(cohort, standardise):
    values = cohort.values.copy()
    values[:, 3] = 7.0  # never varies, so that it is dropped
    values[0, 5] = np.nan
    given = with_values(cohort, values)
    before = bd.Preprocessing(standardise=standardise, covariates=["age", "sex"]).fit(given)
    again = before.inverse_transform(before.transform(given))
    np.testing.assert_allclose(again.values, np.delete(values, 3, axis=1), rtol=1e-10)
    with pytest.raises(bd.CohortError, match="kept 11 vertices, but these values are of 12"):
        before.inverse_transform(given)


def test_patients_do_not_move_what_is_estimated(cohort):
    changed = cohort.values.copy()
    changed[~cohort.controls] += 100
    first = bd.Preprocessing(covariates=("age", "sex")).fit(cohort)
    second = clone(first).fit(with_values(cohort, changed))
    np.testing.assert_array_equal(first.means_, second.means_)
    np.testing.assert_array_equal(first.spreads_, second.spreads_)
    np.testing.assert_array_equal(first.effects_, second.effects_)


def test_a_subject_gets_the_same_numbers_alone_as_among_others(cohort):
    fitted = bd.Preprocessing(covariates=("age", "sex", "site")).fit(cohort)
    together = fitted.transform(cohort)
    for subject in cohort.subject_ids[:3]:
        alone = fitted.transform(cohort.select(subjects=[subject]))
        np.testing.assert_array_equal(alone.values, together.select(subjects=[subject]).values)


def test_covariates_leave_the_residuals_of_a_regression_on_the_controls(cohort):
    design = np.column_stack([cohort.table["age"], cohort.table["sex"] == "M"]).astype(float)
    regression = LinearRegression().fit(design[cohort.controls], cohort.values[cohort.controls])
    residuals = cohort.values - regression.predict(design)
    freedom = cohort.controls.sum() - 3
    spread = np.sqrt((residuals[cohort.controls] ** 2).sum(axis=0) / freedom)
    result = bd.Preprocessing(covariates=("age", "sex")).fit(cohort).transform(cohort)
    np.testing.assert_allclose(result.values, residuals / spread, rtol=1e-8, atol=1e-10)


def test_without_standardising_the_level_of_the_controls_stays(cohort):
    fitted = bd.Preprocessing(standardise=False, covariates=("age", "sex")).fit(cohort)
    before = cohort.values[cohort.controls].mean(axis=0)
    after = fitted.transform(cohort).values[cohort.controls].mean(axis=0)
    np.testing.assert_allclose(after, before, rtol=1e-10)


def test_holes_are_left_out_of_each_vertex_regression(cohort, rng):
    values = cohort.values.copy()
    values[rng.random(values.shape) < 0.2] = np.nan
    holed = with_values(cohort, values)
    result = bd.Preprocessing(covariates=("age", "sex")).fit(holed).transform(holed)
    design = np.column_stack([cohort.table["age"], cohort.table["sex"] == "M"]).astype(float)
    for vertex in range(N_VERTICES):
        seen = ~np.isnan(values[:, vertex])
        train = seen & cohort.controls
        regression = LinearRegression().fit(design[train], values[train, vertex])
        residuals = values[:, vertex] - regression.predict(design)
        spread = np.sqrt((residuals[train] ** 2).sum() / (train.sum() - 3))
        np.testing.assert_allclose(result.values[seen, vertex], residuals[seen] / spread, rtol=1e-7)
        assert np.isnan(result.values[~seen, vertex]).all()


def test_sites_are_groups_even_when_they_are_numbers(cohort):
    fitted = bd.Preprocessing(covariates=("site",)).fit(cohort)
    result = fitted.transform(cohort).values
    assert fitted.effects_.shape[0] == 2
    for site in (1, 2, 3):
        there = cohort.controls & (cohort.table["site"] == site).to_numpy()
        np.testing.assert_allclose(result[there].mean(axis=0), 0, atol=1e-10)


def test_an_unseen_site_is_refused_by_name_and_subject(cohort):
    fitted = bd.Preprocessing(covariates=("site",)).fit(cohort)
    table = cohort.table
    table["site"] = table["site"].astype(float)
    table.loc[4, "site"] = 9.0
    with pytest.raises(bd.CohortError, match=r"site 9\.0 was not in the training.*'s02'"):
        fitted.transform(with_values(cohort, cohort.values, table=table))


def test_a_group_without_controls_is_refused(cohort):
    table = cohort.table
    table.loc[~cohort.controls, "sex"] = "X"
    with pytest.raises(bd.CohortError, match="groups without any control: X"):
        bd.Preprocessing(covariates=("sex",)).fit(with_values(cohort, cohort.values, table=table))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns="age"), "no column 'age'.*sex, site"),
        (
            lambda table: table.assign(age=table["age"].where(table.index != 3)),
            "missing at 1 visit",
        ),
        (lambda table: table.assign(age=70.0), "same for all controls"),
        (lambda table: table.assign(age=np.inf), "infinite"),
    ],
)
def test_unusable_covariates_are_named(cohort, change, message):
    changed = with_values(cohort, cohort.values, table=change(cohort.table))
    with pytest.raises(bd.CohortError, match=message):
        bd.Preprocessing(covariates=("age",)).fit(changed)


def test_without_controls_everybody_is_the_reference_and_a_warning_says_so(cohort):
    everybody = with_values(cohort, cohort.values, controls=None)
    with pytest.warns(bd.DataWarning, match="no controls"):
        result = bd.Preprocessing().fit(everybody).transform(everybody)
    np.testing.assert_allclose(result.values.mean(axis=0), 0, atol=1e-10)


def test_baseline_controls_are_the_reference_where_asked_for(cohort):
    fitted = bd.Preprocessing(reference="baseline").fit(cohort)
    first = {}
    for row, (who, time) in enumerate(zip(cohort.subjects, cohort.times, strict=True)):
        if who not in first or time < cohort.times[first[who]]:
            first[who] = row
    rows = [row for row in first.values() if cohort.controls[row]]
    chosen = cohort.values[rows]
    np.testing.assert_allclose(fitted.means_, chosen.mean(axis=0))
    np.testing.assert_allclose(fitted.spreads_, chosen.std(axis=0, ddof=1))
    assert len(rows) == cohort.controls.sum() // 2


def test_an_unknown_reference_is_refused(cohort):
    with pytest.raises(bd.ParameterError, match="reference must be controls or baseline"):
        bd.Preprocessing(reference="first").fit(cohort)


def test_vertices_that_are_zero_at_any_visit_are_dropped_where_asked_for(cohort):
    values = cohort.values.copy()
    values[4, 2] = 0.0
    zeroed = with_values(cohort, values)
    assert bd.Preprocessing().fit(zeroed).keep_.all()
    fitted = bd.Preprocessing(drop_zeros=True).fit(zeroed)
    assert np.flatnonzero(~fitted.keep_).tolist() == [2]
    # A zero of somebody new is not a measurement.
    values[0, 5] = 0.0
    new = fitted.transform(with_values(cohort, values)).values
    assert np.argwhere(np.isnan(new)).tolist() == [[0, 4]]


def test_a_vertex_that_is_zero_on_one_side_is_dropped_from_the_average(rng):
    mesh = (rng.normal(size=(6, 3)), [[0, 1, 2], [3, 4, 5]])
    space = Surface("pair", (Hemisphere("left", *mesh), Hemisphere("right", *mesh)))
    cohort = make_cohort(rng, n_vertices=12)
    values = cohort.values.copy()
    values[3, 1] = 0.0  # left
    values[5, 6 + 4] = 0.0  # right
    zeroed = with_values(cohort, values, space=space)
    fitted = bd.Preprocessing(average_hemispheres=True, drop_zeros=True).fit(zeroed)
    assert np.flatnonzero(~fitted.keep_).tolist() == [1, 4]


def test_a_failed_scan_does_not_take_its_vertices_from_everybody(cohort):
    values = cohort.values.copy()
    values[6, :8] = 0.0
    with pytest.raises(bd.CohortError, match=r"1 scans are 0 .*s03 at .*67%.*leave them out"):
        bd.Preprocessing(drop_zeros=True).fit(with_values(cohort, values))


def test_vertices_with_little_data_or_no_variation_are_dropped(cohort):
    values = cohort.values.copy()
    values[::2, 3] = np.nan
    values[0, 3] = np.nan
    values[1, 3] = np.nan
    values[:, 7] = 0.0
    space = bd.Regions("r", [f"r{i}" for i in range(N_VERTICES)], [[2, 3], [3, 4], [4, 5]])
    holed = with_values(cohort, values, space=space)
    fitted = bd.Preprocessing().fit(holed)
    result = fitted.transform(holed)
    assert np.flatnonzero(~fitted.keep_).tolist() == [3, 7]
    assert "r3" not in result.space.names
    assert result.graph.nnz == 2
    np.testing.assert_array_equal(result.graph.toarray(), result.space.graph().toarray())


def test_blocks_of_any_size_give_the_same_numbers(cohort, monkeypatch):
    whole = bd.Preprocessing(covariates=("age",)).fit(cohort).transform(cohort).values
    monkeypatch.setattr("braindive.values.walking._PIECE", cohort.n_visits * 5)
    pieces = bd.Preprocessing(covariates=("age",)).fit(cohort).transform(cohort).values
    np.testing.assert_allclose(pieces, whole, rtol=1e-12, atol=1e-12)


def test_a_selection_is_read_in_its_own_order(cohort):
    rows = np.flatnonzero(cohort.controls)[::-1]
    part = cohort.select(visits=rows)
    copied = with_values(
        part, part.values.copy(), subjects=part.subjects, times=part.times, table=part.table
    )
    np.testing.assert_array_equal(
        bd.Preprocessing().fit(part).means_, bd.Preprocessing().fit(copied).means_
    )


def two_hemispheres(left_mask=None, right_mask=None):
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0]], dtype=float)
    faces = [[0, 1, 2], [1, 2, 3], [1, 3, 4]]
    return Surface(
        "toy",
        (
            Hemisphere("left", points, faces, left_mask),
            Hemisphere("right", points, faces, right_mask),
        ),
    )


def test_hemispheres_are_averaged_where_both_are_measured(rng):
    space = two_hemispheres([1, 1, 1, 1, 0], [0, 1, 1, 1, 1])
    cohort = make_cohort(rng, n_vertices=8, space=space)
    result = bd.Preprocessing(standardise=False, average_hemispheres=True).fit_transform(cohort)
    # Vertices 1, 2, 3 of the mesh are columns 1, 2, 3 on the left and 4, 5, 6 on the right.
    expected = (cohort.values[:, [1, 2, 3]] + cohort.values[:, [4, 5, 6]]) / 2
    np.testing.assert_allclose(result.values, expected)
    assert result.space.hemispheres[0].mask.tolist() == [False, True, True, True, False]


def test_a_vertex_measured_on_one_side_keeps_that_side(rng):
    cohort = make_cohort(rng, n_vertices=10, space=two_hemispheres())
    values = cohort.values.copy()
    values[0, 0] = np.nan
    holed = with_values(cohort, values)
    result = bd.Preprocessing(standardise=False, average_hemispheres=True).fit_transform(holed)
    assert result.values[0, 0] == values[0, 5]


def test_averaging_needs_two_hemispheres(cohort):
    with pytest.raises(bd.ParameterError, match="a left and a right one"):
        bd.Preprocessing(average_hemispheres=True).fit(cohort)


def test_smoothing_averages_each_vertex_with_its_neighbours(rng):
    cohort = make_cohort(rng, n_vertices=10, space=two_hemispheres())
    result = bd.Preprocessing(standardise=False, smooth=1).fit_transform(cohort)
    neighbours = cohort.graph.toarray() + np.eye(10)
    expected = cohort.values @ neighbours / neighbours.sum(axis=0)
    np.testing.assert_allclose(result.values, expected, rtol=1e-10)


def test_smoothing_does_not_spread_holes(rng):
    cohort = make_cohort(rng, n_vertices=10, space=two_hemispheres())
    values = cohort.values.copy()
    values[:, 0] = np.nan
    values[:, 1:] = 5.0 + np.arange(len(values))[:, None]
    holed = with_values(cohort, values)
    fitted = bd.Preprocessing(standardise=False, smooth=2, min_observed=0).fit(holed)
    result = fitted.transform(holed).values
    assert fitted.keep_.tolist() == [False] + [True] * 9
    np.testing.assert_allclose(result, values[:, 1:])


def test_vertices_of_another_space_are_refused(cohort, rng):
    fitted = bd.Preprocessing().fit(cohort)
    with pytest.raises(bd.CohortError, match=r"fitted on 12 vertices.*has 5"):
        fitted.transform(make_cohort(rng, n_vertices=5))


def test_transform_before_fit_is_refused(cohort):
    with pytest.raises(bd.NotFittedError):
        bd.Preprocessing().transform(cohort)


@pytest.mark.parametrize(
    "parameters",
    [{"covariates": "age"}, {"smooth": -1}, {"smooth": 0.5}, {"min_observed": 2}],
)
def test_impossible_parameters_are_refused_at_fit(cohort, parameters):
    with pytest.raises(bd.ParameterError):
        bd.Preprocessing(**parameters).fit(cohort)


def test_too_few_controls_for_the_covariates(cohort):
    few = np.zeros(cohort.n_visits, dtype=bool)
    few[:2] = True
    with pytest.raises(bd.CohortError, match="too few"):
        bd.Preprocessing(covariates=("age",)).fit(
            with_values(cohort, cohort.values, controls=few).select(visits=np.arange(10))
        )


def test_nothing_left_is_an_error(cohort):
    with pytest.raises(bd.CohortError, match="no vertex is left"):
        bd.Preprocessing().fit(with_values(cohort, np.ones_like(cohort.values)))


def test_a_model_fits_and_stages_what_it_preprocessed(simulation):
    cohort = simulation.cohort
    preprocessing = bd.Preprocessing()
    model = bd.DIVE(3, random_state=0, preprocessing=preprocessing).fit(cohort)
    by_hand = preprocessing.fit(cohort).transform(cohort)
    plain = bd.DIVE(3, random_state=0).fit(by_hand)
    np.testing.assert_array_equal(model.responsibilities_, plain.responsibilities_)
    pd.testing.assert_frame_equal(model.stage(cohort), plain.stage(by_hand))
    np.testing.assert_array_equal(model.predict(cohort), plain.predict(by_hand))
    assert model.score(cohort) == plain.score(by_hand)


def test_fitting_a_model_leaves_the_given_preprocessing_alone(simulation):
    preprocessing = bd.Preprocessing()
    settings = {"people": "alike", "personal": False, "random_state": 0}
    bd.DIVE(2, preprocessing=preprocessing, **settings).fit(simulation.cohort)
    assert not hasattr(preprocessing, "keep_")
    assert not hasattr(clone(bd.DIVE(preprocessing=preprocessing)).preprocessing, "keep_")
