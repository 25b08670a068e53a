"""Kernels by restricted likelihood, of all people and any number of series in bounded memory.

With the shape of a kernel given, one turn of each person's visits makes the deviations of a series
independent, with variances n (rho lambda + 1). The restricted likelihood of every series at all
ratios rho of a grid then is a product of one small matrix with their squares, so that no search
is needed at any vertex. What the series have in common is the distribution of rho over them, which
is learnt from the series themselves: empirical Bayes (Laird 1978, JASA 73, 805-811).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.timeline import Timeline
from braindive.prediction.kernel import Kernel

# Ratios of persistent variance to noise that are compared: from nothing to a thousand times, in
# steps over which no likelihood changes much.
RATIOS = np.concatenate([[0.0], np.geomspace(3e-3, 1e3, 43)])
# Slope and drift that are compared, as shares of the level at a usual time since the first visit.
_SHARES = np.array([0.0, 0.03, 0.1, 0.3, 1.0, 3.0])
# Deviations count as at most so many standard deviations of their series, and a visit as at most
# so many times the usual variance: a bad scan must not own the estimate. Choices.
_LARGEST = 4.5
_WORST = 4.0
# Share of the weights of all ratios that may be left out where few rows stand for them: less than
# single precision tells.
_TOLD = 1e-9


@dataclass(frozen=True)
class Turn:
    """Visits of people turned so that deviations become independent, for one shape of the kernel.

    Parameters
    ----------
    timeline : Timeline
        Whose visits they are.
    groups : list of (rows, vectors)
        Visits (n_people, n) of people who were seen equally often, and eigenvectors of kappa.
    values : (n_visits,)
        Eigenvalues, in the place of the visits.
    level : (n_visits,)
        A level that is the same at all visits, turned likewise.
    shape : (3,)
        Of the kernel.
    """

    timeline: Timeline
    groups: list[tuple[IntArray, Array]]
    values: Array
    level: Array
    shape: Array

    @classmethod
    def of(cls, shape: Array, timeline: Timeline, times: Array) -> Turn:
        """Eigenvalues and eigenvectors of every person's kappa; times since the first visit."""
        kernel = Kernel(shape, np.zeros(0), np.zeros(0))
        counts, groups = timeline.n_visits_of_subject, []
        found, level = np.zeros(len(times)), np.zeros(len(times))
        for count in np.unique(counts):
            rows = timeline.starts[counts == count][:, None] + np.arange(count)
            values, vectors = np.linalg.eigh(kernel.kappa(times[rows], times[rows]))
            found[rows], level[rows] = np.maximum(values, 0.0), vectors.sum(axis=1)
            groups.append((rows, vectors))
        return cls(timeline, groups, found, level, shape)

    def apply(self, deviations: Array) -> Array:
        """Turned deviations, (n_visits, n_series)."""
        turned = np.empty_like(deviations)
        for rows, vectors in self.groups:
            turned[rows] = vectors.swapaxes(1, 2).astype(deviations.dtype) @ deviations[rows]
        return turned

    def sums(
        self, deviations: Array, observed: BoolArray | None = None, in_parts: bool = False
    ) -> Sums:
        """What the likelihood of every series needs, at every ratio of the grid.

        Parameters
        ----------
        deviations : (n_visits, n_series)
            0 where not observed.
        observed : (n_visits, n_series) bool, optional
            Where there are deviations. A series is learnt from the people of whom it has all
            values; where these have less than half of its values, holes are filled with the
            person's mean, and counted as nothing seen.
        in_parts : bool
            Whether these are a part of many series: it is then worth finding few rows that stand
            for the weights of all ratios.
        """
        dtype, timeline, used = deviations.dtype, self.timeline, None
        counts = np.full(deviations.shape[1], float(len(deviations)))
        if observed is not None and not observed.all():
            deviations, used, counts = self._without_holes(deviations, observed)
        turned, mixing, rows = self.apply(deviations), np.eye(len(RATIOS)), self._weights
        if in_parts:
            mixing, rows = self.few_weights
        crossed = mixing @ ((rows * self.level).astype(dtype) @ turned).astype(float)
        squares = mixing @ (rows.astype(dtype) @ np.square(turned, out=turned)).astype(float)
        weights = self._weights
        levels = timeline.by_subject(weights * self.level**2, axis=1)
        spreads = timeline.by_subject(-np.log(weights), axis=1)
        if used is None:
            levels, spreads = levels.sum(axis=1)[:, None], spreads.sum(axis=1)[:, None]
        else:
            levels, spreads = levels @ used, spreads @ used
        return Sums(squares, crossed, levels, spreads, counts)

    @property
    def _weights(self) -> Array:
        """1 / (rho lambda + 1) at every ratio of the grid and every visit, (n_ratios, n_visits)."""
        return 1 / (RATIOS[:, None] * self.values + 1)

    @cached_property
    def few_weights(self) -> tuple[Array, Array]:
        """Few rows (n, n_visits) and how to mix them into the weights, (n_ratios, n).

        As functions of lambda the weights of all ratios are alike, so that a third or less of as
        many rows tell them, each to the same share of its size.
        """
        weights = self._weights
        sizes = np.linalg.norm(weights, axis=1, keepdims=True)
        left, strengths, rows = np.linalg.svd(weights / sizes, full_matrices=False)
        kept = strengths > _TOLD * strengths[0]
        return sizes * (left[:, kept] * strengths[kept]), rows[kept]

    def _without_holes(self, deviations: Array, observed: BoolArray) -> tuple[Array, Array, Array]:
        """Deviations with whole series of people only, whose they are, and how many were seen."""
        timeline = self.timeline
        of_visit, visits = timeline.subject_of_visit, timeline.n_visits_of_subject
        seen = timeline.by_subject(observed.astype(float))
        complete = seen == visits[:, None]
        enough = visits @ complete >= 0.5 * seen.sum(axis=0)
        used = np.where(enough, complete, seen > 0)
        means = timeline.by_subject(deviations * observed) / np.maximum(seen, 1.0)
        filled = np.where(observed, deviations, means[of_visit]) * used[of_visit]
        return filled.astype(deviations.dtype), used.astype(float), np.sum(seen * used, axis=0)


class Sums(NamedTuple):
    """Sums over visits for each ratio of the grid and each series, (n_ratios, n_series).

    `squares` of the turned deviations over their variances, `crossed` with a common level,
    `levels` of that with itself and the logarithms `spreads` of the variances (one column where
    they are the same for all series); and `counts` (n_series,) of visits.
    """

    squares: Array
    crossed: Array
    levels: Array
    spreads: Array
    counts: Array

    def noise(self) -> Array:
        """Restricted estimate of the noise variance, with the mean of the series unknown."""
        left = self.squares - self.crossed**2 / np.maximum(self.levels, 1e-12)
        return np.asarray(np.maximum(left, 1e-12) / np.maximum(self.counts - 1, 1.0))

    def log_likelihood(self) -> Array:
        """Restricted log-likelihood at the best noise, (n_ratios, n_series)."""
        total = (self.counts - 1) * np.log(self.noise()) + self.spreads
        return np.asarray(-0.5 * (total + np.log(np.maximum(self.levels, 1e-12))))


def share_of_ratios(log_likelihood: Array, rounds: int = 25) -> Array:
    """Distribution of the ratios over the series, (n_ratios,): nonparametric, by the EM.

    Parameters
    ----------
    log_likelihood : (n_ratios, n_series)
        Of every series.
    """
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=0))
    n_ratios = len(likelihood)
    shares = np.full(n_ratios, 1 / n_ratios)
    for _ in range(rounds):
        joint = shares[:, None] * likelihood
        shares = (joint / joint.sum(axis=0)).sum(axis=1) + 1 / n_ratios
        shares /= shares.sum()
    return shares


def kernel_of(shape: Array, sums: Sums, shares: Array) -> Kernel:
    """Expected variances of every series, given how ratios are distributed over series."""
    log_likelihood = sums.log_likelihood()
    posterior = shares[:, None] * np.exp(log_likelihood - log_likelihood.max(axis=0))
    posterior /= posterior.sum(axis=0)
    noise = sums.noise() * posterior
    persistent = (RATIOS[:, None] * noise).sum(axis=0)
    return Kernel(shape, persistent, noise.sum(axis=0) + 1e-12)


def tame(deviations: Array, observed: BoolArray | None = None) -> Array:
    """Deviations whose largest are less large: bad visits as wholes, and single values."""
    counts = len(deviations) if observed is None else np.maximum(observed.sum(axis=0), 1)
    spread = np.sqrt(np.sum(deviations**2, axis=0, dtype=float) / counts) + 1e-12
    largest = (_LARGEST * spread).astype(deviations.dtype)
    return np.asarray(np.clip(deviations, -largest, largest))


def visit_factors(deviations: Array, observed: BoolArray | None = None) -> Array:
    """By what to multiply each visit so that a bad one counts little more than others."""
    counts = len(deviations) if observed is None else np.maximum(observed.sum(axis=0), 1)
    variances = np.sum(deviations**2, axis=0, dtype=float) / counts + 1e-12
    seen = deviations.shape[1] if observed is None else np.maximum(observed.sum(axis=1), 1)
    sizes = (deviations.astype(float) ** 2 @ (1 / variances)) / seen
    return np.asarray(np.sqrt(np.minimum(1.0, _WORST / np.maximum(sizes, 1e-12))))


def find_shape(
    timeline: Timeline,
    times: Array,
    deviations: Array,
    observed: BoolArray | None = None,
    moving: bool = True,
) -> tuple[Array, Array]:
    """Shape of the kernel with the largest likelihood, and how ratios are distributed.

    Parameters
    ----------
    timeline : Timeline
        Whose visits they are.
    times : (n_visits,)
        Since each person's first visit.
    deviations : (n_visits, n_series)
        0 where not observed.
    observed : (n_visits, n_series) bool, optional
        Where there are deviations.
    moving : bool
        Without, a level alone: neither slope nor drift.

    Returns
    -------
    shape : (3,)
    shares : (n_ratios,)
    """
    usual = float(np.sqrt(np.mean(times**2))) or 1.0
    units = np.array([1.0, usual**-2.0, 1 / usual])

    def judge(shares: tuple[float, float]) -> tuple[float, Array, Array]:
        shape = np.array([1.0, *shares]) * units
        shape /= 1 + sum(shares)
        found = Turn.of(shape, timeline, times).sums(deviations, observed).log_likelihood()
        prior = share_of_ratios(found)
        top = found.max(axis=0)
        total = np.sum(top + np.log(prior @ np.exp(found - top)))
        return float(total), shape, prior

    seen = {(0.0, 0.0): judge((0.0, 0.0))}
    best = (0.0, 0.0)
    # With two visits each, the first at time 0, slopes and drifts leave no trace.
    if not moving or timeline.n_visits_of_subject.max() < 3:
        return seen[best][1:]
    improved = True
    while improved:
        improved = False
        for place in (0, 1):
            for share in _SHARES:
                tried = (share, best[1]) if place == 0 else (best[0], share)
                if tried not in seen:
                    seen[tried] = judge(tried)
                if seen[tried][0] > seen[best][0] + 1e-9:
                    best, improved = tried, True
    return seen[best][1:]
