"""From a table to a cohort."""

import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.errors import CohortError


def fit(cohort):
    return bd.DIVE(n_clusters=3, n_init=1, people="alike", personal=False, random_state=0).fit(
        cohort
    )


@pytest.fixture(scope="module")
def fitted(study):
    return fit(study)


@pytest.mark.parametrize("format_", ["mgh", "gifti", "nifti", "table"])
def test_every_format_gives_the_same_cohort_and_the_same_fit(
    tmp_path, surface, study, fitted, format_
):
    table = bd.write_cohort(study, tmp_path, format_)
    cohort = bd.read_cohort(table, surface)
    np.testing.assert_array_equal(cohort.values, study.values)
    np.testing.assert_array_equal(cohort.times, study.times)
    np.testing.assert_array_equal(cohort.controls, study.controls)
    assert cohort.subjects.tolist() == study.subjects.tolist()
    again = fit(cohort)
    np.testing.assert_array_equal(again.responsibilities_, fitted.responsibilities_)
    np.testing.assert_array_equal(again.shifts_, fitted.shifts_)


@pytest.mark.parametrize("format_", ["mgh", "nifti", "table"])
def test_volumes_come_back_equal(tmp_path, rng, format_):
    space = bd.Volume("blob", rng.random((5, 4, 6)) < 0.5, np.diag([2.0, 2, 2, 1]))
    cohort = bd.simulate_cohort(4, 2, space=space, n_patches=3, missing=0.1, dtype="float32").cohort
    again = bd.read_cohort(bd.write_cohort(cohort, tmp_path, format_), space)
    np.testing.assert_array_equal(again.values, cohort.values)
    with pytest.raises(bd.ParameterError, match="GIFTI holds surfaces"):
        bd.write_cohort(cohort, tmp_path, "gifti")


def test_wide_table_finds_regions_by_name_in_any_order(tmp_path):
    regions = bd.Regions("lobes", ("frontal", "parietal"), [[0, 1]])
    path = tmp_path / "cohort.csv"
    path.write_text(
        "parietal,participant_id,age,frontal,sex\n2.5,a,60,1.5,F\nn/a,a,61,1.25,F\n0.5,b,70,,M\n"
    )
    cohort = bd.read_cohort(path, regions)
    np.testing.assert_array_equal(cohort.values, [[1.5, 2.5], [1.25, np.nan], [np.nan, 0.5]])
    assert cohort.table["sex"].tolist() == ["F", "F", "M"]
    assert list(cohort.table.columns) == ["participant_id", "age", "sex"]


def test_wide_table_takes_columns_by_pattern(tmp_path):
    path = tmp_path / "cohort.tsv"
    path.write_text("participant_id\tyears\tlh_a\tlh_b\trh_a\n1\t0\t1\t2\t3\n1\t1\t4\t5\t6\n")
    cohort = bd.read_cohort(path, values="lh_*")
    np.testing.assert_array_equal(cohort.values, [[1, 2], [4, 5]])
    assert cohort.subject_ids.tolist() == ["1"]


def test_covariates_are_numbers_where_they_can_be(spoil, surface):
    path = spoil(mmse=["30", "29", "n/a", "28", "27", "26"], site=list("abcabc"))
    table = bd.read_cohort(path, surface).table
    np.testing.assert_array_equal(table["mmse"], [30, 29, np.nan, 28, 27, 26])
    assert table["site"].tolist() == list("abcabc")


@pytest.mark.parametrize("column", ["age", "age_at_session", "years"])
def test_times_come_from_any_of_the_usual_columns(spoil, surface, column):
    path = spoil(**{"years": "0", column: ["60", "61", "62.5", "70", "71", "72"]})
    cohort = bd.read_cohort(path, surface)
    np.testing.assert_array_equal(cohort.times, [60, 61, 62.5, 70, 71, 72])


def test_dates_become_years_since_the_participants_first(tmp_path):
    path = tmp_path / "cohort.tsv"
    path.write_text(
        "participant_id\tacq_time\tvertex_0\n"
        "a\t2011-07-01T12:00:00\t1\n"
        "a\t2010-07-01T12:00:00\t2\n"
        "b\t2015-01-01\t3\n"
    )
    times = bd.read_cohort(path).times
    np.testing.assert_allclose(times, [365 / 365.25, 0, 0])


def test_times_come_from_bids_sessions(tmp_path):
    for participant, ages in (("sub-1", (60, 62)), ("sub-2", (70, 71))):
        (tmp_path / participant).mkdir()
        (tmp_path / participant / f"{participant}_sessions.tsv").write_text(
            "session_id\tage\n" + "".join(f"ses-{i}\t{age}\n" for i, age in enumerate(ages))
        )
    path = tmp_path / "cohort.tsv"
    path.write_text(
        "participant_id\tsession_id\tvertex_0\nsub-2\tses-1\t1\nsub-1\tses-0\t2\nsub-1\tses-1\t3\n"
    )
    assert bd.read_cohort(path).times.tolist() == [71, 60, 62]


def test_bids_visit_without_time_is_named(tmp_path):
    (tmp_path / "sub-1").mkdir()
    (tmp_path / "sub-1" / "sub-1_sessions.tsv").write_text("session_id\tage\nses-0\t60\n")
    path = tmp_path / "cohort.tsv"
    path.write_text("participant_id\tsession_id\tvertex_0\nsub-1\tses-0\t1\nsub-2\tses-0\t2\n")
    with pytest.raises(CohortError, match=r"row 2 \(sub-2\), column age: the visit has no time"):
        bd.read_cohort(path)


@pytest.mark.parametrize(
    ("words", "controls", "expected"),
    [
        (["CN", "AD", "cn"], None, [True, False, True]),
        (["Healthy control", "MCI", "n/a"], None, [True, False, False]),
        (["AD", "MCI", "PCA"], None, None),
        (["0", "1", "0"], "diagnosis == 0", [True, False, True]),
        (["A", "B", "A"], "diagnosis != 'A'", [False, True, False]),
        (["true", "false", "true"], "diagnosis", [True, False, True]),
    ],
)
def test_controls_are_told_by_the_diagnosis_or_a_condition(words, controls, expected):
    table = pd.DataFrame(
        {"participant_id": list("abc"), "age": [1, 2, 3], "diagnosis": words, "vertex_0": [1, 2, 3]}
    )
    found = bd.read_cohort(table, controls=controls).controls
    assert (None if found is None else found.tolist()) == expected


def test_a_condition_that_no_row_meets_lists_what_there_is():
    table = pd.DataFrame({"participant_id": ["a"], "age": [1], "group": ["HC"], "vertex_0": [1]})
    with pytest.raises(CohortError, match=r"no row .* 'CN' in the column group; it has HC"):
        bd.read_cohort(table, controls="group == CN")


def test_order_of_threads_does_not_change_rows(spoil, surface):
    path = spoil()
    one, many = bd.read_cohort(path, surface, n_jobs=1), bd.read_cohort(path, surface, n_jobs=4)
    np.testing.assert_array_equal(one.values, many.values)


def test_progress_ends_with_all_scans(spoil, surface):
    seen = []
    bd.read_cohort(spoil(), surface, progress=lambda *told: seen.append(told))
    assert seen[-1] == ("read", 6, 6)


def test_scans_without_a_space_are_taken_as_they_are(tmp_path, rng, save_mgh):
    values = rng.normal(size=(2, 7)).astype(np.float32)
    for i in range(2):
        save_mgh(tmp_path / f"{i}.mgh", values[i])
    table = pd.DataFrame(
        {"participant_id": ["a", "b"], "age": [60, 61], "path": ["0.mgh", "1.mgh"]}
    )
    cohort = bd.read_cohort(table, root=tmp_path)
    np.testing.assert_array_equal(cohort.values, values)
    assert cohort.space is None


def test_an_age_that_stays_the_same_is_no_time_where_another_column_tells(tmp_path):
    path = tmp_path / "cohort.tsv"
    path.write_text(
        "participant_id\tage\tyears\tvertex_0\na\t60\t0\t1\na\t60\t1.5\t2\nb\t71\t0\t3\n"
    )
    cohort = bd.read_cohort(path)
    assert cohort.times.tolist() == [0, 1.5, 0]
    assert cohort.table["age"].tolist() == [60, 60, 71]
    again = bd.read_cohort(bd.write_cohort(cohort, tmp_path / "again", "table"))
    assert again.times.tolist() == [0, 1.5, 0]
    assert again.table["age"].tolist() == [60, 60, 71]


def test_an_age_that_changes_is_the_time_even_where_there_are_years(tmp_path):
    path = tmp_path / "cohort.tsv"
    path.write_text("participant_id\tage\tyears\tvertex_0\na\t60\t0\t1\na\t61.5\t1.5\t2\n")
    assert bd.read_cohort(path).times.tolist() == [60, 61.5]
