"""Which hemisphere a file says it is of."""

from __future__ import annotations

import re
from pathlib import Path

from braindive.space.surface import Side

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


def sides_told(path: Path, told: Side | None = None) -> frozenset[Side]:
    """Hemispheres that a file tells: in its metadata, given as `told`, and by its name."""
    return frozenset(side for side in (told, side_of_name(path.name)) if side is not None)
