"""The DIVE estimator: checks its input, runs the EM and holds what was found."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from braindive.checks import (
    check_assignments,
    check_cohort,
    check_count,
    check_n_clusters,
    check_spatial,
    check_variation,
)
from braindive.cohort import Cohort
from braindive.errors import (
    CohortError,
    ConvergenceWarning,
    DataWarning,
    NotFittedError,
    ParameterError,
)
from braindive.measurements import Unit, one_thread_per_product
from braindive.model.arrays import Array
from braindive.model.convergence import Monitor
from braindive.model.em import Parameters, State, log_densities
from braindive.model.pooled import PooledMeans
from braindive.model.priors import Priors
from braindive.model.spatial import log_evidence
from braindive.model.staging import StageProblem, fit_stages, search_shifts, shift_grid
from braindive.model.starts import Outcome, Settings, fit_best
from braindive.model.timeline import Timeline


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each iteration."""

    iteration: int
    objective: float
    change: float
    start: int
    n_starts: int
    state: State


@dataclass(frozen=True)
class Internal:
    """Fitted quantities in the internal units of the model, and the way to the user's units.

    The user's score is (internal score - centre) / spread.
    """

    parameters: Parameters
    priors: Priors
    unit: Unit
    time_unit: float
    centre: float
    spread: float


class DIVE(BaseEstimator):  # type: ignore[misc]
    """Data-driven Inference of Vertexwise Evolution.

    Infers at once which vertices change alike (clusters), how each cluster changes along the
    disease (a sigmoid), and where every subject stands on that course and how fast it moves.

    Parameters
    ----------
    n_clusters : int, default 3
        Number of clusters.
    spatial : "auto", float or None, default "auto"
        Strength of the Markov random field: estimated where the cohort has a graph, fixed, or off.
    assignments : (n_vertices,) labels, optional
        Fixed clusters, for example of an atlas; `n_clusters` is then their number. Negative whole
        numbers mark vertices that belong nowhere.
    staging : bool, default True
        Whether to estimate speeds and shifts; without, the score is the time.
    method : {"fast", "exact"}, default "fast"
        Pooled means, or the published sums over all vertices: the same answer, slowly.
    n_init : int, default 4
        Starts of k-means; those that end in different clusters are fitted, and the best is kept.
    max_iter : int, default 200
        Most passes over the data.
    tol : float, default 1e-4
        Converged when the responsibilities change by less on average, and the objective by less
        than a hundredth of it, relatively.
    priors : Priors, optional
        Priors of speeds, shifts and trajectories.
    n_jobs : int, optional
        Threads; all cores by default. Does not change the result.
    random_state : int, RandomState or None
        Seed of the starts.

    Attributes
    ----------
    responsibilities_ : (n_vertices, n_clusters)
        Probability that a vertex belongs to a cluster. Clusters are ordered by their midpoints,
        from the earliest to the latest affected.
    labels_ : (n_vertices,)
        Most probable cluster.
    trajectories_ : Trajectories
        `amplitude`, `steepness`, `midpoint`, `baseline`, each (n_clusters,).
    noise_ : (n_clusters,)
        Standard deviation of one measurement around its cluster's trajectory.
    subjects_, speeds_, shifts_ : (n_subjects,)
        Subjects and their progression: score = speed * time + shift.
    scores_ : (n_visits,)
        Score of each visit, in the order of the cohort. The controls', or without controls
        everybody's, have mean 0 and standard deviation 1.
    spatial_strength_ : float
        Strength of the Markov random field; 0 if it is off.
    objective_ : (n_iter_,)
        Log-posterior (with a Markov random field: pseudo-posterior) at each iteration.
    n_iter_, converged_, stop_reason_ : int, bool, str
        How the fit ended: "converged", "cycling" or "max_iter".
    log_likelihood_, aic_, bic_ : float
        For the choice of the number of clusters.
    cluster_names_ : (n_clusters,)
        The given labels in the order of the clusters where `assignments` are given.

    Examples
    --------
    >>> import braindive as bd
    >>> simulation = bd.simulate_cohort(n_subjects=60, n_vertices=300, random_state=0)
    >>> model = bd.DIVE(n_clusters=3, random_state=0).fit(simulation.cohort)
    >>> model.converged_
    True
    >>> bool(bd.match_clusters(model, simulation.truth.labels).agreement > 0.9)
    True
    """

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        spatial: Literal["auto"] | float | None = "auto",
        assignments: ArrayLike | None = None,
        staging: bool = True,
        method: Literal["fast", "exact"] = "fast",
        n_init: int = 4,
        max_iter: int = 200,
        tol: float = 1e-4,
        priors: Priors | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.spatial = spatial
        self.assignments = assignments
        self.staging = staging
        self.method = method
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.priors = priors
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        cohort: Cohort,
        y: None = None,
        *,
        callback: Callable[[Progress], None] | None = None,
    ) -> DIVE:
        """Fit the model.

        Parameters
        ----------
        cohort : Cohort
            Measurements of subjects at visits.
        y : None
            Not used; here for scikit-learn.
        callback : callable, optional
            Called with a `Progress` after each pass over the data.

        Returns
        -------
        DIVE
            The fitted model itself.
        """
        cohort = check_cohort(cohort)
        settings = self._settings(cohort)
        random = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        order = cohort.canonical_order
        controls = None if cohort.controls is None else cohort.controls[order]

        def report(state: State, monitor: Monitor, start: int, n_starts: int) -> None:
            if callback is not None:
                callback(
                    Progress(
                        monitor.n_iter,
                        monitor.objectives[-1],
                        monitor.changes[-1],
                        start,
                        n_starts,
                        state,
                    )
                )

        with one_thread_per_product():
            measurements = cohort.measurements(self.n_jobs)
            check_variation(measurements)
            outcome = fit_best(measurements, _timeline(cohort), settings, controls, random, report)
        self._keep(cohort, outcome)
        self._warn(outcome)
        return self

    def stage(self, cohort: Cohort) -> pd.DataFrame:
        """Place subjects, seen before or not, on the disease's course.

        Parameters
        ----------
        cohort : Cohort
            Subjects with one or more visits, with the vertices of the training cohort.

        Returns
        -------
        DataFrame
            One row for each subject: `speed`, `shift`, `score` (at the first visit), `n_visits`.
        """
        cohort = self._check_new(cohort)
        timeline, speeds, shifts = self._stage(cohort)
        fitted = self._internal
        scores = (timeline.scores(speeds, shifts) - fitted.centre) / fitted.spread
        user_speeds, user_shifts = _to_user_time(timeline, speeds, shifts, fitted)
        return pd.DataFrame(
            {
                "speed": user_speeds,
                "shift": user_shifts,
                "score": scores[timeline.starts],
                "n_visits": timeline.n_visits_of_subject,
            },
            index=pd.Index(cohort.subject_ids, name="subject"),
        )

    def predict(
        self, cohort: Cohort, at: pd.Series | None = None, history: Cohort | None = None
    ) -> Array:
        """Expected values of the cohort's visits.

        Parameters
        ----------
        cohort : Cohort
            Whose visits to predict.
        at : Series, optional
            Other times, indexed by subject; one row of the result for each entry.
        history : Cohort, optional
            Earlier visits of the same subjects: staging then uses nothing but them.

        Returns
        -------
        (n_visits, n_vertices)
        """
        cohort = self._check_new(cohort)
        stages = self.stage(cohort if history is None else history)
        subjects = cohort.subjects if at is None else at.index.to_numpy()
        times = cohort.times if at is None else at.to_numpy(dtype=float)
        unknown = [subject for subject in subjects if subject not in stages.index]
        if unknown:
            raise CohortError(
                f"no history for subject {unknown[0]!r} ({len(unknown)} visits); leave them out."
            )
        rows = stages.loc[subjects]
        scores = rows["speed"].to_numpy() * times + rows["shift"].to_numpy()
        dtype = cohort._stored.dtype
        curves = self.trajectories_.evaluate(scores).astype(dtype)
        return np.asarray(curves @ self.responsibilities_.T.astype(dtype))

    def score(self, cohort: Cohort, y: None = None) -> float:
        """Mean log-likelihood of one measurement of held-out subjects.

        Parameters
        ----------
        cohort : Cohort
            Subjects, staged first with the fitted trajectories.

        Returns
        -------
        float
        """
        cohort = self._check_new(cohort)
        timeline, speeds, shifts = self._stage(cohort)
        fitted = self._internal.parameters
        with one_thread_per_product():
            measurements = cohort.measurements(self.n_jobs, self._internal.unit)
            curves = fitted.trajectories.evaluate(timeline.scores(speeds, shifts))
            density = log_densities(measurements.project(curves), measurements.counts, fitted.noise)
        with np.errstate(divide="ignore"):
            evidence = log_evidence(density, np.log(self.responsibilities_))
        n_measured = float(measurements.counts.sum())
        return float(evidence.sum()) / n_measured - float(np.log(self._internal.unit.scale))

    def _settings(self, cohort: Cohort) -> Settings:
        """Check the parameters and translate them for the model."""
        self.cluster_names_, labels = None, None
        if self.assignments is not None:
            self.cluster_names_, labels = check_assignments(self.assignments, cohort)
            n_clusters = len(self.cluster_names_)
        else:
            n_clusters = check_n_clusters(self.n_clusters, cohort)
        if self.method not in ("fast", "exact"):
            raise ParameterError(f'method must be "fast" or "exact"; got {self.method!r}.')
        if not self.tol > 0:
            raise ParameterError(f"tol must be above 0; got {self.tol!r}.")
        return Settings(
            n_clusters=n_clusters,
            strength=check_spatial(self.spatial, cohort),
            graph=None if self.spatial is None else cohort.graph,
            labels=labels,
            staging=self.staging,
            exact=self.method == "exact",
            n_init=check_count("n_init", self.n_init),
            max_iter=check_count("max_iter", self.max_iter),
            tol=self.tol,
            priors=self.priors or Priors(),
        )

    def _keep(self, cohort: Cohort, outcome: Outcome) -> None:
        """Order the clusters, fix the scale of the score and set the fitted attributes."""
        state, monitor, problem = outcome.state, outcome.monitor, outcome.problem
        timeline, unit = problem.timeline, problem.measurements.unit
        found = state.parameters
        order = np.argsort(found.trajectories.midpoint, kind="stable")
        found = replace(
            found,
            trajectories=found.trajectories[order],
            noise=found.noise[order],
            strength=found.strength if problem.graph is not None else 0.0,
        )
        scores = timeline.scores(found.speeds, found.shifts)
        centre, spread = self._standard_score(cohort, scores, timeline)
        self._internal = Internal(found, problem.priors, unit, timeline.unit, centre, spread)
        self.responsibilities_ = np.ascontiguousarray(state.responsibilities[:, order])
        unseen = problem.measurements.counts == 0
        unseen |= self.responsibilities_.sum(axis=1) < 0.5
        self.responsibilities_[unseen] = 1 / len(order)
        self.labels_ = self.responsibilities_.argmax(axis=1)
        self.trajectories_ = found.trajectories.rescored(centre, spread).revalued(
            unit.offset, unit.scale
        )
        self.noise_ = found.noise * unit.scale
        self.subjects_ = cohort.subject_ids
        self.speeds_, self.shifts_ = _to_user_time(
            timeline, found.speeds, found.shifts, self._internal
        )
        self.scores_ = np.empty(cohort.n_visits)
        self.scores_[cohort.canonical_order] = (scores - centre) / spread
        self.spatial_strength_ = float(found.strength or 0.0)
        names = np.arange(len(order)) if self.cluster_names_ is None else self.cluster_names_
        self.cluster_names_ = names[order] if self.assignments is not None else names
        self.objective_ = np.array(monitor.objectives)
        self.n_iter_ = monitor.n_iter
        self.stop_reason_ = monitor.reason
        self.converged_ = monitor.reason == "converged"
        self.n_vertices_ = cohort.n_vertices

        assert state.log_densities is not None
        n_measured = float(problem.measurements.counts.sum())
        evidence = (
            np.sum(problem.fixed * state.log_densities)
            if problem.fixed is not None
            else log_evidence(state.log_densities).sum()
        )
        self.log_likelihood_ = float(evidence) - n_measured * float(np.log(unit.scale))
        n_parameters = 5 * len(order) + (2 * cohort.n_subjects if self.staging else 0) + 1
        self.aic_ = 2 * n_parameters - 2 * self.log_likelihood_
        self.bic_ = n_parameters * float(np.log(n_measured)) - 2 * self.log_likelihood_

    def _standard_score(
        self, cohort: Cohort, scores: Array, timeline: Timeline
    ) -> tuple[float, float]:
        """Mean and spread of the scores of controls, or of everybody where there are none."""
        if not self.staging:
            return 0.0, 1.0 / timeline.unit
        reference = scores
        if cohort.controls is not None:
            controls = scores[cohort.controls[cohort.canonical_order]]
            if len(controls) > 1 and np.std(controls) > 0:
                reference = controls
        return float(np.mean(reference)), float(np.std(reference)) or 1.0

    def _stage(self, cohort: Cohort) -> tuple[Timeline, Array, Array]:
        """Internal speeds and shifts of the subjects of a cohort."""
        fitted = self._internal
        timeline = _timeline(cohort, fitted.time_unit)
        if not self.staging:
            return timeline, np.ones(timeline.n_subjects), timeline.centres / timeline.unit
        with one_thread_per_product():
            sums, weights = cohort.measurements(self.n_jobs, fitted.unit).pool(
                self.responsibilities_
            )
        means = sums / np.maximum(weights, 1e-300)
        problem = StageProblem(
            PooledMeans(means, weights, np.zeros(means.shape[1])),
            timeline,
            fitted.parameters.trajectories,
            fitted.parameters.noise,
            fitted.priors.speed,
            fitted.priors.shift,
        )
        speeds = np.full(timeline.n_subjects, fitted.priors.speed.mode)
        grid = shift_grid(fitted.parameters.shifts, 101)
        shifts = np.full(timeline.n_subjects, float(fitted.priors.shift.mean))
        shifts = search_shifts(problem, speeds, shifts, grid)
        return timeline, *fit_stages(problem, speeds, shifts, max_iter=100)

    def _check_new(self, cohort: Cohort) -> Cohort:
        if not hasattr(self, "_internal"):
            raise NotFittedError("this DIVE is not fitted yet; call fit(cohort) first.")
        cohort = check_cohort(cohort)
        if cohort.n_vertices != self.n_vertices_:
            raise CohortError(
                f"the model was fitted on {self.n_vertices_} vertices, but this cohort has "
                f"{cohort.n_vertices}; use maps of the same space."
            )
        return cohort

    def _warn(self, outcome: Outcome) -> None:
        """Say what a user should know before trusting the fit."""
        measurements, timeline = outcome.problem.measurements, outcome.problem.timeline
        direction = outcome.direction
        unseen = int((measurements.counts == 0).sum())
        if unseen:
            _warn(
                DataWarning, f"{unseen} vertices have no data; their responsibilities are uniform."
            )
        empty = np.flatnonzero(self.responsibilities_.sum(axis=0) < 0.5)
        if len(empty):
            _warn(
                DataWarning,
                f"{len(empty)} of {len(self.noise_)} clusters are empty; use fewer clusters.",
            )
        if self.staging and not timeline.has_follow_up:
            _warn(
                DataWarning,
                "every subject has one visit: speeds are the prior's, and so is the time scale.",
            )
        elif self.staging and not outcome.direction_is_clear:
            _warn(
                DataWarning,
                "which way the disease runs is not clear from the data "
                f"(judged by {direction.source}, z = {direction.z_value:.1f}), and scores may be "
                "reversed; marking controls in the cohort, or more of them, would settle it.",
            )
        if not self.converged_:
            advice = {
                "max_iter": "raise max_iter, or tol if the objective has flattened",
                "cycling": "the Markov random field keeps swapping labels; fix a smaller spatial",
            }
            _warn(
                ConvergenceWarning,
                f"the fit stopped after {self.n_iter_} iterations without converging "
                f"({self.stop_reason_}): {advice[self.stop_reason_]}. See objective_.",
            )


def roi_model(labels: ArrayLike, **parameters: Any) -> DIVE:
    """Return the ROI-based model: DIVE with clusters fixed to an atlas.

    Parameters
    ----------
    labels : (n_vertices,)
        Region of each vertex.
    **parameters
        Passed on to `DIVE`.

    Returns
    -------
    DIVE

    Examples
    --------
    >>> import braindive as bd
    >>> simulation = bd.simulate_cohort(n_subjects=30, n_vertices=60, random_state=0)
    >>> model = bd.roi_model(simulation.truth.labels).fit(simulation.cohort)
    >>> model.responsibilities_.shape
    (60, 3)
    """
    return DIVE(assignments=labels, **parameters)


def no_staging_model(**parameters: Any) -> DIVE:
    """Return the no-staging model: DIVE whose score is the time itself.

    Parameters
    ----------
    **parameters
        Passed on to `DIVE`.

    Returns
    -------
    DIVE

    Examples
    --------
    >>> import braindive as bd
    >>> bd.no_staging_model(n_clusters=2).staging
    False
    """
    return DIVE(staging=False, **parameters)


def _warn(category: type[Warning], message: str) -> None:
    warnings.warn(message, category, stacklevel=4)


def _timeline(cohort: Cohort, unit: float | None = None) -> Timeline:
    order = cohort.canonical_order
    return Timeline.from_times(cohort.subject_index[order], cohort.times[order], unit)


def _to_user_time(
    timeline: Timeline, speeds: Array, shifts: Array, fitted: Internal
) -> tuple[Array, Array]:
    """Speeds and shifts for the user's time and standard scores."""
    user_speeds = speeds / (timeline.unit * fitted.spread)
    at_centre = (shifts - fitted.centre) / fitted.spread
    return user_speeds, at_centre - user_speeds * timeline.centres
