"""Differences between groups of people in plain sentences, and as a short table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from braindive.effects import ahead_in_words, faster_in_words, p_in_words

# What people read for the parameters, and for numbers of a group.
_SHOWN = {
    "shift": "Score at time 0 of the table",
    "speed": "Speed",
    "baseline score": "Score at the first visit",
}


def groups_in_words(table: pd.DataFrame, in_years: bool = True) -> list[str]:
    """Say how groups differ, one sentence for each parameter.

    Parameters
    ----------
    table : DataFrame
        Of `compare_groups`.
    in_years : bool
        Whether the score's unit is a year.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.evaluation.group_words import groups_in_words
    >>> cohort = bd.simulate_cohort(
    ...     n_subjects=80, n_vertices=60, group_effect=1.5, random_state=0
    ... ).cohort
    >>> model = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(cohort)
    >>> sentences = groups_in_words(bd.compare_groups(model, by="apoe4"))
    >>> [sentence.split(":")[0] for sentence in sentences]
    ['Score at the first visit, apoe4 1 against 0', 'Speed, apoe4 1 against 0']
    """
    rows = _without_repeats(table).to_dict("index")
    return [_sentence(str(name), row, table.attrs, in_years) for name, row in rows.items()]


def short_table(table: pd.DataFrame, in_years: bool = True) -> pd.DataFrame:
    """What there is to see at a glance: sizes, means and tests, as text with units.

    Parameters
    ----------
    table : DataFrame
        Of `compare_groups`.
    in_years : bool
        Whether the score's unit is a year.

    Returns
    -------
    DataFrame
        One column for each parameter.
    """
    shown: dict[str, dict[str, str]] = {}
    for name, row in _without_repeats(table).to_dict("index").items():
        unit = "score per year" if name == "speed" else "years" if in_years else "score"
        column = {"unit": unit}
        for group in table.attrs["groups"]:
            mean, sd = row[f"mean_{group}"], row[f"sd_{group}"]
            label = f"{table.attrs['by']} {group}: mean ± sd (people)"
            column[label] = f"{mean:.3g} ± {sd:.2g} ({row[f'n_{group}']})"
        column["test"] = str(row["test"])
        for label in ("p_value", "p_corrected"):
            column[label] = _p(row[label])
        shown[_SHOWN[str(name)]] = column
    return pd.DataFrame(shown)


def _without_repeats(table: pd.DataFrame) -> pd.DataFrame:
    """The table without the shift where it is the score at the first visit, that one first."""
    rest = ["speed"] if table.attrs["shift_is_baseline"] else ["shift", "speed"]
    return table.loc[["baseline score", *rest]]


def _sentence(name: str, row: dict[Any, Any], attrs: dict[Any, Any], in_years: bool) -> str:
    by, groups = attrs["by"], attrs["groups"]
    corrected = "" if np.isnan(row["p_corrected"]) else f"; corrected, {_p(row['p_corrected'])}"

    def difference(suffix: str = "", p_value: float | None = None) -> str:
        found = {part: row[f"{part}{suffix}"] for part in ("estimate", "low", "high")}
        found["p"] = p_value
        return faster_in_words(found) if name == "speed" else ahead_in_words(found, in_years)

    if np.isnan(row["p_value"]):
        return f"{_SHOWN[name]}: not compared, because it is the same for everybody."
    if "estimate" in row:
        which = (
            f"for each 1 of {by}"
            if attrs["continuous"]
            else f"{by} {groups[-1]} against {groups[0]}"
        )
        return f"{_SHOWN[name]}, {which}: {difference('', row['p_value'])}{corrected}."
    if len(groups) > 2 and f"estimate_{groups[-1]}" in row:
        each = [f"{group} {difference(f'_{group}')}" for group in groups[1:]]
        return (
            f"{_SHOWN[name]}, {by} against {groups[0]}: {', '.join(each)}; all together "
            f"{_p(row['p_value'])}{corrected}."
        )
    if attrs["continuous"]:
        rho = f"rho {row['rank_effect']:.2f}"
        return f"{_SHOWN[name]} and {by}: {rho}, {_p(row['p_value'])}{corrected}."
    means = ", ".join(f"{row[f'mean_{group}']:.3g} in {group}" for group in groups)
    return (
        f"{_SHOWN[name]}, by {by}: mean {means} ({row['test']}, {_p(row['p_value'])}{corrected})."
    )


def _p(p_value: float) -> str:
    return "unknown" if np.isnan(p_value) else p_in_words(p_value)
