"""Labels with the field that is estimated, and with one that vertices can still contradict.

    python benchmarks/labels.py --seeds 3 --first-seed 900 --jobs 2

After the marginal fit labels settle with a field that is held back (`settling_strength`). "Full
strength" is the same fit without that. Cohorts are those of BEYOND.md's generator (`people` in
uncertainty.py), whose people differ in smooth maps, and of `simulate_cohort` on fsaverage5.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from joblib import Parallel, delayed

import braindive as bd
import braindive.dive.e_step
from braindive.dive.field import settling_strength
from cohorts import beyond


def settings() -> dict[str, Callable[[int], bd.simulation.Simulation]]:
    """What cohorts are drawn from, by name."""
    found: dict[str, Callable[[int], bd.simulation.Simulation]] = {}
    for off in (0.0, 0.45, 0.9, 1.3):
        found[f"200 people, four areas, maps of sd {off}"] = lambda seed, off=off: beyond(off, seed)
    for n_subjects, noise, rounds, maps in (
        (20, 1, 0, 0),
        (20, 2, 0, 0),
        (50, 2, 3, 0),
        (50, 3, 0, 0),
        (100, 1, 30, 0),
        (100, 3, 0, 0.5),
        (100, 2, 3, 1.0),
        (40, 1, 10, 0.5),
        (200, 4, 0, 0),
        (200, 1, 0, 0),
        (454, 1, 0, 0),
    ):
        more: dict[str, Any] = {"personal_offset": maps, "personal_smoothing": 20} if maps else {}

        def draw(
            seed: int,
            n_subjects: int = n_subjects,
            noise: float = noise,
            rounds: int = rounds,
            more: dict[str, Any] = more,
        ) -> bd.simulation.Simulation:
            return bd.simulate_cohort(
                n_subjects,
                space="fsaverage5-left",
                noise=noise,
                noise_smoothing=rounds,
                dtype="float32",
                random_state=seed,
                **more,
            )

        name = f"{n_subjects} people, noise {noise}"
        name += f", averaged {rounds} times" if rounds else ""
        found[name + (f", maps of sd {maps}" if maps else "")] = draw
    return found


def at_full_strength(strength: float, log_densities: object) -> float:
    """Nothing is held back."""
    return strength


def compare(name: str, seed: int) -> list[float]:
    """Agreement with the truth at full strength and as it is, and the strength."""
    simulation = settings()[name](seed)
    truth, found = simulation.truth, []
    for hold_back in (at_full_strength, settling_strength):
        with (
            warnings.catch_warnings(),
            patch.object(braindive.dive.e_step, "settling_strength", hold_back),
        ):
            warnings.simplefilter("ignore")
            model = bd.DIVE(len(truth.trajectories), personal=False, random_state=0)
            model.fit(simulation.cohort)
        found.append(float(bd.match_clusters(model, truth.labels).agreement))
    return [*found, float(model.spatial_strength_)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Labels with fields of two strengths.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=900)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    print(f"{arguments.seeds} cohorts a row, seeds from {arguments.first_seed}")
    print("| cohort | estimated strength | full strength: agreement | as it is | better in |")
    print("|" + "---|" * 5)
    for name in settings():
        calls = (delayed(compare)(name, seed) for seed in seeds)
        rows = np.array(list(Parallel(arguments.jobs)(calls)))
        full, now, strength = rows.mean(axis=0)
        better = int(np.sum(rows[:, 1] > rows[:, 0]))
        cells = [f"{strength:.1f}", f"{full:.4f}", f"{now:.4f}", f"{better} of {len(rows)}"]
        print("| " + " | ".join([name, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
