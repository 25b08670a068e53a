"""The optimum of the marginal posterior of curves, E, B and the population.

EM creeps along the ridge between B and the spread of the stages, so the marginal likelihood itself
is climbed, by quasi-Newton steps (BFGS) that start from the information in the subjects'
gradients. The points of the integral follow the subjects' posteriors from step to step, and stay
where they are near the optimum, so that there one and the same function is climbed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from braindive.arrays import Array
from braindive.dive.timeline import evenly
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.covariance_information import expected_information, observed_information
from braindive.staging.likelihood import Evaluation, evaluate
from braindive.staging.packing import Packing
from braindive.staging.posterior import COARSE, FINE, Points, Rule, points_at
from braindive.staging.simulated import simulate_again
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
# Subjects for each number from which on their gradients alone tell how much is known, and who are
# simulated to tell where to begin. Choices.
_MANY_PER_NUMBER, _SIMULATED_PER_NUMBER = 10, 15
# Subjects up to which a climb goes on in short steps: few people leave ways to other optima, which
# longer steps took in some cohorts of 20 to 70. A choice; starts are compared on no more.
FEW_SUBJECTS = 300
# Steps of the EM that E and B take at once, where they are not climbed. A choice.
_COVARIANCE_STEPS = 5
# Of the simulated measurements, so that a fit is the same whenever it is repeated.
_SEED = 0
# Share of the hoped-for gain below which a step is not taken (Armijo), and what rounding may take
# away from it, as a share of the objective, a sum over subjects.
_WORTHWHILE, _ROUNDING = 1e-4, 1e-13
# Loss, in multiples of what a step promised to gain, from which on it went so far that it says
# nothing of the curvature where it began. A choice.
_TOO_FAR = 10.0


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
        """Inverse information of the packed parameters.

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
        found = np.diag(self.curvature + 1e-8)
        if self.is_many:
            return np.linalg.inv(_shrunk(gradients) + found)
        staged = packing.of_stages()
        others = np.setdiff1d(np.arange(len(found)), staged)
        found[np.ix_(staged, staged)] += _shrunk(gradients[:, staged])
        found[np.ix_(others, others)] += expected_information(packing, self.vector, self.problem)
        return np.linalg.inv(found)

    def inverse_information(self, packing: Packing) -> Array:
        """Inverse information of the packed parameters, from which a climb begins.

        As the model expects it: from the gradients of subjects who are measured again in
        simulation. Where curves do not fit well, gradients of what was measured are not as large as
        the curvature. Nothing is shrunk: parameters of a curve vary together so much that a
        diagonal has no step along them.

        Parameters
        ----------
        packing : Packing
            Of the parameters.
        """
        staged, problem, posterior = packing.of_stages(), self.problem, self.evaluation.posterior
        wanted = _SIMULATED_PER_NUMBER * len(staged)
        if self.n_subjects > wanted:
            some = evenly(np.arange(self.n_subjects), wanted)
            problem, posterior = problem.select(some), posterior.select(some)
        number = -(-wanted // self.n_subjects)
        random = np.random.default_rng(_SEED)
        problem, speeds, shifts = simulate_again(problem, posterior, number, random)
        points, n_times = points_at(problem, speeds, shifts, FINE), len(speeds) / self.n_subjects
        part = replace(packing, within=None, between=None)
        found = np.diag(self.curvature + 1e-8)
        at = evaluate(problem, points, "none")
        gradients = part.gradients(self.vector[staged], problem, at)
        others = np.setdiff1d(np.arange(len(found)), staged)
        found[np.ix_(staged, staged)] += gradients.T @ gradients / n_times
        found[np.ix_(others, others)] += observed_information(
            packing, self.vector, self.problem, self.evaluation
        )
        return np.linalg.inv(found)

    @property
    def told(self) -> Array:
        """The inverse of the Hessian of a climb that has been made."""
        assert self.inverse is not None
        return self.inverse

    def left_to_climb(self, inverse: Array) -> float:
        """Squared length of the gradient in standard errors, by an inverse of the information."""
        return float(self.gradient @ inverse @ self.gradient)

    @property
    def n_subjects(self) -> int:
        """Number of subjects."""
        return self.problem.timeline.n_subjects

    @property
    def is_many(self) -> bool:
        """Whether subjects are so many that their gradients alone tell the information."""
        return self.n_subjects >= _MANY_PER_NUMBER * len(self.vector)

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


def look_if_possible(
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
    here: Climb | None = None,
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
        Squared length of the gradient in standard errors below which points stay where they are;
        infinite where they stay from the beginning.
    there : float
        That below which the optimum is found.
    here : Climb, optional
        What is seen from these points; they then stay until the optimum is found.

    Returns
    -------
    Climb
    """
    frozen = is_new = here is not None
    is_settled = bool(np.isinf(near)) and problem.timeline.n_subjects > FEW_SUBJECTS
    if here is None:
        here = look(problem, packing.pack(problem), points, packing, priors)
    fresh = inverse is None
    if inverse is None:
        inverse = _first_inverse(here, packing, points, is_settled)
    longest = _LONGEST if here.is_many and is_settled else _STEP
    n_evaluations, decrement = 1, np.inf
    n_rounds, is_last = int(frozen), True
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
            here = look_if_possible(problem, here.vector, points, packing, priors) or here
            frozen, n_rounds = True, n_rounds + 1
            n_evaluations += 1
            continue
        frozen = frozen and decrement < near
        furthest = longest * np.sqrt(len(direction))
        length = min(float(np.sqrt(decrement)), furthest)
        step = direction * (length / np.sqrt(decrement))
        next_ = look_if_possible(problem, here.vector + step, points, packing, priors)
        n_evaluations += 1
        promised = float(here.gradient @ step)
        hoped = _WORTHWHILE * promised - _ROUNDING * abs(here.objective)
        gain = -np.inf if next_ is None else next_.objective - here.objective
        # From points that stay, a step that went too far tells the curvature as well.
        if next_ is not None and (gain >= hoped or (is_settled and gain > -_TOO_FAR * promised)):
            share = length / np.sqrt(decrement)
            change = here.gradient - next_.gradient
            inverse = bfgs_update(inverse, step, change, share * here.gradient)
        if next_ is not None and gain >= hoped:
            here, fresh, longest = next_, False, min(_LONGEST, 1.5 * longest)
            continue
        longest *= length / furthest / 3
        if longest < _SHORTEST:
            if fresh:
                break
            inverse = _first_inverse(here, packing, points, is_settled)
            fresh, longest = True, _STEP
        if not frozen:
            here = look_if_possible(problem, here.vector, points, packing, priors) or here
            n_evaluations += 1
    return replace(here, inverse=inverse, decrement=decrement, n_evaluations=n_evaluations)


def _first_inverse(here: Climb, packing: Packing, points: Points, is_settled: bool) -> Array:
    """Inverse of the Hessian to begin with.

    The first steps of a fit decide which optimum is found, and are short where little is known.
    """
    if is_settled:
        return here.inverse_information(packing)
    return here.inverse_products(packing, points)


def update_covariance(here: Climb, packing: Packing, priors: WeakPriors) -> Climb:
    """E and B of the EM, in a few steps: B = mean of E[u u'], by what the gradients say of it."""
    for _ in range(_COVARIANCE_STEPS):
        problem, at = here.problem, here.evaluation
        e, b = problem.covariance.within, problem.covariance.between
        by_within, by_between = at.by_within.sum(axis=0), at.by_between.sum(axis=0)
        e = e + 2 * e @ by_within @ e / len(problem.timeline.times)
        if problem.timeline.has_follow_up:
            b = b + 2 * b @ by_between @ b / problem.timeline.n_subjects
        problem = replace(problem, covariance=replace(problem.covariance, within=e, between=b))
        points = at.posterior.lay_points(problem.prior, COARSE)
        here = replace(look(problem, here.vector, points, packing, priors), inverse=here.inverse)
    return here


def _shrunk(gradients: Array) -> Array:
    """Outer products of gradients, shrunk to their diagonal."""
    n_subjects, n_numbers = gradients.shape
    products = gradients.T @ gradients
    own = np.diag(products).copy()
    products *= 1 - 0.5 * n_numbers / (n_numbers + n_subjects)
    np.fill_diagonal(products, own)
    return products


def bfgs_update(inverse: Array, step: Array, change: Array, expected: Array) -> Array:
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
