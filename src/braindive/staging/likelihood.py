"""The marginal likelihood of the pooled means, stages integrated out, and its gradient.

m_ij = f(s_ij) + u_i + e_ij with u_i ~ N(0, B), e_ij ~ N(0, E) and the stage of subject i from the
population. The stage is integrated on a few points; the gradient of each subject's log-likelihood
is the expected gradient of the complete one over its posterior (Fisher's identity).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.pieces import NUMBERS_AT_ONCE, in_pieces
from braindive.staging.posterior import Points, Posterior


@dataclass(frozen=True)
class Evaluation:
    """Log-likelihoods of all subjects, their posteriors and, if asked for, gradients.

    Parameters
    ----------
    log_likelihoods : (n_subjects,)
    posterior : Posterior
    by_curves : (n_subjects, n_clusters, n_parameters)
        Gradient by the curves' parameters.
    by_within, by_between : (n_subjects, n_clusters, n_clusters)
        By E and B, all entries taken for free.
    by_population : (n_subjects, 4)
        By mean and log-sd of the shift, and mean and log-sd of the log speed, of its own group.
    by_means : (n_visits, n_clusters)
        By what is added to the curves at each visit; no rows where there are no sites.
    by_skew : (n_subjects,) or None
        By the skew of the shifts of its group; None where they are normal.
    """

    log_likelihoods: Array
    posterior: Posterior
    by_curves: Array
    by_within: Array
    by_between: Array
    by_population: Array
    by_means: Array
    by_skew: Array | None = None


def evaluate(problem: CorrelatedStageProblem, points: Points) -> Evaluation:
    """Integrate the stages of all subjects, and differentiate.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        Subjects and parameters; the group of every subject is known.
    points : Points
        Where to evaluate.
    """
    timeline = problem.timeline
    n_subjects, n_clusters = timeline.n_subjects, len(problem.noise)
    n_points, n_parameters = len(points.shifts.anchors), problem.trajectories.n_parameters()
    log_speeds, shifts, log_weights = points.log_weights(problem.prior)
    has_sites = problem.sites is not None
    found = Evaluation(
        np.empty(n_subjects),
        Posterior(log_speeds, shifts, np.empty_like(shifts)),
        np.empty((n_subjects, n_clusters, n_parameters)),
        np.empty((n_subjects, n_clusters, n_clusters)),
        np.empty((n_subjects, n_clusters, n_clusters)),
        np.empty((n_subjects, 4)),
        np.empty((len(timeline.times) if has_sites else 0, n_clusters)),
    )
    precisions, totals = problem.precisions, problem.totals
    intercepts, constants = problem.intercept_covariances, problem.log_constants
    by_stage = np.empty((2, n_points, n_subjects))
    n_numbers = problem.pooled.means.size * n_points
    ends = np.append(timeline.starts, len(timeline.times))
    shared, outer = len(precisions) == 1, None
    if problem.multipliers is not None:
        shared, outer = False, problem.multipliers[:, :, None] * problem.multipliers[:, None, :]

    def take(some: slice) -> None:
        """Fill in what belongs to some of the subjects."""
        visits = slice(ends[some.start], ends[some.stop])
        of_visit = timeline.subject_of_visit[visits] - some.start
        starts = timeline.starts[some] - visits.start
        # Points come last, since they are many: what belongs to one visit lies together.
        moved = np.exp(log_speeds[:, some]).T[of_visit] * timeline.times[visits, None]
        scores = moved + shifts[:, some].T[of_visit]
        curves = problem.trajectories.at_points(scores)

        # P (r - u) of every visit, where u is what is expected of the level given the stage.
        residuals = problem.means[visits, :, None] - curves.values
        own = precisions if shared else precisions[visits]
        if shared:
            total = own @ np.add.reduceat(residuals, starts, axis=0)
        else:
            total = np.add.reduceat(own @ residuals, starts, axis=0)
        unknown = intercepts[some]
        levels = unknown @ total
        errors = own @ (residuals - levels[of_visit])
        misfit = np.add.reduceat(np.einsum("nkq,nkq->nq", residuals, errors), starts, axis=0)
        heights = log_weights[:, some].T - 0.5 * misfit
        highest = heights.max(axis=1)
        weights = np.exp(heights - highest[:, None])
        height = weights.sum(axis=1)
        weights /= height[:, None]
        found.posterior.weights[:, some] = weights.T
        evidence = highest + np.log(height)
        found.log_likelihoods[some] = evidence + constants[some]

        # By curves and scores, and from the scores by shift and log speed.
        weighted = weights[of_visit, None] * errors
        if has_sites:
            found.by_means[visits] = weighted.sum(axis=2)
        by_curves, by_score = curves.pull_back(weighted)
        found.by_curves[some] = np.add.reduceat(by_curves, starts, axis=0)
        by_stage[0, :, some] = np.add.reduceat(by_score * moved, starts, axis=0).T
        by_stage[1, :, some] = np.add.reduceat(by_score, starts, axis=0).T
        # By E, and by B, for which B^-1 u = sum_j P (r - u).
        # What is said of E_ij is said of E by the visit's multipliers.
        factors = 1.0 if outer is None else outer[visits]
        by_within = np.add.reduceat(factors * (weighted @ errors.swapaxes(1, 2)), starts, axis=0)
        if shared:
            counts = timeline.n_visits_of_subject[some, None, None]
            by_within += counts * (own @ unknown @ own - own)
        else:
            left = own @ unknown[of_visit] @ own - own
            by_within += np.add.reduceat(factors * left, starts, axis=0)
        found.by_within[some] = 0.5 * by_within
        whole = totals[some]
        pulled = total - whole @ levels
        by_between = (weights[:, None] * pulled) @ pulled.swapaxes(1, 2)
        found.by_between[some] = 0.5 * (by_between + whole @ unknown @ whole - whole)

    in_pieces(take, n_subjects, max(1, int(NUMBERS_AT_ONCE * n_subjects / n_numbers)))
    weights, (speed_group, shift_group) = found.posterior.weights, problem.prior.of_subjects()
    pull, by_skew = None, None
    if problem.prior.population.skews is not None:
        means, sds = shift_group
        skewed = problem.prior.skewed_at((shifts - means) / sds, problem.prior.groups)
        pull, by_skew = skewed.pull, np.sum(weights * skewed.by_skew, axis=0)
    of_speed = points.log_speeds.by_group(weights, by_stage[0], *speed_group)
    of_shift = points.shifts.by_group(weights, by_stage[1], *shift_group, pull)
    np.stack([*of_shift, *of_speed], axis=1, out=found.by_population)
    return replace(found, by_skew=by_skew)
