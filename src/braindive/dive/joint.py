"""Trajectories and stages moved together: alternating them alone would zigzag.

The Gauss-Newton system couples the parameters of each cluster's curve with 2 numbers per subject.
Subjects do not touch each other, so they are eliminated first (a Schur complement) and a system of
the curves' parameters is left.
"""

from __future__ import annotations

import numpy as np

from braindive.arrays import Array
from braindive.dive.curves import Bounds, Curves
from braindive.dive.priors import Normal
from braindive.dive.stages import StageProblem
from braindive.dive.trajectories import trajectory_gradient


def joint_step(
    stage: StageProblem,
    speeds: Array,
    shifts: Array,
    bounds: Bounds,
    trajectory_prior: Normal | None,
    damping: float,
) -> tuple[Curves, Array, Array]:
    """One damped Gauss-Newton step on theta, log alpha and beta at once.

    Parameters
    ----------
    stage : StageProblem
        Carries the pooled measurements, the trajectories and the noise at which to linearise.
    speeds, shifts : (n_subjects,)
        Where the subjects are.
    bounds : Bounds
        Of the curves; a parameter that pushes against its bound stays there.
    trajectory_prior : Normal or None
        Prior of the trajectories.
    damping : float
        Marquardt's factor on the diagonal.

    Returns
    -------
    trajectories, speeds, shifts
        The proposal; whether it is better is for the caller to see.
    """
    timeline, trajectories, noise = stage.timeline, stage.trajectories, stage.noise
    scores = timeline.scores(speeds, shifts)
    parameters = trajectories.to_array()
    (n_clusters, n_parameters), size = parameters.shape, parameters.size
    curve_gradient, curve_hessian = trajectory_gradient(
        stage.sums, scores, trajectories, noise, trajectory_prior
    )
    subject_gradient, subject_hessian = stage.gradient(speeds, shifts)
    diagonal = np.arange(n_parameters)
    curve_hessian[:, diagonal, diagonal] *= 1 + damping
    subject_hessian[:, range(2), range(2)] *= 1 + damping

    # d^2 / d theta_k d (log alpha_i, beta_i) = sum_j w f' (df / dtheta) (lever, 1) / sigma^2
    lever = speeds[timeline.subject_of_visit] * timeline.times
    link = (stage.sums.weights * trajectories.slope(scores) / noise**2)[:, :, None]
    link = (link * trajectories.jacobian(scores)).reshape(len(scores), size)
    cross = timeline.by_subject(np.stack([link * lever[:, None], link], axis=2))

    free = ~bounds.binding(trajectories, curve_gradient).ravel()
    solved = np.linalg.solve(
        subject_hessian,
        np.concatenate([cross.transpose(0, 2, 1), subject_gradient[:, :, None]], axis=2),
    )
    solved_cross, solved_gradient = solved[:, :, :-1], solved[:, :, -1]
    flat_cross = cross.transpose(1, 0, 2).reshape(size, -1)
    system = -flat_cross @ solved_cross.transpose(2, 0, 1).reshape(size, -1).T
    for k in range(n_clusters):
        own = slice(k * n_parameters, (k + 1) * n_parameters)
        system[own, own] += curve_hessian[k]
    right = curve_gradient.ravel() - flat_cross @ solved_gradient.ravel()

    move = np.zeros(size)
    inner = system[np.ix_(free, free)]
    scale = 1 / np.sqrt(np.maximum(np.diag(inner), 1e-12 * np.diag(inner).max() + 1e-300))
    inner = inner * scale[:, None] * scale + 1e-10 * np.eye(len(inner))
    move[free] = scale * np.linalg.solve(inner, scale * right[free])
    subject_move = solved_gradient - solved_cross @ move

    there = trajectories.from_array(parameters - move.reshape(parameters.shape))
    return (
        bounds.clip(there),
        speeds * np.exp(np.clip(-subject_move[:, 0], -1.0, 1.0)),
        shifts - subject_move[:, 1],
    )
