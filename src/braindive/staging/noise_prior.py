"""How much noise people have: usually by their level, and how far they differ from that.

A person's own scatter around a line tells its noise, but from few visits only roughly. It is drawn
towards what is usual at the person's level, as strongly as people are alike: the moderated
variances of Smyth (2004, doi 10.2202/1544-6115.1027), with a trend.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln, digamma

from braindive.arrays import Array

# Fewest people whose scatter is known for anything to be learnt from it. A choice.
LEAST_PEOPLE = 8
# Weak priors, normal, for where people are few: the trend of the log variance over one and two
# standard deviations of the level, and the log of how many visits' worth people are alike. Choices.
_TREND = 0.7
_BEND = 0.35
_FREEDOM = (np.log(10.0), 1.5)
_MOST_FREEDOM = 1e3


@dataclass(frozen=True)
class NoisePrior:
    """Variance that is usual at a level, and how many visits' worth it counts.

    Parameters
    ----------
    trend : (3,)
        Log variance is trend[0] + trend[1] z + trend[2] (z^2 - 1) ...
    centre, spread : float
        ... where z is (level - centre) / spread, ...
    low, high : float
        ... and z is kept between these, which were seen.
    freedom : float
        Degrees of freedom of the prior; many where people are alike.
    """

    trend: Array
    centre: float
    spread: float
    low: float
    high: float
    freedom: float

    @classmethod
    def constant(cls, variance: float = 1.0) -> NoisePrior:
        """The same for everybody, and known."""
        trend = np.array([np.log(variance), 0.0, 0.0])
        return cls(trend, 0.0, 1.0, 0.0, 0.0, _MOST_FREEDOM)

    @classmethod
    def learn(cls, variances: Array, freedom: Array, levels: Array) -> NoisePrior:
        """Learn from people's own variances, by likelihood.

        Parameters
        ----------
        variances, freedom : (n,)
            Mean squares around each person's own line, and their degrees of freedom, one at least.
        levels : (n,)
            Of the people.
        """
        centre, spread = float(np.mean(levels)), float(np.std(levels)) or 1.0
        standard = (levels - centre) / spread
        basis = _basis(standard)
        # A scatter of nothing, as at a floor, has no logarithm: it counts as very little.
        variances = np.maximum(variances, 1e-6 * np.mean(variances) + 1e-300)
        usual = float(np.log(np.mean(variances)))

        log_variances = np.log(variances) - usual
        centres = np.array([0.0, 0.0, 0.0, _FREEDOM[0]])
        sds = np.array([np.inf, _TREND, _BEND, _FREEDOM[1]])

        def loss(packed: Array) -> tuple[float, Array]:
            prior = float(np.exp(packed[3]))
            ratios = log_variances - basis @ packed[:3]
            fits = float(np.sum(_log_density(ratios, freedom, prior)))
            by_ratio, by_prior = _log_density_gradient(ratios, freedom, prior)
            away = (packed - centres) / sds
            gradient = away / sds + np.append(by_ratio @ basis, -prior * np.sum(by_prior))
            return 0.5 * float(away @ away) - fits, gradient

        start = np.array([0.0, 0.0, 0.0, _FREEDOM[0]])
        most = np.log(_MOST_FREEDOM)
        bounds = [(-10, 10), (-3, 3), (-2, 2), (0.0, most)]
        options = {"ftol": 1e-14, "gtol": 1e-8 * len(variances)}
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        trend = found[:3] + np.array([usual, 0.0, 0.0])
        low, high = float(standard.min()), float(standard.max())
        return cls(trend, centre, spread, low, high, float(np.exp(found[3])))

    def log_likelihood(self, variances: Array, freedom: Array, levels: Array) -> Array:
        """Log-density of the logarithm of each of people's own variances, as in `learn`."""
        ratios = np.log(np.maximum(variances, 1e-300) / self.at(levels))
        return _log_density(ratios, freedom, self.freedom)

    def at(self, levels: Array) -> Array:
        """Variance that is usual at levels."""
        standard = np.clip((levels - self.centre) / self.spread, self.low, self.high)
        return np.asarray(np.exp(_basis(standard) @ self.trend))

    def moderate(self, squares: Array, freedom: Array, levels: Array) -> tuple[Array, Array]:
        """Variances of people drawn towards what is usual, and their degrees of freedom.

        Parameters
        ----------
        squares : (n,)
            Sums of squares around each person's own line.
        freedom : (n,)
            Their degrees of freedom; 0 where nothing is known.
        levels : (n,)
            Of the people.
        """
        total = self.freedom + freedom
        return (self.freedom * self.at(levels) + squares) / total, total


def _basis(standard: Array) -> Array:
    return np.stack([np.ones_like(standard), standard, standard**2 - 1], axis=-1)


def _log_density(log_ratios: Array, freedom: Array, prior: float) -> Array:
    """Log-density of the log of variances over what is usual: that of the F distribution."""
    half, other = freedom / 2, prior / 2
    return np.asarray(
        half * (np.log(freedom / prior) + log_ratios)
        - (half + other) * np.log1p(freedom / prior * np.exp(log_ratios))
        - betaln(half, other)
    )


def _log_density_gradient(log_ratios: Array, freedom: Array, prior: float) -> tuple[Array, Array]:
    """Derivatives of `_log_density` by the log ratios and by the prior's degrees of freedom."""
    half, other = freedom / 2, prior / 2
    odds = freedom / prior * np.exp(log_ratios)
    share = odds / (1 + odds)
    by_ratio = half - (half + other) * share
    by_prior = 0.5 * (digamma(half + other) - digamma(other) - np.log1p(odds)) - by_ratio / prior
    return by_ratio, by_prior
