"""Coefficients of every vertex by least squares, and how visits scatter around them by site."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.values.blocks import Block, Found


@dataclass(frozen=True)
class SiteResiduals:
    """Coefficients of a design, and the scatter of what they leave, within people and between them.

    A residual step. With holes the coefficients are those of values that are as their vertex's mean
    where they are missing; the scatter is that of what was observed.

    Parameters
    ----------
    rows : (n_coefficients, n_visits)
        Linear combinations of visits that are the coefficients.
    design : (n_visits, n_coefficients)
        What one unit of each adds to a visit.
    subjects : (n_visits,) int
        Subject of each visit, ascending.
    sites : (n_visits,) int
        Site of each visit.
    n_sites : int
        Number of sites.
    """

    rows: Array
    design: Array
    subjects: IntArray
    sites: IntArray
    n_sites: int

    @cached_property
    def _cells(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Visits sorted by person and site, where each cell begins, its size and its site."""
        order = np.lexsort((self.sites, self.subjects))
        key = self.subjects[order] * self.n_sites + self.sites[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        sizes = np.diff(np.append(starts, len(key)))
        return order, starts, sizes, self.sites[order][starts]

    @cached_property
    def _people(self) -> tuple[IntArray, IntArray]:
        """Where each person's visits begin, and how many there are."""
        starts = np.flatnonzero(np.diff(self.subjects, prepend=-1))
        return starts, np.diff(np.append(starts, len(self.subjects)))

    def __call__(
        self, block: Block, residuals: Array, means: Array, loadings: Array, *own: Any
    ) -> Found:
        """Return coefficients, squares, freedoms and visits of each site, and squares of people.

        (n_coefficients, n), three times (n_sites, n), and twice (n,): the mean over people of their
        squared mean residuals, and of the inverse number of their visits.
        """
        dtype = residuals.dtype
        found = self.rows.astype(dtype) @ residuals
        residuals -= self.design.astype(dtype) @ found
        if block.observed is not None:
            np.copyto(residuals, 0.0, where=~block.observed)
        starts, counts = self._people
        seen = self._counts(block, starts, counts)
        averages = np.add.reduceat(residuals, starts, axis=0) / np.maximum(seen, 1)
        there = np.maximum((seen > 0).sum(axis=0), 1.0)
        levels = (averages.astype(float) ** 2).sum(axis=0) / there
        inverse = np.where(seen > 0, 1 / np.maximum(seen, 1), 0.0).sum(axis=0) / there
        order, starts, sizes, of_cell = self._cells
        sorted_ = residuals[order]
        seen = self._counts(block, starts, sizes, order)
        sums = np.add.reduceat(sorted_, starts, axis=0)
        np.square(sorted_, out=sorted_)
        within = np.add.reduceat(sorted_, starts, axis=0) - sums**2 / np.maximum(seen, 1)
        member = (of_cell == np.arange(self.n_sites)[:, None]).astype(float)
        freedom = member @ np.maximum(seen - 1.0, 0.0)
        shape = (self.n_sites, block.n_vertices)
        return (
            found.astype(float),
            member @ np.maximum(within, 0.0),
            np.broadcast_to(freedom, shape),
            np.broadcast_to(member @ seen, shape),
            levels,
            np.broadcast_to(inverse, shape[1:]),
        ), ()

    def _counts(
        self, block: Block, starts: IntArray, sizes: IntArray, order: IntArray | None = None
    ) -> Array:
        """Observed visits in each part, (n_parts, n), or (n_parts, 1) without holes."""
        if block.observed is None:
            return sizes[:, None].astype(float)
        observed = block.observed if order is None else block.observed[order]
        return np.add.reduceat(observed.astype(float), starts, axis=0)
