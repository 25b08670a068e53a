"""Effects of covariates, estimated from where a fit without them has ended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from braindive.arrays import Array
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Priors
from braindive.staging.covariance import CorrelatedStageProblem, Covariance
from braindive.staging.curve_uncertainty import ScoreUnit, unit_of_controls, unit_of_years
from braindive.staging.expected_information import known_information
from braindive.staging.marginal_fit import MarginalFit
from braindive.staging.marginal_stager import MarginalStager, Training
from braindive.staging.optimum import look
from braindive.staging.packing import Packing, Part
from braindive.staging.population import Design, Population, StagePrior
from braindive.staging.posterior import COARSE, searched_points
from braindive.staging.site_means import SiteMeans
from braindive.staging.weak_priors import WeakPriors


def fit_effects(
    stager: MarginalStager,
    people: Training,
    design: Design,
    priors: Priors,
    scale: str,
    curves_vary: bool = True,
) -> tuple[MarginalStager, Array]:
    """Fit the marginal model again, with covariates, from where it is without.

    Parameters
    ----------
    stager : MarginalStager
        At the optimum without them.
    people : Training
        Subjects; their groups are known.
    design : Design
        What covariates say of each of them.
    priors : Priors
        Of the fit.
    scale : {"years", "controls"}
        Of the score.
    curves_vary : bool
        Whether curves, E and B are fitted again; with other people than those of the fit they stay
        as they are, and so does the unit of the score.

    Returns
    -------
    found : MarginalStager
        With effects.
    covariance : (n_parameters + 1, n_parameters + 1)
        Of the parameters of its `curve_uncertainty`, and of the skew of the last group's shifts,
        which is 0 where they are normal.
    """
    assert people.groups is not None
    problem, centre = _problem(stager, people, design.at(people.timeline))
    packing = Packing.of(problem, people.bounds, not priors.speed.is_fixed)
    if not curves_vary:
        packing = replace(packing, curves_vary=False, within=None, between=None, sites=None)
    independent = Covariance.independent(problem.covariance.weights, problem.noise)
    weak = WeakPriors.of(problem, packing, people.bounds, independent.within, priors.trajectory)
    points = searched_points(problem, stager.known_shifts, COARSE)
    here = look(problem, packing.pack(problem), points, packing, weak)
    fit = MarginalFit(here, packing, weak).on_fine_points()
    found, posterior = fit.climb.problem, fit.climb.evaluation.posterior
    if not curves_vary:
        n_parameters = len(packing.parameter_jacobian(found))
        unit = ScoreUnit(
            stager.centre,
            stager.spread,
            np.zeros(n_parameters),
            np.zeros(n_parameters),
            stager.curve_uncertainty.unit_variance,
        )
    elif scale == "controls":
        unit = unit_of_controls(found, posterior, people.reference)
    else:
        unit = unit_of_years(found, posterior)
    noise = stager.visit_noise
    if noise is not None:
        noise = replace(noise, origin=noise.origin - centre)
    # Effects are differences, which do not hang on where the score begins.
    known_sites = stager.sites if curves_vary else None
    stager = MarginalStager.of(fit, unit, noise, known_sites, looks_along=False)
    return stager, _with_skew(fit, stager.curve_uncertainty.covariance)


def _with_skew(fit: MarginalFit, covariance: Array) -> Array:
    """Covariance of the parameters and of the skew."""
    wider = np.pad(covariance, (0, 1))
    packing = fit.packing
    if packing.is_skewed:
        jacobian = packing.parameter_jacobian(fit.climb.problem)
        skew = np.zeros((1, jacobian.shape[1]))
        packing.parts(skew)[Part.SKEW][:] = 1.0
        jacobian = np.concatenate([jacobian, skew])
        information = known_information(fit.climb, packing)
        wider = jacobian @ np.linalg.solve(information, jacobian.T)
    return wider


def _problem(
    stager: MarginalStager, people: Training, design: Design
) -> tuple[CorrelatedStageProblem, float]:
    """The fit's optimum as one with covariates without effects, and where its score begins.

    Without covariates the mean of the last group's shifts is 0 at the mean of its visits; with
    them, at its first visits. The origin of the score moves by the way between them.
    """
    known, groups = stager.population, people.groups
    known_sites, sites = stager.sites, people.sites
    assert groups is not None
    centre, means = 0.0, known.shift_means
    if known.effects is None:
        speeds = np.exp(known.log_speed_means + known.log_speed_sds**2 / 2)
        leads = [_mean(design.lead[groups == group]) for group in range(known.n_groups)]
        centre = -leads[-1] * float(speeds[-1])
        means = means - centre - np.array(leads) * speeds
    population = Population(
        means,
        known.shift_sds,
        known.log_speed_means,
        known.log_speed_sds,
        known.shares,
        design.no_effects(),
        known.skews,
    )
    # Where people are, and so how noisy their visits are, is what the fit says, whose covariates
    # may be others.
    placed = stager.place(
        people.timeline, people.sums, people.weights, groups, people.design, sites
    )
    multipliers = placed.problem.multipliers
    problem = CorrelatedStageProblem(
        PooledMeans.from_sums(people.sums, people.weights),
        people.timeline,
        stager.trajectories.rescored(centre, 1.0),
        stager.noise,
        StagePrior(population, groups, design),
        stager.covariance,
        multipliers,
        None if known_sites is None or sites is None else SiteMeans.at(sites, known_sites),
    )
    return problem, centre


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else 0.0
