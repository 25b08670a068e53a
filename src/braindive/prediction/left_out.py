"""Choose how to predict by people left out: the course, the components and the person's own slope.

People are dealt into folds. Components, kernels and rates are learnt without a fold, and the last
visits of its people are predicted. Whatever is chosen or weighed here, and how large errors are,
is known from people who had no part in learning it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.timeline import Timeline
from braindive.prediction.components import PartModel, learn_part, part_scores
from braindive.prediction.deviations import Sample
from braindive.prediction.noise import Errors, PersonalNoise, learn_noise
from braindive.prediction.personal import PersonalModel, alike
from braindive.prediction.shrinkage import (
    CourseProducts,
    Foresight,
    Innovations,
    choose_columns,
    deal,
    innovations,
    is_clear,
)
from braindive.prediction.site_noise import SiteNoise

# Numbers of components that are compared, and people needed for each.
_NUMBERS = (0, 1, 2, 3, 5, 8, 12, 18)
_PEOPLE_PER_COMPONENT = 4
# Fewest people who came back for anything to be chosen.
LEAST_JUDGES = 3


@dataclass(frozen=True)
class Choice:
    """What people left out say.

    Parameters
    ----------
    shrinkage : (3,)
        Of the three columns of the course; 0 where one adds nothing.
    number : int
        Of components.
    moving : bool
        Whether people have slopes and drifts of their own.
    noise : PersonalNoise
        How noise depends on level and person.
    inflation : float
        Of all variances.
    """

    shrinkage: Array
    number: int
    moving: bool
    noise: PersonalNoise
    inflation: float


@dataclass(frozen=True)
class Judges:
    """People whose last visits are predicted, and the part of the vertices at which.

    Parameters
    ----------
    timeline : Timeline
        Of the people.
    foresights : list of Foresight
        What last visits are predicted from; the first is from all but the last.
    sample : Sample
        Values of the people at some vertices.
    responsibilities : (n_sample, n_clusters)
        Of these vertices.
    means : (n_sample,)
        Of these vertices.
    model : PersonalModel
        Whose centres are those of the course.
    sites : SiteNoise or None
        Of the people's visits at these vertices; None where all have usual noise.
    """

    timeline: Timeline
    foresights: list[Foresight]
    sample: Sample
    responsibilities: Array
    means: Array
    model: PersonalModel
    sites: SiteNoise | None = None

    def choose(self) -> Choice:
        """Choose everything."""
        start = np.array([1.0, 1.0, 0.0])
        if np.sum(self.timeline.n_visits_of_subject > 1) < LEAST_JUDGES:
            return Choice(start, self._most(), True, PersonalNoise.constant(), 1.0)
        # Weights as they would be without components, from which deviations are then taken.
        shrinkage = self._weighed(self._predicted([0], True, start)[0])[0]
        numbers = [number for number in _NUMBERS if number <= self._most()]
        tried = [self._weighed(one) for one in self._predicted(numbers, True, shrinkage)]
        best = _middle([errors for _, errors in tried])
        number, moving = numbers[best], True
        still = self._weighed(self._predicted([number], False, shrinkage)[0])
        found = tried[best]
        if not is_clear(still[1] - found[1]):
            found, moving = still, False
        # Once more: deviations are from the course as it is believed now.
        last = self._predicted([number], moving, found[0])[0]
        shrinkage = self._weighed(last)[0]
        noise, inflation = learn_noise(self._errors(last, shrinkage))
        return Choice(shrinkage, number, moving, noise, inflation)

    def _weighed(self, found: Innovations) -> tuple[Array, Array]:
        """Weights of the course, and the mean squared errors of people left out with these."""
        products = CourseProducts.of(found, self.timeline.n_subjects)
        columns, errors = choose_columns(products)
        everybody = np.ones(len(products.counts), dtype=bool)
        return products.weights(everybody, columns), errors

    def _most(self) -> int:
        """Most components that so many people can tell."""
        folds = deal(self.timeline.n_subjects)
        n_train = int(np.sum(folds != 0))
        return min(n_train // 2 // _PEOPLE_PER_COMPONENT, _NUMBERS[-1], len(self.means))

    def _errors(self, found: Innovations, shrinkage: Array) -> Errors:
        left = found.parts[0] - shrinkage @ found.parts[1:]
        means = self.means[found.vertex]
        return Errors(
            left**2,
            means + found.new - left,
            found.unknown,
            found.noise,
            found.person,
            found.case,
            found.within,
            means + found.past,
            found.n_visits,
        )

    def _predicted(self, numbers: list[int], moving: bool, shrinkage: Array) -> list[Innovations]:
        """Last visits of everybody, predicted by what others taught, with several numbers."""
        timeline = self.timeline
        people, folds = np.arange(timeline.n_subjects), deal(timeline.n_subjects)
        came_back = timeline.n_visits_of_subject > 1
        found: list[list[Innovations]] = [[] for _ in numbers]
        # The shapes of kernels are a few numbers that hardly hang on anybody: everybody's.
        shapes, _ = self._learnt(people, numbers, moving, shrinkage, None)
        for fold in range(folds.max() + 1):
            inside = folds == fold
            judged = np.flatnonzero(inside & came_back)
            if not len(judged) or np.sum(~inside & came_back) < 2:
                continue
            others = np.flatnonzero(~inside)
            parts, loadings = self._learnt(others, numbers, moving, shrinkage, shapes)
            for one, part in zip(found, parts, strict=True):
                one += self._judge(part, judged, loadings)
        return [Innovations.joined(one) for one in found]

    def _learnt(
        self,
        people: IntArray,
        numbers: list[int],
        moving: bool,
        shrinkage: Array,
        shapes: list[PartModel] | None,
    ) -> tuple[list[PartModel], Array]:
        """Components and kernels that some people teach, and the loadings of the vertices."""
        own, visits = self.timeline.select(people)
        course, sample = self.foresights[0].course.select(visits), self.sample
        loadings = np.column_stack([self.responsibilities, self._rates(own, visits)])
        fixed = replace(self.model, shrinkage=shrinkage).fixed(course) @ loadings.T
        observed = sample.observed[visits]
        deviations = (sample.values[visits] - fixed) * observed
        times = course.since
        return learn_part(deviations, observed, own, times, numbers, moving, shapes), loadings

    def _judge(self, part: PartModel, judged: IntArray, loadings: Array) -> list[Innovations]:
        """Predictions of people's last visits."""
        model = replace(
            self.model,
            components=part.components,
            vertex_kernel=part.vertex_kernel,
            component_kernel=part.component_kernel,
        )
        sample = self.sample
        scores = part_scores(sample.values, sample.observed, part.components)
        return [
            innovations(model, self.timeline, foresight, rows, sample, loadings, scores, self.sites)
            for foresight in self.foresights
            for _, rows in alike(self.timeline, judged)
        ]

    def _rates(self, timeline: Timeline, visits: IntArray) -> Array:
        """Mean rate of change of the vertices among some of the people."""
        times, observed = timeline.times[:, None], self.sample.observed[visits]
        power = np.sum(observed * times**2, axis=0)
        changes = np.sum(times * self.sample.values[visits] * observed, axis=0)
        return np.asarray(changes / np.maximum(power, 1e-12))


def _middle(errors: list[Array]) -> int:
    """The middle of the valley from the first that is not clearly worse than the best, to it."""
    best = int(np.argmin([np.mean(one) for one in errors]))
    first = next(i for i in range(best + 1) if not is_clear(errors[i] - errors[best]))
    return (first + best + 1) // 2
