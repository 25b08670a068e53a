"""Shapes that the clusters' trajectories can have, and the registry that names them."""

from braindive.dive.curves.protocol import AtPoints, Bounds, Curves, choose, onset_gradients
from braindive.dive.curves.registry import CURVES
from braindive.dive.curves.sigmoid import Trajectories

__all__ = ["CURVES", "AtPoints", "Bounds", "Curves", "Trajectories", "choose", "onset_gradients"]
