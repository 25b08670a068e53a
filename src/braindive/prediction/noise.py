"""Noise as it is: it depends on the level, on the person, and part of it is a whole visit's.

What the kernels call noise is an average over everybody. How much of it there is at a level, and
how far a person's own scatter tells its noise, is learnt from the errors of predictions of people
who were left out; where these do not need it, noise stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray

# Bins of the level, each with as many errors; stiffnesses of the smooth curve through them, as
# multiples of the usual weight of a bin; and how much a person's own visit may count. Choices.
_BINS = 20
_STIFFNESS = (1.0, 10.0, 100.0, 1e4)
_OWN = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# What is left out must gain by so many standard errors to be preferred to constant noise.
_CLEARLY = 1.0
# Squared half width of a normal interval of 95 %, in standard deviations.
_WIDTH = 1.959964**2


@dataclass(frozen=True)
class PersonalNoise:
    """Factors of the noise variance.

    Parameters
    ----------
    levels, logs : (n_knots,)
        Predicted values in standard units, and the log of the factor there; linear between, and
        constant beyond.
    own : float
        How much one more visit of a person's own counts against what is usual; 0 where all are
        alike.
    scatter : float
        Usual scatter of a person's visits over what noise makes expect.
    whole : float
        1 where what is not known of a person depends on the level as noise does, as it does where
        values have a floor or a ceiling; else 0.
    single : float
        By what variances are larger than usual after a history of one visit.
    """

    levels: Array
    logs: Array
    own: float = 0.0
    scatter: float = 1.0
    whole: float = 0.0
    single: float = 1.0

    @classmethod
    def constant(cls) -> PersonalNoise:
        """The same noise at all levels and for everybody."""
        return cls(np.zeros(1), np.zeros(1))

    @property
    def is_level(self) -> bool:
        """Whether noise is the same at all levels."""
        return not np.any(self.logs)

    @property
    def is_alike(self) -> bool:
        """Whether noise is the same for everybody."""
        return not self.own

    def at(self, levels: Array) -> Array:
        """Factor at predicted values, of their type."""
        if self.is_level:
            return np.ones_like(levels)
        found = np.interp(levels.ravel(), self.levels, self.logs).reshape(levels.shape)
        return np.exp(found, out=found).astype(levels.dtype, copy=False)

    def of_people(self, scatter: Array, n_visits: IntArray) -> Array:
        """Factor of each person from the scatter of its visits over what is usual.

        Parameters
        ----------
        scatter : (n_people,)
            Mean square around the person's mean over what is expected of it; any number where a
            person was seen once.
        n_visits : (n_people,) int
            Visits behind it.
        """
        freedom = np.maximum(n_visits - 1, 0)
        if self.is_alike:
            return np.ones(len(freedom))
        scatter = np.where(freedom > 0, scatter / self.scatter, 1.0)
        freedom = freedom * self.own
        return np.asarray((1 + freedom * scatter) / (1 + freedom))


@dataclass(frozen=True)
class Errors:
    """Errors of predictions of people who were left out.

    Parameters
    ----------
    squares : (n,)
        Squared errors.
    levels : (n,)
        Predicted values, in standard units.
    unknown, noise : (n,)
        Their expected squares: from what is not known of the person, and from noise.
    person, case : (n,) int
        Whose, and which of the predictions of whole visits.
    within, past : (n,)
        Mean square of the history around its mean over what noise makes expect, and that mean.
    n_visits : (n,) int
        Of the history.
    """

    squares: Array
    levels: Array
    unknown: Array
    noise: Array
    person: IntArray
    case: IntArray
    within: Array
    past: Array
    n_visits: IntArray

    def expected(self, noise: PersonalNoise) -> Array:
        """Expected squares with noise as it is."""
        factor = noise.at(self.levels)
        if not noise.is_alike:
            factor = factor * noise.of_people(self.scatter(noise)[self.case], self.n_visits)
        unknown = self.unknown * noise.at(self.levels) if noise.whole else self.unknown
        return np.asarray(unknown + factor * self.noise)

    def scatter(self, noise: PersonalNoise) -> Array:
        """Scatter of each history over what noise makes expect, (n_cases,)."""
        sums = np.bincount(self.case, self.within / noise.at(self.past))
        return np.asarray(sums / np.maximum(np.bincount(self.case), 1))

    def loss(self, noise: PersonalNoise) -> Array:
        """Of each person: how badly its squares are foretold, by the likelihood of variances."""
        expected = np.maximum(self.expected(noise), 1e-12)
        total = np.bincount(self.person, np.log(expected) + self.squares / expected)
        counts = np.bincount(self.person)
        return np.asarray(total[counts > 0] / counts[counts > 0])

    def select(self, which: BoolArray) -> Errors:
        """Return some of them."""
        return Errors(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


def learn_noise(errors: Errors, n_folds: int = 5) -> tuple[PersonalNoise, float]:
    """Learn how noise depends on level and person, and by what all variances are to be inflated.

    Each is taken where it foretells the errors of people better who had no part in learning it.
    """
    folds = [errors.person % n_folds == fold for fold in range(n_folds)]
    folds = [inside for inside in folds if inside.any() and not inside.all()]
    noise = PersonalNoise.constant()
    if folds:
        tests, others = (
            [errors.select(one) for one in folds],
            [errors.select(~one) for one in folds],
        )
        plain = np.concatenate([test.loss(noise) for test in tests])
        best, chosen = float(np.mean(plain)), None
        for kind in product(_STIFFNESS, (0.0, 1.0)):
            curves = [_by_level(other, *kind) for other in others]
            loss = np.concatenate(
                [test.loss(curve) for test, curve in zip(tests, curves, strict=True)]
            )
            if _is_clear(plain - loss) and float(np.mean(loss)) < best:
                best, chosen = float(np.mean(loss)), kind
        if chosen is not None:
            noise = _by_level(errors, *chosen)
    returned = np.unique(errors.case[errors.n_visits > 1])
    if len(returned):
        noise = replace(noise, scatter=float(np.mean(errors.scatter(noise)[returned])) or 1.0)
    start = errors.loss(noise)
    best, found = float(np.mean(start)), 0.0
    for own in _OWN:
        loss = errors.loss(replace(noise, own=own))
        if _is_clear(start - loss) and float(np.mean(loss)) < best:
            best, found = float(np.mean(loss)), own
    noise = replace(noise, own=found)
    expected = np.maximum(errors.expected(noise), 1e-12)
    once, often = _inflations(errors.squares / expected, errors.n_visits)
    return replace(noise, single=once / often), often


def _inflations(ratios: Array, n_visits: IntArray) -> tuple[float, float]:
    """Factors with which intervals of 95 % hold 95 %: after one visit, and after more."""
    once, often = (
        float(np.quantile(ratios[which] if which.any() else ratios, 0.95)) / _WIDTH
        for which in (n_visits == 1, n_visits > 1)
    )
    return max(once, 1e-6), max(often, 1e-6)


def _is_clear(gain: Array) -> bool:
    """Whether people gain, by more than chance would have it."""
    return bool(np.mean(gain) > _CLEARLY * np.std(gain) / np.sqrt(len(gain)))


def _by_level(errors: Errors, stiffness: float, whole: float) -> PersonalNoise:
    """Smooth curve through the factors of the bins of the level: weighted, second differences."""
    edges = np.quantile(errors.levels, np.linspace(0, 1, _BINS + 1)[1:-1])
    bins = np.searchsorted(edges, errors.levels)
    counts = np.bincount(bins, minlength=_BINS)
    kept = counts > 0

    def mean(values: Array) -> Array:
        return np.asarray(np.bincount(bins, values, minlength=_BINS)[kept] / counts[kept])

    squares, unknown, noise = mean(errors.squares), mean(errors.unknown), mean(errors.noise)
    levels = mean(errors.levels)
    # What is left of the squares beyond what is not known of people is noise; never nothing.
    if whole:
        factors = (squares + 1e-12) / np.maximum(noise + unknown, 1e-12)
    else:
        factors = np.maximum(squares - unknown, 0.05 * squares + 1e-12) / np.maximum(noise, 1e-12)
    logs, weights = np.log(factors), counts[kept] / np.mean(counts[kept])
    if len(levels) < 3:
        return PersonalNoise(levels, logs, whole=whole)
    bends = np.diff(np.eye(len(levels)), 2, axis=0)
    smooth = np.linalg.solve(np.diag(weights) + stiffness * bends.T @ bends, weights * logs)
    return PersonalNoise(levels, smooth, whole=whole)
