"""Many clusters in few reads of the values.

Clusters that overlap make the EM creep: 20 of them needed more than 400 passes. What creeps are the
curves and z; speeds and shifts rest on all vertices and hardly move. So between two passes the
curves, their noise and z are brought to their optimum at the scores as they are. That needs one
read of the values (`compressed`), and is itself an EM that leaps (`leaps`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from braindive.arrays import Array
from braindive.dive.compressed import Compressed
from braindive.dive.convergence import Monitor
from braindive.dive.e_step import e_step, pool
from braindive.dive.em import change_between, m_step
from braindive.dive.field import log_evidence
from braindive.dive.information import information
from braindive.dive.leaps import Leaps
from braindive.dive.moves import most_similar, split_and_merge, widest
from braindive.dive.problem import Parameters, Problem, State
from braindive.dive.trajectories import Sums
from braindive.values.protocol import Products

# Passes without acceleration, and how many more the EM must seem to need before it is accelerated,
# since the first leap takes the time of about ten passes. Choices.
_PLAIN = 4
_SLOW = 8
# Passes with leaps, of which 20 clusters need three: what is left then is rounding. A choice.
_LEAPS = 12
# Change of the responsibilities, in tolerances, below which a few plain passes end. A choice.
_LITTLE = 30
# Most steps of an EM on compressed measurements, each at a small part of the cost of a pass.
_STEPS = 100
# Vertices of which the first leap makes most of its way; those on which other splits are tried,
# the change of responsibilities at which an EM on them ends, most steps of a trial, by how many
# standard errors and at least by how much it must be better (less may be the same optimum once
# more), and trials without success after which there are no more. Choices.
_MANY = 40_000
_ENOUGH = 10_000
_ROUGH = 3e-4
_TRIAL = 20
_STANDARD_ERRORS = 2.0
_LEAST_GAIN = 5.0
_FAILURES = 3
# A number of a pass in which no other valleys are searched for, see `em.m_step`.
_NO_SEARCH = 1001
# Steps by which curves that are near their optimum come to it; measured: more change nothing.
_NEAR = 3
# Relative gain of a step that is nothing: less than one of a log-likelihood of 1e8. A choice.
_NOTHING = 1e-9
# How much further than planned the curves of a leap may go; beyond, it is shortened. A choice.
_BENT = 3.0


def leap_ahead(
    problem: Problem,
    parameters: Parameters,
    state: State,
    monitor: Monitor,
    first: int | None = None,
) -> Parameters | None:
    """Parameters to try in place of those that an M-step has found; None to go on with these.

    Parameters
    ----------
    problem : Problem
        What is fitted.
    parameters : Parameters
        From the M-step.
    state : State
        Before it.
    monitor : Monitor
        The passes so far.
    first : int, optional
        Pass, counted from 0, from which on there are leaps, where that is known. Else leaps begin
        where the EM is slow, and with other splits of the vertices into clusters.

    Returns
    -------
    Parameters or None
        Nothing but their arguments decides, so that an interrupted fit goes on to the same answer.
    """
    settled = problem.fixed is not None or len(parameters.trajectories) < 2
    if settled or problem.graph is not None or problem.exact or monitor.taken_back:
        return None
    if problem.vertices_differ(parameters):
        return None
    if monitor.changes and monitor.changes[-1] < _LITTLE * monitor.tol:
        return None
    begin = first_leap(monitor) if first is None else first
    if begin is None or not begin <= monitor.n_iter < begin + _LEAPS:
        return None
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    data = Compressed.of(problem.measurements, parameters.trajectories, scores)
    small, tol = at_these_scores(problem, data), monitor.tol
    if len(data.counts) > 2 * _MANY and monitor.n_iter == begin:
        # Some of the vertices go most of the way.
        part = at_these_scores(
            replace(problem, each=problem.each * data.every(_MANY)), data.some_vertices(_MANY)
        )
        parameters = climb(part, parameters, state, tol)[0].parameters
    best = climb(small, parameters, state, tol)
    if first is None and monitor.n_iter == begin:
        moved = move_clusters(problem, data.some_vertices(_ENOUGH), best[0])
        if moved is not None:
            best = max(best, climb(small, moved, state, tol), key=lambda found: found[1])
    return best[0].parameters


def first_leap(monitor: Monitor) -> int | None:
    """Pass, counted from 0, from which on there are leaps; None where all is plain so far.

    Leaps begin where the changes of the responsibilities fall so slowly that they would need many
    more passes to become as small as the tolerance.
    """
    for number in range(_PLAIN, monitor.n_iter + 1):
        before, last = monitor.changes[number - 2 : number]
        if last >= before:
            return number
        if last > 0 and np.log(monitor.tol / last) < _SLOW * np.log(last / before):
            return number
    return None


def at_these_scores(problem: Problem, data: Compressed) -> Problem:
    """Return the problem of curves, noise and z on compressed measurements."""
    # Not all of the products, but all that is asked for where stages and a field are not fitted.
    return replace(problem, measurements=cast(Products, data), staging=False)


def move_clusters(problem: Problem, data: Compressed, state: State) -> Parameters | None:
    """Try other splits of some vertices into clusters; None where none of them is better.

    Pairs of clusters are merged, from the most similar one on, and the cluster whose vertices
    differ most takes the place that is free.
    """
    share = len(data.counts) / (problem.each * problem.measurements.n_vertices)
    problem = at_these_scores(problem, data)
    here, _ = climb(problem, state.parameters, state, _ROUGH, _TRIAL)
    failures, found = 0, None
    while failures < _FAILURES:
        parameters, z = here.parameters, here.responsibilities
        scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
        curves = parameters.trajectories.evaluate(scores)
        excess, sides = widest(data, curves, parameters.noise, z)
        pairs = most_similar(curves, parameters.noise, z.sum(axis=0))
        pair = pairs[min(failures, len(pairs) - 1)]
        excess[list(pair)] = -np.inf
        split = int(np.argmax(excess))
        if excess[split] <= 0:
            break
        z = split_and_merge(z, pair, split, sides[:, split])
        start = m_step(pool(problem, z), problem, parameters, 0)
        there, _ = climb(problem, start, here, _ROUGH, _TRIAL)
        if clearly_better(there, here, share):
            here, found, failures = there, there.parameters, 0
        else:
            failures += 1
    return found


def clearly_better(there: State, here: State, share: float) -> bool:
    """Whether all vertices are likelier in one state than in another, judged by some of them.

    The gain must be more than some of its standard errors over vertices (Vuong 1989), of which
    little is left where these are most of the vertices.

    Parameters
    ----------
    there, here : State
        To be compared.
    share : float
        Of the vertices that are seen among all.
    """
    assert there.log_densities is not None
    assert here.log_densities is not None
    gains = log_evidence(there.log_densities) - log_evidence(here.log_densities)
    error = np.sqrt((1 - share) * np.sum(gains**2))
    return bool(gains.sum() > max(_STANDARD_ERRORS * error, _LEAST_GAIN))


def climb(
    problem: Problem, parameters: Parameters, state: State, tol: float, max_iter: int = _STEPS
) -> tuple[State, float]:
    """EM with leaps; a leap that lowers the objective is taken back.

    Parameters
    ----------
    problem : Problem
        Without a Markov random field, and with fixed scores.
    parameters : Parameters
        Where to begin.
    state : State
        Where `parameters` come from.
    tol : float
        As in `convergence.Monitor`.
    max_iter : int
        Most E-steps.

    Returns
    -------
    State, float
        The best one, and its objective.
    """
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    state, sums, value = e_step(problem, parameters, state)
    leaps, image, known = Leaps(), m_step(sums, problem, parameters, _NO_SEARCH, steps=_NEAR), None
    for _ in range(max_iter):
        here = state.parameters
        if known is None:
            known = _information(problem, state, scores)
        # Parameters that the data hardly tell go far along a straight line, and curves with them.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            ahead = unpack(leaps.ahead(pack(here), pack(image), *known), image, problem)
            away = distance_between(ahead, image, sums, scores)
        if leaps.length > 0 and not away < _BENT * leaps.length:
            leaps.take_back()
            continue
        there, sums_there, value_there = e_step(problem, ahead, state)
        if not value_there >= value:
            if leaps.length == 0:
                break  # A step of the EM itself loses only what rounding takes.
            leaps.take_back()
            continue
        leaps.keep()
        nothing = value_there - value <= _NOTHING * abs(value)
        settled = nothing or change_between(state, there) < tol
        state, sums, value, known = there, sums_there, value_there, None
        if settled:
            break
        image = m_step(sums, problem, state.parameters, _NO_SEARCH, steps=_NEAR)
    return state, value


def _information(problem: Problem, state: State, scores: Array) -> tuple[Array, Array]:
    """As of `information`, with what the prior knows of the curves."""
    data, here = cast(Compressed, problem.measurements), state.parameters
    found = information(data, here.trajectories, here.noise, scores, state.responsibilities)
    complete, missing = (problem.each * each for each in found)
    if problem.priors.trajectory is not None:
        precision = np.zeros((len(here.noise), len(complete) // len(here.noise)))
        precision[:, :-1] = problem.priors.trajectory.precision
        complete[np.diag_indices_from(complete)] += precision.ravel()
    return complete, missing


def distance_between(one: Parameters, other: Parameters, sums: Sums, scores: Array) -> float:
    """How far apart curves and noise are, by the information of the complete data.

    The square root of sum_nk w_nk dF_nk^2 / sigma_k^2 + 2 sum_nk w_nk (d log sigma_k)^2.
    """
    curves = one.trajectories.evaluate(scores) - other.trajectories.evaluate(scores)
    noise = np.log(one.noise / other.noise)
    return float(np.sqrt(np.sum(sums.weights * ((curves / other.noise) ** 2 + 2 * noise**2))))


def pack(parameters: Parameters) -> Array:
    """What leaps go along: of every cluster its curve, and the logarithm of its noise."""
    return np.column_stack([parameters.trajectories.to_array(), np.log(parameters.noise)]).ravel()


def unpack(packed: Array, like: Parameters, problem: Problem) -> Parameters:
    """Undo `pack`; curves are moved into their bounds, and all else is as in `like`."""
    found = packed.reshape(len(like.noise), -1)
    curves = problem.bounds.clip(like.trajectories.from_array(found[:, :-1]))
    return replace(like, trajectories=curves, noise=np.exp(found[:, -1]))
