"""The marginal fit: people differ, persistently, and nobody's stage is known for sure.

The EM takes a person's thin cortex for disease, and every stage for known with the weight of
thousands of independent vertices. Here the mean of cluster k at visit j of subject i is
f_k(s_ij) + u_ik + e_ijk with u_i ~ N(0, B) and e_ij ~ N(0, E); stages have the distribution of the
population and are integrated out. Curves, B, E and the population are estimated jointly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.curves import Bounds
from braindive.dive.initial import CLEAR
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Priors
from braindive.dive.problem import Parameters
from braindive.dive.stages import fit_stages
from braindive.dive.starts import CLEAR_ODDS
from braindive.dive.timeline import Timeline, evenly
from braindive.staging.covariance import CorrelatedStageProblem, Covariance
from braindive.staging.likelihood import evaluate
from braindive.staging.marginal_starts import Start, find_starts, set_out, within_prior
from braindive.staging.optimum import (
    EXACTLY_THERE,
    FEW_PER_NUMBER,
    FEW_SUBJECTS,
    HARDLY_LEFT,
    ON_THE_WAY,
    Climb,
    climb,
    look,
    update_covariance,
)
from braindive.staging.packing import Packing
from braindive.staging.population import Design, controls_lead, groups_of
from braindive.staging.posterior import (
    COARSE,
    FINE,
    FINER,
    Points,
    Posterior,
    Rule,
    points_at,
    searched_points,
)
from braindive.staging.site_means import SiteMeans
from braindive.staging.weak_priors import WeakPriors

# Subjects on whom starts are compared (the best goes on with FEW_SUBJECTS), and those of the fine
# points before all are taken: choices that bound the cost; the last steps always take everybody.
_FEWEST_SUBJECTS, _MANY_SUBJECTS = 100, 1000
# Steps after which only the best start of each direction goes on, most coarse and fine steps, and
# most steps with everybody where there are more than many. Choices.
_SCREENING, _COARSE_STEPS, _FINE_STEPS, _LAST_STEPS = 8, 150, 300, 20
# Most searches for other modes of the subjects' stages, each followed by a climb; a choice.
_SEARCHES = 6
# Most climbs with finer points, and what is left of the gradient when they are laid anew. Choices.
_MOST_FINER, _NEARLY_THERE = 5, 1e-3
# Gain in log-likelihood from other modes for which climbing goes on. A choice.
_WORTH_CLIMBING = 0.5
# Squared length of the gradient by a skew, in standard errors, for which one is tried: where people
# are few, their gradients make it seem small. A choice.
_WORTH_TRYING = 1.0


@dataclass(frozen=True)
class MarginalFit:
    """Where the marginal fit stands.

    Parameters
    ----------
    climb : Climb
        Near the optimum, and at it when refined.
    packing, priors : Packing, WeakPriors
        What was climbed.
    direction_is_clear : bool
        Whether the other direction of the disease is ruled out.
    """

    climb: Climb
    packing: Packing
    priors: WeakPriors
    direction_is_clear: bool = True

    def refined(
        self, pooled: PooledMeans, noise: Array, sites: SiteMeans | None = None
    ) -> MarginalFit:
        """Climb to the optimum with fine points, on means of slightly different clusters.

        With many of the subjects first, and then with all.

        Parameters
        ----------
        pooled : PooledMeans
            Cluster means of every visit.
        noise : (n_clusters,)
            Of a vertex.
        sites : SiteMeans, optional
            Where the offsets of sites begin, and what is known of them by now.
        """
        if sites is not None:
            return self._with_sites(sites).refined(pooled, noise)
        everyone = replace(self.climb.problem, pooled=pooled, noise=noise)
        n_subjects, posterior = everyone.timeline.n_subjects, self.climb.evaluation.posterior
        if n_subjects <= _MANY_SUBJECTS:
            inverse = self._inverse(n_subjects)
            found = self._go_on(everyone, posterior, _FINE_STEPS, EXACTLY_THERE, inverse)
            return found._with_skew(_FINE_STEPS)
        many = evenly(np.arange(n_subjects), _MANY_SUBJECTS)
        nearly = self._go_on(everyone.select(many), posterior.select(many), _FINE_STEPS, ON_THE_WAY)
        nearly = nearly._with_skew(_FINE_STEPS)
        inverse = nearly.climb.told * (len(many) / n_subjects)
        return nearly._go_on(everyone, posterior, _LAST_STEPS, EXACTLY_THERE, inverse)

    def _with_skew(self, steps: int) -> MarginalFit:
        """Let the shifts of the last group be skewed where the data say so.

        Where they are, normal ones would bend the score until they look it. By the criterion of
        Schwarz (BIC), after a test by the gradient whether it is worth climbing for.
        """
        here, worth = self.climb, 0.5 * np.log(self.climb.n_subjects)
        problem, prior = here.problem, here.problem.prior
        if self.packing.is_skewed or not self.packing.has_follow_up:
            return self
        skews = np.zeros(prior.population.n_groups)
        prior = replace(prior, population=replace(prior.population, skews=skews))
        packing, problem = replace(self.packing, is_skewed=True), replace(problem, prior=prior)
        posterior = here.evaluation.posterior
        points = posterior.lay_points(prior, FINE)
        there = look(problem, packing.pack(problem), points, packing, self.priors)
        if there.left_to_climb(there.inverse_products(packing, points)) < _WORTH_TRYING:
            return self
        skewed = replace(self, climb=there, packing=packing)
        skewed = skewed._go_on(problem, posterior, steps, EXACTLY_THERE)
        return skewed if skewed._finely() - self._finely() > worth else self

    def _finely(self) -> float:
        """Log-likelihood by finer points."""
        problem = self.climb.problem
        points = self.climb.evaluation.posterior.lay_points(problem.prior, FINER)
        return float(evaluate(problem, points).log_likelihoods.sum())

    def with_multipliers(self, multipliers: Array | None) -> MarginalFit:
        """Climb to the optimum with visits whose noise is larger or smaller than usual."""
        problem, posterior = self.climb.problem, self.climb.evaluation.posterior
        problem = replace(problem, multipliers=multipliers)
        is_many = problem.timeline.n_subjects > _MANY_SUBJECTS
        steps = _LAST_STEPS if is_many else _FINE_STEPS
        return self._go_on(problem, posterior, steps, EXACTLY_THERE, self.climb.inverse)

    def _with_sites(self, sites: SiteMeans) -> MarginalFit:
        """Return the same with other offsets of sites, another prior of them, and their noise."""
        assert self.packing.sites is not None
        vector = self.climb.vector.copy()
        vector[self.packing.of_sites] = (self.packing.sites.T @ sites.offsets).ravel()
        here = replace(self.climb.problem, sites=sites, multipliers=sites.scales_of_visits())
        return replace(
            self,
            climb=replace(self.climb, vector=vector, problem=here),
            priors=self.priors.with_sites(self.packing, sites),
        )

    def on_fine_points(self) -> MarginalFit:
        """Climb to the optimum with fine points, on the same means."""
        posterior = self.climb.evaluation.posterior
        inverse = self._inverse(self.climb.n_subjects)
        return self._go_on(self.climb.problem, posterior, _FINE_STEPS, EXACTLY_THERE, inverse)

    def seen_by(self, everyone: CorrelatedStageProblem) -> MarginalFit:
        """Return the same fit with the posteriors of other subjects."""
        here = self.climb
        everyone = self.packing.unpack(here.vector, everyone)
        points = searched_points(everyone, here.known_shifts, COARSE)
        there = look(everyone, here.vector, points, self.packing, self.priors)
        return replace(self, climb=replace(there, inverse=self._inverse(there.n_subjects)))

    def _go_on(
        self,
        problem: CorrelatedStageProblem,
        posterior: Posterior,
        steps: int,
        there: float,
        inverse: Array | None = None,
    ) -> MarginalFit:
        """Climb with fine points that begin from what is known of where subjects are.

        Where finer ones see that something is left to climb, they are climbed.
        """
        start = self.packing.unpack(self.climb.vector, problem)
        points = posterior.lay_points(start.prior, FINE)
        here = self._climb(start, points, FINE, steps, there, inverse)
        points, finer = self._look_finer(here)
        nearly, inverse = max(there, _NEARLY_THERE), here.told
        if not finer.is_many:
            inverse = finer.inverse_information(self.packing)
        left = finer.left_to_climb(inverse)
        if left < HARDLY_LEFT and not finer.is_many:
            # What few people say themselves may be more than what is expected of them.
            left = finer.left_to_climb(finer.inverse_products(self.packing, points))
        if left < HARDLY_LEFT:
            return replace(self, climb=here)
        for _ in range(_MOST_FINER):
            here = self._climb(finer.problem, points, FINER, steps, nearly, inverse, finer)
            points, finer = self._look_finer(here)
            inverse = here.told
            # Little is left only where new points see little too.
            if finer.left_to_climb(inverse) < ON_THE_WAY / 2:
                break
        here = self._climb(finer.problem, points, FINER, steps, there, inverse, finer)
        return replace(self, climb=here)

    def _look_finer(self, here: Climb) -> tuple[Points, Climb]:
        """Look around from finer points, which are laid anew."""
        points = here.evaluation.posterior.lay_points(here.problem.prior, FINER)
        return points, look(here.problem, here.vector, points, self.packing, self.priors)

    def _climb(
        self,
        start: CorrelatedStageProblem,
        points: Points,
        rule: Rule,
        steps: int,
        there: float,
        inverse: Array | None,
        here: Climb | None = None,
    ) -> Climb:
        """Climb to the optimum with points that follow it."""
        return climb(
            start, points, self.packing, self.priors, rule, steps, inverse, np.inf, there, here
        )

    def _inverse(self, n_subjects: int) -> Array | None:
        """Inverse of the Hessian for so many subjects, with whose number the curvature grows.

        None where subjects are many: their gradients tell it better than steps that were taken
        with coarse points.
        """
        here = self.climb
        if here.inverse is None or n_subjects > min(
            FEW_SUBJECTS, FEW_PER_NUMBER * len(here.vector)
        ):
            return None
        return here.inverse * (here.n_subjects / n_subjects)


def fit_marginal(
    pooled: PooledMeans,
    timeline: Timeline,
    parameters: Parameters,
    priors: Priors,
    controls: BoolArray | None,
    design: Design | None = None,
    multipliers: Array | None = None,
    sites: SiteMeans | None = None,
) -> MarginalFit:
    """Fit the marginal model to pooled means, roughly: `refined` takes it to the optimum.

    Parameters
    ----------
    pooled : PooledMeans
        Cluster means of every visit.
    timeline : Timeline
        When subjects were seen.
    parameters : Parameters
        What the EM found: one of the starts.
    priors : Priors
        Given by the user; whether speeds vary, and of the curves.
    controls : (n_visits,) bool or None
        Control visits.
    design : Design, optional
        Covariates that move people's shifts and speeds.
    multipliers : (n_visits, n_clusters), optional
        By how much a visit's noise is larger than usual.
    sites : SiteMeans, optional
        Sites of the visits, and where their offsets begin.

    Returns
    -------
    MarginalFit
    """
    groups = groups_of(timeline, controls)
    speeds_vary = not priors.speed.is_fixed
    few = evenly(np.arange(timeline.n_subjects), FEW_SUBJECTS)
    ways = find_starts(pooled, timeline, parameters, groups)
    outcomes = [
        _follow_best(
            pooled,
            timeline,
            parameters,
            priors,
            groups,
            few,
            starts,
            speeds_vary,
            design,
            multipliers,
            sites,
        )
        for starts in ways
    ]
    if len(outcomes) > 1:
        # By coarse points, the likelihoods of two directions were off by more than they differed.
        outcomes = [way.on_fine_points() for way in outcomes]
    order = np.argsort([-outcome.climb.objective for outcome in outcomes])
    best, clear = outcomes[order[0]], True
    if len(outcomes) > 1:
        other = outcomes[order[1]]
        clear = best.climb.objective - other.climb.objective > CLEAR_ODDS
        if not clear:
            # What the likelihood leaves open, known controls decide.
            is_control = np.zeros(timeline.n_subjects, dtype=bool)
            if controls is not None:
                is_control = timeline.by_subject(controls.astype(int)) > 0
            leads = [
                controls_lead(way.climb.evaluation.posterior.mean()[1], is_control[few])
                for way in (best, other)
            ]
            clear, best = max(leads) >= CLEAR, other if leads[1] > max(leads[0], CLEAR) else best
    if not timeline.has_follow_up:
        clear = best.climb.problem.prior.population.n_groups > 1
    everyone = replace(
        best.climb.problem,
        pooled=pooled,
        timeline=timeline,
        prior=replace(best.climb.problem.prior, groups=groups, design=design),
        multipliers=multipliers,
        sites=sites,
    )
    best = replace(best, direction_is_clear=clear)
    return best if len(few) == timeline.n_subjects else best.seen_by(everyone)


def _follow_best(
    pooled: PooledMeans,
    timeline: Timeline,
    parameters: Parameters,
    priors: Priors,
    groups: IntArray,
    few: IntArray,
    starts: list[Start],
    speeds_vary: bool,
    design: Design | None,
    multipliers: Array | None,
    sites: SiteMeans | None,
) -> MarginalFit:
    """Climb from several starts on some of the subjects, and follow the best of them."""
    found, fewest = [], evenly(few, _FEWEST_SUBJECTS)
    for start in starts:
        problem = set_out(
            pooled, timeline, parameters.noise, groups, start, speeds_vary, design, multipliers
        )
        problem = replace(problem, sites=sites)
        if priors.trajectory is not None:
            problem = replace(problem, trajectories=within_prior(priors.trajectory, problem))
        scores = timeline.scores(start.speeds, start.shifts)
        bounds: Bounds = type(start.trajectories).bounds(scores)
        packing = Packing.of(problem, bounds, speeds_vary)
        independent = Covariance.independent(problem.covariance.weights, problem.noise)
        weak = WeakPriors.of(problem, packing, bounds, independent.within, priors.trajectory)
        some = problem.select(fewest)
        stages = fit_stages(some, start.speeds[fewest], start.shifts[fewest], max_iter=10)
        points = points_at(some, *stages, COARSE)
        reached = climb(some, points, packing, weak, COARSE, max_iter=_SCREENING)
        found.append((MarginalFit(reached, packing, weak), problem))
    best, problem = max(found, key=lambda pair: pair[0].climb.objective)
    best = best.seen_by(best.packing.unpack(best.climb.vector, problem.select(few)))
    here, before = best.climb, -np.inf
    for _ in range(_SEARCHES):
        points = here.evaluation.posterior.lay_points(here.problem.prior, COARSE)
        packing, weak = best.packing, best.priors
        here = climb(here.problem, points, packing, weak, COARSE, _COARSE_STEPS, here.inverse)
        if here.objective < before + _WORTH_CLIMBING:
            break
        before = here.objective
        if best.packing.within is None:
            here = update_covariance(here, best.packing, best.priors)
        # Points follow a subject's posterior, and so cannot see another mode far away.
        points = searched_points(here.problem, here.known_shifts, COARSE)
        anew = look(here.problem, here.vector, points, best.packing, best.priors)
        if anew.objective < before + _WORTH_CLIMBING:
            break
        here = replace(anew, inverse=here.inverse)
    return replace(best, climb=here)
