"""Figures of the paper's experiments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from braindive.evaluation.groups import PARAMETERS
from braindive.plotting.style import (
    GREY,
    GROUP_COLOURS,
    TWO_COLUMNS,
    figure_function,
    one_axes,
    panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE = GROUP_COLOURS[:2]
# Marks of criteria, one more than there are colours, and how far apart they stand (logarithm).
_MARKS = "osv^D<>p"
_APART = 0.035


@figure_function
def plot_recovery(
    closer: pd.DataFrame, fewer: pd.DataFrame, published: Mapping[str, Mapping[float, float]]
) -> Figure:
    """Errors of experiments 2 and 3 in four panels, and agreement with its ceiling below.

    Parameters
    ----------
    closer, fewer : DataFrame
        Rows of `closer_trajectories` (with `spacing`) and of `fewer_subjects` (with `n_subjects`).
    published : dict
        Agreement that the paper reports, by experiment and step.

    Returns
    -------
    Figure
    """
    figure, axes = panels(3, 2, (TWO_COLUMNS, 7.6))
    columns = (
        (closer, "spacing", "distance of midpoints / range of scores", "closer trajectories"),
        (fewer, "n_subjects", "subjects", "fewer subjects"),
    )
    errors = (
        ("score_error", "error in scores (SSD)"),
        ("midpoint_error", "error in midpoints (SSD)"),
    )
    letters = iter("ACBD")
    for row, (measure, label) in enumerate(errors):
        for column, (frame, step, name, title) in enumerate(columns):
            ax = axes[row, column]
            _line(ax, frame, step, measure, _BLUE, "DIVE")
            ax.set(yscale="log", ylabel=label, title=title if row == 0 else None)
            ax.set_title(next(letters), loc="left", fontweight="bold")
            _steps(ax, frame, step, name)
    for column, (frame, step, name, title) in enumerate(columns):
        ax = axes[2, column]
        _line(ax, frame, step, "ceiling", GREY, "ceiling")
        _line(ax, frame, step, "agreement", _BLUE, "DIVE")
        paper = published[title]
        steps = _order(frame, step)
        shown = [place for place, value in enumerate(steps) if value in paper]
        values = [paper[steps[place]] for place in shown]
        ax.plot(shown, values, "x", color=_ORANGE, label="paper", zorder=3)
        ax.set(ylabel="agreement of clusters")
        ax.set_title("EF"[column], loc="left", fontweight="bold")
        ax.legend()
        _steps(ax, frame, step, name)
    return figure


@figure_function
def plot_areas(frame: pd.DataFrame) -> Axes:
    """Agreement on a cortex with and without the random field, by smoothness of the noise.

    Parameters
    ----------
    frame : DataFrame
        Rows of `contiguous_areas`, with `smoothing` and `spatial`.

    Returns
    -------
    Axes
    """
    ax = one_axes(None, 3.0)
    for spatial, colour, name in (("auto", _BLUE, "with field"), (None, _ORANGE, "without field")):
        chosen = frame["spatial"].isna() if spatial is None else frame["spatial"] == spatial
        _line(ax, frame[chosen], "smoothing", "agreement", colour, name)
    ax.set(ylabel="agreement of clusters", ylim=(None, 1.01))
    _steps(ax, frame, "smoothing", "rounds of smoothing of the noise")
    ax.legend()
    return ax


@figure_function
def plot_chosen_clusters(
    frame: pd.DataFrame, published: Mapping[str, Mapping[int, int]], titles: Mapping[str, str]
) -> Figure:
    """Numbers of clusters that criteria choose, over the true number.

    Parameters
    ----------
    frame : DataFrame
        One row for each choice: `kind`, `n_true`, `criterion`, `chosen`.
    published : dict
        What the paper's criteria chose, by the true number.
    titles : dict
        Panels: value of `kind` and title.

    Returns
    -------
    Figure
    """
    from matplotlib.ticker import NullFormatter, NullLocator

    figure, axes = panels(1, len(titles), (TWO_COLUMNS, 3.2), sharey=True)
    truths = sorted(frame["n_true"].unique())
    n_criteria = frame["criterion"].nunique()
    for ax, (kind, title) in zip(axes[0], titles.items(), strict=True):
        part = frame[frame["kind"] == kind]
        for place, (name, rows) in enumerate(part.groupby("criterion", sort=False)):
            means = rows.groupby("n_true")["chosen"].mean()
            # Side by side, because many choose the same number.
            beside = np.exp(_APART * (place - (n_criteria - 1) / 2))
            colour = GROUP_COLOURS[place % len(GROUP_COLOURS)]
            mark = _MARKS[place % len(_MARKS)]
            ax.plot(
                means.index * beside, means, mark, color=colour, label=name, alpha=0.8, markersize=4
            )
        for mark, (name, chosen) in zip("x+", published.items(), strict=True):
            shown = [n for n in truths if n in chosen]
            ax.plot(shown, [chosen[n] for n in shown], mark, color=GREY, label=f"paper: {name}")
        ax.plot(truths, truths, color=GREY, linestyle=":", label="truth")
        ax.set(title=title, xlabel="true number of clusters", xscale="log", yscale="log")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_minor_formatter(NullFormatter())
            axis.set_ticks(truths, [f"{n}" for n in truths])
    axes[0, 0].set_ylabel("chosen number of clusters")
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


@figure_function
def plot_p_values(frame: pd.DataFrame) -> Axes:
    """Share of cohorts with a p-value below each level: the diagonal where nothing is planted.

    Parameters
    ----------
    frame : DataFrame
        Rows of `group_test` with `effect`, `parameter` and `p_value`.

    Returns
    -------
    Axes
    """
    ax = one_axes(None, 3.0)
    for parameter, colour in zip(PARAMETERS, GROUP_COLOURS, strict=False):
        rows = (frame["effect"] == 0) & (frame["parameter"] == parameter)
        ordered = np.sort(frame.loc[rows, "p_value"].to_numpy(float))
        share = np.arange(1, len(ordered) + 1) / len(ordered)
        ax.step(ordered, share, where="post", color=colour, label=parameter)
    ax.plot([0, 1], [0, 1], color=GREY, linestyle=":")
    ax.set(xlabel="p-value without an effect", ylabel="share of cohorts", xlim=(0, 1), ylim=(0, 1))
    ax.legend()
    return ax


def _order(frame: pd.DataFrame, step: str) -> list[float]:
    """Steps from the easiest to the hardest: fewer and closer is harder, smoother noise too."""
    return sorted(frame[step].unique().tolist(), reverse=step != "smoothing")


def _line(ax: Axes, frame: pd.DataFrame, step: str, measure: str, colour: str, name: str) -> None:
    groups = frame.groupby(step)[measure]
    order = _order(frame, step)
    means = groups.mean().loc[order].to_numpy()
    spreads = groups.std().fillna(0.0).loc[order].to_numpy()
    ax.errorbar(range(len(order)), means, spreads, fmt="o-", color=colour, label=name)


def _steps(ax: Axes, frame: pd.DataFrame, step: str, name: str) -> None:
    order = _order(frame, step)
    ax.set_xticks(range(len(order)), [f"{value:g}" for value in order])
    ax.set_xlabel(name)
