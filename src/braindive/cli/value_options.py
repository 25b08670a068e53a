"""Options of every command that does something to the values before it fits."""

from __future__ import annotations

from typing import Annotated

import typer

# The group of these options in the help of a command.
_VALUES = "What is done to the values first"

StandardiseOption = Annotated[
    bool,
    typer.Option(
        "--standardise", help="Z-score each vertex to the controls.", rich_help_panel=_VALUES
    ),
]
CovariatesOption = Annotated[
    str,
    typer.Option(
        help="Columns to regress out as in controls, such as age,sex,site.",
        rich_help_panel=_VALUES,
    ),
]
AverageOption = Annotated[
    bool,
    typer.Option("--average-hemispheres", help="Average left and right.", rich_help_panel=_VALUES),
]
ReferenceOption = Annotated[
    str,
    typer.Option(
        help="Visits of controls that they are z-scored to: controls for all, or baseline for "
        "the first of each.",
        rich_help_panel=_VALUES,
    ),
]
ZerosOption = Annotated[
    bool,
    typer.Option(
        "--drop-zeros",
        help="Drop vertices that are 0 at any visit: FreeSurfer's thickness off the cortex.",
        rich_help_panel=_VALUES,
    ),
]
SmoothOption = Annotated[
    int, typer.Option(help="Rounds of neighbour averaging.", rich_help_panel=_VALUES)
]
