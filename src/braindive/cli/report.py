"""The command that turns a fit into a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import braindive as bd
from braindive.cli.console import say
from braindive.cli.inputs import open_cohort_for
from braindive.cli.outputs import STANDARD_OUTPUT, OverwriteOption, check_output_file


def report(
    model: Annotated[Path, typer.Argument(help="Fitted model, such as fit.dive.")],
    to: Annotated[
        Path, typer.Option("--output", "-o", help="Page to write; - for the standard output.")
    ] = Path("report.html"),
    columns: Annotated[
        str | None,
        typer.Option(help="Columns of the cohort's table to show for each person: age,sex."),
    ] = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Numbers in place of the people's ids.")
    ] = False,
    measure: Annotated[
        str | None,
        typer.Option(help='What the values are, with their unit: "cortical thickness (mm)".'),
    ] = None,
    cohort: Annotated[
        Path | None,
        typer.Option(
            help="The training cohort, for standard errors; only models that were saved before "
            "fits kept them need it."
        ),
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Write one page with the brain, the trajectories and the people; it needs no network.

    Example: braindive report fit.dive -o report.html

    The page holds the id (or with --anonymous a number), scores, speed and
    diagnosis of each person, and the columns that --columns names; nothing
    else of the table. Share it as you would share a table of that.
    """
    if to != STANDARD_OUTPUT:
        check_output_file(to, [model, cohort], overwrite)
    fitted = bd.load_model(model)
    opened = None if cohort is None else open_cohort_for(fitted, cohort)
    wanted = [name.strip() for name in (columns or "").split(",") if name.strip()]
    page = bd.build_report(fitted, opened, columns=wanted, anonymous=anonymous, measure=measure)
    if to == STANDARD_OUTPUT:
        typer.echo(page.html, nl=False)
        return
    page.save(to)
    say(f"Wrote {to} ({to.stat().st_size / 1e6:.1f} MB); open it in any browser.")
