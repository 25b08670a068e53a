"""Cohorts whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from braindive.arrays import Array, BoolArray, IntArray
from braindive.checks import check_seed
from braindive.cohort import Cohort
from braindive.dive.curves import Trajectories
from braindive.errors import ParameterError
from braindive.io.spaces import load_space
from braindive.simulation.cognition import draw_cognition
from braindive.simulation.people import draw_demographics, draw_people
from braindive.simulation.sites import SimulatedSites, draw_sites
from braindive.space import Space
from braindive.space.smoothing import smooth_over_graph


@dataclass(frozen=True)
class Truth:
    """What a simulated cohort was made from.

    Attributes
    ----------
    labels : (n_vertices,) int
        True cluster of each vertex, 0 for the earliest.
    trajectories : Trajectories
        True curve of each cluster.
    speeds, shifts : (n_subjects,)
        In the order of `Cohort.subject_ids`.
    scores : (n_visits,)
        In the order of the cohort's visits.
    vertices : Trajectories
        True curve of each vertex. Those of a cluster vary around the cluster's, so that their mean
        is less steep than the cluster's curve.
    mislabelled : (n_subjects,) bool
        Who is marked as a control but progresses like the others.
    sites : SimulatedSites or None
        Sites of the visits, what each adds and by how much it multiplies noise.
    """

    labels: IntArray
    trajectories: Trajectories
    speeds: Array
    shifts: Array
    scores: Array
    vertices: Trajectories
    mislabelled: BoolArray
    sites: SimulatedSites | None = None

    def __repr__(self) -> str:
        return (
            f"Truth({len(self.trajectories)} clusters of {len(self.labels):,} vertices, "
            f"{len(self.speeds):,} subjects, {len(self.scores):,} visits)"
        )


@dataclass(frozen=True)
class Simulation:
    """A simulated cohort and its truth."""

    cohort: Cohort
    truth: Truth


def simulate_cohort(
    n_subjects: int = 300,
    n_visits: int = 4,
    n_vertices: int = 1000,
    midpoints: Sequence[float] = (-15.0, 2.5, 20.0),
    slope: float = -0.1,
    noise: float = 1.0,
    space: str | Space | None = None,
    random_state: int | np.random.RandomState | None = None,
    *,
    amplitude: float | None = None,
    mean_speed: float = 1.0,
    mean_shift: float = 0.0,
    shift_sd: float = 10.0,
    steepness_variation: float = 1 / 15,
    midpoint_variation: float = 11.6,
    n_patches: int | None = None,
    labels: ArrayLike | None = None,
    noise_smoothing: int = 0,
    personal_offset: float = 0.0,
    personal_components: int | None = None,
    personal_smoothing: int = 0,
    missing: float = 0.0,
    control_share: float = 0.0,
    controls_shift: tuple[float, float] | None = None,
    controls_speed: float | None = None,
    mislabelled: float = 0.0,
    cognition: bool = False,
    demographics: bool = False,
    group_effect: float | None = None,
    carrier_share: float | None = None,
    carriers_shift: float = 0.0,
    carriers_speed: float = 1.0,
    sites: int | None = None,
    site_location: float = 0.5,
    site_scale: float = 0.5,
    site_change: float = 0.1,
    dtype: str = "float64",
) -> Simulation:
    """Simulate a cohort; the defaults are the basic setting of the DIVE paper.

    Speeds are drawn from a Gamma distribution of shape 6.25 and shifts from a normal one; every
    subject is seen once a year. Each vertex follows its cluster's sigmoid with its own steepness
    and midpoint.

    Parameters
    ----------
    n_subjects, n_visits, n_vertices : int
        Size; visits per subject.
    midpoints : sequence of float
        Midpoint of each cluster's trajectory.
    slope : float
        Slope of every trajectory at its midpoint.
    noise : float
        Standard deviation of the noise of one measurement.
    space : str or Space, optional
        With a space the vertices are its own and the true areas are contiguous patches.
    random_state : int, RandomState or None
        Seed.
    amplitude : float, optional
        Amplitude of every trajectory; by default -1 for a falling slope and 1 for a rising one.
    mean_speed : float
        Mean of the speeds, in score per year.
    mean_shift, shift_sd : float
        Mean and standard deviation of the shifts. A shift is the score at the first visit.
    steepness_variation : float
        Variance of a vertex's steepness, relative to the squared steepness of its cluster.
    midpoint_variation : float
        Variance of a vertex's midpoint.
    n_patches : int, optional
        Contiguous patches, dealt to the clusters in turn; by default five for each cluster.
    labels : (n_vertices,) int, optional
        True cluster of each vertex, 0 for the earliest, instead of patches or a random choice.
    noise_smoothing : int
        Rounds of neighbour averaging of the noise, which is then rescaled to its `noise`; needs a
        space.
    personal_offset : float
        Standard deviation over people of each vertex's own lasting offset.
    personal_components : int, optional
        Number of maps of which people's offsets are combinations; by default every vertex of every
        person has an offset of its own.
    personal_smoothing : int
        Rounds of neighbour averaging of the maps of offsets, which are then rescaled to
        `personal_offset`; needs a space.
    missing : float
        Share of measurements that are NaN.
    control_share : float
        Share of the subjects that are marked as controls: the earliest, unless `controls_shift`
        is given.
    controls_shift : (float, float), optional
        Mean and standard deviation of the controls' shifts, which are then drawn apart from those
        of the others, for controls who are well before the disease. They come first in the cohort.
    controls_speed : float, optional
        Mean of the controls' speeds; by default they progress as fast as the others.
    mislabelled : float
        Share of the controls who progress like the others, chosen among them at random; with 1
        the controls are random people.
    cognition : bool
        Whether the table gets per-visit results of four cognitive tests, `CDRSOB`, `ADAS13`,
        `MMSE` and `RAVLT`: noisy, bounded, monotone in the true score, a tenth of them missing.
    demographics : bool
        Whether the table gets the `age` at the first visit and the `sex`, which have no effect.
    group_effect : float, optional
        With a number the table gets a column `apoe4`, 1 for carriers of a risk gene and 0 for
        others. Carriers' shifts are higher by so many standard deviations, and so are the
        logarithms of their speeds; 0 plants no effect.
    carrier_share : float, optional
        Share of carriers of the risk gene, drawn from everybody, for effects that are told apart:
        in place of `group_effect`, with the same column `apoe4`.
    carriers_shift : float
        By how much carriers' shifts are higher, in units of the score.
    carriers_speed : float
        How many times as fast carriers are.
    sites : int, optional
        Number of sites: the table gets a column `site`. Patients are spread over them unevenly, and
        controls the other way round.
    site_location : float
        Standard deviation over sites and vertices of what a site adds to the values.
    site_scale : float
        Standard deviation over sites and vertices of the logarithm by which a site multiplies the
        noise of a measurement.
    site_change : float
        Share of the people who change to another site at one of their later visits.
    dtype : {"float64", "float32"}
        Type of the values.

    Returns
    -------
    Simulation
        With `.cohort` and `.truth`.

    Examples
    --------
    >>> import braindive as bd
    >>> simulation = bd.simulate_cohort(n_subjects=20, n_vertices=50, random_state=0)
    >>> simulation.cohort
    Cohort(20 subjects, 80 visits, 50 vertices)
    """
    random = np.random.default_rng(check_seed(random_state).randint(2**31))
    if n_subjects < 1 or n_visits < 1 or n_vertices < 1 or len(midpoints) < 1:
        raise ParameterError(
            "simulate_cohort needs at least one subject, visit, vertex and cluster."
        )
    if amplitude is None:
        amplitude = 1.0 if slope > 0 else -1.0
    if slope == 0 or amplitude * slope < 0:
        raise ParameterError("slope must not be 0 and must have the sign of the amplitude.")
    space = None if space is None else load_space(space)
    graph = None if space is None else space.graph()
    _check_smoothing("noise_smoothing", noise_smoothing, graph)
    _check_smoothing("personal_smoothing", personal_smoothing, graph)

    people = draw_people(
        n_subjects,
        random,
        mean_speed=mean_speed,
        mean_shift=mean_shift,
        shift_sd=shift_sd,
        control_share=control_share,
        controls_shift=controls_shift,
        controls_speed=controls_speed,
        mislabelled=mislabelled,
        group_effect=group_effect,
        carrier_share=carrier_share,
        carriers_shift=carriers_shift,
        carriers_speed=carriers_speed,
    )
    speeds, shifts = people.speeds, people.shifts
    subject = np.repeat(np.arange(n_subjects), n_visits)
    times = np.tile(np.arange(n_visits, dtype=float), n_subjects)
    scores = speeds[subject] * times + shifts[subject]

    n_clusters = len(midpoints)
    if labels is not None:
        n_vertices = n_vertices if space is None else space.n_vertices
        labels = _check_labels(labels, n_vertices, n_clusters)
    elif space is None:
        labels = random.integers(n_clusters, size=n_vertices)
    else:
        labels = contiguous_patches(space, n_patches or 5 * n_clusters, random) % n_clusters
    n_vertices = len(labels)
    curves = Trajectories(
        np.full(n_clusters, float(amplitude)),
        np.full(n_clusters, 4 * slope / amplitude),
        np.sort(np.asarray(midpoints, dtype=float)),
        np.zeros(n_clusters),
    )
    own = curves[labels]
    own_steepness = own.steepness * (1 + random.normal(0, np.sqrt(steepness_variation), n_vertices))
    own_midpoint = own.midpoint + random.normal(0, np.sqrt(midpoint_variation), n_vertices)
    vertices = Trajectories(own.amplitude, own_steepness, own_midpoint, own.baseline)

    offsets = np.zeros((1, n_vertices))
    if personal_offset:
        maps = _offsets(n_subjects, n_vertices, personal_components, random)
        if personal_smoothing and graph is not None:
            maps = smooth_over_graph(maps.T, graph, personal_smoothing).T
            maps /= np.sqrt(np.mean(maps**2))
        offsets = personal_offset * maps
    places = None
    if sites is not None:
        # From a generator of its own, so that everything else is the same without sites.
        is_control = people.controls if control_share > 0 else shifts < np.median(shifts)
        places = draw_sites(
            sites,
            subject,
            is_control,
            n_vertices,
            graph,
            random.spawn(1)[0],
            location=site_location,
            scale=site_scale,
            change=site_change,
        )
    values = np.empty((len(scores), n_vertices), dtype=dtype)
    for visits in np.array_split(np.arange(len(scores)), max(1, len(scores) * n_vertices // 2**23)):
        draw = random.standard_normal((len(visits), n_vertices))
        if noise_smoothing and graph is not None:
            draw = smooth_over_graph(draw.T, graph, noise_smoothing).T
            draw /= draw.std()
        if places is not None:
            draw *= places.scales[places.sites[visits]]
        values[visits] = vertices.evaluate(scores[visits]) + noise * draw
        if places is not None:
            values[visits] += places.offsets[places.sites[visits]]
        values[visits] += offsets[subject[visits] % len(offsets)]
        if missing:
            values[visits] = np.where(random.random(draw.shape) < missing, np.nan, values[visits])

    width = len(str(n_subjects - 1))
    names = np.array([f"sub-{i:0{width}d}" for i in range(n_subjects)], dtype=object)
    controls = people.controls[subject] if control_share > 0 else None
    table = pd.DataFrame({"participant_id": names[subject], "years": times})
    if controls is not None:
        table["diagnosis"] = np.where(controls, "CN", "patient")
    if people.carriers is not None:
        table["apoe4"] = people.carriers[subject].astype(int)
    if places is not None:
        table["site"] = np.array([f"site {1 + site}" for site in places.sites], dtype=object)
    if cognition:
        stages = (scores - scores.mean()) / (scores.std() or 1.0)
        table = table.join(draw_cognition(stages, random))
    if demographics:  # drawn last, so that everything else is the same without
        age, sex = draw_demographics(people.controls, random)
        table["age"], table["sex"] = age[subject], sex[subject]
    cohort = Cohort(
        values,
        subjects=names[subject],
        times=times,
        controls=controls,
        graph=graph,
        space=space,
        table=table,
    )
    truth = Truth(labels, curves, speeds, shifts, scores, vertices, people.mislabelled, places)
    return Simulation(cohort, truth)


def _check_smoothing(name: str, rounds: int, graph: csr_array | None) -> None:
    whole = isinstance(rounds, (int, np.integer)) and not isinstance(rounds, bool)
    if not whole or rounds < 0:
        raise ParameterError(f"{name} must be a whole number of rounds; got {rounds!r}.")
    if rounds and graph is None:
        raise ParameterError(f"{name} averages over neighbours, so it needs a space.")


def _check_labels(labels: ArrayLike, n_vertices: int, n_clusters: int) -> IntArray:
    array = np.asarray(labels)
    if array.shape != (n_vertices,) or array.dtype.kind not in "iu":
        raise ParameterError(
            f"labels must be {n_vertices} whole numbers, one for each vertex; got {array.dtype} of "
            f"shape {array.shape}."
        )
    if array.min() < 0 or array.max() >= n_clusters:
        raise ParameterError(
            f"labels run from {array.min()} to {array.max()}, but there are {n_clusters} midpoints."
        )
    return array.astype(np.int64)


def contiguous_patches(space: Space, n_patches: int, random: np.random.Generator) -> IntArray:
    """Patch of each vertex, (n_vertices,): the vertices nearest to each of some random seeds.

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> from braindive.simulation import contiguous_patches
    >>> space = bd.load_space("fsaverage5-left")
    >>> len(np.unique(contiguous_patches(space, 7, np.random.default_rng(0))))
    7
    """
    seeds = random.choice(space.n_vertices, n_patches, replace=False)
    graph = space.graph()
    _, _, source = dijkstra(
        graph, indices=seeds, unweighted=True, min_only=True, return_predecessors=True
    )
    patch_of_seed = dict(zip(seeds.tolist(), range(n_patches), strict=True))
    # A piece of the mesh without any seed is one more patch.
    return np.array([patch_of_seed.get(vertex, 0) for vertex in source.tolist()])


def _offsets(
    n_subjects: int, n_vertices: int, n_components: int | None, random: np.random.Generator
) -> Array:
    """Lasting deviations of people with variance 1, (n_subjects, n_vertices)."""
    if n_components is None:
        return random.standard_normal((n_subjects, n_vertices))
    maps = random.standard_normal((n_components, n_vertices)) / np.sqrt(n_components)
    return np.asarray(random.standard_normal((n_subjects, n_components)) @ maps)
