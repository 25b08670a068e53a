"""Work on some subjects at a time, in threads: nobody's stage depends on the others.

Pieces have a fixed size, so that the number of threads cannot change a result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.stages import GRID, settle_stages, shift_grid
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.residuals import heights_at
from braindive.values.threads import in_threads

T = TypeVar("T")

# Numbers in an array that is worked on at once, so that it stays in the cache, and so many that
# threads rarely wait for each other; measured.
NUMBERS_AT_ONCE = 2**18
# Cluster means in a piece of the subjects: few enough to stay in the cache, and enough for numpy to
# be busy with them; a choice.
_MEANS_AT_ONCE = 2**15
# By how much the log-density of another mode may be lower for it to be looked at: on a grid, and at
# usual speeds. A choice; what it is worth is integrated.
_NEARLY_AS_HIGH = 12.0


def over_subjects(
    function: Callable[[CorrelatedStageProblem, slice], T],
    problem: CorrelatedStageProblem,
    n_means: int,
) -> list[T]:
    """Call with the problem of some subjects after the other, in threads.

    Parameters
    ----------
    function : callable
        Takes the problem of some subjects, and which they are.
    problem : CorrelatedStageProblem
        All subjects.
    n_means : int
        Cluster means of the visits of so many subjects as are taken at once.
    """

    def call(part: slice) -> T:
        return function(problem.select(np.arange(part.start, part.stop)), part)

    n_subjects = problem.timeline.n_subjects
    return in_threads(call, n_subjects, max(1, n_means * n_subjects // problem.pooled.means.size))


def search_stages(problem: CorrelatedStageProblem, known_shifts: Array) -> tuple[Array, Array]:
    """Most probable speeds and shifts, as `find_stages` has them, in less time.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects.
    known_shifts : (n,)
        Shifts of the training subjects, over whose range the best valley is looked for.
    """
    return search_modes(problem, known_shifts)[0]


@dataclass(frozen=True)
class Peaks:
    """The two highest peaks of some subjects' log-densities along the shift.

    Parameters
    ----------
    subjects : (n,) int
        Who.
    lower, valley, upper : (n,)
        Shifts of one peak, of the lowest place on the way, and of the other peak.
    """

    subjects: IntArray
    lower: Array
    valley: Array
    upper: Array


def search_modes(
    problem: CorrelatedStageProblem, known_shifts: Array
) -> tuple[tuple[Array, Array], Peaks]:
    """Most probable speeds and shifts, and who may be somewhere else altogether.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects.
    known_shifts : (n,)
        Shifts of the training subjects, over whose range modes are looked for.

    Returns
    -------
    speeds, shifts : (n_subjects,)
    peaks : Peaks
        Of those who have two that are nearly as high.
    """
    speeds, usual = problem.start()
    along = shift_grid(known_shifts, GRID)
    grid = np.append(np.nan, along)[:, None]

    def best(some: CorrelatedStageProblem, part: slice) -> tuple[Array, Array]:
        tried = np.where(np.isnan(grid), usual[part], grid)
        heights = heights_at(some, np.broadcast_to(np.log(speeds[part]), tried.shape), tried)
        highest = tried[heights.argmax(axis=0), np.arange(tried.shape[1])]
        return highest, _two_peaks(heights[1:], along)

    peaks = over_subjects(best, problem, NUMBERS_AT_ONCE // len(grid))
    shifts, places = (np.concatenate(parts, axis=-1) for parts in zip(*peaks, strict=True))
    found = over_subjects(
        lambda some, part: settle_stages(some, speeds[part], shifts[part]),
        problem,
        _MEANS_AT_ONCE,
    )
    speeds, shifts = (np.concatenate(parts) for parts in zip(*found, strict=True))
    two = np.flatnonzero(np.isfinite(places[0]))
    return (speeds, shifts), Peaks(two, *places[:, two])


def _two_peaks(heights: Array, along: Array) -> Array:
    """Lower peak, valley and upper peak of each column, (3, n_subjects).

    Of the two highest peaks; nan where the second is not nearly as high.

    Parameters
    ----------
    heights : (n, n_subjects)
        Log-densities.
    along : (n,)
        Where they are.
    """
    beyond = np.full((1, heights.shape[1]), -np.inf)
    padded = np.concatenate([beyond, heights, beyond])
    is_peak = (heights > padded[:-2]) & (heights >= padded[2:])
    peaks = np.where(is_peak, heights, -np.inf)
    columns = np.arange(heights.shape[1])
    first, highest = peaks.argmax(axis=0), peaks.max(axis=0)
    peaks[first, columns] = -np.inf
    second = peaks.argmax(axis=0)
    is_two = peaks[second, columns] > highest - _NEARLY_AS_HIGH
    low, high = np.minimum(first, second), np.maximum(first, second)
    index = np.arange(len(along))[:, None]
    between = np.where((index >= low) & (index <= high), heights, np.inf)
    places = along[np.stack([low, between.argmin(axis=0), high])]
    return np.where(is_two, places, np.nan)
