"""Scans that hold no measurement, or one value everywhere: whole maps or single hemispheres."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.cohort.checks import some
from braindive.cohort.cohort import Cohort
from braindive.space.surface import Surface
from braindive.values.storage import Stored, chunk_width, mapped, read_columns

# A few regions may be equal by chance; so many measurements are not. A choice.
_LEAST = 10
# Vertices that are looked at first: hardly any scan is the same at all of them. A choice.
_FIRST = 256


@dataclass(frozen=True)
class FlatScan:
    """A scan of which a part tells nothing.

    Attributes
    ----------
    row : int
        Visit of the cohort.
    part : str
        For people: "left hemisphere", "right hemisphere" or "map".
    value : float or None
        The one value that is everywhere; None where nothing was measured.
    """

    row: int
    part: str
    value: float | None


def find_flat_scans(cohort: Cohort) -> list[FlatScan]:
    """Find scans of which a hemisphere, or the whole map, has no measurement or a single value.

    Reads no more of the values than it takes to see that the other scans vary.

    Parameters
    ----------
    cohort : Cohort
        Not changed.

    Returns
    -------
    list of FlatScan
        By part, then in the order of the visits.

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> from braindive.cohort.flat_scans import find_flat_scans
    >>> values = np.random.default_rng(0).normal(size=(4, 20))
    >>> values[2] = 0.0
    >>> find_flat_scans(bd.Cohort(values, subjects=list("aabb"), times=[0, 1, 0, 1]))
    [FlatScan(row=2, part='map', value=0.0)]
    """
    rows = np.arange(cohort.n_visits) if cohort.rows is None else cohort.rows
    stored = mapped(cohort.stored)
    found = []
    for part, where in _parts(cohort):
        lowest, highest, counts = _extremes(stored, rows, where)
        flat = (counts == 0) | ((counts >= _LEAST) & (lowest == highest))
        found += [
            FlatScan(row, part, None if counts[row] == 0 else float(lowest[row]))
            for row in np.flatnonzero(flat).tolist()
        ]
    return found


def describe_flat_scans(cohort: Cohort, flat: list[FlatScan]) -> Iterator[tuple[str, str]]:
    """Say in sentences what is flat, each with the scans that are meant.

    Parameters
    ----------
    cohort : Cohort
        Whose scans they are.
    flat : list of FlatScan
        From `find_flat_scans`.
    """
    for part in dict.fromkeys(scan.part for scan in flat):
        for empty in (True, False):
            rows = [s.row for s in flat if s.part == part and (s.value is None) == empty]
            if not rows:
                continue
            count = "1 scan has" if len(rows) == 1 else f"{len(rows):,} scans have"
            what = "no measurement" if empty else "the same value everywhere"
            names = [f"{cohort.subjects[row]} at {cohort.times[row]:.4g}" for row in rows]
            yield f"{count} {what} in the {part}.", some(names)


def _parts(cohort: Cohort) -> list[tuple[str, slice]]:
    """Vertices of each hemisphere, or of the whole map."""
    space = cohort.space
    if isinstance(space, Surface) and len(space.hemispheres) == 2:
        n_left = space.hemispheres[0].n_measured
        halves = [slice(0, n_left), slice(n_left, cohort.n_vertices)]
        return list(zip(("left hemisphere", "right hemisphere"), halves, strict=True))
    return [("map", slice(0, cohort.n_vertices))]


def _extremes(stored: Stored, rows: IntArray, where: slice) -> tuple[Array, Array, Array]:
    """Lowest and highest value of each visit, and how many were measured.

    A visit whose values were seen to differ is not looked at any further.
    """
    lowest, highest = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
    counts = np.zeros(len(rows))
    open_rows = np.arange(len(rows))
    width = max(_FIRST, chunk_width(stored))
    for start in range(where.start, where.stop, width):
        columns = slice(start, min(start + width, where.stop))
        block = read_columns(stored, columns, rows[open_rows])
        measured = ~np.isnan(block)
        counts[open_rows] += measured.sum(axis=1)
        low = np.where(measured, block, np.inf).min(axis=1)
        high = np.where(measured, block, -np.inf).max(axis=1)
        lowest[open_rows] = np.minimum(lowest[open_rows], low)
        highest[open_rows] = np.maximum(highest[open_rows], high)
        open_rows = open_rows[~(lowest[open_rows] < highest[open_rows])]
        if len(open_rows) == 0:
            break
    return lowest, highest, counts
