"""Files named in a table, kept inside the folders that the user gave."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

PathLike = str | os.PathLike[str]


class OutsideError(ValueError):
    """A file name leads out of the allowed folders."""


def suggest_path(path: Path) -> str:
    """Name of something in the same folder that was perhaps meant, as the end of a sentence."""
    folder = path.parent
    if not folder.is_dir():
        return ""
    names = [other.name for other in folder.iterdir() if not other.name.startswith(".")]
    close = get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f" (did you mean {folder / close[0]}?)" if close else ""


def resolve_roots(folder: Path | None, root: PathLike | Sequence[PathLike] | None) -> list[Path]:
    """Folders files may come from: the table's own, then those the user gave."""
    given: list[PathLike] = []
    if root is not None:
        given = [root] if isinstance(root, (str, os.PathLike)) else list(root)
    folders = [Path(item).expanduser() for item in given]
    if folder is not None:
        folders.insert(0, folder)
    return [path.resolve() for path in folders or [Path.cwd()]]


def resolve_inside(name: str, roots: Sequence[Path]) -> Path:
    """Path of a named file, with links followed; it need not exist.

    Parameters
    ----------
    name : str
        Absolute, or relative to one of the folders; the first that has it is taken.
    roots : sequence of resolved paths
        Allowed folders.

    Raises
    ------
    OutsideError
        If the file lies in none of them.
    """
    candidates = [(root / name).resolve() for root in roots]
    inside = [path for path in candidates if any(path.is_relative_to(root) for root in roots)]
    if not inside:
        raise OutsideError(
            "the file lies outside the folder of the table; move it there, or give its folder with "
            "root= (--root)"
        )
    return next((path for path in inside if path.exists()), inside[0])
