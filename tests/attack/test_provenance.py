"""The record of a packed cohort is true of its values, whoever writes to the files meanwhile."""

import hashlib

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.io.packed import read_inputs
from braindive.io.scans import ScanReader


def scan(path, value, n_vertices=6):
    values = np.full((n_vertices, 1, 1), value, dtype=np.float32)
    nib.save(nib.MGHImage(values, np.eye(4)), path)


@pytest.fixture
def table(tmp_path):
    for number in range(12):
        scan(tmp_path / f"{number}.mgh", number)
    frame = pd.DataFrame(
        {
            "participant_id": [f"sub-{number}" for number in range(12)],
            "age": 60,
            "path": [f"{number}.mgh" for number in range(12)],
        }
    )
    frame.to_csv(tmp_path / "cohort.tsv", sep="\t", index=False)
    return tmp_path / "cohort.tsv"


def assert_true_record(store, table):
    """Every file that is named has the hash, and the numbers, that the store has of it."""
    cohort = bd.open_packed(store)
    for entry in read_inputs(store).to_dict("records"):
        content = (table.parent / entry["path"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
        assert len(content) == entry["size"]
        if entry["path"].endswith(".mgh"):
            numbers = nib.MGHImage.from_bytes(content).get_fdata().ravel()
            np.testing.assert_array_equal(cohort.values[int(entry["row"])], numbers)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("size", [6, 7])
def test_file_that_changes_while_it_is_read_is_told(table, tmp_path, monkeypatch, when, size):
    read = ScanReader.read

    def disturbed(self, scans, problems):
        changed = tmp_path / "5.mgh"
        disturb = any(changed in each.files.values() for each in scans)
        if disturb and when == "before":
            scan(changed, 99.0, size)
        values = read(self, scans, problems)
        if disturb and when == "after":
            scan(changed, 99.0, size)
        return values

    with monkeypatch.context() as patch:
        patch.setattr(ScanReader, "read", disturbed)
        with pytest.raises(bd.CohortError, match=r"5\.mgh.*(changed while it was read|values now)"):
            bd.pack_cohort(table, tmp_path / "study.zarr")
    assert not (tmp_path / "study.zarr").exists()
    scan(tmp_path / "5.mgh", 99.0)
    assert_true_record(bd.pack_cohort(table, tmp_path / "study.zarr"), table)


def test_table_that_changes_while_it_is_read_is_told(table, tmp_path, monkeypatch):
    from braindive.io import plan

    read = plan.read_table

    def disturbed(*arguments, **options):
        found = read(*arguments, **options)
        table.write_text(table.read_text().replace("\t60\t", "\t61\t", 1))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(plan, "read_table", disturbed)
        with pytest.raises(bd.CohortError, match=r"cohort\.tsv was changed while it was read"):
            bd.pack_cohort(table, tmp_path / "study.zarr")
    assert_true_record(bd.pack_cohort(table, tmp_path / "study.zarr"), table)


def test_file_that_keeps_its_date_and_size_is_hashed_again(table, tmp_path, monkeypatch):
    """Where the clock of the file system is too coarse to tell two writings apart."""
    from braindive.io import provenance

    state = provenance._state
    monkeypatch.setattr(provenance, "_state", lambda path: (0, 0, *state(table)[2:]))
    monkeypatch.setattr(provenance, "_JUST_NOW", 1e9)
    read = ScanReader.read

    def disturbed(self, scans, problems):
        values = read(self, scans, problems)
        scan(tmp_path / "5.mgh", 99.0)
        return values

    monkeypatch.setattr(ScanReader, "read", disturbed)
    with pytest.raises(bd.CohortError, match="changed while it was read"):
        bd.pack_cohort(table, tmp_path / "study.zarr", n_jobs=1)
