"""Some of the vertices, evenly spread: where there are many, a part of them tells as much.

What is the same for all vertices, as where people are, how curves run and how vertices differ, is
known from thousands of vertices as well as from a hundred thousand, at a small part of the cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from braindive.arrays import BoolArray
from braindive.values.blocks import Block, Found, Own, Step

ENOUGH = 10_000
"""Vertices that are enough; from twice as many on there is a sample. A choice: of 1,816 visits they
take 73 MB."""
FEW = 0.1
"""Share of the vertices up to which a copy of some is kept, since they are asked for several times;
a choice that bounds the memory."""
# Vertices that are taken together: of single ones memory would bring as many others. And how many
# such runs there are at least. Choices.
_TOGETHER, _RUNS = 16, 100


def evenly_spread(n_vertices: int, enough: int | None = None) -> BoolArray | None:
    """Which vertices are in the sample; None where all of them are to be taken.

    Parameters
    ----------
    n_vertices : int
        Number of all vertices.
    enough : int, optional
        About how many are wanted; None for `ENOUGH`.

    Examples
    --------
    >>> from braindive.values.sampling import evenly_spread
    >>> evenly_spread(7, enough=3)
    array([ True, False,  True, False,  True, False,  True])
    """
    enough = enough or ENOUGH
    every = n_vertices // enough
    if every < 2:
        return None
    run = min(_TOGETHER, max(enough // _RUNS, 1))
    return np.asarray(np.arange(n_vertices) // run % every == 0)


@dataclass(frozen=True)
class OfSome(Step):
    """Another step on some of the vertices: which these are comes before its own inputs.

    Parameters
    ----------
    step : Step
        That knows nothing of the others.
    """

    step: Step
    needs_summary: ClassVar[bool] = True
    chooses_vertices: ClassVar[bool] = True

    def chosen(self, own: Own) -> BoolArray | None:
        """Those that the step works on."""
        return own[0]

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return what the step finds of them."""
        chosen, *rest = own
        mine = np.flatnonzero(chosen)
        ends = np.flatnonzero(np.diff(chosen, prepend=False, append=False)).reshape(-1, 2)
        runs = [block.values[:, start:end] for start, end in ends]
        counts, means, energies = block.known
        part = replace(
            block,
            where=slice(0, len(mine)),
            values=np.concatenate(runs, axis=1) if runs else block.values[:, :0],
            observed=None if block.observed is None else block.observed[:, mine],
            summary=(counts[mine], means[mine], energies[mine]),
            buffers={},
        )
        return self.step(part, *(None if each is None else each[mine] for each in rest))


@dataclass(frozen=True)
class Copy(Step):
    """The values themselves."""

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return them, (n_visits, n)."""
        return (block.values,), ()
