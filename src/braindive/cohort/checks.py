"""Checks of what a cohort is made from: each returns the usable value or says what to do."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse

from braindive.arrays import Array, BoolArray
from braindive.errors import CohortError
from braindive.space import Space
from braindive.space.fsaverage import BUILT_IN, fsaverage5
from braindive.values.storage import Stored
from braindive.values.walking import vertex_blocks

# Values and times beyond this are none of a brain, and their squares leave single precision.
_LARGEST = 1e15
# Nobody is followed up for less than this share of a year, which is a second.
_SHORTEST = 3e-8
# How much larger than at most vertices a value may be before others are lost beside it: digits of
# single precision, and of double precision less those that sums of squares need.
_MOST_ABOVE = {4: 1e7, 8: 1e12}


def read_only(array: Any) -> Any:
    """A view of the array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def some(items: Sequence[Any], most: int = 5) -> str:
    """The first few items as text, and how many more there are."""
    shown = ", ".join(str(item) for item in items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most:,} more"


def quoted(subject: Any) -> str:
    """A subject's id as people write it: 901, not np.int64(901), and text in quotes."""
    return repr(subject.item() if isinstance(subject, np.generic) else subject)


def rows_of(rows: Sequence[int]) -> str:
    """Rows, counted from 0, for people, who count from 1: row 1 is the first below a header.

    Examples
    --------
    >>> rows_of([3]), rows_of([0, 1])
    ('row 4', 'rows 1, 2')
    """
    word = "row" if len(rows) == 1 else "rows"
    return f"{word} {some([int(row) + 1 for row in rows])}"


def visits_of(subjects: np.ndarray, times: Array, rows: Sequence[int]) -> str:
    """Whose visits these are and when they were, of the first few.

    Not in which rows: those of a cohort need not be those of the table it came from.
    """
    return some([f"{quoted(subjects[row])} at {times[row]:g}" for row in rows])


def positions(ids: np.ndarray, chosen: Iterable[Hashable]) -> list[int]:
    """Where the chosen ids stand among all ids."""
    position = {subject: i for i, subject in enumerate(ids)}
    return [position[subject] for subject in chosen]


def sorted_ids(subjects: np.ndarray) -> np.ndarray:
    """Different ids, sorted; ids of several types by the name of the type, then as text."""
    unique = list(dict.fromkeys(subjects.tolist()))
    try:
        unique.sort()
    except TypeError:
        unique.sort(key=lambda subject: (type(subject).__name__, str(subject)))
    ids = np.empty(len(unique), dtype=object)
    ids[:] = unique
    return ids


def check_values(values: Any) -> Array:
    """Two-dimensional float32 or float64 values, without a copy where they are that already."""
    if sparse.issparse(values):
        raise CohortError(
            "values are a sparse matrix, which says 0 where nothing was measured; give an array, "
            "such as values.toarray(), with NaN there."
        )
    if isinstance(values, pd.DataFrame) and np.asarray(values).dtype.kind == "O":
        try:
            values = values.to_numpy(dtype=float, na_value=np.nan)
        except (TypeError, ValueError):
            raise CohortError("values have columns that are not numbers; leave them out.") from None
    elif isinstance(values, np.ma.MaskedArray):
        if values.dtype.kind in "fiub":
            kind = values.dtype if values.dtype.kind == "f" else np.dtype(float)
            values = np.where(np.ma.getmaskarray(values), kind.type(np.nan), values.data)
    elif isinstance(values, np.matrix):
        values = np.asarray(values)
    if not hasattr(values, "dtype") or not hasattr(values, "shape"):
        try:
            values = np.asarray(values)
        except ValueError:
            raise CohortError(
                "values are not a table of numbers: give one row for each visit, all with the "
                "same number of vertices."
            ) from None
    if values.ndim != 2:
        raise CohortError(
            f"values have {values.ndim} dimension(s); they need two, (n_visits, n_vertices)."
        )
    if 0 in values.shape:
        raise CohortError(f"the cohort is empty: values have shape {tuple(values.shape)}.")
    if values.dtype.kind not in "fiub":
        raise CohortError(f"values are of type {values.dtype}; they have to be numbers.")
    if values.dtype not in (np.float32, np.float64):
        values = np.asarray(values).astype(np.float32 if values.dtype.itemsize < 3 else np.float64)
    return read_only(values) if isinstance(values, np.ndarray) else values


def check_length(name: str, got: int, n_visits: int) -> None:
    """Refuse anything that does not have one entry for each visit."""
    if got != n_visits:
        raise CohortError(
            f"{name} has {got} entries, but values have {n_visits} rows; give one for each visit."
        )


def check_subjects(subjects: Iterable[Hashable], n_visits: int) -> np.ndarray:
    """One id for each visit, as an array of plain Python objects."""
    if isinstance(subjects, str):
        raise CohortError("subjects is one string; give one id for each visit.")
    listed = list(subjects)
    check_length("subjects", len(listed), n_visits)
    absent = [row for row, subject in enumerate(listed) if is_missing(subject)]
    if absent:
        raise CohortError(f"visits without a subject id: {rows_of(absent)}.")
    array = np.empty(n_visits, dtype=object)
    plain = [subject.item() if isinstance(subject, np.generic) else subject for subject in listed]
    # What tables and saved models can hold, and tell apart again.
    odd = [row for row, subject in enumerate(plain) if not _is_id(subject)]
    if odd:
        kind = type(plain[odd[0]]).__name__
        raise CohortError(
            f"a subject id has to be a text or a number; in {rows_of(odd)} it is not, for "
            f"example {plain[odd[0]]!r} ({kind}): make a text of it."
        )
    for row, subject in enumerate(plain):  # one by one: an id may be a tuple
        array[row] = subject
    return read_only(array)


def _is_id(subject: Any) -> bool:
    """Whether something is a text or a number, or a tuple of these."""
    if isinstance(subject, tuple):
        return len(subject) > 0 and all(_is_id(part) for part in subject)
    return isinstance(subject, (str, int)) or (
        isinstance(subject, float) and bool(np.isfinite(subject))
    )


def is_missing(subject: Any) -> bool:
    """Whether an id stands for no subject."""
    return subject is None or (isinstance(subject, float) and np.isnan(subject)) or subject is pd.NA


def check_times(times: ArrayLike, n_visits: int) -> Array:
    """Finite years, one for each visit."""
    masked = np.ma.getmaskarray(times) if isinstance(times, np.ma.MaskedArray) else None
    array = np.asarray(times)
    if array.dtype.kind not in "fiuO" or array.ndim != 1:
        raise CohortError(
            f"times must be a list of numbers (years), one for each visit; got {array.dtype} of "
            f"shape {array.shape}."
        )
    try:
        numbers = array.astype(float)
    except (OverflowError, TypeError, ValueError):
        bad = [row for row, value in enumerate(array) if not isinstance(value, (int, float))] or [0]
        raise CohortError(
            f"times must be numbers (years); not so in {rows_of(bad)}, for example "
            f"{array[bad[0]]!r}."
        ) from None
    check_length("times", len(numbers), n_visits)
    if masked is not None:
        numbers[masked] = np.nan
    bad = np.flatnonzero(~np.isfinite(numbers)).tolist()
    if bad:
        raise CohortError(f"times are missing or infinite in {rows_of(bad)}; drop those visits.")
    largest = int(np.abs(numbers).argmax())
    if abs(numbers[largest]) > _LARGEST:
        raise CohortError(f"times must be years; {rows_of([largest])} has {numbers[largest]:g}.")
    span = float(np.ptp(numbers))
    if 0 < span < _SHORTEST:
        raise CohortError(
            f"times must be years; all of them lie within {span:g} (from {numbers.min():g})."
        )
    return read_only(numbers)


def check_controls(controls: ArrayLike | None, n_visits: int) -> BoolArray | None:
    """True or False for each visit, or None."""
    if controls is None:
        return None
    array = np.asarray(controls)
    if array.ndim != 1:
        raise CohortError(
            f"controls must be a list of True and False, one for each visit; got shape "
            f"{array.shape}."
        )
    check_length("controls", len(array), n_visits)
    if array.dtype != bool:
        if not np.isin(array, [0, 1]).all():
            raise CohortError("controls must be True or False for each visit.")
        array = array.astype(bool)
    return read_only(array)


def check_table(table: pd.DataFrame | None, n_visits: int) -> pd.DataFrame | None:
    """One row for each visit, or None."""
    if table is None:
        return None
    if not isinstance(table, pd.DataFrame):
        raise CohortError(f"table must be a pandas DataFrame; got {type(table).__name__}.")
    check_length("table", len(table), n_visits)
    names = [str(name) for name in table.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CohortError(
            f"the table has more than one column called {some(twice)}; rename or drop one."
        )
    return table.reset_index(drop=True)


def check_graph(graph: Any, n_vertices: int) -> sparse.csr_array | None:
    """Symmetric adjacency with entries 1 and an empty diagonal, or None."""
    if graph is None:
        return None
    matrix = sparse.csr_array(graph)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise CohortError(f"graph has shape {matrix.shape}; an adjacency matrix is square.")
    if matrix.shape[0] != n_vertices:
        raise CohortError(
            f"graph has {matrix.shape[0]} vertices, but values have {n_vertices} (columns)."
        )
    matrix = matrix.astype(float)
    if not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
        raise CohortError("graph has negative or non-finite entries; an adjacency has 0 and 1.")
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    matrix.data[:] = 1.0
    if (matrix != matrix.T).nnz:
        raise CohortError("graph is not symmetric; use graph + graph.T for an undirected one.")
    return matrix


def check_space(space: Any) -> Space | None:
    """A space, by its name where it is built in, or None."""
    if space is None or isinstance(space, Space):
        return space
    if isinstance(space, str) and space in BUILT_IN:
        return fsaverage5(space)
    if isinstance(space, (str, os.PathLike)):
        raise CohortError(
            f"a space in files has to be loaded first: space=bd.load_space({os.fspath(space)!r}); "
            f"{', '.join(BUILT_IN)} are known by name."
        )
    raise CohortError(
        "space must be what bd.load_space gives, such as a Surface or a Volume; got "
        f"{type(space).__name__}."
    )


def check_finite(values: Stored, subjects: np.ndarray, times: Array) -> bool:
    """Refuse infinities and empty visits; say whether there are holes.

    Looks at some vertices at a time, since the values may lie on disk.
    """
    missing, empty = False, np.ones(values.shape[0], dtype=bool)
    sizes = np.zeros(values.shape[1])
    for where, block in vertex_blocks(values):
        # Of NaNs and numbers the numbers; infinities are told below.
        sizes[where] = np.maximum(np.fmax.reduce(block, axis=0), -np.fmin.reduce(block, axis=0))
        with np.errstate(invalid="ignore", over="ignore"):
            if np.isfinite(block.sum()):  # one sum sees any NaN or infinity
                empty[:] = False
                continue
        infinite = np.isinf(block)
        if infinite.any():
            row = int(infinite.any(axis=1).argmax())
            vertices = (where.start + np.flatnonzero(infinite[row])).tolist()
            raise CohortError(
                f"values are infinite at the visit of subject {subjects[row]!r} at time "
                f"{times[row]:g} ({rows_of([row])}), vertices {some(vertices)}; use NaN for not "
                "measured."
            )
        holes = np.isnan(block)
        missing |= bool(holes.any())
        empty &= holes.all(axis=1)
    if empty.any():
        who = visits_of(subjects, times, np.flatnonzero(empty).tolist())
        word = "visit has" if empty.sum() == 1 else "visits have"
        drop = "drop it" if empty.sum() == 1 else "drop them"
        raise CohortError(f"{empty.sum()} {word} no measurement at all: {who}; {drop}.")
    _check_sizes(values, sizes, subjects, times)
    return missing


def _check_sizes(values: Stored, sizes: Array, subjects: np.ndarray, times: Array) -> None:
    """Refuse values that are beyond all measure, or beside which all others are lost.

    Parameters
    ----------
    values : (n_visits, n_vertices)
        As they are stored.
    sizes : (n_vertices,)
        Largest size of the values of each vertex; NaN where there is none.
    subjects, times : (n_visits,)
        For the message.
    """
    largest, usual = float(np.nanmax(sizes)), float(np.nanmedian(sizes))
    if largest == 0:
        return
    if largest < 1 / _LARGEST:
        raise CohortError(
            f"no value is larger than {largest:g}; give them in a unit in which they are about 1."
        )
    # Where most vertices are 0 everywhere, the others tell what is usual.
    usual = usual or float(np.median(sizes[sizes > 0]))
    most = min(_LARGEST, usual * _MOST_ABOVE[values.dtype.itemsize])
    if largest <= most:
        return
    if usual * _MOST_ABOVE[values.dtype.itemsize] >= largest:
        raise CohortError(
            f"values are as large as {largest:g}; give them in a unit in which they are about 1."
        )
    vertex = int(np.nanargmax(sizes))
    column = np.asarray(values[:, vertex : vertex + 1])[:, 0]
    row = int(np.nanargmax(np.abs(column)))
    raise CohortError(
        f"the visit of subject {subjects[row]!r} at time {times[row]:g} ({rows_of([row])}) has the "
        f"value {column[row]:g} at vertex {vertex}, where others have {usual:.3g} at most; use NaN "
        "for not measured."
    )


def check_duplicates(subjects: np.ndarray, times: Array) -> None:
    """Refuse two visits of one subject at the same time."""
    seen: dict[tuple[Hashable, float], int] = {}
    twice = []
    for row, key in enumerate(zip(subjects.tolist(), times.tolist(), strict=True)):
        if key in seen:
            twice.append(f"{key[0]} at {key[1]:g} ({rows_of([seen[key], row])})")
        seen[key] = row
    if twice:
        raise CohortError(
            f"a subject has two visits at the same time: {some(twice)}; drop or average one."
        )
