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

from braindive.blocks import vertex_blocks
from braindive.cohort import Cohort
from braindive.measurements import Unit
from braindive.model.arrays import Array, BoolArray, IntArray
from braindive.model.timeline import Timeline
from braindive.prediction.course import Course
from braindive.prediction.kernel import Kernel


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
        history: Cohort,
        unit: Unit,
        responsibilities: Array,
        timeline: Timeline,
        past: Course,
        future: Course,
    ) -> tuple[Array, Array]:
        """Expected values of visits and their variances, in standard units.

        Parameters
        ----------
        history : Cohort
            What is known of the subjects.
        unit : Unit
            Standard unit.
        responsibilities : (n_vertices, n_clusters)
            z_lk.
        timeline : Timeline
            Of the history.
        past, future : Course
            Of the history's visits in canonical order, and of the visits to predict.

        Returns
        -------
        expected, variances : (n_visits, n_vertices)
        """
        loadings = np.column_stack([responsibilities, self.rates])
        before, after = self.fixed(past), self.fixed(future)
        scores, _ = project(history, unit, self, loadings, before)
        dtype = history._stored.dtype
        out = np.empty((len(after), len(self.means)), dtype=dtype)
        variances = np.empty_like(out)
        rows = people(timeline, future.subject_of_visit)
        shared = [
            self.component_kernel.expect(past.since[own], scores[own], future.since[wanted])
            for own, wanted in rows
        ]
        for where, values, observed in standard_blocks(history, unit):
            weights, parts = loadings[where], self.components[where]
            deviations = values - self.means[where] - before @ weights.T
            deviations -= scores @ parts.T
            if observed is not None:
                np.copyto(deviations, 0.0, where=~observed)
            kernel = self.vertex_kernel.at(where)
            component_noise = parts**2 @ self.component_kernel.noise
            for (own, wanted), (expected, doubt) in zip(rows, shared, strict=True):
                seen = None if observed is None else observed[own]
                rest, left = kernel.expect(
                    past.since[own], deviations[own], future.since[wanted], seen
                )
                course = self.means[where] + after[wanted] @ weights.T
                out[wanted, where] = course + expected @ parts.T + rest
                spread = left + kernel.noise + doubt @ (parts**2).T + component_noise
                variances[wanted, where] = self.inflation * spread
        return out, variances


def standard_blocks(cohort: Cohort, unit: Unit) -> Iterator[tuple[slice, Array, BoolArray | None]]:
    """Blocks of vertices in standard units, visits in canonical order."""
    order = cohort.canonical_order
    for where, block in vertex_blocks(cohort):
        values = (block[order] - block.dtype.type(unit.offset)) / block.dtype.type(unit.scale)
        yield where, values, ~np.isnan(values) if cohort.has_missing else None


def people(timeline: Timeline, targets: IntArray) -> list[tuple[slice, IntArray]]:
    """Visits of the history, and visits to predict, of each subject that has any to predict."""
    starts = np.append(timeline.starts, len(timeline.times))
    order = np.argsort(targets, kind="stable")
    bounds = np.searchsorted(targets[order], np.arange(timeline.n_subjects + 1))
    return [
        (slice(starts[i], starts[i + 1]), order[bounds[i] : bounds[i + 1]])
        for i in range(timeline.n_subjects)
        if bounds[i + 1] > bounds[i]
    ]


def project(
    cohort: Cohort, unit: Unit, model: PersonalModel, loadings: Array, fixed: Array
) -> tuple[Array, Array]:
    """Scores of the deviations on the components, and deviations of a sample of vertices.

    Parameters
    ----------
    loadings : (n_vertices, K + 1)
        Responsibilities and rates.
    fixed : (n_visits, K + 1)
        The course, as in `PersonalModel.fixed`.

    Returns
    -------
    scores : (n_visits, n_components)
    sample : (n_visits, about 2000)
        Every so many-th vertex's value less its mean, NaN where not observed.
    """
    n_components = model.components.shape[1]
    scores: Array = np.zeros((len(fixed), n_components))
    seen = np.zeros((len(fixed), n_components, n_components))
    step, sample = sample_step(cohort.n_vertices), []
    for where, values, observed in standard_blocks(cohort, unit):
        deviations = values - model.means[where]
        sample.append(deviations[:, (-where.start) % step :: step].astype(float))
        deviations = deviations - fixed @ loadings[where].T
        parts = model.components[where]
        if observed is not None:
            np.copyto(deviations, 0.0, where=~observed)
            squares = (parts[:, :, None] * parts[:, None, :]).reshape(len(parts), -1)
            seen += (observed.astype(float) @ squares).reshape(seen.shape)
        scores += deviations @ parts
    if cohort.has_missing and n_components:
        scores = np.linalg.solve(seen + 1e-6 * np.eye(n_components), scores[:, :, None])[:, :, 0]
    return scores, np.concatenate(sample, axis=1)


def sample_step(n_vertices: int, most: int = 2000) -> int:
    """Take every so many-th vertex where a sample of them is enough."""
    return max(1, n_vertices // most)


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
