"""Criteria for the choice between models: log-likelihood, AIC and BIC."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braindive.dive.field import log_evidence
from braindive.dive.starts import Outcome
from braindive.scale import Scale


@dataclass(frozen=True)
class Criteria:
    """How well a model describes its data, and at what price.

    Parameters
    ----------
    log_likelihood : float
        Of all measurements in the user's unit, without the Markov random field.
    n_parameters : int
        Numbers that were estimated.
    n_measured : float
        Measurements.
    """

    log_likelihood: float
    n_parameters: int
    n_measured: float

    @property
    def aic(self) -> float:
        """Akaike's information criterion; smaller is better."""
        return 2 * self.n_parameters - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's Bayesian information criterion; smaller is better."""
        return self.n_parameters * float(np.log(self.n_measured)) - 2 * self.log_likelihood


def criteria_of(outcome: Outcome, scale: Scale) -> Criteria:
    """Judge a fit.

    The paper counts the parameters of each cluster's curve, its noise, speed and shift of each
    subject, and the strength of the field; where vertices differ, there is also the covariance of
    their own curves in each cluster, and each cluster's share of the vertices.

    Parameters
    ----------
    outcome : Outcome
        The fit.
    scale : Scale
        Its units.
    """
    state, problem = outcome.state, outcome.problem
    assert state.log_densities is not None
    if problem.fixed is not None:
        evidence = float(np.sum(problem.fixed * state.log_densities))
    else:
        shares = state.parameters.shares is not None
        evidence = float(log_evidence(state.log_densities, shares=shares).sum())
    curves = state.parameters.trajectories
    n_parameters = (curves.n_parameters() + 1) * len(curves) + 1
    if state.parameters.vertex_covariance is not None:
        own = curves.n_parameters()
        n_parameters += len(curves) * own * (own + 1) // 2
        n_parameters += 0 if state.parameters.shares is None else len(curves) - 1
    if problem.staging:
        n_parameters += 2 * problem.timeline.n_subjects
    n_measured = float(problem.measurements.counts.sum())
    return Criteria(float(scale.log_densities(evidence, n_measured)), n_parameters, n_measured)
