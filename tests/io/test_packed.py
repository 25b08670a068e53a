"""Packing: the same cohort, in little memory, whatever interrupts it."""

import hashlib
import json
import os
import signal
import subprocess
import sys

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
import zarr

import braindive as bd
from braindive.io import packed
from braindive.io.packed import PackedError, read_inputs


def bytes_of(folder):
    """Every file of a folder with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def table(tmp_path, study):
    return bd.write_cohort(study, tmp_path / "study", "mgh")


def test_packed_cohort_is_what_reading_gives(tmp_path, table, surface):
    read = bd.read_cohort(table, surface)
    cohort = bd.open_packed(bd.pack_cohort(table, tmp_path / "study.zarr", surface))
    np.testing.assert_array_equal(cohort.values[:], read.values)
    np.testing.assert_array_equal(cohort.times, read.times)
    np.testing.assert_array_equal(cohort.controls, read.controls)
    assert cohort.subjects.tolist() == read.subjects.tolist()
    pd.testing.assert_frame_equal(cohort.table, read.table)
    assert cohort.space.sides == ("left", "right")
    np.testing.assert_array_equal(cohort.graph.toarray(), read.graph.toarray())


def test_fit_of_a_packed_cohort_is_that_of_arrays(tmp_path, table, surface):
    cohort = bd.open_packed(bd.pack_cohort(table, tmp_path / "study.zarr", surface))
    # Rows in another order than subjects and times, so that they are put in order block by block.
    shuffled = np.random.default_rng(0).permutation(cohort.n_visits)
    frame = pd.read_csv(table, sep="\t").iloc[shuffled]
    other = bd.pack_cohort(frame, tmp_path / "other.zarr", surface, root=table.parent)
    fits = [
        bd.DIVE(n_clusters=3, n_init=1, people="alike", personal=False, random_state=0).fit(data)
        for data in (bd.read_cohort(table, surface), cohort, bd.open_packed(other))
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.responsibilities_, fits[0].responsibilities_)
        np.testing.assert_array_equal(fit.shifts_, fits[0].shifts_)


def test_chunks_hold_all_visits_in_single_precision(tmp_path, table, surface):
    store = zarr.open_group(bd.pack_cohort(table, tmp_path / "study.zarr", surface), mode="r")
    assert store["values"].chunks[0] == 72
    assert store["values"].dtype == np.float32


def test_blocks_of_vertices_are_put_together_again(tmp_path, rng, monkeypatch):
    values = rng.normal(size=(6, 50)).astype(np.float32)
    values[2, 3:9] = np.nan
    cohort = bd.Cohort(values, subjects=list("aabbcc"), times=[0, 1] * 3)
    path = bd.write_cohort(cohort, tmp_path / "study", "nifti")
    monkeypatch.setattr(packed, "block_width", lambda *_: 7)
    again = bd.open_packed(bd.pack_cohort(path, tmp_path / "study.zarr", n_jobs=2))
    assert again.values.chunks == (6, 7)
    assert again.has_missing
    np.testing.assert_array_equal(again.values[:], values)


def test_record_of_inputs_has_sizes_and_hashes(tmp_path, table, surface):
    inputs = read_inputs(bd.pack_cohort(table, tmp_path / "study.zarr", surface))
    assert len(inputs) == 1 + 2 * 72
    for entry in inputs.to_dict("records"):
        content = (table.parent / entry["path"]).read_bytes()
        assert entry["size"] == len(content)
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()


def test_wide_tables_and_volumes_and_regions_can_be_packed(tmp_path, rng):
    regions = bd.Regions("lobes", ("a", "b", "c"), [[0, 1]])
    volume = bd.Volume("blob", rng.random((3, 4, 5)) < 0.6, np.eye(4), 18)
    for space, format_ in ((regions, "table"), (volume, "nifti")):
        cohort = bd.simulate_cohort(3, 2, space=space, n_patches=2, dtype="float32").cohort
        path = bd.write_cohort(cohort, tmp_path / format_, format_)
        again = bd.open_packed(bd.pack_cohort(path, tmp_path / f"{format_}.zarr", space))
        np.testing.assert_array_equal(again.values[:], cohort.values)
        np.testing.assert_array_equal(again.graph.toarray(), space.graph().toarray())
        assert type(again.space) is type(space)


_CHILD = """
import os, signal, sys
import braindive as bd
from braindive.space import space_from_arrays
import numpy as np

def progress(stage, done, total):
    if [stage, str(done)] == sys.argv[4:6]:
        os.kill(os.getpid(), signal.SIGKILL)

with np.load(sys.argv[3]) as arrays:
    space = space_from_arrays(arrays)
bd.pack_cohort(sys.argv[1], sys.argv[2], space, n_jobs=1, progress=progress)
"""


def pack_in_a_child(table, output, space, *kill_at):
    np.savez(table.parent / "space.npz", **space.to_arrays())
    arguments = [str(table), str(output), str(table.parent / "space.npz"), *map(str, kill_at)]
    return subprocess.run([sys.executable, "-c", _CHILD, *arguments], check=False).returncode


def interrupt_packing(table, output, space):
    """Pack until 40 scans are read, where Ctrl-C comes."""

    def progress(stage, done, total):
        if (stage, done) == ("read", 40):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bd.pack_cohort(table, output, space, n_jobs=1, progress=progress)


@pytest.mark.parametrize("kill_at", [("read", 40), ("write", 1)])
def test_killed_packing_goes_on_to_the_same_bytes(tmp_path, table, surface, kill_at):
    whole = bd.pack_cohort(table, tmp_path / "whole.zarr", surface, n_jobs=1)
    output = tmp_path / "study.zarr"
    assert pack_in_a_child(table, output, surface, *kill_at) == -signal.SIGKILL
    assert not output.exists()
    seen = []
    bd.pack_cohort(table, output, surface, progress=lambda *told: seen.append(told))
    assert seen[0] == ("read", 40 if kill_at[0] == "read" else 72, 72)
    assert bytes_of(output) == bytes_of(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study", "study.zarr", "whole.zarr"]


def test_files_that_changed_since_the_interruption_are_read_again(
    tmp_path, table, surface, save_mgh
):
    output = tmp_path / "study.zarr"
    interrupt_packing(table, output, surface)
    scan = table.parent / pd.read_csv(table, sep="\t")["left"][2]
    save_mgh(scan, np.full(30, 7.0))
    cohort = bd.open_packed(bd.pack_cohort(table, output, surface))
    assert (cohort.values[2, :27] == 7).all()


def test_half_a_line_in_the_journal_is_read_again(tmp_path, table, surface):
    output = tmp_path / "study.zarr"
    whole = bd.pack_cohort(table, tmp_path / "whole.zarr", surface)
    interrupt_packing(table, output, surface)
    journal = tmp_path / "study.zarr.partial" / "journal.jsonl"
    journal.write_text(journal.read_text()[:-30])
    assert bytes_of(bd.pack_cohort(table, output, surface)) == bytes_of(whole)


def test_what_is_left_of_another_study_is_not_used(tmp_path, table, surface):
    output = tmp_path / "study.zarr"
    interrupt_packing(table, output, surface)
    frame = pd.read_csv(table, sep="\t").iloc[::-1]
    frame.to_csv(table, sep="\t", index=False)
    cohort = bd.open_packed(bd.pack_cohort(table, output, surface))
    np.testing.assert_array_equal(cohort.values[:], bd.read_cohort(table, surface).values)


def test_finished_output_is_kept_for_the_same_study_only(tmp_path, table, surface, save_mgh):
    output = bd.pack_cohort(table, tmp_path / "study.zarr", surface)
    before = bytes_of(output)
    (tmp_path / "study.zarr.partial").mkdir()
    assert bd.pack_cohort(table, output, surface) == output
    assert bytes_of(output) == before
    assert not (tmp_path / "study.zarr.partial").exists()
    save_mgh(table.parent / pd.read_csv(table, sep="\t")["left"][2], np.full(30, 7.0))
    with pytest.raises(PackedError, match="have changed"):
        bd.pack_cohort(table, output, surface)
    with pytest.raises(PackedError, match="another study"):
        bd.pack_cohort(table, output, surface, controls="diagnosis == patient")
    assert bytes_of(output) == before


def test_bad_scans_are_told_at_once_and_leave_no_output(tmp_path, table, surface, save_mgh):
    frame = pd.read_csv(table, sep="\t")
    for row in (3, 60):
        save_mgh(table.parent / frame["left"][row], np.full(30, np.inf))
    with pytest.raises(bd.CohortError, match=r"2 problems[\s\S]*row 4 [\s\S]*row 61 "):
        bd.pack_cohort(table, tmp_path / "study.zarr", surface)
    assert not (tmp_path / "study.zarr").exists()


def test_full_disk_is_told_before_any_scan_is_read(tmp_path, table, surface, monkeypatch):
    monkeypatch.setattr(
        packed.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10_000})()
    )
    with pytest.raises(PackedError, match=r"packing needs 0\.0 GB .* only 0\.0 GB are free"):
        bd.pack_cohort(table, tmp_path / "study.zarr", surface)
    assert not (tmp_path / "study.zarr.partial").exists()


def test_disk_that_fills_up_meanwhile_leaves_what_was_read(tmp_path, table, surface, monkeypatch):
    whole = bd.pack_cohort(table, tmp_path / "whole.zarr", surface)
    output = tmp_path / "study.zarr"

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(packed, "_write_store", full)
        with pytest.raises(PackedError, match=r"No space left on device.*goes on from there"):
            bd.pack_cohort(table, output, surface)
    assert bytes_of(bd.pack_cohort(table, output, surface)) == bytes_of(whole)


def test_folders_that_are_no_packed_cohort_are_refused(tmp_path, table, surface):
    with pytest.raises(PackedError, match="there is no packed cohort"):
        bd.open_packed(tmp_path / "none.zarr")
    with pytest.raises(PackedError, match="is not a packed cohort"):
        bd.open_packed(table.parent)
    zarr.open_group(tmp_path / "other.zarr", mode="w")
    with pytest.raises(PackedError, match="is not a packed cohort"):
        bd.open_packed(tmp_path / "other.zarr")
    output = bd.pack_cohort(table, tmp_path / "study.zarr", surface)
    metadata = json.loads((output / "zarr.json").read_text())
    metadata["attributes"]["version"] = 99
    (output / "zarr.json").write_text(json.dumps(metadata))
    with pytest.raises(PackedError, match=r"version 99.*update braindive"):
        bd.open_packed(output)


_MEASURE = """
import resource, sys
import braindive as bd
bd.pack_cohort(sys.argv[1], sys.argv[2], n_jobs=2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_number_of_scans(tmp_path, rng):
    """144 MB of scans pack within 70 MB more than 7 MB of scans do."""
    stack = rng.normal(size=(60000, 1, 1, 600)).astype(np.float32)
    nib.save(nib.MGHImage(stack, np.eye(4)), tmp_path / "stack.mgh")
    del stack
    peaks = []
    for n_scans in (30, 600):
        frame = pd.DataFrame(
            {
                "participant_id": [f"sub-{i}" for i in range(n_scans)],
                "age": 60,
                "path": "stack.mgh",
                "frame": range(n_scans),
            }
        )
        table = tmp_path / f"{n_scans}.tsv"
        frame.to_csv(table, sep="\t", index=False)
        done = subprocess.run(
            [sys.executable, "-c", _MEASURE, str(table), str(tmp_path / f"{n_scans}.zarr")],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        peaks.append(int(done.stdout) * 1024)
    assert peaks[1] - peaks[0] < 70e6


def test_packed_cohort_can_be_written_as_files_again(tmp_path, table, surface):
    cohort = bd.open_packed(bd.pack_cohort(table, tmp_path / "study.zarr", surface))
    again = bd.read_cohort(bd.write_cohort(cohort, tmp_path / "again", "gifti"), surface)
    np.testing.assert_array_equal(again.values, cohort.values[:])
    assert again.subjects.tolist() == cohort.subjects.tolist()
