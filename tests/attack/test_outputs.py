"""Outputs never destroy, two at once never mix, and a full disk leaves nothing half."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app
from braindive.io import outputs
from braindive.io.outputs import BusyError, only_writer, replace_file

PATIENCE = 120


@pytest.fixture(scope="module")
def people(people):
    """The people of other tests, as vertices without a space."""
    return bd.Cohort(
        people.values, subjects=people.subjects, times=people.times, controls=people.controls
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory, people):
    return bd.write_cohort(people, tmp_path_factory.mktemp("outputs") / "study", "table").parent


@pytest.fixture(scope="module")
def saved(tmp_path_factory, people):
    path = tmp_path_factory.mktemp("model") / "fit.dive"
    bd.DIVE(2, n_init=1, random_state=0).fit(people).save(path)
    return path


@pytest.fixture
def model(saved, tmp_path):
    path = tmp_path / "fit.dive"
    path.write_bytes(saved.read_bytes())
    return path


def command(*arguments):
    """Run a command; its exit code and what it says of an error."""
    found = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        assert isinstance(found.exception, bd.BraindiveError), found.exception
        return 1, str(found.exception)
    return found.exit_code, found.stderr


def fingerprints(folder):
    return {str(p): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def refused(folder, *arguments):
    """The one sentence with which a command refuses, leaving every file as it was."""
    before = fingerprints(folder)
    code, message = command(*arguments)
    assert code == 1
    assert message.count("\n") == 0
    assert fingerprints(folder) == before
    return message


def test_output_that_is_an_input_is_refused(study, model, tmp_path):
    table = study / "cohort.tsv"
    assert "is an input" in refused(study, "fit", table, "-k", 2, "-o", table)
    assert "is an input" in refused(tmp_path, "stage", model, table, "-o", model)
    assert "is an input" in refused(study, "stage", model, table, "-o", table)
    assert "is an input" in refused(tmp_path, "report", model, "-o", model)
    assert "is an input" in refused(tmp_path, "fit", table, "--start", model, "-o", model)
    assert "is an input" in refused(study, "predict", model, table, "-o", study)
    link = tmp_path / "link.tsv"
    link.symlink_to(table)
    assert "is an input" in refused(study, "stage", model, table, "-o", link, "--overwrite")


def test_output_in_a_packed_cohort_that_is_read_is_refused(study, tmp_path):
    store = bd.pack_cohort(study / "cohort.tsv", tmp_path / "study.zarr")
    assert "is an input" in refused(store, "fit", store, "-o", store / "new.dive")
    assert "which is read" in refused(store, "select", store, "-o", store / "selection")


def test_file_that_is_not_ours_needs_to_be_asked_for(study, model, tmp_path):
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("three years of work\n")
    table = study / "cohort.tsv"
    assert "was not written by braindive" in refused(tmp_path, "stage", model, table, "-o", thesis)
    assert "was not written by braindive" in refused(tmp_path, "fit", table, "-o", thesis)
    assert "was not written by braindive" in refused(tmp_path, "report", model, "-o", thesis)
    assert command("stage", model, table, "-o", thesis, "--overwrite")[0] == 0
    assert command("stage", model, table, "-o", thesis)[0] == 0  # now it is ours
    assert thesis.read_text().startswith("participant_id\t")


def test_study_that_is_there_is_not_simulated_over(study):
    assert "exists; choose another folder" in refused(study, "simulate", study)


def test_links_are_written_through(study, model, tmp_path):
    real = tmp_path / "disk" / "stages.tsv"
    real.parent.mkdir()
    link = tmp_path / "stages.tsv"
    link.symlink_to(real)
    assert command("stage", model, study / "cohort.tsv", "-o", link)[0] == 0
    assert link.is_symlink()
    assert real.read_text().startswith("participant_id\t")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_pipes_devices_and_folders_are_refused_and_stay(study, model, tmp_path, kind):
    path = tmp_path / "odd.tsv"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/null")
    else:
        path.mkdir()
    for arguments in (
        ("stage", model, study / "cohort.tsv", "-o", path),
        ("fit", study / "cohort.tsv", "-k", 2, "-o", path),
        ("report", model, "-o", path),
    ):
        code, message = command(*arguments, "--overwrite")
        assert code == 1
        assert "is a folder" in message or "is a device or a pipe" in message
    with pytest.raises(bd.ParameterError):
        bd.load_model(model).save(path)
    assert not path.is_file()
    assert not Path("/dev/null").is_file()


def test_dash_is_the_standard_output(study, model):
    done = CliRunner().invoke(app, ["stage", str(model), str(study / "cohort.tsv"), "-o", "-"])
    assert done.stdout.startswith("participant_id\t")
    assert not Path("-").exists()
    page = CliRunner().invoke(app, ["report", str(model), "-o", "-"])
    assert page.stdout.rstrip().endswith("</html>")
    assert "needs the name of a file" in command("fit", study / "cohort.tsv", "-o", "-")[1]


def test_packing_never_removes_what_it_did_not_write(study, tmp_path):
    table, target = study / "cohort.tsv", tmp_path / "study.zarr"
    other = tmp_path / "study.zarr.partial"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(bd.CohortError, match=r"holds something else \(notes\.txt\)"):
        bd.pack_cohort(table, target)
    assert (other / "notes.txt").read_text() == "mine"
    for bad, words in ((".", "no name"), ("nowhere/x.zarr", "no folder"), (table, "is a file")):
        message = refused(study, "pack", table, "-o", bad)
        assert words in message
    assert "is no packed cohort" in refused(study, "pack", table, "-o", study)


LOCKED = """
import sys, time
from pathlib import Path
from braindive.io.outputs import only_writer
with only_writer(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(1000)
"""


@pytest.fixture
def other_process(tmp_path):
    """A process that holds the lock of an output, until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", LOCKED, str(tmp_path / "fit.dive")], stdout=subprocess.PIPE
    )
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_output_that_another_process_writes_is_refused_with_its_name(
    other_process, study, tmp_path
):
    output = tmp_path / "fit.dive"
    code, message = command("fit", study / "cohort.tsv", "-k", 2, "-o", output)
    assert code == 1
    assert f"{output} is being written by process {other_process.pid} on " in message
    other_process.send_signal(signal.SIGKILL)
    other_process.wait()
    assert (tmp_path / ".fit.dive.lock").exists()
    with only_writer(output):  # what a killed process left stands in nobody's way
        pass
    assert not (tmp_path / ".fit.dive.lock").exists()


def test_unfinished_files_of_dead_processes_are_removed_and_those_of_others_stay(tmp_path):
    path = tmp_path / "table.tsv"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = outputs.socket.gethostname()
    stale = tmp_path / f".table.tsv.{host}-{dead.pid}-00000000.part"
    alive = tmp_path / f".table.tsv.{host}-{os.getppid()}-00000000.part"
    elsewhere = tmp_path / ".table.tsv.another-computer-1-00000000.part"
    for each in (stale, alive, elsewhere):
        each.touch()
    with replace_file(path) as temporary:
        temporary.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted([path, alive, elsewhere])


def test_two_writers_of_one_file_leave_one_whole_file(tmp_path):
    path = tmp_path / "table.tsv"
    with replace_file(path) as one, replace_file(path) as other:
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one"
    assert [each.name for each in tmp_path.iterdir()] == ["table.tsv"]


PACK = "import sys, braindive as bd; bd.pack_cohort(sys.argv[1], sys.argv[2])"


def test_two_packs_to_one_output_leave_one_whole_store(study, tmp_path, tries, tally):
    table = study / "cohort.tsv"
    alone = fingerprints(bd.pack_cohort(table, tmp_path / "alone.zarr"))
    truth = {Path(name).relative_to(tmp_path / "alone.zarr"): b for name, b in alone.items()}
    for number in tries(1):
        output = tmp_path / f"{number}.zarr"
        both = [
            subprocess.Popen(
                [sys.executable, "-c", PACK, table, output], stderr=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        messages = [process.communicate(timeout=PATIENCE)[1] for process in both]
        codes = sorted(process.returncode for process in both)
        assert codes in ([0, 0], [0, 1]), messages
        assert all("is being written by process" in text for text in messages if text)
        found = {Path(n).relative_to(output): b for n, b in fingerprints(output).items()}
        assert found == truth
        tally.add("one waited its turn" if codes == [0, 0] else "one was refused in a sentence")
        assert not list(tmp_path.glob(".*.lock"))
        assert not list(tmp_path.glob("*.partial"))


SMALL_DISK = """
import resource, sys
import numpy as np
import braindive as bd
people = bd.simulate_cohort(4, 2, n_vertices=3000, random_state=0).cohort
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    if sys.argv[1] == "scans":
        bd.write_cohort(people, sys.argv[2])
    else:
        bd.pack_cohort(people.table.join(
            __import__("pandas").DataFrame(people.values).add_prefix("vertex_")
        ), sys.argv[2] + "/study.zarr")
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(("what", "room"), [("scans", 5000), ("store", 20_000)])
def test_disk_that_fills_up_leaves_nothing_half(tmp_path, what, room):
    """Files may not grow beyond so many bytes: every write beyond fails, as on a full disk."""
    folder = tmp_path / "out"
    if what == "store":
        folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SMALL_DISK, what, str(folder), str(room)],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("Error")
    left = [p.name for p in folder.rglob("*")] if folder.exists() else []
    if what == "scans":
        assert left == []
    else:  # what was read is kept, so that the same command goes on
        assert not (folder / "study.zarr").exists()


def test_too_little_room_is_told_before_the_work(study, model, tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 10})()
    monkeypatch.setattr(outputs.shutil, "disk_usage", lambda _: usage)
    fitted = []
    monkeypatch.setattr(bd.DIVE, "fit", lambda *_, **__: fitted.append(True))
    code, message = command("fit", study / "cohort.tsv", "-k", 2, "-o", tmp_path / "new.dive")
    assert (code, fitted) == (1, [])
    assert "GB are free" in message
    code, message = command("predict", model, study / "cohort.tsv", "-o", tmp_path / "predicted")
    assert code == 1
    assert "GB are free" in message


@pytest.mark.parametrize("arguments", [("fit", "-k", 2), ("select", "-k", "2-3"), ("compare",)])
def test_folder_that_cannot_be_written_is_told_before_the_work(
    study, tmp_path, monkeypatch, arguments
):
    """Where the tests run as root no permission keeps them out, so the system call says no."""
    touch = Path.touch

    def refuse(path, *rest, **options):
        if path.name.startswith(".probe."):
            raise PermissionError(13, "Permission denied")
        return touch(path, *rest, **options)

    monkeypatch.setattr(Path, "touch", refuse)
    name, *rest = arguments
    output = tmp_path / ("fit.dive" if name == "fit" else "folder")
    code, message = command(name, study / "cohort.tsv", *rest, "-o", output)
    assert code == 1
    assert "nothing can be written to" in message
    assert "Permission denied" in message


def test_fit_whose_model_cannot_be_written_keeps_where_it_stands(study, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    output = tmp_path / "fit.dive"
    with monkeypatch.context() as patch:
        patch.setattr(bd.DIVE, "save", full)
        code, message = command("fit", study / "cohort.tsv", "-k", 2, "-o", output)
    assert code == 1
    assert "No space left on device" in message
    assert "the same command ends it" in message
    done = CliRunner().invoke(
        app, ["fit", str(study / "cohort.tsv"), "-k", "2", "-o", str(output), "--resume"]
    )
    assert done.exit_code == 0
    assert "Going on after pass" in done.stderr


@pytest.mark.parametrize(
    "ids",
    [
        [b"a", b"a", b"b", b"b"],
        [("a", b"1")] * 2 + [("b", 1)] * 2,
        [["a"], ["a"], ["b"], ["b"]],
        list(pd.to_datetime(["2020-01-01"] * 2 + ["2021-01-01"] * 2)),
        [float("inf")] * 2 + [1.0, 1.0],
        [float("nan")] * 4,
        [{"a": 1}] * 4,
    ],
)
def test_ids_that_no_file_can_hold_are_refused_before_the_fit(ids):
    with pytest.raises(bd.CohortError, match="subject id"):
        bd.Cohort(np.eye(4), subjects=ids, times=[0, 1, 0, 1])


@pytest.mark.parametrize("kind", [int, float, str, lambda number: ("group", number)])
def test_every_kind_of_id_that_is_accepted_can_be_saved(people, tmp_path, kind):
    ids = [kind(int(number)) for number in people.subject_index]
    cohort = bd.Cohort(people.values, subjects=ids, times=people.times)
    model = bd.DIVE(2, n_init=1, people="alike", personal=False, random_state=0).fit(cohort)
    model.save(tmp_path / "fit.dive")
    loaded = bd.load_model(tmp_path / "fit.dive")
    assert loaded.subjects_.tolist() == model.subjects_.tolist()
    assert loaded.stage(cohort).index.tolist() == model.subjects_.tolist()


@pytest.mark.parametrize("names", [["a", "a"], ["1", 1]])
def test_columns_that_repeat_are_refused_before_the_fit(names):
    table = pd.DataFrame(np.zeros((4, 2)), columns=names)
    with pytest.raises(bd.CohortError, match="more than one column"):
        bd.Cohort(np.eye(4), subjects=list("aabb"), times=[0, 1, 0, 1], table=table)


def test_lock_tells_since_when(tmp_path):
    path = tmp_path / "x"
    with only_writer(path):
        told = json.loads((tmp_path / ".x.lock").read_text())
        assert told["process"] == os.getpid()
        assert abs(told["since"] - time.time()) < PATIENCE
        told = f"process {os.getpid()} on .* since .* wait for it"
        with pytest.raises(BusyError, match=told), only_writer(path):
            pass
