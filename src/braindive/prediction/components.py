"""Spatial components of people's deviations, and how these and the rest of them persist."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.dive.timeline import Timeline
from braindive.prediction.deviations import solve_scores
from braindive.prediction.kernel import Kernel
from braindive.prediction.likelihood import (
    Turn,
    find_shape,
    kernel_of,
    share_of_ratios,
    tame,
    visit_factors,
)

NOTHING = Kernel(np.array([1.0, 0.0, 0.0]), np.zeros(0), np.zeros(0))
# Series from which the shape of a kernel is found, which all of them share: evenly spaced.
_SERIES = 200


@dataclass(frozen=True)
class PartModel:
    """Components and kernels of some vertices.

    Parameters
    ----------
    components : (n_vertices, n_components)
        Orthonormal.
    component_kernel, vertex_kernel : Kernel
        Of the components' scores, and of what they leave of each vertex.
    """

    components: Array
    component_kernel: Kernel
    vertex_kernel: Kernel


def learn_part(
    deviations: Array,
    observed: BoolArray,
    timeline: Timeline,
    times: Array,
    numbers: list[int],
    moving: bool,
    shapes: list[PartModel] | None = None,
) -> list[PartModel]:
    """Components and kernels with several numbers of components.

    Parameters
    ----------
    deviations : (n_visits, n_vertices)
        0 where not observed.
    observed : (n_visits, n_vertices) bool
        Where there are deviations.
    timeline : Timeline
        Whose visits they are.
    times : (n_visits,)
        Since each person's first visit.
    numbers : list of int
        Of components.
    moving : bool
        Whether people may have slopes and drifts of their own.
    shapes : list of PartModel, optional
        Whose kernels have the shapes to use, one for each number; else they are looked for.
    """
    holes = None if observed.all() else observed
    deviations = deviations * visit_factors(deviations, holes)[:, None]
    most = max(numbers)
    known = None if shapes is None else shapes[int(np.argmax(numbers))].component_kernel.shape
    turn, kernel = find_components(deviations, holes, timeline, times, most, moving, known)
    components = _orthonormal(deviations.T @ turn)
    scores = part_scores(deviations, observed, components)
    found = []
    for i, number in enumerate(numbers):
        rest = deviations - scores[:, :number] @ components[:, :number].T
        if holes is not None:
            rest = rest * holes
        rest = tame(rest, holes)
        known = None if shapes is None else shapes[i].vertex_kernel.shape
        own = kernel_of_series(rest, holes, timeline, times, moving, known)
        found.append(PartModel(components[:, :number], kernel.at(slice(number)), own))
    return found


def kernel_of_series(
    rest: Array,
    observed: BoolArray | None,
    timeline: Timeline,
    times: Array,
    moving: bool,
    shape: Array | None = None,
) -> Kernel:
    """Kernel of series by restricted likelihood; the shape, if not given, from some of them."""
    if not timeline.has_follow_up:  # half of what is seen is taken to last
        half = 0.5 * np.sum(rest**2, axis=0, dtype=float) / len(rest) + 1e-12
        return Kernel(NOTHING.shape, half, half)
    if shape is None:
        some = slice(None, None, max(1, rest.shape[1] // _SERIES))
        seen = None if observed is None else observed[:, some]
        shape, _ = find_shape(timeline, times, rest[:, some], seen, moving)
    sums = Turn.of(shape, timeline, times).sums(rest, observed)
    return kernel_of(shape, sums, share_of_ratios(sums.log_likelihood()))


def find_components(
    deviations: Array,
    observed: BoolArray | None,
    timeline: Timeline,
    times: Array,
    number: int,
    moving: bool,
    shape: Array | None = None,
) -> tuple[Array, Kernel]:
    """Combinations of visits whose mean deviations are spatial components, and how these persist.

    The variances come from people who had no part in finding the components: two halves judge
    each other's, so that noise that happens to look like a component is not trusted.

    Returns
    -------
    turn : (n_visits, n_components)
        Components are deviations' @ turn.
    kernel : Kernel
        Of the components' scores.
    """
    if not number:
        return np.zeros((len(times), 0), dtype=deviations.dtype), NOTHING
    counts = timeline.n_visits_of_subject
    people = timeline.by_subject(deviations) / counts[:, None].astype(deviations.dtype)
    halves, found = np.arange(timeline.n_subjects) % 2 == 0, []
    for half in (halves, ~halves):
        components = people[half].T @ _leading(people[half], number)
        own, judged = timeline.select(np.flatnonzero(~half))
        seen = None if observed is None else observed[judged]
        scores = part_scores(deviations[judged], seen, components)
        found.append(kernel_of_series(scores, None, own, times[judged], moving, shape))
    mean = _leading(people, number) / counts[:, None]
    kernel = Kernel(
        np.mean([one.shape for one in found], axis=0),
        np.mean([one.persistent for one in found], axis=0),
        np.mean([one.noise for one in found], axis=0),
    )
    return mean[timeline.subject_of_visit].astype(deviations.dtype), kernel


def part_scores(values: Array, observed: BoolArray | None, components: Array) -> Array:
    """Scores of visits on orthonormal components, (n_visits, n_components)."""
    if not components.shape[1]:
        return np.zeros((len(values), 0))
    sums = (values @ components).astype(float)
    if observed is None or observed.all():
        return sums
    squares = (components[:, :, None] * components[:, None, :]).reshape(len(components), -1)
    seen = observed.astype(float) @ squares
    return solve_scores(sums, seen.reshape(len(sums), components.shape[1], -1))


def _leading(people: Array, number: int) -> Array:
    """Combinations of people whose maps are orthonormal: left singular vectors over their sizes."""
    n_people, n_vertices = people.shape
    if n_people <= n_vertices:
        values, vectors = np.linalg.eigh((people @ people.T).astype(float))
        left = vectors[:, ::-1][:, :number]
    else:
        values, vectors = np.linalg.eigh((people.T @ people).astype(float))
        left = people @ vectors[:, ::-1][:, :number]
        left = left / np.maximum(np.linalg.norm(left, axis=0), 1e-300)
    sizes = np.maximum(values[::-1][:number], 1e-9 * max(float(values[-1]), 1e-300))
    return np.asarray(left / np.sqrt(sizes), dtype=people.dtype)


def _orthonormal(components: Array) -> Array:
    """The nearest orthonormal ones: C (C'C)^-1/2."""
    if not components.shape[1]:
        return components
    return np.asarray(components @ inverse_root(components).astype(components.dtype))


def inverse_root(components: Array) -> Array:
    """(C'C)^-1/2."""
    values, vectors = np.linalg.eigh((components.T @ components).astype(float))
    floor = 1e-9 * max(float(values[-1]), 1e-300)
    return np.asarray((vectors / np.sqrt(np.maximum(values, floor))) @ vectors.T)
