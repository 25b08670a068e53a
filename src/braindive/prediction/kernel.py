"""How a person's deviations from the expected course persist in time, one series at a time.

A series is a vertex, or a spatial component of many. Its deviation at times t, t' of one person
(counted from the first visit) has covariance a kappa(t, t') + n [t = t'], with one shape
kappa = p0 + p1 t t' + p2 min(t, t') for all series: a level, a slope and a drift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from braindive.arrays import Array, BoolArray
from braindive.dive.timeline import Timeline

# The average over all series counts as so many subjects' worth of a prior for each. A choice.
_POOLING = 20.0
# Least noise as a share of the variance of a series. A choice.
_LEAST_NOISE = 1e-3


@dataclass(frozen=True)
class Kernel:
    """Covariance in time of the deviations of every series.

    Parameters
    ----------
    shape : (3,)
        p0, p1, p2: level, slope and drift.
    persistent, noise : (n_series,)
        a and n.
    """

    shape: Array
    persistent: Array
    noise: Array

    def kappa(self, times: Array, others: Array) -> Array:
        """kappa(t, t') for times (..., n) and others (..., m): (..., n, m)."""
        level, slope, drift = self.shape
        one, other = times[..., :, None], others[..., None, :]
        return np.asarray(level + slope * one * other + drift * np.minimum(one, other))

    def at(self, series: slice | Array) -> Kernel:
        """Return the kernel of some of the series."""
        return Kernel(self.shape, self.persistent[series], self.noise[series])

    def conditional(self, times: Array, targets: Array) -> Conditional:
        """What the shape alone says of people's later visits.

        Parameters
        ----------
        times : (n_people, n_history)
            When they were seen.
        targets : (n_people,)
            When to predict.
        """
        inside = self.kappa(times, times)
        across = self.kappa(targets[:, None], times)[:, 0]
        prior = self.kappa(targets[:, None], targets[:, None])[:, 0, 0]
        values, vectors = np.linalg.eigh(inside)
        turned = np.einsum("gj,gjm->gm", across, vectors)
        return Conditional(inside, across, prior, np.maximum(values, 0.0), vectors, turned)

    def expect(
        self,
        conditional: Conditional,
        deviations: Array,
        observed: BoolArray | None = None,
        variances: bool = True,
    ) -> tuple[Array, Array]:
        """Expected deviations of people at other times, and their variance without noise.

        Parameters
        ----------
        conditional : Conditional
            Of the same people.
        deviations : (..., n_people, n_history, n_series)
            0 where not observed.
        observed : (n_people, n_history, n_series) bool, optional
            Where there are deviations; everywhere if left out.
        variances : bool
            Without, variances are left out: an array of none.

        Returns
        -------
        expected : (..., n_people, n_series)
        variance : (n_people, n_series)
        """
        dtype, at = deviations.dtype, conditional
        ratio = self.noise / np.maximum(self.persistent, 1e-12)
        shrink = at.values.astype(dtype)[:, :, None] + ratio.astype(dtype)
        np.divide(at.turned.astype(dtype)[:, :, None], shrink, out=shrink)
        along = at.vectors.swapaxes(1, 2).astype(dtype) @ deviations
        expected = np.einsum("gml,...gml->...gl", shrink, along)
        left = np.zeros((0, len(ratio)))
        if variances:
            left = np.einsum("gm,gml->gl", at.turned, shrink)
            np.subtract(at.prior[:, None], left, out=left)
        if observed is not None:
            # Every person and series with holes; a visit without a value has any variance.
            person, series = np.nonzero(~observed.all(axis=1))
            seen, across = observed[person, :, series].astype(float), at.across[person]
            own = np.where(seen > 0, ratio[series, None], 1.0)
            system = at.inside[person] * seen[:, :, None] * seen[:, None, :]
            system = system + own[:, :, None] * np.eye(seen.shape[1])
            gain = np.linalg.solve(system, (seen * across)[:, :, None])[:, :, 0]
            # numpy puts the holes first, before what led.
            known = np.moveaxis(deviations[..., person, :, series], 0, -2)
            expected[..., person, series] = np.einsum("hj,...hj->...h", gain, known)
            if variances:
                left[person, series] = at.prior[person] - np.sum(gain * across, axis=1)
        np.maximum(left, 0.0, out=left)
        left *= self.persistent
        return expected, left


@dataclass(frozen=True)
class Conditional:
    """From people's visits to one later visit of each, for a kernel's shape.

    Parameters
    ----------
    inside : (n_people, n_history, n_history)
        kappa of the history.
    across : (n_people, n_history)
        kappa of the later visit and the history.
    prior : (n_people,)
        kappa of the later visit with itself.
    values, vectors, turned
        Eigenvalues and eigenvectors of `inside`, and `across` along these.
    """

    inside: Array
    across: Array
    prior: Array
    values: Array
    vectors: Array
    turned: Array


@dataclass(frozen=True)
class Moments:
    """Sums of products of a person's deviations at two visits, over people.

    Parameters
    ----------
    products : (3, n_series)
        Weighted with 1, t t' and min(t, t'), over pairs of different visits.
    squares : (n_series,)
        Over visits.
    """

    products: Array
    squares: Array

    @classmethod
    def of(cls, timeline: Timeline, times: Array, deviations: Array) -> Moments:
        """Sum over people; deviations (n_visits, n_series) are 0 where not observed.

        Times count from each person's first visit.
        """
        counts = timeline.n_visits_of_subject
        starts = timeline.starts[np.argsort(-counts, kind="stable")]  # often seen people first
        times = times.astype(deviations.dtype)[:, None]
        products = np.zeros((3, deviations.shape[1]))
        # From last visits to first ones: min(t, t') is the time of the earlier of two.
        later = timed_later = deviations[:0]
        for number in reversed(range(int(counts.max()))):
            rows = starts[: int(np.sum(counts > number))] + number
            here = deviations[rows]
            timed = times[rows] * here if number else here[:0]  # at first visits t is 0
            n_later = len(later)
            products[0] += _dot(here[:n_later], later)
            if number:
                products[1] += _dot(timed[:n_later], timed_later)
                products[2] += _dot(timed[:n_later], later)
                here[:n_later] += later
                timed[:n_later] += timed_later
            later, timed_later = here, timed
        return cls(products, np.asarray(_dot(deviations, deviations), dtype=float))


def _dot(one: Array, other: Array) -> Array:
    """Products of two arrays, summed over the first axis."""
    return np.asarray(np.einsum("nl,nl->l", one, other))


def fit_kernel(
    timeline: Timeline, times: Array, moments: Moments, shares: Array | None = None
) -> Kernel:
    """Fit the kernel to moments.

    Parameters
    ----------
    timeline : Timeline
        Whose visits they are.
    times : (n_visits,)
        From each person's first visit.
    moments : Moments
        Of the deviations.
    shares : (n_series,), optional
        Share of the visits at which each series was observed.
    """
    products, squares = moments.products, moments.squares
    if shares is not None:
        products = products / np.maximum(shares, 1e-3) ** 2
        squares = squares / np.maximum(shares, 1e-3)
    gram, diagonal = np.zeros((3, 3)), np.zeros(3)
    counts = timeline.n_visits_of_subject
    for count in np.unique(counts):
        own = times[timeline.starts[counts == count][:, None] + np.arange(count)]
        one, other = (own[:, visits] for visits in np.triu_indices(count, 1))
        basis = np.stack([np.ones_like(one), one * other, np.minimum(one, other)]).reshape(3, -1)
        gram += basis @ basis.T
        diagonal += [own.size, np.sum(own**2), np.sum(own)]
    n_visits, n_series = len(times), len(squares)
    variance = squares / n_visits
    if gram[0, 0] == 0:  # nobody was seen twice: half of what is seen is taken to last
        return Kernel(np.array([1.0, 0.0, 0.0]), 0.5 * variance, 0.5 * variance)
    # With two visits each, the first at time 0, slopes and drifts leave no trace in products.
    told = np.flatnonzero(np.diag(gram) > 1e-9 * gram[0, 0])
    part, scale = gram[np.ix_(told, told)], np.sqrt(np.diag(gram)[told])
    root = np.linalg.cholesky(part / scale[:, None] / scale + 1e-6 * np.eye(len(told))).T
    found, _ = nnls(root, np.linalg.solve(root.T, products[told].sum(axis=1) / scale))
    shape = np.zeros(3)
    shape[told] = found / scale / n_series
    if not shape.any():
        shape = np.array([1.0, 0.0, 0.0])
    shape = shape / (shape @ gram[0] / gram[0, 0])  # kappa is 1 on average over pairs
    persistent = np.maximum(shape @ products / (shape @ gram @ shape), 0.0)
    weight = _POOLING / (timeline.n_subjects + _POOLING)
    typical = float(np.sum(persistent)) / max(float(np.sum(variance)), 1e-300)
    persistent = (1 - weight) * persistent + weight * typical * variance
    noise = variance - persistent * (shape @ diagonal) / n_visits
    return Kernel(shape, persistent, np.maximum(noise, _LEAST_NOISE * variance + 1e-12))
