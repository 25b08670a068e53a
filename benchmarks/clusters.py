"""Recommended numbers of clusters against true ones, on cohorts with and without a mesh.

    python benchmarks/clusters.py --seeds 4 --first-seed 100 --jobs 2

Judged as `select_n_clusters` and `recommend_n_clusters` do: groups of the vertices' own curves
around a fit with the most clusters, and the agreement of two halves of the subjects with two and
three clusters. Other columns of that table do not bear on the choice and are left out. Fits are the
published ones, which take less time, and with `--people differ` those of the default. "Noise" is
a mesh with smooth noise and nothing else. "None" is recommended where people do not change visibly
over time; the number in brackets is what the vertices' curves say there. With `--oracle` the number
comes from the true midpoints of the vertices, by mixtures of normal distributions with a common
variance and the same price for each parameter.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.spatial import ConvexHull
from sklearn.base import clone
from sklearn.mixture import GaussianMixture

import braindive as bd
from braindive.evaluation.folds import split_subjects
from braindive.evaluation.selection import candidate_row, fit_without, selection_table
from braindive.evaluation.vertex_groups import BELIEVED, PRICE
from braindive.space.fsaverage import fsaverage5_mesh
from braindive.space.surface import Hemisphere, Surface

MOST = 7
HALVED = (2, 3)
"""Numbers of clusters for which halves of the subjects are compared."""


def small_sphere() -> Surface:
    """A sphere of 2,562 vertices, the first of fsaverage5."""
    points = fsaverage5_mesh("sphere", "left")[0][:2562]
    faces = ConvexHull(points).simplices.astype(int)
    return Surface("sphere of 2,562 vertices", (Hemisphere("left", points, faces),))


def recommended(
    n_true: int, mesh: bool, differ: bool, seed: int, n_subjects: int, people: str = "alike"
) -> tuple[bool, int]:
    """Whether a progression was found in one cohort, and the number of clusters if there is one."""
    settings: dict[str, Any] = {}
    if not differ:
        settings |= {"midpoint_variation": 0.0, "steepness_variation": 0.0}
    if mesh:
        settings |= {"space": small_sphere(), "noise_smoothing": 5, "dtype": "float32"}
    if n_true == 0:
        settings |= {"amplitude": -1e-9, "slope": -1e-10}
    midpoints = np.linspace(-15, 20, n_true) if n_true > 1 else (2.5,)
    cohort = bd.simulate_cohort(
        n_subjects, midpoints=tuple(midpoints), random_state=seed, **settings
    ).cohort
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.BraindiveWarning)
        base = bd.DIVE(MOST, people=people, personal=False, n_jobs=1, random_state=seed)
        whole = fit_without(base, cohort, [], False, MOST)
        groups = whole.groups or {}
        rows = {MOST: candidate_row(whole, [], [])}
        for number in HALVED:
            model = clone(base).set_params(n_clusters=number)
            halves = split_subjects(cohort, 2, seed)
            parts = [fit_without(model, cohort, half, False) for half in halves]
            rows[number] = candidate_row(parts[0], [], parts)
    table = selection_table(rows).reindex(range(2, MOST + 1))
    table["groups_gain"] = [groups[number].gain for number in table.index]
    table["groups"] = [groups[number].distinct for number in table.index]
    if_any = bd.recommend_n_clusters(table.drop(columns="progression_p")).n_clusters
    return bd.recommend_n_clusters(table).n_clusters is not None, if_any


def of_true_midpoints(n_true: int, differ: bool, seed: int, n_vertices: int) -> int:
    """Number of groups by the vertices' true midpoints."""
    spread = 1.0 if differ else 0.0
    midpoints = bd.simulate_cohort(
        2,
        n_vertices=n_vertices,
        midpoints=tuple(np.linspace(-15, 20, n_true)),
        midpoint_variation=11.6 * spread,
        random_state=seed,
    ).truth.vertices.midpoint[:, None]
    values = []
    for number in range(1, MOST + 1):
        mixture = GaussianMixture(number, covariance_type="tied", n_init=5, random_state=seed)
        likelihood = mixture.fit(midpoints).score(midpoints) * len(midpoints)
        values.append(2 * likelihood - PRICE * 2 * number)
    best = 0
    for number in range(1, MOST):
        best = number if values[number] - values[best] > BELIEVED else best
    return best + 1


def main() -> None:
    parser = argparse.ArgumentParser(description="Judge recommended numbers of clusters.")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--oracle", action="store_true")
    parser.add_argument("--people", choices=["alike", "differ"], default="alike")
    parser.add_argument("--true", type=int, nargs="+", help="only rows with these true numbers")
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if arguments.oracle:
        for n_true in (2, 3, 4, 5):
            found = [of_true_midpoints(n_true, True, seed, 1000) for seed in seeds]
            print(f"{n_true}: {', '.join(map(str, found))}")
        return
    cells = [
        (n_true, mesh, differ)
        for mesh in (False, True)
        for differ in (True, False)
        for n_true in (2, 3, 4, 5)
    ]
    cells.append((0, True, False))
    cells = [cell for cell in cells if arguments.true is None or cell[0] in arguments.true]
    tasks = [(*cell, seed) for seed in seeds for cell in cells]
    found = []
    for task, answer in zip(
        tasks,
        Parallel(n_jobs=arguments.jobs, return_as="generator")(
            delayed(recommended)(*task, 100 if task[1] else 150, arguments.people) for task in tasks
        ),
        strict=True,
    ):
        found.append(answer)
        print(*task, *answer, file=sys.stderr, flush=True)
    frame = pd.DataFrame(tasks, columns=["true", "mesh", "differ", "seed"])
    frame[["progresses", "found"]] = found
    print("| vertices | they differ | true | recommended | right | if there is a progression |")
    print("|---|---|---|---|---|---|")
    for cell in cells:
        true, mesh, differ = cell
        mine = frame.query("true == @true and mesh == @mesh and differ == @differ")
        expected = max(true, 1)
        right = mine["found"] == expected
        shown = [
            str(number) if progresses else f"none ({number})"
            for progresses, number in zip(mine["progresses"], mine["found"], strict=True)
        ]
        # Of noise alone both answers are right: one cluster, and no progression.
        told = right | ~mine["progresses"] if true == 0 else right & mine["progresses"]
        print(
            f"| {'2,562 on a mesh' if mesh else '1,000'} | {'yes' if differ else 'no'} | "
            f"{true or 'noise'} | {', '.join(shown)} | {told.sum()} of {len(mine)} | "
            f"{right.sum()} |"
        )
    real = frame[frame["true"] > 0]
    away = (real["found"] - real["true"]).abs()
    found_any = real["progresses"].astype(bool)
    print(
        f"\nAll but noise: {((away == 0) & found_any).sum()} of {len(real)} right, "
        f"{(~found_any).sum()} without a visible progression; by the vertices' curves alone "
        f"{(away == 0).sum()} right, {(away > 1).sum()} off by more than one."
    )


if __name__ == "__main__":
    main()
