"""Many clusters in few reads of the values.

Clusters that overlap make the EM creep: 20 of them needed more than 400 passes. What creeps are the
curves and z; speeds and shifts rest on all vertices and hardly move. So between two passes the
curves, their noise and z are brought to their optimum at the scores as they are. That needs one
read of the values (`compressed`), and is itself an EM that leaps (`leaps`).
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from braindive.arrays import Array
from braindive.dive.compressed import Compressed
from braindive.dive.convergence import Monitor
from braindive.dive.curves import Curves
from braindive.dive.em import Parameters, Problem, State, e_step, m_step
from braindive.dive.leaps import Leaps
from braindive.dive.trajectories import Sums

# Passes without acceleration: few clusters have converged by then.
_PLAIN = 4
# Most steps of an EM on compressed measurements, each at a small part of the cost of a pass.
_STEPS = 100
# A number of a pass in which no other valleys are searched for, see `em.m_step`.
_NO_SEARCH = 1001
# Parameters that are positive, of which logarithms are extrapolated.
_POSITIVE = ("noise", "speeds")


def leap_ahead(
    problem: Problem, parameters: Parameters, state: State, monitor: Monitor
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

    Returns
    -------
    Parameters or None
        Nothing but their arguments decides, so that an interrupted fit goes on to the same answer.
    """
    settled = problem.fixed is not None or len(parameters.trajectories) < 2
    if settled or problem.graph is not None or problem.exact:
        return None
    if monitor.n_iter < _PLAIN or monitor.taken_back:
        return None
    scores = problem.timeline.scores(parameters.speeds, parameters.shifts)
    small = Compressed.of(problem.measurements, parameters.trajectories, scores)
    at_these_scores = replace(problem, measurements=small, staging=False)
    return climb(at_these_scores, parameters, state, monitor.tol).parameters


def climb(
    problem: Problem, parameters: Parameters, state: State, tol: float, max_iter: int = _STEPS
) -> State:
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
    State
        The best one.
    """
    state, sums, value = e_step(problem, parameters, state, 1.0)
    leaps, image = Leaps(), m_step(sums, problem, parameters, _NO_SEARCH)
    for _ in range(max_iter):
        embed = _Embedding(problem, image, sums)
        ahead = leaps.ahead(pack(state.parameters), pack(image), embed)
        there, sums_there, value_there = e_step(
            problem, unpack(ahead, image, problem), state, 1.0
        )
        if value_there < value:
            if leaps.length == 0:
                break  # A step of the EM itself loses only what rounding takes.
            leaps.take_back()
            continue
        leaps.keep()
        change = np.abs(there.responsibilities - state.responsibilities).sum(axis=1).mean() / 2
        state, sums, value = there, sums_there, value_there
        if change < tol:
            break
        image = m_step(sums, problem, state.parameters, _NO_SEARCH)
    return state


class _Embedding:
    """From packed parameters to vectors between which distance is information.

    The information of the complete data about the curves is sum_nk w_nk dF_nk^2 / sigma_k^2, and
    about the logarithms of the noise 2 sum_nk w_nk (d log sigma_k)^2.
    """

    def __init__(self, problem: Problem, parameters: Parameters, sums: Sums) -> None:
        self._problem, self._parameters = problem, parameters
        self._by_curves = np.sqrt(sums.weights) / parameters.noise
        self._by_noise = np.sqrt(2 * sums.weights.sum(axis=0))

    def __call__(self, packed: Array) -> Array:
        found = unpack(packed, self._parameters, self._problem)
        scores = self._problem.timeline.scores(found.speeds, found.shifts)
        curves = self._by_curves * found.trajectories.evaluate(scores)
        return np.concatenate([curves.ravel(), self._by_noise * np.log(found.noise)])


def pack(parameters: Parameters) -> Array:
    """All arrays among the parameters in one, positive ones by their logarithms."""
    parts = []
    for name in _names(parameters):
        part = getattr(parameters, name)
        part = part.to_array() if isinstance(part, Curves) else part
        parts.append(np.ravel(np.log(part) if name in _POSITIVE else part))
    return np.concatenate(parts)


def unpack(packed: Array, like: Parameters, problem: Problem) -> Parameters:
    """Undo `pack`; curves are moved into their bounds, and what is no array is as in `like`."""
    found, start = {}, 0
    for name in _names(like):
        old = getattr(like, name)
        shape = (old.to_array() if isinstance(old, Curves) else old).shape
        end = start + int(np.prod(shape))
        part = packed[start:end].reshape(shape)
        if isinstance(old, Curves):
            found[name] = problem.bounds.clip(old.from_array(part))
        else:
            found[name] = np.exp(part) if name in _POSITIVE else part
        start = end
    return replace(like, **found)


def _names(parameters: Parameters) -> list[str]:
    """Fields of the parameters that are arrays or curves."""
    names = [field.name for field in fields(parameters)]
    return [name for name in names if isinstance(getattr(parameters, name), np.ndarray | Curves)]
