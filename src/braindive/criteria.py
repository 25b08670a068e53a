"""Criteria for the choice between models: log-likelihood, AIC, BIC, and that of new people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from braindive.cohort.cohort import Cohort
from braindive.dive.e_step import sweep_vertices
from braindive.dive.field import log_evidence
from braindive.dive.starts import Outcome
from braindive.fitted import Fitted, timeline_of
from braindive.scale import Scale
from braindive.values.walking import one_thread_per_product


@dataclass(frozen=True)
class Criteria:
    """How well a model describes its data, and at what price.

    Parameters
    ----------
    log_likelihood : float
        Of all measurements in the user's unit, without the Markov random field.
    n_parameters : float
        Numbers that were estimated; what is shrunk counts as far as it is not.
    n_measured : float
        Measurements.
    """

    log_likelihood: float
    n_parameters: float
    n_measured: float

    @property
    def aic(self) -> float:
        """Akaike's information criterion; smaller is better."""
        return 2 * self.n_parameters - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's Bayesian information criterion; smaller is better."""
        return self.n_parameters * float(np.log(self.n_measured)) - 2 * self.log_likelihood


def criteria_of(outcome: Outcome, scale: Scale, of_sites: float = 0.0) -> Criteria:
    """Judge a fit.

    The paper counts the parameters of each cluster's curve, its noise, speed and shift of each
    subject, and the strength of the field; where vertices differ, there is also the covariance of
    their own curves in each cluster, and each cluster's share of the vertices. Offsets of sites are
    shrunk, and count by their effective number (Vaida and Blanchard 2005, doi
    10.1093/biomet/92.2.351), because the likelihood is that of the values less the offsets.

    Parameters
    ----------
    outcome : Outcome
        The fit.
    scale : Scale
        Its units.
    of_sites : float
        Number of parameters of sites; see `SiteFit.n_parameters`.
    """
    state, problem = outcome.state, outcome.problem
    assert state.log_densities is not None
    if problem.fixed is not None:
        evidence = float(np.sum(problem.fixed * state.log_densities))
    else:
        shares = state.parameters.shares is not None
        evidence = float(log_evidence(state.log_densities, shares=shares).sum())
    curves = state.parameters.trajectories
    n_parameters = (curves.n_parameters() + 1) * len(curves) + 1 + of_sites
    if state.parameters.vertex_covariance is not None:
        own = curves.n_parameters()
        n_parameters += len(curves) * own * (own + 1) // 2
        n_parameters += 0 if state.parameters.shares is None else len(curves) - 1
    if problem.staging:
        n_parameters += 2 * problem.timeline.n_subjects
    n_measured = float(problem.measurements.counts.sum())
    return Criteria(float(scale.log_densities(evidence, n_measured)), n_parameters, n_measured)


def mean_log_likelihood(model: Fitted, cohort: Cohort, client: Any = None) -> float:
    """Mean log-likelihood of one measurement of new people, who are staged first.

    Parameters
    ----------
    model : Fitted
        A fitted model.
    cohort : Cohort
        The people.
    client : distributed.Client, optional
        Dask cluster over which to spread the values.
    """
    cohort = model.prepare(cohort)
    timeline = timeline_of(cohort, model.internal_.time_unit)
    measurements, curves = model.products(cohort, client), model.stager().trajectories
    stages = model.place_pooled(cohort, timeline, *model.pool(measurements))
    scores = timeline.scores(stages.speeds, stages.shifts)
    found = replace(model.internal_.parameters, trajectories=curves, shares=None)
    with one_thread_per_product():
        swept, _ = sweep_vertices(measurements, scores, found)
    with np.errstate(divide="ignore"):
        evidence = log_evidence(swept.log_densities, np.log(model.responsibilities_))
    per_measurement = float(evidence.sum()) / float(measurements.counts.sum())
    return float(model.internal_.scale.log_densities(per_measurement))
