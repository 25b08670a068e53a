"""Whatever is typed: one line, the right exit code, and nothing that a terminal would obey."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import braindive as bd
from braindive.cli import main
from braindive.io import packed

PATIENCE = 120


@pytest.fixture(scope="module")
def study(tmp_path_factory, people):
    """A table of people without a space, and the same packed."""
    folder = tmp_path_factory.mktemp("typed")
    cohort = bd.Cohort(people.values, subjects=people.subjects, times=people.times)
    table = bd.write_cohort(cohort, folder, "table")
    bd.pack_cohort(table, folder / "study.zarr")
    return folder


def command(monkeypatch, capsys, *arguments):
    """Exit code of a command, what it printed, and the lines beside it."""
    monkeypatch.setattr(sys, "argv", ["braindive", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main.run()
    told = capsys.readouterr()
    return ended.value.code, told.out, told.err.splitlines()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("fit", "study.zarr", "--seed", "-1"), 2, "--seed is a whole number"),
        (("fit", "study.zarr", "--seed", 2**40), 2, "--seed is a whole number"),
        (("simulate", "new", "--seed", "-1"), 2, "--seed is a whole number"),
        (("select", "study.zarr", "-o", "x", "--jobs", 0), 2, "--jobs is a number of workers"),
        (("pack", "cohort.tsv", "-o", "y.zarr", "--jobs", 0), 2, "--jobs is a number of workers"),
        (("fit", "study.zarr", "--memory", "x"), 1, "memory must be a size"),
        (("fit", "study.zarr", "--memory", "1.2.3GB"), 1, "memory must be a size"),
        (("select", "study.zarr", "-o", "x", "-k", "1-99999999999"), 1, "more than 100 numbers"),
        (("select", "study.zarr", "-o", "x", "-k", "2-x"), 1, "-k must be numbers"),
        (("pack", "cohort.tsv", "-o", "."), 1, "no name for a packed cohort"),
        (("check", "study.zarr", "--space", "nope"), 1, "--space nope belongs to a table"),
        (("fit", "study.zarr", "--space", "nope"), 1, "--space nope belongs to a table"),
    ],
)
def test_what_is_typed_wrongly_is_told_in_one_line(
    study, tmp_path, monkeypatch, capsys, arguments, code, words
):
    for name in ("study.zarr", "cohort.tsv"):
        (tmp_path / name).symlink_to(study / name)
    monkeypatch.chdir(tmp_path)
    found, _, lines = command(monkeypatch, capsys, *arguments)
    assert (found, len(lines)) == (code, 1), lines
    assert lines[0].startswith("Error: ")
    assert words in lines[0]


def test_ids_cannot_command_the_terminal(study, tmp_path, monkeypatch, capsys):
    text = (study / "cohort.tsv").read_text().replace("sub-00", "\x1b[2J\x07:x:")
    lines = text.splitlines()
    (tmp_path / "cohort.tsv").write_text("\n".join([*lines, lines[1]]) + "\n")
    code, _, lines = command(monkeypatch, capsys, "check", tmp_path / "cohort.tsv")
    told = "\n".join(lines)
    assert code == 1
    assert r"\x1b[2J\x07:x:" in told
    assert "\x1b" not in told
    assert "\x07" not in told


def test_interrupt_while_reading_is_told_in_one_line(study, tmp_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(packed, "plan_cohort", interrupted)
    usual = signal.getsignal(signal.SIGINT)
    try:
        code, _, lines = command(
            monkeypatch, capsys, "pack", study / "cohort.tsv", "-o", tmp_path / "new.zarr"
        )
    finally:
        signal.signal(signal.SIGINT, usual)
    assert code == 130
    assert lines == ["Interrupted; nothing is kept."]
    assert not list(tmp_path.iterdir())


# Says when the packages begin to load, and then takes its time.
STARTING = """
import sys, time
class Slow:
    def find_spec(self, name, *rest):
        if name == "braindive.cli.main":
            print("loading", flush=True)
            time.sleep(1000)
sys.meta_path.insert(0, Slow())
from braindive.cli.entry import run
run()
"""


def test_interrupt_while_packages_load_says_nothing():
    process = subprocess.Popen(
        [sys.executable, "-c", STARTING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE) == ("", "")
    finally:
        process.kill()
    assert process.returncode == 130


# What Python itself says of Ctrl-C before any of our code runs is not ours.
READY = """
import os, signal
signal.signal(signal.SIGINT, lambda *_: os._exit(130))
print("ready", flush=True)
from braindive.cli.entry import run
signal.signal(signal.SIGINT, signal.default_int_handler)
run()
"""


def test_interrupts_and_kills_at_any_time_lead_to_the_same_store(study, tmp_path, tries, tally):
    """The same command again and again, each ended after another while, and then to its end."""
    truth = {
        path.relative_to(study / "study.zarr"): path.read_bytes()
        for path in (study / "study.zarr").rglob("*")
        if path.is_file()
    }
    for number in tries(1):
        rng = np.random.default_rng([7, number])
        output = tmp_path / f"{number}.zarr"
        arguments = [sys.executable, "-c", READY, "pack", study / "cohort.tsv", "-o", output]
        for _ in range(2):
            process = subprocess.Popen(
                arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            assert process.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.0, 4.0))
            way = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL][rng.integers(3)]
            process.send_signal(way)
            told = process.communicate(timeout=PATIENCE)[1]
            assert told.count("\n") <= 1, told
            # A signal that arrives before the command has set itself up ends it as such.
            assert process.returncode in (0, 130, 128 + signal.SIGTERM, -way), told
            tally.add("had ended" if process.returncode == 0 else way.name)
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        found = {p.relative_to(output): p.read_bytes() for p in output.rglob("*") if p.is_file()}
        assert found == truth
        assert not [name for name in os.listdir(tmp_path) if not name.endswith(".zarr")]
