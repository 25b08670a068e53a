"""A cohort: measurements of subjects at visits, checked once and then trusted."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse

from braindive.distributed import DistributedMeasurements
from braindive.errors import CohortError
from braindive.measurements import Measurements, Unit
from braindive.model.arrays import Array, BoolArray, IntArray
from braindive.storage import mapped

if TYPE_CHECKING:
    from braindive.space import Space

# Values looked at in one piece: 32 MiB of float64.
_AT_ONCE = 2**22


class Cohort:
    """Longitudinal brain maps of a group of people.

    Immutable, and validated on construction.

    Parameters
    ----------
    values : (n_visits, n_vertices) array
        One row per visit; NaN = not measured. Kept as it is, without a copy, where it is float32
        or float64.
    subjects : (n_visits,)
        Whose visit it is. Visits may be in any order.
    times : (n_visits,)
        Age, or years since any event, in years.
    controls : (n_visits,) bool, optional
        Visits of healthy controls.
    graph : sparse (n_vertices, n_vertices), optional
        Symmetric adjacency of the vertices. Taken from `space` if that has one.
    space : Space, optional
        Surface or volume on which the vertices live.
    table : DataFrame, optional
        One row per visit: diagnosis, genotype, cognitive scores, covariates.

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> values = np.random.default_rng(0).normal(size=(4, 6))
    >>> cohort = bd.Cohort(values, subjects=["b", "a", "b", "a"], times=[70, 64, 71.5, 65])
    >>> cohort
    Cohort(2 subjects, 4 visits, 6 vertices)
    >>> list(cohort.subject_ids)
    ['a', 'b']
    """

    def __init__(
        self,
        values: ArrayLike,
        *,
        subjects: Iterable[Hashable],
        times: ArrayLike,
        controls: ArrayLike | None = None,
        graph: Any = None,
        space: Space | None = None,
        table: pd.DataFrame | None = None,
    ) -> None:
        self._stored = _check_values(values)
        self._rows: IntArray | None = None
        n_visits = self._stored.shape[0]
        self._subjects = _check_subjects(subjects, n_visits)
        self._times = _check_times(times, n_visits)
        self._controls = _check_controls(controls, n_visits)
        self._table = _check_table(table, n_visits)
        self._space = space
        if space is not None and space.n_vertices != self.n_vertices:
            raise CohortError(
                f"values have {self.n_vertices} vertices (columns), but the space {space.name!r} "
                f"has {space.n_vertices}; use the space on which the values were sampled."
            )
        if graph is None and space is not None:
            graph = space.graph()
        self._graph = _check_graph(graph, self.n_vertices)
        self._has_missing = _check_finite(self._stored, self._subjects, self._times)
        _check_duplicates(self._subjects, self._times)

    @property
    def values(self) -> Array:
        """Measurements, (n_visits, n_vertices); read-only. Of a selection this is a copy."""
        return self._stored if self._rows is None else self._stored[self._rows]

    @property
    def subjects(self) -> np.ndarray:
        """Subject of each visit, (n_visits,)."""
        return self._subjects

    @property
    def times(self) -> Array:
        """Time of each visit in years, (n_visits,)."""
        return self._times

    @property
    def controls(self) -> BoolArray | None:
        """Whether each visit is a control's, (n_visits,), or None."""
        return self._controls

    @property
    def graph(self) -> sparse.csr_array | None:
        """Adjacency of the vertices with entries 1, or None."""
        return self._graph

    @property
    def space(self) -> Space | None:
        """Surface or volume of the vertices, or None."""
        return self._space

    @property
    def table(self) -> pd.DataFrame:
        """One row per visit; has at least the subjects and times."""
        if self._table is None:
            return pd.DataFrame({"participant_id": self._subjects, "years": self._times})
        return self._table.copy()

    @property
    def n_visits(self) -> int:
        """Number of visits."""
        return len(self._subjects)

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return int(self._stored.shape[1])

    @property
    def n_subjects(self) -> int:
        """Number of subjects."""
        return len(self.subject_ids)

    @property
    def has_missing(self) -> bool:
        """Whether any measurement is NaN."""
        return self._has_missing

    @cached_property
    def subject_ids(self) -> np.ndarray:
        """Sorted ids of the subjects."""
        return _sorted_ids(self._subjects)

    @cached_property
    def subject_index(self) -> IntArray:
        """Position in `subject_ids` of each visit's subject."""
        position = {subject: i for i, subject in enumerate(self.subject_ids)}
        return np.array([position[subject] for subject in self._subjects])

    @cached_property
    def canonical_order(self) -> IntArray:
        """Visits sorted by subject, then by time, whatever their order in the input."""
        return np.lexsort((self._times, self.subject_index))

    @cached_property
    def visit_numbers(self) -> IntArray:
        """How many earlier visits of its subject each visit has."""
        order = self.canonical_order
        index = self.subject_index[order]
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        rank = np.empty(self.n_visits, dtype=int)
        rank[order] = np.arange(self.n_visits) - starts[index]
        return rank

    def measurements(
        self,
        n_jobs: int | None = None,
        unit: Unit | None = None,
        *,
        memory: int | None = None,
        client: Any = None,
        summary: tuple[Array, Array, Array] | None = None,
    ) -> Measurements | DistributedMeasurements:
        """Products of the values with visits in canonical order.

        Parameters
        ----------
        n_jobs : int or None
            Threads.
        unit : Unit or None
            Standard unit; None takes the values' own.
        memory : int or None
            Bytes that blocks of the values may take.
        client : distributed.Client or None
            Cluster over which to spread the values.
        summary : tuple of arrays or None
            Counts, means and energies of the vertices where they are known already.

        Returns
        -------
        Measurements or DistributedMeasurements
        """
        rows = self.canonical_order if self._rows is None else self._rows[self.canonical_order]
        if client is not None:
            return DistributedMeasurements.spread(
                client, self._stored, order=rows, missing=self._has_missing, unit=unit
            )
        return Measurements(
            self._stored,
            order=rows,
            missing=self._has_missing,
            n_jobs=n_jobs,
            memory=memory,
            unit=unit,
            summary=summary,
        )

    def select(
        self, *, subjects: Sequence[Hashable] | None = None, visits: ArrayLike | None = None
    ) -> Cohort:
        """Return the cohort of some subjects or of some visits; the values are not copied.

        Parameters
        ----------
        subjects : sequence of ids, optional
            Subjects to keep.
        visits : (n_visits,) bool or indices, optional
            Visits to keep.

        Returns
        -------
        Cohort

        Examples
        --------
        >>> import numpy as np, braindive as bd
        >>> cohort = bd.Cohort(np.eye(4), subjects=list("aabb"), times=[0, 1, 0, 1])
        >>> cohort.select(subjects=["b"])
        Cohort(1 subject, 2 visits, 4 vertices)
        """
        keep = np.ones(self.n_visits, dtype=bool)
        if subjects is not None:
            unknown = set(subjects) - set(self.subject_ids)
            if unknown:
                raise CohortError(
                    f"no such subject in the cohort: {_some(sorted(unknown, key=str))}."
                )
            keep &= np.isin(self.subject_index, _positions(self.subject_ids, subjects))
        if visits is not None:
            chosen = np.asarray(visits)
            if chosen.dtype != bool:
                chosen = np.isin(np.arange(self.n_visits), chosen)
            elif chosen.shape != (self.n_visits,):
                raise CohortError(
                    f"visits has shape {chosen.shape}; a mask needs one entry for each of the "
                    f"{self.n_visits} visits."
                )
            keep &= chosen
        return self._take(np.flatnonzero(keep))

    def first_visits(self, n: int) -> Cohort:
        """Return the first `n` visits of every subject."""
        return self._take(np.flatnonzero(self.visit_numbers < n))

    def later_visits(self, n: int) -> Cohort:
        """Return the visits after each subject's first `n`; subjects without any are left out."""
        return self._take(np.flatnonzero(self.visit_numbers >= n))

    def _take(self, visits: IntArray, subjects: np.ndarray | None = None) -> Cohort:
        """Visits, as often as they are named, under their own or other subject ids."""
        if len(visits) == 0:
            raise CohortError("the selection holds no visit; select at least one.")
        part = object.__new__(Cohort)
        part._stored = self._stored
        part._rows = visits if self._rows is None else self._rows[visits]
        part._subjects = _read_only(self._subjects[visits] if subjects is None else subjects)
        part._times = _read_only(self._times[visits])
        part._controls = None if self._controls is None else _read_only(self._controls[visits])
        part._table = (
            None if self._table is None else self._table.iloc[visits].reset_index(drop=True)
        )
        part._space, part._graph = self._space, self._graph
        part._has_missing = self._has_missing
        return part

    def __repr__(self) -> str:
        def count(n: int, word: str, plural: str | None = None) -> str:
            return f"{n:,} {word if n == 1 else plural or word + 's'}"

        text = (
            f"Cohort({count(self.n_subjects, 'subject')}, {count(self.n_visits, 'visit')}, "
            f"{count(self.n_vertices, 'vertex', 'vertices')}"
        )
        if self._space is not None:
            text += f" on {self._space.name}"
        elif self._graph is not None:
            text += f", {self._graph.nnz // 2:,} edges"
        return text + ")"


def _read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


def _some(items: Sequence[Any], most: int = 5) -> str:
    shown = ", ".join(str(item) for item in items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most:,} more"


def _positions(ids: np.ndarray, chosen: Iterable[Hashable]) -> list[int]:
    position = {subject: i for i, subject in enumerate(ids)}
    return [position[subject] for subject in chosen]


def _sorted_ids(subjects: np.ndarray) -> np.ndarray:
    unique = list(dict.fromkeys(subjects.tolist()))
    try:
        unique.sort()
    except TypeError:
        unique.sort(key=lambda subject: (type(subject).__name__, str(subject)))
    ids = np.empty(len(unique), dtype=object)
    ids[:] = unique
    return ids


def _check_values(values: Any) -> Array:
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
    return _read_only(values) if isinstance(values, np.ndarray) else values


def _check_length(name: str, got: int, n_visits: int) -> None:
    if got != n_visits:
        raise CohortError(
            f"{name} has {got} entries, but values have {n_visits} rows; give one for each visit."
        )


def _check_subjects(subjects: Iterable[Hashable], n_visits: int) -> np.ndarray:
    if isinstance(subjects, str):
        raise CohortError("subjects is one string; give one id for each visit.")
    listed = list(subjects)
    _check_length("subjects", len(listed), n_visits)
    absent = [row for row, subject in enumerate(listed) if _is_missing(subject)]
    if absent:
        raise CohortError(f"visits without a subject id: rows {_some(absent)}.")
    array = np.empty(n_visits, dtype=object)
    array[:] = [
        subject.item() if isinstance(subject, np.generic) else subject for subject in listed
    ]
    return _read_only(array)


def _is_missing(subject: Any) -> bool:
    return subject is None or (isinstance(subject, float) and np.isnan(subject)) or subject is pd.NA


def _check_times(times: ArrayLike, n_visits: int) -> Array:
    array = np.asarray(times)
    if array.dtype.kind not in "fiuO" or array.ndim != 1:
        raise CohortError(
            f"times must be a list of numbers (years), one for each visit; got {array.dtype} of "
            f"shape {array.shape}."
        )
    try:
        numbers = array.astype(float)
    except (TypeError, ValueError):
        bad = [row for row, value in enumerate(array) if not isinstance(value, (int, float))]
        raise CohortError(
            f"times must be numbers (years); not so in rows {_some(bad)}, for example "
            f"{array[bad[0]]!r}."
        ) from None
    _check_length("times", len(numbers), n_visits)
    bad = np.flatnonzero(~np.isfinite(numbers)).tolist()
    if bad:
        raise CohortError(f"times are missing or infinite in rows {_some(bad)}; drop those visits.")
    return _read_only(numbers)


def _check_controls(controls: ArrayLike | None, n_visits: int) -> BoolArray | None:
    if controls is None:
        return None
    array = np.asarray(controls)
    if array.ndim != 1:
        raise CohortError(
            f"controls must be a list of True and False, one for each visit; got shape "
            f"{array.shape}."
        )
    _check_length("controls", len(array), n_visits)
    if array.dtype != bool:
        if not np.isin(array, [0, 1]).all():
            raise CohortError("controls must be True or False for each visit.")
        array = array.astype(bool)
    return _read_only(array)


def _check_table(table: pd.DataFrame | None, n_visits: int) -> pd.DataFrame | None:
    if table is None:
        return None
    if not isinstance(table, pd.DataFrame):
        raise CohortError(f"table must be a pandas DataFrame; got {type(table).__name__}.")
    _check_length("table", len(table), n_visits)
    return table.reset_index(drop=True)


def _check_graph(graph: Any, n_vertices: int) -> sparse.csr_array | None:
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


def _check_finite(values: Any, subjects: np.ndarray, times: Array) -> bool:
    """Refuse infinities and empty visits; say whether there are holes.

    Looks at some vertices at a time, since the values may lie on disk.
    """
    n_visits, n_vertices = values.shape
    width = values.chunks[1] if hasattr(values, "chunks") else max(_AT_ONCE // n_visits, 1)
    missing, empty = False, np.ones(n_visits, dtype=bool)
    values = mapped(values)
    for start in range(0, n_vertices, width):
        block = np.asarray(values[:, start : start + width])
        with np.errstate(invalid="ignore", over="ignore"):
            if np.isfinite(block.sum()):  # one sum sees any NaN or infinity
                empty[:] = False
                continue
        infinite = np.isinf(block)
        if infinite.any():
            row = int(infinite.any(axis=1).argmax())
            vertices = (start + np.flatnonzero(infinite[row])).tolist()
            raise CohortError(
                f"values are infinite at the visit of subject {subjects[row]!r} at time "
                f"{times[row]:g} (row {row}), vertices {_some(vertices)}; use NaN for not measured."
            )
        holes = np.isnan(block)
        missing |= bool(holes.any())
        empty &= holes.all(axis=1)
    if empty.any():
        row = int(empty.argmax())
        raise CohortError(
            f"the visit of subject {subjects[row]!r} at time {times[row]:g} (row {row}) has no "
            "measurement at all; drop it."
        )
    return missing


def _check_duplicates(subjects: np.ndarray, times: Array) -> None:
    seen: dict[tuple[Hashable, float], int] = {}
    twice = []
    for row, key in enumerate(zip(subjects.tolist(), times.tolist(), strict=True)):
        if key in seen:
            twice.append(f"{key[0]} at {key[1]:g} (rows {seen[key]} and {row})")
        seen[key] = row
    if twice:
        raise CohortError(
            f"a subject has two visits at the same time: {_some(twice)}; drop or average one."
        )
