"""Figures of scores against what else is known: cognition, age, and the truth of a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from braindive.arrays import Array
from braindive.cluster_names import display_names
from braindive.cohort.table_columns import find_column
from braindive.errors import ParameterError
from braindive.evaluation.associations import associate_scores
from braindive.evaluation.matching import match_clusters
from braindive.plotting.people import group_colours, group_of_subject
from braindive.plotting.style import (
    GREY,
    ONE_COLUMN,
    TWO_COLUMNS,
    check_staged,
    colours_of,
    figure_function,
    legend_above,
    one_axes,
    panels,
    score_label,
)
from braindive.score_names import name_score
from braindive.simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@figure_function
def plot_cognition(model: Any, tests: Sequence[str], by: str | pd.Series | None = None) -> Figure:
    """Draw every visit's score against the result of each cognitive test.

    The title of each panel has Spearman's correlation over the visits that have a result. Visits
    of one person are not independent, so that no p-value goes with it.

    Parameters
    ----------
    model : fitted DIVE
        With staging.
    tests : sequence of str
        Columns of the training cohort's table that hold numbers.
    by : str or Series, optional
        Groups to colour, as for `plot_stages`.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(
    ...     n_subjects=20, n_vertices=40, noise=0.3, cognition=True, random_state=0
    ... ).cohort
    >>> model = bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(cohort)
    >>> figure = bd.plot_cognition(model, ["MMSE", "ADAS13"])
    >>> [ax.get_ylabel() for ax in figure.axes]
    ['MMSE', 'ADAS13']
    """
    check_staged(model)
    found = associate_scores(model, tests)
    n_columns = min(len(found), 4)
    n_rows = -(-len(found) // n_columns)
    width = ONE_COLUMN if n_columns < 3 else TWO_COLUMNS
    figure, axes = panels(n_rows, n_columns, (width, 2.1 * n_rows))
    parts = _visits_of_groups(model, by)
    for ax, (test, row) in zip(axes.flat, found.iterrows(), strict=False):
        results = pd.to_numeric(model.visits_[test], errors="coerce").to_numpy(float)
        for visits, colour, label in parts:
            x, y = model.scores_[visits], results[visits]
            ax.plot(x, y, "o", color=colour, alpha=0.45, mew=0, label=label)
        ax.set(xlabel=name_score(model, "score"), ylabel=str(test))
        ax.set_title(f"Spearman {row['spearman']:.2f}".replace("-", "\N{MINUS SIGN}"))
    for ax in axes.flat[len(found) :]:
        ax.set_visible(False)
    if by is not None:
        handles = axes.flat[0].get_legend_handles_labels()[0]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(parts))
    return figure


@figure_function
def plot_scores(
    model: Any,
    against: str = "time",
    by: str | pd.Series | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the course of every person: score against time or age, one line each.

    Parameters
    ----------
    model : fitted DIVE
        With staging.
    against : str
        Column of numbers in the training cohort's table, such as ``"age"``; by default the time
        of the visits.
    by : str or Series, optional
        Groups to colour, as for `plot_stages`.
    ax : Axes, optional
        Where to draw; new axes of one column by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(n_subjects=20, n_vertices=40, noise=0.3, random_state=0).cohort
    >>> model = bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(cohort)
    >>> len(bd.plot_scores(model).lines)
    20
    """
    check_staged(model)
    against = find_column(model.visits_, against)
    years = pd.to_numeric(model.visits_[against], errors="coerce").to_numpy(float)
    if not np.isfinite(years).any():
        raise ParameterError(f"{against!r} holds no numbers.")
    ax = one_axes(ax)
    subjects, handles = model.visits_["subject"].to_numpy(), []
    for visits, colour, label in _visits_of_groups(model, by):
        for where in pd.Series(visits).groupby(subjects[visits], sort=False).groups.values():
            mine = visits[np.asarray(where)]
            mine = mine[np.argsort(years[mine], kind="stable")]
            (line,) = ax.plot(
                years[mine], model.scores_[mine], "-o", color=colour, alpha=0.5, lw=0.7, ms=2, mew=0
            )
        handles.append(line)
        line.set_label(label)
    unit = " (years)" if against in ("time", "age") else ""
    ax.set(xlabel=f"{against}{unit}", ylabel=score_label(model))
    if by is not None:
        legend_above(ax, handles, str(group_of_subject(model, by).name))
    return ax


@figure_function
def plot_truth(model: Any, simulation: Simulation) -> Figure:
    """Draw what a fit found beside what its cohort was made from: scores, speeds and curves.

    True scores and curves are brought to the model's origin and unit by a straight line through
    the scores. True curves are dashed: means over the vertices of each true cluster.

    Parameters
    ----------
    model : fitted DIVE
        Fitted to `simulation.cohort`, with staging.
    simulation : Simulation
        The cohort and its truth.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import braindive as bd
    >>> simulation = bd.simulate_cohort(n_subjects=20, n_vertices=40, noise=0.3, random_state=0)
    >>> model = bd.DIVE(3, n_init=1, personal=False, random_state=0).fit(simulation.cohort)
    >>> [ax.get_ylabel() for ax in bd.plot_truth(model, simulation).axes]
    ['estimated score', 'estimated speed', 'value']
    """
    check_staged(model)
    truth = simulation.truth
    if len(truth.scores) != len(model.scores_) or len(truth.labels) != len(model.labels_):
        raise ParameterError(
            "the model was not fitted to the cohort of this simulation: it has "
            f"{len(model.scores_)} visits and {len(model.labels_)} vertices, the simulation "
            f"{len(truth.scores)} and {len(truth.labels)}."
        )
    slope, origin = np.polyfit(truth.scores, model.scores_, 1)
    figure, axes = panels(1, 3, (TWO_COLUMNS, 2.3))
    pairs = (
        (slope * truth.scores + origin, model.scores_, "score"),
        (slope * truth.speeds, model.speeds_, "speed"),
    )
    for ax, (true, found, name) in zip(axes[0], pairs, strict=False):
        _draw_pairs(ax, true, found, name)
    ax, grid = axes[0, 2], np.linspace(truth.scores.min(), truth.scores.max(), 101)
    at = slope * grid + origin
    matched = match_clusters(model, truth.labels).permutation
    curves, names = model.trajectories_.evaluate(at), display_names(model)
    for k, colour in enumerate(colours_of(model)):
        ax.plot(at, curves[:, k], color=colour, label=names[k])
    of_vertices = truth.vertices.evaluate(grid)
    for label, k in enumerate(matched):
        colour = GREY if k < 0 else colours_of(model)[k]
        ax.plot(at, of_vertices[:, truth.labels == label].mean(axis=1), "--", color=colour, lw=1)
    ax.set(xlabel=name_score(model, "score"), ylabel="value")
    ax.set_title("found, and true (dashed)")
    return figure


def _draw_pairs(ax: Axes, true: Array, found: Array, name: str) -> None:
    """Draw estimates against the truth, with the line on which they would be equal."""
    ax.plot(true, found, "o", color=GREY, alpha=0.35, mew=0)
    ends = [min(true.min(), found.min()), max(true.max(), found.max())]
    ax.plot(ends, ends, color="black", lw=0.6)
    correlation = np.corrcoef(true, found)[0, 1]
    ax.set(xlabel=f"true {name}", ylabel=f"estimated {name}")
    ax.set_title(f"Pearson {correlation:.3f}".replace("-", "\N{MINUS SIGN}"))


def _visits_of_groups(
    model: Any, by: str | pd.Series | None
) -> list[tuple[np.ndarray[Any, Any], str, str]]:
    """Visits, colour and name of each group; all visits in grey where there are none."""
    subjects = model.visits_["subject"]
    if by is None:
        return [(np.arange(len(subjects)), GREY, "")]
    groups = group_of_subject(model, by)
    of_visit = subjects.map(groups).to_numpy()
    counts = groups.value_counts()
    return [
        (np.flatnonzero(of_visit == name), colour, f"{name} ({counts[name]})")
        for name, colour in group_colours(groups).items()
    ]
