"""Weak priors of the marginal model: what keeps parameters finite where the data say nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array
from braindive.dive.curves import Bounds, Curves
from braindive.dive.priors import Normal
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.packing import Packing, Part
from braindive.staging.site_means import SiteMeans

# Spread of the log speeds (people usually differ by a factor of about exp(0.4), as the published
# prior has it), mean log speed of controls (they move more slowly) and spread of the shifts around
# the one from which the fit starts. Choices; each weighs less than a handful of people.
_LOG_SPEED_SD = Normal(float(np.log(0.4)), 0.6)
_CONTROLS_LOG_SPEED = Normal(-0.5, 1.0)
_LOG_SHIFT_SD = Normal(0.0, 1.5)
# Skew of the shifts, where they are not normal. A choice: with 0.5, people reach almost three times
# as far to one side as to the other.
_SKEW = Normal(0.0, 0.5)
# Mean shift of controls in spreads of the shifts: on a flat early plateau nothing else says how
# long before the disease they are. A choice.
_CONTROLS_SHIFT = 2.0
# Effects of covariates, in spreads of the shifts and in log speed, for one standard deviation of
# the covariate: each prior weighs less than one person. Choices.
_SHIFT_EFFECT, _SPEED_EFFECT = 3.0, Normal(0.0, 1.5)
# B's prior is worth so many people and lies at that share of E: it keeps B invertible where people
# are alike. E's is worth K + 2 visits with independent vertices. Choices.
_BETWEEN_WORTH, _BETWEEN_SHARE = 2.0, 0.01
# Degrees of freedom of the t distribution of all clusters' changes: it has the unit of the changes
# that the other clusters show, and the data's own spread counts for so many clusters. With a normal
# prior of fixed width, curves whose late plateau nobody reaches ran away (-9 to -24 for -2).
_FREEDOM = 2.0


@dataclass(frozen=True)
class WeakPriors:
    """Log-density of the parameters and its gradient.

    Parameters
    ----------
    curves : Normal
        Of each packed parameter of the curves, (n_clusters, n_parameters).
    change : float
        Unit of the t distribution of the curves' changes; 0 where the user gave a prior.
    within, between : (n_clusters, n_clusters)
        Most probable E and B.
    spread : float
        Spread of the shifts.
    raw : Normal or None
        The user's prior of the curves' own parameters, instead of the weak one.
    sites : Normal or None
        Of the packed offsets of sites.
    """

    curves: Normal
    change: float
    within: Array
    between: Array
    spread: float
    raw: Normal | None = None
    sites: Normal | None = None

    @classmethod
    def of(
        cls,
        problem: CorrelatedStageProblem,
        packing: Packing,
        bounds: Bounds,
        independent: Array,
        given: Normal | None = None,
    ) -> WeakPriors:
        """Set priors in units of the data.

        Parameters
        ----------
        problem : CorrelatedStageProblem
            From which the fit starts: gives the range of scores and of values.
        packing : Packing
            Of its parameters.
        bounds : Bounds
            Of the curves.
        independent : (n_clusters, n_clusters)
            What E would be were vertices independent.
        given : Normal, optional
            The user's prior of the curves' parameters.
        """
        means, weights = problem.pooled.means, problem.pooled.weights
        total = np.maximum(weights.sum(axis=0), 1e-300)
        centres = (weights * means).sum(axis=0) / total
        variances = (weights * (means - centres) ** 2).sum(axis=0) / total
        # From plateau to plateau is about two standard deviations of values seen on both.
        change = 2 * float(np.sqrt(np.mean(variances)))
        people = problem.prior.population
        normal = problem.trajectories.weak_prior(
            people.centre(), people.spread(), centres, change, packing.logarithmic
        )
        found = cls(
            normal,
            0.0 if given is not None else change,
            independent,
            _BETWEEN_SHARE * problem.covariance.within,
            people.spread(),
            given,
        )
        return found.with_sites(packing, problem.sites)

    def with_sites(self, packing: Packing, sites: SiteMeans | None) -> WeakPriors:
        """Return the same with a prior of the offsets of sites: all of them together are near 0."""
        if packing.sites is None or sites is None or sites.taken is None:
            return replace(self, sites=None)
        centre = -(packing.sites.T @ sites.taken).ravel()
        return replace(self, sites=Normal(centre, sites.spread))

    def log_density(self, packing: Packing, vector: Array) -> tuple[float, Array, Array]:
        """Log-density up to a constant, its gradient, and the diagonal of its curvature."""
        gradient, curvature = np.zeros_like(vector), np.zeros_like(vector)
        by, bend = packing.parts(gradient), packing.parts(curvature)
        parts, value = packing.parts(vector), 0.0
        log_spread = float(np.log(self.spread))
        normals = {
            Part.SHIFT_MEANS: Normal(0.0, _CONTROLS_SHIFT * self.spread),
            Part.LOG_SHIFT_SDS: replace(_LOG_SHIFT_SD, mean=_LOG_SHIFT_SD.mean + log_spread),
            Part.LOG_SPEED_MEANS: _CONTROLS_LOG_SPEED,
            Part.LOG_LOG_SPEED_SDS: _LOG_SPEED_SD,
            Part.SKEW: _SKEW,
            Part.SHIFT_EFFECTS: Normal(0.0, _SHIFT_EFFECT * self.spread),
            Part.LOG_SPEED_EFFECTS: _SPEED_EFFECT,
        }
        if self.sites is not None:
            normals[Part.SITES] = self.sites
        if self.raw is None and packing.curves_vary:
            of_curves = Normal(np.ravel(self.curves.mean), np.ravel(self.curves.sd))
            normals[Part.CURVES] = of_curves
        for part, prior in normals.items():
            x = parts[part]
            if not x.size:
                continue
            value += float(np.sum(prior.log_density(x)))
            by[part] -= (x - prior.mean) * prior.precision
            bend[part] += prior.precision
        if packing.curves_vary:
            curves = packing.unpack_curves(parts[Part.CURVES])
            add = self._add_changes if self.raw is None else self._add_given
            value += add(curves, packing, by[Part.CURVES], bend[Part.CURVES])
        matrices = (
            (Part.WITHIN, packing.within, self.within, packing.n_clusters + 2.0),
            (Part.BETWEEN, packing.between, self.between, _BETWEEN_WORTH),
        )
        for part, packs, centre, worth in matrices:
            if packs is not None:
                density, by_matrix = wishart(packs.unpack(parts[part]), centre, worth)
                value += density
                by[part] += packs.gradients(by_matrix, parts[part])
                bend[part] += packs.prior_curvature(worth)
        return value, gradient, curvature

    def _add_changes(self, curves: Curves, packing: Packing, by: Array, bend: Array) -> float:
        """A t distribution of all changes that are parameters: the first one of a sigmoid."""
        if not curves.has_amplitude():
            return 0.0
        n_clusters = len(curves)
        amplitudes = curves.to_array()[:, 0]
        size = float(np.sum(amplitudes**2)) + _FREEDOM * self.change**2
        by.reshape(n_clusters, -1)[:, 0] -= (n_clusters + _FREEDOM) * amplitudes / size
        bend.reshape(n_clusters, -1)[:, 0] += (n_clusters + _FREEDOM) / size
        return -0.5 * (n_clusters + _FREEDOM) * float(np.log(size))

    def _add_given(self, curves: Curves, packing: Packing, by: Array, bend: Array) -> float:
        assert self.raw is not None
        array = curves.to_array()
        away = array - self.raw.mean
        precision = np.broadcast_to(self.raw.precision, array.shape)
        # d parameter / d packed parameter
        lever = np.where(packing.logarithmic, array, 1.0)
        by -= (away * precision * lever).ravel()
        bend += (precision * lever**2).ravel()
        return float(np.sum(self.raw.log_density(array)))


def wishart(matrix: Array, centre: Array, worth: float) -> tuple[float, Array]:
    """Log-density of an inverse Wishart prior up to a constant, and its gradient by the matrix.

    Parameters
    ----------
    matrix, centre : (n, n)
        Where, and the most probable matrix.
    worth : float
        Number of observations that the prior counts for.
    """
    # By the Cholesky factor, which refuses what is singular to machine precision: the inverse of
    # that would be noise, and seem probable.
    root = np.linalg.cholesky(matrix)
    half = np.linalg.solve(root, np.eye(len(root)))
    inverse, log_determinant = half.T @ half, 2 * np.sum(np.log(np.diag(root)))
    value = -0.5 * worth * (log_determinant + np.sum(inverse * centre))
    return float(value), -0.5 * worth * (inverse - inverse @ centre @ inverse)
