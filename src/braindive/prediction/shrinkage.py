"""How far to shrink the course of the disease: by what it was worth in predicting last visits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import lsq_linear

from braindive.arrays import Array, IntArray
from braindive.dive.timeline import Timeline
from braindive.prediction.course import Course
from braindive.prediction.deviations import Sample
from braindive.prediction.personal import PersonalModel, alike


@dataclass(frozen=True)
class Foresight:
    """How the last visits look from earlier ones.

    Parameters
    ----------
    n_known : (n_subjects,) int
        First visits that each subject is seen from.
    course : Course
        Of all visits as seen from these.
    """

    n_known: IntArray
    course: Course


def learn_from_last_visits(
    model: PersonalModel,
    timeline: Timeline,
    foresights: list[Foresight],
    sample: Sample,
    loadings: Array,
    scores: Array | None = None,
) -> PersonalModel:
    """Learn shrinkage and the inflation of variances by predicting each subject's last visit.

    Parameters
    ----------
    model : PersonalModel
        With the kernel of the vertices of the sample.
    timeline : Timeline
        Whose visits they are.
    foresights : list of Foresight
        What to predict from.
    sample : Sample
        Some vertices.
    loadings : (n_vertices, K + 1)
        Responsibilities and rates.
    scores : (n_visits, n_components), optional
        Component scores of the values.
    """
    returned = np.flatnonzero(timeline.n_visits_of_subject > 1)
    if len(returned) < 3:
        return model
    own, on_components = loadings[sample.vertices], loadings.T @ model.components
    found = [
        _innovations(model, timeline, foresight, rows, sample, own, on_components, scores)
        for foresight in foresights
        for _, rows in alike(timeline, returned)
    ]
    innovations, variances = (np.concatenate([one[i] for one in found], axis=-1) for i in (0, 1))
    innovation, by = innovations[0], innovations[1:]
    shrinkage = learn_shrinkage(innovation, by)
    left = innovation - shrinkage @ by
    inflation = float(np.mean(left**2) / np.mean(variances))
    return replace(model, shrinkage=shrinkage, inflation=inflation)


def _innovations(
    model: PersonalModel,
    timeline: Timeline,
    foresight: Foresight,
    rows: IntArray,
    sample: Sample,
    loadings: Array,
    on_components: Array,
    scores: Array | None,
) -> tuple[Array, Array]:
    """What last visits bring that deviations in the history did not make expect.

    Parameters
    ----------
    rows : (n_group, n_visits)
        Visits of subjects who were seen equally often.
    loadings : (n_sample, K + 1)
        Responsibilities and rates of the vertices of the sample.
    on_components : (K + 1, n_components)
        The same of all vertices, projected on the components; others as in
        `learn_from_last_visits`.

    Returns
    -------
    innovations : (4, n)
        Of the values, and of the three columns of the course, where values were observed.
    variances : (n,)
        Expected squares of the first, were the course right.
    """
    course, last = foresight.course, rows[:, -1]
    past = rows[:, : int(foresight.n_known[timeline.subject_of_visit[last[0]]])]
    columns, parts = course.columns(model.centres), model.components[sample.vertices]
    known, final = columns[:, past], columns[:, last]
    rest = np.concatenate([sample.values[None, past], known @ loadings.T])
    new = np.concatenate([sample.values[None, last], final @ loadings.T])
    times, seen = (course.since[past], course.since[last]), sample.observed[past]
    series = None
    if scores is not None:
        series = np.concatenate([scores[None, past], known @ on_components])
        rest = rest - series @ parts.T
    kernel, wide = model.vertex_kernel, model.component_kernel
    expected, variances = kernel.expect(kernel.conditional(*times), rest * seen, seen)
    variances = variances + kernel.noise
    if series is not None:
        shared, unknown = wide.expect(wide.conditional(*times), series)
        expected = expected + shared @ parts.T
        variances = variances + (unknown + wide.noise) @ (parts**2).T
    kept = sample.observed[last]
    return (new - expected)[:, kept], variances[kept]


def learn_shrinkage(innovations: Array, regressors: Array) -> Array:
    """Shrinkage factors in [0, 1] that leave the least squared error.

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
