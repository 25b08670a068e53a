"""Cross-validated comparison of models: which ones, on which folds, and the table of all."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from braindive.arrays import IntArray
from braindive.checks import check_assignments, check_count, check_seed
from braindive.cohort.checks import quoted
from braindive.cohort.cohort import Cohort, check_cohort
from braindive.cohort.table_columns import find_column
from braindive.errors import DataWarning, ParameterError
from braindive.estimator import DIVE
from braindive.evaluation.folds import Ids, split_subjects
from braindive.evaluation.held_out import evaluate_vertices, with_later_visits
from braindive.evaluation.overlap import overlap_table
from braindive.evaluation.parallel import Report, run_tasks
from braindive.evaluation.rivals import MeanMap
from braindive.evaluation.summary import REFERENCE
from braindive.space.folding import fold_hemispheres
from braindive.variants import no_staging_model, roi_model

MEAN = "mean map"
# A correlation of fewer test subjects than this says nothing.
_SMALLEST_FOLD = 3


def compare_models(
    cohort: Cohort,
    models: Mapping[str, Any] | None = None,
    scores: Sequence[str] = (),
    n_folds: int = 10,
    history_visits: int = 2,
    *,
    n_clusters: int = 3,
    atlas: ArrayLike | None = None,
    preprocessing: Any = None,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    progress: Report | None = None,
) -> pd.DataFrame:
    """Compare models on subjects they have not seen.

    The subjects are dealt into folds, and each fold is judged by models fitted on the others. A
    test subject's scans, later scans and preprocessing never reach the training.

    - For each cognitive score: Spearman correlation of the score of every test visit with the
      disease progression score of that visit. Its sign is taken from the training subjects, so
      that larger is better for scores that rise and for scores that fall with the disease.
    - `RMSE`: root of the mean squared error, over vertices, of the test subjects' later scans
      predicted from their first `history_visits`. What is predicted is the trajectories'
      expectation, as in the paper, without personal offsets.

    Parameters
    ----------
    cohort : Cohort
        Subjects, with the scores in its table.
    models : dict of name to model, optional
        By default DIVE, the ROI-based model where there is an `atlas`, and the model without
        staging. A model has `fit(cohort)`, `stage(cohort)` (a row for each subject, with `speed`
        and `shift`, or with `score` alone) and `predict(cohort, history=...)`. The mean of the map
        with the last scan as the prediction, `MeanMap`, is never left out.
    scores : sequence of str
        Columns of the cohort's table.
    n_folds : int
        Number of folds.
    history_visits : int
        Visits from which later ones are predicted.
    n_clusters : int
        Clusters of the default models.
    atlas : (n_vertices,) labels, optional
        Regions of the ROI-based model, at the averaged vertices where the preprocessing averages
        the hemispheres.
    preprocessing : Preprocessing, optional
        Fitted on the training subjects of each fold and applied to all; the RMSE is then in its
        unit. It is given here and not to the models, so that all predict the same numbers.
    n_jobs : int, optional
        Workers; folds and models run in parallel.
    random_state : int, RandomState or None
        Seed of the folds.
    progress : callable, optional
        Called with the number of finished fits and of all.

    Returns
    -------
    DataFrame
        One row for each (model, fold, measure) with its `value` and the number `n` of visits
        behind it; where the value is Spearman's correlation, `pearson` stands beside it. Use
        `summarise_comparison` for means and tests. `attrs["overlap"]` holds, for each model that
        finds clusters, their Dice overlap across folds, as `fold_overlap` gives.

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(
    ...     24, n_vertices=50, noise=0.1, cognition=True, control_share=0.3, random_state=0
    ... ).cohort
    >>> models = {"DIVE": bd.DIVE(n_clusters=2, n_init=1, tol=1e-3, random_state=0)}
    >>> frame = bd.compare_models(cohort, models, scores=["MMSE"], n_folds=2, random_state=0)
    >>> sorted(frame["model"].unique())
    ['DIVE', 'mean map']
    """
    cohort = check_cohort(cohort)
    check_count("history_visits", history_visits)
    seed = check_seed(random_state).randint(2**31)
    if models is None:
        averaged = bool(getattr(preprocessing, "average_hemispheres", False))
        models = default_models(cohort, n_clusters, atlas, seed, averaged)
    models = _check_models(models)
    results = score_columns(cohort, scores)
    predicted = with_later_visits(cohort, history_visits)
    if results.empty and not len(predicted):
        raise ParameterError(
            f"nothing to compare: no scores are given, and no subject has more than "
            f"{history_visits} visits."
        )
    smallest = _SMALLEST_FOLD if len(results.columns) else 1
    folds = split_subjects(cohort, n_folds, seed, smallest)
    tasks = [
        (name, model, cohort, fold, number, results, history_visits, preprocessing)
        for number, fold in enumerate(folds)
        for name, model in models.items()
    ]
    results_of_tasks = run_tasks(
        _evaluate, tasks, n_jobs, progress, names=[task[0] for task in tasks]
    )
    frame = pd.DataFrame([row for rows, _ in results_of_tasks for row in rows])
    parcellations: dict[str, list[IntArray]] = {name: [] for name in models}
    for task, (_, labels) in zip(tasks, results_of_tasks, strict=True):
        if labels is not None:
            parcellations[task[0]].append(labels)
    _warn_of_undefined(frame)
    left_out = cohort.n_subjects - len(predicted)
    frame.attrs.update(
        n_folds=n_folds,
        history_visits=history_visits,
        n_without_later_visits=left_out,
        overlap={
            name: overlap_table(_in_common(found)).reset_index().to_dict("records")
            for name, found in parcellations.items()
            if len({len(labels) for labels in found}) == 1
        },
    )
    if left_out:
        warnings.warn(
            f"{left_out} of {cohort.n_subjects} subjects have at most {history_visits} visits: "
            "they are staged, but no scan of theirs can be predicted.",
            DataWarning,
            stacklevel=2,
        )
    return frame


def _warn_of_undefined(frame: pd.DataFrame) -> None:
    """Say which folds have no correlation, and why."""
    n_folds = frame["fold"].nunique()
    for measure, part in frame.groupby("measure", sort=False):
        undefined = part["value"].isna().groupby(part["model"], sort=False).sum()
        for count, models in undefined[undefined > 0].groupby(undefined).groups.items():
            warnings.warn(
                f"in {count} of {n_folds} folds, which are left out, {measure} has no correlation "
                f"with the stages of {', '.join(map(str, models))}: fewer than 3 test visits have "
                "a result, or all have the same result or the same stage.",
                DataWarning,
                stacklevel=3,
            )


def _in_common(parcellations: list[IntArray]) -> list[IntArray]:
    """Clusters at the vertices that no fold dropped."""
    common = np.all([labels >= 0 for labels in parcellations], axis=0)
    return [labels[common] for labels in parcellations]


def default_models(
    cohort: Cohort,
    n_clusters: int = 3,
    atlas: ArrayLike | None = None,
    seed: int = 0,
    averaged: bool = False,
) -> dict[str, Any]:
    """Models of the paper's comparison; the ROI-based one where there is an atlas.

    Where the hemispheres will be `averaged`, the atlas is one of the averaged vertices.

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.evaluation.comparison import default_models
    >>> cohort = bd.simulate_cohort(n_subjects=5, n_vertices=6, random_state=0).cohort
    >>> list(default_models(cohort))
    ['DIVE', 'no staging']
    """
    models: dict[str, Any] = {REFERENCE: DIVE(n_clusters, random_state=seed)}
    if atlas is not None:
        if not averaged:
            check_assignments(atlas, cohort)
        elif np.shape(atlas) != (len(fold_hemispheres(cohort.space)[1]),):
            raise ParameterError(
                f"the atlas has {np.size(atlas):,} vertices, but the averaged hemispheres have "
                f"{len(fold_hemispheres(cohort.space)[1]):,}."
            )
        models["ROI-based"] = roi_model(np.asarray(atlas), random_state=seed)
    models["no staging"] = no_staging_model(n_clusters=n_clusters, random_state=seed)
    return models


def score_columns(cohort: Cohort, scores: Sequence[str]) -> pd.DataFrame:
    """Cognitive scores as numbers, one row per visit; refuses columns that hold none."""
    if isinstance(scores, str):
        raise ParameterError(f"scores is one string; give a list, such as [{scores!r}].")
    table = cohort.table
    columns: dict[str, pd.Series] = {}
    for name in scores:
        column = table[find_column(table, name)].replace("n/a", np.nan)
        numbers = pd.to_numeric(column, errors="coerce").astype(float)
        text = column.notna() & numbers.isna()
        if text.any():
            row = int(np.flatnonzero(text)[0])
            raise ParameterError(
                f"column {name!r} holds {column.iloc[row]!r} for subject "
                f"{quoted(cohort.subjects[row])} at {cohort.times[row]:g}: {int(text.sum())} of "
                f"its {len(text)} values are not numbers; a score has to be a number, or empty."
            )
        if numbers.nunique() < 2:
            raise ParameterError(
                f"column {name!r} is {'constant' if numbers.notna().any() else 'empty'}: nothing "
                "can be correlated with it; leave it out."
            )
        columns[name] = numbers
    return pd.DataFrame(columns, index=table.index)


def _check_models(models: Mapping[str, Any]) -> dict[str, Any]:
    for name, model in models.items():
        absent = [part for part in ("fit", "stage", "predict") if not hasattr(model, part)]
        if absent:
            raise ParameterError(f"model {name!r} has no method {' or '.join(absent)}.")
        if getattr(model, "preprocessing", None) is not None:
            raise ParameterError(
                f"model {name!r} has a preprocessing of its own, so that its predictions are in "
                "another unit; give it as compare_models(..., preprocessing=...) instead."
            )
    checked = dict(models)
    if not any(isinstance(model, MeanMap) for model in checked.values()):
        checked[MEAN] = MeanMap()
    return checked


def _evaluate(
    name: str,
    model: Any,
    cohort: Cohort,
    test_subjects: Ids,
    fold: int,
    results: pd.DataFrame,
    history_visits: int,
    preprocessing: Any,
) -> tuple[list[dict[str, Any]], IntArray | None]:
    """Rows of the comparison for one model and fold, and the clusters if it found any.

    Clusters are -1 at vertices that the preprocessing dropped, so that folds can be compared.
    """
    fitted, rows, keep = evaluate_vertices(
        model, cohort, test_subjects, results, history_visits, preprocessing
    )
    found = getattr(fitted, "assignments", None) is None
    labels = getattr(fitted, "labels_", None) if found else None
    if labels is not None and keep is not None:
        everywhere = np.full(len(keep), -1)
        everywhere[keep] = labels
        labels = everywhere
    return [{"model": name, "fold": fold} | row for row in rows], labels
