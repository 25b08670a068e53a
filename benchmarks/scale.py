"""How a fit scales: stores larger than memory, one against two workers, growth with the size.

    python benchmarks/scale.py store --gigabytes 12 --memory 4GB
    python benchmarks/scale.py workers
    python benchmarks/scale.py growth
    python benchmarks/scale.py all --write docs/scale.md

`store` writes a store into a temporary folder, times plain reads of its chunks, fits it in a fresh
process, and sets the speed of a pass beside that of the reads. `workers` times passes on one and
on two worker processes that hold the values in memory. `growth` times passes over sizes that grow
16-fold in vertices and in visits. `all` does the three. With `--write`, what was measured is put
in its place on the page.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from scipy import sparse

import braindive as bd
from braindive.dive import em
from braindive.dive.e_step import Assign
from braindive.values.distributed import DistributedProducts
from braindive.values.local import LocalProducts
from braindive.values.storage import block_width
from braindive.values.walking import one_thread_per_product
from cohorts import icosphere
from scale_page import Growth, Store, Workers, write_page

_VISITS = 4
_PASSES = 9
# Vertices of one hemisphere and of two, and visits, that grow 16-fold from the first to the last.
_VERTICES = (20_484, 40_962, 81_924, 163_842, 327_684)
_COUNTS = (800, 1600, 3200, 6400, 12_800)
_BESIDE = (3200, 81_924)


def curves_of(n_visits: int) -> tuple[np.ndarray, np.ndarray]:
    """Curves of three clusters at every visit, and the visits' subjects."""
    random = np.random.default_rng(0)
    n_subjects = n_visits // _VISITS
    subjects = np.repeat(np.arange(n_subjects), _VISITS)
    times = np.tile(np.arange(_VISITS, dtype=float), n_subjects)
    speeds, shifts = random.gamma(6.25, 1 / 6.25, n_subjects), random.normal(0, 10, n_subjects)
    curves = bd.Trajectories(*np.array([[-1.0] * 3, [0.4] * 3, [-15.0, 2.5, 20.0], [0.0] * 3]))
    return curves.evaluate(speeds[subjects] * times + shifts[subjects]).astype(np.float32), subjects


def graph_of(n_vertices: int) -> sparse.csr_array:
    """Neighbours on one sphere or on two."""
    levels = {10 * 4**level + 2: level for level in range(4, 8)}
    if n_vertices in levels:
        return icosphere(levels[n_vertices])[1]
    half = icosphere(levels[n_vertices // 2])[1]
    return sparse.csr_array(sparse.block_diag([half, half]))


def write_store(path: Path, n_visits: int, n_vertices: int) -> None:
    """Three clusters with noise as large as the whole change, as packed cohorts are kept."""
    curves, _ = curves_of(n_visits)
    width = block_width(n_visits, n_vertices, 4)
    store = zarr.create_array(
        path,
        shape=(n_visits, n_vertices),
        chunks=(n_visits, width),
        dtype="float32",
        compressors=None,
    )

    noise = np.random.default_rng(1).standard_normal((n_visits, width), dtype=np.float32)

    def write(start: int) -> None:
        # Another order of the visits is as good as new noise, and much faster.
        stop = min(start + width, n_vertices)
        order = np.random.default_rng(start).permutation(n_visits)
        store[:, start:stop] = noise[order, : stop - start] + curves[:, np.arange(start, stop) % 3]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(0, n_vertices, width)))


def fit_store(path: str, memory: str, source: str) -> None:
    """Fit in this process and print what it took, for the parent to read.

    With "disk" as the source, the page cache forgets the values before every pass, and between
    passes all chunks are read, by turns so that a change of the disk's speed meets both.
    """
    warnings.simplefilter("ignore", bd.BraindiveWarning)
    spent = {"sweep": 0.0, "m_step": 0.0}

    def timed(holder: Any, name: str) -> None:
        inner = getattr(holder, name)

        def outer(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return inner(*arguments, **options)
            finally:
                spent[name] += time.perf_counter() - start

        setattr(holder, name, outer)

    timed(LocalProducts, "sweep")
    timed(em, "m_step")
    values = zarr.open_array(path, mode="r")
    _, subjects = curves_of(values.shape[0])
    times = np.tile(np.arange(_VISITS, dtype=float), len(subjects) // _VISITS)
    cohort = bd.Cohort(values, subjects=subjects, times=times, graph=graph_of(values.shape[1]))
    ends: list[tuple[float, float, dict[str, float]]] = []

    reads: list[float] = []

    def note(_: bd.estimator.Progress) -> None:
        end = time.perf_counter()
        if source == "disk":
            forget(Path(path))
            reads.append(read_chunks(Path(path)))
            forget(Path(path))
        ends.append((end, time.perf_counter(), dict(spent)))

    n_passes = _PASSES if source == "cache" else 6
    model = bd.DIVE(3, memory=memory, random_state=0, n_init=1, tol=1e-300, max_iter=n_passes).fit(
        cohort, callback=note
    )
    # The first pass finds where to begin, in two reads.
    passes = [
        (after - before, *(spent_after[name] - spent_before[name] for name in spent))
        for (_, before, spent_before), (after, _, spent_after) in pairwise(ends)
    ]
    # Not from getrusage, which counts what the parent had when it started this process.
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    agreement = bd.match_clusters(model, np.arange(values.shape[1]) % 3).agreement
    found = {"peak": peak, "passes": passes, "agreement": agreement}
    print(json.dumps(found | ({"reads": reads} if source == "disk" else {})))


def forget(folder: Path) -> None:
    """Have the page cache forget all chunks."""
    for file in (folder / "c" / "0").iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def read_chunks(folder: Path) -> float:
    """Seconds to read all chunks into one buffer for each of two threads."""
    files = sorted((folder / "c" / "0").iterdir())
    buffers = [bytearray(files[0].stat().st_size) for _ in range(2)]

    def read(half: int) -> None:
        for file in files[half::2]:
            with open(file, "rb", buffering=0) as opened:
                opened.readinto(buffers[half])

    start = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(read, range(2)))
    return time.perf_counter() - start


def deliver_blocks(path: Path) -> float:
    """Seconds in which Zarr delivers all blocks as arrays, to one thread or to two if faster."""
    values = zarr.open_array(path, mode="r")
    width = values.chunks[1]
    took = []
    for n_threads in (1, 2):
        start = time.perf_counter()
        with ThreadPoolExecutor(n_threads) as pool:
            shapes = pool.map(
                lambda begin: values[:, begin : begin + width].shape,
                range(0, values.shape[1], width),
            )
            assert sum(shape[1] for shape in shapes) == values.shape[1]
        took.append(time.perf_counter() - start)
    return min(took)


def measure_store(
    n_visits: int, n_vertices: int, memory: str, parent: str | None, disk: bool = False
) -> Store:
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        write_store(folder / "values", n_visits, n_vertices)
        read_chunks(folder / "values")
        reads = [read_chunks(folder / "values") for _ in range(3)]
        load = os.getloadavg()[0]
        fitted = run_fit(folder / "values", memory, "cache")
        reads += [read_chunks(folder / "values") for _ in range(3)]
        from_disk, delivery = None, float("nan")
        if disk:
            delivery = min(deliver_blocks(folder / "values") for _ in range(3))
            cold = run_fit(folder / "values", memory, "disk")
            from_disk = (
                float(np.median(cold["reads"])),
                float(np.median(np.array(cold["passes"])[:, 0])),
            )
    finally:
        shutil.rmtree(folder)
    return Store(
        n_visits,
        n_vertices,
        memory,
        reads,
        load,
        from_disk=from_disk,
        delivery=delivery,
        **fitted,
    )


def run_fit(path: Path, memory: str, source: str) -> dict[str, Any]:
    """What a fit in a fresh process took."""
    command = [sys.executable, __file__, "fit", str(path), memory, source]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def measure_products(n_visits: int, n_vertices: int) -> float:
    """Gigabytes that the products of a pass take in a second from values in memory."""
    values = np.random.default_rng(0).standard_normal((n_visits, n_vertices), dtype=np.float32)
    curves, _ = curves_of(n_visits)
    measurements, assign, times = LocalProducts(values), Assign(np.ones(3)), []
    with one_thread_per_product():
        for _ in range(6):
            start = time.perf_counter()
            measurements.sweep(curves, assign)
            times.append(time.perf_counter() - start)
    return values.nbytes / 1e9 / float(np.median(times[1:]))


def measure_workers() -> Workers:
    from distributed import Client, LocalCluster

    n_visits, n_vertices, n_clusters = 16_000, 40_962, 20
    random = np.random.default_rng(0)
    values = random.standard_normal((n_visits, n_vertices), dtype=np.float32)
    curves = random.normal(size=(n_visits, n_clusters))
    field = random.normal(size=(n_vertices, n_clusters))
    assign = Assign(np.ones(n_clusters))
    took, travelled = {}, {}
    for n_workers in (1, 2):
        with (
            LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=":0"
            ) as cluster,
            Client(cluster) as client,
        ):
            parts = DistributedProducts(client, values)
            parts.sweep(curves, assign, field)
            times = []
            before = bytes_on_loopback()
            for _ in range(9):
                start = time.perf_counter()
                parts.sweep(curves, assign, field)
                times.append(time.perf_counter() - start)
            travelled[n_workers] = (bytes_on_loopback() - before) // len(times)
        took[n_workers] = float(np.median(times))
        print(f"{n_workers} worker(s): {took[n_workers]:.2f} s for a pass", flush=True)
    distances = random.random((n_vertices, n_clusters))
    start = time.perf_counter()
    assign(distances, np.full(n_vertices, float(n_visits)), field)
    serial = time.perf_counter() - start
    return Workers(
        n_visits, n_vertices, n_clusters, took[1], took[2], serial, travelled[2], os.getloadavg()[0]
    )


def bytes_on_loopback() -> int:
    """Bytes that have travelled between processes of this machine."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[0])
    return 0


def measure_growth(parent: str | None) -> Growth:
    sizes = [(_BESIDE[0], n) for n in _VERTICES] + [(n, _BESIDE[1]) for n in _COUNTS]
    found = {}
    for n_visits, n_vertices in dict.fromkeys(sizes):
        store = measure_store(n_visits, n_vertices, "4GB", parent)
        found[n_visits, n_vertices] = store.typical
        print(f"{n_visits} x {n_vertices}: {1000 * sum(store.typical):.0f} ms", flush=True)
    n_visits, n_vertices = np.array(list(found)).T
    return Growth(n_visits, n_vertices, np.array(list(found.values())), *_BESIDE)


def main() -> None:
    if sys.argv[1:2] == ["fit"]:
        fit_store(*sys.argv[2:5])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["store", "workers", "growth", "all"])
    parser.add_argument("--gigabytes", type=float, default=12.0)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--folder", help="where to put the stores; a temporary folder by default")
    parser.add_argument("--write", type=Path, help="page to write")
    arguments = parser.parse_args()
    n_vertices = _VERTICES[-1]
    n_visits = int(arguments.gigabytes * 1e9 / (4 * n_vertices)) // _VISITS * _VISITS + _VISITS
    store = workers = growth = None
    if arguments.what in ("workers", "all"):
        workers = measure_workers()
        print(workers)
    if arguments.what in ("growth", "all"):
        growth = measure_growth(arguments.folder)
        print(growth)
    if arguments.what in ("store", "all"):
        products = measure_products(n_visits, n_vertices // 8)
        store = measure_store(n_visits, n_vertices, arguments.memory, arguments.folder, disk=True)
        store = replace(store, products=products)
        print(store)
    if arguments.write:
        write_page(arguments.write, store, workers, growth)


if __name__ == "__main__":
    main()
