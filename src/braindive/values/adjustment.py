"""Offsets of sites, taken off the values of each block as it is read.

Every product is made from steps, and every step sees the adjusted values: nothing is copied but the
block in work, and what adjusts it travels to a worker as any other input of a step does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from braindive.arrays import BoolArray, IntArray
from braindive.values.blocks import Block, Found, Own, Step


@dataclass(frozen=True)
class Adjusted(Step):
    """A step on values less the offsets of their sites.

    It is called with the offsets (n, n_sites) of its vertices, then, where the step needs it, with
    the summary of their adjusted values, and then with the inputs of the step itself.

    Parameters
    ----------
    step : Step
        What is done with the adjusted values.
    sites : (n_visits,) int
        Site of each visit.
    """

    step: Step
    sites: IntArray

    @property
    def chooses_vertices(self) -> bool:  # type: ignore[override]
        """As the step does."""
        return self.step.chooses_vertices

    def chosen(self, own: Own) -> BoolArray | None:
        """As the step does, by its own inputs."""
        return self.step.chosen(own[4 if self.step.needs_summary else 1 :])

    def width(self, block: Block) -> int:
        """As many as the step works on at once."""
        return self.step.width(block)

    def __call__(self, block: Block, *own: Any) -> Found:
        """What the step finds of the adjusted values."""
        offsets, *rest = own
        summary = None
        if self.step.needs_summary:
            counts, means, energies, *rest = rest
            summary = (counts, means, energies)
        dtype = block.values.dtype
        values = block.buffer("adjusted", len(self.sites))
        # Clipping is for numpy to write into the buffer directly; every site is in range.
        np.take(offsets.T.astype(dtype), self.sites, axis=0, out=values, mode="clip")
        np.subtract(block.values, values, out=values)
        return self.step(replace(block, values=values, summary=summary), *rest)
