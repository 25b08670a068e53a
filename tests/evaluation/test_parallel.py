"""Tasks on workers."""

import os
import signal
import subprocess
import sys
import time
import warnings

import pytest
from joblib import parallel_config

import braindive as bd
from braindive.evaluation.parallel import run_tasks


def slow_start(number):
    if number % 2:
        warnings.warn(f"{number} did not converge", bd.ConvergenceWarning, stacklevel=1)
    return 10 * number


def test_results_come_in_order_and_warnings_are_counted_once():
    with pytest.warns(bd.DataWarning) as caught:
        results = run_tasks(slow_start, [(number,) for number in range(5)])
    assert results == [0, 10, 20, 30, 40]
    (warning,) = caught
    assert str(warning.message) == "in 2 of 5 fits: 1 to 3 did not converge"


def loud(size, change):
    warnings.warn(
        f"{size:,} of 12,000 vertices moved by {change:.2g} in h2", bd.DataWarning, stacklevel=1
    )
    if change < 0:
        warnings.warn("and backwards", bd.DataWarning, stacklevel=1)


def test_a_warning_tells_which_fits_it_is_of_and_the_range_of_its_numbers():
    tasks = [(900, -0.25), (10_000, 3e-5), (1_200, 12.0), (950, -0.5)]
    with pytest.warns(bd.DataWarning) as caught:
        run_tasks(loud, tasks, names=["few", "many", "many", "few"])
    assert [str(warning.message) for warning in caught] == [
        "in 4 of 4 fits: 900 to 10,000 of 12,000 vertices moved by -0.5 to 12 in h2",
        "in 2 of 4 fits (few): and backwards",
    ]


def test_any_backend_of_joblib_gives_the_same_results():
    with parallel_config(backend="threading", n_jobs=2):
        assert run_tasks(divmod, [(7, 2), (9, 4), (5, 3)]) == [(3, 1), (2, 1), (1, 2)]


# Seconds after which a process counts as hanging.
PATIENCE = 300
# Says so and waits as soon as Python starts, if this is a worker of the test below.
WAIT_IN_WORKERS = """
import os, sys, time
if any("popen_loky" in word for word in sys.orig_argv):
    open(f"ready-{os.getpid()}", "w").close()
    time.sleep(1000)
"""
INTERRUPTED = """
import os, signal, sys, time
from braindive.evaluation.parallel import run_tasks

def wait(seconds):
    if seconds:
        open(f"ready-{os.getpid()}", "w").close()
    time.sleep(seconds)
    return os.getpid()

def progress(done, total):
    open("ready-result", "w").close()

try:
    run_tasks(wait, [(seconds,) for seconds in SECONDS], 2, progress)
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit("interrupted")
"""


def end(folder, seconds, send, number):
    """Start tasks of so many seconds, send a signal once two things are ready; code, messages."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED.replace("SECONDS", str(seconds))],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + PATIENCE
        while len(list(folder.glob("ready-*"))) < 2:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.02)
        send(process.pid, number)
        # Workers share the pipe, so this returns when all of them are gone.
        _, messages = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, messages


@pytest.mark.parametrize(
    ("seconds", "starting"),
    [([1000, 1000], False), ([0, 1000], False), ([1000, 1000], True)],
    ids=["both workers busy", "one worker idle", "both workers starting"],
)
def test_workers_end_silently_after_control_c(tmp_path, seconds, starting):
    if starting:
        (tmp_path / "sitecustomize.py").write_text(WAIT_IN_WORKERS)
    # A terminal sends the signal to every process of the command.
    assert end(tmp_path, seconds, os.killpg, signal.SIGINT) == (1, "interrupted\n")


def test_workers_end_with_a_parent_that_is_terminated(tmp_path):
    assert end(tmp_path, [1000, 1000], os.kill, signal.SIGTERM) == (128 + signal.SIGTERM, "")


def test_termination_while_workers_start_is_handled_when_they_have_started():
    """A program's own way to end on SIGTERM is kept."""

    class Ended(BaseException):
        pass

    def end_in_order(number, frame):
        raise Ended

    class Terminated(tuple):
        def __iter__(self):
            signal.raise_signal(signal.SIGTERM)
            yield from super().__iter__()

    usual = signal.signal(signal.SIGTERM, end_in_order)
    try:
        with pytest.raises(Ended) as caught, parallel_config("threading", n_jobs=2):
            run_tasks(divmod, Terminated([(7, 2)] * 20))
        assert "let_through" in [entry.name for entry in caught.traceback]
        assert signal.getsignal(signal.SIGTERM) is end_in_order
    finally:
        signal.signal(signal.SIGTERM, usual)


def interrupt_twice():
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.raise_signal(signal.SIGINT)


def test_a_second_control_c_does_not_disturb_the_end_of_the_first():
    usual = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as caught:
        run_tasks(interrupt_twice, [()])
    assert caught.value.__context__ is None
    assert signal.getsignal(signal.SIGINT) is usual


def test_control_c_during_a_report_of_progress_stops_the_work():
    reports = []

    def report(done, total):
        reports.append(done)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), parallel_config(backend="threading", n_jobs=2):
        run_tasks(divmod, [(7, 2)] * 20, progress=report)
    assert reports == [1]


class InterruptedStart(tuple):
    """Tasks of which the first is handed out while Ctrl-C arrives."""

    def __iter__(self):
        signal.raise_signal(signal.SIGINT)
        yield from super().__iter__()


def test_control_c_while_workers_start_is_handled_when_they_have_started():
    with pytest.raises(KeyboardInterrupt) as caught, parallel_config("threading", n_jobs=2):
        run_tasks(divmod, InterruptedStart([(7, 2)] * 20))
    assert "let_through" in [entry.name for entry in caught.traceback]
