"""Inputs that several commands share."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import braindive as bd
from braindive.cli.console import messages, readable_notes
from braindive.cli.progress import count_progress
from braindive.io.paths import suggest_path


def open_cohort(
    path: Path, space: str | bd.Space | None = None, regions: Sequence[Path | str] = ()
) -> bd.Cohort:
    """Open a packed cohort, or read the scans of a table, or regions that lie beside it."""
    if path.is_dir():
        if regions:
            raise bd.ParameterError(
                f"--regions belongs to a table of visits; {path} is packed, and holds its values."
            )
        return bd.open_packed(path)
    if not path.exists():
        raise bd.ParameterError(
            f"there is no cohort {path}{suggest_path(path)}: give a cohort.tsv or a packed cohort."
        )
    if is_model(path):
        raise bd.ParameterError(
            f"{path} is a fitted model, not a cohort; give a cohort.tsv or a packed cohort."
        )
    with readable_notes(), count_progress(messages) as progress:
        table = bd.read_region_tables(regions, path) if regions else path
        return bd.read_cohort(table, space=space, progress=progress)


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


def open_cohort_for(model: bd.DIVE, path: Path) -> bd.Cohort:
    """Open a cohort in the space on which the model was fitted."""
    prepared = model.preprocessing_
    return open_cohort(path, model.space_ if prepared is None else prepared.space_in_)
