"""Figures of the course of the disease, and of people along it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from braindive.arrays import Array
from braindive.cohort import Cohort
from braindive.dive.pooled import PooledMeans
from braindive.errors import ParameterError
from braindive.evaluation.held_out import visit_stages
from braindive.plotting.style import (
    LEGEND,
    MOST_IN_LEGEND,
    TWO_COLUMNS,
    check_fitted,
    cluster_handles,
    cluster_map,
    colours_of,
    figure_function,
    known_vertices,
    legend_columns,
    name_bar,
    name_clusters,
    names_of,
    one_axes,
    panels,
    score_label,
    value_label,
)
from braindive.values.backends import open_products

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from braindive.evaluation.bootstrap import Bootstrap

_N_POINTS = 200
_PANELS_IN_ROW = 4
# More points than this are drawn as one picture, so that vector files stay small.
_MANY = 3000


@figure_function
def plot_trajectories(
    model: Any,
    cohort: Cohort | None = None,
    bootstrap: Bootstrap | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the trajectory of each cluster over the score, with data and uncertainty.

    Parameters
    ----------
    model : fitted DIVE
        Whose trajectories.
    cohort : Cohort, optional
        Its visits are drawn as points: the mean of each cluster against the score.
    bootstrap : Bootstrap, optional
        Of `bd.bootstrap`: its pointwise 95 % intervals are drawn as bands.
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
    >>> bd.plot_trajectories(model, cohort).get_xlabel()
    'disease progression score (years)'
    """
    check_fitted(model)
    ax = one_axes(ax)
    colours, names = colours_of(model), names_of(model)
    scores = _score_range(model)
    if cohort is not None:
        at, means = visit_scores(model, cohort), cluster_means(model, cohort)
        for k, colour in enumerate(colours):
            ax.scatter(
                at,
                means[:, k],
                s=4,
                color=colour,
                alpha=0.35 if len(colours) <= MOST_IN_LEGEND else 0.15,
                linewidths=0,
                rasterized=means.size > _MANY,
            )
        scores = np.linspace(min(at.min(), scores[0]), max(at.max(), scores[-1]), _N_POINTS)
    if bootstrap is not None:
        lower, upper = bootstrap.bands(scores)
        for k, colour in enumerate(colours):
            ax.fill_between(scores, lower[:, k], upper[:, k], color=colour, alpha=0.25, linewidth=0)
    curves = model.trajectories_.evaluate(scores)
    for k, colour in enumerate(colours):
        ax.plot(scores, curves[:, k], color=colour, label=names[k])
    ax.set(xlabel=score_label(model), ylabel=value_label(model))
    name_clusters(ax, model)
    return ax


@figure_function
def plot_subjects(model: Any, cohort: Cohort, subjects: Sequence[Hashable] | None = None) -> Figure:
    """Draw individual subjects along the trajectories, one panel for each.

    Parameters
    ----------
    model : fitted DIVE
        Whose trajectories.
    cohort : Cohort
        Where the subjects' visits are.
    subjects : sequence of ids, optional
        Whom to show; by default four from the earliest to the latest.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(n_subjects=20, n_vertices=40, noise=0.3, random_state=0).cohort
    >>> model = bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(cohort)
    >>> figure = bd.plot_subjects(model, cohort, subjects=["sub-03", "sub-12"])
    >>> [ax.get_title() for ax in figure.axes]
    ['sub-03', 'sub-12']
    """
    from matplotlib.cm import ScalarMappable

    check_fitted(model)
    if subjects is None:
        subjects = _spread_subjects(model, cohort)
    elif isinstance(subjects, str) or len(subjects) == 0:
        raise ParameterError(f"subjects must be a list of at least one id; got {subjects!r}.")
    cohort = cohort.select(subjects=list(subjects))
    at, means = visit_scores(model, cohort), cluster_means(model, cohort)
    low, high = _score_range(model)[[0, -1]]
    scores = np.linspace(min(at.min(), low), max(at.max(), high), _N_POINTS)
    curves = model.trajectories_.evaluate(scores)
    colours = colours_of(model)

    n_columns = min(len(subjects), _PANELS_IN_ROW)
    n_rows = -(-len(subjects) // n_columns)
    size = (max(TWO_COLUMNS * n_columns / _PANELS_IN_ROW, 2.2), 1.6 * n_rows + 0.7)
    figure, axes = panels(n_rows, n_columns, size, sharex=True, sharey=True)
    for ax, subject in zip(axes.flat, subjects, strict=False):
        visits = np.flatnonzero([other == subject for other in cohort.subjects])
        visits = visits[np.argsort(cohort.times[visits])]
        for k, colour in enumerate(colours):
            ax.plot(scores, curves[:, k], color=colour, alpha=0.45, linewidth=1)
            ax.plot(at[visits], means[visits, k], "o-", color=colour, linewidth=0.8)
        ax.set_title(str(subject))
    for place in range(len(subjects), axes.size):
        axes.flat[place - n_columns].tick_params(labelbottom=True)
        axes.flat[place].remove()
    if len(colours) <= MOST_IN_LEGEND:
        handles = cluster_handles(model)
        labels = [handle.get_label() for handle in handles]
        n_columns = legend_columns(labels, size[0])
        figure.legend(
            handles=handles, title="cluster", loc="outside upper left", ncols=n_columns, **LEGEND
        )
    else:
        colour_map, norm = cluster_map(colours)
        shown = list(axes.flat[: len(subjects)])
        bar = figure.colorbar(ScalarMappable(norm, colour_map), ax=shown, pad=0.02)
        name_bar(bar, model)
    figure.supxlabel(score_label(model), fontsize=8)
    figure.supylabel(value_label(model), fontsize=8)
    return figure


def visit_scores(model: Any, cohort: Cohort) -> Array:
    """Score of each visit, (n_visits,): the fitted one for training visits, else by staging."""
    pairs = zip(model.visits_["subject"], model.visits_["time"], strict=True)
    fitted = dict(zip(pairs, model.scores_, strict=True))
    visits = list(zip(cohort.subjects, cohort.times, strict=True))
    if all(visit in fitted for visit in visits):
        return np.array([fitted[visit] for visit in visits])
    return visit_stages(model, cohort)


def cluster_means(model: Any, cohort: Cohort) -> Array:
    """Mean of each cluster at each visit in the unit of the trajectories, (n_visits, n_clusters).

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.plotting.trajectories import cluster_means
    >>> cohort = bd.simulate_cohort(n_subjects=20, n_vertices=40, noise=0.3, random_state=0).cohort
    >>> model = bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(cohort)
    >>> cluster_means(model, cohort).shape
    (80, 2)
    """
    prepared = model.preprocessing_
    cohort = cohort if prepared is None else prepared.transform(cohort)
    measurements = open_products(
        cohort.stored,
        order=cohort.canonical_rows,
        missing=cohort.has_missing,
        n_jobs=model.n_jobs,
    )
    weights = model.responsibilities_ * known_vertices(model)[:, None]
    standard = PooledMeans.from_sums(*measurements.pool(weights)).means
    means = np.empty_like(standard)
    means[cohort.canonical_order] = measurements.unit.offset + measurements.unit.scale * standard
    return means


def _score_range(model: Any) -> Array:
    return np.linspace(model.scores_.min(), model.scores_.max(), _N_POINTS)


def _spread_subjects(model: Any, cohort: Cohort) -> list[Hashable]:
    """Ids of up to four subjects, from the earliest to the latest."""
    scores = pd.Series(visit_scores(model, cohort)).groupby(cohort.subject_index).mean()
    order = cohort.subject_ids[scores.sort_values(kind="stable").index]
    places = np.linspace(0, len(order) - 1, min(_PANELS_IN_ROW, len(order)) + 2)[1:-1]
    chosen = np.unique(places.round().astype(int))
    return [order[place] for place in chosen]
