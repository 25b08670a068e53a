"""How far to shrink the course of the disease: by what it was worth for people left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import lsq_linear

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.timeline import Timeline
from braindive.prediction.course import Course
from braindive.prediction.deviations import Sample
from braindive.prediction.personal import PersonalModel
from braindive.prediction.site_noise import SiteNoise

# A part of the course is believed where people left out are predicted better by more than so many
# standard errors of the gain: a choice, the usual rule of one standard error.
_CLEARLY = 1.0
# Folds into which people are dealt, whose last visits are predicted by what the others teach: of
# few people more, so that those who teach are nearly all. Choices.
_FOLDS = (10, 5)
_FEW = 150
# Nothing of the course, the level that goes with a stage, or all of it, with weights.
_SUBSETS: tuple[tuple[int, ...], ...] = ((), (0,), (0, 1, 2))


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


class Innovations(NamedTuple):
    """What last visits bring that deviations in the history did not make expect.

    `parts` (4, n): of the values, and of the three columns of the course, where values were
    observed. `unknown` and `noise` (n,): expected squares of the first, were the course right.
    `new` (n,): the values less their vertex's mean. `vertex`, `person` and `case` (n,): of which
    vertex and person, and which of the whole visits predicted. `within` and `past` (n,): mean
    square of the history around its mean over what noise makes expect, and that mean; `n_visits`
    (n,) of the history.
    """

    parts: Array
    unknown: Array
    noise: Array
    new: Array
    vertex: IntArray
    person: IntArray
    case: IntArray
    within: Array
    past: Array
    n_visits: IntArray

    @classmethod
    def joined(cls, found: list[Innovations]) -> Innovations:
        """One after the other; cases are counted on."""
        cases = np.cumsum([0] + [int(one.case.max(initial=-1)) + 1 for one in found])
        moved = [one._replace(case=one.case + cases[i]) for i, one in enumerate(found)]
        return cls(*(np.concatenate(each, axis=-1) for each in zip(*moved, strict=True)))


def innovations(
    model: PersonalModel,
    timeline: Timeline,
    foresight: Foresight,
    rows: IntArray,
    sample: Sample,
    loadings: Array,
    scores: Array | None = None,
    sites: SiteNoise | None = None,
) -> Innovations:
    """Predict last visits from earlier ones.

    Parameters
    ----------
    model : PersonalModel
        With the components and the kernel of the vertices of the sample.
    timeline : Timeline
        Whose visits they are.
    foresight : Foresight
        What to predict from.
    rows : (n_group, n_visits)
        Visits of subjects who were seen equally often.
    sample : Sample
        Some vertices.
    loadings : (n_sample, K + 1)
        Their responsibilities and rates.
    scores : (n_visits, n_components), optional
        Component scores of the values.
    sites : SiteNoise, optional
        Of all visits at the vertices of the sample; they have usual noise without.
    """
    course, last = foresight.course, rows[:, -1]
    people = timeline.subject_of_visit[last]
    n_known = int(foresight.n_known[people[0]])
    past = rows[:, :n_known]
    columns, parts = course.columns(model.centres), model.components
    known, final = columns[:, past], columns[:, last]
    rest = np.concatenate([sample.values[None, past], known @ loadings.T])
    new = np.concatenate([sample.values[None, last], final @ loadings.T])
    scales = None if sites is None else sites.of_visits()[past]
    times, seen = (course.since[past], course.since[last], scales), sample.observed[past]
    kernel, wide = model.vertex_kernel, model.component_kernel
    noise = kernel.noise
    shared = unknown_shared = None
    if scores is not None and parts.shape[1]:
        on_components = loadings.T @ parts
        series = np.concatenate([scores[None, past], known @ on_components])
        rest = rest - series @ parts.T
        shared, unknown_shared = wide.expect(wide.conditional(*times), series)
        noise = noise + wide.noise @ (parts**2).T
    expected, unknown = kernel.expect(kernel.conditional(*times), rest * seen, seen)
    if shared is not None and unknown_shared is not None:
        expected = expected + shared @ parts.T
        unknown = unknown + unknown_shared @ (parts**2).T
    counts = np.maximum(seen.sum(axis=1), 1)
    mean = (sample.values[past] * seen).sum(axis=1) / counts
    within = (((sample.values[past] - mean[:, None]) * seen) ** 2).sum(axis=1)
    within = within / np.maximum(counts - 1, 1) / noise
    if sites is not None and scales is not None:
        within = within / np.mean(scales**2, axis=1)[:, None]
        noise = noise * sites.variances(last)
    kept = sample.observed[last]
    group, vertex = np.nonzero(kept)
    return Innovations(
        (new - expected)[:, kept],
        unknown[kept],
        np.broadcast_to(noise, kept.shape)[kept],
        sample.values[last][kept],
        vertex,
        people[group],
        group,
        within[kept],
        mean[kept],
        np.full(len(group), n_known),
    )


@dataclass(frozen=True)
class CourseProducts:
    """Products of the innovations, by person: all that weights of the course depend on.

    Parameters
    ----------
    grams : (n_people, 4, 4)
        Sums of products of the values' innovations and those of the course's columns.
    counts : (n_people,)
        How many each person has.
    """

    grams: Array
    counts: Array

    @classmethod
    def of(cls, found: Innovations, n_people: int) -> CourseProducts:
        """Sum over visits and vertices."""
        grams = np.zeros((n_people, 4, 4))
        for a in range(4):
            for b in range(a, 4):
                products = found.parts[a] * found.parts[b]
                sums = np.bincount(found.person, products, minlength=n_people)
                grams[:, a, b] = grams[:, b, a] = sums
        return cls(grams, np.bincount(found.person, minlength=n_people))

    def weights(self, people: BoolArray, columns: tuple[int, ...]) -> Array:
        """Shrinkage of some of the columns that leaves these people the least squared error."""
        found = np.zeros(3)
        if columns:
            total, which = self.grams[people].sum(axis=0), np.array(columns)
            found[which] = learn_shrinkage(total[np.ix_(which + 1, which + 1)], total[which + 1, 0])
        return found

    def errors(self, weights: Array) -> Array:
        """Mean squared error of each person with such weights, (n_people,)."""
        turn = np.concatenate([[1.0], -weights])
        squares = np.einsum("a,iab,b->i", turn, self.grams, turn)
        return np.asarray(squares / np.maximum(self.counts, 1))

    def left_out(self, columns: tuple[int, ...]) -> Array:
        """Mean squared error of each person with weights that others have learnt."""
        folds = deal(len(self.counts))
        found = np.zeros(len(folds))
        for fold in range(folds.max() + 1):
            inside = folds == fold
            found[inside] = self.errors(self.weights(~inside, columns))[inside]
        return found[self.counts > 0]


def deal(n_people: int) -> IntArray:
    """Fold of each person."""
    return np.arange(n_people) % _FOLDS[0 if n_people <= _FEW else 1]


def choose_columns(products: CourseProducts) -> tuple[tuple[int, ...], Array]:
    """Which parts of the course to believe, and the errors of people left out with these.

    The fewest columns whose error is not clearly larger than that of the best choice.
    """
    errors = {some: products.left_out(some) for some in _SUBSETS}
    best = min(_SUBSETS, key=lambda some: float(np.mean(errors[some])))
    for some in _SUBSETS:
        if not is_clear(errors[some] - errors[best]):
            return some, errors[some]
    return best, errors[best]


def is_clear(gain: Array) -> bool:
    """Whether people, one number each, gain by more than chance would have it."""
    return bool(np.mean(gain) > _CLEARLY * np.std(gain) / np.sqrt(max(len(gain), 1)))


def learn_shrinkage(gram: Array, right: Array) -> Array:
    """Shrinkage factors in [0, 1] that leave the least squared error.

    Parameters
    ----------
    gram : (n, n)
        Products of the regressors' innovations with each other ...
    right : (n,)
        ... and with those of the values.
    """
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-12))
    root = np.linalg.cholesky(gram / scale[:, None] / scale + 1e-8 * np.eye(len(gram))).T
    found = lsq_linear(root, np.linalg.solve(root.T, right / scale), (0.0, scale))
    return np.asarray(found.x / scale)
