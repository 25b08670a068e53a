"""Leaps ahead of the EM: Newton's step, made of a step of the EM and of what it does not see.

Near an optimum a step of the EM is I^-1 g, with g the gradient of the objective and I the
information of the complete data. Newton's is (I - M)^-1 g, with M the information that is missing
because nobody knows z (Louis 1982). Along an eigenvector of I^-1 M the EM goes the share 1 - mu of
the way: all of it where mu is 0, and it creeps where mu is nearly 1. Above 1 it leaves a saddle. A
leap divides the step along each eigenvector by the size of 1 - mu (the saddle-free Newton method of
Dauphin et al. 2014).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from braindive.arrays import Array

# Longest leap along one direction, in steps of the EM; a choice that keeps it finite.
_FURTHEST = 1e3
# By how much a leap is shortened when it is taken back, and how much further than one that was not
# the next may go. What would be shorter than such a part of a step of the EM is no leap.
_SHORTER, _LONGER = 0.25, 2.0
# Share of a parameter's own information that is added to it, so that parameters which the data do
# not tell apart, as those of a flat curve, have a unit too. A choice.
_RIDGE = 1e-8


@dataclass
class Leaps:
    """How far leaps may go, how far the last one went, and the step of the EM beside it."""

    radius: float = np.inf
    length: float = 0.0
    step: float = 0.0

    def ahead(self, point: Array, image: Array, complete: Array, missing: Array) -> Array:
        """Where to go instead of the image of a point under a step of the EM.

        Parameters
        ----------
        point, image : (n,)
            Parameters before and after a step.
        complete, missing : (n, n)
            Information of the complete data about them, and the part that is missing.

        Returns
        -------
        (n,)
            The image itself where a leap would hardly go further.
        """
        sizes = np.sqrt(np.diag(complete))
        sizes = np.where(sizes > 0, sizes, 1.0)
        scaled = complete / np.outer(sizes, sizes) + _RIDGE * np.eye(len(sizes))
        shares, directions = eigh(missing / np.outer(sizes, sizes), scaled)
        along = directions.T @ (scaled @ (sizes * (image - point)))
        beyond = (1 / np.clip(np.abs(1 - shares), 1 / _FURTHEST, 1.0) - 1) * along
        self.step, full = float(np.linalg.norm(along)), float(np.linalg.norm(beyond))
        self.length = min(full, self.radius)
        if self.length <= _SHORTER * self.step:
            self.length = 0.0
            return image
        return np.asarray(image + directions @ (self.length / full * beyond) / sizes)

    def take_back(self) -> None:
        """Leap less far from the same point."""
        self.radius = _SHORTER * self.length

    def keep(self) -> None:
        """Let the next leap go further than this one."""
        self.radius = max(self.radius, _LONGER * max(self.length, self.step))
