"""Several starts, a few passes for each, and the best one followed to the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.dive.acceleration import first_leap, leap_ahead
from braindive.dive.convergence import Monitor
from braindive.dive.e_step import densities, e_step
from braindive.dive.em import Leap, change_between, run_em
from braindive.dive.field import bearable_strength, expectation, grown_field
from braindive.dive.initial import Direction, start_shifts
from braindive.dive.partitions import (
    find_partitions,
    judge,
    leading_vertices,
    may_begin_without_field,
    of_some,
)
from braindive.dive.pooled import PooledMeans
from braindive.dive.problem import Parameters, Problem, State
from braindive.dive.progression import Progression
from braindive.dive.settings import Settings
from braindive.dive.timeline import Timeline
from braindive.dive.trajectories import search_trajectories
from braindive.values.protocol import Products

# Passes after which only the best of several starts goes on. A choice.
_SCREENING = 4
# Most passes without the field, before it, and the strength of the field that a typical vertex must
# be able to bear for these to be where a fit begins. On simulated cortices they led to a better
# optimum than k-means in 58 of 66 cohorts that bear 5 or more (worse by 1,000 at most in the
# others, where k-means was worse by up to 49,000), and in 16 of 48 that bear 1.4 to 3.3.
_FREELY, _PLAIN = 15, 4.0
# The pass of the first leap where there is none.
_NEVER = sys.maxsize
# By so much the log-posterior of one direction must exceed the other's to settle the matter: odds
# of 150 to 1. A choice.
CLEAR_ODDS = 5.0


@dataclass(frozen=True)
class Start:
    """A state to begin from, and the problem it belongs to."""

    state: State
    problem: Problem
    direction: Direction
    reversed: bool


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
    chosen = leading_vertices(settings, measurements.n_vertices)
    if chosen is None:
        partitions, features, is_plain = [], None, False
        if may_begin_without_field(settings):
            z, is_plain = _begin_without_field(measurements, timeline, settings, controls, random)
            partitions = [z]
        if not is_plain:
            found, features = find_partitions(measurements, settings, random)
            partitions = found + partitions
        progression = judge(measurements, timeline, settings, random, features)
        starts = find_starts(measurements, timeline, settings, controls, partitions)
        best, clear, state, monitor = follow_best(starts, settings, report, resume)
        problem = starts[best].problem
    else:
        # Some of the vertices lead: all of them only follow the best of all starts.
        sample, own = measurements.sample(chosen), of_some(settings, chosen)
        partitions, features = find_partitions(sample, own, random)
        progression = judge(measurements, timeline, settings, random, some=(sample, features))
        starts = find_starts(sample, timeline, own, controls, partitions, measurements.n_vertices)
        best, clear, state, led = follow_best(starts, settings)
        problem = replace(starts[best].problem, measurements=measurements, each=1.0)
        runs = _Runs(settings, report, len(starts), resume)
        if runs.traces[best] is None:
            runs.begin(best, problem, state.parameters)
        slow = first_leap(led) is not None
        leaps = partial(leap_ahead, first=1 if slow else _NEVER)
        rate = 1.0 if slow else led.last_rate()
        state, monitor = runs.follow(best, problem, settings.max_iter, leap=leaps, rate=rate)
    direction = starts[best].direction
    if clear is None:
        clear = not direction.is_doubtful or not timeline.has_follow_up
    return Outcome(state, monitor, problem, direction, clear, progression)


def _begin_without_field(
    measurements: Products,
    timeline: Timeline,
    settings: Settings,
    controls: BoolArray | None,
    random: np.random.Generator,
) -> tuple[Array, bool]:
    """Responsibilities that the EM finds without the field, and whether to begin there alone.

    Where people differ much and smoothly, k-means finds how they differ, and a field from the first
    pass on holds what it finds. Where measurements alone tell most labels, these are where to
    begin; else a field grows on them, and they are one place among others.
    """
    free = replace(settings, graph=None, strength=None, max_iter=min(_FREELY, settings.max_iter))
    chosen = leading_vertices(free, measurements.n_vertices)
    some = measurements if chosen is None else measurements.sample(chosen)
    partitions, _ = find_partitions(some, free, random)
    starts = find_starts(some, timeline, free, controls, partitions, measurements.n_vertices)
    best, _, state, _ = follow_best(starts, free)
    density = state.log_densities
    if chosen is not None or density is None:
        problem = replace(starts[best].problem, measurements=measurements, each=1.0)
        density = densities(problem, state.parameters)
    assert settings.graph is not None
    bearable = bearable_strength(density)
    if bearable >= _PLAIN:
        return expectation(density), True
    strength = bearable if settings.strength is None else min(bearable, settings.strength)
    return grown_field(density, settings.graph, strength), False


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

    def begin(self, number: int, problem: Problem, parameters: Parameters) -> None:
        """Make the first pass at parameters that are known already, where no z is."""
        monitor = Monitor(self._tol, 1)
        shape = problem.measurements.n_vertices, len(parameters.trajectories)
        state = State(parameters, np.full(shape, 1 / shape[1]))
        there, _, objective = e_step(problem, parameters, state)
        monitor.update(objective, change_between(state, there))
        self._tell(number, there, monitor)

    def follow(
        self,
        number: int,
        problem: Problem,
        max_iter: int,
        start: State | None = None,
        leap: Leap = leap_ahead,
        rate: float = 1.0,
    ) -> tuple[State, Monitor]:
        """Go on with a start from where it stands; nothing happens if it is past `max_iter`."""
        trace = self.traces[number]
        if trace is None:
            assert start is not None
            trace = Trace(start, (), ())
        monitor = Monitor(self._tol, max_iter, list(trace.objectives), list(trace.changes), rate)

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
    for z in partitions:
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
            starts.append(Start(state, problem, direction, sign < 0))
    return starts


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
