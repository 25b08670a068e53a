"""How much is known of the parameters at the optimum: the expected information, by simulation.

Subjects' own gradients tell it where subjects are many. Where they are few, a parameter often
hangs on a handful of them, such as the midpoint of a curve that few are before: their outer
products vary so much that the inverse comes out too large, and errors with it. The subjects are
then measured again and again, in simulation, until there are enough.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from braindive.arrays import Array
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.likelihood import evaluate
from braindive.staging.optimum import Climb
from braindive.staging.packing import Packing
from braindive.staging.posterior import FINE, FINER, Points, points_at
from braindive.staging.simulated import simulate_again

# Subjects for each number that stages depend on, from which on their own gradients are enough, and
# up to which they are simulated else. In six cohorts with 7 for each, errors by their own gradients
# were up to a third too large; with 100 simulated, most were within 2 %, and all within 6 %.
ENOUGH_PER_NUMBER = 100
# Numbers beyond which offsets of sites ask for no more simulated subjects: many sites and clusters
# would else fill the memory. A choice.
_MOST_WITH_SITES = 300
# Subjects for each number from which on the uncertainty of E and B counts too; it hardly bears on
# the rest. A choice.
_MANY_PER_NUMBER = 20
# Information of a parameter that is taken for known.
_KNOWN = 1e12
# Length of the steps by which an effect's curvature is told, in standard errors. A choice.
_STEP = 0.05
# Of the simulated measurements, so that a fit gives the same errors whenever it is repeated.
_SEED = 0
# Numbers of such matrices that are held at once: 8 MiB for each kind of them. A choice.
_NUMBERS_AT_ONCE = 2**20


def known_information(at: Climb, packing: Packing) -> Array:
    """Information of the packed parameters at the optimum, for their standard errors.

    The expected outer products of the subjects' gradients, and the priors' own. Where subjects are
    few for each number, E and B are taken for known.

    Parameters
    ----------
    at : Climb
        At the optimum.
    packing : Packing
        Of the parameters.

    Returns
    -------
    (n_numbers, n_numbers) array
    """
    staged = packing.of_stages()
    n_subjects, n_numbers = at.n_subjects, len(at.vector)
    offsets = packing.of_sites
    n_offsets = offsets.stop - offsets.start
    enough = ENOUGH_PER_NUMBER * max(len(staged) - n_offsets, min(len(staged), _MOST_WITH_SITES))
    is_whole = n_subjects >= _MANY_PER_NUMBER * n_numbers
    numbers = np.arange(n_numbers) if is_whole else staged
    part = packing if is_whole else replace(packing, within=None, between=None)
    vector, curvature = at.vector[numbers], at.curvature[numbers]
    if n_subjects < enough:
        n_times = -(-enough // n_subjects)
        products = _simulated_products(at, part, vector, n_times) / n_times
    else:
        points = at.evaluation.posterior.lay_points(at.problem.prior, FINE)
        gradients = _subjects_gradients(at.problem, points, part, vector)
        products = gradients.T @ gradients
    products = _with_effects(products, at, part, vector, curvature) + np.diag(curvature + 1e-8)
    found = np.diag(np.full(n_numbers, _KNOWN))
    found[np.ix_(numbers, numbers)] = products
    return found


def _subjects_gradients(
    problem: CorrelatedStageProblem, points: Points, packing: Packing, vector: Array
) -> Array:
    """Gradients of the subjects' log-likelihoods by what is packed."""
    at = evaluate(problem, points, "none" if packing.within is None else "each")
    return packing.gradients(vector, problem, at)


def _with_effects(
    products: Array, at: Climb, packing: Packing, vector: Array, curvature: Array
) -> Array:
    """Outer products of gradients with the curvature of the likelihood in place of the effects'.

    The outer product of an effect's gradient is large where people of a small group happen to vary
    a lot, and its inverse, the error of the effect, then small, where it should be large: with 80
    people, effects that were none were 1.2 errors from 0 instead of 1. The curvature, by
    differences of the gradient, has no such noise.
    """
    n_effects = sum(packing.n_effects)
    if not n_effects:
        return products
    problem = at.problem
    points = at.evaluation.posterior.lay_points(problem.prior, FINER)

    def gradient(numbers: Array) -> Array:
        there = packing.unpack(numbers, problem)
        return packing.gradient(numbers, there, evaluate(there, points, "sum"))

    found = products.copy()
    for place in range(len(vector) - n_effects, len(vector)):
        step = np.zeros_like(vector)
        step[place] = _STEP / np.sqrt(max(products[place, place], 1e-12))
        change = gradient(vector - step) - gradient(vector + step)
        found[place] = found[:, place] = change / (2 * step[place])
    # The effects' own part comes from differences in two directions.
    own = slice(len(vector) - n_effects, len(vector))
    found[own, own] = (found[own, own] + found[own, own].T) / 2
    return found if np.linalg.eigvalsh(found + np.diag(curvature)).min() > 0 else products


def _simulated_products(at: Climb, packing: Packing, vector: Array, n_times: int) -> Array:
    """Outer products of the gradients of simulated subjects' log-likelihoods, all added up."""
    random, posterior = np.random.default_rng(_SEED), at.evaluation.posterior
    products = np.zeros((len(vector), len(vector)))
    # Each subject has matrices of its own, one number for every pair of clusters.
    at_once = max(1, _NUMBERS_AT_ONCE // (at.n_subjects * len(at.problem.noise) ** 2))
    for start in range(0, n_times, at_once):
        number = min(at_once, n_times - start)
        problem, speeds, shifts = simulate_again(at.problem, posterior, number, random)
        points = points_at(problem, speeds, shifts, FINE)
        gradients = _subjects_gradients(problem, points, packing, vector)
        products += gradients.T @ gradients
    return products
