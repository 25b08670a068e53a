"""Two hemispheres made one."""

from __future__ import annotations

import numpy as np

from braindive.arrays import IntArray
from braindive.errors import ParameterError
from braindive.space.base import Space
from braindive.space.surface import Hemisphere, Surface


def fold_hemispheres(space: Space | None) -> tuple[Surface, IntArray]:
    """Return the left hemisphere where both are measured, and the mirrored pairs of columns.

    Parameters
    ----------
    space : Surface
        Two hemispheres with the same triangles, as in fsaverage and fsLR.

    Returns
    -------
    Surface, (n_pairs, 2) int
        The left hemisphere, and for each of its vertices the columns on the left and right.

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.space.folding import fold_hemispheres
    >>> folded, pairs = fold_hemispheres(bd.load_space("fsaverage5"))
    >>> folded.n_vertices, pairs[0].tolist()
    (10242, [0, 10242])
    """
    if not isinstance(space, Surface) or len(space.hemispheres) != 2:
        raise ParameterError(
            "averaging hemispheres needs a surface with a left and a right one; this cohort has "
            f"{'no space' if space is None else space!r}."
        )
    left, right = space.hemispheres
    if left.n_mesh != right.n_mesh:
        raise ParameterError(
            f"the hemispheres of {space.name!r} have {left.n_mesh} and {right.n_mesh} vertices; "
            "they can be averaged only if vertex n is the same place on both."
        )
    both = left.mask & right.mask
    pairs = np.stack(
        [
            (np.cumsum(left.mask) - 1)[both],
            left.n_measured + (np.cumsum(right.mask) - 1)[both],
        ],
        axis=1,
    )
    name = f"{space.name}-averaged"
    return Surface(name, (Hemisphere("left", left.coordinates, left.faces, both),)), pairs
