"""Figures of where in the brain: clusters, and the expected course."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from braindive.errors import ParameterError
from braindive.io.anatomy import paint_regions, region_names
from braindive.palette import low_is_dark
from braindive.plotting.drawing import NO_VALUE, Picture, picture_of
from braindive.plotting.members import draw_members, height_of_regions, stack_regions
from braindive.plotting.style import (
    LEGEND,
    MOST_IN_LEGEND,
    ONE_COLUMN,
    TWO_COLUMNS,
    check_fitted,
    cluster_handles,
    cluster_map,
    colours_of,
    figure_function,
    known_vertices,
    legend_columns,
    name_bar,
    value_label,
)
from braindive.space import Regions, Surface, Volume

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Heights in inches of what surrounds the brains.
TITLE, BAR, _LEGEND_LINE = 0.22, 0.48, 0.16
# Width in inches of a letter of the regions' names.
_LETTER = 0.047
_PERCENTILES = (5, 35, 65, 95)


@figure_function
def plot_clusters(model: Any) -> Figure:
    """Draw the clusters on the brain, in colours from the earliest to the latest.

    A surface is shown from its lateral and medial sides, a volume in slices. Regions of a table
    are painted on the cortex by their Desikan-Killiany or Destrieux names, with bars of their
    probabilities below; other regions, and places without a space, are bars alone.

    Parameters
    ----------
    model : fitted DIVE
        Vertices that belong nowhere are grey.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> space = bd.Volume("block", np.ones((4, 5, 4), dtype=bool), 10 * np.eye(4))
    >>> cohort = bd.simulate_cohort(20, space=space, noise=0.1, random_state=0).cohort
    >>> model = bd.DIVE(n_clusters=2, n_init=1, personal=False, random_state=0).fit(cohort)
    >>> figure = bd.plot_clusters(model)
    >>> figure.axes[0].get_label()
    'x = 10 mm'
    """
    from matplotlib import pyplot as plt
    from matplotlib.cm import ScalarMappable
    from matplotlib.patches import Patch

    check_fitted(model)
    space = model.space_
    if not isinstance(space, (Surface, Volume)) and paint_regions(space) is None:
        return draw_members(model)
    picture = picture_of(space)
    colours = colours_of(model)
    in_legend = len(colours) <= MOST_IN_LEGEND
    handles = cluster_handles(model)
    if isinstance(space, Regions) or not known_vertices(model).all():
        handles.append(Patch(color=NO_VALUE, label="no data"))
    n_columns = legend_columns([handle.get_label() for handle in handles], ONE_COLUMN)
    n_lines = 1 + -(-len(handles) // n_columns)
    below = _LEGEND_LINE * n_lines + 0.1 if in_legend else BAR
    bars = height_of_regions(model) if isinstance(space, Regions) else 0.0
    beside = bars + BAR if bars else 0.0
    height = height_of(picture, ONE_COLUMN) + beside + below + TITLE
    figure = plt.figure(figsize=(ONE_COLUMN, height))
    colour_map, norm = cluster_map(colours)
    labels = np.where(known_vertices(model), model.labels_, np.nan)
    draw_brain(
        figure, picture, labels, colour_map, norm, (0, 1), below + beside, TITLE, labelled=True
    )
    if bars:
        names = region_names(space) or []
        left = min(0.65, _LETTER * max(map(len, names)) / ONE_COLUMN + 0.03)
        place = (left, (below + BAR - 0.08) / height, 0.97 - left, bars / height)
        stack_regions(figure.add_axes(place), model, names)
    if in_legend:
        figure.legend(
            handles=handles, title="cluster", loc="lower center", ncols=n_columns, **LEGEND
        )
    else:
        name_bar(colour_bar(figure, ScalarMappable(norm, colour_map)), model)
    return figure


@figure_function
def plot_pathology(model: Any, scores: Sequence[float] | None = None) -> Figure:
    """Draw a row of brains with the expected value at some scores.

    Parameters
    ----------
    model : fitted DIVE
        Fitted on a cohort with a surface or a volume.
    scores : sequence of float, optional
        From left to right; by default four across those of the training visits.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> space = bd.Volume("block", np.ones((4, 5, 4), dtype=bool), 10 * np.eye(4))
    >>> cohort = bd.simulate_cohort(20, space=space, noise=0.1, random_state=0).cohort
    >>> model = bd.DIVE(n_clusters=2, n_init=1, personal=False, random_state=0).fit(cohort)
    >>> figure = bd.plot_pathology(model, scores=[-1, 1])
    >>> figure.texts[1].get_text()
    'score +1.0'
    """
    from matplotlib import pyplot as plt
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    check_fitted(model)
    if scores is None:
        scores = np.percentile(model.scores_, _PERCENTILES).tolist()
    at = np.asarray(scores, dtype=float)
    if at.ndim != 1 or len(at) == 0 or not np.isfinite(at).all():
        raise ParameterError(f"scores must be a list of at least one number; got {scores!r}.")
    picture = picture_of(model.space_, n_cuts=1)
    expected = model.trajectories_.evaluate(at) @ model.responsibilities_.T
    expected[:, ~known_vertices(model)] = np.nan
    reverse = low_is_dark(model.trajectories_.change(model.scores_), model.responsibilities_)
    colour_map = plt.get_cmap("YlOrRd_r" if reverse else "YlOrRd")
    norm = Normalize(float(np.nanmin(expected)), float(np.nanmax(expected)))
    brain = 1.75 if picture.n_columns > 1 else 1.1
    width = min(TWO_COLUMNS, brain * max(len(at), 2))
    size = (width, height_of(picture, width / len(at)) + TITLE + BAR)
    figure = plt.figure(figsize=size)
    name = "score" if model.staging else "year"
    for column, (score, values) in enumerate(zip(at, expected, strict=True)):
        sides = column / len(at), (column + 1) / len(at)
        draw_brain(figure, picture, values, colour_map, norm, sides, BAR, TITLE)
        text = f"{name} {score:+.1f}".replace("-", "\N{MINUS SIGN}")
        figure.text(sum(sides) / 2, 1 - 0.05 / size[1], text, ha="center", va="top")
    bar = colour_bar(figure, ScalarMappable(norm, colour_map))
    bar.set_label(f"expected {value_label(model)}")
    return figure


@figure_function
def plot_midpoints(model: Any) -> Figure:
    """Draw when each vertex is half-way through its change, early ones dark.

    Parameters
    ----------
    model : fitted DIVE
        Fitted on a cohort with a surface or a volume; not with `vertices="alike"`.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> space = bd.Volume("block", np.ones((4, 5, 4), dtype=bool), 10 * np.eye(4))
    >>> cohort = bd.simulate_cohort(20, space=space, noise=0.1, random_state=0).cohort
    >>> model = bd.DIVE(n_clusters=2, n_init=1, personal=False, random_state=0).fit(cohort)
    >>> figure = bd.plot_midpoints(model)
    >>> figure.axes[-1].get_xlabel()
    'score at which a vertex is half-way'
    """
    from matplotlib import pyplot as plt
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    check_fitted(model)
    if not hasattr(model, "vertex_midpoints_"):
        raise ParameterError(
            'a model with vertices="alike" knows no vertex of its own; fit it with '
            'vertices="differ".'
        )
    picture = picture_of(model.space_)
    values = model.vertex_midpoints_
    norm = Normalize(*np.nanpercentile(values, [2, 98]))
    colour_map = plt.get_cmap("YlOrRd_r")
    size = (ONE_COLUMN, height_of(picture, ONE_COLUMN) + BAR)
    figure = plt.figure(figsize=size)
    draw_brain(figure, picture, values, colour_map, norm, (0.0, 1.0), BAR, 0.0)
    bar = colour_bar(figure, ScalarMappable(norm, colour_map))
    bar.set_label("score at which a vertex is half-way")
    return figure


def height_of(picture: Picture, width: float) -> float:
    """Height in inches of a picture of that width."""
    return sum(picture.heights) * width / picture.n_columns


def draw_brain(
    figure: Figure,
    picture: Picture,
    values: Any,
    colour_map: Any,
    norm: Any,
    sides: tuple[float, float],
    below: float,
    above: float,
    labelled: bool = False,
) -> None:
    """Draw a picture between two sides of a figure, leaving inches above and below it free."""
    height = figure.get_size_inches()[1]
    gap = 0.015 * (sides[1] - sides[0])
    grid = figure.add_gridspec(
        len(picture.heights),
        picture.n_columns,
        height_ratios=picture.heights,
        left=sides[0] + gap,
        right=sides[1] - gap,
        bottom=below / height,
        top=1 - above / height,
        wspace=0.04,
        hspace=0.15 if labelled else 0.04,
    )
    places = product(range(len(picture.heights)), range(picture.n_columns))
    axes = [figure.add_subplot(grid[place]) for place in places]
    picture.draw(axes, values, colour_map, norm)
    if labelled:
        for ax in axes:
            ax.set_title(str(ax.get_label()), fontsize=6, pad=1)


def colour_bar(figure: Figure, mappable: Any) -> Any:
    """Add a horizontal colour bar below the brains."""
    height = figure.get_size_inches()[1]
    place = figure.add_axes((0.3, 0.36 / height, 0.4, 0.07 / height))
    bar = figure.colorbar(mappable, cax=place, orientation="horizontal")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, width=0.6, length=2)
    return bar
