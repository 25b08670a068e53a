"""How a person's deviations from the expected course persist in time, one series at a time.

A series is a vertex, or a spatial component of many. Its deviation at times t, t' of one person
(counted from the first visit) has covariance a kappa(t, t') + n [t = t'], with one shape
kappa = p0 + p1 t t' + p2 min(t, t') for all series: a level, a slope and a drift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array, BoolArray


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

    def conditional(self, times: Array, targets: Array, scales: Array | None = None) -> Conditional:
        """What the shape alone says of people's later visits.

        Parameters
        ----------
        times : (n_people, n_history)
            When they were seen.
        targets : (n_people,)
            When to predict.
        scales : (n_people, n_history), optional
            By how much the noise of visits is larger than usual, as a standard deviation.
        """
        inside = self.kappa(times, times)
        across = self.kappa(targets[:, None], times)[:, 0]
        if scales is not None:
            # In units of their noise, all visits have the same.
            inside = inside / (scales[:, :, None] * scales[:, None, :])
            across = across / scales
        prior = self.kappa(targets[:, None], targets[:, None])[:, 0, 0]
        values, vectors = np.linalg.eigh(inside)
        turned = np.einsum("gj,gjm->gm", across, vectors)
        return Conditional(inside, across, prior, np.maximum(values, 0.0), vectors, turned, scales)

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
        if at.scales is not None:
            deviations = deviations / at.scales.astype(dtype)[:, :, None]
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
    scales : (n_people, n_history) or None
        In units of which the deviations of the history, `inside` and `across` are.
    """

    inside: Array
    across: Array
    prior: Array
    values: Array
    vectors: Array
    turned: Array
    scales: Array | None = None
