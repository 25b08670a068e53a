"""Fits that are disturbed from outside, with real processes, end as undisturbed ones do."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, nullcontext

import numpy as np
import pytest
from distributed import Client

import braindive as bd

# Seconds until something counts as hanging; other tests may keep the machine busy.
PATIENCE = 300
OPTIONS = ["-k", "8", "--tol", "1e-6", "--starts", "1"]


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A packed cohort whose fit takes some dozens of passes."""
    folder = tmp_path_factory.mktemp("study")
    cohort = bd.simulate_cohort(40, 3, 400, control_share=0.3, random_state=0).cohort
    source = str(bd.write_cohort(cohort, folder, "table"))
    return str(bd.pack_cohort(source, folder / "study.zarr"))


@pytest.fixture
def address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{free.getsockname()[1]}"


def start(*command):
    return subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@contextmanager
def cluster(address):
    """A scheduler and a worker; yields the scheduler's process."""
    port = address.rpartition(":")[2]
    quiet = ["--no-dashboard"]
    scheduler = start(
        "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, *quiet
    )
    worker = start("distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1", *quiet)
    try:
        with Client(address, timeout=PATIENCE) as client:
            client.wait_for_workers(1, timeout=PATIENCE)
        yield scheduler
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.communicate()


def fit_command(packed, output, *options):
    return start("braindive.cli.main", "fit", packed, "-o", str(output), *OPTIONS, *options)


def wait_for(condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def resume(packed, output, *options):
    process = fit_command(packed, output, "--resume", *options)
    _, messages = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, messages
    assert "Going on after pass" in messages
    return bd.load_model(output)


def assert_same(model, reference):
    assert model.n_iter_ == reference.n_iter_
    np.testing.assert_allclose(model.responsibilities_, reference.responsibilities_, atol=1e-5)
    np.testing.assert_allclose(model.scores_, reference.scores_, atol=1e-6)


def fit(packed, address=None, callback=None):
    model = bd.DIVE(8, tol=1e-6, n_init=1, random_state=0)
    if address is None:
        return model.fit(bd.open_packed(packed))
    with Client(address, timeout=PATIENCE) as client:
        return model.fit(bd.open_packed(packed), client=client, callback=callback)


def test_fit_goes_on_after_a_scheduler_that_was_killed(packed, tmp_path, address):
    output = tmp_path / "fit.dive"
    with cluster(address) as scheduler:
        process = fit_command(packed, output, "--dask", address)
        wait_for((tmp_path / "fit.dive.checkpoint").exists)
        scheduler.kill()
        _, messages = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert messages.startswith(f"Error: the Dask scheduler at {address} went away")
    assert messages.count("\n") == 1
    with cluster(address):
        assert_same(resume(packed, output, "--dask", address), fit(packed, address))


def test_fit_waits_for_a_scheduler_that_restarts(packed, address):
    with ExitStack() as first, ExitStack() as second:

        def restart(progress):
            if progress.iteration == 3:
                first.close()
                second.enter_context(cluster(address))

        first.enter_context(cluster(address))
        disturbed = fit(packed, address, callback=restart)
        assert_same(disturbed, fit(packed, address))


@pytest.mark.parametrize("where", ["cluster", "disk"])
def test_fit_goes_on_after_control_c(packed, tmp_path, address, where):
    output = tmp_path / "fit.dive"
    with cluster(address) if where == "cluster" else nullcontext():
        options = ["--dask", address] if where == "cluster" else ["--memory", "1MB"]
        process = fit_command(packed, output, *options)
        wait_for((tmp_path / "fit.dive.checkpoint").exists)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert messages == "Interrupted; the same command goes on from here.\n"
        assert os.listdir(tmp_path) == ["fit.dive.checkpoint"]
        undisturbed = fit(packed, address if where == "cluster" else None)
        assert_same(resume(packed, output, *options), undisturbed)
        assert sorted(os.listdir(tmp_path)) == ["fit.dive", "fit.dive.json"]
