"""How often wrong controls turn the disease round.

    python benchmarks/direction.py --seeds 20

Cohorts of the paper's basic setting with fewer people, whose controls are drawn at random, or are
those who happen to look healthy at the first visit, some of them patients.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Literal

import numpy as np

import braindive as bd


def correlation(kind: str, people: Literal["differ", "alike"], n_subjects: int, seed: int) -> float:
    """Correlation of the scores with the truth; negative where the disease is reversed."""
    simulation = bd.simulate_cohort(
        n_subjects=n_subjects, n_vertices=300, noise=0.5, random_state=seed
    )
    cohort, truth = simulation.cohort, simulation.truth
    rng = np.random.default_rng(seed)
    controls = None
    if kind == "random":
        controls = np.repeat(rng.random(n_subjects) < 0.4, 4)
    elif kind == "first visit":
        # A diagnosis that is right in seven of ten: whoever is diagnosed healthy at the first
        # visit counts as a control there, and nowhere else.
        healthy = (truth.shifts < 0) ^ (rng.random(n_subjects) < 0.3)
        controls = np.zeros(cohort.n_visits, dtype=bool)
        controls[::4] = healthy
    cohort = bd.Cohort(
        cohort.values, subjects=cohort.subjects, times=cohort.times, controls=controls
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.BraindiveWarning)
        model = bd.DIVE(3, people=people, personal=False, random_state=0).fit(cohort)
    return float(np.corrcoef(model.scores_, truth.scores)[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--subjects", type=int, default=60)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    print("| controls | people | reversed | least correlation |")
    print("|---|---|---|---|")
    for kind in ("none", "random", "first visit"):
        for people in ("differ", "alike"):
            found = [correlation(kind, people, arguments.subjects, seed) for seed in seeds]
            print(
                f"| {kind} | {people} | {sum(r < 0 for r in found)} of {len(found)} "
                f"| {min(found):.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
