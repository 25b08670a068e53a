"""Uncompressed chunks in files: mapped into memory, and compared with their checksums.

The chunks of an uncompressed Zarr array are the values themselves, so they are mapped and used
where the page cache has them. Where checksums are known, a chunk is compared with its own when it
is first read, and again only if its file has changed since: passes after the first cost nothing.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from braindive.arrays import Array
from braindive.errors import ReadError

# Linux: fill in all pages now, and fail instead of killing the process where the disk fails.
_POPULATE_READ = 22


class Chunks:
    """Values in files that each hold all rows of some columns, the last one padded.

    Parameters
    ----------
    files : sequence of str
        One for each chunk.
    shape : (n_rows, n_columns)
        Of all values together.
    width : int
        Columns in a chunk.
    dtype : dtype
        Of the values.
    fill : float, optional
        Value of a chunk that is not there; without, an absent chunk is an error.
    checksums : sequence of int, optional
        CRC-32 of each chunk; see `checksum`.
    """

    def __init__(
        self,
        files: Sequence[str],
        shape: tuple[int, int],
        width: int,
        dtype: Any,
        *,
        fill: float | None = None,
        checksums: Sequence[int] | None = None,
    ) -> None:
        self.shape = shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.chunks = (shape[0], width)
        self.checksums = None if checksums is None else list(checksums)
        self._files, self._fill = list(files), fill
        # What each chunk's file was like when its checksum was found right.
        self._right: dict[int, tuple[int, ...]] = {}

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    @property
    def nbytes(self) -> int:
        """Bytes that all values take in memory."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        rows, columns = key if isinstance(key, tuple) and len(key) == 2 else (key, slice(None))
        if rows is Ellipsis:
            rows = slice(None)
        if not isinstance(columns, slice) or columns.indices(self.shape[1])[2] != 1:
            return self[:, :][key]
        begin, end, _ = columns.indices(self.shape[1])
        width = self.chunks[1]
        parts = []
        for number in range(begin // width, -(-end // width)):
            first = number * width
            part = self._map(number)[:, max(begin - first, 0) : end - first]
            whole = isinstance(rows, slice) and rows == slice(None)
            parts.append(part if whole else part[rows])
        if not parts:
            return np.empty((self.shape[0], 0), self.dtype)[rows]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = self[:, :]
        return values if dtype is None else values.astype(dtype)

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads by itself, and so it compares by itself.
        return {**self.__dict__, "_right": {}}

    def read_ahead(self, where: slice) -> None:
        """Have the disk fetch columns that will be read soon."""
        if not hasattr(os, "posix_fadvise"):
            return
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

    def absent(self) -> list[int]:
        """First column of each chunk that has no file."""
        width = self.chunks[1]
        return [n * width for n, file in enumerate(self._files) if not os.path.exists(file)]

    def _map(self, number: int) -> Array:
        n_values = self.chunks[0] * self.chunks[1]
        n_bytes = n_values * self.dtype.itemsize
        try:
            with open(self._files[number], "rb") as file:
                status = os.fstat(file.fileno())
                if self.checksums is not None and status.st_size != n_bytes:
                    raise self._damage(number, f"has {status.st_size:,} bytes and not {n_bytes:,}")
                chunk = mmap.mmap(file.fileno(), n_bytes, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            if self._fill is None:
                raise self._damage(number, "is lost") from None
            return np.broadcast_to(np.asarray(self._fill, self.dtype), self.chunks)
        values = np.frombuffer(chunk, self.dtype).reshape(self.chunks)
        if not _populate(values):
            # Another system, a kernel before 5.14, or a disk that fails: reading tells which.
            values = np.fromfile(self._files[number], self.dtype, n_values).reshape(self.chunks)
        if self.checksums is not None:
            now = (status.st_ino, status.st_size, status.st_mtime_ns)
            if self._right.get(number) != now:
                if checksum(values) != self.checksums[number]:
                    raise self._damage(number, "is not what was written")
                self._right[number] = now
        return values

    def _damage(self, number: int, what: str) -> ReadError:
        first = number * self.chunks[1]
        last = min(first + self.chunks[1], self.shape[1]) - 1
        return ReadError(
            f"the packed cohort is damaged: {self._files[number]}, with the values of vertices "
            f"{first} to {last}, {what}; restore it from a backup, or pack the cohort again."
        )


class MappedChunks(Chunks):
    """An uncompressed Zarr array on a local disk, whose chunks hold all rows of some columns.

    Parameters
    ----------
    array : zarr.Array
        One for which `can_map` is true.
    """

    def __init__(self, array: Any) -> None:
        folder = Path(array.store.root) / array.store_path.path
        files = [
            str(folder / array.metadata.encode_chunk_key((0, number)))
            for number in range(-(-array.shape[1] // array.chunks[1]))
        ]
        # Zarr does not write what is all empty.
        super().__init__(files, array.shape, array.chunks[1], array.dtype, fill=array.fill_value)


# What Zarr writes for an array that is nothing but its values.
PLAIN_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}]


def can_map(values: Any) -> bool:
    """Whether the values are a Zarr array for `MappedChunks`."""
    if sys.platform != "linux" or isinstance(values, (np.ndarray, Chunks)):
        return False
    metadata, store = getattr(values, "metadata", None), getattr(values, "store", None)
    if getattr(metadata, "zarr_format", None) != 3 or not hasattr(store, "root"):
        return False
    codecs = [codec.to_dict() for codec in metadata.codecs]  # type: ignore[union-attr]
    return codecs == PLAIN_CODECS and values.chunks[0] == values.shape[0]


def checksum(values: Any) -> int:
    """CRC-32 of the bytes of contiguous values, as they are in a file."""
    return zlib.crc32(memoryview(values).cast("B"))


def _populate(values: Array) -> bool:
    """Fill in all pages of a map; False where that fails.

    Called through ctypes, which lets other threads go on meanwhile; mmap.madvise does not.
    """
    if sys.platform != "linux":
        return False
    where, size = ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes)
    return bool(ctypes.CDLL(None).madvise(where, size, _POPULATE_READ) == 0)
