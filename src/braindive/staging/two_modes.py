"""People who may be at either of two places: before the disease, or after all of it.

Whoever is on the late plateau of all curves and does not change looks like somebody before the
disease whose own level is low. Points around the higher mode alone would be sure of it.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from braindive.arrays import Array, IntArray
from braindive.dive.stages import settle_stages
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.likelihood import Posterior, integrate_around
from braindive.staging.pieces import search_modes

# How far apart two modes lie at least, in the sum of their spreads, so that nothing is counted
# twice, and the least probability of the lower one for which it is kept. Choices.
_APART, _LEAST_SHARE = 2.5, 1e-3


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
    modes, (elsewhere, there) = search_modes(problem, known_shifts)
    posterior, integrals = integrate_around(problem, *modes)
    speeds, shifts = posterior.mean()
    if not len(elsewhere):
        return posterior, (speeds, shifts)
    some = problem.select(elsewhere)
    other, others = integrate_around(some, *settle_stages(some, some.start()[0], there))
    shares = expit(others - integrals[elsewhere]) * _is_apart(posterior.select(elsewhere), other)
    shares = np.where(shares < _LEAST_SHARE, 0.0, shares)
    for own, its in zip((speeds, shifts), other.mean(), strict=True):
        own[elsewhere] = np.where(shares > 0.5, its, own[elsewhere])
    return _mixed(posterior, other, elsewhere, shares), (speeds, shifts)


def _is_apart(one: Posterior, other: Posterior) -> Array:
    """Whether the modes of each subject are different ones, (n_subjects,)."""
    (mean, spread), (its_mean, its_spread) = (
        (mean[:, 1], np.sqrt(covariance[:, 1, 1]))
        for mean, covariance in (one.moments(), other.moments())
    )
    return np.asarray(np.abs(mean - its_mean) > _APART * (spread + its_spread))


def _mixed(posterior: Posterior, other: Posterior, who: IntArray, shares: Array) -> Posterior:
    """Posterior of all subjects; some are with a probability around another mode."""
    if not np.any(shares):
        return posterior
    log_speeds, shifts = posterior.log_speeds.copy(), posterior.shifts.copy()
    weights, its_weights = posterior.weights.copy(), np.zeros_like(posterior.weights)
    log_speeds[:, who], shifts[:, who] = other.log_speeds, other.shifts
    weights[:, who] *= 1 - shares
    its_weights[:, who] = shares * other.weights
    return Posterior(
        np.concatenate([posterior.log_speeds, log_speeds]),
        np.concatenate([posterior.shifts, shifts]),
        np.concatenate([weights, its_weights]),
    )
