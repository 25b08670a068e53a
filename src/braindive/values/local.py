"""The products of values in memory, in a memory map or in a store, on this machine.

Values are read in blocks of vertices that hold all visits, in threads, and never copied. Blocks
have a fixed size and partial sums are added in a fixed order, so that the number of threads cannot
change a result.
"""

from __future__ import annotations

import copy
import threading
from typing import Self

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.values.blocks import Block, Found, Own, Step, Unit, part_of
from braindive.values.products import BlockProducts
from braindive.values.storage import Stored, fitting_width, mapped
from braindive.values.walking import count_threads, map_columns


class LocalProducts(BlockProducts):
    """Products of values that this machine can read.

    Parameters
    ----------
    values : (n_rows, n_vertices) array, memory map or Zarr array
        float32 or float64; NaN = not measured. Never copied, never written to; what lies on disk
        is read in blocks.
    order : (n_visits,) int or None
        Canonical order of the visits: row `order[n]` of the values is visit n.
    missing : bool
        Whether there are NaNs.
    n_jobs : int or None
        Threads; None means all cores.
    block_size : int or None
        Vertices in a block; None chooses one that keeps a block in cache.
    memory : int or None
        Bytes that the blocks in work may take together.
    unit : Unit or None
        Standard unit of the values; None takes their own global mean and spread.
    """

    def __init__(
        self,
        values: Stored,
        *,
        order: IntArray | None = None,
        missing: bool = False,
        n_jobs: int | None = None,
        block_size: int | None = None,
        memory: int | None = None,
        unit: Unit | None = None,
    ) -> None:
        n_rows, n_vertices = values.shape
        if order is not None and np.array_equal(order, np.arange(n_rows)):
            order = None
        n_visits = n_rows if order is None else len(order)
        super().__init__(n_visits, n_vertices, values.dtype, missing, unit)
        self._values, self._order = mapped(values), order
        self._n_threads = count_threads(n_jobs)
        self._block_size = block_size or fitting_width(
            values, n_visits, missing, self._n_threads, memory
        )

    def with_visits(self, visits: IntArray) -> Self:
        """Return a copy that reads only these of the visits."""
        other = copy.copy(self)
        other._order = visits if self._order is None else self._order[visits]
        return other

    def run_step(self, step: Step, unit: Unit, own: Own) -> Found:
        """Run a step over all blocks, in threads."""
        summary = self.summary if step.needs_summary else None
        joined = Joined(self.n_vertices, step.chooses_vertices, step.chosen(own))

        def take(where: slice, values: Array) -> list[tuple[Array, ...]]:
            """What the pieces of a block add to the sums; their arrays are put in place here."""
            known = None if summary is None else part_of(summary, where)
            observed = ~np.isnan(values) if self.missing else None
            block = Block(where, values, observed, unit, known, self.weights)
            mine = rows_of(own, where)
            sums = []
            for inside, piece in block.pieces(step.width(block)):
                arrays, found = step(piece, *rows_of(mine, inside))
                joined.place(piece.where, arrays)
                sums.append(found)
            return sums

        walk = map_columns(
            self._values,
            take,
            self._block_size,
            rows=self._order,
            n_threads=self._n_threads,
            comes_back=True,
        )
        totals: tuple[Array, ...] = ()
        for sums in walk:
            for found in sums:
                totals = add(totals, found)
        return joined.arrays(), totals


class Joined:
    """Arrays of all vertices, each part put in its place by the thread that found it.

    Parameters
    ----------
    n_vertices : int
        Number of all vertices.
    chooses : bool
        Whether parts hold some of their vertices only.
    chosen : (n_vertices,) bool or None
        Which these are, where that is known: then nothing is copied twice.
    """

    def __init__(
        self, n_vertices: int, chooses: bool = False, chosen: BoolArray | None = None
    ) -> None:
        mine = np.ones(n_vertices, dtype=int) if chosen is None else chosen
        # Chosen vertices before each vertex.
        self._places = np.concatenate([[0], np.cumsum(mine)])
        in_parts = chooses and chosen is None
        self._parts: dict[int, tuple[Array, ...]] | None = {} if in_parts else None
        self._whole: tuple[Array, ...] | None = None
        self._lock = threading.Lock()

    def place(self, where: slice, arrays: tuple[Array, ...]) -> None:
        """Take the arrays of some vertices."""
        if self._parts is not None:
            self._parts[where.start] = arrays
            return
        number = int(self._places[-1])
        with self._lock:
            if self._whole is None:
                self._whole = tuple(
                    np.empty((*part.shape[:-1], number), part.dtype) for part in arrays
                )
        here = slice(self._places[where.start], self._places[where.stop])
        for whole, part in zip(self._whole, arrays, strict=True):
            whole[..., here] = part

    def arrays(self) -> tuple[Array, ...]:
        """All that were taken, in the order of the vertices."""
        if self._parts is None:
            return self._whole or ()
        in_order = [self._parts[start] for start in sorted(self._parts)]
        return tuple(np.concatenate(parts, axis=-1) for parts in zip(*in_order, strict=True))


def rows_of(own: Own, where: slice) -> Own:
    """Rows of some vertices of every input."""
    return tuple(None if each is None else each[where] for each in own)


def add(totals: tuple[Array, ...], found: tuple[Array, ...]) -> tuple[Array, ...]:
    """Add sums to totals in float64; the first totals are none."""
    if not totals:
        return tuple(np.array(each, dtype=float) for each in found)
    for total, each in zip(totals, found, strict=True):
        total += each
    return totals
