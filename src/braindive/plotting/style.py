"""How figures look: sizes of journal columns, small type, colours that everybody can tell apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from braindive.arrays import BoolArray
from braindive.cluster_names import display_names
from braindive.errors import BraindiveError, NotFittedError, ParameterError
from braindive.palette import cluster_colours
from braindive.score_names import name_score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")

# Widths of one and of two columns of a journal, 89 and 183 mm, in inches.
ONE_COLUMN, TWO_COLUMNS = 3.5, 7.2
# Okabe and Ito's colours, for groups and models; clusters have colours of their own.
GROUP_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
GREY = "#666666"
SCORE = "disease progression score"
# More clusters than this are named by a colour bar instead of a legend.
MOST_IN_LEGEND = 8
_SMALL = 7
# Inches that a letter and the mark of an entry take in a legend.
_LETTER, _HANDLE = 0.06, 0.3
LEGEND: dict[str, Any] = {
    "alignment": "left",
    "borderaxespad": 0.2,
    "columnspacing": 1.0,
    "handlelength": 1.0,
    "title_fontsize": _SMALL,
}
_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": _SMALL,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,
}


def figure_function(function: Callable[P, T]) -> Callable[P, T]:
    """Draw in the house style, and say how to install matplotlib where it is missing."""

    @wraps(function)
    def styled(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            import matplotlib
        except ImportError:
            raise BraindiveError(
                f"{function.__name__} needs matplotlib; install it with "
                "pip install 'braindive[plot]'."
            ) from None
        with matplotlib.rc_context(_STYLE):
            return function(*args, **kwargs)

    return styled


def one_axes(ax: Axes | None, height: float = 2.4) -> Axes:
    """Return the given axes, or new ones of one column."""
    if ax is None:
        from matplotlib import pyplot as plt

        _, ax = plt.subplots(figsize=(ONE_COLUMN, height), layout="constrained")
    return tidy(ax)


def panels(
    n_rows: int, n_columns: int, size: tuple[float, float], **options: Any
) -> tuple[Figure, np.ndarray]:
    """Return a new figure and its axes, (n_rows, n_columns)."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=size, layout="constrained", squeeze=False, **options
    )
    for ax in axes.flat:
        tidy(ax)
    return figure, axes


def tidy(ax: Axes) -> Axes:
    """Give ticks their size now: those made at drawing time no longer see the house style."""
    ax.tick_params(labelsize=_SMALL, width=0.6, length=2.5)
    return ax


def check_fitted(model: Any) -> None:
    """Refuse a model that has nothing to show."""
    if not hasattr(model, "trajectories_"):
        raise NotFittedError("a figure needs a fitted model; call fit(cohort) first.")


def check_staged(model: Any) -> None:
    """Refuse a model whose subjects have no stage."""
    check_fitted(model)
    if not model.staging:
        raise ParameterError("a model without staging has no stages to show; use staging=True.")


def colours_of(model: Any) -> list[str]:
    """Colour of each cluster, from the earliest to the latest."""
    return cluster_colours(len(model.trajectories_))


def names_of(model: Any) -> list[str]:
    """Name of each cluster under a title that says "cluster", and which end is which."""
    names = display_names(model, word="")
    if model.assignments is None and len(names) > 1:
        names[0] += " (earliest)"
        names[-1] += " (latest)"
    return names


def known_vertices(model: Any) -> BoolArray:
    """Return the vertices that belong to clusters; others had no data or were left out."""
    known: BoolArray = model.internal_.known
    return known


def score_label(model: Any) -> str:
    """Name and unit of the horizontal axis."""
    return name_score(model, SCORE if model.staging else "time")


def value_label(model: Any) -> str:
    """Name and unit of the values."""
    prepared = model.preprocessing_
    return "z-score" if prepared is not None and prepared.standardise else "value"


def name_clusters(ax: Axes, model: Any) -> None:
    """Legend above the axes; beyond a handful of clusters a colour bar beside them."""
    from matplotlib.cm import ScalarMappable

    colours = colours_of(model)
    if len(colours) <= MOST_IN_LEGEND:
        legend_above(ax, cluster_handles(model), "cluster")
        return
    colour_map, norm = cluster_map(colours)
    name_bar(ax.figure.colorbar(ScalarMappable(norm, colour_map), ax=ax, pad=0.02), model)


def cluster_handles(model: Any) -> list[Any]:
    """Entries of a legend of the clusters."""
    from matplotlib.patches import Patch

    pairs = zip(colours_of(model), names_of(model), strict=True)
    return [Patch(color=colour, label=name) for colour, name in pairs]


def legend_above(ax: Axes, handles: Sequence[Any], title: str | None = None) -> None:
    """Legend above the axes, in as many columns as fit their width."""
    width = ax.get_position().width * ax.figure.bbox.width / ax.figure.dpi
    ax.legend(
        handles=handles,
        title=title,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=legend_columns([handle.get_label() for handle in handles], width),
        **LEGEND,
    )


def legend_columns(labels: Sequence[str], width: float) -> int:
    """Most columns of a legend that fit into so many inches."""
    for n_columns in range(len(labels), 1, -1):
        n_rows = -(-len(labels) // n_columns)
        longest = [
            max(len(label) for label in labels[start : start + n_rows])
            for start in range(0, len(labels), n_rows)
        ]
        if sum(_LETTER * letters + _HANDLE for letters in longest) <= width:
            return n_columns
    return 1


def cluster_map(colours: list[str]) -> tuple[Any, Any]:
    """Colour map and norm that give cluster k its colour."""
    from matplotlib.colors import BoundaryNorm, ListedColormap

    n_clusters = len(colours)
    return ListedColormap(colours), BoundaryNorm(np.arange(n_clusters + 1) - 0.5, n_clusters)


def name_bar(bar: Any, model: Any) -> None:
    """Number the clusters of a colour bar from 1, as many as there is room for.

    Many regions have no room for their names: they are numbered by their rank, and called so.
    """
    n_clusters = len(model.trajectories_)
    shown = range(0, n_clusters, -(-n_clusters // 7))
    bar.set_ticks(shown, labels=[str(k + 1) for k in shown], minor=False)
    bar.minorticks_off()
    what = "cluster" if model.assignments is None else "rank of the region"
    bar.set_label(f"{what}, from earliest to latest")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=_SMALL, length=0)
