"""What is exchanged with a file format, and how a file says that it cannot be read.

Whatever the format, the numbers of one frame come as one flat row. Volumes are flattened with the
first axis fastest, which also unfolds surface data that hide in NIfTI as 27307 x 1 x 6.
"""

from __future__ import annotations

import struct
import xml.parsers.expat
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nibabel as nib
import numpy as np

from braindive.arrays import Array, IntArray
from braindive.space import Side, Space, Surface, Volume

# What nibabel raises on files that are not what their names say, or not all of it.
UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    TypeError,
    ArithmeticError,
    AttributeError,
    MemoryError,
    struct.error,
    zlib.error,
    xml.parsers.expat.ExpatError,
    nib.filebasedimages.ImageFileError,
    nib.spatialimages.HeaderDataError,
    nib.wrapstruct.WrapStructError,
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
    names : dict of int to str
        Names of the numbers, where the file has them.
    affine : (4, 4) or None
        Of images.
    vertices : NamedVertices or None
        Of CIFTI.
    """

    numbers: np.ndarray
    names: Mapping[int, str] = field(default_factory=dict)
    affine: Array | None = None
    vertices: NamedVertices | None = None

    @property
    def outside(self) -> list[int]:
        """Numbers that by their names are outside all regions."""
        return [key for key, name in self.names.items() if name.lower() in OUTSIDE]


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
