"""Figures of the simulation experiments: recovery, areas on a cortex, false positives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from braindive.evaluation.groups import PARAMETERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people can tell apart.
BLUE, ORANGE, GREEN, PINK, GREY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#666666"
COLOURS = (BLUE, ORANGE, GREEN, PINK, GREY)


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
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(3, 2, figsize=(7.2, 7.6), layout="constrained")
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
            _line(ax, frame, step, measure, BLUE, "DIVE")
            ax.set(yscale="log", ylabel=label, title=title if row == 0 else None)
            ax.set_title(next(letters), loc="left", fontweight="bold")
            _steps(ax, frame, step, name)
    for column, (frame, step, name, title) in enumerate(columns):
        ax = axes[2, column]
        _line(ax, frame, step, "ceiling", GREY, "ceiling")
        _line(ax, frame, step, "agreement", BLUE, "DIVE")
        paper = published[title]
        steps = _order(frame, step)
        shown = [place for place, value in enumerate(steps) if value in paper]
        values = [paper[steps[place]] for place in shown]
        ax.plot(shown, values, "x", color=ORANGE, label="paper")
        ax.set(ylabel="agreement of clusters")
        ax.set_title("EF"[column], loc="left", fontweight="bold")
        ax.legend(frameon=False)
        _steps(ax, frame, step, name)
    return figure


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
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(3.8, 3.0), layout="constrained")
    for spatial, colour, name in (("auto", BLUE, "with field"), (None, ORANGE, "without field")):
        chosen = frame["spatial"].isna() if spatial is None else frame["spatial"] == spatial
        part = frame[chosen].sort_values("smoothing", ascending=False)
        _line(ax, part, "smoothing", "agreement", colour, name)
    ax.set(ylabel="agreement of clusters", ylim=(None, 1.01))
    _steps(ax, frame, "smoothing", "rounds of smoothing of the noise")
    ax.legend(frameon=False)
    return ax


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
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(3.8, 3.2), layout="constrained")
    for parameter, colour in zip(PARAMETERS, COLOURS, strict=False):
        rows = (frame["effect"] == 0) & (frame["parameter"] == parameter)
        ordered = np.sort(frame.loc[rows, "p_value"].to_numpy(float))
        share = np.arange(1, len(ordered) + 1) / len(ordered)
        ax.step(ordered, share, color=colour, label=parameter)
    ax.plot([0, 1], [0, 1], color=GREY, linestyle=":")
    ax.set(xlabel="p-value without an effect", ylabel="share of cohorts", xlim=(0, 1), ylim=(0, 1))
    ax.legend(frameon=False)
    return ax


def _order(frame: pd.DataFrame, step: str) -> list[float]:
    """Steps from the easiest, which has the largest number, to the hardest."""
    return sorted(frame[step].unique().tolist(), reverse=True)


def _line(ax: Axes, frame: pd.DataFrame, step: str, measure: str, colour: str, name: str) -> None:
    groups = frame.groupby(step)[measure]
    order = _order(frame, step)
    means, spreads = groups.mean().loc[order], groups.std().fillna(0.0).loc[order]
    ax.errorbar(
        np.arange(len(order)), means, spreads, fmt="o-", color=colour, label=name, markersize=4
    )


def _steps(ax: Axes, frame: pd.DataFrame, step: str, name: str) -> None:
    order = _order(frame, step)
    ax.set_xticks(range(len(order)), [f"{value:g}" for value in order])
    ax.set_xlabel(name)
