"""The same fit in memory, from a memory map, from a store and on a cluster of processes."""

import os
import signal
import time
from contextlib import contextmanager

import joblib
import numpy as np
import pandas as pd
import pytest
import zarr
from distributed import Client, LocalCluster, Status
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app
from braindive.errors import ClusterError
from braindive.values.backends import open_products
from braindive.values.placement import Placement, workers_of

# Sockets to a worker that was killed are closed by the garbage collector, with a warning.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


# Seconds after which something counts as hanging.
PATIENCE = 300


@contextmanager
def two_processes():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def client(two_workers):
    return two_workers


@pytest.fixture(scope="module")
def other_workers():
    with two_processes() as client:
        yield client


@pytest.fixture
def killable(other_workers):
    """Two workers that a test may kill: their nannies start new ones for the next test."""

    def is_ready(nanny):
        """Whether the nanny knows that its worker runs: it replaces none that dies before."""
        known = other_workers.scheduler_info(n_workers=-1)["workers"]
        running = nanny.process is not None and nanny.process.status == Status.running
        return running and nanny.worker_address in known

    end = time.monotonic() + PATIENCE
    while not all(map(is_ready, other_workers.cluster.workers.values())):
        assert time.monotonic() < end
        time.sleep(0.01)
    return other_workers


def kill_a_worker(client):
    """Address of a worker whose process was killed."""
    worker = next(iter(client.cluster.workers.values()))
    os.kill(worker.pid, signal.SIGKILL)
    return worker.worker_address


def spatial_cohort(missing=0.0):
    return bd.simulate_cohort(
        n_subjects=20,
        n_visits=3,
        midpoints=(-1.0, 0.0, 1.0),
        slope=2.0,
        amplitude=5.0,
        noise=3.0,
        space="fsaverage5-left",
        shift_sd=1.0,
        mean_speed=0.2,
        midpoint_variation=0.1,
        missing=missing,
        random_state=0,
        dtype="float32",
    ).cohort


@pytest.fixture(scope="module", params=[0.0, 0.1], ids=["dense", "holes"])
def cohort(request):
    return spatial_cohort(request.param)


def fresh(**settings):
    """A model whose fit is the EM alone; what comes after it is in test_places.py."""
    return bd.DIVE(3, people="alike", personal=False, random_state=0, **settings)


@pytest.fixture(scope="module")
def in_memory(cohort):
    return fresh().fit(cohort)


def with_values(cohort, values):
    return bd.Cohort(values, subjects=cohort.subjects, times=cohort.times, graph=cohort.graph)


def as_memory_map(cohort, folder):
    values = cohort.values
    np.memmap(folder / "values", values.dtype, "w+", shape=values.shape)[:] = values
    return with_values(cohort, np.memmap(folder / "values", values.dtype, "r", shape=values.shape))


def as_store(cohort, folder, compressors="auto"):
    values = cohort.values
    store = zarr.create_array(
        folder / "values.zarr",
        shape=values.shape,
        chunks=(len(values), 640),
        dtype=values.dtype,
        compressors=compressors,
    )
    store[:] = values
    return with_values(cohort, zarr.open_array(folder / "values.zarr", mode="r"))


def as_plain_store(cohort, folder):
    """As packed cohorts are kept: the chunks are mapped into memory."""
    return as_store(cohort, folder, compressors=None)


def assert_same_fit(model, reference):
    assert model.n_iter_ == reference.n_iter_
    np.testing.assert_allclose(model.responsibilities_, reference.responsibilities_, atol=1e-5)
    np.testing.assert_allclose(model.scores_, reference.scores_, atol=1e-6)


@pytest.mark.parametrize("keep", [as_memory_map, as_store, as_plain_store])
def test_fit_from_disk_equals_fit_in_memory(cohort, in_memory, tmp_path, keep):
    assert_same_fit(fresh().fit(keep(cohort, tmp_path)), in_memory)


@pytest.mark.parametrize("keep", [as_memory_map, as_plain_store])
def test_little_memory_changes_blocks_but_not_the_answer(cohort, in_memory, tmp_path, keep):
    stored = keep(cohort, tmp_path)
    assert_same_fit(fresh(memory="300kB").fit(stored), in_memory)


@pytest.mark.parametrize("keep", [lambda cohort, _: cohort, as_memory_map, as_plain_store])
def test_fit_on_workers_equals_fit_in_memory(cohort, in_memory, tmp_path, client, keep):
    model = fresh().fit(keep(cohort, tmp_path), client=client)
    assert_same_fit(model, in_memory)


def test_fit_survives_a_killed_worker(cohort, in_memory, tmp_path, killable):
    # What was sent to the worker is sent again; what it read is read again.
    kept = as_plain_store(cohort, tmp_path) if cohort.has_missing else cohort
    killed = []

    def kill_once(progress):
        if progress.iteration == 2 and not killed:
            killed.append(kill_a_worker(killable))

    model = fresh().fit(kept, client=killable, callback=kill_once)
    assert killed
    assert_same_fit(model, in_memory)


def test_fit_survives_a_worker_that_goes_before_it_is_given_its_task(killable, monkeypatch):
    cohort = spatial_cohort()
    places = []
    place = Placement.place

    def place_and_kill(placement):
        places.append(place(placement))
        if len(places) == 5:
            gone = kill_a_worker(killable)
            end = time.monotonic() + PATIENCE
            while gone in killable.scheduler_info(n_workers=-1)["workers"]:
                assert time.monotonic() < end
                time.sleep(0.01)
        return places[-1]

    monkeypatch.setattr(Placement, "place", place_and_kill)
    model = fresh().fit(cohort, client=killable)
    assert places[5] != places[4]
    assert_same_fit(model, fresh().fit(cohort))


def test_fit_leaves_what_a_cluster_knows_of_its_workers(client):
    """What is replaced while a worker goes makes the cluster fail when it is closed."""
    known = client.cluster.scheduler_info
    fresh().fit(easy_cohort(), client=client)
    assert client.cluster.scheduler_info is known


def test_cluster_that_stays_without_workers_is_told(client, monkeypatch):
    monkeypatch.setattr("braindive.values.placement._WAIT", 0.3)
    monkeypatch.setattr("braindive.values.placement.workers_of", lambda client: {})
    with pytest.raises(ClusterError, match=r"has had no worker for 0\.3 s"):
        Placement(client, []).place()


def test_fit_goes_on_when_the_scheduler_knows_no_worker_for_a_moment(client, monkeypatch):
    cohort = spatial_cohort()
    asked = []

    def forget_once(client):
        asked.append(True)
        return {} if len(asked) == 5 else workers_of(client)

    monkeypatch.setattr("braindive.values.placement.workers_of", forget_once)
    model = fresh().fit(cohort, client=client)
    assert len(asked) > 5
    assert_same_fit(model, fresh().fit(cohort))


def test_file_that_workers_cannot_see_is_named_at_once(client, tmp_path, monkeypatch):
    cohort = as_memory_map(spatial_cohort(), tmp_path)
    (tmp_path / "values").unlink()
    monkeypatch.setattr("braindive.values.distributed._TRIES", 1)
    with pytest.raises(FileNotFoundError, match="values"):
        fresh().fit(cohort, client=client)


def test_worker_that_comes_late_is_used(tmp_path):
    cohort = spatial_cohort()
    reference = fresh().fit(cohort)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):

        def add_worker(progress):
            if progress.iteration == 1:
                cluster.scale(2)
                client.wait_for_workers(2)

        model = fresh().fit(cohort, client=client, callback=add_worker)
        steps = client.run(lambda dask_worker: dask_worker.state.executed_count)
    assert len(steps) == 2
    assert min(steps.values()) > 2
    assert_same_fit(model, reference)


def test_command_line_fits_on_a_cluster_and_within_a_memory(client, tmp_path):
    cohort = bd.simulate_cohort(30, 3, 300, noise=0.3, control_share=0.3, random_state=0).cohort
    table = str(bd.write_cohort(cohort, tmp_path / "study", "table"))
    address = client.scheduler.address
    for name, options in (
        ("one", []),
        ("many", ["--dask", address]),
        ("little", ["--memory", "1MB"]),
    ):
        command = ["fit", table, "-k", "3", "--people", "alike", "-o", str(tmp_path / name)]
        assert CliRunner().invoke(app, [*command, *options]).exit_code == 0
    one = bd.load_model(tmp_path / "one")
    for name in ("many", "little"):
        assert_same_fit(bd.load_model(tmp_path / name), one)


def easy_cohort():
    """A small cohort whose fits end soon."""
    return bd.simulate_cohort(
        24, 4, 40, midpoints=(-10, 10), noise=0.3, control_share=0.3, random_state=0
    ).cohort


def choose_number(cohort, model):
    return bd.select_n_clusters(
        cohort, [1, 2], model=model, n_splits=2, n_resamples=1, n_jobs=-1, random_state=0
    )


def cross_validate(cohort, model):
    return bd.compare_models(cohort, {"DIVE": model}, n_folds=2, n_jobs=-1, random_state=0)


def resample(cohort, model):
    found = bd.bootstrap(model, cohort, 4, n_jobs=-1, random_state=0)
    return pd.DataFrame(found.trajectories.reshape(4, -1))


@pytest.mark.filterwarnings("ignore::braindive.BraindiveWarning")
@pytest.mark.parametrize(
    ("evaluate", "people"),
    [(choose_number, "alike"), (cross_validate, "alike"), (resample, "differ")],
)
def test_many_fits_spread_over_the_workers_and_find_the_same(client, evaluate, people):
    cohort = easy_cohort()
    model = bd.DIVE(2, n_init=1, tol=1e-2, people=people, random_state=0).fit(cohort)

    def count_tasks():
        counts = client.run(lambda dask_worker: dask_worker.state.executed_count)
        return np.array([counts[worker] for worker in sorted(counts)])

    before = count_tasks()
    with joblib.parallel_config("dask", client=client):
        spread = evaluate(cohort, model)
    assert (count_tasks() > before).all()
    with joblib.parallel_config("sequential"):
        pd.testing.assert_frame_equal(spread, evaluate(cohort, model))


@pytest.mark.filterwarnings("ignore::braindive.BraindiveWarning")
def test_commands_that_judge_run_on_a_cluster(client, tmp_path):
    table = str(bd.write_cohort(easy_cohort(), tmp_path / "study", "table"))
    tables = []
    for name, options in (("one", ["-j", "1"]), ("many", ["--dask", client.scheduler.address])):
        command = ["select", table, "-k", "2", "--splits", "2", "--resamples", "0"]
        ended = CliRunner().invoke(app, [*command, "-o", str(tmp_path / name), *options])
        assert ended.exit_code == 0, ended.output
        tables.append((tmp_path / name / "selection.tsv").read_text())
    assert tables[0] == tables[1]


def test_workers_are_known_while_dask_renews_what_it_keeps_of_them(client, cohort, monkeypatch):
    """`scheduler_info` names no worker for a moment every few seconds."""
    monkeypatch.setattr(client, "scheduler_info", lambda **_: {"workers": {}})
    values, missing = cohort.stored, cohort.has_missing
    found = open_products(values, missing=missing, client=client).energies
    np.testing.assert_allclose(found, open_products(values, missing=missing).energies)


def test_cluster_without_workers_is_refused():
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        pytest.raises(ClusterError, match="no worker"),
    ):
        bd.DIVE(2).fit(bd.simulate_cohort(10, 3, 30, random_state=0).cohort, client=client)


def test_a_cluster_in_this_very_process_does_not_wait_for_itself(simulation):
    with (
        LocalCluster(n_workers=2, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        fitted = fresh().fit(simulation.cohort, client=client)
    assert_same_fit(fitted, fresh().fit(simulation.cohort))
