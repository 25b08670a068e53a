"""What the uncertainty of the curves adds to that of the stages.

The curves are estimated from a finite number of subjects, and a stage read off slightly wrong
curves is slightly wrong. The delta method carries the curves' covariance to the stages, after
taking out what the standardisation of the score takes out: its origin and its unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.marginal import StagePosterior

# Eigenvalues of the information below this share of the largest count as 0: such combinations of
# parameters move nobody's stage. Near the square root of the machine precision.
_UNKNOWN = 1e-8


@dataclass(frozen=True)
class CurveUncertainty:
    """How well the curves and the shifts' prior are known, and how that moves the score's scale.

    Parameters
    ----------
    covariance : (n_parameters, n_parameters)
        Of the parameters of all curves, and of the mean and log-spread of the shifts.
    centre, spread : (n_parameters,)
        Derivatives of the mean and the spread by which scores are standardised.
    """

    covariance: Array
    centre: Array
    spread: Array

    @classmethod
    def from_training(
        cls, problem: CorrelatedStageProblem, posterior: StagePosterior, reference: BoolArray
    ) -> CurveUncertainty:
        """Learn from the training subjects.

        Parameters
        ----------
        problem, posterior
            The training subjects and the distribution of their stages.
        reference : (n_visits,) bool
            Visits whose scores have mean 0 and spread 1.
        """
        gradients, by_speed, by_shift = sensitivities(problem, posterior)
        information = gradients.T @ gradients
        scale = 1 / np.sqrt(np.maximum(np.diag(information), 1e-300))
        values, vectors = np.linalg.eigh(information * scale[:, None] * scale)
        inverse = np.where(values > _UNKNOWN * values.max(), 1 / np.maximum(values, 1e-300), 0.0)
        # From few subjects this is larger than the inverse of the expected information, about as
        # much as estimates from few subjects scatter more than that.
        covariance = (vectors * inverse) @ vectors.T * scale[:, None] * scale

        timeline = problem.timeline
        of_visit, times = timeline.subject_of_visit[reference], timeline.times[reference]
        scores = timeline.scores(*posterior.mean())[reference]
        moves = times[:, None] * by_speed[of_visit] + by_shift[of_visit]
        centre, standard = moves.mean(axis=0), scores - scores.mean()
        spread = standard @ (moves - centre) / len(scores) / max(float(np.std(scores)), 1e-300)
        return cls(covariance, centre, spread)

    def variances(
        self,
        problem: CorrelatedStageProblem,
        posterior: StagePosterior,
        centre: float,
        spread: float,
    ) -> Array:
        """Variance that the curves add to speed, shift at time 0 and first score, (S, 3).

        In internal units, like `StagePosterior.standard_errors`.
        """
        _, by_speed, by_shift = sensitivities(problem, posterior)
        timeline = problem.timeline
        speeds, shifts = posterior.mean()
        found = []
        for time in (None, -timeline.centres / timeline.unit, timeline.times[timeline.starts]):
            if time is None:
                moves = by_speed - np.outer(speeds / spread, self.spread)
            else:
                scores = speeds * time + shifts
                moves = time[:, None] * by_speed + by_shift - self.centre
                moves = moves - np.outer((scores - centre) / spread, self.spread)
            found.append(np.einsum("ip,pq,iq->i", moves, self.covariance, moves))
        return np.stack(found, axis=1)


def sensitivities(
    problem: CorrelatedStageProblem, posterior: StagePosterior
) -> tuple[Array, Array, Array]:
    """Derivatives by the curves' parameters and by the mean and log-spread of the shifts.

    Returns
    -------
    gradients, speeds, shifts : (n_subjects, n_parameters)
        Of each subject's log-likelihood with its stage integrated out (Fisher's identity), and of
        its expected speed and shift: the covariance, over the posterior, with the derivative.
    """
    timeline = problem.timeline
    size = problem.trajectories.to_array().size + 2
    mean, sd = float(problem.shift_prior.mean), float(problem.shift_prior.sd)
    totals = np.zeros((3, timeline.n_subjects, size))
    for speeds, shifts, weights in zip(
        posterior.speeds, posterior.shifts, posterior.weights, strict=True
    ):
        scores = timeline.scores(speeds, shifts)
        residuals = problem.pooled.means - problem.trajectories.evaluate(scores)
        levels = problem.expected_intercepts(residuals)
        weighted_residuals = problem.weigh(residuals - levels[timeline.subject_of_visit])
        by_curves = weighted_residuals[:, :, None] * problem.trajectories.jacobian(scores)
        away = (shifts - mean) / sd
        gradients = np.column_stack(
            [timeline.by_subject(by_curves.reshape(len(scores), -1)), away / sd, away**2 - 1]
        )
        totals += np.stack([weights, weights * speeds, weights * shifts])[:, :, None] * gradients
    expected_speeds, expected_shifts = posterior.mean()
    return (
        totals[0],
        totals[1] - expected_speeds[:, None] * totals[0],
        totals[2] - expected_shifts[:, None] * totals[0],
    )
