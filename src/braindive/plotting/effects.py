"""Figures of what moves people: effects of covariates with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from braindive.errors import ParameterError
from braindive.plotting.style import GREY, GROUP_COLOURS, TWO_COLUMNS, check_fitted, figure_function
from braindive.score_names import score_is_in_years

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches that a row of the figure takes, and its axes and labels.
_ROW, _REST = 0.24, 0.75


@figure_function
def plot_effects(model: Any) -> Figure:
    """Draw the effects of covariates on shift and speed with 95 % intervals.

    Parameters
    ----------
    model : fitted DIVE
        With `shift_on` or `speed_on`.

    Returns
    -------
    Figure
        A panel for the shift, by how much people are ahead at the first visit, and one for the
        speed, how many times as fast they are; without effect is the grey line.

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(
    ...     40, n_vertices=40, noise=0.3, carrier_share=0.4, carriers_shift=5, random_state=0
    ... ).cohort
    >>> model = bd.DIVE(2, n_init=1, personal=False, shift_on=["apoe4"], random_state=0).fit(cohort)
    >>> [ax.get_xlabel() for ax in bd.plot_effects(model).axes]
    ['years ahead at the first visit']
    """
    from matplotlib import pyplot as plt

    check_fitted(model)
    effects = getattr(model, "effects_", None)
    if effects is None:
        raise ParameterError(
            "this model has no covariates; fit one with shift_on=[...] or speed_on=[...]."
        )
    unit = "years" if score_is_in_years(model) else "score"
    labels = {
        "shift": f"{unit} ahead at the first visit",
        "speed": "times as fast",
    }
    shown = [name for name in labels if (effects["parameter"] == name).any()]
    most = max(int((effects["parameter"] == name).sum()) for name in shown)
    figure, axes = plt.subplots(
        1,
        len(shown),
        figsize=(TWO_COLUMNS * len(shown) / 2, _REST + _ROW * most),
        squeeze=False,
        layout="constrained",
    )
    for ax, name in zip(axes[0], shown, strict=True):
        _draw(ax, effects[effects["parameter"] == name], name == "speed")
        ax.set_xlabel(labels[name])
    return figure


def _draw(ax: Axes, rows: Any, ratio: bool) -> None:
    """One line for each effect, the first on top."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    ax.axvline(1.0 if ratio else 0.0, color=GREY, lw=0.8, zorder=0)
    places = range(len(rows) - 1, -1, -1)
    for place, (_, row) in zip(places, rows.iterrows(), strict=True):
        ax.plot([row["low"], row["high"]], [place, place], color=GROUP_COLOURS[0])
        ax.plot(row["estimate"], place, "o", color=GROUP_COLOURS[0])
    per_one = rows["contrast"] == "per 1"
    names = rows["covariate"].where(per_one, rows["covariate"] + ": " + rows["contrast"])
    ax.set_yticks(list(places), list(names.where(~per_one, names + ", for each 1")))
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.tick_params(axis="y", length=0)
    if ratio:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.xaxis.set_minor_formatter(NullFormatter())
