"""Which regions of the brain each cluster lies in, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from braindive.arrays import Array
from braindive.io.anatomy import Anatomy

# Regions named for one cluster: what a line of a table holds, and all that matter where regions
# themselves were measured.
MOST_NAMED, MOST_LISTED = 4, 20
# Smaller regions, and such of which less belongs to the cluster, are no answer to "where".
_FEWEST_VERTICES, _SMALLEST_SHARE = 5, 0.1


@dataclass(frozen=True)
class Place:
    """A region in which a cluster lies.

    Parameters
    ----------
    name : str
        For people, such as ``"left and right insula"``.
    share : float
        How much of the region belongs to the cluster, by the probabilities of its vertices.
    size : int
        Vertices of the region.
    """

    name: str
    share: float
    size: int

    def __str__(self) -> str:
        return f"{self.name} ({100 * self.share:.0f} %)"


def places_of_clusters(anatomy: Anatomy | None, responsibilities: Array) -> list[list[Place]]:
    """Regions of which most belongs to each cluster, those with the largest share first.

    Parameters
    ----------
    anatomy : Anatomy or None
        Region of each vertex; without, there are none to name.
    responsibilities : (n_vertices, n_clusters)
        Probability of each cluster at each vertex.

    Returns
    -------
    list of lists of Place
        At most four for each cluster, or twenty where regions themselves were measured. A region
        that the cluster has on both sides is named once.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.io.anatomy import Anatomy
    >>> from braindive.report.places import places_of_clusters
    >>> names = ("left insula", "right insula", "left cuneus")
    >>> anatomy = Anatomy("", "", names, np.repeat([0, 1, 2], 10))
    >>> first, second = places_of_clusters(anatomy, np.eye(2)[np.repeat([0, 0, 1], 10)])
    >>> str(first[0]), str(second[0])
    ('left and right insula (100 %)', 'left cuneus (100 %)')
    """
    n_clusters = responsibilities.shape[1]
    if anatomy is None or not len(anatomy.names):
        return [[] for _ in range(n_clusters)]
    inside = anatomy.labels >= 0
    labels, n_regions = anatomy.labels[inside], len(anatomy.names)
    sizes = np.bincount(labels, minlength=n_regions)
    # Where the regions themselves were measured there is one column for each.
    are_columns = int(sizes.max()) == 1
    fewest, least = (1, 0.5) if are_columns else (_FEWEST_VERTICES, _SMALLEST_SHARE)
    found = []
    for k in range(n_clusters):
        sums = np.bincount(labels, responsibilities[inside, k], minlength=n_regions)
        shares = sums / np.maximum(sizes, 1)
        places = [
            Place(name, float(share), int(size))
            for name, share, size in zip(anatomy.names, shares, sizes, strict=True)
            if size >= fewest and share >= least
        ]
        places = places if are_columns else _both_sides(places)
        places.sort(key=lambda place: (-round(place.share, 2), -place.size, place.name))
        found.append(places[: MOST_LISTED if are_columns else MOST_NAMED])
    return found


def describe_places(places: list[Place]) -> list[dict[str, Any]]:
    """Return the regions of one cluster as plain rows."""
    return [{"name": place.name, "share": place.share} for place in places]


def _both_sides(places: list[Place]) -> list[Place]:
    """Name a region once if the cluster has about as much of it on either side."""
    by_name = {place.name: place for place in places}
    merged = []
    for place in places:
        side, _, rest = place.name.partition(" ")
        other = by_name.get(f"{'right' if side == 'left' else 'left'} {rest}")
        alike = other is not None and min(place.share, other.share) >= 0.5 * max(
            place.share, other.share
        )
        if side not in ("left", "right") or other is None or not alike:
            merged.append(place)
        elif side == "left":
            size = place.size + other.size
            share = (place.share * place.size + other.share * other.size) / size
            merged.append(Place(f"left and right {rest}", share, size))
    return merged
