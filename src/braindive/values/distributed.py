"""The products of the values on a Dask cluster.

Each part of the vertices lives on a worker as ordinary `LocalProducts`. What travels for a pass are
the step and its vertices' inputs on the way out, and what it found, sums added up on each worker,
on the way back. The M-step and the spatial strength stay with the caller.
"""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.errors import ClusterError
from braindive.values.arithmetic import Summarise
from braindive.values.blocks import Found, Own, Step, Unit
from braindive.values.local import add, rows_of
from braindive.values.placement import Part, Placement, View, is_loss
from braindive.values.products import BlockProducts
from braindive.values.storage import Stored
from braindive.values.walking import one_thread_per_product

# How often an operation is repeated when workers take its inputs with them.
_TRIES = 5
# First pause before that, in seconds.
_PAUSE = 0.5


class DistributedProducts(BlockProducts):
    """Products of values whose vertices are spread over the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    values : (n_rows, n_vertices) array, memory map or Zarr array
        Held in the workers' memory if they fit in half of it, and otherwise read by them in every
        pass.
    order : (n_visits,) int or None
        Canonical order of the visits.
    missing : bool
        Whether there are NaNs.
    unit : Unit or None
        Standard unit; None takes the values' own.
    """

    found_travels: ClassVar[bool] = True
    depends_on_visits: ClassVar[tuple[str, ...]] = (*BlockProducts.depends_on_visits, "_view")

    def __init__(
        self,
        client: Any,
        values: Stored,
        *,
        order: IntArray | None = None,
        missing: bool = False,
        unit: Unit | None = None,
    ) -> None:
        n_rows, n_vertices = values.shape
        n_visits = n_rows if order is None else len(order)
        super().__init__(n_visits, n_vertices, values.dtype, missing, unit)
        self._placement = Placement.spread(client, values, order, missing)
        self._visits: IntArray | None = None

    @cached_property
    def _view(self) -> View:
        """What workers are to look at; one with other visits or weights has another name."""
        return View(uuid.uuid4().hex, self._visits, self.weights)

    def with_visits(self, visits: IntArray) -> Self:
        """Return a copy for which workers read only these of the visits."""
        other = copy.copy(self)
        other._visits = visits if self._visits is None else self._visits[visits]
        return other

    def run_step(self, step: Step, unit: Unit, own: Own) -> Found:
        """Run a step with every part where it lives; begin again if workers were lost."""
        placement, client = self._placement, self._placement.client
        for attempt in range(_TRIES):
            futures: list[Any] = []
            try:
                homes = placement.place()
                for worker, numbers in homes.items():
                    mine = [rows_of(own, placement.sources[number].where) for number in numbers]
                    given = placement.give([step, mine, self._view], worker)
                    futures.append(
                        client.submit(
                            _run_on_worker,
                            [placement.parts[number] for number in numbers],
                            unit,
                            *given,
                            workers=[worker],
                            allow_other_workers=True,
                            pure=False,
                        )
                    )
                return _join(list(homes.values()), client.gather(futures))
            except Exception as error:
                if not placement.is_connected_again() and not is_loss(error):
                    client.cancel(futures)
                    raise
                placement.parts.clear()
                if attempt == _TRIES - 1:
                    raise ClusterError(
                        f"workers were lost {_TRIES} times during one step ({error}); do they run "
                        "out of memory? Give them more, or use more of them."
                    ) from error
                time.sleep(_PAUSE * 2**attempt)
            except KeyboardInterrupt:
                client.cancel(futures)
                raise
        raise AssertionError


def _run_on_worker(
    parts: Sequence[Part], unit: Unit, step: Step, own: Sequence[Own], view: View
) -> tuple[list[tuple[Array, ...]], tuple[Array, ...]]:
    """Run a step with all parts of a worker: the arrays of each part, and sums over them."""
    arrays: list[tuple[Array, ...]] = []
    found: tuple[Array, ...]
    sums: tuple[Array, ...]
    totals: tuple[Array, ...] = ()
    with one_thread_per_product():
        for part, mine in zip(parts, own, strict=True):
            products = part.seen_as(view)
            if isinstance(step, Summarise):
                found, sums = products.summary, ()  # is kept with the part for later steps
            else:
                found, sums = products.run_step(step, unit, mine)
            arrays.append(found)
            totals = add(totals, sums)
    return arrays, totals


def _join(homes: Sequence[Sequence[int]], results: Sequence[Any]) -> Found:
    """Put arrays of the parts in the order of the vertices, and add up the sums of the workers."""
    by_part: dict[int, tuple[Array, ...]] = {}
    totals: tuple[Array, ...] = ()
    for numbers, (arrays, sums) in zip(homes, results, strict=True):
        by_part.update(zip(numbers, arrays, strict=True))
        totals = add(totals, sums)
    in_order = [by_part[number] for number in sorted(by_part)]
    joined = zip(*in_order, strict=True)
    return tuple(np.concatenate(parts, axis=-1) for parts in joined), totals
