"""Figures of what moves people, and of what differs between two cohorts, with intervals."""

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


@figure_function
def plot_cohorts(found: Any) -> Figure:
    """Draw when each area is half-way in two cohorts, and how far apart that is.

    Parameters
    ----------
    found : CohortComparison
        Of `compare_cohorts`.

    Returns
    -------
    Figure
        Midpoints of each area in both cohorts, from the mean of all areas, and their differences;
        lines are 95 % intervals.

    Examples
    --------
    >>> import braindive as bd
    >>> a, b = (
    ...     bd.simulate_cohort(40, n_vertices=40, noise=0.3, random_state=seed).cohort
    ...     for seed in (0, 1)
    ... )
    >>> model = bd.DIVE(n_init=1, personal=False, random_state=0)
    >>> areas = [0, 1] * 20
    >>> found = bd.compare_cohorts(a, b, model, areas=areas, n_permutations=9, random_state=0)
    >>> [ax.get_xlabel() for ax in bd.plot_cohorts(found).axes]
    ['half-way, from the mean of all areas (years)', 'second less first (years)']
    """
    from matplotlib import pyplot as plt

    areas = getattr(found, "areas", None)
    if areas is None:
        raise ParameterError("plot_cohorts draws what compare_cohorts returns.")
    unit = " (years)" if score_is_in_years(found.models["a"]) else ""
    figure, axes = plt.subplots(
        1, 2, figsize=(TWO_COLUMNS, _REST + 0.3 + _ROW * len(areas)), layout="constrained"
    )
    places = list(range(len(areas) - 1, -1, -1))
    for cohort, shift, colour in (("a", 0.12, GROUP_COLOURS[0]), ("b", -0.12, GROUP_COLOURS[1])):
        reach = 1.96 * areas[f"midpoint_{cohort}_se"]
        label = "first cohort" if cohort == "a" else "second cohort"
        axes[0].errorbar(
            areas[f"midpoint_{cohort}"],
            [place + shift for place in places],
            xerr=reach,
            fmt="o",
            color=colour,
            label=label,
        )
    axes[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    axes[1].axvline(0.0, color=GREY, lw=0.8, zorder=0)
    for place, (_, row) in zip(places, areas.iterrows(), strict=True):
        axes[1].plot([row["midpoint_low"], row["midpoint_high"]], [place, place], color=GREY)
        axes[1].plot(row["midpoint_difference"], place, "o", color="black")
    axes[0].set_xlabel(f"half-way, from the mean of all areas{unit}")
    axes[1].set_xlabel(f"second less first{unit}")
    for ax, names in zip(axes, (list(areas.index), [""] * len(areas)), strict=True):
        ax.set_yticks(places, names)
        ax.set_ylim(-0.6, len(areas) - 0.4)
        ax.tick_params(axis="y", length=0)
    return figure
