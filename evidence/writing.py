"""Tables, figures and pages on disk: each is there as a whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from braindive.io.archive import replace_file
from sizes import Size

Rows = dict[str, list[dict[str, Any]]]


def markdown(table: pd.DataFrame, digits: int = 3) -> str:
    """A table in Markdown, its index first."""
    flat = table.reset_index()
    lines = [list(map(str, flat.columns)), ["---"] * len(flat.columns)]
    lines += [[_cell(value, digits) for value in row] for row in flat.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any, digits: int) -> str:
    if isinstance(value, float):
        return (
            "" if np.isnan(value) else f"{value:.{digits}f}" if abs(value) < 100 else f"{value:.0f}"
        )
    return str(value)


def command(size: Size, page: str) -> str:
    """How a page was made."""
    return (
        f"Made at {size.name} size by `python evidence/run.py --output docs/evidence --only "
        f"{page} --size {size.name}`."
    )


def save(drawn: Any, path: Path) -> None:
    """A figure, the same bytes for the same numbers."""
    figure = drawn.figure if isinstance(drawn, Axes) else drawn
    with replace_file(path) as temporary:
        figure.savefig(temporary, dpi=130, format="png", metadata={"Software": None})
    plt.close(figure)


def write(path: Path, text: str) -> None:
    """A page."""
    with replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_table(table: pd.DataFrame, path: Path) -> None:
    """The rows behind a page."""
    with replace_file(path) as temporary:
        table.to_csv(temporary, sep="\t", index=False)
