"""The person's own level, slope and drift at every vertex, and how far the course is shrunk.

A measurement is its vertex's mean, plus the course of the disease as far as it has proved right,
plus what is the person's own. The last is expected from the person's earlier visits by empirical
Bayes, jointly for the leading spatial components and vertex by vertex for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.timeline import Timeline
from braindive.prediction.course import Course
from braindive.prediction.deviations import Deviations
from braindive.prediction.kernel import Conditional, Kernel
from braindive.values.protocol import Block, Found, Products


@dataclass(frozen=True)
class PersonalModel:
    """Everything that prediction has learnt from the training cohort, in standard units.

    Parameters
    ----------
    means, rates : (n_vertices,)
        Mean of every vertex, and its mean change per internal time.
    centres : (3, 1, n_clusters + 1)
        Means of the course's columns over the training visits.
    shrinkage : (3,)
        Shrinkage in [0, 1] of the level that goes with a stage, of the curves' change, and of the
        vertices' own mean change.
    components : (n_vertices, n_components)
        Orthonormal spatial components of people's deviations.
    vertex_kernel, component_kernel : Kernel
        How deviations persist.
    inflation : float
        Squared error of predictions on the training cohort over its expectation.
    """

    means: Array
    rates: Array
    centres: Array
    shrinkage: Array
    components: Array
    vertex_kernel: Kernel
    component_kernel: Kernel
    inflation: float

    def fixed(self, course: Course) -> Array:
        """Columns to be multiplied with (responsibilities, rates) of the vertices, (n, K + 1)."""
        return np.tensordot(self.shrinkage, course.columns(self.centres), axes=1)

    def predict(
        self,
        history: Products,
        responsibilities: Array,
        timeline: Timeline,
        past: Course,
        future: Course,
        variances: bool = True,
        sums: Array | None = None,
    ) -> tuple[Array, Array | None]:
        """Expected values of visits, and their variances if wanted, in the unit of the values.

        Parameters
        ----------
        history : Products
            What is known of the subjects.
        responsibilities : (n_vertices, n_clusters)
            z_lk.
        timeline : Timeline
            Of the history.
        past, future : Course
            Of the history's visits in canonical order, and of the visits to predict.
        variances : bool
            Whether to return variances too.
        sums : (n_visits, n_components), optional
            Sums of the history over the components where all of it was observed; None reads the
            values for the scores.

        Returns
        -------
        expected, variances : (n_visits, n_vertices)
        """
        loadings = np.column_stack([responsibilities, self.rates])
        deviations = Deviations(history, self.means, self.fixed(past), loadings)
        if sums is None:
            scores = deviations.scores(self.components)
        else:
            expected = self.means @ self.components
            scores = sums - expected - deviations.course @ (loadings.T @ self.components)
        wide, groups = self.component_kernel, []
        for wanted, rows in alike(timeline, future.subject_of_visit):
            times = past.since[rows], future.since[wanted]
            conditional = self.vertex_kernel.conditional(*times)
            shared, unknown = wide.expect(wide.conditional(*times), scores[rows])
            groups.append(Group(_as_slice(wanted), rows, conditional, shared, unknown + wide.noise))
        step = Predict(
            groups,
            self.fixed(future),
            self.vertex_kernel.shape,
            self.inflation if variances else None,
        )
        found, _ = deviations.beyond(scores, self.components).run(
            step, self.components, self.vertex_kernel.persistent, self.vertex_kernel.noise
        )
        return found[0], found[1] if variances else None


@dataclass(frozen=True)
class Group:
    """Visits to predict, of subjects with as many visits in the history.

    Parameters
    ----------
    wanted : (n_group,) int or slice
        Which of the visits to predict.
    rows : (n_group, n_history)
        Visits of their subjects in the history.
    conditional : Conditional
        From these to the visits to predict, for the vertices' kernel.
    shared : (n_group, n_components)
        Expected scores on the components.
    variance : (n_group, n_components)
        Their variances, noise included.
    """

    wanted: IntArray | slice
    rows: IntArray
    conditional: Conditional
    shared: Array
    variance: Array


@dataclass(frozen=True)
class Predict:
    """Expected values of visits at some vertices, from their deviations in the history.

    Parameters
    ----------
    groups : list of Group
        Which hold each visit to predict once.
    course : (n_visits, K + 1)
        What the visits to predict have in common.
    shape : (3,)
        Of the vertices' kernel.
    inflation : float or None
        Of the variances; None leaves them out.
    """

    groups: list[Group]
    course: Array
    shape: Array
    inflation: float | None

    def __call__(
        self, block: Block, residuals: Array, means: Array, loadings: Array, *own: Any
    ) -> Found:
        """Return expected values and variances, each (n_visits, n), in the unit of the values."""
        parts, persistent, noise = own
        kernel, unit, dtype = Kernel(self.shape, persistent, noise), block.unit, residuals.dtype
        levels = unit.offset + unit.scale * means
        weights = np.column_stack([levels, unit.scale * loadings]).astype(dtype).T
        n_visits = len(self.course)
        expected = block.buffer("expected", n_visits)
        variances = None if self.inflation is None else block.buffer("variances", n_visits)
        for group in self.groups:
            wanted, rows = group.wanted, group.rows
            seen = None if block.observed is None else block.observed[rows]
            person, left = kernel.expect(
                group.conditional, _take(residuals, rows), seen, variances is not None
            )
            course = np.column_stack([np.ones(len(rows)), self.course[wanted], group.shared])
            person *= dtype.type(unit.scale)
            person += course.astype(dtype) @ weights
            expected[wanted] = person
            if variances is not None and self.inflation is not None:
                left += kernel.noise
                left += group.variance @ (parts**2).T
                left *= self.inflation * unit.scale**2
                variances[wanted] = left
        return (expected,) if variances is None else (expected, variances), ()


def _as_slice(indices: IntArray) -> IntArray | slice:
    """The same as a slice where they follow on each other."""
    first, last = int(indices[0]), int(indices[-1])
    follow = last - first == len(indices) - 1 and bool((np.diff(indices) == 1).all())
    return slice(first, last + 1) if follow else indices


def _take(x: Array, rows: IntArray) -> Array:
    """x[rows] for rows (n, m), without a copy where they follow on each other."""
    which = _as_slice(rows.ravel())
    return x[which].reshape(*rows.shape, -1)


def alike(timeline: Timeline, targets: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Visits to predict in groups whose subjects have as many visits in the history.

    Parameters
    ----------
    timeline : Timeline
        Of the history.
    targets : (n,) int
        Subject of each visit to predict.

    Yields
    ------
    wanted : (n_group,)
        Which of the visits to predict.
    rows : (n_group, n_history)
        Visits of their subjects in the history.
    """
    counts = timeline.n_visits_of_subject[targets]
    for count in np.unique(counts):
        wanted = np.flatnonzero(counts == count)
        yield wanted, timeline.starts[targets[wanted]][:, None] + np.arange(count)
