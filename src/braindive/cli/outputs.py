"""What commands may write over: nothing that they read, and nothing that they did not write."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated

import typer

import braindive as bd

OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace a file that is there, whatever it is.")
]
# Bytes of a file that tell whose it is.
_HEAD = 2**16
# Columns that every table of stages has.
_STAGES = {"participant_id", "speed", "shift", "score"}
STANDARD_OUTPUT = Path("-")
# Folders that the command has made for its outputs, the outer ones first.
_made: ContextVar[list[Path] | None] = ContextVar("_made", default=None)


def check_output_file(
    path: Path, inputs: Iterable[Path | str | None] = (), overwrite: bool = False
) -> Path:
    """Find out before hours of work whether a file can and may be written.

    Parameters
    ----------
    path : Path
        Output.
    inputs : paths
        What the command reads; None is left out.
    overwrite : bool
        Whether a file that braindive did not write may be replaced.

    Returns
    -------
    Path
        The output.
    """
    from braindive.io.outputs import check_writable, real_file

    real = real_file(path)
    _refuse_input(real, inputs)
    if real.exists() and not overwrite and not _is_ours(real):
        raise bd.ParameterError(
            f"{path} exists and was not written by braindive; choose another name, or add "
            "--overwrite to replace it."
        )
    _make_folder(real.parent)
    check_writable(real.parent)
    return path


def check_output_folder(
    path: Path,
    inputs: Iterable[Path | str | None] = (),
    files: Iterable[str] = (),
    overwrite: bool = False,
) -> Path:
    """Find out before hours of work whether a folder can and may be written to.

    Parameters
    ----------
    path : Path
        Output.
    inputs : paths
        What the command reads; None is left out.
    files : names
        Files that the command writes and that may be somebody's data.
    overwrite : bool
        Whether these may be replaced.

    Returns
    -------
    Path
        The output.
    """
    from braindive.io.outputs import check_writable

    if path.exists() and not path.is_dir():
        raise bd.ParameterError(f"{path} is a file; give the name of a folder.")
    given = [Path(each) for each in inputs if each is not None]
    for each in given:
        if each.is_dir() and path.resolve().is_relative_to(each.resolve()):
            raise bd.ParameterError(
                f"{path} lies in {each}, which is read; choose another folder for the output."
            )
    for name in files:
        _refuse_input((path / name).resolve(), given)
        if (path / name).exists() and not overwrite:
            raise bd.ParameterError(
                f"{path / name} exists; choose another folder, or add --overwrite to replace it."
            )
    _make_folder(path)
    check_writable(path)
    return path


def _refuse_input(output: Path, inputs: Iterable[Path | str | None]) -> None:
    for each in inputs:
        if each is None:
            continue
        given = Path(each)
        inside = given.is_dir() and output.resolve().is_relative_to(given.resolve())
        if inside or (output.exists() and given.exists() and output.samefile(given)):
            raise bd.ParameterError(
                f"{output} is an input of this command ({given}), which it would destroy; choose "
                "another output."
            )


@contextmanager
def no_empty_folders_left() -> Iterator[None]:
    """Remove folders that were made for outputs, where a command ends before it writes any."""
    made: list[Path] = []
    before = _made.set(made)
    try:
        yield
    except BaseException:
        for folder in reversed(made):
            with suppress(OSError):  # something is in it
                folder.rmdir()
        raise
    finally:
        _made.reset(before)


def _make_folder(folder: Path) -> None:
    made = _made.get()
    try:
        for each in (*reversed(folder.parents), folder):
            # What exists by now, whoever made it, is not ours to remove.
            with suppress(FileExistsError):
                each.mkdir()
                if made is not None:
                    made.append(each.absolute())
        folder.mkdir(exist_ok=True)  # a file of that name is told
    except OSError as error:
        why = error.strerror or error
        raise bd.ParameterError(f"the folder {folder} cannot be made ({why}).") from None


def _is_ours(path: Path) -> bool:
    """Whether a file is empty, or a model, a settings file, a table of stages or a report."""
    if path.stat().st_size == 0:
        return True
    with open(path, "rb") as stream:
        head = stream.read(_HEAD)
    if head.startswith(b"PK"):
        try:
            with zipfile.ZipFile(path) as archive:
                # Keys are sorted, and the kind comes after the content.
                return b'"kind": "braindive ' in archive.read("header.json")[-_HEAD:]
        except (KeyError, OSError, ValueError, RuntimeError, zipfile.BadZipFile):
            return False
    first = head.partition(b"\n")[0].decode(errors="replace").strip()
    if set(first.replace(",", "\t").split("\t")) >= _STAGES:
        return True
    # Settings and reports say so themselves.
    return b"braindive report</title>" in head or (
        head.lstrip().startswith(b"{") and b'"braindive": "' in head
    )
