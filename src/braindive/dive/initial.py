"""Where the fit starts: clusters from k-means, scores from the leading component of their means."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.pooled import PooledMeans
from braindive.dive.timeline import Timeline
from braindive.space.smoothing import smooth_over_graph
from braindive.values.protocol import Products

# Vertices on which the centres of k-means are found: a choice that bounds its cost.
_ENOUGH = 10_000
# Below this z-value the disease is tried both ways; above it the direction counts as clear. A
# choice: by chance it is exceeded in one cohort of 370.
CLEAR = 3.0
# Longest course of a disease in multiples of the change that one subject shows: keeps the start
# finite where nobody changes. A choice.
_LONGEST_COURSE = 30.0


@dataclass(frozen=True)
class Direction:
    """Which way the disease runs along the leading component, and how sure that is.

    Parameters
    ----------
    source : {"controls", "time"}
        What the direction was taken from: that controls come early, or that people move forward.
    z_value : float
        How sure that source is.
    time_z_value : float
        How sure time is that people move forward this way; negative where it says the opposite.
    """

    source: str
    z_value: float
    time_z_value: float

    @property
    def is_clear(self) -> bool:
        """Whether controls, or time, clearly point this way."""
        return abs(self.z_value) >= CLEAR

    @property
    def is_doubtful(self) -> bool:
        """Whether time does not clearly confirm it: controls alone may be wrong or few."""
        return self.time_z_value < CLEAR


def vertex_features(
    measurements: Products,
    graph: csr_array | None,
    random: np.random.Generator,
    n_features: int = 12,
) -> Array:
    """Level and leading components of every vertex, (n_vertices, n_features + 1).

    The components come from one power iteration on random combinations of visits, which keeps
    the signal and most of the noise apart; with a graph they are averaged over neighbours.
    """
    n_features = min(n_features, measurements.n_visits)
    directions = random.standard_normal((measurements.n_visits, n_features))
    directions = measurements.power_step(directions)
    directions = np.linalg.qr(directions - directions.mean(axis=0))[0]
    features = measurements.features(directions)
    return features if graph is None else smooth_over_graph(features, graph)


def cluster_vertices(
    features: Array, n_clusters: int, random: np.random.Generator, n_starts: int
) -> list[IntArray]:
    """Labels from k-means with several starts, best first, partitions that differ only.

    A start orders the vertices along a direction in feature space and cuts the order into equal
    parts, so it does not depend on how the vertices are numbered. Centres are found on at most
    `_ENOUGH` evenly spaced vertices.
    """
    sample = np.ascontiguousarray(features[:: max(1, len(features) // _ENOUGH)])
    centred = sample - sample.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    leading = axes[:, -4:]
    directions = [leading[:, -1]]
    directions += [leading @ random.standard_normal(leading.shape[1]) for _ in range(n_starts - 1)]
    # Equal parts of whatever order.
    places = np.arange(len(sample)) * n_clusters // len(sample)
    found: list[KMeans] = []
    for direction in directions:
        part = np.empty(len(sample), dtype=int)
        part[np.argsort(centred @ direction, kind="stable")] = places
        centres = np.stack([sample[part == k].mean(axis=0) for k in range(n_clusters)])
        with warnings.catch_warnings():
            # Fewer different vertices than clusters: the fit itself says which end up empty.
            warnings.simplefilter("ignore", ConvergenceWarning)
            kmeans = KMeans(n_clusters, init=centres, n_init=1, max_iter=100).fit(sample)
        if not any(np.isclose(kmeans.inertia_, other.inertia_, rtol=1e-4) for other in found):
            found.append(kmeans)
    found.sort(key=lambda kmeans: float(kmeans.inertia_))
    return [_nearest(features, kmeans.cluster_centers_) for kmeans in found]


def _nearest(features: Array, centres: Array) -> IntArray:
    distances = np.sum(centres**2, axis=1)[:, None] - 2 * (centres @ features.T)
    return np.asarray(distances.argmin(axis=0))


def fill_in(responsibilities: Array, features: Array) -> Array:
    """Give each vertex without responsibilities to the cluster whose mean features are nearest.

    Parameters
    ----------
    responsibilities : (n_vertices, n_clusters)
        0 in all clusters where nothing is known of a vertex; no cluster is empty.
    features : (n_vertices, n_features)
        Of `vertex_features`.
    """
    centres = responsibilities.T @ features / responsibilities.sum(axis=0)[:, None]
    unknown = responsibilities.sum(axis=1) == 0
    filled = responsibilities.copy()
    filled[unknown] = one_hot(_nearest(features[unknown], centres), len(centres))
    return filled


def one_hot(labels: IntArray, n_clusters: int) -> Array:
    """Responsibilities of 0 and 1 from labels; a negative label belongs nowhere."""
    responsibilities = np.zeros((len(labels), n_clusters))
    known = np.flatnonzero(labels >= 0)
    responsibilities[known, labels[known]] = 1.0
    return responsibilities


def start_shifts(
    pooled: PooledMeans, timeline: Timeline, controls: BoolArray | None
) -> tuple[Array, Direction]:
    """Scores from the leading component of the cluster means, as shifts at speed 1.

    Scaled so that the average change within subjects is 1 per unit of time, and oriented so that
    controls come early or, without controls, so that people move forward in time.
    """
    total = pooled.weights.sum(axis=0)
    noise = np.sqrt(np.maximum(pooled.within, 1e-12) / np.maximum(total, 1e-300))
    centred = (pooled.means - pooled.means.mean(axis=0)) * np.sqrt(pooled.weights) / noise
    component = np.linalg.svd(centred, full_matrices=False)
    scores = component[0][:, 0]
    scores = scores / max(float(np.std(scores)), 1e-300)

    means = timeline.by_subject(scores) / timeline.n_visits_of_subject
    within = scores - means[timeline.subject_of_visit]
    power = float(np.sum(timeline.times**2))
    slope = float(within @ timeline.times) / power if power else 0.0
    residual = within - slope * timeline.times
    freedom = max(len(scores) - timeline.n_subjects - 1, 1)
    slope_z = slope / (np.sqrt(residual @ residual / freedom / power) + 1e-300) if power else 0.0

    if controls is not None and controls.any() and not controls.all():
        healthy, others = scores[controls], scores[~controls]
        gap = float(others.mean() - healthy.mean())
        error = np.sqrt(healthy.var() / len(healthy) + others.var() / len(others))
        sign = float(np.sign(gap) or 1.0)
        gap_z = abs(gap) / (float(error) + 1e-300)
        direction = Direction("controls", float(gap_z), sign * float(slope_z))
    else:
        sign = float(np.sign(slope) or 1.0)
        direction = Direction("time", float(slope_z), abs(float(slope_z)))
    pace = max(abs(slope), 1.0 / _LONGEST_COURSE)
    if not timeline.has_follow_up:
        pace = 1.0
    return sign * means / pace, direction
