"""The optimum of the marginal posterior of curves, E, B and the population.

EM creeps along the ridge between B and the spread of the stages, so the marginal likelihood itself
is climbed, by quasi-Newton steps (BFGS) that start from the information in the subjects' own
gradients. The points of the integral follow the subjects' posteriors from step to step, and stay
where they are near the optimum, so that there one and the same function is climbed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.likelihood import Evaluation, evaluate
from braindive.staging.packing import Packing
from braindive.staging.posterior import FINE, Points, Rule
from braindive.staging.weak_priors import WeakPriors

# Squared length of the gradient in standard errors below which the points of the integral stay,
# and below which the optimum is found for what is shown: so little that the order of sums does not
# matter.
_NEAR = 0.5
EXACTLY_THERE = 1e-7
# Points that stayed are laid anew where so little is left to climb, until that leaves hardly more
# (half a standard error, of all parameters together), for no more than so many rounds: where curves
# begin within a wide posterior, every new set of points moves the optimum a little.
ON_THE_WAY, _HARDLY_MOVED, _MOST_ROUNDS = 0.03, 0.3, 6
# What is left at most where a climb counts as finished.
HARDLY_LEFT = 0.1
# Longest step in standard errors of each parameter: at the start, ever, and so short that another
# direction is tried. Choices.
_STEP, _LONGEST, _SHORTEST = 1.0, 3.0, 1e-5
# Subjects for each number below which a climb begins with the curvature that the one before has
# told: there are too few for their gradients to tell it. A choice.
FEW_PER_NUMBER = 3
# Subjects for each number from which on their gradients alone tell where to begin. A choice.
_MANY_PER_NUMBER = 10
# Share of the hoped-for gain below which a step is not taken (Armijo), and what rounding may take
# away from it, as a share of the objective, a sum over subjects.
_WORTHWHILE, _ROUNDING = 1e-4, 1e-13


@dataclass(frozen=True)
class Climb:
    """Where a climb stands.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects, with the parameters reached.
    vector : (n_numbers,)
        Those parameters, packed.
    evaluation : Evaluation
        There.
    objective : float
        Log-likelihood and log-prior.
    gradient : (n_numbers,)
        Of the objective.
    curvature : (n_numbers,)
        Of the priors.
    inverse : (n_numbers, n_numbers) or None
        Inverse of the Hessian as the steps have told it.
    decrement : float
        Squared length of the gradient in standard errors: 0 at the optimum.
    n_evaluations : int
        How often the likelihood was evaluated.
    """

    problem: CorrelatedStageProblem
    vector: Array
    evaluation: Evaluation
    objective: float
    gradient: Array
    curvature: Array
    inverse: Array | None = None
    decrement: float = np.inf
    n_evaluations: int = 1

    def inverse_products(self, packing: Packing, points: Points | None = None) -> Array:
        """Inverse information of the packed parameters, to begin with.

        It comes from the subjects' gradients, whose outer products are shrunk to their diagonal.
        Where subjects are not many, that of E and B is what it would be at known stages.

        Parameters
        ----------
        packing : Packing
            Of the parameters.
        points : Points, optional
            Of the integral; by default around the subjects' posteriors.
        """
        if points is None:
            points = self.evaluation.posterior.lay_points(self.problem.prior, FINE)
        at = evaluate(self.problem, points, "each")
        gradients = packing.gradients(self.vector, self.problem, at)
        n_subjects, n_numbers = gradients.shape
        found = np.diag(self.curvature + 1e-8)
        if n_subjects >= _MANY_PER_NUMBER * n_numbers:
            return np.linalg.inv(_shrunk(gradients) + found)
        staged = packing.of_stages()
        others = np.setdiff1d(np.arange(n_numbers), staged)
        found[np.ix_(staged, staged)] += _shrunk(gradients[:, staged])
        found[np.ix_(others, others)] += packing.covariance_information(self.vector, self.problem)
        return np.linalg.inv(found)

    @property
    def n_subjects(self) -> int:
        """Number of subjects."""
        return self.problem.timeline.n_subjects

    @property
    def known_shifts(self) -> Array:
        """Expected shifts of the subjects, in whose range others are looked for."""
        return self.evaluation.posterior.mean()[1]

    @property
    def converged(self) -> bool:
        """Whether what is left to climb, of all parameters together, is a third of an error."""
        return self.decrement < HARDLY_LEFT


def look(
    problem: CorrelatedStageProblem,
    vector: Array,
    points: Points,
    packing: Packing,
    priors: WeakPriors,
) -> Climb:
    """Evaluate the objective and its gradient at packed parameters."""
    there = packing.unpack(vector, problem)
    at = evaluate(there, points, "sum")
    value, gradient, curvature = priors.log_density(packing, vector)
    return Climb(
        there,
        vector,
        at,
        float(at.log_likelihoods.sum()) + value,
        packing.gradient(vector, there, at) + gradient,
        curvature,
    )


def _try(
    problem: CorrelatedStageProblem,
    vector: Array,
    points: Points,
    packing: Packing,
    priors: WeakPriors,
) -> Climb | None:
    """As `look`; None where a step goes so far that nothing can be computed there."""
    try:
        with np.errstate(all="ignore"):
            there = look(problem, vector, points, packing, priors)
    except np.linalg.LinAlgError:
        return None
    return there if np.isfinite(there.gradient).all() else None


def climb(
    problem: CorrelatedStageProblem,
    points: Points,
    packing: Packing,
    priors: WeakPriors,
    rule: Rule,
    max_iter: int = 300,
    inverse: Array | None = None,
    near: float = _NEAR,
    there: float = ON_THE_WAY,
) -> Climb:
    """Climb from a problem's parameters to the optimum.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects and where to begin.
    points : Points
        Of the integral, there.
    packing, priors : Packing, WeakPriors
        What is climbed.
    rule : Rule
        By which points are laid around the posteriors.
    max_iter : int
        Most steps.
    inverse : (n_numbers, n_numbers), optional
        Of the Hessian, as an earlier climb has told it.
    near : float
        Squared length of the gradient in standard errors below which points stay where they are.
    there : float
        That below which the optimum is found.

    Returns
    -------
    Climb
    """
    here = look(problem, packing.pack(problem), points, packing, priors)
    fresh = inverse is None
    if inverse is None:
        inverse = here.inverse_products(packing, points)
    longest, n_evaluations, decrement = _STEP, 1, np.inf
    frozen, n_rounds, is_new, is_last = False, 0, False, True
    for _ in range(max_iter):
        direction = inverse @ here.gradient
        decrement = float(here.gradient @ direction)
        if is_new:
            is_last = decrement < _HARDLY_MOVED or n_rounds == _MOST_ROUNDS
        found = decrement < (there if is_last else max(there, ON_THE_WAY))
        if found and is_last:
            break
        if decrement >= near or found or not frozen:
            points = here.evaluation.posterior.lay_points(here.problem.prior, rule)
        is_new = found or (decrement < near and not frozen)
        if is_new:
            # Look from the new points before going on: they stay until the optimum is found.
            here = _try(problem, here.vector, points, packing, priors) or here
            frozen, n_rounds = True, n_rounds + 1
            n_evaluations += 1
            continue
        frozen = frozen and decrement < near
        furthest = longest * np.sqrt(len(direction))
        length = min(float(np.sqrt(decrement)), furthest)
        step = direction * (length / np.sqrt(decrement))
        next_ = _try(problem, here.vector + step, points, packing, priors)
        n_evaluations += 1
        hoped = _WORTHWHILE * float(here.gradient @ step) - _ROUNDING * abs(here.objective)
        gain = -np.inf if next_ is None else next_.objective - here.objective
        if next_ is not None and gain >= hoped:
            share = length / np.sqrt(decrement)
            inverse = _update(inverse, step, here.gradient - next_.gradient, share * here.gradient)
            here, fresh, longest = next_, False, min(_LONGEST, 1.5 * longest)
            continue
        longest *= length / furthest / 3
        if longest < _SHORTEST:
            if fresh:
                break
            inverse = here.inverse_products(packing, points)
            fresh, longest = True, _STEP
        if not frozen:
            here = _try(problem, here.vector, points, packing, priors) or here
            n_evaluations += 1
    return replace(here, inverse=inverse, decrement=decrement, n_evaluations=n_evaluations)


def _shrunk(gradients: Array) -> Array:
    """Outer products of gradients, shrunk to their diagonal."""
    n_subjects, n_numbers = gradients.shape
    products = gradients.T @ gradients
    own = np.diag(products).copy()
    products *= 1 - 0.5 * n_numbers / (n_numbers + n_subjects)
    np.fill_diagonal(products, own)
    return products


def _update(inverse: Array, step: Array, change: Array, expected: Array) -> Array:
    """BFGS update of the inverse Hessian, damped so that it stays positive definite (Powell).

    Parameters
    ----------
    inverse : (n, n)
        As it was.
    step : (n,)
        That was taken.
    change, expected : (n,)
        By how much the gradient fell, and by how much the Hessian had it.
    """
    curvature = float(step @ change)
    length = float(step @ expected)
    if curvature < 0.2 * length:
        share = 0.8 * length / (length - curvature)
        change = share * change + (1 - share) * expected
        curvature = float(step @ change)
    turned = inverse @ change
    return np.asarray(
        inverse
        + np.outer(step, step) * ((curvature + float(change @ turned)) / curvature**2)
        - (np.outer(turned, step) + np.outer(step, turned)) / curvature
    )
