"""How much less visits say of a vertex's curve than if they were of different people.

People differ persistently from the curve of their stage, so that the visits of one person count
for less than their number: the design effect of cluster samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.problem import Parameters
from braindive.dive.timeline import Timeline
from braindive.dive.vertices import without_noise
from braindive.values.blocks import Block, Found, Step
from braindive.values.coordinates import Coordinates
from braindive.values.protocol import Products

# Vertices of each cluster from which the design effect is learnt with up to so many people: its
# error is then a few per cent. With more people fewer vertices tell as much, since their maps are
# smooth, down to the last number. Choices.
_SOME, _PEOPLE, _LEAST = 200, 1000, 50


@dataclass(frozen=True)
class DesignEffect(Step):
    """How much more the coordinates of a vertex vary by noise than if visits were independent.

    People differ persistently, so that the visits of one person say less than as many of different
    ones. Sums of squares of the residuals' products with the basis, added up person by person
    first: the cluster-robust covariance, for some of the vertices.

    Parameters
    ----------
    curves : (n_visits, n_clusters)
        F_nk in standard units.
    bases : (n_clusters, n_visits, rank)
        Orthonormal, of the constant and the curves' derivatives.
    starts : (n_subjects,) int
        First visit of each subject.
    """

    curves: Array
    bases: Array
    starts: IntArray

    def __call__(self, block: Block, *own: Any) -> Found:
        """Return sums over vertices: by person, and as if independent, (n_clusters,) each."""
        (labels,) = own
        n_clusters, _, rank = self.bases.shape
        by_person, independent = np.zeros(n_clusters), np.zeros(n_clusters)
        for k in range(n_clusters):
            mine = np.flatnonzero(labels == k)
            if not len(mine):
                continue
            values = block.values[:, mine].astype(float)
            residuals = (values - block.unit.offset) / block.unit.scale - self.curves[:, k, None]
            if block.observed is not None:
                residuals[~block.observed[:, mine]] = 0.0
            basis = self.bases[k]
            residuals -= basis @ (basis.T @ residuals)
            freedom = len(residuals) - rank
            if block.observed is not None:
                residuals[~block.observed[:, mine]] = 0.0
                freedom = block.observed[:, mine].sum(axis=0) - rank
            for direction in basis.T:
                each = np.add.reduceat(direction[:, None] * residuals, self.starts, axis=0)
                by_person[k] += np.sum(each**2)
            squares = np.einsum("nl,nl->l", residuals, residuals)
            independent[k] += rank * np.sum(squares / np.maximum(freedom, 1))
        return (), (by_person, independent)


def without_personal_noise(
    measurements: Products, timeline: Timeline, parameters: Parameters, responsibilities: Array
) -> Parameters:
    """Noise that counts for one vertex's curve, and Psi without what was such noise.

    People differ persistently, so that visits count for less than their number.
    """
    curves, noise = parameters.trajectories, parameters.noise
    scores = timeline.scores(parameters.speeds, parameters.shifts)
    design = Coordinates(curves.evaluate(scores), curves.jacobian(scores), None, measurements.dtype)
    effect = DesignEffect(design.curves, design.bases, timeline.starts)
    n_subjects = timeline.n_subjects
    enough = int(np.clip(_SOME * _PEOPLE / n_subjects, _LEAST, _SOME))
    few = evenly_chosen(responsibilities.argmax(axis=1), len(curves), enough)
    _, (by_person, independent) = measurements.run(effect, few)
    small = n_subjects / max(n_subjects - design.rank, 1)
    inflation = np.maximum(small * by_person / np.maximum(independent, 1e-300), 1.0)
    covariance = parameters.vertex_covariance
    assert covariance is not None
    covariance = without_noise(covariance, design, (inflation - 1) * noise**2)
    return replace(parameters, noise=noise * np.sqrt(inflation), vertex_covariance=covariance)


def evenly_chosen(labels: IntArray, n_clusters: int, number: int) -> IntArray:
    """Return the labels of so many vertices of each cluster, evenly spread, and -1 for others."""
    chosen = np.full(len(labels), -1)
    for k in range(n_clusters):
        mine = np.flatnonzero(labels == k)
        if len(mine):
            some = mine[np.unique(np.linspace(0, len(mine) - 1, number).astype(int))]
            chosen[some] = k
    return chosen
