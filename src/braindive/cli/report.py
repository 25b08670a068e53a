"""The command that turns a fit into a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import braindive as bd
from braindive.cli.console import say
from braindive.cli.inputs import check_output_file, open_cohort_for


def report(
    model: Annotated[Path, typer.Argument(help="Fitted model, such as fit.dive.")],
    to: Annotated[Path, typer.Option("--output", "-o", help="Page to write.")] = Path(
        "report.html"
    ),
    cohort: Annotated[
        Path | None,
        typer.Option(help="The training cohort, for the standard errors of the scores."),
    ] = None,
) -> None:
    """Write one page with the brain, the trajectories and the people; it needs no network.

    Example: braindive report fit.dive -o report.html
    """
    check_output_file(to)
    fitted = bd.load_model(model)
    opened = None if cohort is None else open_cohort_for(fitted, cohort)
    bd.build_report(fitted, opened).save(to)
    say(f"Wrote {to} ({to.stat().st_size / 1e6:.1f} MB); open it in any browser.")
