"""How the marginal log-likelihood bends, from where a climb begins.

By the principle of missing information (Louis 1982, doi 10.1111/j.2517-6161.1982.tb01203.x): what
would be known of the parameters were the stages known, less what is lost because they are not. The
loss is the variance of the gradient at known stages over where each subject may be; it is told by
the part of the gradient that is a polynomial of the stage.

Nearly all is lost of what would be known of the score's origin and unit, and a small difference of
large numbers would be left. To move all curves is to move all people the other way, of which little
is lost, so origin and unit go with the people.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from braindive.arrays import Array
from braindive.dive.timeline import evenly
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.likelihood import Evaluation, contrast
from braindive.staging.packing import Packing, Part
from braindive.staging.pieces import NUMBERS_AT_ONCE, over_subjects
from braindive.staging.posterior import Posterior

# Subjects of whom it is told, at most; that of more grows with their number. A choice.
_MOST_SUBJECTS = 1000
# Those of whom it is told how curves move alike; a choice.
_FEW_SUBJECTS = 100
# Share of the information at known stages that is left at least, and how much more than all of it
# may seem lost for the rest to be believed. Choices.
_LEAST_LEFT, _TOO_MUCH = 0.005, 0.05
# Step by which origin and unit are moved, for derivatives of the curves.
_STEP = 1e-5
# Three points of a normal distribution that give its first five moments (Gauss and Hermite).
_PLACES, _SHARES = (-np.sqrt(3.0), 0.0, np.sqrt(3.0)), (1 / 6, 2 / 3, 1 / 6)


def inverse_information(
    problem: CorrelatedStageProblem,
    posterior: Posterior,
    packing: Packing,
    vector: Array,
    curvature: Array,
) -> Array | None:
    """Inverse of the information of packed parameters, or None far from the optimum.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects.
    posterior : Posterior
        Where they are.
    packing, vector : Packing, (n_numbers,)
        Parameters.
    curvature : (n_numbers,)
        Of the priors.

    Returns
    -------
    (n_numbers, n_numbers) array or None
        None where more seems to be lost than there is, as happens far from the optimum.
    """
    n_subjects = problem.timeline.n_subjects
    some = evenly(np.arange(n_subjects), _MOST_SUBJECTS)
    if len(some) < n_subjects:
        problem, posterior = problem.select(some), posterior.select(some)

    def take(few: CorrelatedStageProblem, part: slice) -> tuple[Array, Array]:
        own = posterior.select(np.arange(part.start, part.stop))
        known = _at_known_stages(few, own, packing, vector)
        lost = np.zeros_like(known)
        for at in contrast(few, own, _contrasts(own)):
            gradients = _gradients(few, packing, vector, at)
            lost += gradients.T @ gradients
        return known, lost

    n_points = len(posterior.weights)
    parts = over_subjects(take, problem, 4 * NUMBERS_AT_ONCE // n_points)
    known, lost = (sum(each) for each in zip(*parts, strict=True))
    covariances = slice(packing.sizes[0], sum(packing.sizes[:3]))
    known[covariances, covariances] += packing.covariance_information(vector, problem)
    # Of all ways to move the parameters that come to the same, the one of which least is known.
    same = _same_score(problem, packing, vector)
    moved = known @ same
    lift = np.eye(len(known), len(vector)) - same @ np.linalg.solve(
        same.T @ moved, moved[: len(vector)].T
    )
    grown = n_subjects / len(some)
    known = grown * (lift.T @ known @ lift) + np.diag(curvature + 1e-8)
    half = np.linalg.inv(np.linalg.cholesky(known))
    turned = half @ lift.T
    shares, turn = np.linalg.eigh(grown * (turned @ lost @ turned.T))
    if shares[-1] > 1 + _TOO_MUCH:
        return None
    turned = half.T @ turn
    return np.asarray((turned / np.maximum(1 - shares, _LEAST_LEFT)) @ turned.T)


def scale_moves(
    problem: CorrelatedStageProblem, posterior: Posterior, packing: Packing, vector: Array
) -> Array:
    """By how much origin and log unit of the score move with the parameters, (2, n_numbers).

    What all curves do alike, in units of how well they are known at known stages.
    """
    found = np.zeros((2, len(vector)))
    if not packing.curves_vary:
        return found
    some = evenly(np.arange(problem.timeline.n_subjects), _FEW_SUBJECTS)
    few, own = problem.select(some), posterior.select(some)
    n_curves = packing.sizes[0]
    known = _of_means(few, own, packing)[:n_curves, :n_curves]
    same = _same_score(problem, packing, vector)[:n_curves]
    moved = known @ same
    unit = same.T @ moved
    found[: same.shape[1], :n_curves] = np.linalg.solve(
        unit + 1e-9 * np.diag(np.diag(unit)), moved.T
    )
    return found


def _gradients(
    problem: CorrelatedStageProblem, packing: Packing, vector: Array, at: Evaluation
) -> Array:
    """By the numbers of the vector, and by what fixes the score."""
    by_scale = packing.gradients_by_scale(problem, at)
    return np.concatenate([packing.gradients(vector, problem, at), by_scale], axis=1)


def _same_score(problem: CorrelatedStageProblem, packing: Packing, vector: Array) -> Array:
    """How all parameters move with origin and unit of the score, (n_numbers + n, n), n = 1 or 2."""
    found = np.zeros((len(vector) + 2, 2))
    by_origin, by_unit = (packing.parts(found[: len(vector), i]) for i in range(2))
    for by, move in ((by_origin, lambda x: (-x, 1.0)), (by_unit, lambda x: (0.0, np.exp(-x)))):
        if packing.curves_vary:
            one, other = (
                packing.pack_curves(problem.trajectories.rescored(*move(x))).ravel()
                for x in (_STEP, -_STEP)
            )
            by[Part.CURVES][:] = (one - other) / (2 * _STEP)
    by_origin[Part.SHIFT_MEANS][:] = 1.0
    by_unit[Part.SHIFT_MEANS][:] = packing.parts(vector)[Part.SHIFT_MEANS]
    by_unit[Part.LOG_SHIFT_SDS][:] = by_unit[Part.LOG_SPEED_MEANS][:] = 1.0
    by_unit[Part.SHIFT_EFFECTS][:] = packing.parts(vector)[Part.SHIFT_EFFECTS]
    found[len(vector) :] = np.eye(2)
    is_fixed = packing.has_follow_up and not packing.speeds_vary
    return found[:-1, :1] if is_fixed else found


def _contrasts(posterior: Posterior) -> Array:
    """Polynomials of the stage up to squares, uncorrelated and of variance 1, (5, Q, S)."""
    mean, covariance = posterior.moments()
    sds = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    speed, shift = (
        (x - mean[:, i]) / sds[:, i] for i, x in enumerate((posterior.log_speeds, posterior.shifts))
    )
    found = np.stack([shift, speed, shift**2, shift * speed, speed**2], axis=2)
    weights = posterior.weights[:, :, None]
    found = found - np.sum(weights * found, axis=0)
    both = found.transpose(1, 2, 0)
    products = both @ (weights * found).transpose(1, 0, 2)
    products += 1e-6 * np.eye(products.shape[1])
    return np.linalg.solve(np.linalg.cholesky(products), both).transpose(1, 2, 0)


def _at_known_stages(
    problem: CorrelatedStageProblem, posterior: Posterior, packing: Packing, vector: Array
) -> Array:
    """Information of curves, sites and population, were stages known; 0 of E and B."""
    n_subjects, n_clusters = problem.timeline.n_subjects, packing.n_clusters
    n_numbers = len(vector) + (1 if packing.has_follow_up and not packing.speeds_vary else 2)
    found = np.zeros((n_numbers, n_numbers))
    columns = np.r_[: packing.sizes[0], packing.of_sites]
    found[np.ix_(columns, columns)] += _of_means(problem, posterior, packing)
    # Of a normal variable, mean and log-sd are known by 1 / sd^2 and 2.
    (_, speed_sds), (_, shift_sds) = problem.prior.of_subjects()
    twice = np.full(n_subjects, 2.0)
    informations = [shift_sds**-2.0, twice, speed_sds**-2.0, twice]
    matrices = np.zeros((n_subjects, n_clusters, n_clusters))
    nothing = Evaluation(
        np.zeros(n_subjects),
        posterior,
        np.zeros((n_subjects, n_clusters, packing.curve.n_parameters())),
        matrices,
        matrices,
        np.zeros((n_subjects, 4)),
        np.zeros((len(problem.timeline.times), n_clusters)),
        np.zeros(n_subjects) if packing.is_skewed else None,
    )
    for which, information in enumerate(informations):
        at = replace(nothing, by_population=np.tile(np.eye(4)[which], (n_subjects, 1)))
        gradients = _gradients(problem, packing, vector, at)
        found += gradients.T @ (information[:, None] * gradients)
    if packing.is_skewed:
        (_, _), (means, sds) = problem.prior.of_subjects()
        by_skew = problem.prior.skewed_at((posterior.shifts - means) / sds, problem.prior.groups)
        information = np.sum(posterior.weights * by_skew.by_skew**2, axis=0)
        at = replace(nothing, by_skew=np.ones(n_subjects))
        gradients = _gradients(problem, packing, vector, at)
        found += gradients.T @ (information[:, None] * gradients)
    return found


def _of_means(problem: CorrelatedStageProblem, posterior: Posterior, packing: Packing) -> Array:
    """Information of the numbers of curves and sites, were stages known."""
    found, precisions = 0.0, problem.precisions
    mean, covariance = posterior.moments()
    sds = np.sqrt(covariance[:, 1, 1])
    follow = covariance[:, 0, 1] / covariance[:, 1, 1]
    for place, share in zip(_PLACES, _SHARES, strict=True):
        away = place * sds
        scores = problem.timeline.scores(np.exp(mean[:, 0] + follow * away), mean[:, 1] + away)
        rows = _mean_derivatives(problem, packing, scores)
        weighed = precisions @ rows
        totals = problem.timeline.by_subject(weighed)
        levels = problem.intercept_covariances @ totals
        own = np.tensordot(rows, weighed, axes=((0, 1), (0, 1)))
        own -= np.tensordot(totals, levels, axes=((0, 1), (0, 1)))
        found = found + share * own
    return np.asarray(found)


def _mean_derivatives(problem: CorrelatedStageProblem, packing: Packing, scores: Array) -> Array:
    """Of the clusters' means at scores by numbers of curves and sites, (n_visits, K, n_numbers)."""
    n_visits, n_clusters = len(scores), packing.n_clusters
    width = packing.sizes[0] // n_clusters
    n_offsets = packing.of_sites.stop - packing.of_sites.start
    found = np.zeros((n_visits, n_clusters, packing.sizes[0] + n_offsets))
    jacobian = problem.trajectories.jacobian(scores) if width else None
    if jacobian is not None:
        jacobian = np.where(packing.logarithmic, problem.trajectories.to_array(), 1.0) * jacobian
    of_visits = None
    if packing.sites is not None and problem.sites is not None:
        sites = problem.sites.sites
        of_visits = np.where(sites[:, None] >= 0, packing.sites[sites], 0.0)
    for k in range(n_clusters):
        if jacobian is not None:
            found[:, k, k * width : (k + 1) * width] = jacobian[:, k]
        if of_visits is not None:
            found[:, k, packing.sizes[0] + k :: n_clusters] = of_visits
    return found
