"""Rivals of prediction that know nothing of a disease: means, shrunken means and mixed models.

Each is learnt on a training cohort, and predicts later visits of other people from their earlier
ones: expected values and the standard deviation of a measurement around them. They are written
for these comparisons, by other means than the package, and for cohorts without holes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

import braindive as bd

# Share of the variance that principal components have to explain, and the most of them.
EXPLAINED = 0.99
MOST_COMPONENTS = 40


@dataclass
class People:
    """Visits by person: values (n_visits, n_series) and times since the first visit."""

    values: list[np.ndarray]
    times: list[np.ndarray]

    @classmethod
    def of(cls, cohort: bd.Cohort, subjects: np.ndarray | None = None) -> People:
        """Of a cohort, in the order of `subjects`."""
        values, times = [], []
        for subject in cohort.subject_ids if subjects is None else subjects:
            rows = np.flatnonzero(cohort.subjects == subject)
            rows = rows[np.argsort(cohort.times[rows], kind="stable")]
            values.append(cohort.values[rows])
            times.append(cohort.times[rows] - cohort.times[rows].min())
        return cls(values, times)

    def seen_as(self, components: np.ndarray, mean: np.ndarray) -> People:
        """Scores on components."""
        return People([(own - mean) @ components for own in self.values], self.times)


class MeanOfEarlier:
    """The mean of the person's earlier visits; its error is that in the training cohort."""

    def fit(self, people: People) -> MeanOfEarlier:
        """Learn how far last visits are from the mean of the earlier ones."""
        away = [own[-1] - own[:-1].mean(axis=0) for own in people.values if len(own) > 1]
        self.spread = np.sqrt(np.mean(np.square(away), axis=0))
        return self

    def predict(self, history: People, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One visit of each person at `times` since the first."""
        expected = np.array([own.mean(axis=0) for own in history.values])
        return expected, np.broadcast_to(self.spread, expected.shape)


class ShrunkenIntercept:
    """At each location the person's mean, drawn to that of all people by as much as it varies."""

    def fit(self, people: People) -> ShrunkenIntercept:
        """Variance within and between people, by moments."""
        counts = np.array([len(own) for own in people.values])
        means = np.array([own.mean(axis=0) for own in people.values])
        within = sum(np.sum((own - own.mean(axis=0)) ** 2, axis=0) for own in people.values)
        self.noise = within / max(int(np.sum(counts - 1)), 1)
        self.mean = means.mean(axis=0)
        usual = np.mean(1 / counts)
        self.between = np.maximum(means.var(axis=0, ddof=1) - self.noise * usual, 1e-12)
        return self

    def predict(self, history: People, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One visit of each person at `times` since the first."""
        expected, spread = [], []
        for own in history.values:
            known = self.noise / len(own)
            share = self.between / (self.between + known)
            expected.append(self.mean + share * (own.mean(axis=0) - self.mean))
            spread.append(np.sqrt(self.noise + share * known))
        return np.array(expected), np.array(spread)


class MixedModel:
    """Intercepts and slopes, common and personal, of each series by restricted likelihood."""

    def fit(self, people: People) -> MixedModel:
        """Fit each series by itself."""
        self.unit = float(np.sqrt(np.mean(np.concatenate(people.times) ** 2))) or 1.0
        designs = [_design(times / self.unit) for times in people.times]
        grams = np.array([design.T @ design for design in designs])
        crossed = np.array([d.T @ own for d, own in zip(designs, people.values, strict=True)])
        squares = sum(np.sum(own**2, axis=0) for own in people.values)
        n_visits = sum(len(own) for own in people.values)
        found = [
            _fit_series(grams, crossed[:, :, c], squares[c], n_visits)
            for c in range(crossed.shape[2])
        ]
        self.fixed, self.random, self.noise = (np.array(each) for each in zip(*found, strict=True))
        return self

    def predict(self, history: People, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One visit of each person at `times` since the first."""
        expected, spread = [], []
        for own, known, time in zip(history.values, history.times, times, strict=True):
            design, new = _design(known / self.unit), _design(np.array([time / self.unit]))[0]
            inverse = np.linalg.inv(
                np.eye(2) + self.random @ (design.T @ design) / self.noise[:, None, None]
            )
            left = design.T @ (own - design @ self.fixed.T) / self.noise
            posterior = inverse @ self.random
            personal = np.einsum("cab,bc->ca", posterior, left)
            expected.append((self.fixed + personal) @ new)
            spread.append(np.sqrt(self.noise + np.einsum("a,cab,b->c", new, posterior, new)))
        return np.array(expected), np.array(spread)


class MixedModelOfComponents:
    """The mixed model of principal components of all training visits; the rest at its mean."""

    def fit(self, people: People) -> MixedModelOfComponents:
        """Components that explain nearly everything, and a mixed model of each."""
        values = np.concatenate(people.values)
        self.mean = values.mean(axis=0)
        _, sizes, rows = np.linalg.svd(values - self.mean, full_matrices=False)
        explained = np.cumsum(sizes**2) / np.sum(sizes**2)
        number = min(int(np.searchsorted(explained, EXPLAINED)) + 1, MOST_COMPONENTS)
        self.components = rows[:number].T
        scores = people.seen_as(self.components, self.mean)
        rest = values - self.mean - (values - self.mean) @ self.components @ self.components.T
        self.rest = rest.var(axis=0)
        self.model = MixedModel().fit(scores)
        return self

    def predict(self, history: People, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One visit of each person at `times` since the first."""
        scores, spread = self.model.predict(history.seen_as(self.components, self.mean), times)
        expected = self.mean + scores @ self.components.T
        return expected, np.sqrt(spread**2 @ self.components.T**2 + self.rest)


RIVALS = {
    "mean of earlier": MeanOfEarlier,
    "shrunken intercept": ShrunkenIntercept,
    "mixed model": MixedModel,
    "mixed, components": MixedModelOfComponents,
}


def predict_by_rivals(
    train: bd.Cohort, history: bd.Cohort, late: bd.Cohort
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Expected values and their spread by each rival, for every visit of `late`."""
    people, known = People.of(train), People.of(history, late.subjects)
    first = {subject: history.times[history.subjects == subject].min() for subject in late.subjects}
    times = late.times - np.array([first[subject] for subject in late.subjects])
    return {name: rival().fit(people).predict(known, times) for name, rival in RIVALS.items()}


def _design(times: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones_like(times), times])


def _fit_series(
    grams: np.ndarray, crossed: np.ndarray, squares: float, n_visits: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Fixed effects, covariance of the random ones, and noise of one series, profiled."""

    def solve(packed: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, float]:
        root = np.array([[np.exp(packed[0]), 0.0], [packed[1], np.exp(packed[2])]])
        random = root @ root.T
        # V^-1 = I - Z (R^-1 + Z'Z)^-1 Z' of each person, seen through Z: everything is 2 x 2.
        inner = np.linalg.inv(np.eye(2) + random @ grams) @ random
        seen = grams - grams @ inner @ grams
        told = crossed - np.einsum("iab,ibc,ic->ia", grams, inner, crossed)
        total = seen.sum(axis=0)
        fixed = np.linalg.solve(total, told.sum(axis=0))
        left = squares - np.einsum("ia,iab,ib->", crossed, inner, crossed)
        noise = max(float(left - fixed @ told.sum(axis=0)), 1e-12) / (n_visits - 2)
        spread = np.sum(np.linalg.slogdet(np.eye(2) + random @ grams)[1])
        value = (n_visits - 2) * np.log(noise) + spread + np.linalg.slogdet(total)[1]
        return 0.5 * float(value), fixed, random, noise

    bounds = [(-7.0, 5.0), (-20.0, 20.0), (-7.0, 5.0)]
    start = np.array([0.0, 0.0, -2.0])
    found = minimize(lambda packed: solve(packed)[0], start, method="L-BFGS-B", bounds=bounds)
    _, fixed, random, noise = solve(found.x)
    return fixed, random * noise, noise
