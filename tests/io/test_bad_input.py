"""Bad studies: each problem names its row, file and column, and all are told at once."""

import gzip
import re

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.errors import CohortError
from braindive.io.formats import registry


def error_of(path, space, **options):
    with pytest.raises(CohortError) as caught:
        bd.read_cohort(path, space, **options)
    return str(caught.value)


def test_missing_file(spoil, surface):
    message = error_of(spoil(left={1: "nowhere.mgh"}), surface)
    assert "row 2 (sub-00), column left, file nowhere.mgh: the file does not exist" in message


def test_wrong_size_tells_both_sizes_and_the_mesh(spoil, surface, save_mgh):
    path = spoil(left={1: "lh.small.mgh"})
    save_mgh(path.parent / "lh.small.mgh", np.zeros(10242))
    message = error_of(path, surface)
    assert "row 2 (sub-00), column left, file lh.small.mgh" in message
    assert "10242 values (fsaverage5), but the left mesh of 'sheets' has 30" in message


def test_wrong_hemisphere_by_file_name(spoil, surface):
    table = pd.read_csv(spoil(), sep="\t")
    path = spoil(left={2: table["right"][2]})
    message = error_of(path, surface)
    assert f"row 3 (sub-00), column left, file {table['right'][2]}" in message
    assert "of the right hemisphere, not the left one" in message


def test_wrong_hemisphere_by_gifti_metadata(spoil, surface):
    path = spoil(left={0: "map.shape.gii"})
    meta = nib.gifti.GiftiMetaData({"AnatomicalStructurePrimary": "CortexRight"})
    array = nib.gifti.GiftiDataArray(np.zeros(30, dtype=np.float32))
    nib.save(nib.GiftiImage(darrays=[array], meta=meta), path.parent / "map.shape.gii")
    assert "of the right hemisphere, not the left one" in error_of(path, surface)


def test_scans_of_different_meshes_without_a_space(tmp_path, save_mgh):
    save_mgh(tmp_path / "a.mgh", np.ones(10))
    save_mgh(tmp_path / "b.mgh", np.ones(11))
    table = pd.DataFrame({"participant_id": ["a", "b"], "age": [1, 2], "path": ["a.mgh", "b.mgh"]})
    message = error_of(table, None, root=tmp_path)
    assert "row 2 (b), column path, file b.mgh: the file has 11 values, but a.mgh has 10" in message


def test_volume_of_another_shape_or_affine(tmp_path):
    space = bd.Volume("mask", np.ones((3, 3, 3)), np.eye(4))
    for name, shape, scale in (("a", (3, 3, 3), 1), ("b", (3, 3, 4), 1), ("c", (3, 3, 3), 2)):
        image = nib.Nifti1Image(np.ones(shape, dtype=np.float32), np.diag([scale, scale, scale, 1]))
        nib.save(image, tmp_path / f"{name}.nii")
    table = pd.DataFrame(
        {"participant_id": list("abc"), "age": [1, 2, 3], "path": ["a.nii", "b.nii", "c.nii"]}
    )
    message = error_of(table, space, root=tmp_path)
    assert "row 2 (b), column path, file b.nii: the image has shape (3, 3, 4)" in message
    assert "row 3 (c), column path, file c.nii: the affine differs" in message
    assert "row 1" not in message.split("\n", 1)[1]


def test_duplicated_visit_by_session(spoil, surface):
    message = error_of(spoil(session_id={1: "ses-1"}), surface)
    assert "row 2 (sub-00), column session_id: session ses-1 of sub-00 is in row 1" in message


def test_duplicated_visit_by_time(spoil, surface):
    message = error_of(spoil(years={1: "0"}), surface)
    assert "row 2 (sub-00): sub-00 has another visit at time 0 in row 1" in message


def test_same_file_for_two_visits(spoil, surface):
    table = pd.read_csv(spoil(), sep="\t")
    message = error_of(spoil(left={1: table["left"][0]}), surface)
    assert "the same file is named in rows 1, 2" in message


def test_same_file_for_both_sides(spoil, surface, save_mgh, tmp_path):
    name = pd.read_csv(spoil(), sep="\t")["left"][0]
    message = error_of(spoil(right={0: name}), surface)
    assert "the same file is named twice in this row" in message


def test_a_file_that_may_not_be_read_is_not_called_damaged(spoil, surface, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(registry, "find_function", refuse)
    message = error_of(spoil(), surface)
    assert "you may not read the file" in message
    assert "truncated" not in message


@pytest.mark.parametrize(
    "options",
    [{"times": "agee"}, {"controls": "agee"}, {"controls": "agee == 1"}, {"values": ["agee"]}],
)
def test_unknown_column_suggests_one_that_is_there(spoil, surface, options):
    path = spoil(years=None, age=["60", "61", "62", "70", "71", "72"])
    message = error_of(path, surface, **options)
    assert re.search(r"names the column 'agee'.*did you mean 'age'\?", message)


def test_table_without_participants_or_times_or_values(tmp_path):
    path = tmp_path / "cohort.tsv"
    path.write_text("particpant_id\tage\tpath\n1\t2\t3\n")
    assert "no column participant_id (did you mean 'particpant_id'?)" in error_of(path, None)
    path.write_text("participant_id\tvertex_0\n1\t2\n")
    assert "no time column; add one of age, age_at_session, years, acq_time" in error_of(path, None)
    path.write_text("participant_id\tage\tthickness\n1\t2\t3\n")
    assert "name yours with values=" in error_of(path, None)
    path.write_text("")
    assert "cannot be read as a table" in error_of(path, None)
    path.write_text("participant_id\tage\tpath\n")
    assert "has no rows" in error_of(path, None)
    assert "there is no table" in error_of(tmp_path / "none.tsv", None)


@pytest.mark.parametrize(
    ("age", "said"),
    [
        ("sixty", "'sixty' is text, not a number of years"),
        ("2012-05-30", "'2012-05-30' is a date, not a number of years"),
        ("30/05/2012", "is a date"),
        ("n/a", "the visit has no time"),
        ("-4", "the age -4 is negative"),
        ("732", "the age 732 cannot be in years; divide months by 12"),
        ("inf", "'inf' is not a time"),
    ],
)
def test_ages_that_cannot_be(spoil, surface, age, said):
    path = spoil(years=None, age=["60", "61", age, "70", "71", "72"])
    message = error_of(path, surface)
    assert "row 3 (sub-00), column age: " in message
    assert said in message


def test_months_since_baseline_are_not_taken_for_years(spoil, surface):
    message = error_of(spoil(years=["0", "36", "72", "0", "1", "2"]), surface)
    assert "row 3 (sub-00), column years: the visits span 72" in message
    assert "row 6" not in message


def test_dates_that_are_none(spoil, surface):
    path = spoil(years=None, acq_time=["yesterday", *[f"201{i}-01-01" for i in range(5)]])
    path.write_text(path.read_text().replace("years\t", "visit\t"))
    assert "row 1 (sub-00), column acq_time: 'yesterday' is not a date" in error_of(path, surface)


def test_empty_scan(spoil, surface, save_mgh):
    path = spoil()
    table = pd.read_csv(path, sep="\t")
    for column, n in (("left", 30), ("right", 36)):
        save_mgh(path.parent / table[column][3], np.full(n, np.nan))
    message = error_of(path, surface)
    assert f"row 4 (sub-01), column left/right, file {table['left'][3]}" in message
    assert "only NaN" in message


def test_infinite_values(spoil, surface, save_mgh):
    path = spoil()
    table = pd.read_csv(path, sep="\t")
    save_mgh(path.parent / table["left"][3], np.full(30, np.inf))
    assert "row 4 (sub-01)" in (message := error_of(path, surface))
    assert "infinite" in message


def test_truncated_gz(spoil, surface, rng):
    path = spoil(left={4: "lh.cut.mgz"})
    whole = nib.MGHImage(rng.normal(size=(30, 1, 1)).astype(np.float32), np.eye(4)).to_bytes()
    (path.parent / "lh.cut.mgz").write_bytes(gzip.compress(whole)[:-20])
    message = error_of(path, surface)
    assert "row 5 (sub-01), column left, file lh.cut.mgz: the file is truncated" in message


def test_damaged_numbers_are_found_on_reading(spoil, surface, rng):
    path = spoil(left={4: "lh.map.shape.gii"})
    array = nib.gifti.GiftiDataArray(rng.normal(size=30).astype(np.float32))
    nib.save(nib.GiftiImage(darrays=[array]), path.parent / "lh.map.shape.gii")
    text = (path.parent / "lh.map.shape.gii").read_text()
    start = text.index("<Data>") + 6
    (path.parent / "lh.map.shape.gii").write_text(text[:start] + "AAAA" + text[start + 4 :])
    assert "row 5 (sub-01), column left, file lh.map.shape.gii" in error_of(path, surface)


def test_text_in_a_wide_table(tmp_path):
    path = tmp_path / "cohort.tsv"
    path.write_text("participant_id\tage\tvertex_0\na\t1\t2.5\nb\t2\tlow\n")
    assert "row 2 (b), column vertex_0: 'low' is not a number" in error_of(path, None)


def test_wide_table_of_another_width(tmp_path, surface):
    path = tmp_path / "cohort.tsv"
    path.write_text("participant_id\tage\tvertex_0\na\t1\t2.5\n")
    assert "has 1 columns of measurements, but the space 'sheets' has 63" in error_of(path, surface)


@pytest.mark.parametrize("how", ["dots", "absolute", "link"])
def test_files_outside_the_given_folders_are_not_read(spoil, surface, tmp_path, how, save_mgh):
    secret = tmp_path / "secret" / "lh.mgh"
    secret.parent.mkdir()
    save_mgh(secret, np.ones(30))
    name = {"dots": "../secret/lh.mgh", "absolute": str(secret), "link": "link/lh.mgh"}[how]
    path = spoil(left={0: name})
    (path.parent / "link").symlink_to(secret.parent)
    message = error_of(path, surface)
    assert f"row 1 (sub-00), column left, file {name}: the file lies outside" in message
    assert "--root" in message
    assert bd.read_cohort(path, surface, root=secret.parent).values[0, 0] == 1


def test_participant_ids_cannot_lead_to_tables_outside(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "sub-").mkdir(parents=True)
    (tmp_path / "out" / "x_sessions.tsv").write_text("session_id\tage\n1\t60\n")
    path = tmp_path / "in" / "cohort.tsv"
    path.write_text("participant_id\tsession_id\tvertex_0\n/../../out/x\t1\t2\n")
    assert "no time column" in error_of(path, None)


def test_all_problems_are_told_at_once(spoil, surface, save_mgh):
    path = spoil(
        years={0: "soon", 2: ""}, left={1: "nowhere.mgh", 4: "lh.cut.mgh"}, session_id={5: "ses-1"}
    )
    table = pd.read_csv(path, sep="\t")
    (path.parent / "lh.cut.mgh").write_bytes(
        nib.MGHImage(np.zeros((30, 1, 1), dtype=np.float32), np.eye(4)).to_bytes()[:-60]
    )
    for column, n in (("left", 30), ("right", 36)):
        save_mgh(path.parent / table[column][3], np.full(n, np.nan))
    message = error_of(path, surface)
    assert message.startswith("cohort.tsv has 6 problems")
    rows = [int(row) for row in re.findall(r"^  row (\d)", message, re.MULTILINE)]
    assert rows == [1, 2, 3, 4, 5, 6]


def test_columns_that_the_space_has_not(spoil):
    message = error_of(spoil(), bd.load_space("fsaverage5-left"))
    assert "needs the column(s) left, but the table has left and right" in message


def test_frames_that_are_not_there(tmp_path):
    image = nib.MGHImage(np.ones((5, 1, 1, 3), dtype=np.float32), np.eye(4))
    nib.save(image, tmp_path / "stack.mgh")
    table = pd.DataFrame({"participant_id": ["a", "b"], "age": [1, 2], "path": "stack.mgh"})
    assert "holds 3 maps, but 2 row(s) name it" in error_of(table, None, root=tmp_path)
    message = error_of(table.assign(frame=[0, 3]), None, root=tmp_path)
    assert "row 2 (b), column path, file stack.mgh: there is no frame 3" in message
    message = error_of(table.assign(frame=[0, -1]), None, root=tmp_path)
    assert "row 2 (b), column frame: '-1' is not a frame" in message


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a;1;;;0\n", "more than the 4 entries of the header"),
        ("a;1;1E100;2\n", r"column vertex_0: 1e\+100 is too large"),
    ],
)
def test_rows_of_which_something_would_be_lost_are_refused(tmp_path, rows, message):
    path = tmp_path / "cohort.csv"
    path.write_text("participant_id;age;vertex_0;vertex_1\n" + rows)
    with pytest.raises(bd.CohortError, match=message):
        bd.read_cohort(path)


def test_a_separator_at_the_end_of_every_row_loses_nothing(tmp_path):
    path = tmp_path / "cohort.csv"
    path.write_text("participant_id,years,vertex_0,vertex_1\na,1,2,3,\na,2,3,4,\n")
    np.testing.assert_array_equal(bd.read_cohort(path).values, [[2, 3], [3, 4]])
