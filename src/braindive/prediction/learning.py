"""Learn on the training cohort how to predict: by predicting everybody's last visit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.timeline import Timeline, evenly
from braindive.prediction.components import NOTHING, find_components, inverse_root
from braindive.prediction.course import foresee, histories
from braindive.prediction.deviations import Deviations, Sample, overlap, solve_scores
from braindive.prediction.kernel import Kernel
from braindive.prediction.left_out import Judges
from braindive.prediction.likelihood import Turn, find_shape, kernel_of, tame, visit_factors
from braindive.prediction.personal import PersonalModel
from braindive.prediction.shrinkage import Foresight
from braindive.prediction.site_noise import SiteNoise
from braindive.staging.marginal_stager import Training
from braindive.staging.stagers import Stager
from braindive.values.blocks import Block, Found, Step
from braindive.values.protocol import Products

# People whose last visits are predicted to choose how: weights of the course and the like are few
# numbers. Means, components and kernels are everybody's.
_JUDGES = 300
# Values in the sample of vertices from which components are told apart, and in the part of it
# by which choices are made; and the fewest and most vertices in the latter. Choices that bound
# memory and cost.
_SAMPLE = 2**22
_PART = 2**17
_VERTICES = (100, 2000)
# Series of the rest from which the shape of its kernel is found.
_SERIES = 200


def learn_personal(
    measurements: Products,
    responsibilities: Array,
    stager: Stager,
    training: Training,
    sites: SiteNoise | None = None,
) -> PersonalModel:
    """Learn everything that prediction needs, in three reads of the values.

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
    sites : SiteNoise, optional
        How noisy these visits are; all have usual noise without.
    """
    timeline = training.timeline
    course = foresee(stager, training, histories(timeline.n_visits_of_subject)[0])
    rates, sample = _sample_vertices(measurements, timeline)
    centres = course.columns(np.zeros((3, 1, 1))).mean(axis=1, keepdims=True)
    model = PersonalModel(
        measurements.means,
        rates,
        centres,
        np.array([1.0, 1.0, 0.0]),
        np.zeros((measurements.n_vertices, 0)),
        NOTHING,
        NOTHING,
        1.0,
    )
    choice = _judges(model, stager, training, sample, responsibilities, sites).choose()
    model = replace(
        model, shrinkage=choice.shrinkage, inflation=choice.inflation, varying=choice.noise
    )
    loadings = np.column_stack([responsibilities, rates])
    own = loadings[sample.vertices]
    fixed = model.fixed(course)
    deviations = ((sample.values - fixed @ own.T) * sample.observed).astype(sample.values.dtype)
    # Lengths as if all vertices were in the sample.
    deviations *= deviations.dtype.type(np.sqrt(len(loadings) / len(sample.vertices)))
    holes = None if sample.observed.all() else sample.observed
    factors = visit_factors(deviations, holes)
    tamed = deviations * factors[:, None].astype(deviations.dtype)
    turn, kernel = find_components(
        tamed, holes, timeline, course.since, choice.number, choice.moving
    )
    turn = turn * factors[:, None]
    everything = Deviations(measurements, model.means, fixed, loadings)
    components, scores = _components(everything, turn)
    model = replace(model, components=components, component_kernel=kernel)
    rest = everything.beyond(scores, components)
    return replace(
        model,
        vertex_kernel=_vertex_kernel(
            rest, sample, own, fixed, scores, factors, timeline, course.since, choice.moving
        ),
    )


def _judges(
    model: PersonalModel,
    stager: Stager,
    training: Training,
    sample: Sample,
    responsibilities: Array,
    sites: SiteNoise | None,
) -> Judges:
    """People by whom choices are made, and vertices at which."""
    timeline = training.timeline
    subjects = _judging_subjects(timeline)
    own, visits = timeline.select(subjects)
    some = training.select(subjects)
    foresights = [
        Foresight(n_known, foresee(stager, some, n_known))
        for n_known in histories(own.n_visits_of_subject)
    ]
    part = sample.thinned(int(np.clip(_PART // len(visits), *_VERTICES)))
    part = Sample(part.vertices, part.values[visits], part.observed[visits])
    return Judges(
        own,
        foresights,
        part,
        responsibilities[part.vertices],
        model.means[part.vertices],
        model,
        None if sites is None else sites.select(visits).at(part.vertices),
    )


def _judging_subjects(timeline: Timeline) -> IntArray:
    """Enough people, evenly spread; those who came back before those seen once."""
    came_back = timeline.n_visits_of_subject > 1
    chosen = evenly(np.flatnonzero(came_back), _JUDGES)
    others = evenly(np.flatnonzero(~came_back), _JUDGES - len(chosen))
    return np.sort(np.concatenate([chosen, others]))


@dataclass(frozen=True)
class _Look(Step):
    """Change along the internal times of every vertex, and the values of some vertices.

    Parameters
    ----------
    times : (n_visits,)
        Internal times.
    """

    times: Array
    needs_summary: ClassVar[bool] = True
    chooses_vertices: ClassVar[bool] = True

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return changes (n,), and the chosen vertices' values less their means (n_visits, m)."""
        (chosen,) = own
        vertices, unit = np.flatnonzero(chosen), block.unit
        offset = block.values.dtype.type(unit.offset)
        standard = (block.values[:, vertices] - offset) / unit.scale
        values = (standard - block.means[vertices]).astype(block.values.dtype)
        return (block.along(self.times[None])[0], values), ()


def _sample_vertices(measurements: Products, timeline: Timeline) -> tuple[Array, Sample]:
    """Mean rate of change of every vertex, and a sample of vertices."""
    n_vertices, n_visits = measurements.n_vertices, measurements.n_visits
    shares = measurements.counts / n_visits
    power = max(float(timeline.times @ timeline.times), 1e-12) * np.maximum(shares, 1e-12)
    chosen = np.zeros(n_vertices, dtype=bool)
    chosen[:: max(1, n_vertices // max(_SAMPLE // n_visits, 2 * _SERIES))] = True
    (changes, values), _ = measurements.run(_Look(timeline.times), chosen)
    observed = ~np.isnan(values)
    sample = Sample(np.flatnonzero(chosen), np.where(observed, values, 0), observed)
    return changes / power, sample


def _components(deviations: Deviations, turn: Array) -> tuple[Array, Array]:
    """Orthonormal components of all vertices, and the visits' scores on them."""
    measurements, number = deviations.measurements, turn.shape[1]
    if not number:
        nothing = np.zeros((measurements.n_vertices, 0), dtype=measurements.dtype)
        return nothing, np.zeros((len(turn), 0))
    (found,), (sums, *seen) = deviations.run(_FindComponents(turn.astype(measurements.dtype)))
    components = np.ascontiguousarray(found.T)
    # Found on a sample, they are nearly orthonormal; the nearest ones that are.
    root = inverse_root(components)
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


def _vertex_kernel(
    rest: Deviations,
    sample: Sample,
    loadings: Array,
    fixed: Array,
    scores: Array,
    factors: Array,
    timeline: Timeline,
    times: Array,
    moving: bool,
) -> Kernel:
    """Kernel of what components leave: shape from some vertices, variances of all of them."""
    if not timeline.has_follow_up:  # half of what is seen is taken to last
        (squares,), _ = rest.run(_Squares(factors))
        return Kernel(NOTHING.shape, 0.5 * squares + 1e-12, 0.5 * squares + 1e-12)
    every = slice(None, None, max(1, len(sample.vertices) // _SERIES))
    some = sample.vertices[every]
    left = sample.values[:, every] - fixed @ loadings[every].T
    left -= scores @ rest.loadings[some, loadings.shape[1] :].T
    seen = sample.observed[:, every]
    left = left * seen * factors[:, None]
    holes = None if seen.all() else seen
    shape, shares = find_shape(timeline, times, tame(left, holes), holes, moving)
    step = _Likelihood(Turn.of(shape, timeline, times), factors, shares)
    (persistent, noise), _ = rest.run(step)
    return Kernel(shape, persistent, noise)


@dataclass(frozen=True)
class _Squares:
    """Mean squares of the deviations of every vertex.

    Parameters
    ----------
    factors : (n_visits,)
        By what each visit is multiplied.
    """

    factors: Array

    def __call__(
        self, block: Block, residuals: Array, means: Array, loadings: Array, *own: Any
    ) -> Found:
        """Return them, (n,)."""
        weights = (self.factors**2).astype(residuals.dtype)
        return (np.asarray(weights @ residuals**2, dtype=float) / len(residuals),), ()


@dataclass(frozen=True)
class _Likelihood:
    """Variances of every vertex by restricted likelihood.

    Parameters
    ----------
    turn : Turn
        Of the visits.
    factors : (n_visits,)
        By what each visit is multiplied.
    shares : (n_ratios,)
        How ratios are distributed over vertices.
    """

    turn: Turn
    factors: Array
    shares: Array

    def __call__(
        self, block: Block, residuals: Array, means: Array, loadings: Array, *own: Any
    ) -> Found:
        """Return persistent variances and noise, (n,) each."""
        tamed = residuals * self.factors[:, None].astype(residuals.dtype)
        sums = self.turn.sums(tame(tamed, block.observed), block.observed, in_parts=True)
        kernel = kernel_of(self.turn.shape, sums, self.shares)
        return (kernel.persistent, kernel.noise), ()
