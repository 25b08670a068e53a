"""Parts of the values on the workers of a Dask cluster: cut, sent, and sent again when lost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.errors import BraindiveError, ClusterError
from braindive.values.local import LocalProducts
from braindive.values.products import AS_THEY_ARE
from braindive.values.storage import MemoryMap, Stored, Window, block_width, chunk_width, mapped
from braindive.values.walking import read_all

# Values in one part: small enough that a lost part is soon read again.
_PART_BYTES = 2**28
# First pause before parts are placed again, and how long to wait for a worker where there is none,
# in seconds.
_PAUSE = 0.5
_WAIT = 300
# Seconds between two looks for a worker.
_LOOK_AGAIN = 0.1
# Views of a part that a worker remembers: the whole, and a selection for prediction.
_VIEWS = 2


class WorkerLostError(Exception):
    """A worker went away before it could be given something."""


@dataclass(frozen=True)
class View:
    """Which visits are looked at and how much they count.

    Parameters
    ----------
    name : str
        One for each view, by which workers remember what they know of it.
    visits : (n_visits,) int or None
        Which; None for all.
    weights : (n_visits,) or None
        How much each of these counts; None for 1.
    """

    name: str
    visits: IntArray | None = None
    weights: Array | None = None


class Part:
    """Some vertices on a worker, with the views of them that were asked for last."""

    def __init__(self, products: LocalProducts) -> None:
        self._whole = products
        self._views: dict[str, LocalProducts] = {}

    def seen_as(self, view: View) -> LocalProducts:
        """Products of a view, kept so that its summary is computed once."""
        if view.name not in self._views:
            found = self._whole if view.visits is None else self._whole.select(view.visits)
            self._views[view.name] = found.weighted(view.weights)
            for name in list(self._views)[:-_VIEWS]:
                del self._views[name]
        return self._views[view.name]


@dataclass(frozen=True)
class Source:
    """How a worker gets its part of the values.

    Parameters
    ----------
    values : array, MemoryMap or Zarr array
        The part itself, or the whole to read it from.
    where : slice
        Vertices of the part.
    order : (n_visits,) int or None
        Canonical order of the rows.
    missing : bool
        Whether there are NaNs.
    persist : bool
        Whether to hold the part in memory.
    block_size : int
        Vertices in a block.
    """

    values: Stored | MemoryMap
    where: slice
    order: IntArray | None
    missing: bool
    persist: bool
    block_size: int

    def load(self) -> Part:
        """Open the part on a worker, and hold it in memory if that was asked for."""
        from distributed import get_worker

        order = self.order
        stored = self.values.open() if isinstance(self.values, MemoryMap) else self.values
        values: Stored = mapped(stored)
        if values.shape[1] != self.where.stop - self.where.start:
            values = Window(values, self.where.start, self.where.stop)
        if self.persist and not isinstance(values, np.ndarray):
            values = read_all(values, self.block_size)
        if self.persist and order is not None:
            values, order = values[order], None
        return Part(
            LocalProducts(
                values,
                order=order,
                missing=self.missing,
                n_jobs=get_worker().state.nthreads,
                block_size=self.block_size,
                unit=AS_THEY_ARE,  # every step comes with the unit of the whole
            )
        )


class Placement:
    """Which worker has which part of the values.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    sources : sequence of Source
        One for each part, in the order of the vertices.
    """

    def __init__(self, client: Any, sources: Sequence[Source]) -> None:
        self.client = client
        self.sources = list(sources)
        self.parts: dict[int, Any] = {}
        self._address = client.scheduler.address
        self._home_of_part: dict[int, str] = {}

    @classmethod
    def spread(
        cls, client: Any, values: Stored, order: IntArray | None, missing: bool
    ) -> Placement:
        """Cut the vertices into parts for the workers.

        Parts are held in the workers' memory if they fit in half of it, and are otherwise read
        from the store in every pass.
        """
        if client.status not in ("running", "connecting"):
            raise ClusterError("the Dask client is closed; make another one, and fit again.")
        workers = list(workers_of(client).values())
        if not workers:
            raise ClusterError("the Dask cluster has no worker yet; start one or wait for it.")
        _check_versions(client)
        n_threads = sum(worker["nthreads"] for worker in workers)
        room = sum(worker["memory_limit"] or 0 for worker in workers)
        n_rows, n_vertices = values.shape
        n_bytes = n_rows * n_vertices * values.dtype.itemsize
        in_memory = isinstance(values, np.ndarray) and not isinstance(values, np.memmap)
        persist = in_memory or 2 * n_bytes <= room
        if in_memory and 0 < room < n_bytes:
            raise ClusterError(
                f"the values take {n_bytes / 1e9:.2g} GB, and the workers have {room / 1e9:.2g} GB "
                "of memory together; pack the cohort, so that they read it from disk, or give them "
                "more."
            )
        whole = MemoryMap.of(values) if isinstance(values, np.memmap) else values

        n_visits = n_rows if order is None else len(order)
        block = block_width(n_visits, n_vertices, values.dtype.itemsize)
        chunk = chunk_width(values)
        block = max(block // chunk, 1) * chunk
        sources = []
        for where in _cut(n_vertices, block, n_threads, -(-n_bytes // _PART_BYTES)):
            part = values[:, where] if in_memory else whole
            sources.append(Source(part, where, order, missing, persist, block))
        return cls(client, sources)

    def is_connected_again(self) -> bool:
        """Whether the scheduler was gone and is back; ends the fit if it does not come back."""
        if self.client.status == "running":
            return False
        while self.client.status == "connecting":  # for as long as the client's timeout
            time.sleep(_PAUSE)
        if self.client.status == "running":
            return True
        raise ClusterError(
            f"the Dask scheduler at {self._address} went away; start one, and the fit can go on "
            "from its last checkpoint."
        )

    def place(self) -> dict[str, list[int]]:
        """Parts of each worker: as they were, but for workers that are gone, late or overloaded.

        A part that gets another home is read again from where the values are kept.
        """
        threads = _threads_of_workers(self.client)
        most = {
            worker: -(-len(self.sources) * number // sum(threads.values()))
            for worker, number in threads.items()
        }
        homes: dict[str, list[int]] = {worker: [] for worker in threads}
        homeless = []
        for number in range(len(self.sources)):
            home = self._home_of_part.get(number)
            if number in self.parts and home in homes and len(homes[home]) < most[home]:
                homes[home].append(number)
            else:
                homeless.append(number)
        for number in homeless:
            worker = min(homes, key=lambda each: (len(homes[each]) + 1) / threads[each])
            homes[worker].append(number)
            self._home_of_part[number] = worker
            self.parts[number] = self._send_part(self.sources[number], worker)
        return {worker: numbers for worker, numbers in homes.items() if numbers}

    def _send_part(self, source: Source, worker: str) -> Any:
        if source.persist:
            source = self.give(source, worker)
        return self.client.submit(
            Source.load, source, workers=[worker], allow_other_workers=True, pure=False, retries=2
        )

    def give(self, data: Any, worker: str) -> Any:
        """Send data to a worker."""
        try:
            return self.client.scatter(data, workers=[worker], hash=False)
        except KeyError:  # how the scheduler says that it does not know the worker any more
            raise WorkerLostError(f"worker {worker} is gone") from None


def workers_of(client: Any) -> dict[str, Any]:
    """What the scheduler knows of each worker at this moment.

    Asked of the scheduler itself: what `Client.scheduler_info` returns is replaced every few
    seconds, by another thread, with totals that name no worker.
    """
    workers: dict[str, Any] = client.sync(client.scheduler.identity)["workers"]
    return workers


def _check_versions(client: Any) -> None:
    """Refuse workers without braindive, or with another one: their answers would be others."""
    from importlib.metadata import version

    try:
        found = client.run(version, "braindive", on_error="return")
    except (OSError, TimeoutError):  # workers come and go; those that are lost are told later
        return
    ours = version("braindive")
    for worker, told in found.items():
        if isinstance(told, OSError):
            continue
        if told != ours:
            what = f"braindive {told}" if isinstance(told, str) else "no braindive"
            raise ClusterError(
                f"the Dask worker at {worker} has {what}, and this is {ours}; install the same "
                "version on every worker."
            )


def _threads_of_workers(client: Any) -> dict[str, int]:
    """Threads of each worker that is there now; where there is none, wait for one.

    Not with `Client.wait_for_workers`, which replaces what a cluster knows of its workers: one that
    is told of a lost worker after that fails when it is closed.
    """
    end = time.monotonic() + _WAIT
    while not (workers := workers_of(client)):
        if time.monotonic() > end:
            raise ClusterError(
                f"the Dask cluster has had no worker for {_WAIT} s; start one, and fit again."
            )
        time.sleep(_LOOK_AGAIN)
    return {address: worker["nthreads"] for address, worker in workers.items()}


def is_loss(error: Exception) -> bool:
    """Whether Dask says that a worker, or the way to it, went away with what it was given."""
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    if isinstance(error, BraindiveError):
        return False
    lost = (WorkerLostError, CancelledError, FutureCancelledError, KilledWorker, ConnectionError)
    # What comes from a worker's own disk has a number; what Dask says of its connections has none.
    return isinstance(error, lost) or (isinstance(error, OSError) and error.errno is None)


def _cut(n_vertices: int, block: int, n_threads: int, n_parts: int) -> list[slice]:
    """Parts of whole blocks, of about the same size, and as many for each thread."""
    n_parts = n_threads * max(-(-n_parts // n_threads), 2)
    n_blocks = -(-n_vertices // block)
    edges = np.unique(np.linspace(0, n_blocks, min(n_parts, n_blocks) + 1).round().astype(int))
    stops = np.minimum(block * edges, n_vertices).tolist()
    return [slice(start, stop) for start, stop in pairwise(stops)]
