"""Subjects who are measured again in simulation, by the model and where they were found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from braindive.arrays import Array
from braindive.dive.pooled import PooledMeans
from braindive.dive.timeline import Timeline
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.posterior import Posterior


def simulate_again(
    problem: CorrelatedStageProblem,
    posterior: Posterior,
    n_times: int,
    random: np.random.Generator,
) -> tuple[CorrelatedStageProblem, Array, Array]:
    """Measure the same subjects again, by the model, each as many times.

    Where they are is drawn from what is known of it, as if that were normal, and what is measured
    there from the curves, a random intercept and the visit noise: people remain where they were
    found, and so do those on whom a parameter hangs.

    Parameters
    ----------
    problem : CorrelatedStageProblem
        The subjects, with the parameters of the model.
    posterior : Posterior
        Where they are.
    n_times : int
        How many times.
    random : numpy.random.Generator
        For the draws.

    Returns
    -------
    problem : CorrelatedStageProblem
        With n_times as many subjects.
    speeds, shifts : (n_times * n_subjects,)
        Where they are.
    """
    timeline = _repeated(problem.timeline, n_times)
    n_subjects, n_clusters = timeline.n_subjects, len(problem.noise)
    mean, covariance = posterior.moments()
    draws = random.standard_normal((n_times, *mean.shape))
    stages = mean + np.einsum("iab,tib->tia", np.linalg.cholesky(covariance), draws)
    speeds, shifts = np.exp(stages[..., 0]).ravel(), stages[..., 1].ravel()
    between = np.linalg.cholesky(problem.covariance.between)
    intercepts = random.standard_normal((n_subjects, n_clusters)) @ between.T
    within = np.linalg.cholesky(np.linalg.inv(problem.precisions))
    draws = random.standard_normal((n_times, len(problem.timeline.times), n_clusters))
    means = problem.trajectories.evaluate(timeline.scores(speeds, shifts))
    means += intercepts[timeline.subject_of_visit]
    if problem.sites is not None:
        means += np.tile(problem.sites.of_visits(), (n_times, 1))
    means += np.einsum(
        "nkl,tnl->tnk", np.broadcast_to(within, (draws.shape[1], *within.shape[1:])), draws
    ).reshape(means.shape)
    pooled = problem.pooled
    weights = np.tile(pooled.weights, (n_times, 1))
    again = replace(
        problem,
        pooled=PooledMeans(means, weights, np.zeros_like(pooled.within)),
        timeline=timeline,
        prior=problem.prior.repeated(n_times),
        multipliers=None
        if problem.multipliers is None
        else np.tile(problem.multipliers, (n_times, 1)),
        sites=None if problem.sites is None else problem.sites.repeated(n_times),
    )
    return again, speeds, shifts


def _repeated(timeline: Timeline, n_times: int) -> Timeline:
    """Timeline of the same subjects, several times over."""
    later = np.repeat(np.arange(n_times) * timeline.n_subjects, len(timeline.times))
    return Timeline(
        np.tile(timeline.subject_of_visit, n_times) + later,
        np.tile(timeline.times, n_times),
        np.tile(timeline.centres, n_times),
        timeline.unit,
    )
