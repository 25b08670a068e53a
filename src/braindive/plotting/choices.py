"""Figures of the fit itself: convergence, the number of clusters, and rival models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from braindive.evaluation.selection import recommend_n_clusters
from braindive.evaluation.summary import RMSE
from braindive.evaluation.vertex_groups import BELIEVED
from braindive.plotting.people import draw_sample
from braindive.plotting.style import (
    GREY,
    GROUP_COLOURS,
    TWO_COLUMNS,
    check_fitted,
    figure_function,
    legend_above,
    one_axes,
    panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ENDINGS = {
    "converged": "converged",
    "cycling": "stopped, labels kept swapping,",
    "max_iter": "stopped unconverged",
}


@figure_function
def plot_convergence(model: Any, ax: Axes | None = None) -> Axes:
    """Draw the objective over the iterations of the fit, and how the fit ended.

    Parameters
    ----------
    model : fitted DIVE
        Whose fit.
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
    >>> ax = bd.plot_convergence(model)
    >>> bool((ax.lines[0].get_ydata() == model.objective_).all())
    True
    """
    from matplotlib.ticker import MaxNLocator

    check_fitted(model)
    ax = one_axes(ax)
    iterations = np.arange(1, len(model.objective_) + 1)
    ax.plot(iterations, model.objective_, "o-", color=GROUP_COLOURS[0])
    pseudo = "pseudo-" if model.spatial_strength_ > 0 else ""
    ax.set(xlabel="iteration", ylabel=f"log {pseudo}posterior")
    ax.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5))
    step = float(np.ptp(model.objective_)) / 5 or 1.0
    ax.yaxis.set_major_formatter(f"{{x:,.{max(0, -int(np.floor(np.log10(step))))}f}}")
    plural = "" if model.n_iter_ == 1 else "s"
    ax.set_title(f"{_ENDINGS[model.stop_reason_]} after {model.n_iter_} iteration{plural}")
    return ax


@figure_function
def plot_selection(frame: pd.DataFrame) -> Figure:
    """Draw why a number of clusters is recommended.

    Groups of the vertices' own curves (what counts is above the dashed line), information criteria,
    held-out likelihood and stability over the number of clusters.

    Parameters
    ----------
    frame : DataFrame
        Of `select_n_clusters`. What was left out there has no panel here.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import pandas as pd, braindive as bd
    >>> frame = pd.DataFrame({"aic": [9.0, 4.0, 3.0], "bic": [9.0, 5.0, 6.0]}, index=[2, 3, 4])
    >>> figure = bd.plot_selection(frame)
    >>> figure.get_suptitle()
    '3 clusters recommended (dotted)'
    """
    from matplotlib.ticker import MaxNLocator

    names = [name for name in ("groups_gain", "aic", "held_out", "rand") if name in frame]
    figure, axes = panels(1, len(names), (TWO_COLUMNS * max(len(names), 1.5) / 3, 2.3))
    blue, orange = GROUP_COLOURS[:2]
    numbers = frame.index.to_numpy()
    chosen = recommend_n_clusters(frame).n_clusters
    for ax, name in zip(axes[0], names, strict=True):
        if name == "groups_gain":
            gains = frame["groups_gain"].to_numpy(float)
            ax.plot(numbers, gains, "o-", color=blue)
            ax.axhline(BELIEVED, color=orange, linestyle="--", linewidth=1)
            ax.set_yscale("symlog", linthresh=10)
            ax.set_ylabel("gain over fewer groups")
            for number, gain, groups in zip(numbers, gains, frame["groups"], strict=True):
                text = f"{groups} distinct" if groups < number else ""
                ax.annotate(text, (number, gain), (0, 5), textcoords="offset points", fontsize=5)
        elif name == "aic":
            above = frame[["aic", "bic"]] - frame[["aic", "bic"]].min()
            ax.plot(numbers, above["aic"], "o-", color=blue, label="AIC")
            ax.plot(numbers, above["bic"], "s--", color=orange, label="BIC")
            ax.set_ylabel("above the lowest")
            ax.yaxis.set_major_formatter("{x:,.0f}")
            legend_above(ax, ax.lines)
        elif name == "held_out":
            held_out, error = frame[["held_out", "held_out_se"]].to_numpy(float).T
            ax.errorbar(numbers, held_out, error, fmt="o-", color=blue)
            ax.set_ylabel("held-out log-likelihood ± SE")
        else:
            agreement, error = frame[["rand", "rand_se"]].to_numpy(float).T
            rand = ax.errorbar(numbers, agreement, np.nan_to_num(error), fmt="o-", color=blue)
            rand.lines[0].set_label("adjusted Rand")
            dice = ax.plot(numbers, frame["dice"], "s--", color=orange, label="Dice")
            ax.set(ylabel="agreement between halves", ylim=(None, 1.02))
            legend_above(ax, [rand.lines[0], *dice])
        if chosen is not None:
            ax.axvline(chosen, color=GREY, linestyle=":", linewidth=1)
        ax.set_xlabel("number of clusters")
        ax.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    plural = "" if chosen == 1 else "s"
    title = f"{chosen} cluster{plural} recommended (dotted)"
    if chosen is None:
        title = "none recommended: no progression was found"
    figure.suptitle(title, fontsize=8)
    return figure


@figure_function
def plot_comparison(frame: pd.DataFrame) -> Figure:
    """Draw every fold of every model, one panel for each measure.

    Points are folds; bars are their means and standard deviations.

    Parameters
    ----------
    frame : DataFrame
        Of `compare_models`.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import pandas as pd, braindive as bd
    >>> frame = pd.DataFrame({
    ...     "model": ["DIVE"] * 3 + ["other"] * 3, "fold": [0, 1, 2] * 2, "measure": "MMSE",
    ...     "value": [0.5, 0.6, 0.4, 0.1, 0.2, 0.05],
    ... })
    >>> bd.plot_comparison(frame).axes[0].get_title()
    'MMSE'
    """
    measures, models = frame["measure"].unique(), frame["model"].unique()
    n_columns = min(len(measures), 5)
    n_rows = -(-len(measures) // n_columns)
    width = min(TWO_COLUMNS, 1.75 * max(n_columns, 2))
    figure, axes = panels(n_rows, n_columns, (width, 2.6 * n_rows))
    correlations = []
    for place, measure in enumerate(measures):
        ax = axes.flat[place]
        for position, model in enumerate(models):
            rows = (frame["measure"] == measure) & (frame["model"] == model)
            values = frame.loc[rows, "value"].dropna()
            error = float(values.std()) if len(values) > 1 else 0.0
            colour = GROUP_COLOURS[position % len(GROUP_COLOURS)]
            draw_sample(ax, position, values.to_numpy(float), colour, error)
        ax.set_xticks(range(len(models)), models, rotation=45, ha="right", rotation_mode="anchor")
        ax.set(title=measure, xlim=(-0.6, len(models) - 0.4))
        if measure == RMSE:
            ax.set_ylabel("error of prediction")
        else:
            correlations.append(ax)
            if place % n_columns == 0:
                ax.set_ylabel("correlation (Spearman)")
    # One scale for all correlations, so that measures can be compared.
    for ax in correlations[1:]:
        ax.sharey(correlations[0])
    if correlations:
        correlations[0].autoscale()
        correlations[0].set_xlim(-0.6, len(models) - 0.4)
    for ax in axes.flat[len(measures) :]:
        ax.remove()
    return figure
