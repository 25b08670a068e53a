"""How many clusters?"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils import check_random_state

from braindive.arrays import IntArray
from braindive.checks import check_count, check_n_clusters
from braindive.cohort.cohort import Cohort, check_cohort
from braindive.errors import ParameterError, StagingWarning
from braindive.estimator import DIVE
from braindive.evaluation.folds import Ids, split_subjects
from braindive.evaluation.overlap import parcellation_agreement
from braindive.evaluation.parallel import Report, run_tasks

# Parcellations that agree less than this between halves of the subjects are not settled.
_STABLE = 0.6
# Below this they have nothing to do with each other: what one half shows, the other does not.
_UNRELATED = 0.15


class Recommendation(NamedTuple):
    """A number of clusters and why."""

    n_clusters: int
    reason: str


def select_n_clusters(
    cohort: Cohort,
    candidates: Iterable[int],
    *,
    model: DIVE | None = None,
    n_splits: int = 5,
    n_resamples: int = 3,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    progress: Report | None = None,
) -> pd.DataFrame:
    """Judge numbers of clusters by likelihood, by unseen subjects and by stability.

    Parameters
    ----------
    cohort : Cohort
        Measurements.
    candidates : iterable of int
        Numbers of clusters to try.
    model : DIVE, optional
        Its other settings are used.
    n_splits : int
        Folds of subjects for the held-out log-likelihood; 0 leaves it out.
    n_resamples : int
        Times the subjects are split into two random halves, each of which is fitted: how well
        the two parcellations agree is the stability. 0 leaves it out.
    n_jobs : int, optional
        Workers.
    random_state : int, RandomState or None
        Seed of splits, and of the fits unless `model` is given.
    progress : callable, optional
        Called with the number of finished fits and of all.

    Returns
    -------
    DataFrame
        One row for each number of clusters (the index): `aic`, `bic`, `log_likelihood`,
        `held_out` (mean log-likelihood of one measurement of unseen subjects) with its standard
        error `held_out_se`, that of its difference to the best, `held_out_gap_se`, `rand`
        (adjusted Rand index) and `dice` between halves, `rand_se` (NaN for one cluster, which
        always agrees with itself), and whether all fits `converged`. `recommend_n_clusters` makes
        a choice.

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(
    ...     n_subjects=40, n_vertices=80, noise=0.3, control_share=0.3, random_state=0
    ... ).cohort
    >>> model = bd.DIVE(n_init=1, tol=1e-3, random_state=0)
    >>> table = bd.select_n_clusters(cohort, [2, 3], model=model, n_splits=2, n_resamples=1)
    >>> table.index.tolist()
    [2, 3]
    """
    cohort = check_cohort(cohort)
    numbers = _check_candidates(candidates, cohort)
    seed = check_random_state(random_state).randint(2**31)
    base = DIVE(random_state=seed) if model is None else model
    if base.assignments is not None:
        raise ParameterError("a model with fixed assignments has no number of clusters to choose.")
    if base.start is not None:
        raise ParameterError("a model with a start has its number of clusters; leave start out.")
    folds = split_subjects(cohort, n_splits, seed) if n_splits else []
    halves: list[Ids] = []
    for repeat in range(n_resamples):
        halves += split_subjects(cohort, 2, seed + 1 + repeat)
    per_candidate = 1 + len(folds) + len(halves)
    tasks: list[tuple[Any, ...]] = []
    for number in numbers:
        candidate = clone(base).set_params(n_clusters=number)
        tasks.append((candidate, cohort, [], False))
        tasks += [(candidate, cohort, fold, True) for fold in folds]
        tasks += [(candidate, cohort, half, False) for half in halves]
    names = [f"{number} clusters" for number in numbers for _ in range(per_candidate)]
    fits = run_tasks(fit_without, tasks, n_jobs, progress, names)
    rows = {}
    for place, number in enumerate(numbers):
        whole, *parts = fits[place * per_candidate : (place + 1) * per_candidate]
        rows[number] = candidate_row(whole, parts[: len(folds)], parts[len(folds) :])
    return selection_table(rows)


def selection_table(rows: Mapping[int, Mapping[str, Any]]) -> pd.DataFrame:
    """Table of `select_n_clusters` from the rows of its numbers of clusters."""
    numbers = pd.Index(sorted(rows), name="n_clusters")
    table = pd.DataFrame([rows[number] for number in numbers], index=numbers)
    if "held_out" in table:
        held_out = np.array(table.pop("held_out_folds").tolist())
        gaps = held_out[held_out.mean(axis=1).argmax()] - held_out
        gap_se = gaps.std(axis=1, ddof=1) / np.sqrt(held_out.shape[1])
        table.insert(list(table.columns).index("held_out_se") + 1, "held_out_gap_se", gap_se)
    return table


def recommend_n_clusters(table: pd.DataFrame) -> Recommendation:
    """Recommend a number of clusters from the table of `select_n_clusters`.

    The largest number whose parcellations agree between halves of the subjects as well as those of
    the most stable number do, within its standard error or 0.02. AIC, BIC and the held-out
    log-likelihood go on rewarding clusters as long as vertices of one cluster differ a little, as
    they do in every brain; stability does not, and errs towards few clusters where neighbouring
    ones overlap.
    Where it was not computed, it is the smallest number whose held-out log-likelihood is within
    one standard error of the best, folds compared in pairs; and where that is missing too, the one
    with the lowest BIC. A single cluster always agrees with itself, so it is recommended only
    where it has the lowest BIC.

    Parameters
    ----------
    table : DataFrame
        Of `select_n_clusters`.

    Returns
    -------
    Recommendation
        `n_clusters` and the `reason`, in words.

    Examples
    --------
    >>> import pandas as pd, braindive as bd
    >>> table = pd.DataFrame({"bic": [3.0, 1.0]}, index=[2, 3])
    >>> bd.recommend_n_clusters(table)
    Recommendation(n_clusters=3, reason='3 clusters have the lowest BIC.')
    """
    numbers = [int(number) for number in table.index]
    if "bic" in table and table["bic"].idxmin() == 1 and len(numbers) > 1:
        chosen = 1
        reason = "1 cluster has the lowest BIC: nothing says that vertices differ in their course"
    elif "rand" in table and table["rand"].notna().any():
        rands = table["rand"].to_numpy(float)
        best = int(np.nanargmax(rands))
        slack = max(float(np.nan_to_num(table["rand_se"].to_numpy(float)[best])), _EQUAL)
        position = int(np.flatnonzero(rands >= rands[best] - slack).max())
        stable, chosen, rand = numbers[best], numbers[position], rands[position]
        agree = "agree best" if chosen == stable else f"agree as well as those of {stable}"
        reason = (
            f"the parcellations with {chosen} clusters {agree} between halves of the subjects "
            f"(adjusted Rand {rand:.2f})"
        )
        if rand < _STABLE:
            reason += ", but poorly: the data do not settle a parcellation"
        if "bic" in table and table["bic"].idxmin() != chosen:
            reason += f"; BIC prefers {table['bic'].idxmin()}"
    elif "held_out" in table:
        held_out = table["held_out"].to_numpy(float)
        close = held_out.max() - held_out <= table["held_out_gap_se"].to_numpy(float)
        top, chosen = numbers[int(held_out.argmax())], numbers[int(np.flatnonzero(close).min())]
        reason = f"{chosen} clusters predict unseen subjects best"
        if chosen != top:
            reason = (
                f"{chosen} clusters are the fewest that predict unseen subjects within one "
                f"standard error of the best, {top}"
            )
    else:
        chosen = numbers[int(table["bic"].to_numpy(float).argmin())]
        reason = f"{chosen} clusters have the lowest BIC"
    return Recommendation(chosen, f"{reason[0].upper()}{reason[1:]}.")


class CandidateFit(NamedTuple):
    """What is kept of one fit."""

    n_clusters: int
    labels: IntArray
    log_likelihood: float
    aic: float
    bic: float
    converged: bool
    held_out: float


def fit_without(
    model: DIVE, cohort: Cohort, subjects: Ids | list[Any], judge: bool
) -> CandidateFit:
    """Fit without some subjects and, if asked, judge the fit on them."""
    out = set(subjects)
    left_out = np.array([subject in out for subject in cohort.subjects])
    with warnings.catch_warnings():
        # Nobody sees the scores and speeds of these fits.
        warnings.simplefilter("ignore", StagingWarning)
        fitted = clone(model).set_params(personal=False).fit(cohort.select(visits=~left_out))
    held_out = fitted.score(cohort.select(visits=left_out)) if judge else np.nan
    return CandidateFit(
        model.n_clusters,
        fitted.labels_,
        fitted.log_likelihood_,
        fitted.aic_,
        fitted.bic_,
        fitted.converged_,
        held_out,
    )


def candidate_row(
    whole: CandidateFit, folds: list[CandidateFit], halves: list[CandidateFit]
) -> dict[str, Any]:
    """A row of the table; the halves come in pairs."""
    row: dict[str, Any] = {
        "aic": whole.aic,
        "bic": whole.bic,
        "log_likelihood": whole.log_likelihood,
    }
    if folds:
        held_out = np.array([fit.held_out for fit in folds])
        row["held_out"] = float(held_out.mean())
        row["held_out_se"] = float(held_out.std(ddof=1) / np.sqrt(len(folds)))
        row["held_out_folds"] = held_out.tolist()
    if halves:
        row |= {"rand": np.nan, "dice": np.nan, "rand_se": np.nan}
    if halves and whole.n_clusters > 1:
        pairs = zip(halves[::2], halves[1::2], strict=True)
        agreement = np.array([parcellation_agreement(a.labels, b.labels) for a, b in pairs])
        row["rand"], row["dice"] = agreement.mean(axis=0).tolist()
        n_pairs = len(agreement)
        if n_pairs > 1:
            row["rand_se"] = float(agreement[:, 0].std(ddof=1) / np.sqrt(n_pairs))
    row["converged"] = all(fit.converged for fit in (whole, *folds, *halves))
    return row


def _check_candidates(candidates: Iterable[int], cohort: Cohort) -> list[int]:
    numbers = sorted({check_count("each candidate", number) for number in candidates})
    if not numbers:
        raise ParameterError("candidates is empty; give numbers of clusters, such as [2, 3, 4].")
    check_n_clusters(numbers[-1], cohort)
    return numbers
