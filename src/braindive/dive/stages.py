"""Speeds and shifts of all subjects at once, given the trajectories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.curves import Curves
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Gamma, Normal
from braindive.dive.timeline import Timeline
from braindive.dive.trajectories import Sums

# Relative gain of a step at which a subject's stage has settled: near what rounding allows.
_TOL = 1e-10
# Shifts among which the best valley of a subject is looked for. A choice.
GRID = 101
# Steps in a round, after which those who have settled are left alone, and most rounds. Choices.
_STEPS = 10
_ROUNDS = 10


class StageLoss(Protocol):
    """Losses of all subjects' speeds and shifts."""

    @property
    def timeline(self) -> Timeline:
        """When subjects were seen."""

    def start(self) -> tuple[Array, Array]:
        """Usual speeds and shifts, from which a search may begin."""

    def loss(self, speeds: Array, shifts: Array) -> Array:
        """Negative log-posterior of every subject up to a constant, (n_subjects,)."""

    def gradient(self, speeds: Array, shifts: Array) -> tuple[Array, Array]:
        """Gradient (n_subjects, 2) and Gauss-Newton Hessian by (log speed, shift) of `loss`."""


class SelectableLoss(StageLoss, Protocol):
    """Losses from which those of some subjects can be taken."""

    def select(self, subjects: IntArray) -> SelectableLoss:
        """Losses of some subjects, ascending."""


@dataclass(frozen=True)
class StageProblem:
    """Where on the trajectories is each subject, and how fast does it move?

    Parameters
    ----------
    sums : Sums
        Measurements pooled over vertices.
    timeline : Timeline
        When subjects were seen.
    trajectories : Curves
        The clusters' curves.
    noise : (n_clusters,)
        Noise standard deviations.
    speed_prior, shift_prior : Gamma, Normal
        Priors of alpha_i and beta_i.
    """

    sums: Sums
    timeline: Timeline
    trajectories: Curves
    noise: Array
    speed_prior: Gamma
    shift_prior: Normal

    def select(self, subjects: IntArray) -> StageProblem:
        """Return the problem of some of the subjects, ascending; for pooled measurements."""
        assert isinstance(self.sums, PooledMeans)
        timeline, visits = self.timeline.select(subjects)
        return replace(self, timeline=timeline, sums=self.sums.select(visits))

    def start(self) -> tuple[Array, Array]:
        """Most probable speed and shift by their priors, for every subject."""
        n_subjects = self.timeline.n_subjects
        return (
            np.full(n_subjects, self.speed_prior.mode),
            np.full(n_subjects, float(self.shift_prior.mean)),
        )

    def loss(self, speeds: Array, shifts: Array) -> Array:
        """Negative log-posterior of every subject up to a constant, (n_subjects,)."""
        curves = self.trajectories.evaluate(self.timeline.scores(speeds, shifts))
        misfit = self.timeline.by_subject(self.sums.squares(curves) @ (0.5 / self.noise**2))
        log_prior = self.speed_prior.log_density(speeds) + self.shift_prior.log_density(shifts)
        return np.asarray(misfit - log_prior)

    def gradient(self, speeds: Array, shifts: Array) -> tuple[Array, Array]:
        """Gradient (n_subjects, 2) and Gauss-Newton Hessian (n_subjects, 2, 2) of `loss`.

        The coordinates are (log speed, shift), which keeps speeds positive.
        """
        timeline, prior = self.timeline, self.speed_prior
        scores = timeline.scores(speeds, shifts)
        curves, slope = self.trajectories.values_and_slope(scores)
        residuals = self.sums.residuals(curves)
        pull = -(residuals * slope) @ self.noise**-2.0
        stiffness = (self.sums.weights * slope**2) @ self.noise**-2.0
        # d score / d (log speed) = speed * time, d score / d shift = 1
        lever = speeds[timeline.subject_of_visit] * timeline.times
        terms = timeline.by_subject(
            np.stack(
                [pull * lever, pull, stiffness * lever**2, stiffness * lever, stiffness], axis=1
            )
        )
        gradient = terms[:, :2]
        hessian = terms[:, [2, 3, 3, 4]].reshape(-1, 2, 2)
        gradient[:, 0] += prior.rate * speeds - (prior.shape - 1)
        hessian[:, 0, 0] += prior.rate * speeds
        gradient[:, 1] += (shifts - self.shift_prior.mean) * self.shift_prior.precision
        hessian[:, 1, 1] += self.shift_prior.precision
        return gradient, hessian


def shift_grid(shifts: Array, n: int = 41) -> Array:
    """Shifts to try, from a little before the earliest subject to a little after the latest."""
    margin = 0.1 * np.ptp(shifts) + 1e-9
    return np.linspace(shifts.min() - margin, shifts.max() + margin, n)


def search_shifts(problem: StageLoss, speeds: Array, shifts: Array, grid: Array) -> Array:
    """Best of the given shifts and of a grid, for every subject: the loss has several minima."""
    best, lowest = shifts, problem.loss(speeds, shifts)
    for shift in grid:
        there = np.full_like(shifts, shift)
        loss = problem.loss(speeds, there)
        best = np.where(loss < lowest, there, best)
        lowest = np.minimum(loss, lowest)
    return best


def find_stages(problem: SelectableLoss, known_shifts: Array) -> tuple[Array, Array]:
    """Most probable speeds and shifts, from a start that does not depend on other subjects.

    Parameters
    ----------
    problem : SelectableLoss
        The subjects.
    known_shifts : (n,)
        Shifts of the training subjects, over whose range the best valley is looked for.
    """
    speeds, shifts = problem.start()
    shifts = search_shifts(problem, speeds, shifts, shift_grid(known_shifts, GRID))
    return settle_stages(problem, speeds, shifts)


def settle_stages(problem: SelectableLoss, speeds: Array, shifts: Array) -> tuple[Array, Array]:
    """Go on with `fit_stages` until everybody has settled."""
    speeds, shifts = speeds.copy(), shifts.copy()
    unsettled = np.arange(len(speeds))
    for _ in range(_ROUNDS):  # most subjects settle in the first, few need all
        part = problem if len(unsettled) == len(speeds) else problem.select(unsettled)
        found = _descend(part, speeds[unsettled], shifts[unsettled], _STEPS, _TOL)
        speeds[unsettled], shifts[unsettled], settled = found
        unsettled = unsettled[~settled]
        if not len(unsettled):
            break
    return speeds, shifts


def fit_stages(
    problem: StageLoss,
    speeds: Array,
    shifts: Array,
    max_iter: int = 30,
    tol: float = _TOL,
) -> tuple[Array, Array]:
    """Damped Gauss-Newton on (log speed, shift) of every subject; no subject's loss ever rises.

    A subject's path does not depend on the others.

    Parameters
    ----------
    problem : StageLoss
        The losses to minimise, one for each subject.
    speeds, shifts : (n_subjects,)
        Where to begin.

    Returns
    -------
    speeds, shifts : (n_subjects,)
    """
    speeds, shifts, _ = _descend(problem, speeds, shifts, max_iter, tol)
    return speeds, shifts


def _descend(
    problem: StageLoss, speeds: Array, shifts: Array, max_iter: int, tol: float
) -> tuple[Array, Array, BoolArray]:
    """As `fit_stages`; also says who has come to rest."""
    loss = problem.loss(speeds, shifts)
    damping = np.full(len(speeds), 1e-3)
    settled = np.zeros(len(speeds), dtype=bool)
    for _ in range(max_iter):
        step = _solve_2x2(*problem.gradient(speeds, shifts), damping)
        speeds_there = speeds * np.exp(np.clip(-step[:, 0], -1, 1))
        shifts_there = shifts - step[:, 1]
        loss_there = problem.loss(speeds_there, shifts_there)
        better = (loss_there < loss) & ~settled
        gain = np.where(better, loss - loss_there, 0.0)
        speeds = np.where(better, speeds_there, speeds)
        shifts = np.where(better, shifts_there, shifts)
        loss = np.where(better, loss_there, loss)
        damping = np.clip(np.where(better, damping / 10, damping * 10), 1e-12, 1e12)
        settled |= (gain <= tol * (1 + np.abs(loss))) & (better | (damping > 1e3))
        if settled.all():
            break
    return speeds, shifts, settled


def _solve_2x2(gradient: Array, hessian: Array, damping: Array) -> Array:
    a = hessian[:, 0, 0] * (1 + damping)
    b = hessian[:, 0, 1]
    d = hessian[:, 1, 1] * (1 + damping)
    determinant = np.maximum(a * d - b * b, 1e-300)
    return np.stack(
        [
            (d * gradient[:, 0] - b * gradient[:, 1]) / determinant,
            (a * gradient[:, 1] - b * gradient[:, 0]) / determinant,
        ],
        axis=1,
    )
