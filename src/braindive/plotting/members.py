"""Which vertices belong to which cluster, where there is no brain to draw them on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from braindive.arrays import IntArray
from braindive.plotting.style import (
    ONE_COLUMN,
    TWO_COLUMNS,
    colours_of,
    known_vertices,
    name_clusters,
    tidy,
)
from braindive.space import Regions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# More names than this cannot be read in one column of a page.
_MOST_NAMES = 90
_LINE = 0.115


def draw_members(model: Any) -> Figure:
    """Draw the probabilities of each vertex as a bar, from the earliest cluster to the latest.

    Regions have their names beside them. The axes have one container of bars for each cluster.
    """
    from matplotlib import pyplot as plt

    order = members_in_order(model)
    space = model.space_
    if isinstance(space, Regions) and len(order) <= _MOST_NAMES:
        size = (ONE_COLUMN, _LINE * len(order) + 1.0)
        figure, ax = plt.subplots(figsize=size, layout="constrained")
        stack_regions(ax, model, list(space.names))
    else:
        figure, ax = plt.subplots(figsize=(TWO_COLUMNS, 1.9), layout="constrained")
        _stack(ax.bar, ax, model, order)
        ax.set_xlim(-0.5, len(order) - 0.5)
        ax.set_ylim(0, 1)
        ax.set_xlabel("places, ordered by cluster and by how sure it is")
        ax.set_ylabel("probability")
        tidy(ax)
    name_clusters(ax, model)
    return figure


def height_of_regions(model: Any) -> float:
    """Height in inches of the bars of all regions; 0 where they are too many to be read."""
    n_shown = len(members_in_order(model))
    return _LINE * n_shown if n_shown <= _MOST_NAMES else 0.0


def stack_regions(ax: Axes, model: Any, names: list[str]) -> None:
    """Draw the probabilities of each region as a bar with its name beside it.

    Parameters
    ----------
    ax : Axes
        Gets one container of bars for each cluster.
    model : fitted DIVE
        On a cohort of regions.
    names : list of str
        Of all regions, in the order of the columns.
    """
    order = members_in_order(model)
    _stack(ax.barh, ax, model, order)
    ax.set_yticks(range(len(order)), [names[place] for place in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability of the cluster")
    tidy(ax).tick_params(axis="y", labelsize=6, length=0)


def members_in_order(model: Any) -> IntArray:
    """Return places with data, by their most probable cluster, the surest of each first."""
    sure = model.responsibilities_.max(axis=1)
    order = np.lexsort((-sure, model.labels_))
    ordered: IntArray = order[known_vertices(model)[order]]
    return ordered


def _stack(bars: Any, ax: Axes, model: Any, order: IntArray) -> None:
    shares = model.responsibilities_[order]
    before = np.cumsum(shares, axis=1) - shares
    start = "left" if bars == ax.barh else "bottom"
    # Without gaps: a thousand places are as readable as ten.
    thick = 0.8 if start == "left" else 1.0
    for k, colour in enumerate(colours_of(model)):
        places = {start: before[:, k]}
        bars(np.arange(len(order)), shares[:, k], thick, color=colour, linewidth=0, **places)
