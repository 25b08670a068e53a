"""What a file format offers, and what is exchanged with it.

Whatever the format, the numbers of one frame come as one flat row. Volumes are flattened with the
first axis fastest, which also unfolds surface data that hide in NIfTI as 27307 x 1 x 6.
"""

from __future__ import annotations

import xml.parsers.expat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nibabel as nib
import numpy as np

from braindive.arrays import Array, IntArray
from braindive.io.sides import side_of_name
from braindive.space import Side, Space, Surface, Volume

# What nibabel raises on files that are not what their names say, or not all of it.
UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    TypeError,
    zlib.error,
    xml.parsers.expat.ExpatError,
    nib.filebasedimages.ImageFileError,
)
# What atlases call vertices outside all regions, in small letters.
OUTSIDE = {"unknown", "medial_wall", "medial wall", "medialwall", "???", "corpuscallosum"}


class UnreadableError(ValueError):
    """A file is not what its name says, or not all of it."""


@dataclass(frozen=True)
class NamedVertices:
    """Which vertices the numbers of one frame are of, in formats that say so.

    Attributes
    ----------
    n_mesh : dict of side to int
        Vertices of each hemisphere's mesh.
    vertices : dict of side to (n,) int
        Vertices of the mesh that have a number.
    positions : dict of side to (n,) int
        Where in the frame their numbers are.
    """

    n_mesh: Mapping[Side, int]
    vertices: Mapping[Side, IntArray]
    positions: Mapping[Side, IntArray]

    def columns(self, space: Surface) -> IntArray:
        """Position in the frame of each column of a surface; -1 where it has none."""
        columns = []
        for part in space.hemispheres:
            position = np.full(part.n_mesh, -1)
            if part.side in self.vertices:
                position[self.vertices[part.side]] = self.positions[part.side]
            columns.append(position[part.mask])
        return np.concatenate(columns)


@dataclass(frozen=True)
class MapFile:
    """What the header of a map file says.

    Attributes
    ----------
    path : Path
        The file.
    shape : tuple of int
        Spatial axes of one frame.
    n_frames : int
        Maps in the file.
    sides : frozenset of {"left", "right"}
        Hemispheres that the file name and the metadata tell; empty where they tell none.
    affine : (4, 4) or None
        Of volumes.
    vertices : NamedVertices or None
        Of CIFTI: which vertices the numbers are of.
    """

    path: Path
    shape: tuple[int, ...]
    n_frames: int
    sides: frozenset[Side] = frozenset()
    affine: Array | None = None
    vertices: NamedVertices | None = None

    @property
    def n_values(self) -> int:
        """Numbers in one frame."""
        return int(np.prod(self.shape))


@dataclass(frozen=True)
class LabelFile:
    """The numbers of an atlas or a mask.

    Attributes
    ----------
    numbers : array
        Flat, or the grid of an image. 0 and below is outside all regions.
    outside : list of int
        Further numbers that are outside by their names.
    affine : (4, 4) or None
        Of images.
    vertices : NamedVertices or None
        Of CIFTI.
    """

    numbers: np.ndarray
    outside: list[int] = field(default_factory=list)
    affine: Array | None = None
    vertices: NamedVertices | None = None


@dataclass(frozen=True)
class ScalarMaps:
    """What is written to one file: maps of numbers.

    Attributes
    ----------
    values : array
        Of a volume the grid, (x, y, z), or (x, y, z, n_maps). Of anything else (n,) or
        (n_maps, n): all vertices of one mesh, or the columns of the space where `side` is None.
    side : {"left", "right"} or None
        Hemisphere.
    space : Space or None
        Where the maps lie.
    names : list of str, optional
        Of each map.
    """

    values: np.ndarray
    side: Side | None
    space: Space | None
    names: Sequence[str] | None = None


@dataclass(frozen=True)
class LabelMap:
    """What is written to one file: one label for each vertex or voxel.

    Attributes
    ----------
    values, side, space
        As of `ScalarMaps`, with whole numbers; 0 is outside.
    names : list of str
        Of the labels from 1.
    colours : (n_labels, 3) int
        Red, green and blue of the labels from 1, from 0 to 255.
    """

    values: np.ndarray
    side: Side | None
    space: Space | None
    names: Sequence[str]
    colours: IntArray


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
        What the maps of a model have outside the mask.
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
    fill: float = 0.0
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


def divide(
    values: np.ndarray, space: Space | None, fill: float, splits: bool = True
) -> Iterator[tuple[Side | None, np.ndarray]]:
    """Values as files hold them: the grid of a volume, the meshes of a surface, or the columns.

    Parameters
    ----------
    values : (..., n_vertices)
        One number for each column of the space.
    space : Space or None
        Where the columns lie.
    fill : float
        Value outside the mask.
    splits : bool
        Whether the hemispheres of a surface come apart.

    Yields
    ------
    side : {"left", "right"} or None
        None where there is one file.
    values : array
        As in `ScalarMaps`.
    """
    if isinstance(space, Volume):
        yield None, space.unmask(values, fill)
    elif isinstance(space, Surface) and splits:
        yield from space.split(values, fill).items()
    else:
        yield None, values


def sides_told(path: Path, told: Side | None = None) -> frozenset[Side]:
    """Hemispheres that the metadata and the name of a file tell."""
    return frozenset(side for side in (told, side_of_name(path.name)) if side is not None)


def outside_labels(names: Iterable[tuple[int, str]]) -> list[int]:
    """Labels that by their names are outside all regions.

    Examples
    --------
    >>> outside_labels([(0, "Medial_Wall"), (1, "precuneus")])
    [0]
    """
    return [key for key, name in names if name.lower() in OUTSIDE]
