"""The files of a packed cohort: their form, their checksums, and nothing else is decoded.

A packed cohort is a Zarr store of format 3, which other programs can read. Here its metadata are
read as plain JSON and compared with what `braindive pack` writes before any array is: no codec
runs that it does not use, nothing is allocated that the files could not hold, and every file has
a checksum in the attributes, which have one themselves.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from braindive.errors import BraindiveError
from braindive.space import Space, space_from_arrays
from braindive.values.chunks import PLAIN_CODECS, Chunks, checksum

FORMAT = "braindive-cohort"
# The first version had no checksums.
VERSION = 2

_VALUES = "values"
_SPACE = "space"
# Types of arrays that a packed cohort has, as Zarr names them.
_TYPES = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"} | {
    "float32",
    "float64",
}
# Codecs of the arrays of a space.
_CODECS = {"bytes", "zstd"}
# Most bytes of one array of a space; the coordinates of a million vertices take 24 MB.
_MOST = 2**30
# Metadata of more bytes than this are not read: a table of a million visits takes less.
_MOST_TEXT = 2**30
# In the first version a chunk without any number has no file; one of so many has to be there.
_MOST_EMPTY = 64


class PackedError(BraindiveError, OSError):
    """A packed cohort cannot be written or read."""


def seal(store: Path, described: dict[str, Any], checksums: list[int]) -> dict[str, Any]:
    """Attributes of a store whose arrays are written, with the checksums of all its files.

    Parameters
    ----------
    store : Path
        Folder of the store.
    described : dict
        Attributes; plain lists, texts and numbers.
    checksums : list of int
        Of the chunks of the values, from what was to be written.

    Returns
    -------
    dict
        To be written as the attributes of the group.
    """
    others = {
        name: checksum(path.read_bytes())
        for path in sorted(store.rglob("*"))
        if path.is_file()
        and (name := path.relative_to(store).as_posix()) != "zarr.json"
        and not name.startswith(f"{_VALUES}/c/")
    }
    sealed = {**described, "checksums": {"chunks": checksums, "files": others}}
    return {**sealed, "digest": _digest(sealed)}


def read_attributes(folder: Path) -> dict[str, Any]:
    """Attributes of a packed cohort, after everything but its values was checked.

    Parameters
    ----------
    folder : Path
        The store.

    Returns
    -------
    dict
    """
    if not folder.exists():
        raise PackedError(f"there is no packed cohort {folder}.")
    if not (folder / "zarr.json").is_file():
        older = any((folder / name).exists() for name in (".zgroup", ".zarray", ".zattrs"))
        why = ": it is a Zarr store of an older format" if older else ""
        raise PackedError(f"{folder} is not a packed cohort{why}; make one with braindive pack.")
    metadata = _read_json(folder, "zarr.json")
    attributes = metadata.get("attributes")
    if not isinstance(attributes, dict) or attributes.get("format") != FORMAT:
        raise PackedError(f"{folder} is not a packed cohort; make one with braindive pack.")
    version = attributes.get("version")
    if type(version) is not int or version < 1:
        raise _damaged(folder, f"its version is {version!r}")
    if version > VERSION:
        raise PackedError(
            f"{folder} is of version {version}, but this braindive reads up to version {VERSION}; "
            "update braindive, or pack again."
        )
    if metadata.get("zarr_format") != 3 or metadata.get("node_type") != "group":
        raise _damaged(folder, "zarr.json does not describe a group of Zarr format 3")
    if version == 1:
        if {"checksums", "digest"} & attributes.keys():
            raise _damaged(folder, "its version and its attributes do not agree")
        return attributes
    unsealed = {name: value for name, value in attributes.items() if name != "digest"}
    if _digest(unsealed) != attributes.get("digest"):
        raise _damaged(folder, "zarr.json is not what was written")
    for name, expected in attributes["checksums"]["files"].items():
        path = folder / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise _damaged(folder, f"it names {name}")
        if not path.is_file():
            raise _damaged(folder, f"{name} is lost")
        if checksum(path.read_bytes()) != expected:
            raise _damaged(folder, f"{name} is not what was written")
    return attributes


def open_values(folder: Path, attributes: dict[str, Any]) -> Chunks:
    """Values of a packed cohort, which stay on disk.

    Parameters
    ----------
    folder : Path
        The store.
    attributes : dict
        From `read_attributes`.

    Returns
    -------
    Chunks
        Compared with their checksums when they are read.
    """
    metadata = _read_json(folder, f"{_VALUES}/zarr.json")
    shape, chunks, dtype = _array_form(folder, _VALUES, metadata)
    plain = metadata["codecs"] == PLAIN_CODECS and dtype == np.float32
    if not plain or len(shape) != 2 or chunks[0] != shape[0]:
        raise _damaged(folder, "its values are not stored as braindive pack stores them")
    if shape[0] != len(attributes["subjects"]):
        raise _damaged(
            folder, f"it has {shape[0]:,} visits, but {len(attributes['subjects'])} subject ids"
        )
    n_chunks = -(-shape[1] // chunks[1])
    if attributes["version"] == 1:
        root = folder / _VALUES / "c" / "0"
        n_files = sum(1 for _ in root.iterdir()) if root.is_dir() else 0
        if n_chunks > _MOST_EMPTY * n_files:
            raise _damaged(folder, f"it has {n_files:,} of the {n_chunks:,} chunks it declares")
        checksums, fill = None, np.nan
    else:
        checksums, fill = attributes["checksums"]["chunks"], None
        if n_chunks != len(checksums):
            raise _damaged(folder, f"it has checksums of {len(checksums)} of {n_chunks:,} chunks")
    files = [str(folder / _VALUES / "c" / "0" / str(number)) for number in range(n_chunks)]
    return Chunks(files, (shape[0], shape[1]), chunks[1], dtype, fill=fill, checksums=checksums)


def read_space(folder: Path) -> Space | None:
    """Space of a packed cohort, or None."""
    root = folder / _SPACE
    if not root.exists():
        return None
    metadata = _read_json(folder, f"{_SPACE}/zarr.json")
    if metadata.get("zarr_format") != 3 or metadata.get("node_type") != "group":
        raise _damaged(folder, "its space is not a group of Zarr format 3")
    arrays: dict[str, Any] = {name: np.array(t) for name, t in metadata["attributes"].items()}
    for path in sorted(root.iterdir()):
        if path.is_dir():
            name = f"{_SPACE}/{path.name}"
            _array_form(folder, name, _read_json(folder, f"{name}/zarr.json"))
            stored: Any = zarr.open_array(str(path), mode="r", zarr_format=3)
            arrays[path.name] = np.asarray(stored[...])
    return space_from_arrays(arrays)


def write_space(group: zarr.Group, space: Space) -> None:
    """Numbers as arrays, and texts, for which Zarr has no settled type, as attributes."""
    inner = group.create_group(_SPACE)
    for name, array in space.to_arrays().items():
        if array.dtype.kind == "U":
            inner.attrs[name] = array.tolist()
        else:
            inner.create_array(name, data=np.asarray(array, order="C"))


def _array_form(
    folder: Path, name: str, metadata: dict[str, Any]
) -> tuple[list[int], list[int], np.dtype[Any]]:
    """Shape, shape of chunks and type of an array that is of the form we write."""
    shape, grid = metadata.get("shape"), metadata.get("chunk_grid")
    chunks = (
        grid.get("configuration", {}).get("chunk_shape")
        if isinstance(grid, dict) and grid.get("name") == "regular"
        else None
    )
    codecs = metadata.get("codecs")
    as_written = (
        metadata.get("zarr_format") == 3
        and metadata.get("node_type") == "array"
        and isinstance(shape, list)
        and isinstance(chunks, list)
        and len(shape) == len(chunks)
        and all(type(number) is int and number >= 0 for number in shape)
        and all(type(number) is int and number > 0 for number in chunks)
        and metadata.get("data_type") in _TYPES
        and metadata.get("chunk_key_encoding")
        == {"name": "default", "configuration": {"separator": "/"}}
        and not metadata.get("storage_transformers")
        and isinstance(codecs, list)
        and all(isinstance(codec, dict) and codec.get("name") in _CODECS for codec in codecs)
    )
    if not as_written:
        raise _damaged(folder, f"{name} is not stored as braindive pack stores it")
    assert isinstance(shape, list)
    assert isinstance(chunks, list)
    dtype = np.dtype(metadata["data_type"]).newbyteorder("<")
    size = max(math.prod(shape), math.prod(chunks)) * dtype.itemsize
    if name != _VALUES and size > _MOST:
        raise _damaged(folder, f"{name} claims {size:,} bytes")
    return shape, chunks, dtype


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    try:
        if path.stat().st_size > _MOST_TEXT:
            raise _damaged(folder, f"{name} is too large")
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _damaged(folder, f"{name} is missing") from None
    except (ValueError, RecursionError) as error:
        raise _damaged(folder, f"{name} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise _damaged(folder, f"{name} is not a description")
    return content


def _digest(attributes: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(attributes, sort_keys=True).encode()).hexdigest()


def _damaged(folder: Path, what: str) -> PackedError:
    return PackedError(
        f"{folder} is damaged: {what}; restore it from a backup, or pack the cohort again."
    )
