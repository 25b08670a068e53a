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
from braindive.prediction.noise import PersonalNoise
from braindive.prediction.site_noise import SiteNoise
from braindive.values.blocks import Block, Found
from braindive.values.protocol import Products


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
        By what variances are to be multiplied so that intervals hold people left out.
    varying : PersonalNoise, optional
        How noise depends on level and person; not at all, where it is not said.
    """

    means: Array
    rates: Array
    centres: Array
    shrinkage: Array
    components: Array
    vertex_kernel: Kernel
    component_kernel: Kernel
    inflation: float
    varying: PersonalNoise | None = None

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
        sites: tuple[SiteNoise, SiteNoise] | None = None,
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
        sites : (SiteNoise, SiteNoise), optional
            Of the history's visits, and of those to predict; all have usual noise without.
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
        factors = np.ones(timeline.n_subjects)
        scales = None if sites is None else sites[0].of_visits()
        if variances:
            factors = self._person_factors(deviations, timeline, scales)
        for wanted, rows in alike(timeline, future.subject_of_visit):
            seen = None if scales is None else scales[rows]
            times = past.since[rows], future.since[wanted], seen
            conditional = self.vertex_kernel.conditional(*times)
            shared, unknown = wide.expect(wide.conditional(*times), scores[rows])
            own = factors[future.subject_of_visit[wanted]]
            inflation = self.inflation * (self.factors.single if rows.shape[1] == 1 else 1.0)
            groups.append(
                Group(_as_slice(wanted), rows, conditional, shared, unknown, own, inflation)
            )
        step = Predict(
            groups,
            self.fixed(future),
            self.vertex_kernel.shape,
            wide.noise,
            self.factors,
            variances,
            None if sites is None else sites[1].sites,
        )
        kernel, more = self.vertex_kernel, () if sites is None else (sites[1].scales,)
        found, _ = deviations.beyond(scores, self.components).run(
            step, self.components, kernel.persistent, kernel.noise, *more
        )
        return found[0], found[1] if variances else None

    @property
    def factors(self) -> PersonalNoise:
        """How noise depends on level and person."""
        return PersonalNoise.constant() if self.varying is None else self.varying

    def noise(self) -> Array:
        """Noise variance of one measurement of every vertex, (n_vertices,): usually."""
        shared = (self.components**2) @ self.component_kernel.noise
        return np.asarray(self.vertex_kernel.noise + shared)

    def _person_factors(
        self, deviations: Deviations, timeline: Timeline, scales: Array | None
    ) -> Array:
        """By what each person's noise is larger than usual there, as far as its history tells."""
        counts = timeline.n_visits_of_subject
        if self.factors.is_alike or counts.max() < 2:
            return np.ones(timeline.n_subjects)
        step = Scatter(timeline, deviations.course, self.factors)
        _, (sums, seen) = deviations.run(step, self.noise())
        scatter = sums / np.maximum(seen, 1.0)
        if scales is not None:
            scatter = scatter / (timeline.by_subject(scales**2) / counts)
        return self.factors.of_people(scatter, counts)


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
    unknown : (n_group, n_components)
        Their variances without noise.
    factors : (n_group,)
        Of the persons' noise.
    inflation : float
        Of all variances.
    """

    wanted: IntArray | slice
    rows: IntArray
    conditional: Conditional
    shared: Array
    unknown: Array
    factors: Array
    inflation: float


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
    shared_noise : (n_components,)
        Noise of the components.
    varying : PersonalNoise
        How noise depends on the level.
    with_variances : bool
        Whether to find variances too.
    sites : (n_visits,) int or None
        Of the visits to predict; None where all have usual noise.
    """

    groups: list[Group]
    course: Array
    shape: Array
    shared_noise: Array
    varying: PersonalNoise
    with_variances: bool
    sites: IntArray | None = None

    def __call__(
        self, block: Block, residuals: Array, means: Array, loadings: Array, *own: Any
    ) -> Found:
        """Return expected values and variances, each (n_visits, n), in the unit of the values."""
        parts, persistent, noise, *scales = own
        kernel, unit, dtype = Kernel(self.shape, persistent, noise), block.unit, residuals.dtype
        levels = unit.offset + unit.scale * means
        weights = np.column_stack([levels, unit.scale * loadings]).astype(dtype).T
        n_visits = len(self.course)
        expected = block.buffer("expected", n_visits)
        variances = block.buffer("variances", n_visits) if self.with_variances else None
        usual = noise + (parts**2) @ self.shared_noise
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
            if variances is not None:
                levels = (person - dtype.type(unit.offset)) / dtype.type(unit.scale)
                left += group.unknown @ (parts**2).T
                factor = self.varying.at(levels)
                if self.varying.whole:
                    left *= factor
                if self.sites is not None:
                    at_sites = SiteNoise(scales[0], self.sites)
                    factor = factor * at_sites.variances(wanted).astype(dtype)
                left += usual * factor * group.factors[:, None]
                left *= group.inflation * unit.scale**2
                variances[wanted] = left
        return (expected,) if variances is None else (expected, variances), ()


@dataclass(frozen=True)
class Scatter:
    """Scatter of people's visits around their means over what noise makes expect.

    Parameters
    ----------
    timeline : Timeline
        Of the visits.
    course : (n_visits, n)
        What was taken out of the values, besides the means.
    varying : PersonalNoise
        How noise depends on the level.
    """

    timeline: Timeline
    course: Array
    varying: PersonalNoise

    def __call__(
        self, block: Block, residuals: Array, means: Array, loadings: Array, *own: Any
    ) -> Found:
        """Return sums over vertices and the number of these, (n_subjects,) each."""
        (noise,), timeline = own, self.timeline
        values = residuals + (self.course @ loadings.T).astype(residuals.dtype)
        if block.observed is None:
            counts = timeline.n_visits_of_subject[:, None].astype(float)
        else:
            values = values * block.observed
            counts = timeline.by_subject(block.observed.astype(float))
        mean = timeline.by_subject(values) / np.maximum(counts, 1.0)
        # The sum of squares around the mean.
        squares = timeline.by_subject(values**2) - counts * mean**2
        usual = noise * self.varying.at(means + mean)
        within = np.maximum(squares, 0.0) / np.maximum(counts - 1, 1.0) / usual
        seen = np.broadcast_to(counts > 1, within.shape)
        return (), (np.sum(within * seen, axis=1), seen.sum(axis=1).astype(float))


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
