"""Learn on the training cohort how to predict: by predicting everybody's last visit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from braindive.cohort import Cohort
from braindive.measurements import Unit
from braindive.model.arrays import Array
from braindive.model.timeline import Timeline
from braindive.prediction.course import Course
from braindive.prediction.kernel import Kernel, Moments, fit_kernel
from braindive.prediction.personal import (
    PersonalModel,
    learn_beliefs,
    project,
    sample_step,
    standard_blocks,
)

# Subjects from whose deviations spatial components are found, and most components.
_ENOUGH_SUBJECTS = 400
_MOST_COMPONENTS = 10
_SUBJECTS_PER_COMPONENT = 10


def learn_personal(
    cohort: Cohort, unit: Unit, responsibilities: Array, timeline: Timeline, course: Course
) -> PersonalModel:
    """Learn everything that prediction needs; a few passes over the values.

    Parameters
    ----------
    cohort : Cohort
        The training cohort.
    unit : Unit
        Standard unit of the values.
    responsibilities : (n_vertices, n_clusters)
        z_lk.
    timeline : Timeline
        Of the training cohort.
    course : Course
        Of all its visits in canonical order, as seen from all but each subject's last visit.
    """
    means, rates, shares = _levels(cohort, unit, timeline)
    columns = course.columns(np.zeros((3, 1, 1)))
    n_vertices = len(means)
    nothing = Kernel(np.array([1.0, 0.0, 0.0]), np.zeros(0), np.zeros(0))
    model = PersonalModel(
        means,
        rates,
        columns.mean(axis=1, keepdims=True),
        np.array([1.0, 1.0, 0.0]),
        np.zeros((n_vertices, 0)),
        nothing,
        nothing,
        1.0,
    )
    loadings = np.column_stack([responsibilities, rates])
    step = sample_step(n_vertices)
    # First beliefs from a sample of vertices, each by itself.
    _, sample = project(cohort, unit, model, loadings, model.fixed(course))
    observed = ~np.isnan(sample)
    sample = np.where(observed, sample, 0.0)
    thin = replace(model, components=model.components[::step])
    for _ in range(2):
        deviations = (sample - thin.fixed(course) @ loadings[::step].T) * observed
        moments = Moments.of(timeline, course.since, deviations)
        kernel = fit_kernel(timeline, course.since, moments, shares[::step])
        thin = replace(thin, vertex_kernel=kernel)
        thin = _believe(thin, timeline, course, sample, observed, loadings[::step], None)
    model = replace(model, beliefs=thin.beliefs)

    components, kernel = _components(cohort, unit, model, loadings, timeline, course)
    model = replace(model, components=components, component_kernel=kernel)
    fixed = model.fixed(course)
    scores, _ = project(cohort, unit, model, loadings, fixed)
    model = replace(
        model, vertex_kernel=_rest(cohort, unit, model, loadings, timeline, course, scores, shares)
    )
    thin = replace(
        model,
        components=components[::step],
        vertex_kernel=model.vertex_kernel.at(slice(None, None, step)),
    )
    # Scores of the values themselves, and of each column of the course.
    parts = loadings.T @ components
    by_column = model.beliefs[:, None, None] * (course.columns(model.centres) @ parts)
    own = scores + by_column.sum(axis=0)
    series = np.concatenate([own[None], course.columns(model.centres) @ parts])
    thin = _believe(thin, timeline, course, sample, observed, loadings[::step], series)
    return replace(model, beliefs=thin.beliefs, inflation=thin.inflation)


def _levels(cohort: Cohort, unit: Unit, timeline: Timeline) -> tuple[Array, Array, Array]:
    """Mean and mean rate of change of every vertex, and the share of visits that show it."""
    means, rates = np.zeros(cohort.n_vertices), np.zeros(cohort.n_vertices)
    shares = np.ones(cohort.n_vertices)
    power = max(float(timeline.times @ timeline.times), 1e-12)
    for where, values, observed in standard_blocks(cohort, unit):
        if observed is None:
            means[where] = values.mean(axis=0, dtype=float)
            rates[where] = timeline.times @ values / power
        else:
            counts = np.maximum(observed.sum(axis=0), 1)
            means[where] = np.where(observed, values, 0.0).sum(axis=0, dtype=float) / counts
            above = np.where(observed, values - means[where], 0.0)
            shares[where] = counts / len(values)
            rates[where] = timeline.times @ above / (power * shares[where])
    return means, rates, shares


def _components(
    cohort: Cohort,
    unit: Unit,
    model: PersonalModel,
    loadings: Array,
    timeline: Timeline,
    course: Course,
) -> tuple[Array, Kernel]:
    """Leading spatial components of people's mean deviations, and how they persist.

    The variances come from people who had no part in finding the components: two halves judge
    each other's, so that noise that happens to look like a component is not believed.
    """
    n_subjects = timeline.n_subjects
    number = min(_MOST_COMPONENTS, n_subjects // _SUBJECTS_PER_COMPONENT)
    chosen = np.unique(np.linspace(0, n_subjects - 1, _ENOUGH_SUBJECTS).astype(int))
    visits = np.flatnonzero(np.isin(timeline.subject_of_visit, chosen))
    part = Timeline.from_times(
        np.searchsorted(chosen, timeline.subject_of_visit[visits]), timeline.times[visits], 1.0
    )
    counts = part.n_visits_of_subject[:, None]
    fixed = model.fixed(course)[visits]

    def deviations_of(where: slice, values: Array) -> Array:
        deviations = values[visits] - model.means[where] - fixed @ loadings[where].T
        return np.asarray(np.nan_to_num(deviations, copy=False))

    gram = np.zeros((len(visits), len(chosen)))
    for where, values, _ in standard_blocks(cohort, unit):
        deviations = deviations_of(where, values)
        gram += deviations @ (part.by_subject(deviations) / counts).T
    between = part.by_subject(gram) / counts  # people x people

    persistent, noise, shapes = [], [], []
    halves = np.arange(len(chosen)) % 2 == 0
    for half in (halves, ~halves) if number else ():
        turn = _leading(between[np.ix_(half, half)], number)
        judged = np.isin(part.subject_of_visit, np.flatnonzero(~half))
        scores = gram[judged][:, half] @ turn
        judges = np.cumsum(~half) - 1
        own = Timeline.from_times(judges[part.subject_of_visit[judged]], part.times[judged], 1.0)
        since = course.since[visits][judged]
        kernel = fit_kernel(own, since, Moments.of(own, since, scores))
        persistent.append(kernel.persistent)
        noise.append(kernel.noise)
        shapes.append(kernel.shape)
    if not number:
        return np.zeros((cohort.n_vertices, 0)), Kernel(
            np.array([1.0, 0.0, 0.0]), np.zeros(0), np.zeros(0)
        )
    turn = _leading(between, number)
    components = np.empty((cohort.n_vertices, number), dtype=np.float32)
    for where, values, _ in standard_blocks(cohort, unit):
        means = part.by_subject(deviations_of(where, values)) / counts
        components[where] = means.T @ turn
    return components, Kernel(
        np.mean(shapes, axis=0), np.mean(persistent, axis=0), np.mean(noise, axis=0)
    )


def _leading(gram: Array, number: int) -> Array:
    """Combinations of people whose maps are orthonormal: eigenvectors over root eigenvalues."""
    values, vectors = np.linalg.eigh(gram)
    floor = 1e-9 * max(float(values[-1]), 1e-300)
    return np.asarray(
        vectors[:, ::-1][:, :number] / np.sqrt(np.maximum(values[::-1][:number], floor))
    )


def _rest(
    cohort: Cohort,
    unit: Unit,
    model: PersonalModel,
    loadings: Array,
    timeline: Timeline,
    course: Course,
    scores: Array,
    shares: Array,
) -> Kernel:
    """Kernel of what the components leave over, vertex by vertex."""
    fixed = model.fixed(course)
    products, squares = [], []
    for where, values, _ in standard_blocks(cohort, unit):
        deviations = values - model.means[where] - fixed @ loadings[where].T
        deviations -= scores @ model.components[where].T
        moments = Moments.of(timeline, course.since, np.nan_to_num(deviations, copy=False))
        products.append(moments.products)
        squares.append(moments.squares)
    moments = Moments(np.concatenate(products, axis=1), np.concatenate(squares))
    return fit_kernel(timeline, course.since, moments, shares)


def _believe(
    model: PersonalModel,
    timeline: Timeline,
    course: Course,
    sample: Array,
    observed: Array,
    loadings: Array,
    series: Array | None,
) -> PersonalModel:
    """Learn beliefs and the inflation of variances by predicting each subject's last visit.

    Parameters
    ----------
    model : PersonalModel
        Restricted to the sample of vertices.
    sample, observed : (n_visits, n_sample)
        Values less their means, 0 where not observed.
    loadings : (n_sample, K + 1)
        Responsibilities and rates.
    series : (4, n_visits, n_components) or None
        Component scores of the values and of the three columns of the course.
    """
    counts = timeline.n_visits_of_subject
    columns = course.columns(model.centres)
    innovations, regressors, variances = [], [], []
    for first, count in zip(timeline.starts, counts, strict=True):
        if count < 2:
            continue
        own, last = slice(first, first + count - 1), first + count - 1
        paths = np.concatenate(
            [sample[None, first : last + 1], columns[:, first : last + 1] @ loadings.T]
        )
        kernel, target = model.vertex_kernel, course.since[last : last + 1]
        known, past = observed[own], course.since[own]
        if series is None:
            expected, left = kernel.expect(past, paths[:, :-1] * known, target, known)
            variance = left[0] + kernel.noise
        else:
            parts, shared = model.components, series[:, own]
            rest = (paths[:, :-1] - shared @ parts.T) * known
            expected, left = kernel.expect(past, rest, target, known)
            wide, doubt = model.component_kernel.expect(past, shared, target)
            expected = expected + wide @ parts.T
            variance = left[0] + kernel.noise
            variance = variance + parts**2 @ (doubt[0] + model.component_kernel.noise)
        new = (paths[:, -1] - expected[:, 0])[:, observed[last]]
        innovations.append(new[0])
        regressors.append(new[1:])
        variances.append(variance[observed[last]])
    if len(innovations) < 3:
        return model
    new, by, variance = (
        np.concatenate(innovations),
        np.concatenate(regressors, axis=1),
        np.concatenate(variances),
    )
    beliefs = learn_beliefs(new, by)
    left = new - beliefs @ by
    inflation = float(np.mean(left**2) / np.mean(variance))
    return replace(model, beliefs=beliefs, inflation=inflation)
