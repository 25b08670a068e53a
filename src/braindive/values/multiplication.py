"""Products of a block of values with a few rows or columns, at little more than one read.

BLAS copies ("packs") the larger matrix of a product before it multiplies, which pays where every
number is used many times. Here it is used as many times as there are clusters, and the copy takes
most of the time. Small products are made without copies, so a block is multiplied in small tiles:
three clusters then cost 2 sums of the values over visits in place of 4, and 1.7 over vertices in
place of 4.5 (benchmarks of OpenBLAS 0.3.31 on one core of an AMD EPYC).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braindive.arrays import Array

# Multiplications in one tile: up to so many OpenBLAS makes no copies.
_SMALL = 10**6
# Rows, or columns, from which on copies pay.
_MANY = 32
# Rows of values in a tile, for sums over visits of up to so many rows and over vertices, and most
# columns of a tile. Found by trying.
_HEIGHTS = {8: 16, 16: 32, _MANY: 64}
_HEIGHT = 64
_WIDTHS = (1024, 2048)


def over_visits(rows: Array, values: Array) -> Array:
    """Sums over visits: rows @ values.

    Parameters
    ----------
    rows : (m, n_visits)
        In the precision of the values.
    values : (n_visits, n)
        Of some vertices.

    Returns
    -------
    (m, n)
    """
    (n_rows, n_visits), n_vertices = rows.shape, values.shape[1]
    if n_rows >= _MANY or n_rows * n_visits * n_vertices <= _SMALL:
        return np.asarray(rows @ values)
    rows = in_fours(rows, rows.dtype)
    height = next(height for most, height in _HEIGHTS.items() if len(rows) <= most)
    n_tiles = n_visits // height
    whole = n_tiles * height
    tiles = np.ascontiguousarray(
        rows[:, :whole].reshape(len(rows), n_tiles, height).transpose(1, 0, 2)
    )
    found = np.empty((n_rows, n_vertices), dtype=np.result_type(rows, values))
    for part in _parts(n_vertices, min(_WIDTHS[0], _SMALL // (len(rows) * height))):
        columns = values[:, part]
        sums = np.matmul(tiles, columns[:whole].reshape(n_tiles, height, columns.shape[1])).sum(
            axis=0
        )
        if whole < n_visits:
            sums += rows[:, whole:] @ columns[whole:]
        found[:, part] = sums[:n_rows]
    return found


def over_vertices(values: Array, columns: Array) -> Array:
    """Sums over vertices: values @ columns, added up in double precision.

    Parameters
    ----------
    values : (n_visits, n)
        Of some vertices.
    columns : (n, m)
        In the precision of the values.

    Returns
    -------
    (n_visits, m)
    """
    (n_visits, n_vertices), n_columns = values.shape, columns.shape[1]
    if n_columns >= _MANY or n_visits * n_vertices * n_columns <= _SMALL:
        return np.asarray(values @ columns, dtype=float)
    columns = in_fours(columns.T, columns.dtype).T.copy()
    n_tiles, n_padded = n_visits // _HEIGHT, columns.shape[1]
    whole = n_tiles * _HEIGHT
    found = np.zeros((n_visits, n_padded))
    for part in _parts(n_vertices, min(_WIDTHS[1], _SMALL // (n_padded * _HEIGHT))):
        tiles = values[:whole, part].reshape(n_tiles, _HEIGHT, part.stop - part.start)
        found[:whole] += np.matmul(tiles, columns[part]).reshape(whole, n_padded)
        if whole < n_visits:
            found[whole:] += values[whole:, part] @ columns[part]
    return found[:, :n_columns]


def in_fours(rows: Array, dtype: np.dtype[Any]) -> Array:
    """The same rows and as many of zeros as make their number a multiple of four.

    BLAS multiplies four rows in less time than three.
    """
    n_rows, length = rows.shape
    out = np.zeros((-(-n_rows // 4) * 4, length), dtype=dtype)
    out[:n_rows] = rows
    return out


def _parts(length: int, width: int) -> list[slice]:
    """Parts of about the same length, none of them longer than the width."""
    number = -(-length // width)
    width = -(-length // number)
    return [slice(start, min(start + width, length)) for start in range(0, length, width)]
