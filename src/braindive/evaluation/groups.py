"""Do groups differ in when, how fast and how far they progress?"""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import stats

from braindive.arrays import Array
from braindive.cohort import Cohort
from braindive.cohort.table_columns import find_column
from braindive.errors import DataWarning, NotFittedError, ParameterError
from braindive.evaluation.group_effects import group_differences

PARAMETERS = ("shift", "speed", "baseline score")
# Numbers with more distinct values than this are a quantity, not names of groups.
_MOST_GROUPS = 5


def compare_groups(
    model: Any,
    by: str | pd.Series,
    cohort: Cohort | None = None,
    *,
    kind: Literal["auto", "groups", "continuous"] = "auto",
    test: Literal["model", "stages"] = "model",
) -> pd.DataFrame:
    """Compare the subjects' shifts, speeds and baseline scores between groups.

    Groups are compared inside the marginal model: it is fitted again from where it is, with the
    groups as covariates of shift and speed, and the test is whether the means of the population
    differ. Estimated stages of single people are shrunk towards the mean, speeds most of all, and
    so are differences between groups of them. Tests of these are there with `test="stages"`, and
    are all there is with `people="alike"`: Mann-Whitney and Welch's t-test of two groups,
    Kruskal-Wallis and one-way analysis of variance of more, Spearman and Pearson correlation with a
    quantity. P-values are also given corrected for the number of parameters by Holm's method.

    A shift is the score at time zero. With years since the first visit as time that is the baseline
    score, and the two are one test, which is corrected for once. With ages it is the score
    extrapolated to birth, which mostly reflects speed and age: then look at the baseline score.

    Parameters
    ----------
    model : fitted DIVE
        With staging.
    by : str or Series
        Column of the training cohort's table (of `cohort`, if given), one value per subject: the
        first that is not missing. Or a Series indexed by subject.
    cohort : Cohort, optional
        Other subjects, staged by the model; by default those it was fitted on.
    kind : {"auto", "groups", "continuous"}
        Whether `by` names groups or is a quantity; by default numbers with more than five
        different values are a quantity.
    test : {"model", "stages"}
        Whether to test inside the model, or the estimated stages after the fit.

    Returns
    -------
    DataFrame
        One row for each parameter. `n_...`, `mean_...` and `sd_...` of the estimated stages of each
        group; `test`, `statistic`, `p_value` and `p_corrected` of the test; `estimate` with its
        error `se` and 95 % interval `low` to `high`: the last group against the first, or the
        change for one more of a quantity, of shifts and scores as a difference and of speeds as a
        ratio. Of more than two groups these are there for each group but the first
        (`estimate_...`). `rank_effect` (rank-biserial correlation, epsilon squared or rho),
        `mean_test`, `mean_statistic`, `mean_p_value`, `mean_p_corrected` and `effect_size` (Cohen's
        d, eta squared or r) are of the estimated stages, and so are all tests with
        `test="stages"`, which gives no estimates. Positive effects mean higher values in the last
        group. `attrs["excluded"]` counts subjects that were left out, by reason,
        `attrs["continuous"]` says whether it was a quantity, `attrs["groups"]` has the names of the
        groups in order, and `attrs["shift_is_baseline"]` says whether shift and baseline score are
        the same.

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(
    ...     n_subjects=80, n_vertices=60, group_effect=1.5, random_state=0
    ... ).cohort
    >>> model = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(cohort)
    >>> bool(bd.compare_groups(model, by="apoe4").loc["shift", "p_value"] < 0.01)
    True
    """
    if test not in ("model", "stages"):
        raise ParameterError(f'test must be "model" or "stages"; got {test!r}.')
    parameters = subject_parameters(model, cohort)
    column, changing = _subject_values(model, by, cohort)
    values = column.reindex(parameters.index)
    excluded: dict[str, int] = {}
    absent = int(values.isna().sum())
    if absent:
        excluded["without a value"] = absent
    values = values.dropna()
    if len(values) == 0:
        raise ParameterError(f"{column.name!r} has no value for any subject of the model.")
    continuous = _is_continuous(values) if kind == "auto" else kind == "continuous"
    if not continuous:
        values, alone = _without_tiny_groups(values)
        excluded |= alone
    frame = parameters.loc[values.index]
    if continuous:
        numbers = pd.to_numeric(values)
        if numbers.nunique() < 2 or len(numbers) < 3:
            raise ParameterError(
                f"{column.name!r} has {numbers.nunique()} value(s) in {len(numbers)} subjects: "
                "nothing can be correlated with it."
            )
        rows = [_correlate(frame[name].to_numpy(), numbers.to_numpy(float)) for name in PARAMETERS]
    else:
        rows = [_compare(frame[name], values) for name in PARAMETERS]
    if test == "model" and model.people == "differ":
        inside = group_differences(model, numbers if continuous else values, continuous, cohort)
        rows = [_with_test(row, found) for row, found in zip(rows, inside, strict=True)]
    table = pd.DataFrame(rows, index=pd.Index(PARAMETERS, name="parameter"))
    # With times that begin at 0 the shift is the baseline score: one test, not two.
    repeats = np.allclose(frame["shift"], frame["baseline score"])
    for p_value, corrected in (("p_value", "p_corrected"), ("mean_p_value", "mean_p_corrected")):
        raised = holm(table[p_value].drop("shift") if repeats else table[p_value])
        if repeats:
            raised["shift"] = raised["baseline score"]
        table.insert(list(table.columns).index(p_value) + 1, corrected, raised.loc[table.index])
    if changing:
        warnings.warn(
            f"{column.name!r} changes between visits of {changing} subjects; their first is used.",
            DataWarning,
            stacklevel=2,
        )
    if excluded:
        listed = ", ".join(f"{count} {reason}" for reason, count in excluded.items())
        warnings.warn(f"subjects left out: {listed}.", DataWarning, stacklevel=2)
    names = [] if continuous else [str(name) for name in _in_order(values)]
    table.attrs.update(
        by=str(column.name),
        excluded=excluded,
        continuous=continuous,
        groups=names,
        shift_is_baseline=bool(repeats),
    )
    return table


def _with_test(row: dict[Hashable, Any], found: dict[str, Any]) -> dict[Hashable, Any]:
    """Replace the rank test of a row by that of the model, with its estimates."""
    tested = {name: found.pop(name) for name in ("test", "statistic", "p_value")}
    merged: dict[Hashable, Any] = {}
    for name, value in row.items():
        merged[name] = tested.get(str(name), value)
        if name == "p_value":
            merged.update(found)
    return merged


def subject_parameters(model: Any, cohort: Cohort | None = None) -> pd.DataFrame:
    """Shift, speed and baseline score of each subject, indexed by subject."""
    if not hasattr(model, "shifts_"):
        raise NotFittedError("compare_groups needs a fitted model; call fit(cohort) first.")
    if not model.staging:
        raise ParameterError("a model without staging gives every subject the same parameters.")
    if cohort is None:
        visits = model.visits_.assign(score=model.scores_).sort_values("time", kind="stable")
        first = visits.drop_duplicates("subject").set_index("subject")["score"]
        index = model.subjects_
        found: tuple[Array, ...] = (model.shifts_, model.speeds_, first.loc[index].to_numpy())
    else:
        stages = model.stage(cohort)
        found = tuple(stages[name].to_numpy() for name in ("shift", "speed", "score"))
        index = stages.index
    return pd.DataFrame(
        dict(zip(PARAMETERS, found, strict=True)), index=pd.Index(index, name="subject")
    )


def holm(p_values: pd.Series) -> pd.Series:
    """Holm's correction: valid whatever the dependence between the tests.

    Examples
    --------
    >>> import pandas as pd
    >>> from braindive.evaluation.groups import holm
    >>> holm(pd.Series([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    ordered = p_values.sort_values()
    factors = np.arange(len(ordered), 0, -1)
    raised = np.minimum(np.maximum.accumulate(ordered.to_numpy() * factors), 1.0)
    return pd.Series(raised, index=ordered.index).loc[p_values.index]


def _subject_values(
    model: Any, by: str | pd.Series, cohort: Cohort | None
) -> tuple[pd.Series, int]:
    """One value for each subject, and how many subjects have different ones at their visits."""
    if isinstance(by, pd.Series):
        if by.index.has_duplicates:
            raise ParameterError("by has several rows for a subject; give one.")
        known = set(model.subjects_ if cohort is None else cohort.subject_ids)
        if not known & set(by.index):
            raise ParameterError(
                "by must be indexed by subject, and none of its index is a subject of the model, "
                f"such as {next(iter(known))!r}."
            )
        return by.rename(str(by.name or "by")).replace("n/a", np.nan), 0
    if cohort is not None:
        table, subjects = cohort.table, cohort.subjects
    else:
        table, subjects = model.visits_, model.visits_["subject"]
    visits = table[find_column(table, by)].replace("n/a", np.nan)
    groups = visits.groupby(np.asarray(subjects, dtype=object), sort=False)
    return groups.first(), int(groups.nunique().gt(1).sum())


def _is_continuous(values: pd.Series) -> bool:
    number = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    return number and values.nunique() > _MOST_GROUPS


def _without_tiny_groups(values: pd.Series) -> tuple[pd.Series, dict[str, int]]:
    counts = values.value_counts()
    if len(counts) < 2:
        raise ParameterError(
            f"all {len(values)} subjects have {values.name!r} = {values.iloc[0]!r}; two groups are "
            "needed to compare."
        )
    alone = counts[counts < 2].index
    kept = values[~values.isin(alone)]
    if kept.nunique() < 2:
        listed = ", ".join(f"{name!r}: {count}" for name, count in counts.head(8).items())
        raise ParameterError(
            f"{values.name!r} has fewer than two groups of at least two subjects ({listed}); "
            "merge groups, or give a quantity with kind='continuous'."
        )
    return kept, {f"alone in group {name!r}": 1 for name in alone}


def _in_order(groups: pd.Series) -> list[Any]:
    return sorted(groups.unique(), key=lambda name: (str(type(name)), name))


def _compare(values: pd.Series, groups: pd.Series) -> dict[Hashable, Any]:
    names = _in_order(groups)
    parts = [values[groups == name].to_numpy() for name in names]
    row: dict[Hashable, Any] = {"n": len(values)}
    for name, part in zip(names, parts, strict=True):
        row |= {f"n_{name}": len(part), f"mean_{name}": part.mean(), f"sd_{name}": part.std(ddof=1)}
    if len(parts) == 2:
        first, last = parts
        rank = stats.mannwhitneyu(last, first, alternative="two-sided")
        mean = stats.ttest_ind(last, first, equal_var=False)
        freedom = len(values) - 2
        pooled = sum((len(part) - 1) * part.var(ddof=1) for part in parts) / freedom
        tests = ("Mann-Whitney", "Welch t")
        rank_effect = 2 * rank.statistic / (len(first) * len(last)) - 1
        effect = (last.mean() - first.mean()) / np.sqrt(pooled)
    else:
        rank, mean = stats.kruskal(*parts), stats.f_oneway(*parts)
        between = sum(len(part) * (part.mean() - values.mean()) ** 2 for part in parts)
        tests = ("Kruskal-Wallis", "ANOVA")
        rank_effect = rank.statistic / (len(values) - 1)
        effect = between / np.sum((values - values.mean()) ** 2)
    return row | _tests(tests, rank, mean, rank_effect, effect)


def _correlate(values: Array, quantity: Array) -> dict[Hashable, Any]:
    rank, mean = stats.spearmanr(quantity, values), stats.pearsonr(quantity, values)
    effects = float(rank.statistic), float(mean.statistic)
    return {"n": len(values)} | _tests(("Spearman", "Pearson"), rank, mean, *effects)


def _tests(
    names: tuple[str, str], rank: Any, mean: Any, rank_effect: float, effect: float
) -> dict[Hashable, Any]:
    return {
        "test": names[0],
        "statistic": float(rank.statistic),
        "p_value": float(rank.pvalue),
        "rank_effect": float(rank_effect),
        "mean_test": names[1],
        "mean_statistic": float(mean.statistic),
        "mean_p_value": float(mean.pvalue),
        "effect_size": float(effect),
    }
