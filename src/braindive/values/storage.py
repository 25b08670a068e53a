"""How blocks of values come from where they are kept, and how wide blocks are.

The chunks of an uncompressed Zarr array are the values themselves, so they are mapped into memory
and used where the page cache has them. Anything else is read by what keeps it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.errors import ReadError

# How often a block is read before giving up, and the first pause between, in seconds.
_TRIES = 3
_PAUSE = 0.1
# Linux: fill in all pages now, and fail instead of killing the process where the disk fails.
_POPULATE_READ = 22
# What Zarr writes for an array that is nothing but its values.
_PLAIN = [{"name": "bytes", "configuration": {"endian": "little"}}]


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


class MappedChunks:
    """An uncompressed Zarr array on a local disk, whose chunks hold all rows of some columns.

    Parameters
    ----------
    array : zarr.Array
        One for which `MappedChunks.can_map` is true.
    """

    def __init__(self, array: Any) -> None:
        self.shape: tuple[int, int] = array.shape
        self.dtype: np.dtype[Any] = np.dtype(array.dtype)
        self.chunks: tuple[int, int] = array.chunks
        self._fill = array.fill_value
        folder = Path(array.store.root) / array.store_path.path
        self._files = [
            str(folder / array.metadata.encode_chunk_key((0, number)))
            for number in range(-(-self.shape[1] // self.chunks[1]))
        ]

    @staticmethod
    def can_map(values: Any) -> bool:
        """Whether the values are such an array."""
        if sys.platform != "linux" or isinstance(values, np.ndarray):
            return False
        metadata, store = getattr(values, "metadata", None), getattr(values, "store", None)
        if getattr(metadata, "zarr_format", None) != 3 or not hasattr(store, "root"):
            return False
        codecs = [codec.to_dict() for codec in metadata.codecs]  # type: ignore[union-attr]
        return codecs == _PLAIN and values.chunks[0] == values.shape[0]

    def __getitem__(self, key: tuple[Any, slice]) -> Array:
        rows, columns = key
        begin, end, _ = columns.indices(self.shape[1])
        width = self.chunks[1]
        parts = []
        for number in range(begin // width, -(-end // width)):
            first = number * width
            part = self._map(number)[:, max(begin - first, 0) : end - first]
            parts.append(part if isinstance(rows, slice) and rows == slice(None) else part[rows])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def read_ahead(self, where: slice) -> None:
        """Have the disk fetch columns that will be read soon."""
        width = self.chunks[1]
        for file in self._files[where.start // width : -(-where.stop // width)]:
            try:
                descriptor = os.open(file, os.O_RDONLY)
            except OSError:  # is told when the chunk itself is read
                continue
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(descriptor)

    def _map(self, number: int) -> Array:
        n_values = self.chunks[0] * self.chunks[1]
        try:
            with open(self._files[number], "rb") as file:
                chunk = mmap.mmap(
                    file.fileno(), n_values * self.dtype.itemsize, access=mmap.ACCESS_READ
                )
        except FileNotFoundError:  # Zarr does not write what is all empty
            return np.broadcast_to(np.asarray(self._fill, self.dtype), self.chunks)
        values = np.frombuffer(chunk, self.dtype).reshape(self.chunks)
        if not _populate(values):
            # A kernel before 5.14, or a disk that fails: reading tells which.
            return np.fromfile(self._files[number], self.dtype, n_values).reshape(self.chunks)
        return values


def _populate(values: Array) -> bool:
    """Fill in all pages of a map; False where that fails.

    Called through ctypes, which lets other threads go on meanwhile; mmap.madvise does not.
    """
    where, size = ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes)
    return bool(ctypes.CDLL(None).madvise(where, size, _POPULATE_READ) == 0)


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
    return MappedChunks(values) if MappedChunks.can_map(values) else values


def chunk_width(values: Stored) -> int:
    """Columns that are kept together; 1 where every one can be read by itself."""
    chunks = getattr(values, "chunks", None)
    return 1 if chunks is None else int(chunks[1])


def read_columns(values: Stored, where: slice, rows: IntArray | None = None) -> Array:
    """Read some columns; a disk or network may need more than one try.

    Parameters
    ----------
    values : array, MappedChunks, Zarr array or anything else with two dimensions
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
