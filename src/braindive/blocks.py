"""Walk over the values of a cohort in pieces, so that they need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from braindive.cohort import Cohort
from braindive.model.arrays import Array

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
    rows = cohort._rows
    for where in _pieces(cohort.n_vertices, cohort._stored.shape[0]):
        block = np.asarray(cohort._stored[:, where])
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
    for where in _pieces(cohort.n_visits, cohort.n_vertices):
        if cohort._rows is None:
            yield where, np.asarray(cohort._stored[where])
        else:
            yield where, np.stack([np.asarray(cohort._stored[i]) for i in cohort._rows[where]])


def _pieces(length: int, other: int) -> Iterator[slice]:
    step = max(_PIECE // max(other, 1), 1)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))
