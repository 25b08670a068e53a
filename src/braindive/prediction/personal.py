"""The person's own level, slope and drift at every vertex, and how far to believe the course.

A measurement is its vertex's mean, plus the course of the disease as far as it has proved right,
plus what is the person's own. The last is expected from the person's earlier visits by empirical
Bayes, jointly for the leading spatial components and vertex by vertex for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear

from braindive.arrays import Array, IntArray
from braindive.dive.timeline import Timeline
from braindive.prediction.course import Course
from braindive.prediction.deviations import Deviations
from braindive.prediction.kernel import Kernel
from braindive.values.measurements import Block, Measurements


@dataclass(frozen=True)
class PersonalModel:
    """Everything that prediction has learnt from the training cohort, in standard units.

    Parameters
    ----------
    means, rates : (n_vertices,)
        Mean of every vertex, and its mean change per internal time.
    centres : (3, 1, n_clusters + 1)
        Means of the course's columns over the training visits.
    beliefs : (3,)
        How far to believe the level that goes with a stage, the curves' change, and the vertices'
        own mean change.
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
    beliefs: Array
    components: Array
    vertex_kernel: Kernel
    component_kernel: Kernel
    inflation: float

    def fixed(self, course: Course) -> Array:
        """Columns to be multiplied with (responsibilities, rates) of the vertices, (n, K + 1)."""
        return np.tensordot(self.beliefs, course.columns(self.centres), axes=1)

    def predict(
        self,
        history: Measurements,
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
        history : Measurements
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
            scores = deviations.project(self.components)
        else:
            expected = self.means @ self.components
            scores = sums - expected - deviations.course @ (loadings.T @ self.components)
        dtype, unit, after = history.dtype, history.unit, self.fixed(future)
        out = np.empty((len(after), len(self.means)), dtype=dtype)
        spread = np.empty_like(out) if variances else None
        # Of each group of visits: their rows, and what to expect of the components.
        groups = []
        for wanted, rows in alike(timeline, future.subject_of_visit):
            times = past.since[rows], future.since[wanted]
            wide, own = self.component_kernel, self.vertex_kernel
            shared = wide.expect(wide.outlook(*times), scores[rows])
            groups.append((_as_slice(wanted), rows, own.outlook(*times), *shared))
        levels = unit.offset + unit.scale * self.means

        def predict(block: Block, rest: Array) -> None:
            where = block.where
            parts, kernel = self.components[where], self.vertex_kernel.at(where)
            scaled = unit.scale * np.column_stack([loadings[where], parts])
            weights = np.column_stack([levels[where], scaled]).astype(dtype).T
            for wanted, rows, outlook, shared, doubt in groups:
                seen = None if block.observed is None else block.observed[rows]
                own, left = kernel.expect(outlook, _take(rest, rows), seen, variances)
                course = np.column_stack([np.ones(len(rows)), after[wanted], shared])
                own *= dtype.type(unit.scale)
                own += course.astype(dtype) @ weights
                out[wanted, where] = own
                if spread is not None:
                    wide = (doubt + self.component_kernel.noise) @ (parts**2).T
                    inflation = self.inflation * unit.scale**2
                    spread[wanted, where] = inflation * (left + kernel.noise + wide)

        for _ in deviations.beyond(scores, self.components).map(predict):
            pass
        return out, spread


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


def learn_beliefs(innovations: Array, regressors: Array) -> Array:
    """Beliefs in [0, 1] that leave the least squared error.

    Parameters
    ----------
    innovations : (n,)
        Values less what the person's earlier ones made expect.
    regressors : (3, n)
        The same for the columns of the course.
    """
    gram, right = regressors @ regressors.T, regressors @ innovations
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-12))
    root = np.linalg.cholesky(gram / scale[:, None] / scale + 1e-8 * np.eye(len(gram))).T
    found = lsq_linear(root, np.linalg.solve(root.T, right / scale), (0.0, scale))
    return np.asarray(found.x / scale)
