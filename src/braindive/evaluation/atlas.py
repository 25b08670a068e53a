"""Regions of an atlas, one label for each vertex."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

import nibabel as nib
import numpy as np
import pandas as pd
from nibabel.freesurfer.io import read_annot
from nibabel.gifti.gifti import GiftiImage

from braindive.errors import CohortError
from braindive.model.arrays import IntArray


def read_atlas(paths: str | Path | Sequence[str | Path], n_vertices: int) -> IntArray:
    """Read an atlas.

    Parameters
    ----------
    paths : path or sequence of paths
        One file for all vertices, or one for each hemisphere, left first. FreeSurfer `.annot`,
        GIFTI labels, CIFTI or any image of whole numbers, or a table (`.tsv`, `.csv`, `.txt`)
        whose last column holds the region of each vertex.
    n_vertices : int
        Vertices of the cohort.

    Returns
    -------
    (n_vertices,) int
        Number of the region; -1 for vertices outside all regions. Regions of the two hemispheres
        are different regions.

    Examples
    --------
    >>> import pathlib, tempfile, pandas as pd
    >>> from braindive.evaluation.atlas import read_atlas
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "regions.csv")
    ...     pd.DataFrame({"region": ["frontal", "frontal", "temporal"]}).to_csv(path, index=False)
    ...     read_atlas(path, 3)
    array([0, 0, 1])
    """
    files = [Path(paths)] if isinstance(paths, (str, Path)) else [Path(path) for path in paths]
    parts: list[IntArray] = []
    for file in files:
        labels = _read_labels(file)
        used = max((int(part.max()) + 1 for part in parts), default=0)
        parts.append(np.where(labels < 0, -1, labels + used))
    whole = np.concatenate(parts)
    if len(whole) != n_vertices:
        found = " + ".join(
            f"{len(part):,} in {file.name}" for part, file in zip(parts, files, strict=True)
        )
        raise CohortError(
            f"the atlas covers {len(whole):,} vertices ({found}), but the cohort has "
            f"{n_vertices:,}; use an atlas of the cohort's space, one file for each hemisphere."
        )
    return whole


def _read_labels(path: Path) -> IntArray:
    """Region of each vertex as numbers from 0, -1 outside."""
    if not path.exists():
        raise CohortError(f"there is no atlas {path}.")
    try:
        if path.suffix == ".annot":
            labels, _, names = read_annot(path)  # type: ignore[no-untyped-call]
            outside = [i for i, name in enumerate(names) if name.decode().lower() in _OUTSIDE]
            return np.where(np.isin(labels, outside), -1, labels)
        if path.suffix in (".tsv", ".csv", ".txt"):
            table = pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")
            column = table[table.columns[-1]]
            if column.dtype.kind in "iuf":
                return _from_numbers(column.to_numpy(), path)
            known = column.where(~column.str.lower().isin(_OUTSIDE))
            return np.asarray(pd.factorize(known, sort=True)[0])
        image: Any = nib.load(path)
        data = (
            image.darrays[0].data
            if isinstance(image, GiftiImage)
            else np.asarray(image.dataobj).ravel()
        )
        return _from_numbers(np.asarray(data), path)
    except (OSError, ValueError, ExpatError, nib.filebasedimages.ImageFileError) as error:
        raise CohortError(f"the atlas {path} cannot be read: {error}") from error


_OUTSIDE = {"unknown", "medial_wall", "medial wall", "???", "corpuscallosum"}


def _from_numbers(numbers: np.ndarray, path: Path) -> IntArray:
    whole = np.asarray(numbers, dtype=float)
    if not np.array_equal(whole, np.round(whole)):
        raise CohortError(f"the atlas {path} holds fractions; regions have whole numbers.")
    # 0 is "outside all regions" in label images.
    return whole.astype(int) - 1
