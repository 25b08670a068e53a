"""The products of the values on a Dask cluster.

Each part of the vertices lives on a worker as ordinary `Measurements`. What travels for a pass
are the curves and the neighbours' field on the way out, and log-densities, responsibilities and
pooled sums on the way back. The M-step and the spatial strength stay with the caller.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from braindive.errors import ClusterError
from braindive.measurements import (
    Assign,
    Measurements,
    Unit,
    one_thread_per_product,
)
from braindive.model.arrays import Array, IntArray
from braindive.storage import block_width, mapped

# Values in one part: small enough that a lost part is soon read again.
_PART_BYTES = 2**28
# How often an operation is repeated when workers take its inputs with them.
_TRIES = 5
# First pause before that, in seconds.
_PAUSE = 0.5


@dataclass(frozen=True)
class Window:
    """Some columns of an array that is read where it lies."""

    values: Any
    start: int
    stop: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (self.values.shape[0], self.stop - self.start)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return np.dtype(self.values.dtype)

    def __getitem__(self, key: tuple[Any, slice]) -> Array:
        rows, columns = key
        begin, end, _ = columns.indices(self.stop - self.start)
        return np.asarray(self.values[rows, self.start + begin : self.start + end])

    def read_ahead(self, where: slice) -> None:
        """Have the disk fetch what will be read soon, where the values can do so."""
        if hasattr(self.values, "read_ahead"):
            self.values.read_ahead(slice(self.start + where.start, self.start + where.stop))


@dataclass(frozen=True)
class MemoryMap:
    """Where a memory map lies, so that a worker opens it instead of receiving its contents."""

    filename: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, values: np.memmap[Any, Any]) -> MemoryMap:
        """Describe a memory map."""
        return cls(str(values.filename), values.dtype.str, values.shape, int(values.offset))

    def open(self) -> Any:
        """Open it for reading."""
        return np.memmap(self.filename, self.dtype, "r", self.offset, self.shape)


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
        """Open the part, and hold it in memory if that was asked for."""
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
            values, order=order, missing=self.missing, n_jobs=1, block_size=self.block_size
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
        self._sources = list(sources)
        self._given_unit = unit
        self.missing = any(source.missing for source in sources)
        self.n_visits = n_visits
        self.n_vertices = sources[-1].where.stop
        self._parts: list[Any] = []

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
        n_parts = max(2 * n_threads, -(-n_bytes // _PART_BYTES))
        width = max(n_vertices // n_parts // block, 1) * block
        sources = []
        for start in range(0, n_vertices, width):
            where = slice(start, min(start + width, n_vertices))
            part = values[:, where] if in_memory else whole
            sources.append(Source(part, where, order, missing, persist, block))
        return cls(client, sources, n_visits, unit)

    @cached_property
    def summary(self) -> tuple[Array, Array, Array]:
        """Count, mean and sum of squared deviations of each vertex, in the unit of the values."""
        parts = self._run("summary")
        counts, means, energies = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
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
        return _stack(self._run("project", shared=(curves,)))

    def pool(self, responsibilities: Array) -> tuple[Array, Array]:
        """Sums over the vertices of each cluster; see `Measurements.pool`."""
        return _add(self._run("pool", split=(responsibilities,)))

    def sweep(
        self, curves: Array, assign: Assign, field: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """Project, assign and pool in one read of the values; see `Measurements.sweep`."""
        parts = self._run("sweep", shared=(curves, assign), split=(field,))
        densities, responsibilities = (_stack([part[i] for part in parts]) for i in (0, 1))
        return densities, responsibilities, *_add([part[2:] for part in parts])

    def features(self, directions: Array) -> Array:
        """Level and directions of every vertex; see `Measurements.features`."""
        return _stack(self._run("features", shared=(directions,)))

    def sum_residuals(self, curves: Array, responsibilities: Array, power: int) -> Array:
        """Sums of residuals, one at a time; see `Measurements.sum_residuals`."""
        return np.sum(
            self._run("sum_residuals", shared=(curves,), split=(responsibilities,), last=(power,)),
            axis=0,
        )

    def _run(
        self,
        method: str,
        shared: tuple[Any, ...] = (),
        split: tuple[Array | None, ...] = (),
        last: tuple[Any, ...] = (),
    ) -> list[Any]:
        """Call a method of every part where it lives; begin again if workers were lost.

        Work that was computed on a lost worker is done again by Dask itself. What was sent to it
        from here is gone, and is sent again.
        """
        unit = None if method == "summary" else self.unit
        for attempt in range(_TRIES):
            futures: list[Any] = []
            try:
                if not self._parts:
                    self._parts = self._send_parts()
                given = self._client.scatter(shared, hash=False) if shared else ()
                for part, source in zip(self._parts, self._sources, strict=True):
                    own = tuple(None if array is None else array[source.where] for array in split)
                    futures.append(
                        self._client.submit(_call, part, unit, method, given, own, last, pure=False)
                    )
                return list(self._client.gather(futures))
            except _lost_errors() as error:
                self._parts = []
                if attempt == _TRIES - 1:
                    raise ClusterError(
                        f"workers were lost {_TRIES} times during one step ({error}); do they run "
                        "out of memory? Give them more, or use more of them."
                    ) from error
                time.sleep(_PAUSE * 2**attempt)
            except BaseException:
                self._client.cancel(futures)
                raise
        raise AssertionError

    def _send_parts(self) -> list[Any]:
        return [
            self._client.submit(
                Source.load,
                self._client.scatter(source, hash=False) if source.persist else source,
                pure=False,
                retries=2,
            )
            for source in self._sources
        ]


def _call(
    part: Measurements,
    unit: Unit | None,
    method: str,
    shared: Sequence[Any],
    split: tuple[Any, ...],
    last: tuple[Any, ...],
) -> Any:
    """Run a method of a part on its worker."""
    with one_thread_per_product():
        if unit is None:
            return part.summary
        return getattr(part.in_unit(unit), method)(*shared, *split, *last)


def _lost_errors() -> tuple[type[BaseException], ...]:
    """What Dask raises when a worker goes away with what it was given."""
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    return (CancelledError, CommClosedError, FutureCancelledError, KilledWorker, TimeoutError)


def _stack(parts: Sequence[Array]) -> Array:
    """Join parts along the vertices, columns contiguous."""
    return np.concatenate([part.T for part in parts], axis=1).T


def _add(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Add sums and weights in the order of the parts."""
    sums = np.sum([part[0] for part in parts], axis=0)
    weights = np.sum([part[1] for part in parts], axis=0)
    return sums, weights
