"""How many clusters?"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone

from braindive.arrays import Array, IntArray
from braindive.checks import check_count, check_n_clusters, check_seed
from braindive.cohort.cohort import Cohort, check_cohort
from braindive.dive.progression import SIGNIFICANT
from braindive.errors import ParameterError, StagingWarning
from braindive.estimator import DIVE
from braindive.evaluation.folds import Ids, split_subjects
from braindive.evaluation.overlap import parcellation_agreement
from braindive.evaluation.parallel import Report, run_tasks
from braindive.evaluation.vertex_groups import Groups, count_groups

# Parcellations that agree less than this between halves of the subjects are not settled.
_STABLE = 0.6
# Below this they have nothing to do with each other: what one half shows, the other does not.
_UNRELATED = 0.15


class Recommendation(NamedTuple):
    """A number of clusters, or none, and why."""

    n_clusters: int | None
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
        always agrees with itself), whether all fits `converged`, and how well so many groups
        describe the vertices' own curves: `groups_gain`, twice the log-likelihood gained over the
        best smaller number less what its parameters cost, and `groups`, how many of them can be
        told apart. `progression_p`, the same in every row, is `DIVE.progression_p_` of the whole
        cohort. `recommend_n_clusters` makes a choice.

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
    seed = check_seed(random_state).randint(2**31)
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
        # Groups are looked for around the fit with the most clusters.
        most = number if number == numbers[-1] and number > 1 else 0
        tasks.append((candidate, cohort, [], False, most))
        tasks += [(candidate, cohort, fold, True) for fold in folds]
        tasks += [(candidate, cohort, half, False) for half in halves]
    names = [f"{number} clusters" for number in numbers for _ in range(per_candidate)]
    fits = run_tasks(fit_without, tasks, n_jobs, progress, names)
    rows = {}
    for place, number in enumerate(numbers):
        whole, *parts = fits[place * per_candidate : (place + 1) * per_candidate]
        rows[number] = candidate_row(whole, parts[: len(folds)], parts[len(folds) :])
    groups = fits[(len(numbers) - 1) * per_candidate].groups or {}
    for number in numbers if groups else ():
        rows[number] |= {"groups_gain": groups[number].gain, "groups": groups[number].distinct}
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

    None where the cohort holds no progression (`progression_p`): there are no curves for vertices
    to share. People may differ along a course on which they were not seen to move, though: areas
    that both halves of the subjects show are recommended all the same, and the reason says so. Else
    the number of groups that the vertices' own curves form, by the integrated likelihood of
    mixtures (`groups_gain`): the largest number for which there is positive evidence over the best
    smaller one, of which those count that can be told apart (`groups`). Where not all of them can,
    the evidence must be very strong. AIC, BIC and the held-out log-likelihood go on rewarding
    clusters as long as vertices of one cluster differ a little, as they do in every brain; this
    does not. Where the parcellations of two halves of the subjects have nothing to do with each
    other, it is 1: there are no areas to tell apart.
    A number that was not tried gives way to the largest smaller one that was, and 1 is always
    possible.
    Where the groups were not computed, it is the smallest number whose held-out log-likelihood is
    within one standard error of the best, folds compared in pairs; and where that is missing too,
    the one with the lowest BIC.

    Parameters
    ----------
    table : DataFrame
        Of `select_n_clusters`.

    Returns
    -------
    Recommendation
        `n_clusters`, or None, and the `reason`, in words.

    Examples
    --------
    >>> import pandas as pd, braindive as bd
    >>> table = pd.DataFrame({"bic": [3.0, 1.0]}, index=[2, 3])
    >>> bd.recommend_n_clusters(table)
    Recommendation(n_clusters=3, reason='3 clusters have the lowest BIC.')
    """
    numbers = [int(number) for number in table.index]
    if "progression_p" in table and float(table["progression_p"].iloc[0]) > SIGNIFICANT:
        return _without_progression(table)
    rands = table["rand"].to_numpy(float) if "rand" in table else np.full(len(table), np.nan)
    if np.isfinite(rands).any() and np.nanmax(rands) < _UNRELATED:
        chosen, reason = (
            1,
            "1 cluster: no parcellation of one half of the subjects is found in the other "
            f"(adjusted Rand at most {np.nanmax(rands):.2f}), so there are no areas to tell apart",
        )
    elif "groups" in table:
        chosen, reason = _by_groups(table, numbers, rands)
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


def _without_progression(table: pd.DataFrame) -> Recommendation:
    """Choose where nobody was seen to move: areas may be there all the same."""
    told = (
        "no progression was found, because people change over time no more alike than noise does "
        f"(p = {float(table['progression_p'].iloc[0]):.2g})"
    )
    if_any = recommend_n_clusters(table.drop(columns="progression_p"))
    if "groups" not in table or if_any.n_clusters is None or if_any.n_clusters == 1:
        return Recommendation(None, f"None: {told}.")
    # People may differ along a course on which they were not seen to move. Areas that other people
    # show too are no noise.
    if "rand" in table and table["rand"].max() >= _STABLE:
        reason = f"{if_any.reason} But {told}: these are areas in which people differ."
        return Recommendation(if_any.n_clusters, reason)
    reason = f"{if_any.reason[0].lower()}{if_any.reason[1:]}"
    return Recommendation(None, f"None: {told}. If there is one all the same: {reason}")


def _by_groups(table: pd.DataFrame, numbers: list[int], rands: Array) -> tuple[int, str]:
    """Choose by the groups that the vertices' own curves form."""
    groups = 1
    for number, gain, distinct in zip(numbers, table["groups_gain"], table["groups"], strict=True):
        if Groups(gain, distinct).are_believed(number):
            groups = int(distinct)
    if groups == 1:
        return 1, (
            "1 cluster: the vertices' own curves form one group, so there are no areas to tell "
            "apart"
        )
    chosen = max([number for number in numbers if number <= groups], default=numbers[0])
    reason = f"the vertices' own curves form {groups} groups"
    if chosen != groups:
        reason += f", and {chosen} is the nearest number that was tried"
    rand = rands[numbers.index(chosen)]
    if np.isfinite(rand):
        reason += (
            f"; with {chosen} clusters, halves of the subjects agree with an adjusted Rand of "
            f"{rand:.2f}"
        )
        if rand < _STABLE:
            reason += ", which is little: the data do not settle where they are"
    if groups >= max(numbers) and len(numbers) > 1:
        reason += ". It is the largest number that was tried: try more"
    return chosen, reason


class CandidateFit(NamedTuple):
    """What is kept of one fit."""

    n_clusters: int
    labels: IntArray
    log_likelihood: float
    aic: float
    bic: float
    converged: bool
    held_out: float
    groups: dict[int, Groups] | None = None
    progression_p: float | None = None


def fit_without(
    model: DIVE, cohort: Cohort, subjects: Ids | list[Any], judge: bool, most: int = 0
) -> CandidateFit:
    """Fit without some subjects and, if asked, judge the fit on them, and groups of vertices.

    Parameters
    ----------
    model : DIVE
        Its settings are used.
    cohort : Cohort
        All subjects.
    subjects : list
        Whom to leave out.
    judge : bool
        Whether to judge the fit on them.
    most : int
        Largest number of groups to look for among the vertices' own curves; 0 for none.
    """
    out = set(subjects)
    left_out = np.array([subject in out for subject in cohort.subjects])
    with warnings.catch_warnings():
        # Nobody sees the scores and speeds of these fits.
        warnings.simplefilter("ignore", StagingWarning)
        inside = cohort.select(visits=~left_out)
        fitted = clone(model).set_params(personal=False).fit(inside)
    held_out = np.nan
    if judge:
        # A site of few people may be left out as a whole, and nothing is known of it then.
        held_out = fitted.score(cohort.select(visits=left_out & fitted.knows_sites(cohort)))
    return CandidateFit(
        model.n_clusters,
        fitted.labels_,
        fitted.log_likelihood_,
        fitted.aic_,
        fitted.bic_,
        fitted.converged_,
        held_out,
        count_groups(fitted, inside, most) if most else None,
        fitted.progression_p_,
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
    if whole.progression_p is not None:
        row["progression_p"] = whole.progression_p
    return row


def _check_candidates(candidates: Iterable[int], cohort: Cohort) -> list[int]:
    numbers = sorted({check_count("each candidate", number) for number in candidates})
    if not numbers:
        raise ParameterError("candidates is empty; give numbers of clusters, such as [2, 3, 4].")
    check_n_clusters(numbers[-1], cohort)
    return numbers
