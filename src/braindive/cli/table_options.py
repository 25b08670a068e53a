"""Options of every command that reads a study's table: which columns, which files, which rows."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

import braindive as bd
from braindive.io.freesurfer import FreeSurferMaps

_TABLE, _FREESURFER = "The table", "Maps in FreeSurfer's folders"


@dataclass(frozen=True)
class TableOptions:
    """How to read a table, as the options say it.

    Parameters
    ----------
    id, time, values, controls : str, optional
        Columns, as `read_cohort` takes them; several values with commas between.
    root : str, optional
        Folder with the files that the table names.
    skip_bad : bool
        Whether to leave out bad rows.
    freesurfer : str, optional
        FreeSurfer's SUBJECTS_DIR.
    measure, fwhm, target : str, int, str
        Which maps of it.
    """

    id: str | None = None
    time: str | None = None
    values: str | None = None
    controls: str | None = None
    root: str | None = None
    skip_bad: bool = False
    freesurfer: str | None = None
    measure: str = "thickness"
    fwhm: int = 0
    target: str = "fsaverage"

    def given(self) -> list[str]:
        """Options that were given, as they are written."""
        asked = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        return [f"--{name.replace('_', '-')}" for name in asked]

    def arguments(self) -> dict[str, Any]:
        """The same as arguments of `read_cohort` and `pack_cohort`."""
        values: Any = self.values
        if values is not None and "," in values:
            values = [name.strip() for name in values.split(",") if name.strip()]
        maps = None
        if self.freesurfer is not None:
            maps = FreeSurferMaps(self.freesurfer, self.measure, self.fwhm, self.target)
        elif {"--measure", "--fwhm", "--target"} & set(self.given()):
            raise bd.ParameterError("--measure, --fwhm and --target belong to --freesurfer.")
        return {
            "id": self.id,
            "times": self.time,
            "values": values,
            "controls": self.controls,
            "root": self.root,
            "skip_bad": self.skip_bad,
            "freesurfer": maps,
        }


def _option(help: str, panel: str, **more: Any) -> Any:  # noqa: A002
    return typer.Option(help=help, rich_help_panel=panel, show_default=False, **more)


# The annotation of each field of `TableOptions`, in the order of the help.
_ANNOTATIONS: dict[str, Any] = {
    "id": Annotated[
        str | None, _option("Column with the participants, where its name does not tell.", _TABLE)
    ],
    "time": Annotated[str | None, _option("Column with years, ages or dates.", _TABLE)],
    "values": Annotated[
        str | None,
        _option(
            "Columns with files or with measurements: names with commas, or a pattern such as "
            "'thickness_*'.",
            _TABLE,
        ),
    ],
    "controls": Annotated[
        str | None,
        _option("Column that tells the controls, or a condition: 'group == HC'.", _TABLE),
    ],
    "root": Annotated[
        Path | None, _option("Folder with the files, where it is not the table's own.", _TABLE)
    ],
    "skip_bad": Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Leave out rows with a problem, and list them.",
            rich_help_panel=_TABLE,
        ),
    ],
    "freesurfer": Annotated[
        Path | None, _option("FreeSurfer's SUBJECTS_DIR with the maps of the visits.", _FREESURFER)
    ],
    "measure": Annotated[
        str, typer.Option(help="Measure of the maps.", rich_help_panel=_FREESURFER)
    ],
    "fwhm": Annotated[
        int, typer.Option(help="Smoothing of the maps in mm.", rich_help_panel=_FREESURFER)
    ],
    "target": Annotated[
        str,
        typer.Option(
            help="Subject on whose surface the maps are, such as fsaverage5.",
            rich_help_panel=_FREESURFER,
        ),
    ],
}


def reads_table(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a table, which it takes as its last argument, `table`.

    Parameters
    ----------
    command : callable
        With an argument `table`, a `TableOptions`.

    Returns
    -------
    callable
        With one argument for each option instead.
    """
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    defaults = {each.name: each.default for each in fields(TableOptions)}
    own = [
        parameter.replace(annotation=hints.get(name, parameter.annotation))
        for name, parameter in signature.parameters.items()
        if name != "table"
    ]
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=defaults[name],
            annotation=annotation,
        )
        for name, annotation in _ANNOTATIONS.items()
    ]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in _ANNOTATIONS}
        paths = {name: str(chosen[name]) for name in ("root", "freesurfer") if chosen[name]}
        command(**given, table=TableOptions(**{**chosen, **paths}))

    parameters = sorted(own + added, key=lambda each: each.default is not inspect.Parameter.empty)
    changed: Any = with_options
    changed.__signature__ = signature.replace(parameters=parameters)
    changed.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_options
