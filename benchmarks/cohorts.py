"""Cohorts of any size on a sphere's mesh, filled row by row so that nothing else is large.

And cohorts that are like brains: people differ persistently, in smooth maps (`beyond`, `unlike`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import braindive as bd
from braindive.simulation import contiguous_patches
from braindive.space.smoothing import smooth_over_graph


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


def beyond(off: float, seed: int, mislabelled: float = 0.0, **settings: Any) -> bd.Simulation:
    """70 controls before the disease and 130 patients, who differ persistently and smoothly.

    `off` is the standard deviation over people of their maps, beside a disease that takes 2 and
    noise of 0.45. Further settings are those of `simulate_cohort`, and go before these.
    """
    amplitude, steepness = -2.0, 0.4
    chosen: dict[str, Any] = {
        "n_subjects": 200,
        "n_visits": 4,
        "space": "fsaverage5-left",
        "midpoints": (-6.0, 0.0, 6.0, 12.0),
        "n_patches": 20,
        "amplitude": amplitude,
        "slope": amplitude * steepness / 4,
        "steepness_variation": 0.0,
        "midpoint_variation": 0.0,
        "mean_speed": 1.0,
        "mean_shift": 2.0,
        "shift_sd": 9.0,
        "control_share": 70 / 200,
        "controls_shift": (-22.0, 3.0),
        "controls_speed": 0.3,
        "mislabelled": mislabelled,
        "personal_offset": off,
        "personal_smoothing": 40,
        "noise": 0.45,
        "noise_smoothing": 3,
        "dtype": "float32",
    }
    return bd.simulate_cohort(random_state=seed, **(chosen | settings))


@dataclass(frozen=True)
class VertexCurves:
    """Courses that are no sigmoids: Gompertz curves, and ramps from one plateau to another."""

    amplitudes: NDArray[np.float64]
    rates: NDArray[np.float64]
    midpoints: NDArray[np.float64]
    is_ramp: NDArray[np.bool_]

    def evaluate(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values at the scores, (n_scores, n_vertices)."""
        steps = self.rates * (scores[:, None] - self.midpoints)
        # Moved so that the midpoint is where half of the change is done; it is steepest earlier.
        gompertz = np.exp(-np.exp(-np.clip(steps - np.log(np.log(2)), -30, 30)))
        ramp = np.clip(0.5 + steps / 4, 0, 1)
        return self.amplitudes * np.where(self.is_ramp, ramp, gompertz)


@dataclass(frozen=True)
class Unlike:
    """A cohort of `unlike` and its truth, in the order of the cohort's vertices and subjects."""

    cohort: bd.Cohort
    labels: NDArray[np.int64]
    curves: VertexCurves
    speeds: NDArray[np.float64]
    shifts: NDArray[np.float64]
    scores: NDArray[np.float64]
    mislabelled: NDArray[np.bool_]


def unlike(seed: int, n_controls: int = 60, n_patients: int = 140) -> Unlike:
    """Cohort that keeps none of the model's assumptions, to look at once, after all choices.

    Courses of vertices are Gompertz curves or ramps with their own midpoints. Noise has heavy
    tails, is correlated over neighbours, and grows with the damage. People's maps have a rough
    and a wide part, and a level of their own. Speeds are log-normal, and some patients hardly
    move. People are seen one to six times, irregularly; values are missing at random and in
    whole patches; a tenth of the controls progress like patients.
    """
    random = np.random.default_rng([seed, 20_000])
    space = bd.load_space("fsaverage5-left")
    graph, n_vertices, n_subjects = space.graph(), space.n_vertices, n_controls + n_patients

    def smooth_maps(n_maps: int, rounds: int) -> NDArray[np.float64]:
        maps = smooth_over_graph(random.standard_normal((n_vertices, n_maps)), graph, rounds).T
        return np.asarray(maps / np.sqrt(np.mean(maps**2)))

    patches = contiguous_patches(space, 25, random)
    labels = patches % 5
    onset = np.array([-7.0, -2.0, 2.0, 7.0, 13.0])[labels]
    curves = VertexCurves(
        -np.array([2.4, 1.6, 2.0, 1.3, 1.8])[labels] * random.lognormal(0, 0.2, n_vertices),
        np.array([0.35, 0.5, 0.25, 0.4, 0.3])[labels] * random.lognormal(0, 0.2, n_vertices),
        onset + 2.0 * smooth_maps(1, 10)[0] + random.normal(0, 1.0, n_vertices),
        labels % 2 == 1,
    )

    ill = np.arange(n_subjects) >= n_controls
    mislabelled = ~ill & (random.random(n_subjects) < 0.1)
    moves = ill | mislabelled
    shifts = np.where(
        moves, -10 + random.gamma(2.0, 6.0, n_subjects), random.normal(-18, 6, n_subjects)
    )
    speeds = np.where(moves, 0.9, 0.25) * random.lognormal(0, 0.5, n_subjects)
    speeds[moves & (random.random(n_subjects) < 0.2)] *= 0.05
    subject = np.repeat(np.arange(n_subjects), random.integers(1, 7, n_subjects))
    gaps = random.uniform(0.4, 1.9, len(subject))
    first = np.flatnonzero(np.diff(subject, prepend=-1))
    elapsed = np.cumsum(gaps)
    times = elapsed - elapsed[first][subject]
    scores = speeds[subject] * times + shifts[subject]

    personal = 0.6 * smooth_maps(n_subjects, 150) + 0.5 * smooth_maps(n_subjects, 5)
    personal += 0.4 * random.standard_normal((n_subjects, 1))
    damage = curves.evaluate(scores)
    # A scan is as a whole better or worse (a multivariate t), and so is each of its values.
    noise = smooth_maps(len(subject), 2) / np.sqrt(random.chisquare(5, (len(subject), 1)) / 5)
    noise += 0.5 * random.standard_t(4, noise.shape)
    values = damage + personal[subject] + (0.3 + 0.1 * np.abs(damage)) * noise
    values[random.random(values.shape) < 0.02] = np.nan
    for visit in np.flatnonzero(random.random(len(subject)) < 0.25):
        values[visit, patches == random.integers(25)] = np.nan
    cohort = bd.Cohort(
        values.astype(np.float32),
        subjects=np.array([f"sub-{i:03d}" for i in subject], dtype=object),
        times=times,
        controls=~ill[subject],
        graph=graph,
        space=space,
    )
    return Unlike(cohort, labels, curves, speeds, shifts, scores, mislabelled)


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
