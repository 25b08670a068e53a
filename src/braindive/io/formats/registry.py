"""Every file format that is known, and the one that a file is of."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from braindive.arrays import Array
from braindive.io.formats.base import Format, Writer
from braindive.io.formats.cifti import CIFTI
from braindive.io.formats.contents import UNREADABLE, MapFile, NamedVertices, UnreadableError
from braindive.io.formats.freesurfer import FREESURFER, GEOMETRY, LABEL, MGH, MORPH
from braindive.io.formats.gifti import GIFTI
from braindive.io.formats.nifti import IMAGE, NIFTI
from braindive.io.formats.table import TABLE
from braindive.io.sides import side_of_name
from braindive.space import Side

# Messages and defaults keep this order; where several formats take a file, the last one has it.
FORMATS: dict[str, Format] = {
    known.name: known
    for known in (
        MGH,
        GIFTI,
        FREESURFER,
        NIFTI,
        CIFTI,
        TABLE,
        LABEL,
        GEOMETRY,
        IMAGE,
        MORPH,
    )
}

# Users know one name for what FreeSurfer reads: its images of scans (mgh), and its images and
# annotations of a model's maps (freesurfer). Either name is understood wherever one of them is.
_ONE_NAME = {"mgh": "freesurfer", "freesurfer": "mgh"}


def find_writer(name: str, writers: Mapping[str, Writer]) -> str | None:
    """Name by which a format is known among some writers, or None.

    Parameters
    ----------
    name : str
        What the user calls it, in any case.
    writers : mapping of str to Writer
        Those that can be chosen.
    """
    lowered = name.strip().lower()
    return next((n for n in (name, lowered, _ONE_NAME.get(lowered)) if n in writers), None)


def user_names(writers: Iterable[str]) -> list[str]:
    """Names of formats as users are told them."""
    return ["freesurfer" if name == "mgh" else name for name in writers]


Ability = Literal[
    "header",
    "read",
    "side",
    "read_labels",
    "read_mask",
    "read_vertices",
    "read_hemispheres",
    "read_mesh",
]


def find_format(path: Path, ability: Ability) -> Format | None:
    """Find the format of a file, by its name, and by its content where the name is not enough.

    Parameters
    ----------
    path : Path
        The file.
    ability : str
        What the format has to be able to do with it: an attribute of `Format`.

    Returns
    -------
    Format or None

    Examples
    --------
    >>> from pathlib import Path
    >>> from braindive.io.formats.registry import find_format
    >>> find_format(Path("lh.thickness.mgh"), "header").name
    'mgh'
    >>> find_format(Path("lh.thickness.mgh"), "read_vertices") is None
    True
    """
    able = [known for known in FORMATS.values() if getattr(known, ability) is not None]
    named = [known for known in able if path.name.endswith(known.suffixes)]
    if len(named) == 1:
        return named[0]
    for known in reversed(named or [known for known in able if not known.suffixes]):
        if known.recognises is None or known.recognises(path):
            return known
    return None


def find_function(path: Path, ability: Ability) -> Any:
    """Find the function of a file's format that does something with it, or None."""
    return getattr(find_format(path, ability), ability, None)


def open_map(path: Path) -> MapFile:
    """Read the header of a map file, and see whether the rest of the file is there.

    Parameters
    ----------
    path : Path
        A file of any format that has maps.

    Returns
    -------
    MapFile

    Raises
    ------
    UnreadableError
        Says in one sentence what is wrong with the file.
    """
    found: MapFile = _ask("header", path)
    return found


def read_frames(path: Path, frames: Sequence[int]) -> tuple[Array, NamedVertices | None]:
    """Read some frames of a map file.

    Parameters
    ----------
    path : Path
        The file.
    frames : sequence of int
        Frames, counted from 0.

    Returns
    -------
    values : (n_frames, n_values) float32
    vertices : NamedVertices or None
        Which vertices the values are of, in formats that say so.

    Raises
    ------
    UnreadableError
        Says in one sentence what is wrong with the file.
    """
    values, vertices = _ask("read", path, frames)
    return values, vertices


def declared_side(path: Path) -> Side | None:
    """Hemisphere that the metadata of a file or else its name tells, or None."""
    ask = find_function(path, "side")
    told: Side | None = None
    if ask is not None:
        try:
            told = ask(path)
        except UNREADABLE:
            told = None
    return told or side_of_name(path.name)


def _ask(ability: Ability, path: Path, *arguments: Any) -> Any:
    try:
        function = find_function(path, ability)
        if function is None:
            raise UnreadableError(f"the format is not known; give {_examples()}")
        return function(path, *arguments)
    except UnreadableError:
        raise
    except UNREADABLE as error:
        raise UnreadableError(_reason(path, error)) from None


def _examples() -> str:
    *most, last = [text for known in FORMATS.values() for text in known.examples]
    return f"{', '.join(most)} or {last}"


def _reason(path: Path, error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "you may not read the file; ask its owner for the right to"
    if path.stat().st_size == 0:
        return "the file is empty"
    if isinstance(error, (EOFError, zlib.error)):
        return f"the file is truncated or damaged ({error})"
    detail = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"the file cannot be read; it may be truncated or of another format ({detail})"
