"""What a file format offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from braindive.arrays import Array, IntArray
from braindive.io.formats.contents import LabelFile, LabelMap, MapFile, NamedVertices, ScalarMaps
from braindive.space import Side, Space


def never(space: Space | None) -> bool:
    """No space."""
    return False


def always(space: Space | None) -> bool:
    """Every space."""
    return True


@dataclass(frozen=True)
class Writer:
    """How the files of a format are written.

    Parameters
    ----------
    ending : str
        Of the names of files with numbers.
    write_scalars : callable, optional
        Write maps of numbers to one file.
    label_ending : str
        Of the names of files with labels.
    write_labels : callable, optional
        Write labels with names and colours to one file.
    write_together : callable, optional
        Instead of both: write labels and all groups of maps, by name, to one file.
    scans : tuple of {"surface", "volume", "regions"}
        Kinds of space in which a cohort can be written, the most usual first; "regions" stands
        for a cohort without space, too.
    maps : tuple of {"surface", "volume", "regions"}
        Kinds of space in which the maps of a model can be written.
    is_default : callable
        Whether the maps of a model in a space are written without being asked for.
    prefixes : dict of side to str
        Beginning of the names of the maps of a hemisphere.
    fill : float
        What the maps of a model have outside the mask: NaN, for 0 is a number like others, such as
        a midpoint. Labels are 0 there.
    splits : bool
        Whether each hemisphere has a file of its own.
    """

    ending: str
    write_scalars: Callable[[Path, ScalarMaps], None] | None = None
    label_ending: str = ""
    write_labels: Callable[[Path, LabelMap], None] | None = None
    write_together: Callable[[Path, LabelMap, Mapping[str, ScalarMaps]], None] | None = None
    scans: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    is_default: Callable[[Space | None], bool] = never
    prefixes: Mapping[Side, str] = field(
        default_factory=lambda: {"left": "hemi-L_", "right": "hemi-R_"}
    )
    fill: float = float("nan")
    splits: bool = True


@dataclass(frozen=True)
class Format:
    """A file format: what its files are called, and functions for what it can do.

    What is None it cannot do, and is never asked for. Functions raise anything in `UNREADABLE`
    for a file that is cut short or not what its name says.

    Parameters
    ----------
    name : str
        How users ask for it.
    suffixes : tuple of str
        Endings of the names of its files; () where a name tells nothing.
    examples : tuple of str
        Of its maps, for the message about a file of no known format.
    recognises : callable, optional
        Whether a file is of this format by its content. Asked where the name tells nothing, or
        is that of several formats.
    header, read : callable, optional
        What a map file holds, and some of its frames: float32 (n_frames, n_values), with the
        vertices they are of in formats that say so.
    side : callable, optional
        Hemisphere in the metadata of a file, or None.
    read_labels : callable, optional
        The numbers of an atlas.
    read_mask : callable, optional
        The numbers of a mask; other than 0 is measured.
    read_vertices : callable, optional
        The measured vertices of one hemisphere.
    read_hemispheres : callable, optional
        The measured vertices of both.
    volume_suffixes : tuple of str
        Endings of files that, given as a space, are the mask of a volume.
    read_mesh : callable, optional
        Points and triangles.
    writer : Writer, optional
        How its files are written.
    """

    name: str
    suffixes: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    recognises: Callable[[Path], bool] | None = None
    header: Callable[[Path], MapFile] | None = None
    read: Callable[[Path, Sequence[int]], tuple[Array, NamedVertices | None]] | None = None
    side: Callable[[Path], Side | None] | None = None
    read_labels: Callable[[Path], LabelFile] | None = None
    read_mask: Callable[[Path], LabelFile] | None = None
    read_vertices: Callable[[Path], IntArray] | None = None
    read_hemispheres: Callable[[Path], NamedVertices] | None = None
    volume_suffixes: tuple[str, ...] = ()
    read_mesh: Callable[[Path], tuple[Array, IntArray]] | None = None
    writer: Writer | None = None
