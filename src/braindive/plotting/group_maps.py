"""Figures of what was measured in groups of people, before any model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from braindive.cohort import Cohort
from braindive.cohort.table_columns import find_column
from braindive.evaluation.group_maps import GroupMap, group_maps
from braindive.plotting.brains import BAR, TITLE, colour_bar, draw_brain, height_of
from braindive.plotting.drawing import picture_of
from braindive.plotting.style import TWO_COLUMNS, figure_function

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABELS = {
    "mean": "mean value",
    "difference": "difference from {reference}",
    "slope": "change per year within people",
}
# Share of the vertices at either end that may lie beyond the colours: single noisy vertices would
# else leave one colour for all others.
_TAIL = 1.0


@figure_function
def plot_group_maps(
    cohort: Cohort, by: str = "diagnosis", show: GroupMap = "mean", reference: Any = None
) -> Figure:
    """Draw a brain for each group of people: its mean, its difference or its change per year.

    What was measured, before any model. Differences and changes have white for none.

    Parameters
    ----------
    cohort : Cohort
        With a surface or a volume.
    by, show, reference
        As for `group_maps`.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> space = bd.Volume("block", np.ones((4, 5, 4), dtype=bool), 10 * np.eye(4))
    >>> cohort = bd.simulate_cohort(
    ...     n_subjects=20, space=space, control_share=0.4, random_state=0
    ... ).cohort
    >>> figure = bd.plot_group_maps(cohort, show="difference")
    >>> figure.axes[-1].get_xlabel()
    'difference from CN'
    """
    from matplotlib import pyplot as plt
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    maps = group_maps(cohort, by, show, reference)
    picture = picture_of(cohort.space, n_cuts=1)
    values = maps.to_numpy()
    low, high = np.nanpercentile(values, [_TAIL, 100 - _TAIL])
    if show != "mean":
        high = max(abs(low), abs(high)) or 1.0
        low = -high
    norm = Normalize(float(low), float(high))
    colour_map = plt.get_cmap("viridis" if show == "mean" else "RdBu")
    width = min(TWO_COLUMNS, 1.75 * max(len(maps), 2))
    size = (width, height_of(picture, width / len(maps)) + TITLE + BAR)
    figure = plt.figure(figsize=size)
    for column, (name, row) in enumerate(zip(maps.index, values, strict=True)):
        sides = column / len(maps), (column + 1) / len(maps)
        draw_brain(figure, picture, row, colour_map, norm, sides, BAR, TITLE)
        figure.text(sum(sides) / 2, 1 - 0.05 / size[1], str(name), ha="center", va="top")
    bar = colour_bar(figure, ScalarMappable(norm, colour_map))
    others = set(cohort.table[find_column(cohort.table, by)].dropna().unique()) - set(maps.index)
    bar.set_label(_LABELS[show].format(reference=", ".join(map(str, others))))
    return figure
