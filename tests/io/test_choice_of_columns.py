"""Which columns of a table are taken for what, where several could be it."""

import logging

import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.io.times import column_of_same_kind, column_with_times


def visits(**columns):
    table = {
        "Subject ID": ["a", "a", "b", "b"],
        "Scan date": ["2010-01-01", "2012-01-01", "2011-06-01", "2012-06-01"],
        "Age": ["70", "72", "64", "65"],
        "vertex_0": [1.0, 2.0, 3.0, 4.0],
    }
    return pd.DataFrame(table | columns)


@pytest.mark.parametrize("ages", [["70", "", "64", "65"], ["70", "70", "64", "65"]])
def test_a_complete_date_comes_before_an_age_with_gaps_or_repeats(ages, caplog):
    with caplog.at_level(logging.INFO, "braindive"):
        cohort = bd.read_cohort(visits(Age=ages))
    np.testing.assert_allclose(cohort.times, [0, 730 / 365.25, 0, 366 / 365.25])
    assert "read from 'Scan date', because 'Age'" in caplog.text


def test_a_complete_age_comes_first_as_ever():
    assert bd.read_cohort(visits()).times.tolist() == [70, 72, 64, 65]


def test_an_age_with_gaps_stays_where_the_date_has_gaps_too():
    dates = ["2010-01-01", "2012-01-01", "", "2012-06-01"]
    table = visits(**{"Age": ["70", "", "64", "65"], "Scan date": dates})
    with pytest.raises(bd.CohortError, match=r"row 2 \(a\), column Age: the visit has no time"):
        bd.read_cohort(table)


def test_a_row_that_is_there_twice_says_nothing_of_its_columns():
    table = pd.concat([visits(), visits().iloc[:1]])
    with pytest.raises(bd.CohortError, match=r"row 5 .*the same as row 1"):
        bd.read_cohort(table)
    with pytest.warns(bd.DataWarning, match="left out"):
        kept = bd.read_cohort(table, skip_bad=True)
    assert kept.times.tolist() == [70, 72, 64, 65]


@pytest.mark.parametrize("column", ["Age", "Scan date"])
def test_the_times_of_a_fit_tell_their_column(column):
    cohort = bd.read_cohort(visits(), times=column)
    found = column_with_times(cohort.table, cohort.subjects, cohort.times)
    assert found.lower() == column.lower()
    assert column_with_times(cohort.table, cohort.subjects, cohort.times * 1.01) is None


def test_the_column_itself_comes_before_one_that_counts_from_the_first_visit():
    subjects, ages = np.array(["a", "a", "b", "b"]), np.array([70.8, 71.8, 64.0, 66.0])
    table = pd.DataFrame({"years": [0, 1, 0, 2], "MRI_age": ages})
    assert column_with_times(table, subjects, ages) == "MRI_age"
    assert column_with_times(table[["years"]], subjects, ages) is None
    # Of people who were seen once, a column of zeros tells nothing.
    once = pd.DataFrame({"abeta": [0, 0], "scan_date": ["2010-01-01", "2012-01-01"]})
    assert column_with_times(once, np.array(["a", "b"]), np.array([3.0, 4.0])) is None


def test_dates_of_single_visits_do_not_stand_in_for_an_age():
    table = visits().drop_duplicates("Subject ID").assign(Age=["70", ""])
    with pytest.raises(bd.CohortError, match="column Age: the visit has no time"):
        bd.read_cohort(table)


def test_times_of_another_table_count_from_the_same_event():
    assert column_of_same_kind(["age", "scan_date", "years"], "Scan date") == "scan_date"
    assert column_of_same_kind(["age", "years"], "Scan date") == "years"
    assert column_of_same_kind(["AGE_AT_SCAN", "years"], "age") == "AGE_AT_SCAN"
    assert column_of_same_kind(["age", "my weeks"], "my weeks") == "my weeks"
    assert column_of_same_kind(["years"], "age") is None
    assert column_of_same_kind(["years"], "years since onset") is None


def test_every_column_that_is_known_by_another_name_is_named(caplog):
    table = visits(Diagnosis=["CN", "CN", "AD", "AD"])
    with caplog.at_level(logging.INFO, "braindive"):
        bd.read_cohort(table)
        bd.read_cohort(table.drop(columns="Age"))
    assert "'Subject ID' as participant_id, 'Age' as age, 'Diagnosis' as diagnosis" in caplog.text
    assert caplog.messages[-1] == "Times are read from 'Scan date'."


def test_what_has_its_name_is_not_named(caplog):
    table = visits().rename(columns={"Subject ID": "participant_id", "Age": "age"})
    with caplog.at_level(logging.INFO, "braindive"):
        bd.read_cohort(table)
    assert not caplog.messages


def test_diagnoses_that_differ_in_case_and_blanks_are_one(caplog):
    table = visits(Diagnosis=["cn ", "CN", "Control", "CN"])
    with caplog.at_level(logging.INFO, "braindive"):
        cohort = bd.read_cohort(table)
    assert cohort.table["diagnosis"].tolist() == ["CN", "CN", "Control", "CN"]
    assert "are one: 'cn' as 'CN'." in caplog.text


def told_of_controls(diagnoses, **options):
    findings = bd.inspect_cohort(bd.read_cohort(visits(Diagnosis=diagnoses), **options))
    told = [f"{each.what} {each.where} {each.remedy}" for each in findings]
    return next(each for each in told if " a control" in each)


def test_the_controls_are_counted_by_what_tells_them():
    told = told_of_controls(["CN", "Control", "AD", "AD"])
    assert told.startswith("1 of 2 people is a control, at 2 visits. diagnosis: CN 1, Control 1 ")
    other = told_of_controls(["AD", "AD", "AD", "AD"], controls="Age == 64")
    assert other.startswith("1 of 2 people is a control, at 1 visit.  Name")


def test_where_there_are_none_the_diagnoses_are_named():
    told = told_of_controls(["Healthy volunteer", "Healthy volunteer", "AD", "AD"])
    assert told.startswith("No visit is marked as a control's. diagnosis: AD 2, Healthy")
    assert "--controls" in told
