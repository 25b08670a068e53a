"""Inputs that several commands share."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

import braindive as bd
from braindive.cli.console import messages, readable_notes, say
from braindive.cli.progress import count_progress
from braindive.cli.table_options import TableOptions
from braindive.io.columns import find_columns
from braindive.io.paths import suggest_path
from braindive.io.sheets import open_sheet
from braindive.io.study_columns import read_visits
from braindive.io.times import (
    TIME_COLUMNS,
    WRITTEN_TIMES,
    column_of_same_kind,
    column_with_times,
)

_TABLES = (".tsv", ".csv", ".xlsx")


def open_cohort(
    path: Path,
    space: str | bd.Space | None = None,
    regions: Sequence[Path | str] = (),
    table: TableOptions | None = None,
) -> bd.Cohort:
    """Open a packed cohort, or read the scans of a table, or regions that lie beside it."""
    options = table or TableOptions()
    if path.is_dir():
        given = [*(["--regions"] if regions else []), *options.given()]
        if given:
            raise bd.ParameterError(
                f"{' and '.join(given)} belongs to a table of visits; {path} is packed, and holds "
                "its values."
            )
        if not (path / "zarr.json").exists() and (tables := _tables_in(path)):
            raise bd.ParameterError(
                f"{path} is a folder, and no packed cohort; give its table: {', or '.join(tables)}"
            )
        opened = bd.open_packed(path)
        if isinstance(space, str) and getattr(opened.space, "name", None) != space:
            held = "none" if opened.space is None else opened.space.name
            raise bd.ParameterError(
                f"--space {space} belongs to a table; {path} is packed, and its space is {held}."
            )
        return opened
    if not path.exists():
        raise bd.ParameterError(
            f"there is no cohort {path}{suggest_path(path)}: give a cohort.tsv or a packed cohort."
        )
    if is_model(path):
        raise bd.ParameterError(
            f"{path} is a fitted model, not a cohort; give a cohort.tsv or a packed cohort."
        )
    with readable_notes(), count_progress(messages) as progress:
        arguments = options.arguments()
        visits = join_regions(regions, path, arguments)
        return bd.read_cohort(visits, space=space, progress=progress, **arguments)


def _tables_in(folder: Path) -> list[str]:
    """Tables of a folder that may be of scans, those that are called so first."""
    found = [path for path in folder.iterdir() if path.suffix.lower() in _TABLES]
    found = [path for path in found if not path.name.startswith((".", "truth_"))]
    return [str(path) for path in sorted(found, key=lambda path: path.stem != "cohort")[:3]]


def join_regions(
    regions: Sequence[Path | str] | None, path: Path, arguments: dict[str, Any]
) -> Path | pd.DataFrame:
    """Return the table of visits, with the regions beside it, if there are any."""
    if not regions:
        return path
    if arguments["freesurfer"] is not None:
        raise bd.ParameterError("--regions are tables, and --freesurfer maps; give one of the two.")
    visits, _ = read_visits(path, arguments.pop("id"))
    return bd.read_region_tables(regions, visits, skip_bad=arguments["skip_bad"])


def load_fitted(path: Path, cohort: Path | None = None, command: str = "") -> bd.DIVE:
    """Load a model; notice where the cohort was given in its place.

    Parameters
    ----------
    path : Path
        What was given as the model.
    cohort : Path, optional
        What was given as the cohort.
    command : str
        Name of the command, for the message.
    """
    if cohort is not None and not is_model(path) and cohort.is_file() and is_model(cohort):
        raise bd.ParameterError(
            f"the model comes first, as in: braindive {command} FIT COHORT; {path} and {cohort} "
            "are swapped."
        )
    return bd.load_model(path)


def is_model(path: Path) -> bool:
    """Whether a file is a fitted model; tables of text and atlases are never zip archives."""
    if path.suffix.lower() == ".xlsx" or path.is_dir():  # an Excel sheet is a zip archive too
        return False
    return path.suffix == ".dive" or zipfile.is_zipfile(path)


def open_cohort_for(
    model: bd.DIVE,
    path: Path,
    table: TableOptions | None = None,
    regions: Sequence[Path | str] | None = None,
) -> bd.Cohort:
    """Open a cohort in the space on which the model was fitted."""
    prepared = model.preprocessing_
    space = model.space_ if prepared is None else prepared.space_in_
    options = table or TableOptions()
    if options.time is None and path.is_file() and not is_model(path):
        options = replace(options, time=_time_as_in_fit(model, path))
    return open_cohort(path, space, regions or (), options)


def _time_as_in_fit(model: bd.DIVE, path: Path) -> str | None:
    """Column of a table that tells times as those of the fit were told; None for the usual one."""
    visits = model.visits_
    others = visits.drop(columns=["subject", "time"])
    fitted = column_with_times(others, visits["subject"].to_numpy(), visits["time"].to_numpy())
    names = open_sheet(path).names
    known = find_columns(names)
    usual = [known[meaning] for meaning in TIME_COLUMNS if meaning in known]
    if fitted is None or not usual or WRITTEN_TIMES in names:
        return None
    found = column_of_same_kind(names, fitted)
    if found is None:
        say(
            f"Note: The times of the fit are those of {fitted!r}, and {path.name} has no such "
            f"column: they are read from {usual[0]!r}; name another with --time."
        )
    elif found != usual[0]:
        say(f"Note: Times are read from {found!r}, as in the fit; name another with --time.")
    return None if found == usual[0] else found
