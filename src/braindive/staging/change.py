"""Change within people, with the error that noise alone gives it.

A person's own level is the same at all visits and cancels in a change, and so does most of what is
not known of the curves. What is left is the noise of the visits, which is seen around each
person's own line.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.stats import t as student

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.pooled import PooledMeans
from braindive.dive.timeline import Timeline
from braindive.staging.covariance import Covariance
from braindive.staging.marginal_stager import MarginalStager, MarginalStages, Training
from braindive.staging.noise_prior import LEAST_PEOPLE, NoisePrior
from braindive.staging.stagers import Stager, Stages


@dataclass(frozen=True)
class Changes:
    """Change of each person in some series from the first visit to the last.

    Parameters
    ----------
    change, error, p_value : (n_subjects, n_series)
        Of the line through the visits; nan where a person was seen at one time only.
    """

    change: Array
    error: Array
    p_value: Array


@dataclass(frozen=True)
class VisitSeries:
    """What visits say by themselves: of the score, and of the level of each cluster.

    Parameters
    ----------
    timeline : Timeline
        Of the visits.
    values : (n_visits, n_series)
        Around any level that is the person's own.
    weights : (n_visits, n_series)
        Inverse variances up to one factor for each series; 0 where there is nothing.
    levels : (n_subjects, n_series)
        On which the noise may depend.
    """

    timeline: Timeline
    values: Array
    weights: Array
    levels: Array

    def lines(self) -> Lines:
        """Weighted least squares of each person's own line."""
        timeline, weights = self.timeline, self.weights
        total = np.maximum(timeline.by_subject(weights), 1e-300)
        of_visit, times = timeline.subject_of_visit, timeline.times[:, None]
        away = times - (timeline.by_subject(weights * times) / total)[of_visit]
        values = self.values - (timeline.by_subject(weights * self.values) / total)[of_visit]
        power = timeline.by_subject(weights * away**2)
        moved = power > 1e-12 * total
        slopes = timeline.by_subject(weights * away * values) / np.where(moved, power, 1.0)
        slopes = np.where(moved, slopes, 0.0)
        left = values - slopes[of_visit] * away
        seen = timeline.by_subject((weights > 0).astype(int))
        return Lines(
            slopes,
            np.where(moved, power, 0.0),
            timeline.by_subject(weights * left**2),
            np.maximum(seen - 1 - moved, 0),
            self.levels,
        )


@dataclass(frozen=True)
class Lines:
    """People's own lines through their visits.

    Parameters
    ----------
    slopes, power : (n_subjects, n_series)
        Per internal time, and their inverse variance in units of the noise; 0 without follow-up.
    squares, freedom : (n_subjects, n_series)
        Weighted sum of squares around the line, and its degrees of freedom.
    levels : (n_subjects, n_series)
        Of the people.
    """

    slopes: Array
    power: Array
    squares: Array
    freedom: Array
    levels: Array

    def in_order(self, order: IntArray) -> Lines:
        """Return the same with clusters, which come after the score, in another order."""
        series = np.append(0, 1 + order)
        return Lines(*(getattr(self, field.name)[:, series] for field in fields(self)))

    def noise(self, trusted: bool) -> list[NoisePrior]:
        """How the variance of each series is distributed over people.

        Parameters
        ----------
        trusted : bool
            Whether weights are inverse variances where scatter around lines says nothing, because
            too few people were seen three times. Else people are taken not to have changed, which
            makes noise seem larger than it is.
        """
        found = []
        for i in range(self.slopes.shape[1]):
            squares, freedom = self.squares[:, i], self.freedom[:, i]
            if np.sum(freedom > 0) < LEAST_PEOPLE and not trusted:
                moved = self.power[:, i] > 0
                squares = squares + self.slopes[:, i] ** 2 * self.power[:, i]
                freedom = freedom + moved
            known = freedom > 0
            if np.sum(known) < LEAST_PEOPLE:
                found.append(NoisePrior.constant())
                continue
            squares, freedom = squares[known], freedom[known]
            found.append(NoisePrior.learn(squares / freedom, freedom, self.levels[known, i]))
        return found

    def changes(self, noise: list[NoisePrior], spans: Array) -> Changes:
        """Change over spans of internal time, (n_subjects,), with its error and p-value."""
        change, error, p_value = (np.full(self.slopes.shape, np.nan) for _ in range(3))
        for i, prior in enumerate(noise):
            who = self.power[:, i] > 0
            variances, freedom = prior.moderate(
                self.squares[who, i], self.freedom[who, i], self.levels[who, i]
            )
            errors = np.sqrt(variances / self.power[who, i])
            change[who, i] = self.slopes[who, i] * spans[who]
            error[who, i] = errors * spans[who]
            p_value[who, i] = 2 * student.sf(np.abs(self.slopes[who, i]) / errors, freedom)
        return Changes(change, error, p_value)


def visit_series(stager: Any, placed: Stages, sums: Array, weights: Array) -> VisitSeries:
    """Score of every visit by itself, by the slope of the curves there, and the clusters' means.

    Parameters
    ----------
    stager : MarginalStager or PublishedStager
        Who placed the people.
    placed : Stages
        Where the people are.
    sums, weights : (n_visits, n_clusters)
        Their pooled measurements.
    """
    timeline, pooled = placed.timeline, PooledMeans.from_sums(sums, weights)
    of_visit = timeline.subject_of_visit
    if isinstance(stager, MarginalStager) and isinstance(placed, MarginalStages):
        precisions, noise = placed.problem.precisions, stager.noise
        posterior, expected = placed.posterior, stager.covariance
        multipliers = placed.problem.multipliers
        # A plateau is flat, and a person on it may be anywhere on it: over all these places the
        # slope is what a change of the means tells of the score.
        slopes = sum(
            share[:, None] * stager.trajectories.slope(shifts)
            for share, shifts in zip(posterior.weights, posterior.shifts, strict=True)
        )
        own = placed.problem.expected_intercepts(
            pooled.means - stager.trajectories.evaluate(placed.shifts)[of_visit]
        )
    else:
        noise = stager.parameters.noise
        expected = Covariance.independent(weights.mean(axis=0), noise)
        precisions = expected.precisions(weights, noise)
        slopes = stager.trajectories.slope(placed.shifts)
        own, multipliers = np.zeros_like(slopes), None
    levels = stager.trajectories.evaluate(placed.shifts) + own
    away = np.where(weights > 0, pooled.means - levels[of_visit], 0.0)
    shape = (len(away), *precisions.shape[1:])
    told = np.einsum("nkl,nl->nk", np.broadcast_to(precisions, shape), slopes[of_visit])
    information = np.einsum("nk,nk->n", told, slopes[of_visit])
    scores = np.einsum("nk,nk->n", told, away) / np.maximum(information, 1e-300)
    variances = 1 / np.maximum(expected.weights, 1e-6) - 1 / np.maximum(weights, 1e-6)
    variances = np.diag(expected.within) + np.maximum(-variances, 0.0) * noise**2
    if multipliers is not None:
        variances = variances * multipliers**2
    by_cluster = np.where(weights > 0, 1 / variances, 0.0)
    return VisitSeries(
        timeline,
        np.column_stack([scores, away]),
        np.column_stack([information, by_cluster]),
        np.column_stack([placed.shifts, levels]),
    )


def find_changes(
    stager: Stager, training: Training, placed: Stages, sums: Array, weights: Array
) -> Changes:
    """Change of score, then of each cluster, from each person's first visit to the last.

    Parameters
    ----------
    stager : MarginalStager or PublishedStager
        Who placed the people.
    training : Training
        From whom it is learnt how large noise is.
    placed : Stages
        The people.
    sums, weights : (n_visits, n_clusters)
        Their pooled measurements.
    """
    trusted = isinstance(stager, MarginalStager)
    noise = training_lines(stager, training).noise(trusted)
    timeline = placed.timeline
    return visit_series(stager, placed, sums, weights).lines().changes(noise, spans(timeline))


def training_lines(stager: Stager, training: Training) -> Lines:
    """Lines through the visits of the training subjects."""
    sums, weights, groups = training.sums, training.weights, training.groups
    known = stager.place(training.timeline, sums, weights, groups, training.design, training.sites)
    return visit_series(stager, known, sums, weights).lines()


def patients(training: Training) -> BoolArray:
    """Which training subjects are not controls, (n_subjects,); all, if none are known."""
    if training.groups is None or training.groups.max() == 0:
        return np.ones(training.timeline.n_subjects, dtype=bool)
    return np.asarray(training.groups == training.groups.max())


def spans(timeline: Timeline) -> Array:
    """Internal time from each person's first visit to the last."""
    last: IntArray = timeline.starts + timeline.n_visits_of_subject - 1
    return np.asarray(timeline.times[last] - timeline.times[timeline.starts])
