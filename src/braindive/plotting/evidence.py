"""Figures of the evidence: recovery, choice of clusters, models and groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from braindive.evaluation.groups import PARAMETERS, subject_parameters
from braindive.evaluation.selection import recommend_n_clusters

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


def plot_selection(table: pd.DataFrame) -> Figure:
    """AIC and BIC, held-out log-likelihood and stability against the number of clusters.

    Parameters
    ----------
    table : DataFrame
        Of `select_n_clusters`.

    Returns
    -------
    Figure
    """
    from matplotlib import pyplot as plt

    panels = [name for name in ("aic", "held_out", "rand") if name in table]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(2.6 * len(panels), 2.6), layout="constrained", squeeze=False
    )
    chosen = recommend_n_clusters(table).n_clusters
    for ax, panel in zip(axes[0], panels, strict=True):
        if panel == "aic":
            for name, colour in (("aic", BLUE), ("bic", ORANGE)):
                above = table[name] - table[name].min()
                ax.plot(table.index, above, "o-", color=colour, label=name.upper())
            ax.set_ylabel("above the lowest")
        elif panel == "held_out":
            ax.errorbar(table.index, table[panel], table["held_out_se"], fmt="o-", color=BLUE)
            ax.set_ylabel("held-out log-likelihood")
        else:
            ax.errorbar(table.index, table["rand"], table["rand_se"], fmt="o-", color=BLUE)
            ax.plot(table.index, table["dice"], "o-", color=ORANGE, label="Dice")
            ax.plot([], [], "o-", color=BLUE, label="adjusted Rand")
            ax.set_ylabel("agreement of halves")
        ax.axvline(chosen, color=GREY, linestyle=":", label="recommended")
        ax.set_xlabel("number of clusters")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend(frameon=False, fontsize="small")
    return figure


def plot_comparison(frame: pd.DataFrame) -> Figure:
    """Every fold of every model, one panel for each measure.

    Parameters
    ----------
    frame : DataFrame
        Of `compare_models`.

    Returns
    -------
    Figure
    """
    from matplotlib import pyplot as plt

    measures, models = frame["measure"].unique(), frame["model"].unique()
    figure, axes = plt.subplots(
        1, len(measures), figsize=(1.9 * len(measures), 3.0), layout="constrained", squeeze=False
    )
    for ax, measure in zip(axes[0], measures, strict=True):
        for place, model in enumerate(models):
            rows = (frame["measure"] == measure) & (frame["model"] == model)
            values = frame.loc[rows, "value"].to_numpy(float)
            _swarm(ax, place, values, COLOURS[place % len(COLOURS)])
        ax.set_xticks(range(len(models)), models, rotation=45, ha="right")
        ax.set_title(measure)
    axes[0, 0].set_ylabel("correlation, or error for RMSE" if "RMSE" in measures else "correlation")
    return figure


def plot_groups(model: Any, groups: pd.Series, cohort: Any = None) -> Figure:
    """Shifts, speeds and baseline scores of groups of subjects, in three panels.

    Parameters
    ----------
    model : fitted DIVE
        With staging.
    groups : Series
        Group of each subject, indexed by subject.
    cohort : Cohort, optional
        Other subjects, staged by the model; by default those it was fitted on.

    Returns
    -------
    Figure
    """
    from matplotlib import pyplot as plt

    parameters = subject_parameters(model, cohort)
    groups = groups.reindex(parameters.index).dropna()
    names = sorted(groups.unique(), key=str)
    figure, axes = plt.subplots(1, 3, figsize=(7.2, 2.8), layout="constrained")
    for ax, parameter in zip(axes, PARAMETERS, strict=True):
        for place, name in enumerate(names):
            chosen = groups.index[groups == name]
            values = parameters.loc[chosen, parameter].to_numpy(float)
            _swarm(ax, place, values, COLOURS[place % len(COLOURS)])
        ax.set_xticks(range(len(names)), [f"{groups.name} = {name}" for name in names])
        ax.set_ylabel(parameter)
    return figure


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


def _swarm(ax: Axes, place: int, values: np.ndarray, colour: str) -> None:
    """Every value as a point, and their mean as a bar."""
    values = values[np.isfinite(values)]
    spread = np.linspace(-0.25, 0.25, len(values)) if len(values) > 1 else np.zeros(len(values))
    ax.plot(place + spread, values, "o", color=colour, markersize=3, alpha=0.5)
    if len(values):
        ax.hlines(values.mean(), place - 0.35, place + 0.35, color=colour, linewidth=2)
