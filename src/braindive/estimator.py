"""The DIVE estimator: checks its input, runs the EM and holds what was found.

Longer than other modules because most of it is the reference of `DIVE` for its users; what a
fitted model does for people is in `fitted`, `stage_tables`, `forecasts` and `criteria`.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from braindive.arrays import Array, BoolArray
from braindive.checks import check_seed, check_settings, check_variation
from braindive.cluster_names import display_names
from braindive.cluster_table import change_errors, cluster_table, curve_errors
from braindive.cohort.cohort import Cohort, check_cohort
from braindive.cohort.flat_scans import describe_flat_scans, find_flat_scans
from braindive.cohort.preprocessing import Preprocessing
from braindive.criteria import criteria_of, mean_log_likelihood
from braindive.dive.convergence import Monitor
from braindive.dive.curves import Curves
from braindive.dive.priors import Priors
from braindive.dive.problem import State
from braindive.dive.starts import Checkpoint, Outcome, fit_best
from braindive.effects import Covariates, effect_table, learn_design
from braindive.errors import BraindiveWarning, DataWarning
from braindive.fit_warnings import (
    ONLY_CONTROLS,
    direction_warning,
    prediction_warnings,
    warnings_of,
)
from braindive.fitted import Fitted, timeline_of
from braindive.forecasts import predict_values
from braindive.io.models import package_versions, write_model
from braindive.new_sites import learn_new_sites
from braindive.notebook import model_page
from braindive.prediction.learning import learn_personal
from braindive.prediction.personal import PersonalModel
from braindive.progress import Progress, on_standard_error
from braindive.progression_words import progression_sentence
from braindive.results import Internal, Results, put_in_order
from braindive.score_names import explain_score
from braindive.site_choices import begin_sites
from braindive.stage_tables import score_table, stage_table
from braindive.staging.change import Lines, patients, training_lines
from braindive.values.protocol import Products
from braindive.values.walking import one_thread_per_product


class DIVE(Fitted, BaseEstimator):  # type: ignore[misc]
    """Data-driven Inference of Vertexwise Evolution.

    Infers at once which vertices change alike (clusters), how each cluster changes along the
    disease (a curve), and where every subject stands on that course and how fast it moves.

    Parameters
    ----------
    n_clusters : int, default 3
        Number of clusters.
    spatial : "auto", float or None, default "auto"
        Strength of the Markov random field: estimated where the cohort has a graph, fixed, or off.
    assignments : (n_vertices,) labels, optional
        Fixed clusters, for example of an atlas; `n_clusters` is then their number. Negative whole
        numbers mark vertices that belong nowhere. Labels of vertices that the preprocessing drops
        may be left in.
    start : (n_vertices,) labels or fitted DIVE, optional
        Clusters to begin from in place of those of k-means. The fit refines them, unlike
        `assignments`, and `n_clusters` is their number. Negative whole numbers mark vertices of
        which nothing is known: they begin in the cluster whose values are most like theirs. Of a
        fitted model, its responsibilities; a saved model keeps its labels alone.
    staging : bool, default True
        Whether to estimate speeds and shifts; without, the score is the time.
    curve : str or type, default "sigmoid"
        Shape of the trajectories: a name in `braindive.dive.curves.CURVES`, or a class that
        inherits from `braindive.dive.curves.Curves`.
    method : {"fast", "exact"}, default "fast"
        Pooled means, or the published sums over all vertices: the same answer, slowly.
    n_init : int, default 4
        Starts of k-means; those that end in different clusters are fitted, and the best is kept.
        A given `start` is the only one.
    max_iter : int, default 200
        Most passes over the data.
    tol : float, default 1e-4
        Converged when the responsibilities change by less on average, and the objective by less
        than a tenth of it, relatively. Where a sample of many vertices has led, the change that
        counts is the one to come, by how the sample's changes have shrunk.
    priors : Priors, optional
        Priors of speeds, shifts and trajectories.
    preprocessing : Preprocessing, optional
        Learnt from the training cohort and applied to every cohort the model sees; predictions
        are in its unit.
    people : {"differ", "alike"}, default "differ"
        Whether people differ persistently, as brains do: curves, speeds and stages are then
        estimated by the marginal model of the cluster means, which gives every person a level of
        its own, lets noise be correlated and integrates the stages out. Or whether all that
        differs is disease: the published estimates.
    vertices : {"auto", "differ", "alike"}, default "auto"
        Whether the vertices of a cluster have curves of their own around its trajectory, as in
        every brain: amplitude, steepness, midpoint and baseline of a vertex are normal around
        those of its cluster. Or whether all follow it exactly, which is the published likelihood:
        with many people it is too sure of every label, and the Markov random field loses against
        it. By default labels are found with the second, and with the first where such a field
        would lose; and where clusters overlap, with stages and `people="differ"`, labels end
        nearest to the curves of a mixture over the vertices' own midpoints. Vertices' own curves
        are estimated in any case.
    speed_on, shift_on : list of str, optional
        Columns of the cohort's table, numbers or categories with one value for each person, that
        move people's speeds, and their scores at the first visit: their effects, in `effects_`, are
        estimated together with everything else. Controls, where they are known, and others have
        means of their own in any case; effects are those among people of the same kind. People
        whose value is not known are staged as usual ones.
    sites : str, optional
        Column of the cohort's table with the site or scanner of each visit. What a site adds to
        every vertex, and by how much it multiplies noise, is estimated together with everything
        else and taken off; people may change site. See `add_site` for one that is seen later.
    scale : {"years", "controls"}, default "years"
        Unit of the score. In years, the mean speed of the people who are not controls is one year
        per year, and 0 is where the earliest cluster is half-way. The published scale gives the
        controls' scores mean 0 and standard deviation 1.
    personal : bool, default True
        Whether to learn how people's own deviations from the course persist, for `predict`;
        without, a fit takes about half the time, and `predict` has to be asked for the curves
        alone (`personal=False`).
    n_jobs : int, optional
        Threads; all cores by default. Does not change the result.
    memory : str or int, optional
        Memory that the fit may take on top of a cohort that lies on disk, such as "2GB".
    verbose : bool, default False
        Whether to show how a fit is going, on the standard error or in a notebook.
    random_state : int, RandomState or None
        Seed of the starts.

    Attributes
    ----------
    responsibilities_ : (n_vertices, n_clusters)
        Probability that a vertex belongs to a cluster. Clusters are ordered from the earliest to
        the latest affected, by the scores at which their trajectories are half-way.
    labels_ : (n_vertices,)
        Most probable cluster.
    trajectories_ : Trajectories, or another shape
        `amplitude`, `steepness`, `midpoint`, `baseline`, each (n_clusters,); another `curve` has
        its own parameters.
    plateaus_reached_ : (n_clusters, 2) bool
        Whether anybody has reached the early and the late plateau of each trajectory. Beyond a
        plateau that nobody has reached, the trajectory is a guess.
    noise_ : (n_clusters,)
        Standard deviation of one measurement around its cluster's trajectory, or around its
        vertex's own curve where the fit lets vertices differ.
    vertex_midpoints_, vertex_midpoints_se_ : (n_vertices,)
        Score at which each vertex is half-way, shrunk towards its cluster by as much as its own
        measurements leave open, and the standard error of that; not with `vertices="alike"`.
    subjects_, speeds_, shifts_ : (n_subjects,)
        Subjects and their progression: score = speed * time + shift.
    speeds_se_, shifts_se_, baseline_scores_se_ : (n_subjects,)
        Standard errors of the speeds, of the shifts and of the scores at the first visit; those of
        `stage`. NaN in models that were saved before fits kept them.
    scores_ : (n_visits,)
        Score of each visit, in the order of the cohort: by default in years since the earliest
        cluster was half-way through its change.
    effects_ : DataFrame
        With `speed_on` or `shift_on`: a row for each effect. `parameter` ("shift" or "speed"),
        `covariate`, `contrast` (what is compared), `estimate`, `se`, 95 % interval `low` to `high`,
        and `p` of the test that there is no effect. Effects on the shift are in the unit of the
        score, by default years ahead at the first visit; those on the speed are ratios of speeds.
    sites_ : Sites
        With `sites`: `names`, and of every site and vertex `offsets`, in the unit of the values,
        and `scales`, noise relative to that of all; `braindive.site_table` has a row for each.
    spatial_strength_ : float
        Strength of the Markov random field; 0 if it is off. Where people differ, labels settle at
        last with no more of what was estimated than vertices at borders can contradict.
    objective_ : (n_iterations,)
        Log-posterior (with a Markov random field: pseudo-posterior) at each iteration.
    n_iter_, converged_, stop_reason_ : int, bool, str
        How the fit ended: "converged", "cycling" or "max_iter".
    log_likelihood_, aic_, bic_ : float
        For the choice of the number of clusters. Counted as parameters are those of the curves,
        the noise of each cluster, two for each subject, and the strength of the field.
    cluster_names_ : (n_clusters,)
        The given labels in the order of the clusters where `assignments` are given, else 0, 1, ...
        as in `labels_`; what people read counts from 1 ("cluster 1" is the earliest).
    preprocessing_ : Preprocessing or None
        What was learnt from the training cohort before the fit.
    space_ : Space or None
        Where the vertices of the model lie.
    visits_ : DataFrame
        The table of the training cohort, with the `subject` and `time` of each visit.
    covariates_ : tuple
        With `speed_on` or `shift_on`: how the columns become numbers; for developers.
    progression_found_ : bool
        Whether the data hold a progression at all: False where people change over time no more
        alike than they would if the order of their visits said nothing, and where nobody was seen
        twice. None in models that were saved before it was judged.
    progression_p_ : float
        The p-value of that, for which orders of visits within people are drawn; found is 0.01 or
        less. NaN where nobody was seen twice.
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

    Begin from clusters that are known roughly, here of every second vertex:

    >>> import numpy as np
    >>> roughly = np.where(np.arange(300) % 2, simulation.truth.labels, -1)
    >>> again = bd.DIVE(start=roughly, personal=False, random_state=0).fit(simulation.cohort)
    >>> bool((again.labels_ == model.labels_).mean() > 0.99)
    True
    """

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        spatial: Literal["auto"] | float | None = "auto",
        assignments: ArrayLike | None = None,
        start: ArrayLike | DIVE | None = None,
        staging: bool = True,
        curve: str | type[Curves] = "sigmoid",
        method: Literal["fast", "exact"] = "fast",
        n_init: int = 4,
        max_iter: int = 200,
        tol: float = 1e-4,
        priors: Priors | None = None,
        preprocessing: Preprocessing | None = None,
        people: Literal["differ", "alike"] = "differ",
        vertices: Literal["auto", "differ", "alike"] = "auto",
        speed_on: Sequence[str] | None = None,
        shift_on: Sequence[str] | None = None,
        sites: str | None = None,
        scale: Literal["years", "controls"] = "years",
        personal: bool = True,
        n_jobs: int | None = None,
        memory: str | int | None = None,
        verbose: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.spatial = spatial
        self.assignments = assignments
        self.start = start
        self.staging = staging
        self.curve = curve
        self.method = method
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.priors = priors
        self.preprocessing = preprocessing
        self.people = people
        self.vertices = vertices
        self.speed_on = speed_on
        self.shift_on = shift_on
        self.sites = sites
        self.scale = scale
        self.personal = personal
        self.n_jobs = n_jobs
        self.memory = memory
        self.verbose = verbose
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
            Dask cluster over which to spread the values.

        Returns
        -------
        DIVE
            The fitted model itself.
        """
        self.warnings_: list[str] = []
        self.versions_ = package_versions()
        given = check_cohort(cohort)
        cohort = self._preprocess(given)
        keep = None if self.preprocessing_ is None else self.preprocessing_.keep_
        regions, settings = check_settings(self, cohort, keep)
        random = np.random.default_rng(check_seed(self.random_state).randint(2**31))
        controls = None if cohort.controls is None else cohort.controls[cohort.canonical_order]
        covariates, design = learn_design(self, cohort, timeline_of(cohort))

        def report(state: State, monitor: Monitor, start: int, checkpoint: Checkpoint) -> None:
            last = monitor.objectives[-1], monitor.changes[-1]
            step = Progress(monitor.n_iter, *last, start, len(checkpoint), state, checkpoint)
            for tell in (callback, show):
                if tell is not None:
                    tell(step)

        with (
            on_standard_error(self.verbose, self.tol, self.max_iter) as show,
            one_thread_per_product(self.n_jobs),
        ):
            measurements = self._open(cohort, client)
            check_variation(measurements, cohort)
            for what, scans in describe_flat_scans(given, find_flat_scans(given)):
                self._say(DataWarning, f"{what} Leave out what failed: {scans}.", stacklevel=3)
            sites, untold = begin_sites(self, cohort, timeline_of(cohort), measurements)
            for message in untold:
                self._say(DataWarning, message, stacklevel=3)
            if sites is not None:
                measurements = sites.adjust(measurements)
            outcome = fit_best(
                measurements, timeline_of(cohort), settings, controls, random, report, resume
            )
            maps_vertices = self.vertices != "alike"
            results = put_in_order(
                outcome, controls, self.people, self.scale, maps_vertices, design, sites
            )
            self._keep(cohort, outcome, results, regions)
            self._keep_effects(covariates, results)
            if results.sites is not None:
                measurements = results.sites.adjust(measurements)
            self._learn(measurements)
        if controls is not None and controls.all():
            self._say(DataWarning, ONLY_CONTROLS, stacklevel=3)
        judged = progression_sentence(self)
        for category, message in warnings_of(outcome, results, display_names(self), judged):
            self._say(category, message, stacklevel=3)
        self._say_what_was_learnt(results.lines)
        return self

    def stage(self, cohort: Cohort, *, client: Any = None) -> pd.DataFrame:
        """Place subjects, seen before or not, on the disease's course.

        Expected stages given that the noise of vertices is correlated and that people differ
        persistently from the curve of their stage; both are learnt from the training cohort. With
        `people="alike"`, the published estimates. Of the training cohort they are `speeds_`,
        `shifts_` and `scores_`.

        Parameters
        ----------
        cohort : Cohort
            Subjects with one or more visits, with the vertices of the training cohort.
        client : distributed.Client, optional
            Dask cluster over which to spread the values.

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
        return stage_table(self, cohort, client)

    def scores(self, cohort: Cohort, *, client: Any = None) -> pd.DataFrame:
        """Score of every visit, with its standard error.

        All visits of a person tell where each of them is; of the training cohort the scores are
        `scores_`. For the change between visits see `change`: it is known better than any score,
        because what lasts cancels in it.

        Parameters
        ----------
        cohort : Cohort
            Subjects, seen before or not, with the vertices of the training cohort.
        client : distributed.Client, optional
            Dask cluster over which to spread the values.

        Returns
        -------
        DataFrame
            One row for each visit, in the order of the cohort: `subject`, `time`, `score` and
            `score_se`.

        Examples
        --------
        >>> import braindive as bd
        >>> cohort = bd.simulate_cohort(n_subjects=40, n_vertices=200, random_state=0).cohort
        >>> model = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(cohort)
        >>> scores = model.scores(cohort)
        >>> bool((abs(scores["score"] - model.scores_) < 1e-6).all())
        True
        """
        return score_table(self, cohort, client)

    @overload
    def predict(
        self,
        cohort: Cohort,
        at: pd.Series | None = None,
        history: Cohort | None = None,
        *,
        personal: bool = True,
        return_std: Literal[False] = False,
        client: Any = None,
    ) -> Array: ...

    @overload
    def predict(
        self,
        cohort: Cohort,
        at: pd.Series | None = None,
        history: Cohort | None = None,
        *,
        personal: bool = True,
        return_std: Literal[True],
        client: Any = None,
    ) -> tuple[Array, Array]: ...

    def predict(
        self,
        cohort: Cohort,
        at: pd.Series | None = None,
        history: Cohort | None = None,
        *,
        personal: bool = True,
        return_std: bool = False,
        client: Any = None,
    ) -> Array | tuple[Array, Array]:
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
            Without, the curves at the person's score: with `people="alike"`, the prediction of the
            published model.
        return_std : bool, default False
            Whether to return the standard deviation of a measurement around its prediction too:
            with `sites`, at the visit's site, or where the person was seen last.
        client : distributed.Client, optional
            Dask cluster over which to spread the values of the history.

        Returns
        -------
        (n_visits, n_vertices) array, or two of them
            In the unit that the model sees: with preprocessing usually z-scores, adjusted for the
            covariates, of the vertices that were kept. `preprocessing_.inverse_transform` brings
            expected values back to the unit of the scans; `braindive predict` does so.

        Examples
        --------
        >>> import braindive as bd
        >>> simulation = bd.simulate_cohort(n_subjects=40, n_vertices=200, random_state=0)
        >>> model = bd.DIVE(n_clusters=3, random_state=0).fit(simulation.cohort)
        >>> early, late = simulation.cohort.first_visits(3), simulation.cohort.later_visits(3)
        >>> model.predict(late, history=early).shape
        (40, 200)
        """
        values, errors = predict_values(self, cohort, at, history, personal, return_std, client)
        return values if errors is None else (values, errors)

    def score(self, cohort: Cohort, y: None = None, *, client: Any = None) -> float:
        """Mean log-likelihood of one measurement of held-out subjects.

        Parameters
        ----------
        cohort : Cohort
            Subjects, staged first with the fitted trajectories.
        y : None
            Not used; here for scikit-learn.
        client : distributed.Client, optional
            Dask cluster over which to spread the values.

        Returns
        -------
        float
        """
        return mean_log_likelihood(self, cohort, client)

    def add_site(self, cohort: Cohort, *, client: Any = None) -> DIVE:
        """Return a model that knows one more site, learnt from a few people who were seen there.

        Curves, clusters and everything else stay as they are. Standard errors of the stages of
        people from the new site carry what is not known of it.

        Parameters
        ----------
        cohort : Cohort
            About ten controls who were seen at the new site, and others if there are any; the
            column with the sites has its name. Visits at sites that are known are left out.
        client : distributed.Client, optional
            Dask cluster over which to spread the values.

        Returns
        -------
        DIVE
            This model does not change.

        Examples
        --------
        >>> import braindive as bd
        >>> cohort = bd.simulate_cohort(
        ...     60, n_vertices=60, noise=0.3, control_share=0.4, sites=3, random_state=0
        ... ).cohort
        >>> is_new = (cohort.table["site"] == "site 1").to_numpy()
        >>> model = bd.DIVE(2, sites="site", personal=False, random_state=0)
        >>> model = model.fit(cohort.select(visits=~is_new))
        >>> wider = model.add_site(cohort.select(visits=is_new))
        >>> wider.sites_.names
        ('site 2', 'site 3', 'site 1')
        """
        sites, marginal, told = learn_new_sites(self, cohort, client)
        wider = copy.copy(self)
        wider.sites_, wider._marginal = sites, marginal
        wider.warnings_ = list(self.warnings_)
        for message in told:
            wider._say(DataWarning, message, stacklevel=3)
        return wider

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
        >>> cohort = bd.simulate_cohort(40, n_vertices=90, noise=0.3, random_state=0).cohort
        >>> model = bd.DIVE(n_clusters=2, random_state=0).fit(cohort)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(os.path.join(folder, "fit.dive"))
        ...     again = bd.load_model(os.path.join(folder, "fit.dive"))
        >>> bool((again.stage(cohort) == model.stage(cohort)).all(axis=None))
        True
        """
        internal = vars(self.internal_)
        fitted = {name: vars(self)[name] for name in sorted(vars(self)) if name.endswith("_")}
        learnt = {"_placing": self._marginal, "_personal": self._personal}
        parameters = self.get_params(deep=False)
        if isinstance(self.start, DIVE):
            # A file holds one model, and of another that its fit began from the labels.
            parameters["start"] = np.where(self.start.internal_.known, self.start.labels_, -1)
        write_model(path, parameters, fitted | {"_internal": internal} | learnt)

    @classmethod
    def restored(cls, parameters: dict[str, Any], fitted: dict[str, Any]) -> DIVE:
        """Rebuild a fitted model from the parts that `save` wrote; see `load_model`."""
        # Files of the first format know none of these: people differed in staging, vertices did
        # not, and scores had the published scale. Those of the second do not know of vertices.
        before = {"people": "differ", "vertices": "alike", "scale": "controls"}
        model = cls(**(before | parameters))
        model._internal = Internal(**fitted.pop("_internal"))
        model._marginal, model._personal = fitted.pop("_placing", None), fitted.pop("_personal")
        # Files written before fits kept standard errors have none.
        for name in ("speeds_se_", "shifts_se_", "baseline_scores_se_"):
            setattr(model, name, np.full(len(fitted["subjects_"]), np.nan))
        # Nobody knows it of a model that was saved before it was judged.
        model.progression_found_ = model.progression_p_ = None
        for name, value in fitted.items():
            setattr(model, name, value)
        return model

    def __sklearn_clone__(self) -> DIVE:
        """Copy the parameters; a model to start from stays fitted, which its copy would not be."""
        again: DIVE = super().__sklearn_clone__()
        if isinstance(self.start, DIVE):
            again.start = self.start
        return again

    @property
    def plateaus_reached_(self) -> BoolArray:
        """Whether anybody has reached the early and the late plateau of each trajectory."""
        # The curves know their parameters alone, so it takes the scores of the fit to tell. Files
        # need no place for it, and those written before it was there tell it too.
        self.check_fitted()
        return np.asarray(self.trajectories_.reached(self.scores_))

    def summary(self) -> pd.DataFrame:
        """What there is to say about each cluster, from the earliest to the latest affected.

        Returns
        -------
        DataFrame
            A row for each cluster, numbered from 1: its `name`, its number of `vertices`, the
            parameters of its curve, the `noise` of a vertex around it, its `onset` (the score at
            which it is half-way), its `change` over the disease with a 95 % interval
            (`change_low`, `change_high`; empty with `people="alike"`), and whether anybody has
            reached its plateaus (`early_plateau_reached`, `late_plateau_reached`). Beyond a
            plateau that nobody has reached the curve is a guess. `progression_found`, the same in
            every row, says whether there is anything to describe; `attrs` of the table has it with
            `progression_p` and, in words, `progression`.

        Examples
        --------
        >>> import braindive as bd
        >>> cohort = bd.simulate_cohort(40, n_vertices=60, noise=0.3, random_state=0).cohort
        >>> model = bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(cohort)
        >>> model.summary()["vertices"].sum()
        np.int64(60)
        >>> model.summary().attrs["progression"]
        'A progression was found: people change together over time (p < 0.001).'
        """
        internal = self.internal_
        table = cluster_table(
            display_names(self),
            self.trajectories_,
            self.scores_,
            np.bincount(self.labels_, minlength=len(self.noise_)),
            self.noise_,
            change_errors(internal, self._marginal),
        )
        table["progression_found"] = self.progression_found_
        table.attrs = {
            "progression": progression_sentence(self),
            "progression_found": self.progression_found_,
            "progression_p": self.progression_p_,
        }
        return table

    def trajectory_errors(self, scores: ArrayLike) -> Array:
        """Standard errors of the trajectories, as far as the number of people limits them.

        Parameters
        ----------
        scores : (n,)
            At which scores; those that were seen are the ones of which the data say something.

        Returns
        -------
        (n, n_clusters) array
            Standard error of `trajectories_.evaluate(scores)`, by the delta method, including that
            of the score's zero and unit. NaN with `people="alike"` and without staging, where it is
            not known.

        Examples
        --------
        >>> import braindive as bd
        >>> cohort = bd.simulate_cohort(40, n_vertices=60, noise=0.3, random_state=0).cohort
        >>> model = bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(cohort)
        >>> model.trajectory_errors([0.0, 10.0]).shape
        (2, 2)
        """
        return curve_errors(self.internal_, self._marginal, np.asarray(scores, dtype=float))

    def _repr_html_(self) -> str:
        """Show a fitted model as its table of clusters, in a notebook."""
        if not self.is_fitted:
            return str(self._html_repr())
        return model_page(repr(self), self.summary(), explain_score(self), self.warnings_)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _preprocess(self, cohort: Cohort) -> Cohort:
        """Learn the preprocessing and apply it; its warnings are kept with the model."""
        self.preprocessing_ = None
        if self.preprocessing is None:
            return cohort
        self.preprocessing_ = clone(self.preprocessing)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", BraindiveWarning)
            cohort = self.preprocessing_.fit_transform(cohort)
        for warning in heard:
            self._say(warning.category, str(warning.message), stacklevel=4)
        return cohort

    def _keep(
        self,
        cohort: Cohort,
        outcome: Outcome,
        results: Results,
        regions: np.ndarray[Any, Any] | None,
    ) -> None:
        """Set the fitted attributes."""
        monitor, timeline = outcome.monitor, outcome.problem.timeline
        self._marginal = results.marginal
        self._internal, scale = results.internal, results.internal.scale
        found = self._internal.parameters
        self.responsibilities_ = results.responsibilities
        self.labels_ = self.responsibilities_.argmax(axis=1)
        # Typed as anything, because the names of the parameters are those of the shape.
        self.trajectories_: Any = scale.curves(found.trajectories)
        self.noise_ = scale.value_errors(found.noise)
        if results.vertex_map is not None:
            self.vertex_midpoints_, self.vertex_midpoints_se_ = results.vertex_map
        self.subjects_ = cohort.subject_ids
        self.speeds_, self.shifts_, _ = scale.stages(timeline, found.speeds, found.shifts)
        self.scores_ = np.empty(cohort.n_visits)
        self.scores_[cohort.canonical_order] = results.scores
        self.speeds_se_, self.shifts_se_, self.baseline_scores_se_ = results.stage_errors.T.copy()
        self.spatial_strength_ = float(found.strength or 0.0)
        self.cluster_names_ = np.arange(len(results.order))
        if regions is not None:
            self.cluster_names_ = regions[results.order]
        self.objective_ = np.array(monitor.objectives)
        self.n_iter_ = monitor.n_iter
        self.stop_reason_ = monitor.reason
        self.converged_ = monitor.reason == "converged"
        self.n_vertices_ = cohort.n_vertices
        self.space_ = cohort.space
        self.visits_ = cohort.table.assign(subject=cohort.subjects, time=cohort.times)
        of_sites = 0.0 if results.sites is None else results.sites.n_parameters
        judged = criteria_of(outcome, scale, of_sites)
        self.log_likelihood_ = judged.log_likelihood
        self.aic_, self.bic_ = judged.aic, judged.bic
        self.progression_found_: bool | None = outcome.progression.found
        self.progression_p_: float | None = outcome.progression.p_value

    def _keep_effects(self, covariates: Covariates | None, results: Results) -> None:
        """Set what moves people and what sites add, or forget what an earlier fit found of it."""
        for name in ("effects_", "covariates_", "sites_"):
            if hasattr(self, name):
                delattr(self, name)
        if results.sites is not None:
            self.sites_ = results.sites.known
        if covariates is not None and results.marginal is not None:
            self.covariates_ = covariates
            self.effects_ = effect_table(covariates, results.internal, results.marginal)

    def _learn(self, measurements: Products) -> None:
        """Learn from the training cohort what prediction needs beyond the course."""
        self._personal: PersonalModel | None = None
        if self.personal:
            training = self.internal_.training
            self._personal = learn_personal(
                measurements,
                self.responsibilities_,
                self.stager(),
                training,
                self.site_noise(training.sites),
            )

    def _say_what_was_learnt(self, lines: Lines | None) -> None:
        """Keep with the model where its course adds nothing, or people move against it.

        Parameters
        ----------
        lines : Lines or None
            Through the visits of the training subjects, where they are known by now.
        """
        training = self.internal_.training
        if self._personal is not None:
            for message in prediction_warnings(self._personal, training.timeline):
                self._say(None, message, stacklevel=4)
        if self.staging and training.timeline.has_follow_up:
            if lines is None:
                lines = training_lines(self.stager(), training)
            against = direction_warning(lines, patients(training))
            if against is not None:
                self._say(None, against, stacklevel=4)

    def _say(self, category: type[Warning] | None, message: str, stacklevel: int) -> None:
        """Keep a warning with the model and, if it has a category, warn."""
        self.warnings_.append(message)
        if category is not None:
            warnings.warn(message, category, stacklevel=stacklevel)
