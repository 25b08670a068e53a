"""Intervals for trajectories and cluster membership from a bootstrap over subjects."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm, t
from sklearn.base import clone

from braindive.arrays import Array
from braindive.checks import check_count
from braindive.cluster_names import display_names
from braindive.cohort.cohort import Cohort, check_cohort
from braindive.dive.curves import Curves
from braindive.errors import BraindiveWarning, NotFittedError, ParameterError
from braindive.estimator import DIVE
from braindive.io.outputs import replace_file


@dataclass(frozen=True)
class Bootstrap:
    """What a bootstrap over subjects found.

    Parameters
    ----------
    estimate : Curves
        The model's own curves.
    trajectories : (n_resamples, n_clusters, n_parameters)
        Curves of every resample, clusters matched, over the model's score.
    membership_mean, membership_sd : (n_vertices, n_clusters)
        Over resamples, of the responsibilities.
    stability : (n_vertices,)
        Share of the resamples in which a vertex stays in its cluster.
    names : list of str
        What the clusters are called.
    """

    estimate: Curves
    trajectories: Array
    membership_mean: Array
    membership_sd: Array
    stability: Array
    names: list[str]

    @property
    def n_resamples(self) -> int:
        """Number of resamples."""
        return len(self.trajectories)

    def bands(self, scores: Array, level: float = 0.95) -> tuple[Array, Array]:
        """Pointwise intervals of the trajectories.

        Parameters
        ----------
        scores : (n,)
            Where to evaluate the curves.
        level : float, default 0.95
            Probability to cover the true curve.

        Returns
        -------
        lower, upper : (n, n_clusters)
        """
        curves = np.stack(
            [self.estimate.from_array(one).evaluate(scores) for one in self.trajectories]
        )
        estimate = self.estimate.evaluate(scores)
        reach = t.isf(0.5 - level / 2, max(len(curves) - 1, 1)) * _spread(curves)
        return estimate - reach, estimate + reach

    def parameters(self, level: float = 0.95) -> pd.DataFrame:
        """Intervals of the trajectories' parameters, one row per cluster and parameter.

        Parameters
        ----------
        level : float, default 0.95
            Probability to cover the true value.

        Returns
        -------
        DataFrame
            Columns `estimate`, `lower`, `upper`; index (cluster, parameter), clusters by name.
        """
        estimate = self.estimate.to_array()
        edges = (0.5 - level / 2, 0.5 + level / 2)
        lower, upper = np.quantile(self.trajectories, edges, axis=0)
        index = pd.MultiIndex.from_product(
            [self.names, self.estimate.names()], names=["cluster", "parameter"]
        )
        return pd.DataFrame(
            {"estimate": estimate.ravel(), "lower": lower.ravel(), "upper": upper.ravel()},
            index=index,
        )

    def membership(self, level: float = 0.95) -> tuple[Array, Array]:
        """Intervals of the probability of membership, (n_vertices, n_clusters) each.

        Parameters
        ----------
        level : float, default 0.95
            Probability to cover; by a normal approximation within [0, 1].

        Returns
        -------
        lower, upper : (n_vertices, n_clusters)
        """
        reach = norm.isf(0.5 - level / 2) * self.membership_sd
        return (
            np.clip(self.membership_mean - reach, 0.0, 1.0),
            np.clip(self.membership_mean + reach, 0.0, 1.0),
        )


def bootstrap(
    model: DIVE,
    cohort: Cohort,
    n: int = 200,
    *,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    random_state: int = 0,
) -> Bootstrap:
    """Refit a model to resampled subjects, to see how far its findings rest on who was seen.

    Every resample draws as many subjects as the cohort has, with replacement and with all their
    visits. Its clusters are matched to the model's by the vertices they share, and its score is
    put on the model's scale by the subjects they share, as far as their stages are known.

    Parameters
    ----------
    model : DIVE
        Fitted to the cohort.
    cohort : Cohort
        The training cohort.
    n : int, default 200
        Number of resamples.
    n_jobs : int, optional
        Resamples at a time; one by default. Does not change the result.
    progress : callable, optional
        Called with the number of finished resamples and `n`.
    checkpoint : path, optional
        Folder that keeps every finished resample, to go on from there after an interruption.
    random_state : int, default 0
        Seed.

    Returns
    -------
    Bootstrap

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> cohort = bd.simulate_cohort(n_subjects=60, n_vertices=90, noise=0.3, random_state=0).cohort
    >>> model = bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(cohort)
    >>> found = bd.bootstrap(model, cohort, n=3)
    >>> lower, upper = found.bands(np.linspace(-1, 1, 5))
    >>> bool((lower <= upper).all())
    True
    """
    if not hasattr(model, "trajectories_"):
        raise NotFittedError("this DIVE is not fitted yet; call fit(cohort) first.")
    cohort, n = check_cohort(cohort), check_count("n", n)
    if list(cohort.subject_ids) != list(model.subjects_):
        raise ParameterError(
            "the cohort's subjects are not those of the model; give the cohort it was fitted to."
        )
    folder = None if checkpoint is None else Path(checkpoint)
    if folder is not None:
        _open(folder, model, random_state)
    seeds = np.random.SeedSequence(random_state).spawn(n)
    errors = model.stage(cohort)["score_se"].to_numpy() if model.staging else None
    jobs = (
        delayed(_resample)(model, cohort, errors, seed, i, folder) for i, seed in enumerate(seeds)
    )
    curves: list[Array] = []
    total, squares = np.zeros_like(model.responsibilities_), np.zeros_like(model.responsibilities_)
    stays = np.zeros(len(total))
    for parameters, responsibilities in Parallel(
        n_jobs=n_jobs or 1, prefer="threads", return_as="generator"
    )(jobs):
        curves.append(parameters)
        total += responsibilities
        squares += responsibilities**2
        stays += responsibilities.argmax(axis=1) == model.labels_
        if progress is not None:
            progress(len(curves), n)
    mean = total / n
    spread = np.sqrt(np.maximum(squares / n - mean**2, 0.0))
    names = display_names(model)
    return Bootstrap(model.trajectories_, np.stack(curves), mean, spread, stays / n, names)


def _open(folder: Path, model: DIVE, random_state: int) -> None:
    """Make the folder, or see that what it keeps belongs to this model and seed."""
    facts = np.append(model.trajectories_.to_array().ravel(), random_state)
    path = folder / "bootstrap.npy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(path, facts)
        return
    kept = np.load(path)
    if kept.shape != facts.shape or not np.allclose(kept, facts, rtol=1e-6):
        raise ParameterError(
            f"{folder} keeps resamples of another model or seed; give another folder or empty it."
        )


def _resample(
    model: DIVE,
    cohort: Cohort,
    errors: Array | None,
    seed: np.random.SeedSequence,
    number: int,
    folder: Path | None,
) -> tuple[Array, Array]:
    """Parameters of the curves and responsibilities of one resample, on the model's scale."""
    path = None if folder is None else folder / f"resample-{number:05d}.npz"
    if path is not None and path.exists():
        with np.load(path) as kept:
            return kept["curves"], kept["responsibilities"]
    random = np.random.default_rng(seed)
    drawn = random.integers(cohort.n_subjects, size=cohort.n_subjects)
    part = _draw(cohort, drawn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BraindiveWarning)  # said once, by the fit to all
        again = clone(model).set_params(n_jobs=1, n_init=1, random_state=0, personal=False)
        again.fit(part)
    overlap = model.responsibilities_.T @ again.responsibilities_
    _, order = linear_sum_assignment(overlap, maximize=True)
    slope, start = 1.0, 0.0
    if errors is not None:
        ours = _mean_scores(model)[drawn]
        slope, start = _common_scale(_mean_scores(again), ours)
        # Subjects tie the curves to the disease only as well as their own stages are known, which
        # a resample of the same measurements does not show.
        tilt, lift = np.polyfit(ours, errors[drawn] * random.standard_normal(len(drawn)), 1)
        slope, start = slope * (1 + tilt), start * (1 + tilt) + lift
    # score of the model = start + slope * score of the resample
    curves = again.trajectories_[order].rescored(-start / slope, 1 / slope).canonical().to_array()
    responsibilities = again.responsibilities_[:, order].astype(np.float32)
    if path is not None:
        with replace_file(path) as unfinished, unfinished.open("wb") as file:
            np.savez(file, curves=curves, responsibilities=responsibilities)
    return curves, responsibilities


def _draw(cohort: Cohort, drawn: Array) -> Cohort:
    """Return the cohort of drawn subjects; who is drawn twice counts as two people."""
    order = cohort.canonical_order
    index = cohort.subject_index[order]
    starts = np.searchsorted(index, np.arange(cohort.n_subjects + 1))
    visits = [order[starts[i] : starts[i + 1]] for i in drawn]
    ids = np.repeat(np.arange(len(drawn)), [len(rows) for rows in visits])
    return cohort._take(np.concatenate(visits), subjects=ids.astype(object))


def _common_scale(theirs: Array, ours: Array) -> tuple[float, float]:
    """Line from the resample's scores to the model's, through the subjects both have seen.

    The standard major axis: neither score is the truth of which the other is a noisy copy.
    """
    slope = float(np.std(ours) / max(float(np.std(theirs)), 1e-12))
    if np.corrcoef(ours, theirs)[0, 1] < 0:
        slope = -slope
    return slope, float(np.mean(ours) - slope * np.mean(theirs))


def _mean_scores(model: DIVE) -> Array:
    """Score of each training subject at the mean of its visits' times."""
    times = model.visits_.groupby("subject")["time"].mean().loc[list(model.subjects_)]
    return np.asarray(model.speeds_ * times.to_numpy() + model.shifts_)


def _spread(draws: Array) -> Array:
    """Standard deviation over the resamples; of a single one, zero."""
    return np.asarray(draws.std(axis=0, ddof=min(1, len(draws) - 1)))
