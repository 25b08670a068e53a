"""Leaps ahead of the EM from the last few of its steps: Newton's step in their span.

Near an optimum a step of the EM is f = M^-1 g, with g the gradient of the objective and M the
information of the complete data, and steps change by A = M^-1 H along the way, with H the Hessian.
In the inner product of M, A is symmetric. Its eigenvalues lie between -1, along which one step of
the EM arrives, and 0, along which it creeps; above 0 the EM leaves a saddle. A leap divides the
component of f along each eigenvector by the size of the eigenvalue (the saddle-free Newton method
of Dauphin et al. 2014), in the span of the last steps, where A is known from their differences
(Anderson's acceleration, in its form of type I).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from braindive.arrays import Array

# Steps of the EM that are remembered. Ten were no better than five with 10 and 20 clusters.
_DEPTH = 5
# Longest leap along one direction, in steps of the EM; a choice that keeps it finite.
_FURTHEST = 1e3
# Directions along which the remembered points differ by less than this share of the largest
# difference, squared, are left out: rounding and unfinished M-steps drown them.
_DISTINCT = 1e-6
# By how much a leap is shortened when it is taken back, and how much further than one that was not
# the next may go. What would be shorter than such a part of a step of the EM is no leap.
_SHORTER, _LONGER = 0.25, 2.0


@dataclass
class Leaps:
    """Remembers points and where a step of the EM took them, and how far leaps may go."""

    radius: float = np.inf
    points: list[Array] = field(default_factory=list)
    images: list[Array] = field(default_factory=list)
    length: float = 0.0
    step: float = 0.0

    def ahead(self, point: Array, image: Array, embed: Callable[[Array], Array]) -> Array:
        """Where to go instead of the image of a point under a step of the EM.

        Parameters
        ----------
        point, image : (n,)
            Parameters before and after a step.
        embed : callable
            From parameters to vectors whose squared distance is that of M.

        Returns
        -------
        (n,)
            The image itself where nothing is known yet.
        """
        self.points = [*self.points, point][-1 - _DEPTH :]
        self.images = [*self.images, image][-1 - _DEPTH :]
        self.length = 0.0
        if len(self.points) < 2:
            return image
        embedded = np.stack([embed(x) for x in self.points], axis=1)
        steps = np.stack([embed(x) for x in self.images], axis=1) - embedded
        step = steps[:, -1]
        self.step = float(np.linalg.norm(step))
        differences = embedded[:, :-1] - embedded[:, -1:]
        sizes = np.maximum(np.linalg.norm(differences, axis=0), 1e-300)
        differences = differences / sizes
        squared, axes = np.linalg.eigh(differences.T @ differences)
        kept = squared > _DISTINCT * squared[-1]
        whiten = axes[:, kept] / np.sqrt(squared[kept])
        slopes = whiten.T @ (differences.T @ ((steps[:, :-1] - step[:, None]) / sizes)) @ whiten
        eigenvalues, vectors = np.linalg.eigh((slopes + slopes.T) / 2)
        directions = whiten @ vectors
        factors = 1 / np.clip(np.abs(eigenvalues), 1 / _FURTHEST, 1.0) - 1
        beyond = factors * (directions.T @ (differences.T @ step))
        full = float(np.linalg.norm(beyond))
        if min(full, self.radius) < _SHORTER * self.step:
            return image
        self.length = min(full, self.radius)
        moves = (np.stack(self.points[:-1], axis=1) - point[:, None]) / sizes
        return np.asarray(image + moves @ (directions @ (self.length / full * beyond)))

    def take_back(self) -> None:
        """Forget the last point, to which the EM returns, and leap less far from it."""
        self.radius = _SHORTER * self.length
        self.points.pop()
        self.images.pop()

    def keep(self) -> None:
        """Let the next leap go further than this one."""
        self.radius = max(self.radius, _LONGER * max(self.length, self.step))
