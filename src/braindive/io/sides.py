"""Which hemisphere a file says it is of."""

from __future__ import annotations

import re
import xml.parsers.expat
import zlib
from pathlib import Path
from typing import Any

import nibabel as nib

from braindive.space.surface import Side

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
# lh.thickness, sub-1_hemi-L_thickness.shape.gii, S1200.L.sphere.surf.gii, area_left.gii.gz
_LEFT = re.compile(r"(^|[._-])(lh|left|hemi-l|l)([._-]|$)", re.IGNORECASE)
_RIGHT = re.compile(r"(^|[._-])(rh|right|hemi-r|r)([._-]|$)", re.IGNORECASE)


def side_of_name(name: str) -> Side | None:
    """Hemisphere that a file name tells, or None where it tells none or both.

    Examples
    --------
    >>> side_of_name("rh.thickness.fwhm0.fsaverage.mgh")
    'right'
    >>> side_of_name("sub-01_hemi-L_thickness.shape.gii")
    'left'
    >>> side_of_name("sub-01_thickness.dscalar.nii") is None
    True
    """
    left, right = bool(_LEFT.search(name)), bool(_RIGHT.search(name))
    if left == right:
        return None
    return "left" if left else "right"


def side_of_gifti(image: Any) -> Side | None:
    """Hemisphere in the metadata of a GIFTI image, or None."""
    for holder in (image, *image.darrays):
        structure = dict(holder.meta or {}).get("AnatomicalStructurePrimary", "").lower()
        if "left" in structure or "right" in structure:
            return "left" if "left" in structure else "right"
    return None


def declared_side(path: Path) -> Side | None:
    """Hemisphere that the metadata of a GIFTI file or else the file name tells, or None."""
    if path.name.endswith((".gii", ".gii.gz")):
        try:
            return side_of_gifti(nib.load(path)) or side_of_name(path.name)
        except UNREADABLE:
            return side_of_name(path.name)
    return side_of_name(path.name)
