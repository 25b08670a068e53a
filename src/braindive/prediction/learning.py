"""Learn on the training cohort how to predict: by predicting everybody's last visit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.timeline import Timeline, evenly
from braindive.prediction.course import Course, foresee, histories
from braindive.prediction.deviations import Deviations, Sample, overlap, solve_scores
from braindive.prediction.kernel import Kernel, Moments, fit_kernel
from braindive.prediction.personal import PersonalModel
from braindive.prediction.shrinkage import Foresight, learn_from_last_visits
from braindive.staging.marginal_stager import Training
from braindive.staging.stagers import Stager
from braindive.values.protocol import Block, Found, Products, Step

# People from whom it is learnt how deviations persist: a choice that bounds the cost.
_ENOUGH_SUBJECTS = 200
# Most spatial components, and people needed for each. Choices.
_MOST_COMPONENTS = 10
_SUBJECTS_PER_COMPONENT = 10
# Values in the sample of vertices from which components are told apart, and in the part of it
# from which shrinkage is learnt; and the fewest and most vertices in the latter. Choices
# that bound memory and cost.
_SAMPLE = 2**22
_PART = 2**19
_VERTICES = (200, 2000)
_NOTHING = Kernel(np.array([1.0, 0.0, 0.0]), np.zeros(0), np.zeros(0))


def learn_personal(
    measurements: Products, responsibilities: Array, stager: Stager, training: Training
) -> PersonalModel:
    """Learn everything that prediction needs, in three reads of the values (four with holes).

    Means and rates are everybody's; how deviations from them persist is learnt from enough
    people, evenly spread over the cohort.

    Parameters
    ----------
    measurements : Products
        Of the training cohort.
    responsibilities : (n_vertices, n_clusters)
        z_lk.
    stager : Stager
        Places the subjects.
    training : Training
        Visits of the training cohort and their pooled measurements.
    """
    timeline = training.timeline
    course = foresee(stager, training, histories(timeline.n_visits_of_subject)[0])
    subjects = _learning_subjects(timeline)
    own, visits = timeline.select(subjects)
    some = training.select(subjects)
    all_but_last, *fewer = histories(own.n_visits_of_subject)
    foresights = [Foresight(all_but_last, course.select(visits))]
    foresights += [Foresight(n_known, foresee(stager, some, n_known)) for n_known in fewer]
    rates, sample = _sample_vertices(measurements, timeline, visits)
    centres = course.columns(np.zeros((3, 1, 1))).mean(axis=1, keepdims=True)
    model = PersonalModel(
        measurements.means,
        rates,
        centres,
        np.array([1.0, 1.0, 0.0]),
        np.zeros((measurements.n_vertices, 0)),
        _NOTHING,
        _NOTHING,
        1.0,
    )
    loadings = np.column_stack([responsibilities, rates])
    if len(visits) < measurements.n_visits:
        measurements = measurements.select(visits)
    return _learn_kernels(model, measurements, sample, loadings, own, foresights)


def _learn_kernels(
    model: PersonalModel,
    measurements: Products,
    sample: Sample,
    loadings: Array,
    timeline: Timeline,
    foresights: list[Foresight],
) -> PersonalModel:
    """Learn how deviations persist and how far to shrink the course, from some people's visits.

    Deviations are those from the course as seen from all but the last visit, the first foresight.
    """
    course = foresights[0].course
    n_visits = measurements.n_visits
    shares = measurements.counts / n_visits

    # First shrinkage factors from few vertices, each by itself.
    part = sample.thinned(int(np.clip(_PART // n_visits, *_VERTICES)))
    for _ in range(2):
        rest = (part.values - model.fixed(course) @ loadings[part.vertices].T) * part.observed
        moments = Moments.of(timeline, course.since, rest)
        kernel = fit_kernel(timeline, course.since, moments, shares[part.vertices])
        model = learn_from_last_visits(
            replace(model, vertex_kernel=kernel), timeline, foresights, part, loadings
        )

    turn, kernel = _personal_components(model, sample, loadings, timeline, course)
    deviations = Deviations(measurements, model.means, model.fixed(course), loadings)
    components, scores = _components(deviations, turn)
    model = replace(model, components=components, component_kernel=kernel)

    rest = deviations.beyond(scores, components)
    (products, squares), _ = rest.run(_SumProducts(timeline, course.since))
    moments = Moments(products, squares)
    kernel = fit_kernel(timeline, course.since, moments, shares)
    thin = replace(model, vertex_kernel=kernel.at(part.vertices))
    # Scores of the values themselves.
    own = scores + model.fixed(course) @ (loadings.T @ components)
    thin = learn_from_last_visits(thin, timeline, foresights, part, loadings, own)
    return replace(model, vertex_kernel=kernel, shrinkage=thin.shrinkage, inflation=thin.inflation)


def _learning_subjects(timeline: Timeline) -> IntArray:
    """Enough people, evenly spread; those who came back before those seen once."""
    came_back = timeline.n_visits_of_subject > 1
    chosen = evenly(np.flatnonzero(came_back), _ENOUGH_SUBJECTS)
    others = evenly(np.flatnonzero(~came_back), _ENOUGH_SUBJECTS - len(chosen))
    return np.sort(np.concatenate([chosen, others]))


@dataclass(frozen=True)
class _Look(Step):
    """Change along the internal times of every vertex, and the values of some vertices.

    Parameters
    ----------
    times : (n_visits,)
        Internal times.
    visits : (n_chosen,) int
        Visits at which the values are kept.
    """

    times: Array
    visits: IntArray
    needs_summary: ClassVar[bool] = True
    chooses_vertices: ClassVar[bool] = True

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return changes (n,), and the chosen vertices' values less their means (n_visits, m)."""
        (chosen,) = own
        vertices, unit = np.flatnonzero(chosen), block.unit
        offset = block.values.dtype.type(unit.offset)
        standard = (block.values[self.visits[:, None], vertices] - offset) / unit.scale
        values = (standard - block.means[vertices]).astype(block.values.dtype)
        return (block.along(self.times[None])[0], values), ()


def _sample_vertices(
    measurements: Products, timeline: Timeline, visits: IntArray
) -> tuple[Array, Sample]:
    """Mean rate of change of every vertex, and a sample of vertices at some of the visits."""
    n_vertices = measurements.n_vertices
    shares = measurements.counts / measurements.n_visits
    power = max(float(timeline.times @ timeline.times), 1e-12) * np.maximum(shares, 1e-12)
    chosen = np.zeros(n_vertices, dtype=bool)
    chosen[:: max(1, n_vertices // max(_SAMPLE // len(visits), _VERTICES[1]))] = True
    (changes, values), _ = measurements.run(_Look(timeline.times, visits), chosen)
    observed = ~np.isnan(values)
    sample = Sample(np.flatnonzero(chosen), np.where(observed, values, 0), observed)
    return changes / power, sample


def _personal_components(
    model: PersonalModel, sample: Sample, loadings: Array, timeline: Timeline, course: Course
) -> tuple[Array, Kernel]:
    """Combinations of visits whose mean deviations are spatial components, and how these persist.

    The variances come from people who had no part in finding the components: two halves judge
    each other's, so that noise that happens to look like a component is not trusted.

    Returns
    -------
    turn : (n_visits, n_components)
        Components are deviations' @ turn.
    kernel : Kernel
        Of the components' scores.
    """
    n_subjects, counts = timeline.n_subjects, timeline.n_visits_of_subject
    number = min(_MOST_COMPONENTS, n_subjects // _SUBJECTS_PER_COMPONENT)
    if not number:
        return np.zeros((len(timeline.times), 0)), _NOTHING
    dtype = sample.values.dtype
    weights = loadings[sample.vertices].astype(dtype)
    deviations = (sample.values - model.fixed(course).astype(dtype) @ weights.T) * sample.observed
    # Lengths as if all vertices were in the sample.
    deviations *= dtype.type(np.sqrt(len(loadings) / len(sample.vertices)))
    people = timeline.by_subject(deviations) / counts[:, None].astype(dtype)
    between = (people @ people.T).astype(float)

    persistent, noise, shapes = [], [], []
    halves = np.arange(n_subjects) % 2 == 0
    for half in (halves, ~halves):
        turn = _leading(between[np.ix_(half, half)], number)
        own, judged = timeline.select(np.flatnonzero(~half))
        scores = (deviations[judged] @ (people[half].T @ turn.astype(dtype))).astype(float)
        since = course.since[judged]
        kernel = fit_kernel(own, since, Moments.of(own, since, scores))
        persistent.append(kernel.persistent)
        noise.append(kernel.noise)
        shapes.append(kernel.shape)
    mean = _leading(between, number) / counts[:, None]
    return mean[timeline.subject_of_visit], Kernel(
        np.mean(shapes, axis=0), np.mean(persistent, axis=0), np.mean(noise, axis=0)
    )


def _leading(gram: Array, number: int) -> Array:
    """Combinations of people whose maps are orthonormal: eigenvectors over root eigenvalues."""
    values, vectors = np.linalg.eigh(gram)
    floor = 1e-9 * max(float(values[-1]), 1e-300)
    return np.asarray(
        vectors[:, ::-1][:, :number] / np.sqrt(np.maximum(values[::-1][:number], floor))
    )


def _components(deviations: Deviations, turn: Array) -> tuple[Array, Array]:
    """Orthonormal components of all vertices, and the visits' scores on them."""
    measurements, number = deviations.measurements, turn.shape[1]
    if not number:
        nothing = np.zeros((measurements.n_vertices, 0), dtype=measurements.dtype)
        return nothing, np.zeros((len(turn), 0))
    (found,), (sums, *seen) = deviations.run(_FindComponents(turn.astype(measurements.dtype)))
    components = np.ascontiguousarray(found.T)
    # Found on a sample, they are nearly orthonormal; the nearest ones that are: C (C'C)^-1/2.
    values, vectors = np.linalg.eigh((components.T @ components).astype(float))
    root = (vectors / np.sqrt(np.maximum(values, 1e-9 * values[-1]))) @ vectors.T
    scores = solve_scores(sums @ root, *(root @ each @ root for each in seen))
    return components @ root.astype(components.dtype), scores


@dataclass(frozen=True)
class _FindComponents:
    """Components as combinations of visits, and products of the deviations with them.

    Parameters
    ----------
    turn : (n_visits, n_components)
        The combinations.
    """

    turn: Array

    def __call__(
        self, block: Block, residuals: Array, means: Array, loadings: Array, *own: Any
    ) -> Found:
        """Return components (n_components, n), and sums for `solve_scores`."""
        parts = residuals.T @ self.turn
        return (parts.T,), (residuals @ parts, *overlap(block, parts))


@dataclass(frozen=True)
class _SumProducts:
    """Moments of the deviations of every vertex.

    Parameters
    ----------
    timeline : Timeline
        Whose visits they are.
    times : (n_visits,)
        From each person's first visit.
    """

    timeline: Timeline
    times: Array

    def __call__(
        self, block: Block, residuals: Array, means: Array, loadings: Array, *own: Any
    ) -> Found:
        """Return products (3, n) and squares (n,) of `Moments`."""
        moments = Moments.of(self.timeline, self.times, residuals)
        return (moments.products, moments.squares), ()
