"""Blocks as they come from a store: mapped where they can be, read again where a disk fails."""

import numpy as np
import pytest
import zarr

from braindive.errors import ReadError
from braindive.values.chunks import MappedChunks
from braindive.values.local import LocalProducts
from braindive.values.storage import Window, mapped, read_columns


@pytest.fixture
def values(rng):
    return rng.normal(size=(6, 1000)).astype("float32")


def write(folder, values, **options):
    options = {"compressors": None, "fill_value": np.nan, **options}
    chunks = options.pop("chunks", (len(values), 256))
    store = zarr.create_array(
        folder / "store", shape=values.shape, chunks=chunks, dtype=values.dtype, **options
    )
    store[:] = values
    return zarr.open_array(folder / "store", mode="r")


@pytest.mark.parametrize(
    "where", [slice(0, 256), slice(300, 400), slice(200, 600), slice(768, 1000)]
)
def test_mapped_chunks_hold_what_was_stored(tmp_path, values, where):
    store = mapped(write(tmp_path, values))
    assert isinstance(store, MappedChunks)
    store.read_ahead(where)
    np.testing.assert_array_equal(store[:, where], values[:, where])
    np.testing.assert_array_equal(Window(store, 100, 900)[:, 10:700], values[:, 110:800])


def test_mapped_chunks_are_not_copied_and_cannot_be_written(tmp_path, values):
    block = read_columns(mapped(write(tmp_path, values)), slice(256, 512))
    assert not block.flags.owndata
    assert not block.flags.writeable


@pytest.mark.parametrize(
    "options",
    [{"compressors": "auto"}, {"zarr_format": 2}, {"chunks": (3, 256)}, {"shards": (6, 512)}],
)
def test_store_that_is_not_the_plain_values_is_left_to_zarr(tmp_path, values, options):
    store = write(tmp_path, values, **options)
    assert mapped(store) is store
    np.testing.assert_array_equal(read_columns(store, slice(0, 300)), values[:, :300])


def test_chunk_that_was_never_written_is_empty_as_in_zarr(tmp_path, values):
    values[:, 256:512] = np.nan
    store = mapped(write(tmp_path, values))
    assert not (tmp_path / "store/c/0/1").exists()
    np.testing.assert_array_equal(store[:, 0:600], values[:, :600])


def test_chunk_that_was_cut_off_is_named(tmp_path, values):
    store = write(tmp_path, values)
    with open(tmp_path / "store/c/0/2", "r+b") as file:
        file.truncate(100)
    with pytest.raises(ReadError, match="vertices 512 to 767 could not be read after 3 tries"):
        _ = LocalProducts(store, n_jobs=1, block_size=256).summary


def test_system_that_cannot_fill_a_mapping_reads_the_chunk(tmp_path, values, monkeypatch):
    monkeypatch.setattr("braindive.values.chunks._POPULATE_READ", 10**6)
    store = mapped(write(tmp_path, values))
    np.testing.assert_array_equal(store[:, 256:512], values[:, 256:512])


class BrokenStore:
    """An array on a disk that cannot be read from vertex 512 on."""

    def __init__(self, values, failures):
        self.values, self.failures = values, failures
        self.shape, self.dtype, self.chunks = values.shape, values.dtype, (len(values), 256)

    def __getitem__(self, key):
        if key[1].start >= 512 and self.failures > 0:
            self.failures -= 1
            raise OSError("input/output error")
        return self.values[key]


def test_block_that_cannot_be_read_is_named():
    values = np.random.default_rng(0).normal(size=(6, 1000))
    with pytest.raises(ReadError, match=r"vertices 512 to 767 .*input/output error"):
        _ = LocalProducts(BrokenStore(values, failures=10**6), n_jobs=1).summary


def test_block_that_can_be_read_later_is_read_again():
    values = np.random.default_rng(0).normal(size=(6, 1000))
    found = LocalProducts(BrokenStore(values, failures=2), n_jobs=1).summary
    for ours, theirs in zip(found, LocalProducts(values, n_jobs=1).summary, strict=True):
        np.testing.assert_array_equal(ours, theirs)
