"""Priors on speeds, shifts and trajectories, in the internal units of the fit.

Internally a subject's time is centred on its own mean and divided by the pooled within-subject
spread, values are divided by their global spread, and the score is scaled so that a typical
subject moves by one per unit of that time. Priors stated in these units work for any measure,
any time unit and any number of vertices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array

# Spread of a distribution that is as good as a fixed value, relative to the value.
_FIXED = 1e-3


@dataclass(frozen=True)
class Gamma:
    """Gamma distribution with density proportional to x^(shape - 1) exp(-rate x).

    Examples
    --------
    >>> from braindive.dive.priors import Gamma
    >>> round(Gamma.from_mode(1.0, sd=0.4).mode, 6)
    1.0
    """

    shape: float
    rate: float

    @classmethod
    def from_mode(cls, mode: float, sd: float) -> Gamma:
        """Return the Gamma distribution with this mode and standard deviation."""
        # (shape - 1) / rate = mode and shape / rate^2 = sd^2 leave a quadratic in the rate.
        rate = (mode + np.sqrt(mode**2 + 4 * sd**2)) / (2 * sd**2)
        return cls(shape=float(1 + mode * rate), rate=float(rate))

    @classmethod
    def fixed(cls, value: float = 1.0) -> Gamma:
        """Return a distribution so narrow that everybody has this value."""
        return cls.from_mode(value, sd=_FIXED * value)

    @property
    def is_fixed(self) -> bool:
        """Whether it leaves no room for differences."""
        return bool(self.shape >= 0.25 / _FIXED**2)

    @property
    def mode(self) -> float:
        """Most probable value."""
        return (self.shape - 1) / self.rate

    def log_density(self, x: Array) -> Array:
        """Log-density up to a constant."""
        return (self.shape - 1) * np.log(x) - self.rate * x


@dataclass(frozen=True)
class Normal:
    """Normal distribution, elementwise for arrays.

    Examples
    --------
    >>> from braindive.dive.priors import Normal
    >>> Normal(mean=0.0, sd=2.0).log_density(2.0)
    -0.5
    """

    mean: float | Array
    sd: float | Array

    def log_density(self, x: Array) -> Array:
        """Log-density up to a constant."""
        return -0.5 * ((x - self.mean) / self.sd) ** 2

    @property
    def precision(self) -> Array:
        """Inverse variance."""
        return np.asarray(1.0 / np.square(self.sd))


@dataclass(frozen=True)
class Priors:
    """Priors of the model in internal units (see the module's text).

    Parameters
    ----------
    speed : Gamma
        Prior of every subject's speed; a typical subject has speed 1.
    shift : Normal
        Prior of every subject's score at its mean visit time, in multiples of the spread of the
        scores from which the fit starts, around their mean.
    trajectory : Normal or None
        Prior of the parameters of every curve, in the order in which the curve names them (for
        a sigmoid: amplitude, steepness, midpoint, baseline). `mean` and `sd` are one number for
        all of them, or one for each.

    Examples
    --------
    >>> import braindive as bd
    >>> bd.Priors(shift=bd.Normal(0.0, 2.0)).shift.sd
    2.0
    """

    speed: Gamma = Gamma.from_mode(1.0, sd=0.4)
    shift: Normal = Normal(0.0, 3.0)
    trajectory: Normal | None = None

    def scaled_to(self, scores: Array) -> Priors:
        """Return the priors with the shift in score units, given the scores the fit starts from."""
        centre, spread = float(np.mean(scores)), float(np.std(scores))
        shift = Normal(
            centre + spread * np.asarray(self.shift.mean), spread * np.asarray(self.shift.sd)
        )
        return Priors(self.speed, shift, self.trajectory)
