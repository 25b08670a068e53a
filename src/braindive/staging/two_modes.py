"""People who may be at either of two places: before the disease, or after all of it.

Whoever is on the late plateau of all curves and does not change looks like somebody before the
disease whose own level is low. Points around the higher mode alone would be sure of one of them.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from braindive.arrays import Array
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.pieces import Peaks, search_modes
from braindive.staging.posterior import Posterior, integrate_around

# Least probability of the place that is less probable, for which it is kept. A choice.
_LEAST_SHARE = 1e-3


def integrate_modes(
    problem: CorrelatedStageProblem, known_shifts: Array
) -> tuple[Posterior, tuple[Array, Array]]:
    """Posterior of every subject's stage, and where it is around the likelier mode alone.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects.
    known_shifts : (n,)
        Shifts of the training subjects, over whose range modes are looked for.

    Returns
    -------
    posterior : Posterior
        Over both modes, of those who have two.
    speeds, shifts : (n_subjects,)
        Expected, if the likelier mode were the only one.
    """
    modes, peaks = search_modes(problem, known_shifts)
    posterior, _ = integrate_around(problem, *modes)
    likeliest, who = posterior.mean(), peaks.subjects
    if not len(who):
        return posterior, likeliest
    some = problem.select(who)
    (below, one), (above, other) = (
        _integrate_side(some, peaks, modes[0][who], modes[1][who], is_upper)
        for is_upper in (False, True)
    )
    share = expit(other - one)
    torn = np.minimum(share, 1 - share) > _LEAST_SHARE
    if not torn.any():
        return posterior, likeliest
    who, share, kept = who[torn], share[torn], np.flatnonzero(torn)
    below, above = below.select(kept), above.select(kept)
    for own, lower, upper in zip(likeliest, below.mean(), above.mean(), strict=True):
        own[who] = np.where(share > 0.5, upper, lower)
    # Everybody gets as many points; those of whoever is at one place count for nothing.
    first = Posterior(posterior.log_speeds, posterior.shifts, posterior.weights.copy())
    second = Posterior(first.log_speeds.copy(), first.shifts.copy(), np.zeros_like(first.weights))
    for whole, side, weight in ((first, below, 1 - share), (second, above, share)):
        whole.log_speeds[:, who], whole.shifts[:, who] = side.log_speeds, side.shifts
        whole.weights[:, who] = weight * side.weights
    both = (np.concatenate([getattr(x, name) for x in (first, second)]) for name in _PARTS)
    return Posterior(*both), likeliest


_PARTS = ("log_speeds", "shifts", "weights")


def _integrate_side(
    some: CorrelatedStageProblem, peaks: Peaks, speeds: Array, shifts: Array, is_upper: bool
) -> tuple[Posterior, Array]:
    """Posterior of the subjects with two peaks, on one side of the valley, and its integral."""
    at = peaks.upper if is_upper else peaks.lower
    # Around the mode, where that is on this side.
    here = (shifts > peaks.valley) == is_upper
    speeds, shifts = np.where(here, speeds, some.start()[0]), np.where(here, shifts, at)
    everywhere = np.full_like(at, np.inf)
    limits = (peaks.valley, everywhere) if is_upper else (-everywhere, peaks.valley)
    return integrate_around(some, speeds, shifts, limits=np.stack(limits))
