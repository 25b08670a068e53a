"""Where each vertex of a surface is drawn in the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.plotting.drawing import display_mesh
from braindive.report.embedding import encode_array
from braindive.space import Hemisphere, Surface
from braindive.space.fsaverage import (
    N_FSAVERAGE5,
    Shape,
    begins_with_fsaverage5,
    fsaverage5_mesh,
)

# fsLR-32k is shown as it is; anything finer is more than a page needs.
MOST_VERTICES = 33_000


@dataclass(frozen=True)
class PagePicture:
    """What the page draws.

    Parameters
    ----------
    kind : {"surface", "volume"}
        Meshes that can be turned, or three planes through a volume.
    columns : (n_points,) int
        Column of the model for each point that is drawn; -1 where nothing was measured.
    content : dict
        Geometry for the page.
    note : str
        What to tell the reader about the picture, or nothing.
    """

    kind: str
    columns: IntArray
    content: dict[str, Any]
    note: str = ""


def draw_surface(space: Surface) -> PagePicture:
    """Choose the vertices of a surface that are drawn, and their shapes.

    Parameters
    ----------
    space : Surface
        fsaverage and its relatives are drawn folded and inflated, other surfaces as they are.

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.report.picture import draw_surface
    >>> draw_surface(bd.load_space("fsaverage5")).columns.shape
    (20484,)
    """
    parts, drawn, columns, offset, notes = [], [], [], 0, []
    for part in space.hemispheres:
        column = np.full(part.n_mesh, -1, dtype=np.int64)
        column[part.mask] = offset + np.arange(part.n_measured)
        offset += part.n_measured
        is_known = begins_with_fsaverage5(part, space.name)
        if is_known:
            kept: IntArray = np.arange(N_FSAVERAGE5)
            meshes = {word: fsaverage5_mesh(shape, part.side) for word, shape in _SHAPES.items()}
            shapes = {word: points for word, (points, _) in meshes.items()}
            faces = meshes["Folded"][1]
        else:
            # A flat mesh is put up so that the views from the sides look onto it.
            points = display_mesh(part, space.name).coordinates
            kept, faces = thin_mesh(points, part.faces, MOST_VERTICES)
            shapes = {"Surface": points[kept]}
        if len(kept) < part.n_mesh:
            notes.append(
                f"The {part.side} hemisphere has {part.n_mesh:,} vertices; {len(kept):,} of them "
                "are drawn."
            )
        columns.append(column[kept])
        drawn.append((part.side, shapes))
        parts.append(
            {
                "side": part.side,
                "size": len(kept),
                "faces": encode_array(faces, "uint16"),
                "vertices": encode_array(kept, "uint32"),
                "sulci": _encode_depth(part, space.name) if is_known else None,
            }
        )
    content = {
        "parts": parts,
        # A sheet has no front and back, no above and below, and one side to look at.
        "flat": all(np.ptp(points[:, 0]) == 0 for _, shapes in drawn for points in shapes.values()),
        "shapes": {
            name: _encode_shape([(side, shapes[name]) for side, shapes in drawn])
            for name in drawn[0][1]
        },
    }
    return PagePicture("surface", np.concatenate(columns), content, " ".join(notes))


# Buttons of the page, and the shape that each shows.
_SHAPES: dict[str, Shape] = {"Folded": "pial", "Inflated": "inflated"}


def _encode_depth(part: Hemisphere, name: str) -> str:
    """How deep in a fold each vertex lies, from 0 to 255."""
    return encode_array(255 * display_mesh(part, name).depth, "uint8")


def _encode_shape(parts: list[tuple[str, Array]]) -> dict[str, Any]:
    """Coordinates of all hemispheres as 16-bit numbers, side by side where they would overlap."""
    moved = []
    for side, points in parts:
        placed = np.array(points, dtype=float)
        if len(parts) == 2:
            edge = placed[:, 0].max() if side == "left" else placed[:, 0].min()
            inside = edge > 1.5 if side == "left" else edge < -1.5
            placed[:, 0] -= edge + (2.0 if side == "left" else -2.0) if inside else 0.0
        moved.append(placed)
    everything = np.concatenate(moved)
    centre = (everything.max(axis=0) + everything.min(axis=0)) / 2
    radius = float(np.abs(everything - centre).max()) or 1.0
    steps = np.round((everything - centre) / radius * 32_767)
    return {"points": encode_array(steps, "int16"), "radius": radius}


def thin_mesh(points: Array, faces: IntArray, most: int) -> tuple[IntArray, IntArray]:
    """Fewer vertices and the triangles between them: one vertex for each cell of a grid.

    Parameters
    ----------
    points : (n, 3)
        Where each vertex lies.
    faces : (m, 3) int
        Triangles.
    most : int
        Most vertices to keep.

    Returns
    -------
    kept : (k,) int
        Vertices that stay.
    faces : (j, 3) int
        Triangles between them, counted within `kept`.

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.report.picture import thin_mesh
    >>> part = bd.load_space("fsaverage5-left").hemispheres[0]
    >>> kept, faces = thin_mesh(part.coordinates, part.faces, 2000)
    >>> 1000 < len(kept) <= 2000
    True
    """
    if len(points) <= most:
        return np.arange(len(points)), faces
    low, extent = points.min(axis=0), float(np.ptp(points, axis=0).max()) or 1.0
    # A surface fills about n^2 of n^3 cells: make the grid coarser until few enough are in use.
    n_cells = float(np.sqrt(most))
    while True:
        cell = np.floor((points - low) / extent * n_cells).astype(np.int64)
        _, group = np.unique(cell, axis=0, return_inverse=True)
        group = group.ravel()
        if group.max() < most:
            break
        n_cells *= 0.95
    sizes = np.bincount(group)
    centres = np.stack([np.bincount(group, axis) / sizes for axis in points.T], axis=1)
    away = np.linalg.norm(points - centres[group], axis=1)
    order = np.lexsort((away, group))
    kept = order[np.searchsorted(group[order], np.arange(len(sizes)))]
    corners = group[faces]
    whole = (corners != np.roll(corners, 1, axis=1)).all(axis=1)
    return kept, corners[whole]
