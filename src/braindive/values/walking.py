"""Walk over values in pieces, so that they need not fit into memory.

There are two directions: all visits of some vertices, which is how products, checks and
preprocessing read, and whole maps of some visits, which is how maps are smoothed and written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
from joblib import effective_n_jobs, parallel_config
from threadpoolctl import ThreadpoolController, threadpool_limits

from braindive.arrays import Array, IntArray
from braindive.values.storage import Stored, chunk_width, mapped, read_columns

T = TypeVar("T")

# Blocks that the disk is told to fetch before they are needed.
_AHEAD = 3
# Values in one piece of a walk in one thread: 32 MiB of float64.
_PIECE = 2**22


def map_columns(
    values: Stored,
    function: Callable[[slice, Array], T],
    width: int,
    *,
    rows: IntArray | None = None,
    n_threads: int = 1,
    comes_back: bool = False,
) -> Iterator[T]:
    """Call with all visits of some vertices at a time; results in the order of the vertices.

    Parameters
    ----------
    values : array, memory map, or a store after `mapped`
        What to read.
    function : callable
        Takes which vertices, and their values (n_visits, n), which it must not write to.
    width : int
        Vertices in a block.
    rows : (n_visits,) int or None
        Rows to read, in this order; None for all as they are.
    n_threads : int
        Blocks that are worked on at the same time.
    comes_back : bool
        Whether this walk will be repeated: its first blocks are fetched again at its end.
    """
    blocks = _cut(values.shape[1], width)

    def call(number: int) -> T:
        later = number + _AHEAD
        if hasattr(values, "read_ahead") and (comes_back or later < len(blocks)):
            values.read_ahead(blocks[later % len(blocks)])
        return function(blocks[number], read_columns(values, blocks[number], rows))

    if n_threads == 1 or len(blocks) == 1:
        yield from map(call, range(len(blocks)))
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield from pool.map(call, range(len(blocks)))


def vertex_blocks(values: Stored, rows: IntArray | None = None) -> Iterator[tuple[slice, Array]]:
    """All visits of some vertices at a time, one after the other.

    Parameters
    ----------
    values : array, memory map or store
        What to read.
    rows : (n_visits,) int or None
        Rows to read, in this order; None for all as they are.

    Yields
    ------
    slice, (n_visits, n_block)
        Which vertices, and their values.
    """
    # Chunks of a store are read whole, so a block is made of whole chunks.
    width = _piece(values.shape[0], chunk_width(values))
    yield from map_columns(mapped(values), _as_pair, width, rows=rows)


def visit_blocks(values: Stored, rows: IntArray | None = None) -> Iterator[tuple[slice, Array]]:
    """Whole maps of some visits at a time.

    Parameters
    ----------
    values : array, memory map or store
        What to read. A store keeps all visits of a vertex together, so it is read as a whole.
    rows : (n_visits,) int or None
        Rows to read, in this order; None for all as they are.

    Yields
    ------
    slice, (n_block, n_vertices)
        Which visits, and their values.
    """
    stored = values if isinstance(values, np.ndarray) else read_all(values)
    wanted = np.arange(stored.shape[0]) if rows is None else rows
    for where in _cut(len(wanted), _piece(stored.shape[1])):
        yield where, stored[wanted[where]]


def read_all(values: Stored, width: int | None = None) -> Array:
    """Copy of all values in memory, rows as they are stored."""
    width = width or _piece(values.shape[0], chunk_width(values))
    blocks = [block for _, block in map_columns(mapped(values), _as_pair, width)]
    return np.concatenate(blocks, axis=1)


def _as_pair(where: slice, block: Array) -> tuple[slice, Array]:
    return where, block


def _piece(length: int, multiple: int = 1) -> int:
    """How many of so long rows or columns are one piece, in multiples."""
    return max(_PIECE // max(length, 1) // multiple, 1) * multiple


def _cut(length: int, width: int) -> list[slice]:
    return [slice(start, min(start + width, length)) for start in range(0, length, width)]


def count_threads(n_jobs: int | None) -> int:
    """Threads that are meant by a number of jobs, None for all cores."""
    # A positive number is meant: joblib would make it 1 inside the processes of a cluster.
    return n_jobs if n_jobs and n_jobs > 0 else effective_n_jobs(n_jobs or -1)


@contextmanager
def one_thread_per_product(n_jobs: int | None = 1) -> Iterator[None]:
    """Keep BLAS and OpenMP to one thread: blocks are the unit of parallel work.

    Joblib is told how many threads may work on blocks that know nothing of values.
    """
    with _ONE_THREAD, parallel_config("threading", n_jobs=count_threads(n_jobs)):
        yield


class _OneThread:
    """BLAS and OpenMP kept to one thread.

    The limit is one of the whole process. Fits in several threads would each take the limit of
    another for what there was before, and the last one would leave it for ever. So the first one
    notes what there was, and every one that ends puts that back: threadpoolctl heeds the thread
    that came first for as long as it lives, and then any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = threading.local()
        self._users = 0
        self._before: dict[str, int] = {}

    def __enter__(self) -> None:
        depth = getattr(self._inside, "depth", 0)
        self._inside.depth = depth + 1
        if depth > 0:
            return
        with self._lock:
            self._users += 1
            if self._users == 1:
                found = ThreadpoolController().lib_controllers
                self._before = {library.filepath: library.num_threads for library in found}
            threadpool_limits(limits=1)

    def __exit__(self, *_: object) -> None:
        self._inside.depth -= 1
        if self._inside.depth > 0:
            return
        with self._lock:
            self._users -= 1
            for library in ThreadpoolController().lib_controllers:
                if library.filepath in self._before:
                    library.set_num_threads(self._before[library.filepath])


_ONE_THREAD = _OneThread()
