"""The marginal likelihood of the pooled means, stages integrated out, and its gradient.

m_ij = f(s_ij) + u_i + e_ij with u_i ~ N(0, B), e_ij ~ N(0, E) and the stage of subject i from the
population. The stage is integrated on a few points; the gradient of each subject's log-likelihood
is the expected gradient of the complete one over its posterior (Fisher's identity).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.pieces import NUMBERS_AT_ONCE
from braindive.staging.posterior import Points, Posterior
from braindive.staging.residuals import Covariances, Part, noise_of
from braindive.values.threads import in_threads


@dataclass(frozen=True)
class Evaluation:
    """Log-likelihoods of all subjects, their posteriors and gradients.

    Parameters
    ----------
    log_likelihoods : (n_subjects,)
    posterior : Posterior
    by_curves : (n_subjects, n_clusters, n_parameters)
        Gradient by the curves' parameters.
    by_within, by_between : (n_subjects, n_clusters, n_clusters)
        By E and B, all entries taken for free. Fewer rows where sums over subjects were asked for,
        and none where nothing was.
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


def evaluate(
    problem: CorrelatedStageProblem, points: Points, covariances: Covariances = "each"
) -> Evaluation:
    """Integrate the stages of all subjects, and differentiate.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        Subjects and parameters; the group of every subject is known.
    points : Points
        Where to evaluate.
    covariances : {"each", "sum", "none"}
        Whether derivatives by E and B are wanted of each subject, of all together, or not at all.
    """
    timeline, noise = problem.timeline, noise_of(problem)
    n_subjects, n_clusters = timeline.n_subjects, len(problem.noise)
    n_points, n_parameters = len(points.shifts.anchors), problem.trajectories.n_parameters()
    log_speeds, shifts, log_weights = points.log_weights(problem.prior)
    has_sites = problem.sites is not None
    posterior = Posterior(log_speeds, shifts, np.empty_like(shifts))
    log_likelihoods = np.empty(n_subjects)
    by_curves = np.empty((n_subjects, n_clusters, n_parameters))
    by_means = np.empty((len(timeline.times) if has_sites else 0, n_clusters))
    by_stage = np.empty((2, n_points, n_subjects))

    def take(some: slice) -> tuple[Array, Array]:
        """Fill in what belongs to some of the subjects; return what is said of E and B."""
        part = Part.of(timeline, some)
        # Points come last, since they are many: what belongs to one visit lies together.
        moved = part.moves(np.exp(log_speeds[:, some].T), timeline)
        scores = part.combine(np.add, moved, shifts[:, some].T)
        curves = problem.trajectories.at_points(scores)
        residuals = noise.residuals(part, curves)
        heights = log_weights[:, some].T - 0.5 * residuals.squares
        highest = heights.max(axis=1)
        weights = np.exp(heights - highest[:, None])
        height = weights.sum(axis=1)
        weights /= height[:, None]
        posterior.weights[:, some] = weights.T
        log_likelihoods[some] = highest + np.log(height) + noise.log_constants[some]

        pull = residuals.pull(weights, covariances)
        if has_sites:
            by_means[part.visits] = pull.by_values.sum(axis=2).T
        # By curves and scores, and from the scores by shift and log speed.
        by_parameters, by_score = curves.pull_back(pull.by_values)
        by_curves[some] = np.add.reduceat(by_parameters, part.starts, axis=0)
        by_stage[0, :, some] = part.total(by_score * moved).T
        by_stage[1, :, some] = part.total(by_score).T
        return pull.by_within, pull.by_between

    n_numbers = problem.pooled.means.size * n_points
    pieces = in_threads(take, n_subjects, max(1, int(NUMBERS_AT_ONCE * n_subjects / n_numbers)))
    by_within, by_between = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    by_population, by_skew = points.by_population(problem.prior, posterior, by_stage)
    return Evaluation(
        log_likelihoods,
        posterior,
        by_curves,
        by_within,
        by_between,
        by_population,
        by_means,
        by_skew,
    )
