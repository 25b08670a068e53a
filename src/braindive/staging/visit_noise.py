"""Noise that is not the same at all visits: it may grow with damage, and differ by person and scan.

The residuals of a fit tell it. The log variance is a smooth function of damage, shrunk to none, and
the variances of people, and of single visits, vary around it as inverse gamma variables do, so that
noise has the heavy tails of a t distribution (`noise_prior`). Each is taken where the likelihood
says so; else noise is constant, and nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from braindive.arrays import Array, IntArray
from braindive.dive.timeline import Timeline
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.noise_prior import LEAST_PEOPLE, NoisePrior
from braindive.staging.pieces import NUMBERS_AT_ONCE
from braindive.staging.posterior import Posterior
from braindive.staging.residuals import Part
from braindive.values.threads import in_threads

# Least degrees of freedom for a sum of squares to count: what has fewer went into the stage and
# into the person's own level. A choice.
_LEAST_FREEDOM = 0.5
# Residuals of a person's clusters vary together, so that the likelihood alone says more than there
# is: it has to gain by so many standard errors over people. A choice.
_CLEARLY = 2.5
# Rounds in which the variances of people and visits are told apart, and in which a fit, or people
# who are placed, and the noise of their visits follow one another. Choices.
_ROUNDS, ROUNDS = 3, 2


@dataclass(frozen=True)
class VisitNoise:
    """By how much the noise of a visit is larger than usual.

    Parameters
    ----------
    origin : float
        Internal score before all damage.
    damage : NoisePrior or None
        Variance by the damage of a cluster; None where it does not depend on it.
    people, visits : float
        Degrees of freedom of the variances of people, and of visits around them; 0 where they are
        alike.
    """

    origin: float
    damage: NoisePrior | None = None
    people: float = 0.0
    visits: float = 0.0

    @classmethod
    def learn(cls, problem: CorrelatedStageProblem, posterior: Posterior) -> VisitNoise:
        """Learn from the residuals of people who were placed.

        Parameters
        ----------
        problem : CorrelatedStageProblem
            The people; its multipliers are those with which they were placed.
        posterior : Posterior
            Where they are.
        """
        found = cls(float(np.min(problem.timeline.scores(*posterior.mean()))))
        if problem.timeline.n_subjects < LEAST_PEOPLE:
            return found
        left = _Residuals.of(problem, posterior, found.origin)
        found = replace(found, damage=left.learn_damage())
        usual = found.usual(left.damage)
        # A noisy person makes its scans seem bad, and a bad scan its person noisy: what explains
        # the visits better is told first, and the other beside it.
        squares = left.squares(usual)
        people, visits = _freedom(*left.by_person(squares)), _freedom(*squares)
        if people and visits:
            # A bad scan moves the person's level, and with it what is left of the other scans:
            # levels are found anew, as if there were bad scans.
            own = found.own(left, usual, 0.0, visits)
            weighed = replace(problem, multipliers=left.base * usual * own)
            left = _Residuals.of(weighed, posterior, found.origin)
            squares = left.squares(usual)
            people, visits = _freedom(*left.by_person(squares)), _freedom(*squares)
        if people and visits:
            each_visit = np.arange(len(left.total))
            of_people = _log_likelihood(*squares, left.timeline.subject_of_visit, people)
            if of_people > _log_likelihood(*squares, each_visit, visits):
                visits = _freedom(*left.squares(usual * found.own(left, usual, people, 0.0)))
            else:
                rest = left.squares(usual * found.own(left, usual, 0.0, visits))
                people = _freedom(*left.by_person(rest))
        return replace(found, people=people, visits=visits)

    @property
    def is_constant(self) -> bool:
        """Whether all visits have the same noise."""
        return self.damage is None and not self.people and not self.visits

    def usual(self, damage: Array) -> Array:
        """Factors of the standard deviation that are usual where clusters are damaged."""
        if self.damage is None:
            return np.ones_like(damage)
        return np.sqrt(self.damage.at(damage))

    def multipliers(
        self, problem: CorrelatedStageProblem, posterior: Posterior, as_usual: bool = False
    ) -> Array:
        """Factors of the standard deviations of all visits of people who were placed.

        Parameters
        ----------
        problem, posterior : CorrelatedStageProblem, Posterior
            As in `learn`.
        as_usual : bool
            Whether to give what is usual at the damage, whatever the visits' own scatter.

        Returns
        -------
        (n_visits, n_clusters) array
        """
        left = _Residuals.of(problem, posterior, self.origin)
        usual = self.usual(left.damage)
        if as_usual:
            return np.asarray(left.base * usual)
        return np.asarray(left.base * usual * self.own(left, usual, self.people, self.visits))

    def own(self, left: _Residuals, usual: Array, people: float, visits: float) -> Array:
        """Factors of visits by their own scatter and their person's, (n_visits, 1)."""
        squares, freedom = left.squares(usual)
        found = np.ones(len(squares))
        for _ in range(_ROUNDS if people and visits else 1):
            if people:
                of_person = _expected(people, *left.by_person((squares / found, freedom)))
                of_person = of_person[left.timeline.subject_of_visit]
            else:
                of_person = np.ones(len(squares))
            found = _expected(visits, squares / of_person, freedom) if visits else found
        return np.sqrt(found * of_person)[:, None]


@dataclass(frozen=True)
class _Residuals:
    """What the curves at the places where people may be, and their levels, leave of their visits.

    Parameters
    ----------
    timeline : Timeline
        Of the visits.
    products : (n_visits, n_clusters, n_clusters)
        Expected products of the clusters' residuals around the person's own level.
    freedom : (n_visits, n_clusters)
        Share of each residual that did not go into the level; 0 where nothing was measured.
    total : (n_visits,)
        The same of all clusters of a visit together, whose residuals vary together.
    precisions : (n_visits or 1, n_clusters, n_clusters)
        Of usual noise.
    base : (n_visits or 1, n_clusters)
        Factors of the standard deviation that are usual at the visit's site.
    damage : (n_visits, n_clusters)
        Expected distance of the curves from where they begin.
    """

    timeline: Timeline
    products: Array
    freedom: Array
    total: Array
    precisions: Array
    base: Array
    damage: Array

    @classmethod
    def of(cls, problem: CorrelatedStageProblem, posterior: Posterior, origin: float) -> _Residuals:
        timeline, weights = problem.timeline, problem.pooled.weights
        of_visit, seen = timeline.subject_of_visit, weights > 0
        start, n_clusters = problem.trajectories.evaluate(np.array([origin]))[0], weights.shape[1]
        products, damage = np.empty((*weights.shape, n_clusters)), np.empty(weights.shape)
        # Places where nobody may be, as the second ones of those who have one, say nothing.
        known = posterior.weights.any(axis=1)
        log_speeds, shifts, chances = (
            getattr(posterior, name)[known] for name in ("log_speeds", "shifts", "weights")
        )

        def take(some: slice) -> None:
            """Fill in what belongs to some of the subjects."""
            part = Part.of(timeline, some)
            visits, probabilities = part.visits, chances[:, some].T
            moved = part.moves(np.exp(log_speeds[:, some].T), timeline)
            scores = part.combine(np.add, moved, shifts[:, some].T)
            values = problem.trajectories.at_points(scores).values
            is_seen = seen[visits].T[:, :, None]
            residuals = np.where(is_seen, problem.means[visits].T[:, :, None] - values, 0.0)
            own = problem.precisions if len(problem.precisions) == 1 else problem.precisions[visits]
            totals = part.total((own @ residuals.swapaxes(0, 1)).swapaxes(0, 1)).swapaxes(0, 1)
            levels = (problem.intercept_covariances[some] @ totals).swapaxes(0, 1)
            residuals = np.where(is_seen, part.combine(np.subtract, residuals, levels), 0.0)
            weighted = part.combine(np.multiply, residuals, probabilities)
            products[visits] = weighted.swapaxes(0, 1) @ residuals.transpose(1, 2, 0)
            away = np.abs(values - start[:, None, None])
            damage[visits] = part.combine(np.multiply, away, probabilities).sum(axis=2).T

        n_numbers = weights.size * len(chances)
        width = max(1, int(NUMBERS_AT_ONCE * timeline.n_subjects / n_numbers))
        in_threads(take, timeline.n_subjects, width)
        # Residuals around the true level would have the covariance E_ij; what is known of the
        # level takes a part away. Over the places where a person may be, nothing else does.
        unknown = problem.intercept_covariances[of_visit]
        shape = (len(seen), n_clusters, n_clusters)
        precisions = np.broadcast_to(problem.precisions, shape)
        within = np.diagonal(np.linalg.inv(precisions), axis1=1, axis2=2)
        freedom = 1 - np.diagonal(unknown, axis1=1, axis2=2) / within
        lost = np.einsum("nkl,nlk->nk", precisions, unknown)
        at_site = None if problem.sites is None else problem.sites.scales_of_visits()
        return cls(
            timeline,
            products,
            np.where(seen, np.maximum(freedom, 0.0), 0.0),
            np.maximum(np.sum(np.where(seen, 1 - lost, 0.0), axis=1), 0.0),
            problem.covariance.precisions(weights, problem.noise, at_site),
            np.ones((1, n_clusters)) if at_site is None else at_site,
            damage,
        )

    def squares(self, factors: Array) -> tuple[Array, Array]:
        """Squared length of each visit's residuals over its noise, and its degrees of freedom."""
        precisions = self.precisions / (factors[:, :, None] * factors[:, None, :])
        return np.einsum("nkl,nkl->n", precisions, self.products), self.total

    def by_person(self, squares: tuple[Array, Array]) -> tuple[Array, Array]:
        """Sums of each person's squares, and of their degrees of freedom."""
        return self.timeline.by_subject(squares[0]), self.timeline.by_subject(squares[1])

    def learn_damage(self) -> NoisePrior | None:
        """Variance by damage, or None where people do not say clearly that it depends on it."""
        timeline = self.timeline
        variances = np.diagonal(np.linalg.inv(self.precisions), axis1=1, axis2=2)
        own = np.diagonal(self.products, axis1=1, axis2=2)
        squares = timeline.by_subject(own / variances)
        freedom = timeline.by_subject(self.freedom)
        damage = timeline.by_subject(self.freedom * self.damage) / np.maximum(freedom, 1e-12)
        told = freedom > _LEAST_FREEDOM
        if np.sum(told.any(axis=1)) < LEAST_PEOPLE:
            return None
        ratios = squares[told] / freedom[told]
        found = NoisePrior.learn(ratios, freedom[told], damage[told])
        nowhere = np.zeros(len(ratios))
        flat = NoisePrior.learn(ratios, freedom[told], nowhere)
        gains = np.zeros(told.shape)
        gains[told] = found.log_likelihood(ratios, freedom[told], damage[told])
        gains[told] -= flat.log_likelihood(ratios, freedom[told], nowhere)
        gain = gains.sum(axis=1)[told.any(axis=1)]
        is_clear = gain.mean() > _CLEARLY * gain.std() / np.sqrt(len(gain))
        return found if is_clear else None


def _expected(prior: float, squares: Array, freedom: Array) -> Array:
    """Expected variance, of an inverse gamma distribution around 1."""
    return np.asarray((prior + squares) / (prior + freedom))


def _log_likelihood(squares: Array, freedom: Array, groups: IntArray, prior: float) -> float:
    """Of sums of squares whose groups have variances of their own, inverse gamma variables.

    Up to what does not depend on groups and prior; with the most likely usual variance.
    """
    told = freedom > _LEAST_FREEDOM
    total = np.bincount(groups[told], squares[told])
    n_free = np.bincount(groups[told], freedom[told])
    total, n_free = total[n_free > 0], n_free[n_free > 0]
    constant = np.sum(gammaln((prior + n_free) / 2) - gammaln(prior / 2))

    def loss(log_unit: float) -> float:
        unit = prior * np.exp(log_unit)
        fits = (prior + n_free) * np.log1p(total / unit) + n_free * np.log(unit)
        return 0.5 * float(np.sum(fits))

    return float(constant - minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded").fun)


def _freedom(squares: Array, freedom: Array) -> float:
    """Degrees of freedom of variances around what is usual; 0 where they are alike (by BIC)."""
    told = freedom > _LEAST_FREEDOM
    if np.sum(told) < LEAST_PEOPLE:
        return 0.0
    squares, freedom = squares[told], freedom[told]
    nowhere, ratios = np.zeros(len(freedom)), squares / freedom
    found = NoisePrior.learn(ratios, freedom, nowhere)
    alike = NoisePrior.constant(float(squares.sum() / freedom.sum()))
    one, other = (x.log_likelihood(ratios, freedom, nowhere).sum() for x in (found, alike))
    return found.freedom if one - other > 0.5 * np.log(len(ratios)) else 0.0
