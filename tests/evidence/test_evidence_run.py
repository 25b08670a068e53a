"""`python evidence/run.py`, which `make paper` calls, killed and interrupted."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import braindive as bd
import run as script

SCRIPT = Path(__file__).parents[2] / "evidence" / "run.py"
# Seconds after which a run counts as hanging.
PATIENCE = 300


def options(folder, jobs):
    what = ["--size", "tiny", "--only", "groups", "--jobs", str(jobs)]
    return [*what, "--output", str(folder / "pages"), "--cache", str(folder / "cache")]


def run(folder):
    """Run in this process what nobody disturbs; what it said."""
    said = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stderr(said),
        warnings.catch_warnings(),
    ):
        # Cohorts this tiny leave much unclear.
        warnings.simplefilter("ignore", bd.BraindiveWarning)
        patch.setattr(sys, "argv", [str(SCRIPT), *options(folder, jobs=1)])
        script.main()
    return said.getvalue()


def finished(folder):
    """Results in the cache and when they were written."""
    paths = (path for path in (folder / "cache").glob("*.json") if path.is_file())
    return {path: path.stat().st_mtime_ns for path in paths}


@contextlib.contextmanager
def unreachable(folder, names):
    """Let a run that comes to one of these results wait: it reads from a pipe without an end."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    for name in names:
        os.mkfifo(cache / name)
    yield
    for name in names:
        (cache / name).unlink()


def stop(folder, jobs, number, at_least):
    """Start a run, send it and its workers a signal once some results are there, and wait."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *options(folder, jobs)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + PATIENCE
        while len(finished(folder)) < at_least:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, number)
    _, messages = process.communicate(timeout=PATIENCE)
    return process.returncode, messages


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    run(folder)
    return folder


def pages(folder):
    return {path.name: path.read_bytes() for path in (folder / "pages").iterdir()}


def test_a_run_that_was_killed_and_interrupted_goes_on_to_the_same_pages(undisturbed, tmp_path):
    written = finished(undisturbed)
    names = [path.name for path in sorted(written, key=written.get)]
    assert len(names) == 6

    with unreachable(tmp_path, names[2:]):
        code, _ = stop(tmp_path, 1, signal.SIGKILL, at_least=2)
    assert code == -signal.SIGKILL
    assert list((tmp_path / "pages").iterdir()) == []
    after_kill = finished(tmp_path)
    assert {path.name for path in after_kill} == set(names[:2])
    for path in after_kill:
        assert json.loads(path.read_text())["rows"]

    with unreachable(tmp_path, names[4:]):
        code, messages = stop(tmp_path, 2, signal.SIGINT, at_least=4)
    assert code == 1
    assert messages == "Interrupted. The same command goes on from here.\n"
    after_interrupt = finished(tmp_path)
    assert {path.name for path in after_interrupt} == set(names[:4])
    assert after_kill.items() <= after_interrupt.items()

    messages = run(tmp_path)
    (found,) = re.findall(r"group_test 6/6 \((\d+) found in the cache\)", messages)
    assert int(found) == 4
    assert after_interrupt.items() <= finished(tmp_path).items()
    assert pages(tmp_path) == pages(undisturbed)
    assert len(list((tmp_path / "cache").iterdir())) == 6


def test_a_finished_run_computes_nothing_again(undisturbed):
    before = finished(undisturbed)
    assert "6/6 (6 found in the cache)" in run(undisturbed)
    assert finished(undisturbed) == before
