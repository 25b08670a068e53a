"""Tables as people have them are read as they are."""

import logging
from datetime import date

import numpy as np
import pandas as pd
import pytest
from openpyxl import Workbook

import braindive as bd
from braindive.errors import CohortError, DataWarning

ROWS = [
    ("S1", "1", "60.5", "CN", "2.25", "1.5"),
    ("S1", "2", "61.75", "CN", "2.125", "1.25"),
    ("S2", "1", "70", "AD", "1.5", "n/a"),
    ("S2", "2", "71.5", "AD", "1.25", "0.5"),
]
NAMES = ("participant_id", "session_id", "age", "diagnosis", "vertex_0", "vertex_1")


def text_of(separator="\t", comma=False, names=NAMES, rows=ROWS):
    lines = [separator.join(names)]
    for row in rows:
        entries = [entry.replace(".", ",") if comma else entry for entry in row]
        lines.append(separator.join(f'"{e}"' if separator in e else e for e in entries))
    return "\n".join(lines) + "\n"


@pytest.fixture
def expected(tmp_path):
    (tmp_path / "plain.tsv").write_text(text_of())
    return bd.read_cohort(tmp_path / "plain.tsv")


def assert_same(cohort, expected):
    np.testing.assert_array_equal(cohort.values, expected.values)
    np.testing.assert_allclose(cohort.times, expected.times)
    assert cohort.subjects.tolist() == expected.subjects.tolist()
    assert cohort.controls.tolist() == expected.controls.tolist()


@pytest.mark.parametrize("name", ["study.csv", "study.tsv", "study.txt"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("comma", [False, True], ids=["points", "decimal commas"])
def test_the_header_tells_the_separator_whatever_the_ending(
    tmp_path, expected, name, separator, comma
):
    (tmp_path / name).write_text(text_of(separator, comma))
    assert_same(bd.read_cohort(tmp_path / name), expected)


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.encode("utf-16"),
        lambda text: text.replace("\n", "\r\n").encode("utf-8-sig"),
        lambda text: ("sep=;\r\n" + text.replace("\n", "\r\n")).encode(),
    ],
    ids=["BOM", "UTF-16", "BOM and CRLF", "sep="],
)
def test_marks_of_excel_are_no_part_of_the_table(tmp_path, expected, encode):
    (tmp_path / "study.csv").write_bytes(encode(text_of(";", comma=True)))
    cohort = bd.read_cohort(tmp_path / "study.csv")
    assert_same(cohort, expected)
    assert cohort.table.columns[0] == "participant_id"


def test_text_of_windows_is_read(tmp_path):
    rows = [("Müller", *row[1:]) for row in ROWS[:2]]
    (tmp_path / "study.csv").write_bytes(text_of(";", rows=rows).encode("cp1252"))
    assert set(bd.read_cohort(tmp_path / "study.csv").subjects) == {"Müller"}


def excel(path, names, rows, empty_first=False):
    book = Workbook()
    page = book.active
    if empty_first:
        page = book.create_sheet("data")
    page.append(names)
    for row in rows:
        page.append(row)
    page.cell(row=len(rows) + 4, column=len(names) + 3).value = None
    book.save(path)
    return path


@pytest.mark.parametrize("empty_first", [False, True])
def test_excel_sheets_are_read(tmp_path, expected, empty_first):
    def cell(text):
        try:
            return float(text)
        except ValueError:
            return None if text == "n/a" else text

    rows = [[cell(entry) for entry in row] for row in ROWS]
    assert_same(bd.read_cohort(excel(tmp_path / "s.xlsx", NAMES, rows, empty_first)), expected)


def test_excel_keeps_numbers_of_people_and_dates(tmp_path):
    rows = [[7, date(2012, 5, 30), 1.5], [7, date(2013, 5, 30), 2.5]]
    cohort = bd.read_cohort(excel(tmp_path / "s.xlsx", ["RID", "EXAMDATE", "vertex_0"], rows))
    assert set(cohort.subjects) == {"7"}
    np.testing.assert_allclose(cohort.times, [0, 365 / 365.25])


def test_excel_without_openpyxl_says_what_to_install(tmp_path, monkeypatch):
    import sys

    path = excel(tmp_path / "s.xlsx", NAMES, ROWS)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(CohortError, match=r"braindive\[excel\]"):
        bd.read_cohort(path)


@pytest.mark.parametrize("name", ["old.xls", "damaged.xlsx"])
def test_other_spreadsheets_are_refused_in_one_sentence(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xd0\xcf\x11\xe0 no zip")
    with pytest.raises(CohortError, match=r"save it as \.xlsx|cannot be read as an Excel"):
        bd.read_cohort(tmp_path / name)


@pytest.mark.parametrize(
    "names",
    [
        ("Subject ID", "visit", "Age", "DX", "vertex_0", "vertex_1"),
        ("RID", "VISCODE", "AGE", "Diagnosis", "vertex_0", "vertex_1"),
        ("PTID", "Session", "age", "Research Group", "vertex_0", "vertex_1"),
        ("Participant-ID", "session_id", "Age at scan", "group", "vertex_0", "vertex_1"),
    ],
)
def test_columns_are_known_by_the_names_that_people_give_them(tmp_path, expected, names):
    (tmp_path / "s.csv").write_text(text_of(",", names=names))
    cohort = bd.read_cohort(tmp_path / "s.csv")
    assert_same(cohort, expected)
    assert cohort.table["participant_id"].tolist() == ["S1", "S1", "S2", "S2"]
    assert cohort.table["session_id"].tolist() == ["1", "2", "1", "2"]
    assert cohort.table["diagnosis"].tolist() == ["CN", "CN", "AD", "AD"]


def test_what_was_taken_for_what_is_noted(tmp_path, caplog):
    names = ("Subject ID", "visit", "Age", "DX", "vertex_0", "vertex_1")
    (tmp_path / "s.csv").write_text(text_of(";", comma=True, names=names))
    with caplog.at_level(logging.INFO, "braindive"):
        bd.read_cohort(tmp_path / "s.csv")
    told = "'Subject ID' as participant_id, 'Age' as age, 'visit' as session_id, 'DX' as diagnosis"
    assert told in caplog.text
    assert "Decimal commas are read in: age" in caplog.text


def test_a_kind_of_visit_that_repeats_is_no_session(tmp_path):
    names = ("ID", "visit", "age", "dx", "vertex_0", "vertex_1")
    rows = [(row[0], "follow-up", *row[2:]) for row in ROWS]
    (tmp_path / "s.csv").write_text(text_of(",", names=names, rows=rows))
    assert "session_id" not in bd.read_cohort(tmp_path / "s.csv").table


def test_arguments_name_columns_in_any_case(tmp_path, expected):
    names = ("code", "wave", "when", "status", "thick_a", "thick_b")
    (tmp_path / "s.csv").write_text(text_of(",", names=names))
    chosen = {"id": "CODE", "times": "When", "values": "THICK_*", "controls": "Status == cn"}
    assert_same(bd.read_cohort(tmp_path / "s.csv", **chosen), expected)
    with pytest.raises(CohortError, match="did you mean 'code'"):
        bd.read_cohort(tmp_path / "s.csv", **{**chosen, "id": "cod"})


def test_named_columns_may_hold_files(tmp_path, surface, study, save_mgh):
    part = study.select(visits=np.arange(3))
    path = bd.write_cohort(part, tmp_path / "study", "mgh")
    table = pd.read_csv(path, sep="\t").rename(columns={"left": "map_lh", "right": "map_rh"})
    table.to_csv(path, sep="\t", index=False)
    cohort = bd.read_cohort(path, surface, values=["map_rh", "map_lh"])
    np.testing.assert_array_equal(cohort.values, part.values)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2012-05-30", "2013-06-02"),
        ("30/05/2012", "02/06/2013"),
        ("5/30/2012", "6/2/2013"),
        ("30.05.2012", "02.06.2013"),
        ("30-05-2012", "02-06-2013"),
        ("2012/05/30", "2013/06/02"),
        ("30 May 2012", "2 June 2013"),
        ("30-MAY-2012", "02-JUN-2013"),
        ("May 30, 2012", "June 2nd, 2013"),
        ("20120530", "20130602"),
        ("30/05/2012 14:30", "02/06/2013 14:30"),
    ],
)
def test_dates_that_can_be_read_in_one_way_are_read(first, second):
    table = pd.DataFrame({"id": ["a", "a"], "Scan date": [first, second], "vertex_0": [1.0, 2.0]})
    cohort = bd.read_cohort(table)
    days = (date(2013, 6, 2) - date(2012, 5, 30)).days
    np.testing.assert_allclose(cohort.times, [0, days / 365.25], atol=1e-9)


def test_dates_that_may_be_two_days_are_refused():
    table = pd.DataFrame(
        {"id": ["a", "a"], "date": ["03/04/2012", "05/06/2013"], "vertex_0": [1.0, 2.0]}
    )
    with pytest.raises(CohortError, match="may be in April or in March; write it as 2012-04-03"):
        bd.read_cohort(table)


def test_codes_of_visits_tell_months_where_nothing_else_tells_the_time():
    table = pd.DataFrame(
        {"PTID": list("aab"), "VISCODE": ["bl", "m18", "m06"], "vertex_0": [1.0, 2.0, 3.0]}
    )
    assert bd.read_cohort(table).times.tolist() == [0, 1.5, 0.5]
    table["VISCODE"] = ["1", "2", "1"]
    with pytest.raises(CohortError, match=r"The number of a visit \(VISCODE\) does not tell"):
        bd.read_cohort(table)


def test_the_age_at_baseline_of_adni_is_no_time():
    table = pd.DataFrame(
        {
            "PTID": ["a", "a", "b"],
            "EXAMDATE": ["2010-01-01", "2011-01-01", "2010-06-01"],
            "AGE": [70.1, 70.1, 65.0],
            "vertex_0": [1.0, 2.0, 3.0],
        }
    )
    np.testing.assert_allclose(bd.read_cohort(table).times, [0, 365 / 365.25, 0])


def test_many_faults_of_a_kind_are_counted(tmp_path):
    rows = [(f"S{i}", "1", "60", "CN", "low" if i else "1", "2") for i in range(90)]
    (tmp_path / "s.csv").write_text(text_of(",", rows=rows))
    with pytest.raises(CohortError) as caught:
        bd.read_cohort(tmp_path / "s.csv")
    lines = str(caught.value).splitlines()
    assert lines[0] == "s.csv has 89 problems (row 1 is the first below the header):"
    assert len(lines) == 6
    assert lines[1] == "  row 2 (S1), column vertex_0: 'low' is not a number."
    assert lines[4].strip() == "3 shown, 86 more of the same kind (rows 5-90)"
    assert lines[5] == "Correct them, or leave these rows out with skip_bad=True (--skip-bad)."


def test_the_cause_of_many_faults_is_told(tmp_path):
    subjects = tmp_path / "subjects"
    for i in range(9):
        (subjects / f"S{i}_1" / "surf").mkdir(parents=True)
    table = pd.DataFrame({"participant_id": [f"S{i}" for i in range(9)], "age": 60.0})
    with pytest.raises(CohortError, match="3 shown, 6 more, all because `session_id` is missing"):
        bd.read_freesurfer_table(subjects, table)


def test_faults_of_all_kinds_are_told_in_one_go(spoil, surface, tmp_path):
    path = spoil(left={1: "nowhere.mgh"}, session_id={5: "ses-1"})
    text = path.read_text().replace("participant_id", "who").replace("years", "when")
    path.write_text(text)
    with pytest.raises(CohortError) as caught:
        bd.read_cohort(path, surface, controls="diagnoses == CN")
    message = str(caught.value)
    assert "no column participant_id" in message
    assert "no time column" in message
    assert "controls names the column 'diagnoses'" in message
    assert "row 2, column left, file nowhere.mgh: the file does not exist" in message


def test_bad_rows_can_be_left_out_with_a_list_of_them(spoil, surface, study, save_mgh):
    path = spoil(years={0: "soon"}, left={3: "nowhere.mgh"})
    table = pd.read_csv(path, sep="\t")
    for column, n in (("left", 30), ("right", 36)):
        save_mgh(path.parent / table[column][4], np.full(n, np.nan))
    with pytest.warns(DataWarning) as caught:
        cohort = bd.read_cohort(path, surface, skip_bad=True)
    message = str(caught[0].message)
    assert message.startswith("3 of 6 rows of cohort.tsv were left out")
    for row in ("row 1 (sub-00)", "row 4 (sub-01)", "row 5 (sub-01)"):
        assert row in message
    np.testing.assert_array_equal(cohort.values, study.values[[1, 2, 5]])


def test_a_packed_cohort_leaves_the_same_rows_out(spoil, surface, study, tmp_path):
    path = spoil(left={3: "nowhere.mgh"})
    with pytest.warns(DataWarning, match="1 of 6 rows"):
        packed = bd.pack_cohort(path, tmp_path / "study.zarr", surface, skip_bad=True)
    np.testing.assert_array_equal(bd.open_packed(packed).values, study.values[[0, 1, 2, 4, 5]])


def test_a_row_that_is_there_twice_is_left_out_once(spoil, surface, study):
    path = spoil()
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], lines[2], *lines[3:]]) + "\n")
    with pytest.warns(DataWarning, match=r"row 3 \(sub-00\): the row is the same as row 2"):
        cohort = bd.read_cohort(path, surface, skip_bad=True)
    np.testing.assert_array_equal(cohort.values, study.values[:6])


def test_where_every_row_is_bad_nothing_is_left_out(spoil, surface):
    with pytest.raises(CohortError, match="6 problems"):
        bd.read_cohort(spoil(left=["x.mgh"] * 6), surface, skip_bad=True)


def test_a_fault_of_the_whole_table_is_not_skipped(spoil, surface):
    path = spoil()
    path.write_text(path.read_text().replace("participant_id", "who"))
    with pytest.raises(CohortError, match="no column participant_id"):
        bd.read_cohort(path, surface, skip_bad=True)


def test_visits_that_no_table_of_regions_has_can_be_left_out(tmp_path):
    regions = pd.DataFrame(
        {
            "lh.aparc.thickness": ["S0_1", "S1_1", "S2_1"],
            "lh_insula_thickness": [3.0, 2.9, 2.8],
            "lh_cuneus_thickness": [1.9, 1.7, 1.8],
        }
    )
    regions.to_csv(tmp_path / "lh.tsv", sep="\t", index=False)
    visits = pd.DataFrame({"RID": ["S0", "S1", "S3"], "visit": 1, "age": [60.0, 61.0, 62.0]})
    with pytest.warns(DataWarning, match=r"1 of 3 rows(.|\n)*row 3 \(S3\): no table of regions"):
        table = bd.read_region_tables(tmp_path / "lh.tsv", visits, skip_bad=True)
    assert bd.read_cohort(table).subjects.tolist() == ["S0", "S1"]
    with pytest.raises(CohortError, match=r"row 3 \(S3\)"):
        bd.read_region_tables(tmp_path / "lh.tsv", visits)


def test_arguments_may_use_the_names_that_the_table_has(tmp_path, surface, study):
    part = study.select(visits=np.arange(3))
    path = bd.write_cohort(part, tmp_path / "study", "freesurfer")
    table = pd.read_csv(path, sep="\t").rename(columns={"left": "LH", "right": "RH"})
    table.to_csv(path, sep="\t", index=False)
    cohort = bd.read_cohort(path, surface, values=["LH", "RH"])
    np.testing.assert_array_equal(cohort.values, part.values)
    with pytest.raises(CohortError, match=r"fits values='LHH' \(did you mean 'LH'\?\).*RH"):
        bd.read_cohort(path, surface, values="LHH")


def test_a_column_of_months_is_not_taken_for_years():
    table = pd.DataFrame({"id": list("aab"), "Month": [0, 6, 0], "vertex_0": [1.0, 2.0, 3.0]})
    with pytest.raises(CohortError, match="divide Month by 12 and call it years"):
        bd.read_cohort(table)


def test_what_is_no_text_is_no_table(tmp_path):
    (tmp_path / "study.csv").write_bytes(bytes(range(256)))
    with pytest.raises(CohortError, match="it is not text"):
        bd.read_cohort(tmp_path / "study.csv")
