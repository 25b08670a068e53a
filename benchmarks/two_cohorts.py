"""Two cohorts of one disease, or of two: false alarms and power of `compare_cohorts`.

    python benchmarks/two_cohorts.py --pairs 100
    python benchmarks/two_cohorts.py --pairs 40 --later 6

Pairs of cohorts, one of 80 people and one of 60, as in `benchmarks/effects.py`: a sphere of 162
vertices with three areas, smooth noise and a smooth map of every person's own. Both have the same
course, or the second area of the second cohort is later by `--later` (half-way at 2 in the first).
Areas are given, as an atlas would be, in a fifth of the time; with `--find` they are found.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

import braindive as bd
from effects import tiny_sphere

MIDPOINTS = (-6.0, 2.0, 10.0)
SIZES = (80, 60)


def one_pair(seed: int, later: float, find: bool) -> dict[str, float]:
    """Tests of one pair, and the share of true differences of areas in their intervals."""
    space = tiny_sphere()
    labels = bd.simulation.contiguous_patches(space, 6, np.random.default_rng(seed)) % 3
    cohorts = []
    for size, move in zip(SIZES, (0.0, later), strict=True):
        midpoints = np.add(MIDPOINTS, (0.0, move, 0.0))
        # Labels are those of the earliest, the second and the last area.
        rank = np.argsort(np.argsort(midpoints))
        simulation = bd.simulate_cohort(
            size,
            space=space,
            noise=0.5,
            noise_smoothing=1,
            personal_offset=0.5,
            personal_smoothing=3,
            midpoints=sorted(midpoints),
            labels=rank[labels],
            amplitude=-2,
            slope=-0.2,
            steepness_variation=0.0,
            midpoint_variation=0.0,
            random_state=10_000 + 2 * seed + len(cohorts),
        )
        cohorts.append(simulation.cohort)
    model = bd.DIVE(3, n_init=1, personal=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.BraindiveWarning)
        found = bd.compare_cohorts(
            *cohorts,
            model,
            areas=None if find else labels,
            n_permutations=99,
            random_state=seed,
        )
    planted = np.array([-1, 2, -1]) * later / 3
    areas = found.areas
    if find:  # numbered by the fit of the first cohort, which finds the earliest first
        areas = areas.sort_values("midpoint_a")
    inside = (areas["midpoint_low"] <= planted) & (planted <= areas["midpoint_high"])
    ratios = (found.areas["steepness_low"] <= 1) & (found.areas["steepness_high"] >= 1)
    order = found.order
    return {
        **found.tests["p_value"].to_dict(),
        "overlap": found.overlap.loc["all", "p_value"],
        "midpoints covered": float(inside.mean()),
        "steepness covered": float(ratios.mean()),
        "tau": order["tau"],
        "dice": found.overlap.loc["all", "dice"],
        "chance": found.overlap.loc["all", "chance"],
        "scores": found.replication.loc[
            found.replication["parameter"] == "score", "pearson"
        ].mean(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--later", type=float, default=0.0)
    parser.add_argument("--find", action="store_true", help="find the areas, too")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.pairs)
    calls = (delayed(one_pair)(seed, arguments.later, arguments.find) for seed in seeds)
    frame = pd.DataFrame(Parallel(arguments.jobs)(calls))
    print(
        f"{arguments.pairs} pairs from seed {arguments.first_seed}, second area later by "
        f"{arguments.later:g}; tests: share with p < 0.05; the rest: means"
    )
    print("| " + " | ".join(frame) + " |")
    print("|" + "---|" * len(frame.columns))
    tests = ("order", "midpoints", "steepness", "overlap")
    cells = [
        f"{(frame[name] < 0.05).mean():.1%}" if name in tests else f"{frame[name].mean():.3f}"
        for name in frame
    ]
    print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
