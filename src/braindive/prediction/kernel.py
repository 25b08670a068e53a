"""How a person's deviations from the expected course persist in time, channel by channel.

A channel is a vertex, or a spatial component of many. Its deviation at times t, t' of one person
(counted from the first visit) has covariance a kappa(t, t') + n [t = t'], with one shape
kappa = p0 + p1 t t' + p2 min(t, t') for all channels: a level, a slope and a drift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from braindive.model.arrays import Array, BoolArray
from braindive.model.timeline import Timeline

# Estimates of one channel count as so many subjects' less against the average of all channels.
_POOLING = 20.0
# Noise below this share of a channel's variance is not believed.
_LEAST_NOISE = 1e-3


@dataclass(frozen=True)
class Kernel:
    """Covariance in time of the deviations of every channel.

    Parameters
    ----------
    shape : (3,)
        p0, p1, p2: level, slope and drift.
    persistent, noise : (n_channels,)
        a and n.
    """

    shape: Array
    persistent: Array
    noise: Array

    def kappa(self, times: Array, others: Array) -> Array:
        """kappa(t, t') for times (n,) and others (m,): (n, m)."""
        level, slope, drift = self.shape
        product = np.outer(times, others)
        return np.asarray(level + slope * product + drift * np.minimum.outer(times, others))

    def at(self, channels: slice | Array) -> Kernel:
        """Return the kernel of some of the channels."""
        return Kernel(self.shape, self.persistent[channels], self.noise[channels])

    def expect(
        self, times: Array, deviations: Array, targets: Array, observed: BoolArray | None = None
    ) -> tuple[Array, Array]:
        """Expected deviations of one person at other times, and their variance without noise.

        Parameters
        ----------
        times : (n_history,)
            When the person was seen.
        deviations : (..., n_history, n_channels)
            0 where not observed.
        targets : (n_targets,)
            When to predict.
        observed : (n_history, n_channels) bool, optional
            Where there are deviations; everywhere if left out.

        Returns
        -------
        expected : (..., n_targets, n_channels)
        variance : (n_targets, n_channels)
        """
        across = self.kappa(targets, times)
        prior = np.diag(self.kappa(targets, targets))
        inside = self.kappa(times, times)
        ratio = self.noise / np.maximum(self.persistent, 1e-12)
        values, vectors = np.linalg.eigh(inside)
        shrink = 1 / (np.maximum(values, 0.0)[:, None] + ratio)
        turned = across @ vectors
        expected = np.einsum("tm,...ml->...tl", turned, shrink * (vectors.T @ deviations))
        left = prior[:, None] - turned**2 @ shrink
        if observed is not None:
            holes = np.flatnonzero(~observed.all(axis=0))
            if len(holes):
                seen = observed[:, holes].T.astype(float)
                system = inside * seen[:, :, None] * seen[:, None, :]
                # A visit without a value has no covariance and any variance.
                own = np.where(seen > 0, ratio[holes, None], 1.0)
                system = system + own[:, :, None] * np.eye(len(times))
                gain = np.linalg.solve(system, seen[:, :, None] * across.T)  # (holes, J, targets)
                expected[..., holes] = np.einsum("hjt,...jh->...th", gain, deviations[..., holes])
                left[:, holes] = prior[:, None] - np.einsum("hjt,tj->th", gain, across)
        return expected, np.maximum(left, 0.0) * self.persistent


@dataclass(frozen=True)
class Moments:
    """Sums of products of a person's deviations at two visits, over people.

    Parameters
    ----------
    products : (3, n_channels)
        Weighted with 1, t t' and min(t, t'), over pairs of different visits.
    squares : (n_channels,)
        Over visits.
    """

    products: Array
    squares: Array

    @classmethod
    def of(cls, timeline: Timeline, times: Array, deviations: Array) -> Moments:
        """Sum over people; deviations (n_visits, n_channels) are 0 where not observed."""
        squared = deviations**2
        timed = times[:, None] * deviations
        total = timeline.by_subject(deviations)
        # min(t, t') of sorted visits is the earlier time: pair each with the sum of later ones.
        running = np.cumsum(deviations, axis=0)
        before = running[timeline.starts] - deviations[timeline.starts]
        later = (total + before)[timeline.subject_of_visit] - running
        products = np.stack(
            [
                0.5 * (np.sum(total**2, axis=0) - np.sum(squared, axis=0)),
                0.5
                * (
                    np.sum(timeline.by_subject(timed) ** 2, axis=0)
                    - np.sum(times[:, None] ** 2 * squared, axis=0)
                ),
                np.sum(timed * later, axis=0),
            ]
        )
        return cls(products, np.sum(squared, axis=0))


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
    shares : (n_channels,), optional
        Share of the visits at which each channel was observed.
    """
    products, squares = moments.products, moments.squares
    if shares is not None:
        products = products / np.maximum(shares, 1e-3) ** 2
        squares = squares / np.maximum(shares, 1e-3)
    starts = timeline.starts
    gram, diagonal = np.zeros((3, 3)), np.zeros(3)
    for first, last in zip(starts, np.append(starts[1:], len(times)), strict=True):
        own = times[first:last]
        one, other = np.triu_indices(len(own), 1)
        basis = np.stack(
            [np.ones(len(one)), own[one] * own[other], np.minimum(own[one], own[other])]
        )
        gram += basis @ basis.T
        diagonal += [len(own), np.sum(own**2), np.sum(own)]
    n_visits, n_channels = len(times), len(squares)
    variance = squares / n_visits
    if gram[0, 0] == 0:  # nobody was seen twice: half of what is seen is taken to last
        return Kernel(np.array([1.0, 0.0, 0.0]), 0.5 * variance, 0.5 * variance)
    # With two visits each, the first at time 0, slopes and drifts leave no trace in products.
    told = np.flatnonzero(np.diag(gram) > 1e-9 * gram[0, 0])
    part, scale = gram[np.ix_(told, told)], np.sqrt(np.diag(gram)[told])
    root = np.linalg.cholesky(part / scale[:, None] / scale + 1e-6 * np.eye(len(told))).T
    found, _ = nnls(root, np.linalg.solve(root.T, products[told].sum(axis=1) / scale))
    shape = np.zeros(3)
    shape[told] = found / scale / n_channels
    if not shape.any():
        shape = np.array([1.0, 0.0, 0.0])
    shape = shape / (shape @ gram[0] / gram[0, 0])  # kappa is 1 on average over pairs
    persistent = np.maximum(shape @ products / (shape @ gram @ shape), 0.0)
    weight = _POOLING / (timeline.n_subjects + _POOLING)
    typical = float(np.sum(persistent)) / max(float(np.sum(variance)), 1e-300)
    persistent = (1 - weight) * persistent + weight * typical * variance
    noise = variance - persistent * (shape @ diagonal) / n_visits
    return Kernel(shape, persistent, np.maximum(noise, _LEAST_NOISE * variance + 1e-12))
