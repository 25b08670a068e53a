"""What a user can choose of a fit, checked and in internal units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scipy.sparse import csr_array

from braindive.arrays import Array, IntArray
from braindive.dive.curves import Curves
from braindive.dive.priors import Priors


@dataclass(frozen=True)
class Settings:
    """What a user can choose.

    Parameters
    ----------
    n_clusters : int
        K.
    curve : type of Curves
        Shape of the trajectories.
    graph : sparse (n_vertices, n_vertices) or None
        Neighbours; None switches the Markov random field off.
    strength : float or None
        lambda where it is fixed.
    labels : (n_vertices,) int or None
        Fixed clusters, -1 where a vertex belongs nowhere.
    start : (n_vertices, n_clusters) or None
        Responsibilities to begin from in place of those of k-means; 0 in all clusters where
        nothing is known of a vertex.
    staging, exact, vertices
        As in `problem.Problem`.
    n_init, max_iter : int
        Starts of k-means, and the most passes over the values.
    tol : float
        As in `convergence.Monitor`.
    priors : Priors
        In internal units.
    """

    n_clusters: int
    curve: type[Curves]
    graph: csr_array | None
    strength: float | None
    labels: IntArray | None
    start: Array | None
    staging: bool
    exact: bool
    vertices: Literal["alike", "differ", "auto"]
    n_init: int
    max_iter: int
    tol: float
    priors: Priors
