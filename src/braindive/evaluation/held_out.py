"""One model on subjects it has not seen: stages against cognition, predictions against scans."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone

from braindive.arrays import Array, BoolArray
from braindive.cohort.cohort import Cohort
from braindive.errors import CohortError
from braindive.estimator import DIVE
from braindive.evaluation.folds import Ids
from braindive.evaluation.summary import RMSE


def evaluate_fold(
    model: Any,
    cohort: Cohort,
    test_subjects: Ids,
    results: pd.DataFrame,
    history_visits: int = 2,
    preprocessing: Any = None,
) -> tuple[Any, list[dict[str, Any]]]:
    """Fit a model without some subjects and judge it on them.

    Parameters
    ----------
    model : model
        It is copied, not changed.
    cohort : Cohort
        Everybody.
    test_subjects : ids
        Whom to leave out and judge on.
    results : DataFrame
        Cognitive scores of each visit, from `comparison.score_columns`.
    history_visits : int
        Visits from which later ones are predicted.
    preprocessing : Preprocessing, optional
        It is copied, and fitted on the training subjects.

    Returns
    -------
    model
        Fitted on the other subjects.
    list of dict
        `measure`, `value` and `n` of each measure.

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.evaluation.comparison import score_columns
    >>> from braindive.evaluation.held_out import evaluate_fold
    >>> cohort = bd.simulate_cohort(
    ...     n_subjects=12, n_vertices=30, cognition=True, random_state=0
    ... ).cohort
    >>> results = score_columns(cohort, ["MMSE"])
    >>> _, rows = evaluate_fold(bd.MeanMap(), cohort, cohort.subject_ids[:6], results)
    >>> [row["measure"] for row in rows]
    ['MMSE', 'RMSE']
    """
    fitted, rows, _ = evaluate_vertices(
        model, cohort, test_subjects, results, history_visits, preprocessing
    )
    return fitted, rows


def evaluate_vertices(
    model: Any,
    cohort: Cohort,
    test_subjects: Any,
    results: pd.DataFrame,
    history_visits: int = 2,
    preprocessing: Any = None,
) -> tuple[Any, list[dict[str, Any]], BoolArray | None]:
    """Do the same as `evaluate_fold`, and give the vertices that the preprocessing kept."""
    chosen = set(test_subjects)
    in_test = np.array([subject in chosen for subject in cohort.subjects])
    train, test = cohort.select(visits=~in_test), cohort.select(visits=in_test)
    model = _fresh(model)
    if isinstance(model, DIVE):
        # Later scans are predicted with the trajectories alone, as in the paper: what only personal
        # predictions need would be learnt for nothing.
        model.set_params(personal=False)
    if preprocessing is not None:
        preprocessing = _fresh(preprocessing).fit(train)
        train, test = preprocessing.transform(train), preprocessing.transform(test)
        _drop_vertices(model, preprocessing)
    model.fit(train)

    rows: list[dict[str, Any]] = []
    if len(results.columns):
        train_stages, test_stages = visit_stages(model, train), visit_stages(model, test)
        rows += [
            {"measure": measure}
            | correlations(train_stages, test_stages, results[measure].to_numpy(float), in_test)
            for measure in results.columns
        ]
    predicted = with_later_visits(test, history_visits)
    if len(predicted):
        test = test.select(subjects=list(predicted))
        later = test.later_visits(history_visits)
        value = prediction_error(model, later, test.first_visits(history_visits))
        rows.append({"measure": RMSE, "value": value, "n": later.n_visits})
    return model, rows, getattr(preprocessing, "keep_", None)


def _fresh(estimator: Any) -> Any:
    """An unfitted copy."""
    return clone(estimator) if hasattr(estimator, "get_params") else copy.deepcopy(estimator)


def _drop_vertices(model: Any, preprocessing: Any) -> None:
    """Leave out of an atlas, fixed or to start from, the vertices that were dropped."""
    keep = getattr(preprocessing, "keep_", None)
    for name in ("assignments", "start"):
        labels: Any = getattr(model, name, None)
        if keep is not None and np.shape(labels) == np.shape(keep):
            model.set_params(**{name: np.asarray(labels)[keep]})


def visit_stages(model: Any, cohort: Cohort) -> Array:
    """Disease progression score of every visit, (n_visits,)."""
    if hasattr(model, "stage_visits"):
        return np.asarray(model.stage_visits(cohort))
    rows = model.stage(cohort).loc[cohort.subjects]
    if {"speed", "shift"} <= set(rows.columns):
        return np.asarray(rows["speed"].to_numpy() * cohort.times + rows["shift"].to_numpy())
    return np.asarray(rows["score"].to_numpy(dtype=float))


def correlations(
    train_stages: Array, test_stages: Array, results: Array, in_test: BoolArray
) -> dict[str, float]:
    """Correlations of the test visits, with the sign that the training visits have.

    Parameters
    ----------
    train_stages, test_stages : arrays
        Scores of the visits of training and test.
    results : (n_visits,)
        A cognitive score.
    in_test : (n_visits,) bool
        Which visits are of the test.

    Returns
    -------
    dict
        Spearman's as `value`, Pearson's as `pearson`, and the number `n` of visits.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.evaluation.held_out import correlations
    >>> falling = np.array([3.0, 2.0, 1.0, 3.0, 2.0, 1.0])
    >>> found = correlations(np.arange(3.0), np.arange(3.0), falling, np.arange(6) > 2)
    >>> {name: round(x, 6) for name, x in found.items()}
    {'value': 1.0, 'pearson': 1.0, 'n': 3}
    """
    train, test = results[~in_test], results[in_test]
    found: dict[str, float] = {}
    for name, correlate in (("value", stats.spearmanr), ("pearson", stats.pearsonr)):
        sign = np.sign(np.nan_to_num(_correlation(correlate, train_stages, train)))
        found[name] = float((sign or 1.0) * _correlation(correlate, test_stages, test))
    found["n"] = int(np.sum(np.isfinite(test) & np.isfinite(test_stages)))
    return found


def _correlation(correlate: Callable[..., Any], stages: Array, results: Array) -> float:
    """Correlation over pairs without holes; NaN where one side does not vary."""
    both = np.isfinite(stages) & np.isfinite(results)
    x, y = stages[both], results[both]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    return float(correlate(x, y).statistic)


def prediction_error(model: Any, later: Cohort, history: Cohort) -> float:
    """Root mean squared error of predicted scans over all that was measured."""
    options = inspect.signature(model.predict).parameters
    # The paper predicts with the trajectories alone.
    plain = {"personal": False} if "personal" in options else {}
    predicted = np.asarray(model.predict(later, history=history, **plain))
    if predicted.shape != (later.n_visits, later.n_vertices):
        raise CohortError(
            f"{type(model).__name__}.predict gave shape {predicted.shape} for "
            f"{later.n_visits} visits and {later.n_vertices} vertices."
        )
    squares = np.square(later.values - predicted, dtype=np.float64)
    return float(np.sqrt(np.nanmean(squares)))


def with_later_visits(cohort: Cohort, history_visits: int) -> Ids:
    """Subjects with more visits than those from which is predicted."""
    counts = np.bincount(cohort.subject_index, minlength=cohort.n_subjects)
    return cohort.subject_ids[counts > history_visits]
