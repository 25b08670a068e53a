"""Skewed shifts: the sinh-arcsinh distribution (Jones and Pewsey 2009, doi 10.1093/biomet/asp053).

S(z) = sinh(arcsinh(z) - skew) is a standard normal variable. Without a skew z is normal itself; far
out it is normal with a spread of exp(skew) above, and of exp(-skew) below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import kv

from braindive.arrays import Array

# Expected root of 1 + x^2 of a standard normal x (Jones and Pewsey, section 2.3).
_MEAN_ROOT = float(np.exp(0.25) * (kv(1, 0.25) + kv(0, 0.25)) / np.sqrt(8 * np.pi))


@dataclass(frozen=True)
class Skewed:
    """Log-density at some places, less that of a standard normal variable at 0.

    Parameters
    ----------
    log_density : array
        Like the places.
    pull : array
        Minus its derivative by the place.
    curvature : array
        Minus its second derivative, without what could make that negative.
    by_skew : array
        Its derivative by the skew.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.staging.skewed import Skewed
    >>> np.round(Skewed.at(np.array([-2.0, 2.0]), np.array(0.0)).log_density, 6).tolist()
    [-2.0, -2.0]
    >>> Skewed.at(np.array([-2.0, 2.0]), np.array(0.4)).log_density.round(2).tolist()
    [-4.37, -1.11]
    """

    log_density: Array
    pull: Array
    curvature: Array
    by_skew: Array

    @classmethod
    def at(cls, places: Array, skews: Array) -> Skewed:
        """Evaluate at places.

        Parameters
        ----------
        places : array
            In standard deviations.
        skews : array
            That go with the places.
        """
        root = np.sqrt(1 + places**2)
        normal = places * np.cosh(skews) - root * np.sinh(skews)
        stretched = np.sqrt(1 + normal**2)
        by_skew = normal * stretched - normal / stretched
        return cls(
            -0.5 * normal**2 + np.log(stretched / root),
            places / root**2 + by_skew / root,
            (stretched / root) ** 2,
            by_skew,
        )


def skewed_mean(skew: float) -> tuple[float, float]:
    """Mean of the distribution in units of its spread from its origin, and its derivative.

    z = x cosh(skew) + (1 + x^2)^(1/2) sinh(skew) with a standard normal x.

    Examples
    --------
    >>> from braindive.staging.skewed import skewed_mean
    >>> skewed_mean(0.0)[0]
    0.0
    >>> round(skewed_mean(0.5)[0], 3)
    0.706
    """
    return _MEAN_ROOT * float(np.sinh(skew)), _MEAN_ROOT * float(np.cosh(skew))
