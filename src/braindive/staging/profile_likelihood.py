"""Errors of what the likelihood says less of on one side than on the other.

Few people stand before the earliest cluster is half-way. How early that is, and with it the origin
of the score, hangs on them, and the likelihood falls more slowly to the early side than its
curvature has it. So the direction in which the parameters move most the scores of those who are no
controls is looked along, to both sides, and the error there is that of the side that is less known.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from braindive.arrays import Array
from braindive.staging.curve_uncertainty import ScoreUnit, sensitivities
from braindive.staging.expected_information import ENOUGH_PER_NUMBER
from braindive.staging.marginal_fit import MarginalFit
from braindive.staging.optimum import Climb, bfgs_update, look_if_possible
from braindive.staging.posterior import FINE, Points

# How far is looked first, in standard errors: to about where an interval of 95 % ends. And the
# spread from which on it is looked further, to where the interval ends by that spread.
_REACH, _MUCH_WIDER = 2.0, 1.3
# By how much the error to one side is at most larger than the curvature has it, where the
# likelihood hardly falls. A choice.
_WIDEST = 3.0
# Most steps of all other parameters, the longest one in standard errors of them together, and how
# little is left to climb when they end: so little that spreads are right within 2 %.
_STEPS, _LONGEST, _HARDLY = 6, 1.0, 0.3
# By how much the objective may fall because points were laid anew.
_BY_POINTS = 0.2


def profile_covariance(fit: MarginalFit, unit: ScoreUnit, covariance: Array) -> Array:
    """Covariance of the packed parameters, wider where the profile likelihood is.

    Along one direction, the spread of the side on which the likelihood falls more slowly takes the
    place of the standard error. Where subjects are many, the likelihood is taken for that of a
    normal density, whose sides are alike.

    Parameters
    ----------
    fit : MarginalFit
        At the optimum.
    unit : ScoreUnit
        Origin and unit of the user's score.
    covariance : (n_numbers, n_numbers)
        By the information at the optimum.

    Returns
    -------
    (n_numbers, n_numbers) array
    """
    at, packing = fit.climb, fit.packing
    if at.n_subjects >= ENOUGH_PER_NUMBER * len(packing.of_stages()):
        return covariance
    problem, posterior = at.problem, at.evaluation.posterior
    jacobian = packing.parameter_jacobian(problem)
    by_speed, by_shift = sensitivities(problem, posterior)
    (speeds, shifts), (mean, own) = posterior.mean(), posterior.moments()
    by_stage = np.stack([by_speed / speeds[:, None], by_shift], axis=1) @ jacobian
    away = (shifts - unit.centre) / unit.spread
    moves = by_shift - unit.by_centre - np.outer(away, unit.by_spread)
    moves = moves @ jacobian / np.sqrt(own[:, 1, 1])[:, None]
    # How long before the disease controls are is another matter, and hardly known.
    groups = problem.prior.groups
    along = leading_direction(moves[groups == groups.max()], covariance)
    others = covariance - np.outer(along, along)

    def see(vector: Array) -> Climb | None:
        """Look with points that have moved as the subjects' posteriors have."""
        prior = packing.unpack(vector, problem).prior
        points = Points.around(prior, mean + by_stage @ (vector - at.vector), own, FINE)
        return look_if_possible(problem, vector, points, packing, fit.priors)

    def look_from(here: Climb, vector: Array) -> Climb | None:
        """Look with points that lie around the posteriors there."""
        with np.errstate(all="ignore"):
            points = here.evaluation.posterior.lay_points(here.problem.prior, FINE)
        return look_if_possible(problem, vector, points, packing, fit.priors)

    top, spreads = see(at.vector), []
    if top is None:
        return covariance
    for side in (-1.0, 1.0):
        # Where nothing can be computed any more, what is known is that of the curvature.
        spread, there = 1.0, see(at.vector + side * _REACH * along)
        if there is not None:
            there = _climb_beside(there, others, look_from)
            spread = _spread(top, there, _REACH)
        if there is not None and spread > _MUCH_WIDER:
            reach = _REACH * min(spread, _WIDEST)
            there = look_from(there, there.vector + side * (reach - _REACH) * along)
            if there is not None:
                spread = _spread(top, _climb_beside(there, others, look_from), reach)
        spreads.append(spread)
    # Errors are made larger where the likelihood has them larger, and not smaller.
    wider = max(square_of_wider_side(*spreads) - 1, 0.0)
    return covariance + wider * np.outer(along, along)


def _climb_beside(
    here: Climb, inverse: Array, look_from: Callable[[Climb, Array], Climb | None]
) -> Climb:
    """Climb as far as an inverse of the Hessian leads that has nothing along one direction.

    Points are laid anew at every step, which moves the objective a little.
    """
    longest = _LONGEST
    for _ in range(_STEPS):
        direction = inverse @ here.gradient
        length = np.sqrt(max(float(here.gradient @ direction), 0.0))
        if length < _HARDLY:
            break
        share = min(1.0, longest / length)
        there = look_from(here, here.vector + share * direction)
        if there is not None and there.objective > here.objective - _BY_POINTS:
            change = here.gradient - there.gradient
            inverse = bfgs_update(inverse, share * direction, change, share * here.gradient)
            here = there
        else:
            longest = share * length / 3
    return here


def _spread(top: Climb, there: Climb, reach: float) -> float:
    """Spread of a normal density that falls as much, so many standard errors away."""
    fall = 2 * (top.objective - there.objective)
    return float(reach / np.sqrt(max(fall, (reach / _WIDEST) ** 2)))


def leading_direction(moves: Array, covariance: Array) -> Array:
    """Direction in which parameters move many quantities most, one standard error long.

    Parameters
    ----------
    moves : (n_quantities, n_numbers)
        Derivatives of the quantities by the parameters.
    covariance : (n_numbers, n_numbers)
        Of the parameters.
    """
    root = np.linalg.cholesky(covariance)
    axes = np.linalg.eigh(root.T @ (moves.T @ moves) @ root)[1]
    return np.asarray(root @ axes[:, -1])


def square_of_wider_side(before: float, after: float) -> float:
    """Variance for an interval to both sides of an estimate whose sides have their own spreads.

    An error says one number for both sides, and what lies beyond an interval lies on the wider one:
    with the mean square of both halves, 7 of 100 cohorts had scores too early by more than two
    errors, and none had them too late.

    Examples
    --------
    >>> from braindive.staging.profile_likelihood import square_of_wider_side
    >>> square_of_wider_side(1.0, 1.0), square_of_wider_side(1.0, 2.0)
    (1.0, 4.0)
    """
    return max(before, after) ** 2
