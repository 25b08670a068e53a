"""The names of the shapes, as in ``DIVE(curve="sigmoid")`` and in saved files."""

from __future__ import annotations

from braindive.dive.curves.protocol import Curves
from braindive.dive.curves.sigmoid import Trajectories

CURVES: dict[str, type[Curves]] = {
    "sigmoid": Trajectories,
}
"""From name to class. Saved files call shapes by these names, so a name never changes."""
