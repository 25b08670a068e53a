"""Figures of where people stand on the course of the disease, and how fast they move."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from braindive.arrays import Array
from braindive.cohort import Cohort
from braindive.cohort.table_columns import find_column
from braindive.errors import ParameterError
from braindive.evaluation.groups import PARAMETERS, compare_groups, subject_parameters
from braindive.plotting.style import (
    GREY,
    GROUP_COLOURS,
    SCORE,
    TWO_COLUMNS,
    check_staged,
    figure_function,
    legend_above,
    one_axes,
    panels,
)
from braindive.score_names import name_score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SPEED = "speed (score per year)"


@figure_function
def plot_stages(model: Any, by: str | pd.Series = "diagnosis", ax: Axes | None = None) -> Axes:
    """Draw the subjects' scores at their first visit, one row for each diagnosis.

    Every subject is a point; the bar is the group's median and the box its middle half.

    Parameters
    ----------
    model : fitted DIVE
        With staging.
    by : str or Series
        Column of the training cohort's table, whose first value of each subject counts, or a
        Series indexed by subject. Subjects without a value are left out.
    ax : Axes, optional
        Where to draw; new axes of one column by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(
    ...     n_subjects=20, n_vertices=40, noise=0.1, control_share=0.4, random_state=0
    ... ).cohort
    >>> model = bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(cohort)
    >>> [label.get_text() for label in bd.plot_stages(model).get_yticklabels()]
    ['CN (8)', 'patient (12)']
    """
    check_staged(model)
    groups = group_of_subject(model, by)
    scores = subject_parameters(model)["baseline score"]
    parts = {name: scores[groups.index[groups == name]] for name in ordered(groups)}
    colours = group_colours(groups)
    # Groups from early to late, read from the top.
    names = sorted(parts, key=lambda name: float(parts[name].median()))
    ax = one_axes(ax, height=0.8 + 0.45 * len(names))
    for place, name in enumerate(names):
        values = np.sort(parts[name].to_numpy(float))
        colour = colours[name]
        ax.plot(values, place + _jitter(len(values)), "o", color=colour, alpha=0.5, mew=0)
        low, median, high = np.percentile(values, [25, 50, 75])
        ax.barh(
            place, high - low, 0.5, left=low, facecolor="none", edgecolor="black", linewidth=0.6
        )
        ax.vlines(median, place - 0.25, place + 0.25, color="black", linewidth=1.4)
    ax.set_yticks(range(len(names)), [f"{name} ({len(parts[name])})" for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(name_score(model, f"{SCORE} at first visit"))
    return ax


@figure_function
def plot_speed_shift(model: Any, by: str | pd.Series | None = None, ax: Axes | None = None) -> Axes:
    """Draw how fast each subject moves against where it stood at the first visit.

    Parameters
    ----------
    model : fitted DIVE
        With staging.
    by : str or Series, optional
        Groups to colour: a column of the training cohort's table, or a Series indexed by
        subject.
    ax : Axes, optional
        Where to draw; new axes of one column by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import braindive as bd
    >>> simulation = bd.simulate_cohort(n_subjects=20, n_vertices=40, noise=0.3, random_state=0)
    >>> model = bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(simulation.cohort)
    >>> bd.plot_speed_shift(model).get_ylabel()
    'speed (score per year)'
    """
    check_staged(model)
    subjects = subject_parameters(model)
    ax = one_axes(ax)
    if by is None:
        ax.plot(subjects["baseline score"], subjects["speed"], "o", color=GREY, alpha=0.6, mew=0)
    else:
        groups = group_of_subject(model, by)
        handles = []
        for name, colour in group_colours(groups).items():
            part = subjects.loc[groups.index[groups == name]]
            label = f"{name} ({len(part)})"
            x, y = part["baseline score"], part["speed"]
            handles += ax.plot(x, y, "o", color=colour, alpha=0.6, mew=0, label=label)
        legend_above(ax, handles, str(groups.name))
    ax.set(xlabel=name_score(model, f"{SCORE} at first visit"), ylabel=_SPEED)
    return ax


@figure_function
def plot_groups(model: Any, by: str | pd.Series, cohort: Cohort | None = None) -> Figure:
    """Draw shifts, speeds and baseline scores of groups of subjects, with tests.

    Every subject is a point; bars are means with their 95 % confidence intervals. The p-values
    are those of `compare_groups`, corrected for the number of tests by Holm's method.

    Parameters
    ----------
    model : fitted DIVE
        With staging.
    by : str or Series
        Groups, as in `compare_groups`: at most five different values where they are numbers.
    cohort : Cohort, optional
        Other subjects, staged by the model; by default those it was fitted on.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(
    ...     n_subjects=30, n_vertices=40, noise=0.3, group_effect=1.0, random_state=0
    ... ).cohort
    >>> model = bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(cohort)
    >>> figure = bd.plot_groups(model, by="apoe4")
    >>> [ax.get_ylabel() for ax in figure.axes]
    ['shift: score at time 0 (years)', 'speed (score per year)', 'score at first visit (years)']
    """
    check_staged(model)
    tests = compare_groups(model, by, cohort, kind="groups")
    subjects = subject_parameters(model, cohort)
    groups = group_of_subject(model, by, cohort)
    counts = groups.value_counts()
    # Groups of one are left out of the tests, too.
    names = [name for name in ordered(groups) if counts[name] > 1]
    colours = group_colours(groups)
    figure, axes = panels(1, 3, (TWO_COLUMNS, 2.3))
    labels = {
        "shift": name_score(model, "shift: score at time 0"),
        "speed": _SPEED,
        "baseline score": name_score(model, "score at first visit"),
    }
    for ax, parameter in zip(axes[0], PARAMETERS, strict=True):
        for place, name in enumerate(names):
            values = subjects.loc[groups.index[groups == name], parameter].to_numpy(float)
            draw_sample(ax, place, values, colours[name], _reach(values))
        ax.set_xticks(range(len(names)), [f"{name}\n({counts[name]})" for name in names])
        ax.set(xlabel=groups.name, ylabel=labels[parameter], xlim=(-0.6, len(names) - 0.4))
        test, p_value = tests["test"][parameter], float(tests["p_corrected"][parameter])
        ax.set_title(f"{test}, corrected p {_p_value(p_value)}")
    return figure


def draw_sample(ax: Axes, place: float, values: Array, colour: str, error: float) -> None:
    """Draw values as points above a place, and their mean with an error bar."""
    values = np.sort(values[np.isfinite(values)])
    ax.plot(place + _jitter(len(values)), values, "o", color=colour, alpha=0.45, mew=0)
    if len(values):
        mean = values.mean()
        ax.errorbar(place, mean, error, fmt="_", color="black", ms=14, capsize=2, lw=1)


def group_of_subject(model: Any, by: str | pd.Series, cohort: Cohort | None = None) -> pd.Series:
    """Group of each subject that has one, indexed by subject and named after the column."""
    known = model.subjects_ if cohort is None else cohort.subject_ids
    if isinstance(by, pd.Series):
        groups = by.rename(str(by.name or "group"))
    else:
        table = model.visits_ if cohort is None else cohort.table.assign(subject=cohort.subjects)
        visits = table[find_column(table, by)].replace("n/a", np.nan)
        groups = visits.groupby(table["subject"], sort=False).first()
    groups = groups.reindex(known).dropna()
    if groups.empty:
        raise ParameterError(f"{groups.name!r} has no value for any subject.")
    return groups


def ordered(groups: pd.Series) -> list[Any]:
    """Names of the groups in the order in which they get colours."""
    return sorted(groups.unique(), key=lambda name: (str(type(name)), name))


def group_colours(groups: pd.Series) -> dict[Any, str]:
    """Colour of each group, the same in every figure."""
    colours = cycle(GROUP_COLOURS)
    return {name: next(colours) for name in ordered(groups)}


def _reach(values: Array) -> float:
    """Half the width of the 95 % confidence interval of a mean."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float(error * stats.t.ppf(0.975, len(values) - 1))


def _jitter(n: int, width: float = 0.2) -> Array:
    """Offsets that spread sorted points evenly, the same at every call."""
    golden = (np.sqrt(5) - 1) / 2
    return np.asarray(width * (2 * np.mod(np.arange(1, n + 1) * golden, 1.0) - 1))


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"
