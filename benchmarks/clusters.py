"""Recommended numbers of clusters against true ones, on cohorts with and without a mesh.

    python benchmarks/clusters.py --seeds 4 --first-seed 100 --jobs 2

Judged as `select_n_clusters` and `recommend_n_clusters` do: groups of the vertices' own curves
around a fit with the most clusters, and the agreement of two halves of the subjects. Other columns
of that table do not bear on the choice and are left out. "Noise" is a mesh with smooth noise and
nothing else.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.spatial import ConvexHull

import braindive as bd
from braindive.evaluation.folds import split_subjects
from braindive.evaluation.selection import candidate_row, fit_without, selection_table
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


def recommended(n_true: int, mesh: bool, differ: bool, seed: int, n_subjects: int) -> int:
    """Number of clusters that is recommended for one cohort."""
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
        rows = {}
        for number in (*HALVED, MOST):
            model = bd.DIVE(number, people="alike", personal=False, n_jobs=1, random_state=seed)
            halves = split_subjects(cohort, 2, seed) if number in HALVED else []
            whole = fit_without(model, cohort, [], False, MOST if number == MOST else 0)
            parts = [fit_without(model, cohort, half, False) for half in halves]
            rows[number] = candidate_row(whole, [], parts)
            groups = whole.groups
    table = selection_table(rows).reindex(range(2, MOST + 1))
    table["groups_gain"] = [groups[number].gain for number in table.index]
    table["groups"] = [groups[number].distinct for number in table.index]
    return bd.recommend_n_clusters(table).n_clusters


def main() -> None:
    parser = argparse.ArgumentParser(description="Judge recommended numbers of clusters.")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    cells = [
        (n_true, mesh, differ)
        for mesh in (False, True)
        for differ in (True, False)
        for n_true in (2, 3, 4, 5)
    ]
    cells.append((0, True, False))
    tasks = [(*cell, seed) for cell in cells for seed in seeds]
    found = Parallel(n_jobs=arguments.jobs)(
        delayed(recommended)(*task, 100 if task[1] else 150) for task in tasks
    )
    frame = pd.DataFrame(tasks, columns=["true", "mesh", "differ", "seed"]).assign(found=found)
    print("| vertices | they differ | true | recommended | right | within one |")
    print("|---|---|---|---|---|---|")
    for cell in cells:
        true, mesh, differ = cell
        mine = frame.query("true == @true and mesh == @mesh and differ == @differ")
        expected = max(true, 1)
        print(
            f"| {'2,562 on a mesh' if mesh else '1,000'} | {'yes' if differ else 'no'} | "
            f"{true or 'noise'} | {', '.join(map(str, mine['found']))} | "
            f"{(mine['found'] == expected).mean():.0%} | "
            f"{((mine['found'] - expected).abs() <= 1).mean():.0%} |"
        )
    real = frame[frame["true"] > 0]
    right = (real["found"] == real["true"]).mean()
    print(f"\nAll but noise: {right:.0%} right.")


if __name__ == "__main__":
    main()
