"""Cohorts of cluster means alone, as `simulate_cohort` would have them: hundreds in minutes.

The marginal fit sees nothing but the mean of every cluster at every visit. These are drawn here
directly, with the covariances that smooth noise and smooth maps of people have on fsaverage5.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

import braindive as bd
from braindive.dive.pooled import PooledMeans
from braindive.dive.timeline import Timeline
from braindive.simulation import contiguous_patches
from braindive.simulation.people import People, draw_people
from braindive.space.smoothing import smooth_over_graph

Array = NDArray[np.float64]
# Parcellations that are drawn; cohorts take them in turn.
_N_PARCELLATIONS = 20
_N_VISITS = 4


@dataclass(frozen=True)
class Setting:
    """What cohorts are drawn from; words are those of `simulate_cohort`.

    `noise_smoothing` None is 1,000 vertices without a space; `differ` are vertices with curves of
    their own; `maps` are the maps of which personal offsets are combinations, 0 for smooth ones.
    """

    name: str
    midpoints: tuple[float, ...] = (-15.0, 2.5, 20.0)
    amplitude: float = -1.0
    steepness: float = 0.4
    n_training: int = 100
    noise: float = 1.0
    noise_smoothing: int | None = None
    n_patches: int = 15
    differ: bool = False
    personal_offset: float = 0.0
    maps: int = 0
    counted: tuple[float, float] = (-20.0, 25.0)
    people: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterMeans:
    """Means and weights of all visits, training subjects first, and the truth behind them.

    Where vertices differ, midpoints of `curves` are where the mean of the drawn vertices is
    half-way.
    """

    means: Array
    weights: Array
    people: People
    curves: bd.Trajectories

    def part(self, subjects: NDArray[np.bool_]) -> tuple[PooledMeans, Timeline, NDArray[np.bool_]]:
        """Means of some subjects, when they were seen, and which visits are controls'."""
        visits, number = np.repeat(subjects, _N_VISITS), int(subjects.sum())
        subject_of_visit = np.repeat(np.arange(number), _N_VISITS)
        times = np.tile(np.arange(float(_N_VISITS)), number)
        return (
            PooledMeans(self.means[visits], self.weights[visits], np.zeros(len(self.curves))),
            Timeline.from_times(subject_of_visit, times),
            np.repeat(self.people.controls[subjects], _N_VISITS),
        )


_BEYOND: dict[str, Any] = {
    "mean_shift": 2.0,
    "shift_sd": 9.0,
    "control_share": 0.35,
    "controls_shift": (-22.0, 3.0),
    "controls_speed": 0.3,
}


def all_settings() -> list[Setting]:
    """Those of the two first tables of docs/trust.md, and two that say what hangs on what.

    The mean of vertices that differ is nearly a sigmoid of steepness 0.295: one row has vertices
    that are alike and as flat as that. And one has so many people that little but the shape of the
    curves can be wrong.
    """
    found = [
        Setting(
            f"persistent maps, sd {off}",
            (-6.0, 0.0, 6.0, 12.0),
            amplitude=-2.0,
            n_training=200,
            noise=0.45,
            noise_smoothing=3,
            n_patches=20,
            personal_offset=off,
            counted=(-np.inf, np.inf),
            people=_BEYOND,
        )
        for off in (0.0, 0.45, 0.9, 1.3)
    ]
    for rounds in (0, 3, 10, 30):
        noise = f"smooth, {rounds} rounds" if rounds else "independent"
        found += [
            Setting(f"{noise}, 10,242 vertices", noise_smoothing=rounds),
            Setting(f"{noise}, 10,242 that differ", noise_smoothing=rounds, differ=True),
        ]
    return [
        *found,
        Setting("independent, 1,000 vertices"),
        Setting("independent, 1,000 that differ", differ=True),
        Setting(
            "independent, 1,000 that differ, offsets 0.3", differ=True, personal_offset=0.3, maps=5
        ),
        Setting("independent, 1,000 flatter vertices", steepness=0.295),
        Setting("independent, 1,000 that differ, 2,000 people", differ=True, n_training=2000),
    ]


def draw_means(setting: Setting, seed: int) -> ClusterMeans:
    """Draw a cohort, of training subjects and as many new ones."""
    random = np.random.default_rng([seed, 30_000])
    n_clusters, n_subjects = len(setting.midpoints), 2 * setting.n_training
    usual: dict[str, Any] = {
        "mean_speed": 1.0,
        "mean_shift": 0.0,
        "shift_sd": 10.0,
        "control_share": 0.0,
        "controls_shift": None,
        "controls_speed": None,
        "mislabelled": 0.0,
        "group_effect": None,
    }
    people = draw_people(n_subjects, random, **(usual | setting.people))
    subject = np.repeat(np.arange(n_subjects), _N_VISITS)
    years = np.tile(np.arange(float(_N_VISITS)), n_subjects)
    scores = people.shifts[subject] + people.speeds[subject] * years
    if setting.noise_smoothing is None:
        sizes = np.full(n_clusters, 1000 // n_clusters)
        visit = np.diag(1 / sizes)
    else:
        which = n_clusters, setting.n_patches, seed % _N_PARCELLATIONS
        sizes, visit = covariance_of_means(*which, setting.noise_smoothing)
    curves = bd.Trajectories(
        np.full(n_clusters, setting.amplitude),
        np.full(n_clusters, setting.steepness),
        np.array(setting.midpoints),
        np.zeros(n_clusters),
    )
    means = curves.evaluate(scores)
    if setting.differ:
        onsets = np.empty(n_clusters)
        for k, size in enumerate(sizes):
            steepness = setting.steepness * (1 + random.normal(0, np.sqrt(1 / 15), size))
            midpoints = setting.midpoints[k] + random.normal(0, np.sqrt(11.6), size)
            own = expit(steepness * (scores[:, None] - midpoints))
            means[:, k] = setting.amplitude * own.mean(axis=1)
            onsets[k] = halfway(steepness, midpoints)
        curves = replace(curves, midpoint=onsets)
    means += setting.noise * random.standard_normal(means.shape) @ np.linalg.cholesky(visit).T
    if setting.personal_offset:
        if setting.maps:
            maps = random.standard_normal((setting.maps, n_clusters))
            maps /= np.sqrt(setting.maps * sizes)
        else:
            maps = np.linalg.cholesky(covariance_of_means(*which, 40)[1]).T
        offsets = random.standard_normal((n_subjects, len(maps))) @ maps
        means += setting.personal_offset * offsets[subject]
    weights = np.broadcast_to(sizes.astype(float), means.shape)
    # Every second subject is new, so that controls, who come first, are in both halves.
    order = np.argsort(np.arange(n_subjects) % 2, kind="stable")
    visits = (order[:, None] * _N_VISITS + np.arange(_N_VISITS)).ravel()
    people = People(
        people.speeds[order],
        people.shifts[order],
        people.controls[order],
        people.mislabelled[order],
        None,
    )
    return ClusterMeans(means[visits], weights[visits], people, curves)


def halfway(steepness: Array, midpoints: Array) -> float:
    """Where the mean of some vertices' curves is half-way, which is what a cluster's curve shows.

    It differs from the midpoint around which theirs were drawn, the less the more vertices there
    are: with 333 that differ as in the paper by 0.2.
    """
    ends = midpoints.min(), midpoints.max()
    if ends[0] == ends[1]:
        return float(ends[0])
    return float(brentq(lambda score: np.mean(expit(steepness * (score - midpoints))) - 0.5, *ends))


@cache
def covariance_of_means(
    n_clusters: int, n_patches: int, parcellation: int, rounds: int
) -> tuple[NDArray[np.int64], Array]:
    """Sizes of clusters on fsaverage5, and the covariance of the means over them of a smooth map.

    The map is white noise that was averaged over neighbours and has variance 1.
    """
    space = bd.load_space("fsaverage5-left")
    graph = space.graph().astype(float)
    labels = contiguous_patches(space, n_patches, np.random.default_rng(parcellation)) % n_clusters
    sizes = np.bincount(labels)
    degree = 1 + np.diff(graph.indptr)[:, None]
    # The means of S x are (S' w)' x, with w the weights of a mean.
    weights = np.eye(n_clusters)[labels] / sizes
    for _ in range(rounds):
        weights = graph @ (weights / degree) + weights / degree
    return sizes, weights.T @ weights / variance_after(rounds)


@cache
def variance_after(rounds: int) -> float:
    """Variance of white noise on fsaverage5 after averaging over neighbours, over vertices."""
    space = bd.load_space("fsaverage5-left")
    maps = np.random.default_rng(0).standard_normal((space.n_vertices, 200))
    return float(np.mean(smooth_over_graph(maps, space.graph(), rounds) ** 2))
