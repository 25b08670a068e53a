"""Fits that are disturbed from outside, with real processes, end as undisturbed ones do."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest
from distributed import Client
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app

pytestmark = pytest.mark.slow
# Seconds until something counts as hanging; other tests may keep the machine busy.
PATIENCE = 300
OPTIONS = ["-k", "3", "--n-init", "1"]
PAUSING = str(Path(__file__).parents[1] / "pausing.py")


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A packed cohort whose fit takes more passes than go before a disturbance."""
    folder = tmp_path_factory.mktemp("study")
    cohort = bd.simulate_cohort(40, 3, 400, control_share=0.3, random_state=0).cohort
    source = str(bd.write_cohort(cohort, folder, "table"))
    return str(bd.pack_cohort(source, folder / "study.zarr"))


@pytest.fixture(scope="module")
def undisturbed(packed):
    return bd.DIVE(3, n_init=1, random_state=0).fit(bd.open_packed(packed))


@pytest.fixture
def address():
    """Where a scheduler can start, end and start anew.

    The port is below those that Linux gives to whoever asks for any (from 32768 on), so that
    nobody else has it in between; processes of pytest-xdist begin to search at different ones.
    """
    for port in range(20000 + os.getpid() % 10000, 32768):
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return f"tcp://127.0.0.1:{port}"
    raise AssertionError("there is no free port")


def start(*command):
    return subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@contextmanager
def cluster(address):
    """A scheduler and a worker; yields the scheduler's process."""
    port = address.rpartition(":")[2]
    quiet = ["--no-dashboard"]
    where = ["--host", "127.0.0.1", "--port", port]
    scheduler = start("-m", "distributed.cli.dask_scheduler", *where, *quiet)
    alone = ["--no-nanny", "--nthreads", "1"]
    worker = start("-m", "distributed.cli.dask_worker", address, *alone, *quiet)
    try:
        with Client(address, timeout=PATIENCE) as client:
            client.wait_for_workers(1, timeout=PATIENCE)
        yield scheduler
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.communicate()


def fit_command(packed, output, *options):
    return ["fit", packed, "-o", str(output), *OPTIONS, *options]


def start_and_pause(folder, where, command):
    """Start a fit and wait until it pauses."""
    process = start(PAUSING, str(folder), where, *command)
    end = time.monotonic() + PATIENCE
    while not (folder / "paused").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)
    return process


def resume(packed, output, *options):
    ended = CliRunner().invoke(app, fit_command(packed, output, "--resume", *options))
    assert ended.exit_code == 0, ended.output
    assert "Going on after pass" in ended.stderr
    return bd.load_model(output)


def assert_same(model, reference):
    assert model.n_iter_ == reference.n_iter_
    np.testing.assert_allclose(model.responsibilities_, reference.responsibilities_, atol=1e-5)
    np.testing.assert_allclose(model.scores_, reference.scores_, atol=1e-6)


def test_fit_goes_on_after_a_scheduler_that_was_killed(packed, undisturbed, tmp_path, address):
    output = tmp_path / "fit.dive"
    with cluster(address) as scheduler:
        command = fit_command(packed, output, "--dask", address)
        process = start_and_pause(tmp_path, "gather", command)
        scheduler.kill()
        (tmp_path / "go").touch()
        _, messages = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert messages.startswith(f"Error: the Dask scheduler at {address} went away")
    assert messages.count("\n") == 1
    with cluster(address):
        assert_same(resume(packed, output, "--dask", address), undisturbed)


def test_fit_waits_for_a_scheduler_that_restarts(packed, undisturbed, address):
    with ExitStack() as first, ExitStack() as second:

        def restart(progress):
            if progress.iteration == 3:
                first.close()
                second.enter_context(cluster(address))

        first.enter_context(cluster(address))
        model = bd.DIVE(3, n_init=1, random_state=0)
        with Client(address, timeout=PATIENCE) as client:
            model.fit(bd.open_packed(packed), client=client, callback=restart)
        assert_same(model, undisturbed)


@pytest.mark.parametrize("where", ["gather", "checkpoint"], ids=["cluster", "disk"])
def test_fit_goes_on_after_control_c(packed, undisturbed, tmp_path, address, where):
    folder = tmp_path / "fits"
    folder.mkdir()
    output = folder / "fit.dive"
    with cluster(address) if where == "gather" else nullcontext():
        options = ["--dask", address] if where == "gather" else ["--memory", "1MB"]
        process = start_and_pause(tmp_path, where, fit_command(packed, output, *options))
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert messages == "Interrupted; the same command goes on from here.\n"
        assert os.listdir(folder) == ["fit.dive.checkpoint"]
        assert_same(resume(packed, output, *options), undisturbed)
        assert sorted(os.listdir(folder)) == ["fit.dive", "fit.dive.json"]
