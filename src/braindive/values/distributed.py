"""The products of the values on a Dask cluster.

Each part of the vertices lives on a worker as ordinary `Measurements`. What travels for a pass
are the curves and the neighbours' field on the way out, and distances to the curves and pooled
sums, added up on each worker, on the way back. The M-step and the spatial strength stay with the
caller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.errors import BraindiveError, ClusterError
from braindive.values.measurements import (
    Assign,
    Measurements,
    Unit,
    one_thread_per_product,
)
from braindive.values.storage import MemoryMap, Window, block_width, mapped

Results = tuple[tuple[Array, ...], tuple[Array, ...]]
"""What a step finds for every vertex, and sums over the vertices."""

# Values in one part: small enough that a lost part is soon read again.
_PART_BYTES = 2**28
# How often an operation is repeated when workers take its inputs with them.
_TRIES = 5
# First pause before that, and how long to wait for a worker where there is none, in seconds.
_PAUSE = 0.5
_WAIT = 300


class _WorkerLostError(Exception):
    """A worker went away before it could be given something."""


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

    values: Any
    where: slice
    order: IntArray | None
    missing: bool
    persist: bool
    block_size: int

    def load(self) -> Measurements:
        """Open the part on a worker, and hold it in memory if that was asked for."""
        from distributed import get_worker

        order, values = self.order, self.values
        if isinstance(values, MemoryMap):
            values = values.open()
        values = mapped(values)
        if values.shape[1] != self.where.stop - self.where.start:
            values = Window(values, self.where.start, self.where.stop)
        if self.persist and not isinstance(values, np.ndarray):
            values = Measurements(values, n_jobs=1, block_size=self.block_size).read_all()
        if self.persist and order is not None:
            values, order = values[order], None
        return Measurements(
            values,
            order=order,
            missing=self.missing,
            n_jobs=get_worker().state.nthreads,
            block_size=self.block_size,
        )


class DistributedMeasurements:
    """`Measurements` whose vertices are spread over the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    sources : sequence of Source
        One for each part, in the order of the vertices.
    n_visits : int
        Number of visits.
    unit : Unit or None
        Standard unit; None takes the values' own.
    """

    def __init__(
        self, client: Any, sources: Sequence[Source], n_visits: int, unit: Unit | None = None
    ) -> None:
        self._client = client
        self._address = client.scheduler.address
        self._sources = list(sources)
        self._given_unit = unit
        self.missing = any(source.missing for source in sources)
        self.n_visits = n_visits
        self.n_vertices = sources[-1].where.stop
        self._parts: dict[int, Any] = {}
        self._home_of_part: dict[int, str] = {}

    @classmethod
    def spread(
        cls,
        client: Any,
        values: Any,
        *,
        order: IntArray | None,
        missing: bool,
        unit: Unit | None = None,
    ) -> DistributedMeasurements:
        """Cut the vertices into parts and give them to the workers.

        Parts are held in the workers' memory if they fit in half of it, and are otherwise read
        from the store in every pass.
        """
        workers = list(client.scheduler_info(n_workers=-1)["workers"].values())
        if not workers:
            raise ClusterError("the Dask cluster has no worker yet; start one or wait for it.")
        n_threads = sum(worker["nthreads"] for worker in workers)
        room = sum(worker["memory_limit"] or 0 for worker in workers)
        n_rows, n_vertices = values.shape
        n_bytes = n_rows * n_vertices * values.dtype.itemsize
        in_memory = isinstance(values, np.ndarray) and not isinstance(values, np.memmap)
        persist = in_memory or 2 * n_bytes <= room
        whole = MemoryMap.of(values) if isinstance(values, np.memmap) else values

        n_visits = n_rows if order is None else len(order)
        block = block_width(n_visits, n_vertices, values.dtype.itemsize)
        if hasattr(values, "chunks"):
            block = max(block // values.chunks[1], 1) * values.chunks[1]
        sources = []
        for where in _cut(n_vertices, block, n_threads, -(-n_bytes // _PART_BYTES)):
            part = values[:, where] if in_memory else whole
            sources.append(Source(part, where, order, missing, persist, block))
        return cls(client, sources, n_visits, unit)

    @cached_property
    def summary(self) -> tuple[Array, Array, Array]:
        """Count, mean and sum of squared deviations of each vertex, in the unit of the values."""
        counts, means, energies = self._run("summary")[0]
        return counts, means, energies

    @cached_property
    def unit(self) -> Unit:
        """Standard unit of the values."""
        return self._given_unit or Unit.of(*self.summary)

    @property
    def counts(self) -> Array:
        """Number of observed visits of each vertex."""
        return self.summary[0]

    @cached_property
    def means(self) -> Array:
        """Mean of each vertex over its observed visits, in standard units."""
        counts, means, _ = self.summary
        return np.where(counts > 0, means - self.unit.offset, 0.0) / self.unit.scale

    @cached_property
    def energies(self) -> Array:
        """Sum of squared deviations of each vertex from its mean, in standard units."""
        return self.summary[2] / self.unit.scale**2

    @property
    def squares(self) -> Array:
        """sum_n V_ln^2 of each vertex in standard units."""
        return self.energies + self.counts * self.means**2

    def project(self, curves: Array) -> Array:
        """Squared distance of every vertex to every curve; see `Measurements.project`."""
        return self._run("project", (curves,))[0][0]

    def pool(self, responsibilities: Array) -> tuple[Array, Array]:
        """Sums over the vertices of each cluster; see `Measurements.pool`."""
        _, (sums, weights) = self._run("pool", split=responsibilities)
        return sums, self._of_every_visit(weights)

    def sweep(
        self, curves: Array, assign: Assign, field: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """Project, assign and pool in one read of the values; see `Measurements.sweep`."""
        (distances,), (sums, weights) = self._run("sweep", (curves, assign), field)
        # Assigned once more here: sending what the workers found would double the traffic.
        densities, responsibilities = assign(distances, self.counts, field)
        return densities, responsibilities, sums, self._of_every_visit(weights)

    def features(self, directions: Array) -> Array:
        """Level and directions of every vertex; see `Measurements.features`."""
        return self._run("features", (directions,))[0][0]

    def sum_residuals(self, curves: Array, responsibilities: Array, power: int) -> Array:
        """Sums of residuals, one at a time; see `Measurements.sum_residuals`."""
        return self._run("sum_residuals", (curves, power), responsibilities)[1][0]

    def _of_every_visit(self, weights: Array) -> Array:
        """Weights of all visits; without holes they are those of the first."""
        return np.broadcast_to(weights, (self.n_visits, weights.shape[1])).copy()

    def _run(self, step: str, shared: tuple[Any, ...] = (), split: Array | None = None) -> Results:
        """Take a step with every part where it lives; begin again if workers were lost.

        Parameters
        ----------
        step : str
            Name of one of `_STEPS`.
        shared : tuple
            What every worker needs.
        split : (n_vertices, n_clusters) or None
            Of which every worker needs the rows of its own vertices.

        Returns
        -------
        arrays, totals : tuples
            What was found for each vertex, and sums over them.
        """
        unit = None if step == "summary" else self.unit
        for attempt in range(_TRIES):
            futures: list[Any] = []
            try:
                homes = self._place_parts()
                for worker, numbers in homes.items():
                    own = [
                        None if split is None else split[self._sources[number].where]
                        for number in numbers
                    ]
                    given = self._give([shared, own], worker)
                    futures.append(
                        self._client.submit(
                            _take_step,
                            step,
                            [self._parts[number] for number in numbers],
                            unit,
                            *given,
                            workers=[worker],
                            allow_other_workers=True,
                            pure=False,
                        )
                    )
                return self._join(homes, self._client.gather(futures))
            except Exception as error:
                if not self._is_connected_again() and not _is_loss(error):
                    self._client.cancel(futures)
                    raise
                self._parts.clear()
                if attempt == _TRIES - 1:
                    raise ClusterError(
                        f"workers were lost {_TRIES} times during one step ({error}); do they run "
                        "out of memory? Give them more, or use more of them."
                    ) from error
                time.sleep(_PAUSE * 2**attempt)
            except KeyboardInterrupt:
                self._client.cancel(futures)
                raise
        raise AssertionError

    def _is_connected_again(self) -> bool:
        """Whether the scheduler was gone and is back; ends the fit if it does not come back."""
        if self._client.status == "running":
            return False
        while self._client.status == "connecting":  # for as long as the client's timeout
            time.sleep(_PAUSE)
        if self._client.status == "running":
            return True
        raise ClusterError(
            f"the Dask scheduler at {self._address} went away; start one, and the fit can go on "
            "from its last checkpoint."
        )

    def _place_parts(self) -> dict[str, list[int]]:
        """Parts of each worker: as they were, but for workers that are gone, late or overloaded.

        A part that gets another home is read again from where the values are kept.
        """
        threads = _threads_of_workers(self._client)
        most = {
            worker: -(-len(self._sources) * number // sum(threads.values()))
            for worker, number in threads.items()
        }
        homes: dict[str, list[int]] = {worker: [] for worker in threads}
        homeless = []
        for number in range(len(self._sources)):
            home = self._home_of_part.get(number)
            if number in self._parts and home in homes and len(homes[home]) < most[home]:
                homes[home].append(number)
            else:
                homeless.append(number)
        for number in homeless:
            worker = min(homes, key=lambda each: (len(homes[each]) + 1) / threads[each])
            homes[worker].append(number)
            self._home_of_part[number] = worker
            self._parts[number] = self._send_part(self._sources[number], worker)
        return {worker: numbers for worker, numbers in homes.items() if numbers}

    def _send_part(self, source: Source, worker: str) -> Any:
        if source.persist:
            source = self._give(source, worker)
        return self._client.submit(
            Source.load, source, workers=[worker], allow_other_workers=True, pure=False, retries=2
        )

    def _give(self, data: Any, worker: str) -> Any:
        """Send data to a worker."""
        try:
            return self._client.scatter(data, workers=[worker], hash=False)
        except KeyError:  # how the scheduler says that it does not know the worker any more
            raise _WorkerLostError(f"worker {worker} is gone") from None

    def _join(self, homes: dict[str, list[int]], results: Sequence[Any]) -> Results:
        """Put arrays of the parts in the order of the vertices, and add up the totals."""
        by_part: dict[int, tuple[Array, ...]] = {}
        for numbers, (arrays, _) in zip(homes.values(), results, strict=True):
            by_part.update(zip(numbers, arrays, strict=True))
        in_order = [by_part[number] for number in range(len(self._sources))]
        totals = tuple(np.sum(each, axis=0) for each in zip(*(r[1] for r in results), strict=True))
        return tuple(_stack(arrays) for arrays in zip(*in_order, strict=True)), totals


def _sweep(part: Measurements, field: Array | None, curves: Array, assign: Assign) -> Results:
    def keep_distances(distances: Array, counts: Array, near: Array | None) -> tuple[Array, Array]:
        return distances, assign(distances, counts, near)[1]

    distances, _, sums, weights = part.sweep(curves, keep_distances, field)
    return (distances,), (sums, _short(part, weights))


def _pool(part: Measurements, responsibilities: Array) -> Results:
    sums, weights = part.pool(responsibilities)
    return (), (sums, _short(part, weights))


def _short(part: Measurements, weights: Array) -> Array:
    """Weights to send: without holes they are the same at every visit."""
    return weights if part.missing else weights[:1]


_STEPS: dict[str, Callable[..., Results]] = {
    "summary": lambda part, _: (part.summary, ()),
    "project": lambda part, _, curves: ((part.project(curves),), ()),
    "pool": _pool,
    "sweep": _sweep,
    "features": lambda part, _, directions: ((part.features(directions),), ()),
    "sum_residuals": lambda part, z, *given: ((), (part.sum_residuals(given[0], z, given[1]),)),
}


def _take_step(
    step: str,
    parts: Sequence[Measurements],
    unit: Unit | None,
    shared: tuple[Any, ...],
    own: Sequence[Array | None],
) -> tuple[list[tuple[Array, ...]], tuple[Array, ...]]:
    """Take a step with all parts of a worker: the arrays of each part, and totals over them."""
    arrays: list[tuple[Array, ...]] = []
    totals: tuple[Array, ...] = ()
    with one_thread_per_product():
        for part, mine in zip(parts, own, strict=True):
            _ = part.summary  # is kept with the part from the first step on
            found, sums = _STEPS[step](part.in_unit(unit) if unit else part, mine, *shared)
            arrays.append(found)
            totals = tuple(map(np.add, totals, sums)) if totals else sums
    return arrays, totals


def _threads_of_workers(client: Any) -> dict[str, int]:
    """Threads of each worker that is there now; where there is none, wait for one."""
    try:
        client.wait_for_workers(1, timeout=_WAIT)
    except TimeoutError as error:
        raise ClusterError(
            f"the Dask cluster has had no worker for {_WAIT} s; start one, and fit again."
        ) from error
    workers = client.scheduler_info(n_workers=-1)["workers"]
    if not workers:  # gone since
        raise _WorkerLostError("all workers are gone")
    return {address: worker["nthreads"] for address, worker in workers.items()}


def _is_loss(error: Exception) -> bool:
    """Whether Dask says that a worker, or the way to it, went away with what it was given."""
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    if isinstance(error, BraindiveError):
        return False
    lost = (_WorkerLostError, CancelledError, FutureCancelledError, KilledWorker, ConnectionError)
    # What comes from a worker's own disk has a number; what Dask says of its connections has none.
    return isinstance(error, lost) or (isinstance(error, OSError) and error.errno is None)


def _cut(n_vertices: int, block: int, n_threads: int, n_parts: int) -> list[slice]:
    """Parts of whole blocks, of about the same size, and as many for each thread."""
    n_parts = n_threads * max(-(-n_parts // n_threads), 2)
    n_blocks = -(-n_vertices // block)
    edges = np.unique(np.linspace(0, n_blocks, min(n_parts, n_blocks) + 1).round().astype(int))
    stops = np.minimum(block * edges, n_vertices).tolist()
    return [slice(start, stop) for start, stop in pairwise(stops)]


def _stack(parts: Sequence[Array]) -> Array:
    """Join parts along the vertices, columns contiguous."""
    return np.concatenate([part.T for part in parts], axis=-1).T
