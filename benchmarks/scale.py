"""How a fit scales: a store larger than the memory it may take, and one against two workers.

    python benchmarks/scale.py store --gigabytes 12 --memory 4GB
    python benchmarks/scale.py workers
    python benchmarks/scale.py growth

`store` writes a store into a temporary folder, times plain reads of its blocks, fits it in a fresh
process, and prints the speed of a pass beside that of the reads, and the peak memory. `workers`
times passes on one and on two worker processes that hold the values in memory. `growth` times one
pass over sizes that grow 16-fold in vertices and in visits.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import zarr

import braindive as bd
from braindive.distributed import DistributedMeasurements
from braindive.measurements import Measurements, one_thread_per_product
from braindive.model.em import Assign
from braindive.storage import block_width

_VISITS = 4


def curves_of(n_visits: int) -> tuple[np.ndarray, np.ndarray]:
    """Curves of three clusters at every visit, and the visits' subjects."""
    random = np.random.default_rng(0)
    n_subjects = n_visits // _VISITS
    subjects = np.repeat(np.arange(n_subjects), _VISITS)
    times = np.tile(np.arange(_VISITS, dtype=float), n_subjects)
    speeds, shifts = random.gamma(6.25, 1 / 6.25, n_subjects), random.normal(0, 10, n_subjects)
    curves = bd.Trajectories(*np.array([[-1.0] * 3, [0.4] * 3, [-15.0, 2.5, 20.0], [0.0] * 3]))
    return curves.evaluate(speeds[subjects] * times + shifts[subjects]).astype(np.float32), subjects


def write_store(path: Path, n_visits: int, n_vertices: int) -> None:
    curves, _ = curves_of(n_visits)
    width = block_width(n_visits, n_vertices, 4)
    store = zarr.create_array(
        path,
        shape=(n_visits, n_vertices),
        chunks=(n_visits, width),
        dtype="float32",
        compressors=None,
    )

    def write(start: int) -> None:
        random = np.random.default_rng(start)
        stop = min(start + width, n_vertices)
        noise = random.standard_normal((n_visits, stop - start), dtype=np.float32)
        store[:, start:stop] = noise + curves[:, np.arange(start, stop) % 3]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(0, n_vertices, width)))


def fit_store(path: str, memory: str) -> None:
    """Fit in this process and print what it took, for the parent to read."""
    warnings.simplefilter("ignore", bd.BraindiveWarning)
    values = zarr.open_array(path, mode="r")
    _, subjects = curves_of(values.shape[0])
    times = np.tile(np.arange(_VISITS, dtype=float), len(subjects) // _VISITS)
    cohort = bd.Cohort(values, subjects=subjects, times=times)
    ends: list[float] = []
    model = bd.DIVE(3, memory=memory, random_state=0, n_init=1).fit(
        cohort, callback=lambda _: ends.append(time.perf_counter())
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    labels = np.arange(values.shape[1]) % 3
    print(
        json.dumps(
            {
                "peak": peak,
                "pass": float(np.median(np.diff(ends))),
                "n_iter": model.n_iter_,
                "agreement": bd.match_clusters(model, labels).agreement,
            }
        )
    )


def read_blocks(path: Path) -> float:
    values = zarr.open_array(path, mode="r")
    width = values.chunks[1]
    start = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda a: values[:, a : a + width].shape, range(0, values.shape[1], width)))
    return time.perf_counter() - start


def store(arguments: argparse.Namespace) -> None:
    n_vertices = 163_842
    n_visits = int(arguments.gigabytes * 1e9 / (4 * n_vertices)) // _VISITS * _VISITS + _VISITS
    folder = Path(tempfile.mkdtemp())
    try:
        write_store(folder / "values", n_visits, n_vertices)
        n_bytes = 4 * n_visits * n_vertices
        print(f"{n_visits} visits x {n_vertices} vertices: {n_bytes / 1e9:.1f} GB")
        before = read_blocks(folder / "values")
        command = [sys.executable, __file__, "fit", str(folder / "values"), arguments.memory]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        reads = min(before, read_blocks(folder / "values"))
        print(f"reading the blocks: {n_bytes / 1e9 / reads:.2f} GB/s")
        print(
            f"one pass: {n_bytes / 1e9 / found['pass']:.2f} GB/s, "
            f"{reads / found['pass']:.0%} of the speed of reading"
        )
        print(f"peak memory {found['peak'] / 1e9:.2f} GB, allowed {arguments.memory}")
        print(f"{found['n_iter']} iterations, agreement {found['agreement']:.3f}")
    finally:
        shutil.rmtree(folder)


def time_sweeps(measurements: Any, curves: np.ndarray, repeats: int = 5) -> float:
    assign = Assign(np.ones(curves.shape[1]))
    measurements.sweep(curves, assign)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        measurements.sweep(curves, assign)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def values_of(n_visits: int, n_vertices: int) -> np.ndarray:
    random = np.random.default_rng(0)
    return random.standard_normal((n_visits, n_vertices), dtype=np.float32)


def workers(_: argparse.Namespace) -> None:
    from distributed import Client, LocalCluster

    n_clusters = 20
    values = values_of(8000, 40_962)
    curves = np.random.default_rng(1).normal(size=(8000, n_clusters))
    took = {}
    for n_workers in (1, 2):
        with (
            LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=":0"
            ) as cluster,
            Client(cluster) as client,
        ):
            parts = DistributedMeasurements.spread(client, values, order=None, missing=False)
            took[n_workers] = time_sweeps(parts, curves)
        print(f"{n_workers} worker(s): {took[n_workers]:.2f} s for a pass", flush=True)
    print(f"two workers are {took[1] / took[2]:.2f} times as fast as one")


def growth(_: argparse.Namespace) -> None:
    print("| visits | vertices | one pass (ms) |\n|---|---|---|")
    for sizes in (
        [(800, n) for n in (10_240, 20_480, 40_960, 81_920, 163_840)],
        [(n, 40_960) for n in (200, 400, 800, 1600, 3200)],
    ):
        logs = []
        for n_visits, n_vertices in sizes:
            curves = np.random.default_rng(1).normal(size=(n_visits, 3))
            with one_thread_per_product():
                took = time_sweeps(Measurements(values_of(n_visits, n_vertices)), curves)
            logs.append((np.log(n_visits * n_vertices), np.log(took)))
            print(f"| {n_visits} | {n_vertices} | {1000 * took:.0f} |", flush=True)
        print(f"slope of log time on log size: {np.polyfit(*np.array(logs).T, 1)[0]:.2f}\n")


def main() -> None:
    if sys.argv[1:2] == ["fit"]:
        fit_store(*sys.argv[2:4])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("store")
    one.add_argument("--gigabytes", type=float, default=12.0)
    one.add_argument("--memory", default="4GB")
    one.set_defaults(run=store)
    commands.add_parser("workers").set_defaults(run=workers)
    commands.add_parser("growth").set_defaults(run=growth)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
