"""Place subjects on the disease's course, with errors, by the marginal model.

What `marginal_fit` has found from the pooled training measurements gives expected stages of
anybody, and their errors, which carry what is not known of curves, population, origin and unit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.curves import Bounds, Curves
from braindive.dive.pooled import PooledMeans
from braindive.dive.timeline import Timeline
from braindive.staging.covariance import CorrelatedStageProblem, Covariance, is_unlike
from braindive.staging.curve_uncertainty import (
    CurveUncertainty,
    ScoreUnit,
    small_sample_inflation,
)
from braindive.staging.expected_information import known_information
from braindive.staging.marginal_fit import MarginalFit
from braindive.staging.population import UNKNOWN, Design, Population, StagePrior
from braindive.staging.posterior import Posterior
from braindive.staging.profile_likelihood import profile_covariance
from braindive.staging.site_means import ClusterSites, SiteMeans
from braindive.staging.stagers import Stages
from braindive.staging.two_modes import integrate_modes
from braindive.staging.visit_noise import ROUNDS, VisitNoise


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
        Visits of controls, or all without controls: in the published scale their scores have mean
        0 and spread 1.
    bounds : Bounds
        Of the curves.
    groups : (n_subjects,) int or None
        Group of each subject in the population.
    design : Design or None
        What covariates say of each subject.
    sites : (n_visits,) int or None
        Site of each visit.
    """

    timeline: Timeline
    sums: Array
    weights: Array
    reference: BoolArray
    bounds: Bounds
    groups: IntArray | None = None
    design: Design | None = None
    sites: IntArray | None = None

    def select(self, subjects: IntArray) -> Training:
        """Return what is known of some subjects, ascending."""
        timeline, visits = self.timeline.select(subjects)
        return replace(
            self,
            timeline=timeline,
            sums=self.sums[visits],
            weights=self.weights[visits],
            reference=self.reference[visits],
            groups=None if self.groups is None else self.groups[subjects],
            design=None if self.design is None else self.design.select(subjects),
            sites=None if self.sites is None else self.sites[visits],
        )


@dataclass(frozen=True)
class MarginalStages(Stages):
    """Expected speeds and shifts of some subjects, in internal units, and what is behind them.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects.
    posterior : Posterior
        Where they may be.
    likeliest : (n_subjects,), (n_subjects,)
        Speeds and shifts expected around the higher mode, of those who may be at two places: what
        is expected of both together may be a place where they are not.
    judged : CorrelatedStageProblem or None
        The subjects with the noise that is usual at their damage, by which they are judged: by
        their own scatter, nobody would stand out. None where that is the noise of `problem`.
    """

    problem: CorrelatedStageProblem
    posterior: Posterior
    likeliest: tuple[Array, Array]
    judged: CorrelatedStageProblem | None = None

    def unlike(self) -> BoolArray:
        """Whose maps are like none that were seen in training."""
        return is_unlike(self.judged or self.problem, *self.likeliest)

    def for_prediction(self) -> Stages:
        """Stages to go on from into the future: usual ones for who is like nobody in training.

        Residuals so large say that the curves do not describe the person. The stage that fits best
        may then have any speed, and foretells falls that never come.
        """
        unlike = self.unlike()
        usual = self.problem.start()
        return Stages(
            self.timeline,
            *(np.where(unlike, x, own) for x, own in zip(usual, self.likeliest, strict=True)),
        )


@dataclass(frozen=True)
class MarginalStager:
    """What is needed to place subjects, in internal units.

    Parameters
    ----------
    trajectories : Curves
        The clusters' curves.
    noise : (n_clusters,)
        Noise of one vertex.
    population : Population
        How shifts and log speeds are distributed.
    covariance : Covariance
        Of the pooled residuals.
    curve_uncertainty : CurveUncertainty
        How well curves and population are known.
    centre, spread : float
        The user's score is (internal score - centre) / spread.
    known_shifts, known_scores : arrays
        Of the training subjects and visits.
    visit_noise : VisitNoise or None
        How noise differs between visits; None where it does not.
    sites : ClusterSites or None
        Offsets and noise of sites.
    """

    trajectories: Curves
    noise: Array
    population: Population
    covariance: Covariance
    curve_uncertainty: CurveUncertainty
    centre: float
    spread: float
    known_shifts: Array
    known_scores: Array
    visit_noise: VisitNoise | None = None
    sites: ClusterSites | None = None

    @classmethod
    def of(
        cls,
        fit: MarginalFit,
        unit: ScoreUnit,
        visit_noise: VisitNoise | None = None,
        sites: ClusterSites | None = None,
        looks_along: bool = True,
    ) -> MarginalStager:
        """Keep what a fit has found.

        Parameters
        ----------
        fit : MarginalFit
            At the optimum.
        unit : ScoreUnit
            Origin and unit of the user's score.
        visit_noise : VisitNoise, optional
            That of the fit.
        sites : ClusterSites, optional
            What is known of sites.
        looks_along : bool
            Whether errors are larger where the likelihood falls slowly to one side, which is to
            where the origin may be early; else they are those of its curvature.
        """
        found = fit.climb.problem
        speeds, shifts = fit.climb.evaluation.posterior.mean()
        jacobian = fit.packing.parameter_jacobian(found)
        packed = np.linalg.inv(known_information(fit.climb, fit.packing))
        if fit.packing.curves_vary and looks_along:
            packed = profile_covariance(fit, unit, packed)
        covariance = jacobian @ packed @ jacobian.T
        # Offsets of sites are shrunk, and count for little.
        offsets = fit.packing.of_sites
        n_numbers = len(fit.packing.of_stages()) - (offsets.stop - offsets.start)
        return cls(
            found.trajectories,
            found.noise,
            found.prior.population,
            found.covariance,
            CurveUncertainty(
                covariance,
                unit.by_centre,
                unit.by_spread,
                unit.relative_variance,
                small_sample_inflation(fit.climb.n_subjects, n_numbers),
            ),
            unit.centre,
            unit.spread,
            shifts,
            found.timeline.scores(speeds, shifts),
            visit_noise,
            sites,
        )

    def in_order(self, order: IntArray) -> MarginalStager:
        """Return the same with its clusters in another order."""
        width = self.trajectories.n_parameters()
        moved = (order[:, None] * width + np.arange(width)).ravel()
        rest = np.arange(len(moved), len(self.curve_uncertainty.centre))
        offsets = self.offsets_at
        of_sites = np.arange(offsets.start, offsets.stop).reshape(-1, len(order))[:, order]
        rest[offsets.start - len(moved) : offsets.stop - len(moved)] = of_sites.ravel()
        index, known = np.concatenate([moved, rest]), self.curve_uncertainty
        covariance = self.covariance
        return replace(
            self,
            trajectories=self.trajectories[order],
            noise=self.noise[order],
            sites=None if self.sites is None else self.sites.in_order(order),
            covariance=Covariance(
                covariance.within[np.ix_(order, order)],
                covariance.between[np.ix_(order, order)],
                covariance.weights[order],
            ),
            curve_uncertainty=replace(
                known,
                covariance=known.covariance[np.ix_(index, index)],
                centre=known.centre[index],
                spread=known.spread[index],
            ),
        )

    @property
    def offsets_at(self) -> slice:
        """Which of the parameters are offsets of sites."""
        effects = self.population.effects
        n_effects = 0 if effects is None else len(effects.shift) + len(effects.log_speed)
        stop = len(self.curve_uncertainty.centre) - n_effects
        return slice(stop - (0 if self.sites is None else self.sites.offsets.size), stop)

    def place(
        self,
        timeline: Timeline,
        sums: Array,
        weights: Array,
        groups: IntArray | None = None,
        design: Design | None = None,
        sites: IntArray | None = None,
    ) -> MarginalStages:
        """Place the subjects whose measurements were pooled.

        Where their groups are not given, they may be of any; without covariates they are usual.
        What sites add has been taken off the measurements; without sites, all of it is taken for
        known.
        """
        if groups is None:
            groups = np.full(timeline.n_subjects, UNKNOWN if self.population.n_groups > 1 else 0)
        seen_at = self._seen_at(sites, len(timeline.times))
        problem = CorrelatedStageProblem(
            PooledMeans.from_sums(sums, weights),
            timeline,
            self.trajectories,
            self.noise,
            StagePrior(self.population, groups, self.seen(design, timeline)),
            self.covariance,
            None if seen_at is None else seen_at.scales_of_visits(),
            seen_at,
        )
        placed = place_subjects(problem, self.known_shifts)
        if self.visit_noise is None:
            return placed
        for _ in range(ROUNDS):
            multipliers = self.visit_noise.multipliers(placed.problem, placed.posterior)
            placed = place_subjects(replace(problem, multipliers=multipliers), self.known_shifts)
        usual = self.visit_noise.multipliers(placed.problem, placed.posterior, as_usual=True)
        return replace(placed, judged=replace(problem, multipliers=usual))

    def seen(self, design: Design | None, timeline: Timeline) -> Design | None:
        """Covariates of people who were seen at some times."""
        if self.population.effects is None:
            return None
        if design is None:
            effects, n_subjects = self.population.effects, timeline.n_subjects
            of_shift = np.zeros((n_subjects, len(effects.shift)))
            of_speed = np.zeros((n_subjects, len(effects.log_speed)))
            design = Design(of_shift, of_speed, np.zeros(n_subjects))
        return design.at(timeline)

    def _seen_at(self, sites: IntArray | None, n_visits: int) -> SiteMeans | None:
        """Sites of visits."""
        if self.sites is None:
            return None
        return SiteMeans.at(np.full(n_visits, -1) if sites is None else sites, self.sites)

    def errors(self, placed: MarginalStages) -> Array:
        """Standard errors of speed, shift at time 0 and first score, (n_subjects, 3).

        In internal units, like `Posterior.standard_errors`.
        """
        own = placed.posterior.standard_errors(placed.timeline)
        curves = self.curve_uncertainty.variances(
            placed.problem, placed.posterior, self.centre, self.spread
        )
        return np.hypot(own, np.sqrt(curves))

    def score_errors(self, placed: MarginalStages) -> Array:
        """Standard errors of the scores of all visits, (n_visits,), in internal units."""
        own = placed.posterior.score_errors(placed.timeline)
        curves = self.curve_uncertainty.score_variances(
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
        return np.asarray(beyond | vague | placed.unlike())


def place_subjects(problem: CorrelatedStageProblem, known_shifts: Array) -> MarginalStages:
    """Expected stages of the subjects of a problem, the same whoever else is placed with them.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects.
    known_shifts : (n,)
        Shifts of the training subjects, over whose range modes are looked for.
    """
    posterior, likeliest = integrate_modes(problem, known_shifts)
    return MarginalStages(problem.timeline, *posterior.mean(), problem, posterior, likeliest)
