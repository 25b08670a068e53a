"""Choose where products are computed."""

from __future__ import annotations

from typing import Any

from braindive.arrays import IntArray
from braindive.values.blocks import Unit
from braindive.values.distributed import DistributedProducts
from braindive.values.local import LocalProducts
from braindive.values.protocol import Products
from braindive.values.storage import Stored


def open_products(
    values: Stored,
    *,
    order: IntArray | None = None,
    missing: bool = False,
    n_jobs: int | None = None,
    memory: int | None = None,
    unit: Unit | None = None,
    client: Any = None,
) -> Products:
    """Products of values, on this machine or on a cluster.

    Parameters
    ----------
    values : (n_rows, n_vertices) array, memory map or Zarr array
        float32 or float64; NaN = not measured. Never copied on this machine.
    order : (n_visits,) int or None
        Row of each visit, visits in canonical order; None for the rows as they are.
    missing : bool
        Whether there are NaNs.
    n_jobs : int or None
        Threads; None means all cores. Workers of a cluster use their own.
    memory : int or None
        Bytes that blocks of the values may take on this machine.
    unit : Unit or None
        Standard unit; None takes the values' own.
    client : distributed.Client or None
        Dask cluster over which to spread the values.

    Returns
    -------
    Products

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.values.backends import open_products
    >>> products = open_products(np.eye(3))
    >>> products.counts
    array([3., 3., 3.])
    """
    if client is not None:
        return DistributedProducts(client, values, order=order, missing=missing, unit=unit)
    return LocalProducts(
        values, order=order, missing=missing, n_jobs=n_jobs, memory=memory, unit=unit
    )
