"""The braindive command: a thin layer over the public functions."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
import typer.core

import braindive as bd
from braindive.cli.adni import adni
from braindive.cli.cohorts import cohorts
from braindive.cli.console import (
    interruptible,
    messages,
    orderly_termination,
    readable_warnings,
    say,
)
from braindive.cli.demo import demo
from braindive.cli.evidence import compare, groups, select
from braindive.cli.fitting import fit
from braindive.cli.outputs import no_empty_folders_left
from braindive.cli.report import report
from braindive.cli.study import check, pack, simulate
from braindive.cli.using import add_site, change, maps, predict, stage

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class _Command(typer.core.TyperCommand):
    """A command whose help names no type for flags, which take no value."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"braindive {bd.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version and exit.",
            callback=_show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Model disease progression on the brain itself."""


for command in (
    demo,
    simulate,
    check,
    pack,
    adni,
    fit,
    stage,
    change,
    predict,
    add_site,
    maps,
    select,
    compare,
    groups,
    cohorts,
    report,
):
    app.command(cls=_Command)(interruptible(no_empty_folders_left()(command)))


def run() -> None:
    """Run a command; bad input and full disks end in one readable line."""
    try:
        with orderly_termination(), readable_warnings():
            app()
    except (bd.BraindiveError, OSError) as error:
        messages.print("[red]Error:[/red]", end=" ")
        say(str(error))
        sys.exit(1)
    except KeyboardInterrupt:  # before a command began
        sys.exit(130)


if __name__ == "__main__":
    run()
