"""What a user should know before trusting a fit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from braindive.arrays import Array
from braindive.dive.starts import Outcome
from braindive.errors import ConvergenceWarning, DataWarning

_ADVICE = {
    "max_iter": "raise max_iter, or tol if the objective has flattened",
    "cycling": "the Markov random field keeps swapping labels; fix a smaller spatial",
}


def warnings_of(outcome: Outcome, responsibilities: Array) -> Iterator[tuple[type[Warning], str]]:
    """Warnings that a fit deserves, one by one.

    Parameters
    ----------
    outcome : Outcome
        The fit.
    responsibilities : (n_vertices, n_clusters)
        z_lk, with vertices that have no data spread over all clusters.
    """
    problem, monitor, direction = outcome.problem, outcome.monitor, outcome.direction
    unseen = int((problem.measurements.counts == 0).sum())
    if unseen:
        yield DataWarning, f"{unseen} vertices have no data; their responsibilities are uniform."
    empty = np.flatnonzero(responsibilities.sum(axis=0) < 0.5)
    if len(empty):
        n_clusters = responsibilities.shape[1]
        yield (
            DataWarning,
            f"{len(empty)} of {n_clusters} clusters are empty; use fewer clusters.",
        )
    if problem.staging and not problem.timeline.has_follow_up:
        yield (
            DataWarning,
            "every subject has one visit: speeds are the prior's, and so is the time scale.",
        )
    elif problem.staging and not outcome.direction_is_clear:
        yield (
            DataWarning,
            "which way the disease runs is not clear from the data "
            f"(judged by {direction.source}, z = {direction.z_value:.1f}), and scores may be "
            "reversed; marking controls in the cohort, or more of them, would settle it.",
        )
    if monitor.reason != "converged":
        yield (
            ConvergenceWarning,
            f"the fit stopped after {monitor.n_iter} iterations without converging "
            f"({monitor.reason}): {_ADVICE[monitor.reason]}. See objective_.",
        )
