"""Columns of a cohort's table are found in whatever case they are written."""

import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.cohort.covariates import learn_covariates
from braindive.cohort.sites import site_codes, site_names
from braindive.cohort.table_columns import find_column


@pytest.fixture
def cohort(rng):
    n = 12
    table = pd.DataFrame(
        {
            "age": rng.normal(70, 5, n),
            "Sex": ["F", "M"] * 6,
            "Scanner": ["Skyra"] * 6 + ["Trio"] * 6,
        }
    )
    values, controls = rng.normal(size=(n, 4)), np.ones(n, dtype=bool)
    return bd.Cohort(values, subjects=range(n), times=[0] * n, controls=controls, table=table)


def test_the_exact_name_comes_first_and_any_other_must_be_the_only_one():
    table = pd.DataFrame(columns=["Age", "age", "Scan date"])
    assert [find_column(table, name) for name in ("age", "Age")] == ["age", "Age"]
    assert find_column(table, "scan_date") == "Scan date"
    with pytest.raises(bd.ParameterError, match="'AGE' may be 'Age' and 'age'"):
        find_column(table, "AGE")


def test_covariates_in_any_case_do_the_same(cohort):
    as_there = bd.Preprocessing(covariates=["age", "Sex"]).fit_transform(cohort)
    otherwise = bd.Preprocessing(covariates=["Age", "sex"]).fit_transform(cohort)
    np.testing.assert_array_equal(otherwise.values, as_there.values)


def test_a_model_finds_its_covariates_in_a_table_that_writes_them_otherwise(cohort):
    fitted = bd.Preprocessing(covariates=["Age"]).fit(cohort)
    renamed = cohort.table.rename(columns={"age": "AGE"})
    other = bd.Cohort(cohort.values, subjects=cohort.subjects, times=cohort.times, table=renamed)
    np.testing.assert_array_equal(fitted.transform(other).values, fitted.transform(cohort).values)


def test_a_scanner_is_a_group_in_any_case(cohort):
    numbered = bd.Cohort(
        cohort.values,
        subjects=cohort.subjects,
        times=cohort.times,
        controls=cohort.controls,
        table=cohort.table.assign(Scanner=[1, 2] * 6),
    )
    assert bd.Preprocessing(covariates=["Scanner"]).fit(numbered).covariates_[0].groups


def test_sites_and_effects_are_found_too(cohort):
    assert set(site_names(cohort, "scanner")) == {"Skyra", "Trio"}
    assert learn_covariates(cohort, ["sex"], "shift_on")[0].name == "Sex"


@pytest.mark.parametrize(
    ("ask", "meant"),
    [
        (lambda cohort: bd.Preprocessing(covariates=["Agee"]).fit(cohort), "'age'"),
        (lambda cohort: site_names(cohort, "Scaner"), "'Scanner'"),
        (lambda cohort: learn_covariates(cohort, ["sexx"], "shift_on"), "'Sex'"),
        (lambda cohort: bd.group_maps(cohort, by="sx"), "'Sex'"),
    ],
)
def test_what_was_perhaps_meant_is_said(cohort, ask, meant):
    with pytest.raises(bd.BraindiveError, match=rf"no column .*did you mean {meant}\?"):
        ask(cohort)


def test_a_site_that_is_written_otherwise_is_suggested(cohort):
    with pytest.raises(bd.CohortError, match=r"site 'Skyra' .*\(did you mean 'skyra'\?\)"):
        site_codes(cohort, "Scanner", ["skyra", "Trio"])


@pytest.mark.parametrize(
    "ask",
    [
        lambda cohort: bd.Preprocessing(covariates=["Sex"]).fit(cohort),
        lambda cohort: site_names(cohort, "Sex"),
    ],
)
def test_all_visits_without_an_entry_are_named(cohort, ask):
    table = cohort.table.assign(Sex=cohort.table["Sex"].where(~cohort.table.index.isin([2, 7])))
    other = bd.Cohort(
        cohort.values,
        subjects=cohort.subjects,
        times=cohort.times,
        controls=cohort.controls,
        table=table,
    )
    told = r"2 visits: 2 at 0, 7 at 0; fill"
    with pytest.raises(bd.CohortError, match=told):
        ask(other)
