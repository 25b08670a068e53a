"""A cohort: measurements of subjects at visits, checked once and then trusted."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse

from braindive.arrays import Array, BoolArray, IntArray
from braindive.cohort.checks import (
    check_controls,
    check_duplicates,
    check_finite,
    check_graph,
    check_space,
    check_subjects,
    check_table,
    check_times,
    check_values,
    positions,
    read_only,
    some,
    sorted_ids,
)
from braindive.errors import CohortError, ParameterError
from braindive.notebook import cohort_page
from braindive.space import Space
from braindive.values.storage import Stored


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
    space : Space or str, optional
        Surface, volume or regions on which the vertices live (`load_space`); "fsaverage5",
        "fsaverage5-left" and "fsaverage5-right" are known by name.
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
        space: str | Space | None = None,
        table: pd.DataFrame | None = None,
    ) -> None:
        self._stored = check_values(values)
        self._rows: IntArray | None = None
        n_visits = self._stored.shape[0]
        self._subjects = check_subjects(subjects, n_visits)
        self._times = check_times(times, n_visits)
        self._controls = check_controls(controls, n_visits)
        self._table = check_table(table, n_visits)
        self._space = space = check_space(space)
        if space is not None and space.n_vertices != self.n_vertices:
            raise CohortError(
                f"values have {self.n_vertices} vertices (columns), but the space {space.name!r} "
                f"has {space.n_vertices}; use the space on which the values were sampled."
            )
        if graph is None and space is not None:
            graph = space.graph()
        self._graph = check_graph(graph, self.n_vertices)
        self._has_missing = check_finite(self._stored, self._subjects, self._times)
        check_duplicates(self._subjects, self._times)

    @property
    def values(self) -> Array:
        """Measurements, (n_visits, n_vertices); read-only. Of a selection this is a copy."""
        return self._stored if self._rows is None else self._stored[self._rows]

    @property
    def stored(self) -> Stored:
        """The values as they are kept: an array, a memory map or a store; see `rows`."""
        return self._stored

    @property
    def rows(self) -> IntArray | None:
        """Row of `stored` of each visit, or None where they are the same."""
        return self._rows

    @property
    def canonical_rows(self) -> IntArray:
        """Row of `stored` of each visit, visits in canonical order."""
        order = self.canonical_order
        return order if self._rows is None else self._rows[order]

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
    def dtype(self) -> np.dtype[np.floating]:
        """Precision of the values."""
        return np.dtype(self._stored.dtype)

    @property
    def has_missing(self) -> bool:
        """Whether any measurement is NaN."""
        return self._has_missing

    @cached_property
    def subject_ids(self) -> np.ndarray:
        """Sorted ids of the subjects."""
        return sorted_ids(self._subjects)

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
                    f"no such subject in the cohort: {some(sorted(unknown, key=str))}."
                )
            keep &= np.isin(self.subject_index, positions(self.subject_ids, subjects))
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
        later = np.flatnonzero(self.visit_numbers >= n)
        if not len(later):
            most = int(self.visit_numbers.max()) + 1
            raise CohortError(
                f"nobody has more than {n} visits, so that there is none after them; the most that "
                f"anybody has is {most}."
            )
        return self._take(later)

    def _take(self, visits: IntArray, subjects: np.ndarray | None = None) -> Cohort:
        """Visits, as often as they are named, under their own or other subject ids."""
        if len(visits) == 0:
            raise CohortError("the selection holds no visit; select at least one.")
        part = object.__new__(Cohort)
        part._stored = self._stored
        part._rows = visits if self._rows is None else self._rows[visits]
        part._subjects = read_only(self._subjects[visits] if subjects is None else subjects)
        part._times = read_only(self._times[visits])
        part._controls = None if self._controls is None else read_only(self._controls[visits])
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

    def _repr_html_(self) -> str:
        """Show in a notebook what the cohort holds."""
        visits = np.bincount(self.subject_index)
        facts = {
            "visits of a subject": f"{visits.min()} to {visits.max()}, on average "
            f"{visits.mean():.1f}",
            "times": f"{self.times.min():.4g} to {self.times.max():.4g} years",
            "controls": "not known"
            if self.controls is None
            else f"{int(self.controls.sum()):,} of {self.n_visits:,} visits",
            "neighbours": "not known"
            if self.graph is None
            else f"{self.graph.nnz // 2:,} pairs of vertices",
            "columns of the table": ", ".join(map(str, self.table.columns)) or "none",
        }
        return cohort_page(repr(self), facts)


def check_cohort(cohort: Any) -> Cohort:
    """Refuse anything but a Cohort."""
    if not isinstance(cohort, Cohort):
        raise ParameterError(
            f"a Cohort is needed, not {type(cohort).__name__}; build one with "
            "bd.Cohort(values, subjects=..., times=...)."
        )
    return cohort
