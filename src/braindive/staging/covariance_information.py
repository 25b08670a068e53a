"""How much is known of E and B, were the stages known: what a climb begins with."""

from __future__ import annotations

import numpy as np

from braindive.arrays import Array
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.likelihood import Evaluation
from braindive.staging.packing import Packing, Part

# Subjects whose visits are worth the same but for such a share are counted as the same, where
# information is added up. A choice.
_SAME = 0.05
# Least share of the expected information that is believed of what was observed. A choice.
_LEAST_SHARE = 0.2


def expected_information(packing: Packing, vector: Array, problem: CorrelatedStageProblem) -> Array:
    """Information of the numbers of E and B, were the stages known.

    The J visits of a subject tell E by J - 1 contrasts, and E / J + B by their mean; of a
    covariance C, a normal vector has the information tr(C^-1 dC C^-1 dC) / 2. Where visits
    have multipliers d, J is the sum of 1 / d^2 for their mean; it is that of all clusters.
    """
    packed, covariance = packing.parts(vector), problem.covariance
    n_within, n_between = packing.sizes[Part.WITHIN], packing.sizes[Part.BETWEEN]
    found = np.zeros((n_within + n_between,) * 2)
    if packing.within is None:
        return found
    by_within = packing.within.derivatives(packed[Part.WITHIN])
    by_both = by_within
    if packing.between is not None:
        by_between = packing.between.derivatives(packed[Part.BETWEEN])
        by_both = np.concatenate([by_within, by_between])
    counts, people = np.unique(_visits_worth(problem), return_counts=True)
    for count, n_people in zip(counts, people, strict=True):
        share = np.append(np.full(n_within, 1 / count), np.ones(n_between))
        mean = covariance.between + covariance.within / count
        found += n_people * _normal_information(mean, share[:, None, None] * by_both)
    contrasts = len(problem.timeline.times) - problem.timeline.n_subjects
    of_contrasts = _normal_information(covariance.within, by_within)
    found[:n_within, :n_within] += contrasts * of_contrasts
    return found


def observed_information(
    packing: Packing, vector: Array, problem: CorrelatedStageProblem, at: Evaluation
) -> Array:
    """The same with what the residuals say beyond what is expected of them.

    Where people hardly differ, the prior alone keeps B from vanishing against what the likelihood
    says, which then bends as the numbers of B do. With D the gradient by C, the curvature is that
    which is expected, and 2 tr(C^-1 dC D dC) - tr(D ddC). Where subjects were seen unequally often,
    all count as seen as often as is usual. What is negative is not believed.

    Parameters
    ----------
    packing, vector, problem
        As in `expected_information`.
    at : Evaluation
        There.
    """
    expected = expected_information(packing, vector, problem)
    if packing.within is None:
        return expected
    packed, covariance, found = packing.parts(vector), problem.covariance, expected.copy()
    by_within, by_between = at.by_within.sum(axis=0), at.by_between.sum(axis=0)
    count = len(problem.timeline.times) / problem.timeline.n_subjects
    within = packing.within.derivatives(packed[Part.WITHIN])
    n_within, both = len(within), within / count
    found[:n_within, :n_within] -= packing.within.second_derivatives(by_within, packed[Part.WITHIN])
    if packing.between is not None:
        numbers = packed[Part.BETWEEN]
        both = np.concatenate([both, packing.between.derivatives(numbers)])
        found[n_within:, n_within:] -= packing.between.second_derivatives(by_between, numbers)
    of_mean = covariance.between + covariance.within / count
    found += _beyond(of_mean, by_between, both)
    # What is said of E but by the subjects' means.
    by_contrasts = by_within - by_between / count
    found[:n_within, :n_within] += _beyond(covariance.within, by_contrasts, within)
    root = np.linalg.cholesky(expected + 1e-8 * np.eye(len(expected)))
    half = np.linalg.inv(root)
    shares, vectors = np.linalg.eigh(half @ found @ half.T)
    turned = root @ vectors
    return np.asarray((turned * np.maximum(shares, _LEAST_SHARE)) @ turned.T)


def _beyond(covariance: Array, by_covariance: Array, derivatives: Array) -> Array:
    """tr(C^-1 dC D dC) of each pair of derivatives, and of the pair in the other order."""
    n_numbers = len(derivatives)
    one = (np.linalg.inv(covariance) @ derivatives).reshape(n_numbers, -1)
    other = (derivatives @ by_covariance).reshape(n_numbers, -1)
    products = one @ other.T
    return np.asarray(products + products.T)


def _visits_worth(problem: CorrelatedStageProblem) -> Array:
    """As how many visits with usual noise each subject's count."""
    timeline = problem.timeline
    if problem.multipliers is None:
        return timeline.n_visits_of_subject
    worth = timeline.by_subject(np.mean(1 / problem.multipliers**2, axis=1))
    return np.exp(np.round(np.log(worth) / _SAME) * _SAME)


def _normal_information(covariance: Array, derivatives: Array) -> Array:
    """Information of one normal vector on the numbers by which its covariance has derivatives."""
    half = np.linalg.inv(np.linalg.cholesky(covariance))
    rows = (half @ derivatives @ half.T).reshape(len(derivatives), -1)
    return np.asarray(0.5 * rows @ rows.T)
