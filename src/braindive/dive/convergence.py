"""When to stop, and why: kept outside the EM loop."""

from __future__ import annotations

from dataclasses import dataclass, field

# How much less than the responsibilities the objective may change, relatively: it is a sum over all
# measurements, of which a fit explains the smaller part. A choice.
_SHARE = 0.1
# Least part of a change that is said to be left in the next iteration: few changes tell no more. A
# choice.
_LEAST_RATE = 0.1
# Iterations without progress after which a fit is said to go in circles. A choice.
_PATIENCE = 12


@dataclass
class Monitor:
    """Watches the objective and the change in responsibilities.

    Parameters
    ----------
    tol : float
        Converged when the responsibilities change by less than `tol` on average and the objective
        by less than a tenth of `tol`, relative to its size.
    max_iter : int
        Give up after so many iterations.
    rate : float
        What is left of a change in the iteration after it, where that is known: the change that
        counts is the one to come. By default nothing is known, and the last one counts.

    Examples
    --------
    >>> from braindive.dive.convergence import Monitor
    >>> monitor = Monitor(tol=1e-3, max_iter=100)
    >>> monitor.update(-50.0, 0.4)
    >>> monitor.update(-50.0, 0.0)
    >>> monitor.reason
    'converged'
    """

    tol: float
    max_iter: int
    objectives: list[float] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    rate: float = 1.0

    def update(self, objective: float, change: float) -> None:
        """Record one iteration: the objective and the mean change of the responsibilities."""
        self.objectives.append(objective)
        self.changes.append(change)

    def take_back(self, change: float) -> None:
        """Record an iteration that was taken back, after which nothing counts as converged.

        Parameters
        ----------
        change : float
            Of the responsibilities, had it been kept.
        """
        self.update(self.objectives[-1], max(change, self.tol))

    @property
    def taken_back(self) -> bool:
        """Whether the last iteration left the objective as it was, to the last digit."""
        return self.n_iter >= 2 and self.objectives[-1] == self.objectives[-2]

    def last_rate(self) -> float:
        """What is left of a change in the iteration after it, by the last few of them."""
        return max([_LEAST_RATE, *self._rates()[-2:]]) if self.n_iter >= 2 else 1.0

    def _rates(self) -> list[float]:
        """What was left of each change but the last in the iteration after it; at most 1."""
        pairs = zip(self.changes, self.changes[1:], strict=False)
        return [min(after / before, 1.0) if before > 0 else 1.0 for before, after in pairs]

    @property
    def n_iter(self) -> int:
        """Iterations so far."""
        return len(self.objectives)

    @property
    def reason(self) -> str:
        """Why to stop: "converged", "cycling" or "max_iter"; "" to go on."""
        if self.n_iter >= 2:
            # The first change is from another start, and tells nothing of the rate.
            rate = max([self.rate, *self._rates()[1:][-1:]])
            gain = rate * abs(self.objectives[-1] - self.objectives[-2])
            steady = gain < _SHARE * self.tol * abs(self.objectives[-1])
            if steady and rate * self.changes[-1] < self.tol:
                return "converged"
        if self._stalled(self.changes) and self._stalled([-x for x in self.objectives]):
            return "cycling"
        return "max_iter" if self.n_iter >= self.max_iter else ""

    @staticmethod
    def _stalled(losses: list[float]) -> bool:
        """No new low in the last iterations."""
        if len(losses) <= 2 * _PATIENCE:
            return False
        return min(losses[-_PATIENCE:]) >= min(losses[:-_PATIENCE])
