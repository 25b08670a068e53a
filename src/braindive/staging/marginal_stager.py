"""Place subjects on the disease's course, with errors that allow for correlated noise.

The EM takes vertices for independent and stages for known. Where noise is correlated over the
surface that makes it too sure of itself. What is learnt here from the pooled training measurements
(curves with the stages integrated out, and the covariance of the residuals) gives stages by
generalised least squares, and their errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.dive.curves import Bounds, Curves
from braindive.dive.em import Parameters
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Gamma, Normal, Priors
from braindive.dive.stages import find_stages, settle_stages
from braindive.dive.timeline import Timeline, evenly
from braindive.staging.covariance import CorrelatedStageProblem, Covariance, is_unlike
from braindive.staging.curve_uncertainty import CurveUncertainty
from braindive.staging.marginal import StagePosterior, integrate, refine
from braindive.staging.stagers import Stages

# Subjects from whom curves and covariances are learnt; a choice that bounds the cost. With all of
# 10,000 subjects learning took longer than the fit.
_ENOUGH_SUBJECTS = 1000


@dataclass(frozen=True)
class Training:
    """What a fit leaves behind for learning how to place subjects.

    Parameters
    ----------
    timeline : Timeline
        Of the training subjects.
    sums, weights : (n_visits, n_clusters)
        Their measurements pooled over vertices.
    reference : (n_visits,) bool
        Visits whose scores have mean 0 and spread 1.
    bounds : Bounds
        Of the curves.
    """

    timeline: Timeline
    sums: Array
    weights: Array
    reference: BoolArray
    bounds: Bounds


@dataclass(frozen=True)
class MarginalStages(Stages):
    """Expected speeds and shifts of some subjects, in internal units, and what is behind them."""

    problem: CorrelatedStageProblem
    posterior: StagePosterior


@dataclass(frozen=True)
class MarginalStager:
    """What is needed to place subjects, in internal units.

    Parameters
    ----------
    trajectories : Curves
        Curves with the stages integrated out.
    noise : (n_clusters,)
        Noise of one vertex.
    speed_prior, shift_prior : Gamma, Normal
        Priors; the shift's is the training population's.
    covariance : Covariance
        Of the pooled residuals.
    curve_uncertainty : CurveUncertainty
        How well the curves are known.
    centre, spread : float
        The user's score is (internal score - centre) / spread.
    known_shifts, known_scores : arrays
        Of the training subjects and visits.
    """

    trajectories: Curves
    noise: Array
    speed_prior: Gamma
    shift_prior: Normal
    covariance: Covariance
    curve_uncertainty: CurveUncertainty
    centre: float
    spread: float
    known_shifts: Array
    known_scores: Array

    @classmethod
    def learn(cls, training: Training, parameters: Parameters, priors: Priors) -> MarginalStager:
        """Learn from the pooled measurements of the training subjects.

        Of very many subjects, curves and covariances are learnt from enough of them, and the
        curves' uncertainty is theirs.
        """
        everyone = CorrelatedStageProblem(
            PooledMeans.from_sums(training.sums, training.weights),
            training.timeline,
            parameters.trajectories,
            parameters.noise,
            priors.speed,
            priors.shift,
            Covariance.independent(training.weights.mean(axis=0), parameters.noise),
        )
        enough = evenly(np.arange(training.timeline.n_subjects), _ENOUGH_SUBJECTS)
        some, visits = everyone.select(enough), training.timeline.select(enough)[1]
        speeds, shifts = parameters.speeds[enough], parameters.shifts[enough]
        learnt = refine(some, speeds, shifts, training.bounds, priors.trajectory)
        everyone = replace(
            everyone,
            trajectories=learnt.trajectories,
            shift_prior=learnt.shift_prior,
            covariance=learnt.covariance,
        )
        modes = settle_stages(everyone, parameters.speeds, parameters.shifts)
        posterior = integrate(everyone, *modes)
        scores = training.timeline.scores(*posterior.mean())
        curve_uncertainty = CurveUncertainty.from_training(
            learnt, posterior.select(enough), training.reference[visits]
        )
        return cls(
            learnt.trajectories,
            learnt.noise,
            learnt.speed_prior,
            learnt.shift_prior,
            learnt.covariance,
            curve_uncertainty,
            float(np.mean(scores[training.reference])),
            float(np.std(scores[training.reference])) or 1.0,
            posterior.mean()[1],
            scores,
        )

    def place(self, timeline: Timeline, sums: Array, weights: Array) -> MarginalStages:
        """Place the subjects whose measurements were pooled."""
        problem = CorrelatedStageProblem(
            PooledMeans.from_sums(sums, weights),
            timeline,
            self.trajectories,
            self.noise,
            self.speed_prior,
            self.shift_prior,
            self.covariance,
        )
        posterior = integrate(problem, *find_stages(problem, self.known_shifts))
        return MarginalStages(timeline, *posterior.mean(), problem, posterior)

    def errors(self, placed: MarginalStages) -> Array:
        """Standard errors of speed, shift at time 0 and first score, (n_subjects, 3).

        In internal units, like `StagePosterior.standard_errors`.
        """
        own = placed.posterior.standard_errors()
        curves = self.curve_uncertainty.variances(
            placed.problem, placed.posterior, self.centre, self.spread
        )
        return np.hypot(own, np.sqrt(curves))

    def is_outside(self, placed: MarginalStages, errors: Array) -> BoolArray:
        """Where a stage should not be relied upon.

        Beyond the training scores, where curves are too flat to tell, or where the maps are like
        none that were seen in training.
        """
        scores = placed.timeline.scores(placed.speeds, placed.shifts)[placed.timeline.starts]
        beyond = (scores < self.known_scores.min()) | (scores > self.known_scores.max())
        vague = errors[:, 2] > np.std(self.known_scores)
        return np.asarray(beyond | vague | is_unlike(placed.problem, placed.speeds, placed.shifts))
