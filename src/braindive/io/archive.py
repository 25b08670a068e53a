"""One file of arrays and plain facts: a zip of .npy files with a JSON header, and no pickle.

Entries are stored, not compressed: what a file claims to hold can be no larger than the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from braindive.errors import ModelFileError
from braindive.io.outputs import replace_file
from braindive.io.paths import suggest_path

_HEADER = "header.json"
# The same content gives the same bytes whenever it is written.
_DATE = (1980, 1, 1, 0, 0, 0)

Encoder = Callable[[Any], tuple[str, dict[str, Any]] | None]
"""Gives the name of a known object's type and its fields, or None."""
Decoder = Callable[[str, dict[str, Any]], Any]
"""Rebuilds a known object from the name of its type and its fields."""


def write_archive(path: Path, kind: str, version: int, content: Any, encoder: Encoder) -> None:
    """Write a file in one step: it is there in full or not at all.

    Parameters
    ----------
    path : Path
        File to write.
    kind, version : str, int
        What the file holds, and the number of its format.
    content : nested dict, list, tuple, array, DataFrame, number, str or known object
        What to write.
    encoder : callable
        Takes known objects apart.
    """
    arrays: list[np.ndarray] = []
    tree = _encode(content, arrays, encoder)
    header = {"kind": kind, "version": version, "n_arrays": len(arrays), "content": tree}
    with replace_file(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        _store(archive, _HEADER, json.dumps(header, sort_keys=True).encode())
        for number, array in enumerate(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
            _store(archive, _entry(number), buffer.getvalue())


def read_archive(path: Path, kind: str, version: int, decoder: Decoder) -> Any:
    """Read what `write_archive` wrote; anything else ends in a ModelFileError.

    Parameters
    ----------
    path : Path
        File to read.
    kind, version : str, int
        What the file must hold, and the newest format that is understood.
    decoder : callable
        Puts known objects together.

    Returns
    -------
    object
        As it was written.
    """
    path = Path(path)
    if not path.is_file():
        if path.is_dir():
            raise ModelFileError(f"{path} is a folder, not the file of a {kind}.")
        raise ModelFileError(f"there is no file {path}{suggest_path(path)}.")
    _refuse_other_files(path, kind)
    try:
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path, kind, version, decoder)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ModelFileError(
            f"{path} is damaged or not a {kind} file ({error}); write it again."
        ) from error
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        OSError,
        struct.error,
        TypeError,
        UnicodeError,
        ValueError,
    ) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} does not hold a usable {kind} ({error}).") from error


def _refuse_other_files(path: Path, kind: str) -> None:
    """Refuse what may not be read, is empty, or does not begin as a zip archive does."""
    try:
        with path.open("rb") as stream:
            head = stream.read(4)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read ({error.strerror or error}).") from None
    if not head:
        raise ModelFileError(f"{path} is empty, and no {kind}; write it again.")
    if not head.startswith(b"PK"):
        raise ModelFileError(f"{path} is not a {kind}; give a file that braindive wrote as one.")


def digest(content: Any, encoder: Encoder) -> str:
    """Return a number that tells the content apart from any other, as 64 hexadecimal digits."""
    arrays: list[np.ndarray] = []
    tree = _encode(content, arrays, encoder)
    sha = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for array in arrays:
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def _entry(number: int) -> str:
    return f"arrays/{number:04d}.npy"


def _store(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)


def _encode(value: Any, arrays: list[np.ndarray], encoder: Encoder) -> Any:
    """Turn into JSON; arrays are put aside, everything that is not JSON gets a one-key dict."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (pd.Series, pd.Index, pd.api.extensions.ExtensionArray)):
        # A column of a table is given where an array is meant, such as the region of each vertex.
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OUST":
            items = [_encode(item, arrays, encoder) for item in value.ravel().tolist()]
            return {"objects": [list(value.shape), items]}
        return {"array": _put_aside(value, arrays)}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_encode(item, arrays, encoder) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[key, _encode(item, arrays, encoder)] for key, item in value.items()]}
    if isinstance(value, pd.DataFrame):
        columns = [[str(name), _encode_column(value[name], arrays)] for name in value.columns]
        return {"table": [len(value), columns]}
    if sparse.issparse(value):
        matrix = sparse.csr_array(value)
        pieces = (matrix.data, matrix.indices, matrix.indptr)
        encoded = [_encode(piece, arrays, encoder) for piece in pieces]
        return {"sparse": [list(matrix.shape), encoded]}
    known = encoder(value)
    if known is None:
        raise TypeError(f"objects of type {type(value).__name__} cannot be saved.")
    name, fields = known
    parts = {key: _encode(fields[key], arrays, encoder) for key in sorted(fields)}
    return {"known": [name, parts]}


def _put_aside(array: np.ndarray, arrays: list[np.ndarray]) -> int:
    """Number under which an array is kept; the same memory is kept once.

    The order of the axes in memory is kept too: sums run along it, and an interrupted fit has to
    go on with the same digits.
    """
    plain = array if array.flags.forc else np.ascontiguousarray(array)
    for number, other in enumerate(arrays):
        same = other.shape == plain.shape and other.dtype == plain.dtype and plain.size > 0
        if same and other.ctypes.data == plain.ctypes.data:
            return number
    arrays.append(plain)
    return len(arrays) - 1


def _encode_column(column: pd.Series, arrays: list[np.ndarray]) -> Any:
    """Numbers and booleans as arrays; all else as text, with null where there is nothing."""
    if column.dtype.kind in "biuf" and isinstance(column.dtype, np.dtype):
        return {"array": _put_aside(column.to_numpy(), arrays)}
    plain = (bool, int, float, str)
    items = [
        None if missing else item if isinstance(item, plain) else str(item)
        for item, missing in zip(column.tolist(), column.isna(), strict=True)
    ]
    return {"objects": [[len(items)], items]}


def _read(archive: zipfile.ZipFile, path: Path, kind: str, version: int, decoder: Decoder) -> Any:
    if any(
        entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size
        for entry in archive.infolist()
    ):
        raise ModelFileError(f"{path} has compressed entries, which a {kind} file never has.")
    if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
        raise ModelFileError(f"{path} claims to hold more than its own size.")
    names = archive.namelist()
    if _HEADER not in names:
        raise ModelFileError(f"{path} is a zip file but not a {kind} file.")
    header = json.loads(archive.read(_HEADER))
    if header["kind"] != kind:
        raise ModelFileError(f"{path} holds a {header['kind']}, not a {kind}.")
    if header["version"] > version:
        raise ModelFileError(
            f"{path} was written by a newer braindive (format {header['version']}; this one reads "
            f"up to {version}); update braindive to read it."
        )
    # Counted first: a number in the header may be any.
    expected = [_HEADER, *(_entry(number) for number in range(len(names) - 1))]
    if header["n_arrays"] != len(names) - 1 or names != expected:
        raise ModelFileError(f"{path} has missing or unexpected entries.")
    arrays = [_read_array(archive.read(name), name, path) for name in expected[1:]]
    return _decode(header["content"], arrays, decoder)


def _read_array(data: bytes, name: str, path: Path) -> np.ndarray:
    """Read one array whose header must agree with the bytes that are there."""
    buffer = io.BytesIO(data)
    if np.lib.format.read_magic(buffer) != (1, 0):
        raise ModelFileError(f"{path}: {name} is not a version 1.0 .npy file.")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(buffer)
    if dtype.kind not in "biuf":
        raise ModelFileError(f"{path}: {name} has type {dtype}; only plain numbers are allowed.")
    if math.prod(shape) * dtype.itemsize != len(data) - buffer.tell() or min(shape, default=0) < 0:
        raise ModelFileError(f"{path}: {name} does not have the size it claims, {shape}.")
    flat = np.frombuffer(data, dtype, offset=buffer.tell())
    return flat.reshape(shape, order="F" if fortran else "C").copy(order="K")


def _decode(tree: Any, arrays: list[np.ndarray], decoder: Decoder) -> Any:
    if tree is None or isinstance(tree, (bool, int, float, str)):
        return tree
    ((tag, body),) = tree.items()
    if tag == "array":
        return arrays[body]
    if tag == "objects":
        shape, items = body
        objects = np.empty(len(items), dtype=object)
        for number, item in enumerate(items):  # one by one: an item may be a tuple
            objects[number] = _decode(item, arrays, decoder)
        return objects.reshape(shape)
    if tag == "list":
        return [_decode(item, arrays, decoder) for item in body]
    if tag == "tuple":
        return tuple(_decode(item, arrays, decoder) for item in body)
    if tag == "dict":
        return {key: _decode(item, arrays, decoder) for key, item in body}
    if tag == "table":
        n_rows, columns = body
        parts = {name: _decode(column, arrays, decoder) for name, column in columns}
        if any(np.shape(part) != (n_rows,) for part in parts.values()):
            raise ValueError("a table has columns of different lengths")
        return pd.DataFrame(parts, index=pd.RangeIndex(n_rows))
    if tag == "sparse":
        shape, parts = body
        data, indices, indptr = (_decode(part, arrays, decoder) for part in parts)
        if not data.ndim == indices.ndim == indptr.ndim == 1:
            raise ValueError("a sparse matrix has parts of the wrong shape")
        matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape))
        matrix.check_format(full_check=True)
        return matrix
    if tag == "known":
        name, fields = body
        return decoder(name, {key: _decode(x, arrays, decoder) for key, x in fields.items()})
    raise ValueError(f"unknown entry {tag!r}")
