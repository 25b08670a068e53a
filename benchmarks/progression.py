"""How often a progression is found where there is none, and missed where there is one.

    python benchmarks/progression.py none --seeds 20
    python benchmarks/progression.py many --seeds 100
    python benchmarks/progression.py paper --seeds 20
    python benchmarks/progression.py beyond --seeds 20
    python benchmarks/progression.py weak --seeds 50
    python benchmarks/progression.py direction --seeds 10

What is printed is the judgement of `DIVE.fit` (`progression_found_`), as `fit` makes it before
the EM: it does not depend on what the EM finds. With `--fit` the whole model is fitted.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterable

import numpy as np

import braindive as bd
from braindive.checks import check_settings
from braindive.dive.partitions import find_partitions, judge, leading_vertices, of_some
from braindive.dive.progression import SIGNIFICANT
from braindive.fitted import timeline_of
from braindive.space.smoothing import smooth_over_graph
from braindive.values.backends import open_products
from cohorts import beyond

Make = Callable[[int], bd.Cohort]
# Vertices where there is no mesh, and a mesh: the left half of fsaverage5.
_N_VERTICES, _SPACE = 1000, "fsaverage5-left"


def p_value(cohort: bd.Cohort, whole: bool, n_clusters: int = 3) -> float:
    """`progression_p_` of a fit, with or without the fit itself."""
    model = bd.DIVE(n_clusters, n_init=1, personal=False, n_jobs=1, random_state=0)
    if whole:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bd.BraindiveWarning)
            return float(model.fit(cohort).progression_p_ or 0.0)
    measurements = open_products(
        cohort.stored,
        order=cohort.canonical_rows,
        missing=cohort.has_missing,
        n_jobs=1,
        memory=None,
        unit=None,
        client=None,
    )
    _, settings = check_settings(model, cohort)
    random = np.random.default_rng(np.random.RandomState(0).randint(2**31))
    chosen = leading_vertices(settings, measurements.n_vertices)
    if chosen is None:
        _, features = find_partitions(measurements, settings, random)
        return judge(measurements, timeline_of(cohort), settings, random, features).p_value
    sample = measurements.sample(chosen)
    _, features = find_partitions(sample, of_some(settings, chosen), random)
    some = sample, features
    return judge(measurements, timeline_of(cohort), settings, random, some=some).p_value


def still(
    seed: int,
    n_subjects: int = 50,
    n_visits: int = 4,
    *,
    n_vertices: int = _N_VERTICES,
    smooth: int = 0,
    maps: float = 0.0,
    maps_smooth: int = 0,
    drift: float = 0.0,
    shift: float = 0.0,
    heavy: bool = False,
) -> bd.Cohort:
    """People who stand still.

    Parameters
    ----------
    seed : int
        Of everything.
    n_subjects, n_visits, n_vertices : int
        Size; on a mesh vertices are its own.
    smooth : int
        Rounds of averaging the noise over neighbours on the cortex; 0 for no mesh.
    maps, maps_smooth : float, int
        Standard deviation of people's own maps, and rounds of averaging them.
    drift : float
        Standard deviation of each person's own, random drift at each vertex in a year.
    shift : float
        Standard deviation of what a visit adds to the whole map.
    heavy : bool
        Whether noise is heavy-tailed and grows with the person's own level.
    """
    random = np.random.default_rng(seed)
    space = bd.load_space(_SPACE) if smooth or maps_smooth else None
    n_vertices = n_vertices if space is None else space.n_vertices
    graph = None if space is None else space.graph()

    def draw(number: int, rounds: int) -> np.ndarray:
        drawn = random.standard_normal((number, n_vertices))
        if rounds and graph is not None:
            drawn = smooth_over_graph(drawn.T, graph, rounds).T
            drawn /= drawn.std()
        return np.asarray(drawn)

    subjects = np.repeat(np.arange(n_subjects), n_visits)
    times = np.tile(np.arange(float(n_visits)), n_subjects)
    noise = draw(len(subjects), smooth)
    own = maps * draw(n_subjects, maps_smooth)
    if heavy:
        noise = noise / np.sqrt(random.chisquare(3, (len(subjects), 1)) / 3)
        noise *= np.exp(0.5 * own[subjects])
    values = own[subjects] + noise + shift * random.standard_normal((len(subjects), 1))
    values += drift * draw(n_subjects, maps_smooth)[subjects] * times[:, None]
    return bd.Cohort(values, subjects=subjects, times=times, graph=graph, space=space)


def controls_only(seed: int) -> bd.Cohort:
    """The controls of `beyond`, who stand still: maps of their own, and smooth visit noise."""
    simulation = beyond(0.9, seed, n_subjects=100)
    cohort = simulation.cohort
    assert cohort.controls is not None
    chosen = cohort.select(visits=cohort.controls)
    curves = simulation.truth.vertices.evaluate(simulation.truth.scores[cohort.controls])
    first = np.repeat(np.arange(0, len(curves), 4), 4)
    # Without the little way that they go in four years.
    values = np.asarray(chosen.values, dtype=float) - curves + curves[first]
    return bd.Cohort(
        values,
        subjects=chosen.subjects,
        times=chosen.times,
        graph=chosen.graph,
        space=chosen.space,
    )


def spaced(spacing: float) -> tuple[float, ...]:
    """Midpoints of experiment 2 of the paper: neighbours so far apart, of a range of 53."""
    return tuple(2.5 + 53.0 * spacing * step for step in (-1, 0, 1))


NONE: dict[str, Make] = {
    "pure noise": still,
    "smooth noise": lambda seed: still(seed, smooth=3),
    "lasting maps": lambda seed: still(seed, maps=1.0),
    "smooth lasting maps, smooth noise": lambda seed: still(
        seed, smooth=3, maps=1.3, maps_smooth=40
    ),
    "controls who stand still": controls_only,
    "3 people": lambda seed: still(seed, 3),
    "3 people, lasting maps": lambda seed: still(seed, 3, maps=1.0),
    "10 people, smooth lasting maps": lambda seed: still(
        seed, 10, smooth=3, maps=1.3, maps_smooth=40
    ),
    "visits that shift the whole map": lambda seed: still(seed, maps=1.0, shift=1.0),
    "heavy tails, noise grows with the level": lambda seed: still(seed, maps=0.7, heavy=True),
    "each person drifts its own way": lambda seed: still(seed, maps=1.0, drift=0.5),
    "two visits": lambda seed: still(seed, n_visits=2, maps=1.0),
}
# Vertices from which on a sample of them is asked first.
_MANY_VERTICES = 20_000
MANY: dict[str, Make] = {
    "pure noise": lambda seed: still(seed, n_vertices=_MANY_VERTICES),
    "lasting maps": lambda seed: still(seed, n_vertices=_MANY_VERTICES, maps=1.0),
    "10 people, lasting maps": lambda seed: still(seed, 10, n_vertices=_MANY_VERTICES, maps=1.0),
}
PAPER: dict[str, Make] = {
    **{
        f"midpoints {spacing:g} of the range apart": lambda seed, spacing=spacing: (
            bd.simulate_cohort(midpoints=spaced(spacing), random_state=seed).cohort
        )
        for spacing in (0.33, 0.30, 0.23, 0.17, 0.10, 0.07, 0.03, 0.02)
    },
    **{
        f"{n_subjects} people": lambda seed, n_subjects=n_subjects: (
            bd.simulate_cohort(n_subjects, random_state=seed).cohort
        )
        for n_subjects in (300, 200, 100, 50, 35, 20, 10, 5)
    },
}
BEYOND: dict[str, Make] = {
    f"people's maps with sd {off:g}": lambda seed, off=off: beyond(off, seed).cohort
    for off in (0.0, 0.45, 0.9, 1.3)
}
WEAK: dict[str, Make] = {
    f"{n_subjects} people, noise {noise:g}": lambda seed, n_subjects=n_subjects, noise=noise: (
        bd.simulate_cohort(n_subjects, noise=noise, random_state=seed).cohort
    )
    for n_subjects, noise in (
        (5, 0.5),
        (5, 1.0),
        (10, 1.0),
        (10, 2.0),
        (20, 1.0),
        (20, 2.0),
        (50, 2.0),
        (50, 4.0),
        (100, 4.0),
        (300, 4.0),
    )
}


def table(cohorts: dict[str, Make], seeds: Iterable[int], whole: bool) -> None:
    """Print how often a progression is found."""
    print("| cohorts | progression found | smallest, median and largest p |")
    print("|---|---|---|")
    for name, make in cohorts.items():
        found = np.array([p_value(make(seed), whole) for seed in seeds])
        print(
            f"| {name} | {np.count_nonzero(found <= SIGNIFICANT)} of {len(found)} "
            f"| {found.min():.4f}, {np.median(found):.4f}, {found.max():.4f} |",
            flush=True,
        )


def flipped(cohort: bd.Cohort, what: str, seed: int) -> bd.Cohort:
    """The same cohort with controls or times that are wrong."""
    controls, times = np.asarray(cohort.controls), cohort.times
    if what == "controls and others swapped":
        controls = ~controls
    elif what == "times with the wrong sign":
        times = -times
    elif what == "controls drawn at random":
        ids = np.random.default_rng(seed).random(cohort.n_subjects) < 0.4
        controls = ids[cohort.subject_index]
    return bd.Cohort(
        cohort.values,
        subjects=cohort.subjects,
        times=times,
        controls=controls,
        graph=cohort.graph,
        space=cohort.space,
    )


def direction(seeds: Iterable[int]) -> None:
    """Print how often fits warn that controls and time contradict each other."""
    print("| cohorts | controls and times | people differ | alike | without staging |")
    print("|---|---|---|---|---|")
    kinds: dict[str, Make] = {
        "60 people of the paper's, noise 0.5": lambda seed: (
            bd.simulate_cohort(
                60, n_vertices=300, noise=0.5, control_share=0.3, random_state=seed
            ).cohort
        ),
        "people's maps with sd 0.9": lambda seed: beyond(0.9, seed, n_subjects=60).cohort,
    }
    models = {"differ": {}, "alike": {"people": "alike"}, "time": {"staging": False}}
    wrongs = ("right", "controls and others swapped", "times with the wrong sign")
    for name, make in kinds.items():
        for what in (*wrongs, "controls drawn at random"):
            warned = dict.fromkeys(models, 0)
            for seed in seeds:
                cohort = flipped(make(seed), what, seed)
                for kind, settings in models.items():
                    model = bd.DIVE(n_init=1, personal=False, random_state=0, **settings)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", bd.BraindiveWarning)
                        said = " ".join(model.fit(cohort).warnings_)
                    warned[kind] += "contradict" in said
            counts = " | ".join(f"{number} of {len(list(seeds))}" for number in warned.values())
            print(f"| {name} | {what} | {counts} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["none", "many", "paper", "beyond", "weak", "direction"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--fit", action="store_true", help="fit the whole model")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if arguments.what == "direction":
        direction(seeds)
        return
    cohorts = {"none": NONE, "many": MANY, "paper": PAPER, "beyond": BEYOND, "weak": WEAK}
    table(cohorts[arguments.what], seeds, arguments.fit)


if __name__ == "__main__":
    main()
