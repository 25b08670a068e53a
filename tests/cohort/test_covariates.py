"""One value of a covariate for each person, as numbers, or a sentence."""

import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.cohort.covariates import design_columns, learn_covariates


def cohort_with(**columns):
    """Six subjects, two visits each."""
    values = np.random.default_rng(0).normal(size=(12, 3))
    table = pd.DataFrame({name: np.repeat(column, 2) for name, column in columns.items()})
    return bd.Cohort(
        values, subjects=np.repeat(list("fedcba"), 2), times=np.tile([0, 1], 6), table=table
    )


def test_numbers_are_standardised_over_subjects_in_the_order_of_their_ids():
    years = np.array([8.0, 10, 12, 14, 16, 20])
    cohort = cohort_with(education=years)
    (covariate,) = learn_covariates(cohort, ["education"], "shift_on")
    expected = (years[::-1] - years.mean()) / years.std()
    np.testing.assert_allclose(design_columns(cohort, [covariate])[:, 0], expected)
    assert covariate.contrasts == ["per 1"]


def test_categories_are_compared_with_the_first():
    cohort = cohort_with(site=["x", "z", "y", "x", "z", "y"])
    (covariate,) = learn_covariates(cohort, ["site"], "shift_on")
    assert covariate.contrasts == ["y against x", "z against x"]
    columns = design_columns(cohort, [covariate]) * covariate.sds + covariate.means
    np.testing.assert_allclose(
        columns, [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1], [0, 0]], atol=1e-12
    )


def test_categories_of_a_categorical_column_keep_their_order():
    column = pd.Categorical(["low", "high"] * 3, categories=["low", "high"])
    (covariate,) = learn_covariates(cohort_with(dose=column), ["dose"], "shift_on")
    assert covariate.contrasts == ["high against low"]


@pytest.mark.parametrize("column", [[0, 1] * 3, [0.0, 1.0] * 3])
def test_two_numbers_are_two_categories(column):
    (covariate,) = learn_covariates(cohort_with(apoe4=column), ["apoe4"], "shift_on")
    assert covariate.contrasts == ["1 against 0"]


def test_who_has_no_value_is_taken_for_usual_with_a_warning():
    cohort = cohort_with(site=["x", "y"] * 3)
    learnt = learn_covariates(cohort, ["site"], "shift_on")
    with pytest.warns(bd.DataWarning, match="'site' of 2 subjects.*usual ones"):
        found = design_columns(cohort_with(site=["x", "y", None, "w", "x", "y"]), learnt)
    np.testing.assert_array_equal(found[[2, 3], 0], 0.0)
    with pytest.warns(bd.DataWarning, match="'site' of 6 subjects"):
        assert not design_columns(cohort_with(age=range(6)), learnt).any()


def changing():
    cohort = cohort_with(mmse=[30, 29, 28, 27, 26, 25])
    table = cohort.table
    table.loc[3, "mmse"] = 20
    return bd.Cohort(cohort.values, subjects=cohort.subjects, times=cohort.times, table=table)


@pytest.mark.parametrize(
    ("cohort", "names", "message"),
    [
        (
            changing(),
            ["mmse"],
            "'mmse' changes between visits of 1 subjects .of 'e' it is 29 and 20",
        ),
        (cohort_with(sex=["f", "m", None] * 2), ["sex"], "'sex' is missing for 2 subjects.*'a'"),
        (cohort_with(sex=["f"] * 6), ["sex"], "the same for all 6 subjects"),
        (cohort_with(sex=["f"] * 5 + ["m"]), ["sex"], "only 1 subject has 'sex' = 'm'"),
        (cohort_with(sex=["f", "m"] * 3), ["age"], "no column 'age'.*sex"),
        (cohort_with(x=[1, 2, 3, np.inf, 4, 5]), ["x"], "infinite"),
    ],
)
def test_what_is_no_covariate_of_a_person_is_refused(cohort, names, message):
    with pytest.raises(bd.CohortError, match="shift_on: .*" + message):
        learn_covariates(cohort, names, "shift_on")


@pytest.mark.parametrize("names", [3, [1], ["a", "a"]])
def test_names_must_be_names(names):
    with pytest.raises(bd.ParameterError, match="shift_on"):
        learn_covariates(cohort_with(a=range(6)), names, "shift_on")
