"""Spaces rebuilt from the plain arrays in which they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braindive.errors import ParameterError
from braindive.space.base import Space
from braindive.space.regions import Regions
from braindive.space.surface import Surface
from braindive.space.volume import Volume

_KINDS: dict[str, type[Space]] = {"surface": Surface, "volume": Volume, "regions": Regions}


def space_from_arrays(arrays: Mapping[str, Any]) -> Space:
    """Rebuild a space from what its `to_arrays` gave.

    Parameters
    ----------
    arrays : mapping of str to array
        Also what `numpy.load` of an ``.npz`` file returns.

    Returns
    -------
    Space

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.space import space_from_arrays
    >>> space_from_arrays(bd.load_space("fsaverage5-left").to_arrays()).n_vertices
    10242
    """
    kind = str(arrays["kind"]) if "kind" in arrays else "missing"
    if kind not in _KINDS:
        raise ParameterError(f"the kind of a space is {' or '.join(_KINDS)}; got {kind!r}.")
    try:
        return _KINDS[kind].from_arrays(arrays)
    except KeyError as error:
        raise ParameterError(f"the stored {kind} lacks {error}.") from None
