"""Damage to packed cohorts: told in a sentence, or without effect; never a changed answer."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from typer.testing import CliRunner

import braindive as bd
from attack.damage import answer_or_error, damage_folder, fresh_copy
from braindive.cli.main import app
from braindive.io import packed
from braindive.io.packed import PackedError

OLD = Path(__file__).parents[1] / "io/saved/cohort_of_version_1.zarr"


@pytest.fixture(scope="module")
def store(tmp_path_factory, people, line):
    """A packed cohort of three chunks."""
    folder = tmp_path_factory.mktemp("packed")
    table = bd.write_cohort(people, folder / "study", "table")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "block_width", lambda *_: 5)
        return bd.pack_cohort(table, folder / "study.zarr", line)


@pytest.fixture
def copy(store, tmp_path):
    return fresh_copy(store, tmp_path / "copy.zarr")


def content_of(store):
    """Everything that a packed cohort says."""
    cohort = bd.open_packed(store)
    return {
        "values": np.asarray(cohort.values[:]).tobytes(),
        "subjects": cohort.subjects.tolist(),
        "times": cohort.times.tolist(),
        "controls": None if cohort.controls is None else cohort.controls.tolist(),
        "table": cohort.table.to_dict("list"),
        "space": {name: a.tolist() for name, a in cohort.space.to_arrays().items()},
    }


def test_damage_to_a_packed_cohort_is_told_or_changes_nothing(store, tmp_path, tries, tally):
    truth = repr(content_of(store))
    for number in tries(100):
        rng = np.random.default_rng([3, number])
        broken = fresh_copy(store, tmp_path / "broken.zarr")
        what = damage_folder(broken, rng)
        found = answer_or_error(lambda: repr(content_of(broken)))  # noqa: B023
        if isinstance(found, bd.BraindiveError):
            assert str(tmp_path) in str(found)
            tally.add("refused in a sentence")
        else:
            assert found == truth, what
            tally.add("without effect")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_flipped_bit_in_the_values_is_told_with_the_vertices(copy, number):
    chunk = copy / f"values/c/0/{number}"
    content = bytearray(chunk.read_bytes())
    content[17] ^= 4
    chunk.write_bytes(content)
    last = min(5 * number + 4, 11)
    with pytest.raises(bd.ReadError, match=f"vertices {5 * number} to {last}, is not what was"):
        bd.open_packed(copy)


def test_chunks_that_changed_places_are_told(copy):
    first, second = copy / "values/c/0/0", copy / "values/c/0/1"
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)
    with pytest.raises(bd.ReadError, match="vertices 0 to 4"):
        bd.open_packed(copy)


def test_damage_after_opening_is_noticed_by_the_next_read(copy):
    cohort = bd.open_packed(copy)
    chunk = copy / "values/c/0/1"
    content = bytearray(chunk.read_bytes())
    content[0] ^= 1
    chunk.unlink()  # not in place, which would change what is mapped
    chunk.write_bytes(content)
    np.testing.assert_array_equal(cohort.values[:, 0:5], cohort.values[:, 0:5])
    with pytest.raises(bd.ReadError, match="vertices 5 to 9"):
        _ = cohort.values[:, 3:7]


def test_lost_chunk_is_an_error_and_not_missing_values(copy):
    (copy / "values/c/0/1").unlink()
    with pytest.raises(bd.ReadError, match=r"vertices 5 to 9, is lost; .*pack the cohort again"):
        bd.open_packed(copy)


def test_vertices_that_nobody_measured_are_no_lost_chunk(tmp_path, people, line, monkeypatch):
    values = people.values.copy()
    values[:, 5:10] = np.nan
    cohort = bd.Cohort(values, subjects=people.subjects, times=people.times, space=line)
    table = bd.write_cohort(cohort, tmp_path / "study", "table")
    monkeypatch.setattr(packed, "block_width", lambda *_: 5)
    again = bd.open_packed(bd.pack_cohort(table, tmp_path / "study.zarr", line))
    np.testing.assert_array_equal(again.values[:], values)


def test_other_programs_read_the_store_through_zarr(store, people):
    np.testing.assert_array_equal(zarr.open_group(store, mode="r")["values"][:], people.values)


def test_selections_of_a_packed_cohort_are_those_of_the_array(store, people):
    cohort = bd.open_packed(store)
    rows = np.array([4, 1, 7])
    np.testing.assert_array_equal(cohort.values[rows], people.values[rows])
    np.testing.assert_array_equal(cohort.values[2, 3:9], people.values[2, 3:9])
    np.testing.assert_array_equal(cohort.values[2], people.values[2])
    np.testing.assert_array_equal(cohort.values[:, 11:2:-3], people.values[:, 11:2:-3])
    np.testing.assert_array_equal(cohort.values[..., 4], people.values[..., 4])
    np.testing.assert_array_equal(np.asarray(cohort.values), people.values)
    part = cohort.select(visits=rows)
    np.testing.assert_array_equal(part.values, people.select(visits=rows).values)


def test_command_that_checks_tells_damage_in_one_line(copy):
    good = CliRunner().invoke(app, ["check", str(copy)])
    assert good.exit_code == 0
    (copy / "values/c/0/2").write_bytes(b"short")
    with pytest.raises(bd.ReadError, match="has 5 bytes and not 720"):
        bd.inspect_cohort(bd.open_packed(copy))


def test_store_of_the_first_version_is_read_and_said_to_have_no_checksums():
    cohort = bd.open_packed(OLD)
    assert cohort.subjects.tolist() == list("aabbcc")
    assert np.isnan(cohort.values[:, 3:6]).all()
    assert cohort.values[2, 7] == np.float32(0.35)
    findings = {finding.what: finding for finding in bd.inspect_cohort(cohort)}
    absent = findings["Chunks of the packed cohort are absent: they have no value, or were lost."]
    assert (absent.level, absent.where) == ("warning", "vertices 3 to 5")
    assert any("has no checksums" in what for what in findings)


def test_damage_to_a_store_of_the_first_version_is_never_a_traceback(tmp_path, tries, tally):
    for number in tries(30):
        rng = np.random.default_rng([4, number])
        broken = fresh_copy(OLD, tmp_path / "broken.zarr")
        damage_folder(broken, rng)
        found = answer_or_error(lambda: content_of(broken))  # noqa: B023
        refused = isinstance(found, bd.BraindiveError)
        tally.add("refused in a sentence" if refused else "read, without checksums to compare")


def forge(store, name, **changes):
    """Rewrite metadata of a store of the first version, which has no checksums to renew."""
    path = store / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


class Loud:
    """Says in a file that it was unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_store_of_zarr_format_2_never_reaches_pickle(tmp_path):
    loud = tmp_path / "unpickled"
    store = tmp_path / "forged.zarr"
    (store / "values").mkdir(parents=True)
    described = {**json.loads((OLD / "zarr.json").read_text())["attributes"]}
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    (store / ".zattrs").write_text(json.dumps(described))
    array = {
        "zarr_format": 2,
        "shape": [6, 8],
        "chunks": [6, 8],
        "dtype": "|O",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": [{"id": "pickle", "protocol": 5}],
    }
    (store / "values/.zarray").write_text(json.dumps(array))
    (store / "values/0.0").write_bytes(pickle.dumps(Loud(str(loud))))
    with pytest.raises(PackedError, match="Zarr store of an older format"):
        bd.open_packed(store)
    assert not loud.exists()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("values/zarr.json", {"shape": [6, 3_000_000_000]}),
        ("values/zarr.json", {"shape": [3_000_000_000, 8]}),
        ("values/zarr.json", {"shape": [6, -8]}),
        ("values/zarr.json", {"data_type": "string"}),
        ("values/zarr.json", {"codecs": [{"name": "numcodecs.pickle", "configuration": {}}]}),
        ("space/pairs/zarr.json", {"shape": [10**12, 2]}),
        ("space/pairs/zarr.json", {"data_type": {"name": "null_terminated_bytes"}}),
        ("space/pairs/zarr.json", {"codecs": [{"name": "vlen-utf8"}]}),
        ("space/pairs/zarr.json", {"codecs": [{"name": "numcodecs.pickle"}]}),
        ("space/zarr.json", {"zarr_format": 2}),
    ],
)
def test_only_what_we_write_is_decoded(tmp_path, name, changes):
    store = Path(shutil.copytree(OLD, tmp_path / "forged.zarr"))
    forge(store, name, **changes)
    with pytest.raises(PackedError, match="is damaged"):
        bd.open_packed(store)


def test_fit_of_a_store_that_breaks_meanwhile_ends_in_a_sentence(copy):
    cohort = bd.open_packed(copy)
    (copy / "values/c/0/2").unlink()
    with pytest.raises(bd.ReadError, match="vertices 10 to 11, is lost"):
        bd.DIVE(2, personal=False, random_state=0).fit(cohort)


def test_table_of_a_packed_cohort_is_that_of_the_study(store, people):
    opened = bd.open_packed(store)
    assert opened.table["participant_id"].tolist() == people.subjects.tolist()
    pd.testing.assert_series_equal(opened.table["years"], people.table["years"])
