"""The DIVE estimator: checks its input, runs the EM and holds what was found."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state

from braindive.arrays import Array, BoolArray, IntArray
from braindive.checks import (
    check_assignments,
    check_count,
    check_memory,
    check_n_clusters,
    check_spatial,
    check_variation,
)
from braindive.cohort.cohort import Cohort, check_cohort
from braindive.cohort.preprocessing import Preprocessing
from braindive.dive.convergence import Monitor
from braindive.dive.em import Parameters, State, log_densities
from braindive.dive.field import log_evidence
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Priors
from braindive.dive.stages import StageProblem, find_stages
from braindive.dive.starts import Checkpoint, Outcome, Settings, fit_best
from braindive.dive.timeline import Timeline
from braindive.dive.trajectories import Trajectories
from braindive.errors import (
    BraindiveWarning,
    CohortError,
    ModelFileError,
    NotFittedError,
    ParameterError,
)
from braindive.fit_warnings import doubts_about
from braindive.io.models import package_versions, read_model, write_model
from braindive.prediction.course import Course
from braindive.prediction.learning import learn_personal
from braindive.prediction.personal import PersonalModel
from braindive.staging.placing import Placed, Placing, Training
from braindive.values.backends import open_products
from braindive.values.protocol import Products, Unit
from braindive.values.walking import one_thread_per_product


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each iteration."""

    iteration: int
    objective: float
    change: float
    start: int
    n_starts: int
    state: State
    checkpoint: Checkpoint


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
    known: BoolArray
    training: Training


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
        than a tenth of it, relatively.
    priors : Priors, optional
        Priors of speeds, shifts and trajectories.
    preprocessing : Preprocessing, optional
        Learnt from the training cohort and applied to every cohort the model sees; predictions
        are in its unit.
    personal : bool, default True
        Whether to learn how people's own deviations from the course persist, for `predict`;
        without, a fit takes about half the time, and `predict` gives the curves alone.
    n_jobs : int, optional
        Threads; all cores by default. Does not change the result.
    memory : str or int, optional
        Memory that the fit may take on top of a cohort that lies on disk, such as "2GB".
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
    objective_ : (n_iterations,)
        Log-posterior (with a Markov random field: pseudo-posterior) at each iteration.
    n_iter_, converged_, stop_reason_ : int, bool, str
        How the fit ended: "converged", "cycling" or "max_iter".
    log_likelihood_, aic_, bic_ : float
        For the choice of the number of clusters.
    cluster_names_ : (n_clusters,)
        The given labels in the order of the clusters where `assignments` are given, else 0, 1, ...
        as in `labels_`; what people read counts from 1 ("cluster 1" is the earliest).
    preprocessing_ : Preprocessing or None
        What was learnt from the training cohort before the fit.
    space_ : Space or None
        Where the vertices of the model lie.
    visits_ : DataFrame
        The table of the training cohort, with the `subject` and `time` of each visit.
    warnings_, versions_ : list of str, dict
        What the fit warned of, and the versions of the packages it ran with.

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
        preprocessing: Preprocessing | None = None,
        personal: bool = True,
        n_jobs: int | None = None,
        memory: str | int | None = None,
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
        self.preprocessing = preprocessing
        self.personal = personal
        self.n_jobs = n_jobs
        self.memory = memory
        self.random_state = random_state

    def fit(
        self,
        cohort: Cohort,
        y: None = None,
        *,
        callback: Callable[[Progress], None] | None = None,
        resume: Checkpoint | None = None,
        client: Any = None,
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
        resume : Checkpoint, optional
            `Progress.checkpoint` of an interrupted fit of the same cohort with the same
            parameters and seed: goes on from there to the same answer.
        client : distributed.Client, optional
            Dask cluster over which to spread the values; the fit and what prediction learns from
            it run on its workers.

        Returns
        -------
        DIVE
            The fitted model itself.
        """
        cohort = check_cohort(cohort)
        self.warnings_: list[str] = []
        self.versions_ = package_versions()
        self.preprocessing_ = None
        if self.preprocessing is not None:
            self.preprocessing_ = clone(self.preprocessing)
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always", BraindiveWarning)
                cohort = self.preprocessing_.fit_transform(cohort)
            for warning in heard:
                self._say(warning.category, str(warning.message), stacklevel=3)
        settings = self._settings(cohort)
        random = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        order = cohort.canonical_order
        controls = None if cohort.controls is None else cohort.controls[order]

        def report(state: State, monitor: Monitor, start: int, checkpoint: Checkpoint) -> None:
            if callback is not None:
                callback(
                    Progress(
                        monitor.n_iter,
                        monitor.objectives[-1],
                        monitor.changes[-1],
                        start,
                        len(checkpoint),
                        state,
                        checkpoint,
                    )
                )

        with one_thread_per_product():
            measurements = self._products(cohort, client)
            check_variation(measurements)
            outcome = fit_best(
                measurements, _timeline(cohort), settings, controls, random, report, resume
            )
        self._keep(cohort, outcome)
        self._learn(cohort, measurements)
        for category, message in doubts_about(outcome, self.responsibilities_):
            self._say(category, message, stacklevel=3)
        return self

    @property
    def stage_trajectories_(self) -> Trajectories:
        """The curves that `stage` reads scores off.

        Refitted with the stages integrated out and vertices allowed to be correlated; the curves
        of the EM itself are `trajectories_`.
        """
        placing, unit = self._placing, self._internal.unit
        curves = placing.trajectories.rescored(placing.centre, placing.spread)
        return curves.revalued(unit.offset, unit.scale)

    def stage(self, cohort: Cohort, *, client: Any = None) -> pd.DataFrame:
        """Place subjects, seen before or not, on the disease's course.

        Expected stages given that the noise of vertices is correlated and that people differ for
        good from the curve of their stage; both are learnt from the training cohort. Where noise
        is smooth over the brain these are better than the EM's own `scores_`.

        Parameters
        ----------
        cohort : Cohort
            Subjects with one or more visits, with the vertices of the training cohort.
        client : distributed.Client, optional
            Dask cluster over which to spread the values of the cohort.

        Returns
        -------
        DataFrame
            One row for each subject: `speed`, `shift`, `score` (at the first visit), their
            standard errors `speed_se`, `shift_se`, `score_se`, `n_visits`, and `outside`: True
            where the score lies beyond those of the training subjects, where the curves are too
            flat to tell it, or where the maps are like none that the model has seen.

        Examples
        --------
        >>> import braindive as bd
        >>> simulation = bd.simulate_cohort(n_subjects=40, n_vertices=200, random_state=0)
        >>> model = bd.DIVE(n_clusters=3, random_state=0).fit(simulation.cohort)
        >>> stages = model.stage(simulation.cohort.first_visits(2))
        >>> bool((stages["score_se"] > 0).all())
        True
        """
        cohort = self._prepare(self._check_new(cohort))
        columns = ("speed", "shift", "score", "speed_se", "shift_se", "score_se")
        if self.staging:
            placed = self._place(cohort, self._known_products(cohort, client))
            timeline, placing = placed.timeline, self._placing
            stages = _to_user(
                timeline, placed.speeds, placed.shifts, placing.centre, placing.spread
            )
            errors = placing.errors(placed)
            outside = placing.is_outside(placed, errors)
        else:
            timeline = _timeline(cohort, self._internal.time_unit)
            ones, zeros = np.ones(timeline.n_subjects), np.zeros(timeline.n_subjects)
            first = cohort.times[cohort.canonical_order][timeline.starts]
            stages, errors = (ones, zeros, first), np.zeros((timeline.n_subjects, 3))
            outside = zeros.astype(bool)
        found = dict(zip(columns, (*stages, *errors.T), strict=True))
        return pd.DataFrame(
            {**found, "n_visits": timeline.n_visits_of_subject, "outside": outside},
            index=pd.Index(cohort.subject_ids, name="subject"),
        )

    def predict(
        self,
        cohort: Cohort,
        at: pd.Series | None = None,
        history: Cohort | None = None,
        *,
        personal: bool = True,
        return_std: bool = False,
        client: Any = None,
    ) -> Any:
        """Expected values of the cohort's visits.

        The trajectory's course, as far as it proved right in the training cohort, and the
        person's own deviations from it in the history, shrunk by how well they persist.

        Parameters
        ----------
        cohort : Cohort
            Whose visits to predict.
        at : Series, optional
            Other times, indexed by subject; one row of the result for each entry.
        history : Cohort, optional
            Earlier visits of the same subjects: what is predicted then rests on nothing but them.
        personal : bool, default True
            Without, the prediction of the published model: the curves at the person's score.
        return_std : bool, default False
            Whether to return the standard deviation of a measurement around its prediction too.
        client : distributed.Client, optional
            Dask cluster over which to spread the values of the history.

        Returns
        -------
        (n_visits, n_vertices) array, or two of them

        Examples
        --------
        >>> import braindive as bd
        >>> simulation = bd.simulate_cohort(n_subjects=40, n_vertices=200, random_state=0)
        >>> model = bd.DIVE(n_clusters=3, random_state=0).fit(simulation.cohort)
        >>> early, late = simulation.cohort.first_visits(3), simulation.cohort.later_visits(3)
        >>> model.predict(late, history=early).shape
        (40, 200)
        """
        cohort = self._check_new(cohort)
        known = self._prepare(cohort if history is None else self._check_new(history))
        subjects = cohort.subjects if at is None else at.index.to_numpy()
        times = cohort.times if at is None else at.to_numpy(dtype=float)
        position = {subject: i for i, subject in enumerate(known.subject_ids)}
        unknown = [subject for subject in subjects if subject not in position]
        if unknown:
            raise CohortError(
                f"no history for subject {unknown[0]!r} ({len(unknown)} visits); leave them out."
            )
        rows = np.array([position[subject] for subject in subjects])
        z, dtype = self.responsibilities_, known.stored.dtype
        products = self._known_products(known, client)
        if personal:
            timeline = _timeline(known, self._internal.time_unit)
            order, offsets = known.canonical_order, self._personal
            # One read for stages and components; with holes, components need one of their own.
            whole = () if known.has_missing else (offsets.components,)
            sums, weights = self._pool(products, *whole)
            n = len(self.noise_)
            course = self._course(timeline, (sums[:, :n], weights[:, :n]))
            past = course(known.subject_index[order], known.times[order])
            with one_thread_per_product():
                values, variances = offsets.predict(
                    products,
                    z,
                    timeline,
                    past,
                    course(rows, times),
                    return_std,
                    sums[:, n:] if whole else None,
                )
        else:
            unit = self._internal.unit
            curves = unit.offset + unit.scale * self._published_curves(known, products, rows, times)
            values = curves.astype(dtype) @ z.T.astype(dtype)
            variances = np.broadcast_to(z @ self.noise_**2, values.shape)
        if variances is None or not return_std:
            return values
        return values, np.sqrt(variances, dtype=dtype)

    def score(self, cohort: Cohort, y: None = None, *, client: Any = None) -> float:
        """Mean log-likelihood of one measurement of held-out subjects.

        Parameters
        ----------
        cohort : Cohort
            Subjects, staged first with the fitted trajectories.
        y : None
            Not used; here for scikit-learn.
        client : distributed.Client, optional
            Dask cluster over which to spread the values of the cohort.

        Returns
        -------
        float
        """
        cohort, fitted = self._prepare(self._check_new(cohort)), self._internal
        order = cohort.canonical_order
        measurements = self._known_products(cohort, client)
        curves = self._published_curves(
            cohort, measurements, cohort.subject_index[order], cohort.times[order]
        )
        with one_thread_per_product():
            distances = measurements.distances(curves)
        density = log_densities(distances, measurements.counts, fitted.parameters.noise)
        with np.errstate(divide="ignore"):
            evidence = log_evidence(density, np.log(self.responsibilities_))
        n_measured = float(measurements.counts.sum())
        return float(evidence.sum()) / n_measured - float(np.log(fitted.unit.scale))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the fitted model as one file.

        Parameters
        ----------
        path : path
            For example ``fit.dive``; an existing file is replaced once the new one is complete.

        Examples
        --------
        >>> import os, tempfile
        >>> import braindive as bd
        >>> cohort = bd.simulate_cohort(n_subjects=40, n_vertices=90, random_state=0).cohort
        >>> model = bd.DIVE(n_clusters=2, random_state=0).fit(cohort)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(os.path.join(folder, "fit.dive"))
        ...     again = bd.load_model(os.path.join(folder, "fit.dive"))
        >>> bool((again.stage(cohort) == model.stage(cohort)).all(axis=None))
        True
        """
        if not hasattr(self, "_internal"):
            raise NotFittedError("this DIVE is not fitted yet; call fit(cohort) first.")
        fitted = {name: vars(self)[name] for name in sorted(vars(self)) if name.endswith("_")}
        fitted["_internal"] = vars(self._internal)
        fitted["_placing"], fitted["_personal"] = self._learnt_placing, self._learnt_personal
        write_model(path, self.get_params(deep=False), fitted)

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
        strength, graph = check_spatial(self.spatial, cohort), cohort.graph
        # A graph without an edge says nothing about the strength of the field.
        if self.spatial is None or (strength is None and graph is not None and not graph.nnz):
            graph = None
        return Settings(
            n_clusters=n_clusters,
            strength=strength,
            graph=graph,
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
        self.responsibilities_ = np.ascontiguousarray(state.responsibilities[:, order])
        unseen = problem.measurements.counts == 0
        unseen |= self.responsibilities_.sum(axis=1) < 0.5
        self.responsibilities_[unseen] = 1 / len(order)
        scores = timeline.scores(found.speeds, found.shifts)
        reference = self._reference(cohort, scores)
        centre, spread = 0.0, 1.0 / timeline.unit
        if self.staging:
            centre = float(np.mean(scores[reference]))
            spread = float(np.std(scores[reference])) or 1.0
        assert state.pooled is not None
        sums, weights = (pooled[:, order] for pooled in state.pooled)
        training = Training(timeline, sums, weights, reference, problem.box)
        self._internal = Internal(
            found, problem.priors, unit, timeline.unit, centre, spread, ~unseen, training
        )
        self.labels_ = self.responsibilities_.argmax(axis=1)
        self.trajectories_ = found.trajectories.rescored(centre, spread).revalued(
            unit.offset, unit.scale
        )
        self.noise_ = found.noise * unit.scale
        self.subjects_ = cohort.subject_ids
        self.speeds_, self.shifts_, _ = _to_user(
            timeline, found.speeds, found.shifts, centre, spread
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
        self.space_ = cohort.space
        self.visits_ = cohort.table.assign(subject=cohort.subjects, time=cohort.times)

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

    def _learn(self, cohort: Cohort, measurements: Products) -> None:
        """Learn from the training cohort what staging and prediction need beyond the EM.

        To learn how to predict, everybody is staged without the last visit, and what comes true of
        it is seen.
        """
        fitted, training = self._internal, self._internal.training
        self._learnt_placing, self._learnt_personal = None, None
        if self.staging:
            self._learnt_placing = Placing.learn(training, fitted.parameters, fitted.priors)
        if not self.personal:
            return
        order, numbers = cohort.canonical_order, cohort.visit_numbers
        index, times = cohort.subject_index[order], cohort.times[order]
        early = numbers[order] < np.maximum(np.bincount(index)[index] - 1, 1)
        timeline = Timeline.from_times(index[early], times[early], training.timeline.unit)
        course = self._course(timeline, (training.sums[early], training.weights[early]))
        with one_thread_per_product():
            self._learnt_personal = learn_personal(
                measurements,
                self.responsibilities_,
                training.timeline,
                course(index, times),
            )

    @property
    def _placing(self) -> Placing:
        """How subjects are placed."""
        if self._learnt_placing is None:
            raise ParameterError("this model has staging=False, so that nobody is staged by it.")
        return self._learnt_placing

    @property
    def _personal(self) -> PersonalModel:
        """How people's own deviations persist."""
        if self._learnt_personal is None:
            raise ParameterError(
                "this model was fitted with personal=False; fit it with personal=True, or ask for "
                "predict(..., personal=False)."
            )
        return self._learnt_personal

    def _course(
        self, timeline: Timeline, pooled: tuple[Array, Array]
    ) -> Callable[[IntArray, Array], Course]:
        """Where subjects are at other times, in internal units, from pooled measurements."""
        if self.staging:
            placed = self._placing.place(timeline, *pooled)
            speeds, shifts = placed.speeds, placed.shifts
            curves = self._placing.trajectories
        else:
            speeds, shifts = np.ones(timeline.n_subjects), timeline.centres / timeline.unit
            curves = self._internal.parameters.trajectories
        return partial(Course.of, curves.evaluate, timeline, speeds, shifts)

    def _products(self, cohort: Cohort, client: Any, unit: Unit | None = None) -> Products:
        """Products of the values of a prepared cohort, in their own unit if none is given."""
        return open_products(
            cohort.stored,
            order=cohort.canonical_rows,
            missing=cohort.has_missing,
            n_jobs=self.n_jobs,
            memory=check_memory(self.memory),
            unit=unit,
            client=client,
        )

    def _known_products(self, cohort: Cohort, client: Any = None) -> Products:
        """Products of the values of a prepared cohort, in the unit of the fit."""
        return self._products(cohort, client, self._internal.unit)

    def _place(self, cohort: Cohort, products: Products) -> Placed:
        """Where the subjects of a prepared cohort are, in internal units."""
        timeline = _timeline(cohort, self._internal.time_unit)
        return self._placing.place(timeline, *self._pool(products))

    def _pool(self, products: Products, *more: Array) -> tuple[Array, Array]:
        """Sums and weights of the clusters, and of more maps, at every visit of a cohort."""
        columns = self.responsibilities_ * self._internal.known[:, None]
        with one_thread_per_product():
            return products.pool(np.column_stack([columns, *more]))

    def _published_curves(
        self, history: Cohort, products: Products, subjects: IntArray, times: Array
    ) -> Array:
        """Curves at other times of subjects, staged by the published objective, (n, n_clusters)."""
        fitted = self._internal
        timeline = _timeline(history, fitted.time_unit)
        curves = fitted.parameters.trajectories
        if not self.staging:
            return curves.evaluate(times / timeline.unit)
        problem = StageProblem(
            PooledMeans.from_sums(*self._pool(products)),
            timeline,
            curves,
            fitted.parameters.noise,
            fitted.priors.speed,
            fitted.priors.shift,
        )
        speeds, shifts = find_stages(problem, fitted.parameters.shifts)
        away = (times - timeline.centres[subjects]) / timeline.unit
        return curves.evaluate(speeds[subjects] * away + shifts[subjects])

    def _reference(self, cohort: Cohort, scores: Array) -> BoolArray:
        """Visits whose scores get mean 0 and spread 1: controls', or everybody's without them."""
        if cohort.controls is not None:
            controls = cohort.controls[cohort.canonical_order]
            if controls.sum() > 1 and np.std(scores[controls]) > 0:
                return controls
        return np.ones(len(scores), dtype=bool)

    def _prepare(self, cohort: Cohort) -> Cohort:
        """Apply the preprocessing that was learnt in training."""
        return cohort if self.preprocessing_ is None else self.preprocessing_.transform(cohort)

    def _check_new(self, cohort: Cohort) -> Cohort:
        if not hasattr(self, "_internal"):
            raise NotFittedError("this DIVE is not fitted yet; call fit(cohort) first.")
        cohort = check_cohort(cohort)
        prepared = self.preprocessing_
        n_vertices = self.n_vertices_ if prepared is None else prepared.n_vertices_in_
        if cohort.n_vertices != n_vertices:
            raise CohortError(
                f"the model was fitted on {n_vertices} vertices, but this cohort has "
                f"{cohort.n_vertices}; use maps of the same space."
            )
        return cohort

    def _say(self, category: type[Warning], message: str, stacklevel: int) -> None:
        """Warn, and keep the warning with the model."""
        self.warnings_.append(message)
        warnings.warn(message, category, stacklevel=stacklevel)


def load_model(path: str | os.PathLike[str]) -> DIVE:
    """Load a fitted model.

    Parameters
    ----------
    path : path
        File that `DIVE.save` wrote. Reading it never runs code from it.

    Returns
    -------
    DIVE

    Examples
    --------
    >>> import braindive as bd
    >>> bd.load_model("nowhere.dive")
    Traceback (most recent call last):
    braindive.errors.ModelFileError: there is no file nowhere.dive.
    """
    parameters, fitted = read_model(path)
    try:
        model = DIVE(**parameters)
        model._internal = Internal(**fitted.pop("_internal"))
        model._learnt_placing = fitted.pop("_placing", None)
        model._learnt_personal = fitted.pop("_personal", None)
    except TypeError as error:
        raise ModelFileError(f"{path} does not hold a usable model ({error}).") from error
    for name, value in fitted.items():
        setattr(model, name, value)
    return model


def _timeline(cohort: Cohort, unit: float | None = None) -> Timeline:
    order = cohort.canonical_order
    return Timeline.from_times(cohort.subject_index[order], cohort.times[order], unit)


def _to_user(
    timeline: Timeline, speeds: Array, shifts: Array, centre: float, spread: float
) -> tuple[Array, Array, Array]:
    """Speeds, shifts and first scores for the user's time and standard scores."""
    user_speeds = speeds / (timeline.unit * spread)
    at_centre = (shifts - centre) / spread
    first = (timeline.scores(speeds, shifts)[timeline.starts] - centre) / spread
    return user_speeds, at_centre - user_speeds * timeline.centres, first
