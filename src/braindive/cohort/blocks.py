"""Walk over the values of a cohort in pieces, so that they need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from braindive.arrays import Array
from braindive.cohort import Cohort
from braindive.values.storage import mapped

# Values in one piece: 32 MiB of float64.
_PIECE = 2**22


def vertex_blocks(cohort: Cohort) -> Iterator[tuple[slice, Array]]:
    """All visits of some vertices at a time.

    Parameters
    ----------
    cohort : Cohort
        Whose values to read.

    Yields
    ------
    slice, (n_visits, n_block)
        Which vertices, and their values in the order of the cohort's visits.
    """
    stored, rows = mapped(cohort._stored), cohort._rows
    n_stored, n_vertices = stored.shape
    # Chunks of a store are read whole, so a block is made of whole chunks.
    chunk = stored.chunks[1] if hasattr(stored, "chunks") else 1
    for where in _pieces(n_vertices, n_stored, chunk):
        block = np.asarray(stored[:, where])
        yield where, block if rows is None else block[rows]


def visit_blocks(cohort: Cohort) -> Iterator[tuple[slice, Array]]:
    """Whole maps of some visits at a time.

    Parameters
    ----------
    cohort : Cohort
        Whose values to read.

    Yields
    ------
    slice, (n_block, n_vertices)
        Which visits, and their values.
    """
    # A store keeps all visits of a vertex together: read by visit, all of it is read each time.
    stored = cohort._stored if isinstance(cohort._stored, np.ndarray) else cohort._stored[:]
    rows = np.arange(cohort.n_visits) if cohort._rows is None else cohort._rows
    for where in _pieces(cohort.n_visits, cohort.n_vertices):
        yield where, stored[rows[where]]


def _pieces(length: int, other: int, multiple: int = 1) -> Iterator[slice]:
    step = max(_PIECE // max(other, 1) // multiple, 1) * multiple
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
