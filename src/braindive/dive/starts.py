"""Several starts, a few passes for each, and the best one followed to the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.acceleration import first_leap, leap_ahead
from braindive.dive.convergence import Monitor
from braindive.dive.curves import Curves
from braindive.dive.e_step import e_step
from braindive.dive.em import Leap, change_between, run_em
from braindive.dive.initial import (
    Direction,
    cluster_vertices,
    fill_in,
    one_hot,
    start_shifts,
    vertex_features,
)
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Priors
from braindive.dive.problem import Parameters, Problem, State
from braindive.dive.progression import Progression, judge_progression
from braindive.dive.timeline import Timeline
from braindive.dive.trajectories import search_trajectories
from braindive.values.protocol import Products
from braindive.values.sampling import evenly_spread

# Passes after which only the best of several starts goes on. A choice.
_SCREENING = 4
# The pass of the first leap where there is none.
_NEVER = sys.maxsize
# By so much the log-posterior of one direction must exceed the other's to settle the matter: odds
# of 150 to 1. A choice.
CLEAR_ODDS = 5.0


@dataclass(frozen=True)
class Settings:
    """What a user can choose.

    Parameters
    ----------
    n_clusters : int
        K.
    curve : type of Curves
        Shape of the trajectories.
    graph : sparse (n_vertices, n_vertices) or None
        Neighbours; None switches the Markov random field off.
    strength : float or None
        lambda where it is fixed.
    labels : (n_vertices,) int or None
        Fixed clusters, -1 where a vertex belongs nowhere.
    start : (n_vertices, n_clusters) or None
        Responsibilities to begin from in place of those of k-means; 0 in all clusters where
        nothing is known of a vertex.
    staging, exact, vertices
        As in `problem.Problem`.
    n_init, max_iter : int
        Starts of k-means, and the most passes over the values.
    tol : float
        As in `convergence.Monitor`.
    priors : Priors
        In internal units.
    """

    n_clusters: int
    curve: type[Curves]
    graph: csr_array | None
    strength: float | None
    labels: IntArray | None
    start: Array | None
    staging: bool
    exact: bool
    vertices: Literal["alike", "differ", "auto"]
    n_init: int
    max_iter: int
    tol: float
    priors: Priors


@dataclass(frozen=True)
class Start:
    """A state to begin from, the problem it belongs to, and which partition it is made of."""

    state: State
    problem: Problem
    direction: Direction
    reversed: bool
    partition: int


@dataclass(frozen=True)
class Outcome:
    """The best fit, how it went, and what the data say of direction and progression at all."""

    state: State
    monitor: Monitor
    problem: Problem
    direction: Direction
    direction_is_clear: bool
    progression: Progression


@dataclass(frozen=True)
class Trace:
    """Where one start stands: its last state, and the objective and change of each iteration."""

    state: State
    objectives: tuple[float, ...]
    changes: tuple[float, ...]


Checkpoint = tuple[Trace | None, ...]
"""Where every start stands, None for those not begun: enough to go on to the same answer."""

Report = Callable[[State, Monitor, int, Checkpoint], None]
"""Told the state, the monitor, the number of the start and where every start stands."""


def fit_best(
    measurements: Products,
    timeline: Timeline,
    settings: Settings,
    controls: BoolArray | None,
    random: np.random.Generator,
    report: Report | None = None,
    resume: Checkpoint | None = None,
) -> Outcome:
    """Fit from several starts and keep the best.

    Parameters
    ----------
    measurements : Products
        The products of the values.
    timeline : Timeline
        When subjects were seen.
    settings : Settings
        What to fit.
    controls : (n_visits,) bool or None
        Control visits in canonical order.
    random : Generator
        For the starts.
    report : callable, optional
        Called after each iteration.
    resume : Checkpoint, optional
        What `report` was last told by an interrupted fit of the same data, settings and seed.

    Returns
    -------
    Outcome
    """
    partitions, features = find_partitions(measurements, settings, random)
    progression = judge(measurements, timeline, settings, features, random)
    chosen = None if is_settled(settings) else evenly_spread(measurements.n_vertices)
    if chosen is None:
        starts = find_starts(measurements, timeline, settings, controls, partitions)
        best, clear, state, monitor = follow_best(starts, settings, report, resume)
        problem = starts[best].problem
    else:
        # Some of the vertices lead: of all starts, only the best one is followed by all vertices.
        sample = measurements.sample(chosen)
        parts = [np.ascontiguousarray(z[chosen]) for z in partitions]
        starts = find_starts(sample, timeline, settings, controls, parts, measurements.n_vertices)
        best, clear, state, led = follow_best(starts, settings)
        problem = replace(starts[best].problem, measurements=measurements, each=1.0)
        runs = _Runs(settings, report, len(starts), resume)
        start = State(state.parameters, partitions[starts[best].partition])
        slow = first_leap(led) is not None
        # A quick EM gains more by an M-step with all vertices than by what the sample has found.
        if runs.traces[best] is None and (slow or problem.vertices_differ(state.parameters)):
            runs.begin(best, problem, start)
        leaps = partial(leap_ahead, first=1 if slow else _NEVER)
        state, monitor = runs.follow(best, problem, settings.max_iter, start, leaps)
    direction = starts[best].direction
    if clear is None:
        clear = not direction.is_doubtful or not timeline.has_follow_up
    return Outcome(state, monitor, problem, direction, clear, progression)


def is_settled(settings: Settings) -> bool:
    """Whether some of the vertices cannot lead the others, or need not."""
    alone = settings.labels is None and settings.graph is None and not settings.exact
    return not alone or settings.n_clusters < 2


def follow_best(
    starts: list[Start],
    settings: Settings,
    report: Report | None = None,
    resume: Checkpoint | None = None,
) -> tuple[int, bool | None, State, Monitor]:
    """A few passes for each start, and the best one to the end.

    Returns
    -------
    best : int
        Its number.
    clear : bool or None
        Whether the other direction is ruled out; None where it was not tried.
    state, monitor
        Where it ended, and how.
    """
    runs = _Runs(settings, report, len(starts), resume)
    screening = min(_SCREENING, settings.max_iter) if len(starts) > 1 else settings.max_iter
    screened = [
        runs.follow(number, start.problem, screening, start.state)[1]
        for number, start in enumerate(starts)
    ]
    # A resumed start may be past the screening, but is judged as it stood then.
    objectives = np.array([monitor.objectives[:screening][-1] for monitor in screened])
    best = int(np.argmax(objectives))
    other_way = np.array([start.reversed != starts[best].reversed for start in starts])
    clear = None
    if other_way.any():
        clear = float(objectives[best] - objectives[other_way].max()) > CLEAR_ODDS
        if not clear and starts[best].direction.is_clear:
            # What the likelihood leaves open, known controls decide.
            clear = True
            if starts[best].reversed:
                best = int(np.argmax(np.where(other_way, objectives, -np.inf)))
    return best, clear, *runs.follow(best, starts[best].problem, settings.max_iter)


class _Runs:
    """Where every start stands, told after each pass."""

    def __init__(
        self, settings: Settings, report: Report | None, n_starts: int, resume: Checkpoint | None
    ) -> None:
        self.traces: list[Trace | None] = list(resume or [None] * n_starts)
        if len(self.traces) != n_starts:
            raise ValueError(
                f"the checkpoint has {len(self.traces)} starts; this fit has {n_starts}."
            )
        self._tol, self._report = settings.tol, report

    def begin(self, number: int, problem: Problem, state: State) -> None:
        """Make the first pass at parameters that are known already."""
        monitor = Monitor(self._tol, 1)
        there, _, objective = e_step(problem, state.parameters, state)
        monitor.update(objective, change_between(state, there))
        self._tell(number, there, monitor)

    def follow(
        self,
        number: int,
        problem: Problem,
        max_iter: int,
        start: State | None = None,
        leap: Leap = leap_ahead,
    ) -> tuple[State, Monitor]:
        """Go on with a start from where it stands; nothing happens if it is past `max_iter`."""
        trace = self.traces[number]
        if trace is None:
            assert start is not None
            trace = Trace(start, (), ())
        monitor = Monitor(self._tol, max_iter, list(trace.objectives), list(trace.changes))

        def tell(state: State, monitor: Monitor) -> None:
            self._tell(number, state, monitor)

        return run_em(problem, trace.state, monitor, tell, leap), monitor

    def _tell(self, number: int, state: State, monitor: Monitor) -> None:
        self.traces[number] = Trace(state, tuple(monitor.objectives), tuple(monitor.changes))
        if self._report is not None:
            self._report(state, monitor, number, tuple(self.traces))


def find_starts(
    measurements: Products,
    timeline: Timeline,
    settings: Settings,
    controls: BoolArray | None,
    partitions: list[Array],
    n_vertices: int | None = None,
) -> list[Start]:
    """One start for each partition to begin from; two where the direction is not clear.

    Where the measurements are a sample, `n_vertices` is the number of all vertices.
    """
    starts = []
    each = (n_vertices or measurements.n_vertices) / measurements.n_vertices
    for number, z in enumerate(partitions):
        sums = measurements.pool(z)
        pooled = PooledMeans.from_products(*sums, z, measurements.squares)
        shifts, direction = start_shifts(pooled, timeline, controls)
        if not settings.staging:
            shifts = timeline.centres / timeline.unit
        doubtful = direction.is_doubtful
        both_ways = settings.staging and timeline.has_follow_up and doubtful
        for sign in (1.0, -1.0) if both_ways else (1.0,):
            problem, parameters = _set_out(
                measurements, timeline, settings, pooled, sign * shifts, z
            )
            problem = replace(problem, each=each)
            state = State(parameters, z, pooled=sums)
            starts.append(Start(state, problem, direction, sign < 0, number))
    return starts


def find_partitions(
    measurements: Products, settings: Settings, random: np.random.Generator
) -> tuple[list[Array], Array | None]:
    """Responsibilities to begin from, and the features of the vertices where they were needed.

    Fixed ones, given ones, or all that k-means ends in.
    """
    if settings.labels is not None:
        return [one_hot(settings.labels, settings.n_clusters)], None
    if settings.start is not None and (settings.start.sum(axis=1) > 0).all():
        return [settings.start], None
    features = vertex_features(measurements, settings.graph, random)
    if settings.start is not None:
        return [fill_in(settings.start, features)], features
    found = cluster_vertices(features, settings.n_clusters, random, settings.n_init)
    return [one_hot(labels, settings.n_clusters) for labels in found], features


def judge(
    measurements: Products,
    timeline: Timeline,
    settings: Settings,
    features: Array | None,
    random: np.random.Generator,
) -> Progression:
    """Judge whether there is a progression, by clusters that the order of visits has no part in."""
    # With random numbers of its own, so that those of the starts stay the same.
    (own,) = random.spawn(1)
    regions = None
    if settings.labels is not None:
        regions = one_hot(settings.labels, settings.n_clusters)
    elif features is None and timeline.has_follow_up:
        # A given start may come from a fit of the same visits in their order, and is not used.
        features = vertex_features(measurements, settings.graph, own)
    return judge_progression(measurements, timeline, features, regions, own)


def _set_out(
    measurements: Products,
    timeline: Timeline,
    settings: Settings,
    pooled: PooledMeans,
    shifts: Array,
    z: Array,
) -> tuple[Problem, Parameters]:
    """Scale priors and bounds to the starting scores, and find curves to begin with."""
    speeds = np.ones_like(shifts)
    scores = timeline.scores(speeds, shifts)
    fixed = settings.labels is not None
    problem = Problem(
        measurements,
        timeline,
        settings.priors.scaled_to(scores),
        settings.curve.bounds(scores),
        graph=None if fixed else settings.graph,
        strength=settings.strength,
        fixed=z if fixed else None,
        staging=settings.staging,
        exact=settings.exact,
        vertices=settings.vertices,
    )
    curves = search_trajectories(settings.curve, pooled, scores, problem.bounds)
    noise = np.sqrt(np.maximum(pooled.variance(pooled.means), 1e-10))
    return problem, Parameters(curves, noise, speeds, shifts)
