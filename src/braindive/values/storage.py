"""How blocks of values come from where they are kept, and how wide blocks are.

Chunks of a packed cohort, and those of other Zarr arrays that are nothing but their values, are
mapped into memory. Anything else is read by what keeps it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.errors import ReadError
from braindive.values.chunks import MappedChunks, can_map

# How often a block is read before giving up, and the first pause between, in seconds.
_TRIES = 3
_PAUSE = 0.1


class Stored(Protocol):
    """Values wherever they are kept: arrays, memory maps, Zarr arrays and what reads like them.

    Those with `chunks` are best read in whole ones, and those with `read_ahead` can fetch columns
    before they are asked for.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    @property
    def dtype(self) -> Any:
        """Type of the values."""

    def __getitem__(self, key: Any, /) -> Any:
        """Read rows and columns."""


@dataclass(frozen=True)
class Window:
    """Some columns of an array that is read where it lies."""

    values: Stored
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


def mapped(values: Stored) -> Stored:
    """Return values with chunks that are mapped where they can be, else the values themselves."""
    return MappedChunks(values) if can_map(values) else values


def chunk_width(values: Stored) -> int:
    """Columns that are kept together; 1 where every one can be read by itself."""
    chunks = getattr(values, "chunks", None)
    return 1 if chunks is None else int(chunks[1])


def read_columns(values: Stored, where: slice, rows: IntArray | None = None) -> Array:
    """Read some columns; a disk or network may need more than one try.

    Parameters
    ----------
    values : array, Chunks, Zarr array or anything else with two dimensions
        What to read from.
    where : slice
        Columns.
    rows : (n_rows,) int or None
        Rows, in this order; None for all.

    Returns
    -------
    (n_rows, n_columns)
        Not to be written to.
    """
    for attempt in range(_TRIES):
        try:
            if isinstance(values, np.ndarray):
                return values[slice(None) if rows is None else rows, where]
            block = np.asarray(values[:, where])
            return block if rows is None else block[rows]
        except ReadError:  # damage, which another try would find again
            raise
        except (OSError, RuntimeError, ValueError) as error:
            if attempt == _TRIES - 1:
                first = getattr(values, "start", 0) + where.start
                last = first + where.stop - where.start - 1
                raise ReadError(
                    f"vertices {first} to {last} could not be read after {_TRIES} tries "
                    f"({error}); is the store complete and within reach?"
                ) from error
            time.sleep(_PAUSE * 2**attempt)
    raise AssertionError


def block_width(n_visits: int, n_vertices: int, itemsize: int) -> int:
    """Vertices in a block: about 32 MiB of values, and enough blocks to share the work.

    Sums in single precision depend on how vertices are grouped, so that every way of reading the
    same values should use the same blocks.
    """
    width = 32 * 2**20 // max(n_visits * itemsize, 1)
    width = min(width, -(-n_vertices // 16))
    return max(width // 64 * 64, 256)


def fitting_width(
    values: Stored, n_visits: int, missing: bool, n_threads: int, memory: int | None
) -> int:
    """The usual width, in whole chunks of a store, and less where memory is short."""
    width = block_width(n_visits, values.shape[1], values.dtype.itemsize)
    chunk = chunk_width(values)
    if chunk > 1:
        width = max(width // chunk, 1) * chunk
    if memory is not None:
        # A block being read, decoded and put in order exists up to three times; holes add a
        # mask and a filled copy.
        copies = n_threads * (5 if missing else 3)
        width = min(width, max(memory // (n_visits * values.dtype.itemsize * copies), 1))
    return width
