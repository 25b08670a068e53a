"""Where the columns of a cohort lie, and which of them are neighbours."""

from braindive.space.arrays import space_from_arrays
from braindive.space.base import Space
from braindive.space.regions import Regions
from braindive.space.surface import Hemisphere, Side, Surface
from braindive.space.volume import Volume

__all__ = [
    "Hemisphere",
    "Regions",
    "Side",
    "Space",
    "Surface",
    "Volume",
    "space_from_arrays",
]
