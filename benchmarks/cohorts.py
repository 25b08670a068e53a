"""Cohorts of any size on a sphere's mesh, filled row by row so that nothing else is large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import braindive as bd


@dataclass(frozen=True)
class Size:
    """How large a cohort is; the mesh has 10 * 4 ** subdivisions + 2 vertices."""

    subdivisions: int
    n_subjects: int
    n_clusters: int = 3
    n_visits_each: int = 4

    @property
    def n_vertices(self) -> int:
        """Vertices of the mesh."""
        return 10 * 4**self.subdivisions + 2

    @property
    def n_visits(self) -> int:
        """Visits of all subjects, which are the rows of the values."""
        return self.n_subjects * self.n_visits_each

    def __str__(self) -> str:
        return (
            f"{self.n_vertices:,} vertices x {self.n_subjects:,} subjects x "
            f"{self.n_visits_each} visits, {self.n_clusters} clusters"
        )


@dataclass(frozen=True)
class Truth:
    """All that a cohort is made from, before its values take up any memory."""

    labels: NDArray[np.int64]
    vertex_curves: bd.Trajectories
    scores: NDArray[np.float64]
    subjects: NDArray[np.int64]
    times: NDArray[np.float64]
    graph: sparse.csr_array


def make_truth(size: Size, seed: int = 0) -> Truth:
    """Draw the paper's basic setting, with the clusters in contiguous patches of the mesh."""
    random = np.random.default_rng(seed)
    points, graph = icosphere(size.subdivisions)
    patches = random.normal(size=(5 * size.n_clusters, 3))
    patches /= np.linalg.norm(patches, axis=1, keepdims=True)
    labels = (points @ patches.T).argmax(axis=1) % size.n_clusters

    n_vertices = size.n_vertices
    midpoints = np.linspace(-15.0, 20.0, size.n_clusters)
    vertex_curves = bd.Trajectories(
        np.full(n_vertices, -1.0),
        0.4 * (1 + random.normal(0, np.sqrt(1 / 15), n_vertices)),
        midpoints[labels] + random.normal(0, np.sqrt(11.6), n_vertices),
        np.zeros(n_vertices),
    )
    subjects = np.repeat(np.arange(size.n_subjects), size.n_visits_each)
    times = np.tile(np.arange(size.n_visits_each, dtype=float), size.n_subjects)
    speeds = random.gamma(6.25, 1 / 6.25, size.n_subjects)
    shifts = random.normal(0, 10.0, size.n_subjects)
    scores = speeds[subjects] * times + shifts[subjects]
    return Truth(labels, vertex_curves, scores, subjects, times, graph)


def draw_values(truth: Truth, seed: int = 1) -> NDArray[np.float32]:
    """Every vertex's own curve plus noise of standard deviation 1, in single precision."""
    random = np.random.default_rng(seed)
    values = np.empty((len(truth.scores), len(truth.labels)), dtype=np.float32)
    for row, score in zip(values, truth.scores, strict=True):
        random.standard_normal(dtype=np.float32, out=row)
        row += truth.vertex_curves.evaluate(np.array([score]))[0].astype(np.float32)
    return values


def icosphere(subdivisions: int) -> tuple[NDArray[np.float64], sparse.csr_array]:
    """Return points and edges of an icosahedron whose triangles are split in four repeatedly."""
    golden = (1 + np.sqrt(5)) / 2
    corners = [(0.0, a, b) for a in (-1, 1) for b in (-golden, golden)]
    points = np.array([np.roll(corner, turn) for turn in range(3) for corner in corners])
    # Corners of an edge are 2 apart, and three corners that are pairwise neighbours are a face.
    near = np.isclose(np.linalg.norm(points[:, None] - points, axis=2), 2.0)
    faces = np.array(
        [
            (i, j, k)
            for i in range(12)
            for j in range(i + 1, 12)
            for k in range(j + 1, 12)
            if near[i, j] and near[j, k] and near[i, k]
        ]
    )
    for _ in range(subdivisions):
        points, faces = _split(points, faces)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    edges, _ = _edges(faces, len(points))
    half = sparse.coo_array((np.ones(len(edges)), tuple(edges.T)), shape=(len(points),) * 2)
    return points, sparse.csr_array(half + half.T)


def _split(
    points: NDArray[np.float64], faces: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    edges, edge_of_side = _edges(faces, len(points))
    middles = points[edges].mean(axis=1)
    middles *= np.linalg.norm(points[0]) / np.linalg.norm(middles, axis=1, keepdims=True)
    ab, bc, ca = edge_of_side.reshape(3, -1) + len(points)
    a, b, c = faces.T
    quarters = [(a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca)]
    return np.concatenate([points, middles]), np.concatenate([np.stack(q, 1) for q in quarters])


def _edges(faces: NDArray[np.int64], n_points: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the edges (n_edges, 2), and which of them each side of each face is."""
    sides = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    keys = sides.min(axis=1) * n_points + sides.max(axis=1)
    unique, edge_of_side = np.unique(keys, return_inverse=True)
    return np.stack(np.divmod(unique, n_points), axis=1), edge_of_side
