"""Values drawn on a brain: the sides of a cortex, or slices through a volume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

import nibabel as nib
import numpy as np

from braindive.arrays import Array, IntArray
from braindive.errors import ParameterError
from braindive.io.anatomy import Painting, paint_regions
from braindive.space import Hemisphere, Side, Space, Surface, Volume
from braindive.space.fsaverage import (
    begins_with_fsaverage5,
    fsaverage5_mesh,
    fsaverage5_values,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

View = Literal["lateral", "medial"]

# Where there is no value.
NO_VALUE = "#d9d9d9"
# How much darker the depth of a fold and a face seen at a slant are, so that shape shows through
# the colours without making them another cluster's.
_FOLD_SHADE, _SLANT_SHADE = 0.14, 0.22


class Picture(Protocol):
    """Panels on which values of a space are drawn."""

    @property
    def n_columns(self) -> int:
        """Panels in a row."""

    @property
    def heights(self) -> list[float]:
        """Height of each row divided by the width of one panel."""

    def draw(self, axes: Sequence[Axes], values: Array, colour_map: Any, norm: Any) -> None:
        """Draw one value for each column of the space, NaN for none, on the panels."""


@dataclass(frozen=True)
class DisplayMesh:
    """A mesh to look at, and which vertices of the measured mesh it shows.

    Parameters
    ----------
    coordinates : (n, 3)
        Of the inflated cortex where there is one.
    faces : (m, 3) int
        Triangles.
    depth : (n,)
        From 0 on the crown of a fold to 1 in its depth.
    n_mesh : int
        The first so many vertices of the measured mesh are shown.
    """

    coordinates: Array
    faces: IntArray
    depth: Array
    n_mesh: int


class CortexPicture:
    """Lateral above medial views of each hemisphere; left and right side by side.

    Parameters
    ----------
    space : Surface
        fsaverage and its coarser relatives are shown on the inflated fsaverage5, whose vertices
        are the first of all of them; other surfaces as they are.
    """

    def __init__(self, space: Surface) -> None:
        self._space = space
        self._meshes = {part.side: display_mesh(part, space.name) for part in space.hemispheres}
        views: tuple[View, ...] = ("lateral", "medial")
        if len(space.sides) == 1:
            self.panels = [(space.sides[0], view) for view in views]
        else:
            self.panels = [(side, view) for view in views for side in space.sides]

        self.n_columns = 2

    @property
    def heights(self) -> list[float]:
        """Height of each row divided by the width of one panel."""
        spans = [np.ptp(mesh.coordinates, axis=0) for mesh in self._meshes.values()]
        aspect = max(span[2] for span in spans) / max(span[1] for span in spans)
        return [float(aspect)] * (len(self.panels) // self.n_columns)

    def draw(self, axes: Sequence[Axes], values: Array, colour_map: Any, norm: Any) -> None:
        """Draw one value for each column of the space, NaN for none, on the panels."""
        parts = self._space.split(np.asarray(values, dtype=float))
        for ax, (side, view) in zip(axes, self.panels, strict=True):
            mesh = self._meshes[side]
            draw_mesh(ax, mesh, parts[side][: mesh.n_mesh], side, view, colour_map, norm)
            ax.set_label(f"{side} {view}")


class SlicePicture:
    """Sagittal, coronal and axial slices through a volume, three of each.

    Parameters
    ----------
    space : Volume
        Shown with its axes nearest to left-right, back-front and down-up.
    n_cuts : int
        Slices in each direction.
    """

    def __init__(self, space: Volume, n_cuts: int = 3) -> None:
        self._space = space
        mask = self._upright(np.ones(space.n_vertices))
        self._affine = mask.affine
        inside = np.isfinite(np.asarray(mask.dataobj))
        where = np.nonzero(inside)
        # The slices that halve, quarter, ... the measured voxels.
        shares = np.arange(1, n_cuts + 1) / (n_cuts + 1)
        self.panels = [
            (axis, int(cut))
            for axis in range(3)
            for cut in np.quantile(where[axis], shares, method="nearest")
        ]
        self._box = tuple(slice(int(at.min()), int(at.max()) + 1) for at in where)
        self._voxel = np.linalg.norm(mask.affine[:3, :3], axis=0)
        self._size = self._voxel * [part.stop - part.start for part in self._box]
        self.n_columns = n_cuts

    @property
    def heights(self) -> list[float]:
        """Height of each row divided by the width of one panel."""
        x, y, z = self._size.tolist()
        return [z / max(x, y), z / max(x, y), y / max(x, y)]

    def draw(self, axes: Sequence[Axes], values: Array, colour_map: Any, norm: Any) -> None:
        """Draw one value for each column of the space, NaN for none, on the panels."""
        volume = np.asarray(self._upright(np.asarray(values, dtype=float)).dataobj)
        for ax, (axis, cut) in zip(axes, self.panels, strict=True):
            first, second = (other for other in range(3) if other != axis)
            picture = np.take(volume, cut, axis=axis)[self._box[first], self._box[second]]
            width, height = self._size[first], self._size[second]
            ax.imshow(
                picture.T,
                origin="lower",
                cmap=colour_map,
                norm=norm,
                interpolation="nearest",
                extent=(-width / 2, width / 2, 0, height),
            )
            # The same scale in all panels.
            widest = self._size[:2].max() / 2
            ax.set_xlim(-widest, widest)
            ax.set_axis_off()
            millimetres = f"{self._millimetres(axis, cut):.0f}".replace("-", "\N{MINUS SIGN}")
            ax.set_label(f"{'xyz'[axis]} = {millimetres} mm")

    def _upright(self, values: Array) -> Any:
        volume = self._space.unmask(values)
        image = nib.Nifti1Image(volume, self._space.affine)  # type: ignore[no-untyped-call]
        return nib.as_closest_canonical(image)  # type: ignore[no-untyped-call]

    def _millimetres(self, axis: int, cut: int) -> float:
        voxel = np.array([(part.start + part.stop - 1) / 2 for part in self._box])
        voxel[axis] = cut
        return float((self._affine @ [*voxel, 1])[axis])


class PaintedPicture(CortexPicture):
    """Regions on the inflated fsaverage5, each in one colour; grey where there is none.

    Parameters
    ----------
    painting : Painting
        Where the regions lie.
    """

    def __init__(self, painting: Painting) -> None:
        super().__init__(painting.space)
        self._painting = painting

    def draw(self, axes: Sequence[Axes], values: Array, colour_map: Any, norm: Any) -> None:
        """Draw one value for each region, NaN for none, on the panels."""
        super().draw(axes, self._painting.paint(values), colour_map, norm)


def picture_of(space: Space | None, n_cuts: int = 3) -> Picture:
    """Panels for a space; refuses spaces that have no shape."""
    if isinstance(space, Surface):
        return CortexPicture(space)
    if isinstance(space, Volume):
        return SlicePicture(space, n_cuts)
    painting = paint_regions(space)
    if painting is not None:
        return PaintedPicture(painting)
    has = "no space" if space is None else f"the {space.kind} {space.name!r}"
    raise ParameterError(
        "a brain can be drawn for a surface, a volume, or regions with names of Desikan-Killiany "
        f"or Destrieux, but the model has {has}; give the cohort one before the fit, for example "
        'Cohort(..., space=bd.load_space("fsaverage5")).'
    )


def display_mesh(part: Hemisphere, name: str = "") -> DisplayMesh:
    """Return the inflated fsaverage5 for meshes that begin with its vertices, else the mesh.

    A flat mesh, such as a cortex that was cut and flattened, is put up so that one looks onto it.

    Parameters
    ----------
    part : Hemisphere
        The measured mesh.
    name : str
        Name of its space.
    """
    if begins_with_fsaverage5(part, name):
        return _inflated(part.side)
    points = _upright_sheet(part.coordinates, part.side)
    return DisplayMesh(points, part.faces, np.zeros(part.n_mesh), part.n_mesh)


def draw_mesh(
    ax: Axes,
    mesh: DisplayMesh,
    values: Array,
    side: Side,
    view: View,
    colour_map: Any,
    norm: Any,
) -> None:
    """Draw the triangles that face the viewer, those in front last.

    Parameters
    ----------
    ax : Axes
        Plain axes; their frame is removed.
    mesh : DisplayMesh
        What to draw.
    values : (n,)
        One for each vertex; a triangle has the middle one of its corners', which for labels is
        one of them. NaN is drawn in grey.
    side, view : str
        Hemisphere, and from where to look at it.
    colour_map, norm : Colormap, Normalize
        From values to colours.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    # From the left one looks along x, with the front of the brain (y) on the left-hand side.
    sign = -1 if (side == "left") == (view == "lateral") else 1
    x, y, z = np.asarray(mesh.coordinates, dtype=float).T
    seen = np.stack([sign * y, z, sign * x], axis=1)
    faces = mesh.faces
    if np.ptp(x) == 0:
        # A flat mesh is seen from both sides: triangles that face away are turned.
        away = _normals(seen[faces])[:, 2] < 0
        faces = np.where(away[:, None], faces[:, ::-1], faces)
    corners = seen[faces]
    facing = _facing(seen, faces)
    visible = np.flatnonzero(_normals(corners)[:, 2] > 0)
    visible = visible[np.argsort(corners[visible, :, 2].mean(axis=1))]

    middle = np.sort(values[faces[visible]], axis=1)[:, 1]
    incomplete = np.isnan(values[faces[visible]]).any(axis=1)
    colours = colour_map(norm(np.where(incomplete, 0.0, middle)))
    colours[incomplete] = to_rgba(NO_VALUE)
    shade = 1 - _FOLD_SHADE * mesh.depth[faces[visible]].mean(axis=1)
    colours[:, :3] *= (shade * (1 - _SLANT_SHADE * (1 - facing[visible])))[:, None]
    ax.add_collection(
        PolyCollection(
            corners[visible, :, :2],  # type: ignore[arg-type]
            facecolors=colours,
            edgecolors=colours,
            linewidths=0.15,
            rasterized=True,
        )
    )
    ax.set_aspect("equal")
    ax.autoscale_view()
    ax.set_axis_off()


def _upright_sheet(points: Array, side: Side) -> Array:
    """Coordinates of a flat mesh, turned to face the sides from which brains are drawn."""
    (flat,) = np.nonzero(np.ptp(points, axis=0) == 0)
    if len(flat) != 1:
        return points
    # Seen from its lateral side, the first other axis runs to the right and the second one up.
    across, up = np.delete(points, flat[0], axis=1).T
    return np.stack([np.zeros(len(points)), -across if side == "left" else across, up], axis=1)


def _normals(corners: Array) -> Array:
    """Normals of triangles (m, 3, 3), as long as twice their areas."""
    return np.asarray(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))


def _facing(points: Array, faces: IntArray) -> Array:
    """How much each triangle faces the viewer, from 0 to 1, smoothed over its neighbours."""
    normals, of_faces = np.zeros(points.shape), _normals(points[faces])
    for corner in range(3):
        np.add.at(normals, faces[:, corner], of_faces)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    return np.asarray(np.clip(normals[faces, 2].mean(axis=1), 0.0, 1.0))


@cache
def _inflated(side: Side) -> DisplayMesh:
    points, faces = fsaverage5_mesh("inflated", side)
    folds = fsaverage5_values("sulcal depth", side)
    low, high = np.percentile(folds, [5, 95])
    return DisplayMesh(points, faces, np.clip((folds - low) / (high - low), 0, 1), len(points))
