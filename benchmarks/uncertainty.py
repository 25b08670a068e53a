"""Coverage of 95 % intervals on simulated cohorts: scores of subjects, and trajectories.

    python benchmarks/uncertainty.py scores --seeds 12 --jobs 2
    python benchmarks/uncertainty.py bands --seeds 5 --jobs 2

Subjects count when their true baseline score lies on the informative part of the curves (-20 to
25, where some curve is steep). Scores are compared after a line from estimated to true scores of
the training subjects: the model's unit and origin are free.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import braindive as bd

_INFORMATIVE = (-20.0, 25.0)


def line(model: bd.DIVE, cohort: bd.Cohort, truth: np.ndarray) -> tuple[float, float]:
    """Slope and origin from the model's baseline scores to the true ones."""
    scores = model.stage(cohort)["score"].to_numpy()
    inside = (truth > _INFORMATIVE[0]) & (truth < _INFORMATIVE[1])
    slope, origin = np.polyfit(scores[inside], truth[inside], 1)
    return float(slope), float(origin)


def cover_scores(n_subjects: int, seed: int, **settings: Any) -> list[float]:
    """Coverage, error and mean standard error for training subjects, then for new ones."""
    simulation = bd.simulate_cohort(n_subjects=2 * n_subjects, random_state=seed, **settings)
    ids, truth = list(simulation.cohort.subject_ids), simulation.truth.shifts
    train = simulation.cohort.select(subjects=ids[:n_subjects])
    model = bd.DIVE(n_clusters=3, random_state=0).fit(train)
    slope, origin = line(model, train, truth[:n_subjects])
    found: list[float] = []
    for names, true in (
        (ids[:n_subjects], truth[:n_subjects]),
        (ids[n_subjects:], truth[n_subjects:]),
    ):
        stages = model.stage(simulation.cohort.select(subjects=names))
        errors = origin + slope * stages["score"].to_numpy() - true
        reach = abs(slope) * stages["score_se"].to_numpy()
        inside = (true > _INFORMATIVE[0]) & (true < _INFORMATIVE[1])
        found += [
            float(np.mean(np.abs(errors[inside]) < 1.96 * reach[inside])),
            float(np.sqrt(np.mean(errors[inside] ** 2))),
            float(np.sqrt(np.mean(reach[inside] ** 2))),
        ]
    return found


def scores(arguments: argparse.Namespace) -> None:
    print(
        f"{arguments.subjects} training and as many new subjects, "
        f"{arguments.seeds} seeds from {arguments.first_seed}"
    )
    print("| noise | vertices | they differ | offsets | train | error | SE | new | error | SE |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    alike = {"steepness_variation": 0.0, "midpoint_variation": 0.0}
    cases: list[tuple[str, str, str, dict[str, Any]]] = []
    for smoothing in (0, 3, 10, 30):
        noise = f"smooth, {smoothing} rounds" if smoothing else "independent"
        surface = {"space": "fsaverage5-left", "noise_smoothing": smoothing, "dtype": "float32"}
        cases.append((noise, "no", "none", surface | alike))
        cases.append((noise, "yes", "none", surface))
    cases.append(("independent", "no", "none", {"n_vertices": 1000} | alike))
    cases.append(("independent", "yes", "none", {"n_vertices": 1000}))
    shared = {"n_vertices": 1000, "personal_offset": 0.3, "personal_components": 5}
    cases.append(("independent", "yes", "0.3, 5 maps", shared))
    for noise, differ, offsets, settings in cases:
        rows = over_seeds(arguments, cover_scores, arguments.subjects, **settings)
        row = np.mean(rows, axis=0)
        cells = [f"{x:.1%}" if i % 3 == 0 else f"{x:.2f}" for i, x in enumerate(row)]
        vertices = "10,242" if "space" in settings else "1,000"
        print("| " + " | ".join([noise, vertices, differ, offsets, *cells]) + " |", flush=True)


def cover_bands(n_subjects: int, resamples: int, seed: int, **settings: Any) -> list[float]:
    """Share of the true curves inside the bands, and inside bands a third as wide.

    The true curve of a cluster is the mean of its vertices' curves. It is put on the model's scale
    by the standard major axis between true and estimated scores of the visits.
    """
    simulation = bd.simulate_cohort(n_subjects=n_subjects, random_state=seed, **settings)
    truth = simulation.truth
    model = bd.DIVE(n_clusters=3, random_state=0).fit(simulation.cohort)
    slope = truth.scores.std() / model.scores_.std()
    origin = truth.scores.mean() - slope * model.scores_.mean()
    grid = np.linspace(-18, 22, 41)
    lower, upper = bd.bootstrap(model, simulation.cohort, n=resamples).bands(
        (grid - origin) / slope
    )
    of_vertices = truth.vertices.evaluate(grid)
    true = np.stack([of_vertices[:, truth.labels == k].mean(axis=1) for k in range(3)], axis=1)
    away = np.abs(true - (lower + upper) / 2) / ((upper - lower) / 2)
    return [float(np.mean(away < 1)), float(np.mean(away < 1 / 3))]


def bands(arguments: argparse.Namespace) -> None:
    print(
        f"{arguments.resamples} resamples of {arguments.subjects} subjects, "
        f"{arguments.seeds} seeds from {arguments.first_seed}"
    )
    print("| noise | vertices | they differ | 95 % bands | a third as wide |")
    print("|---|---|---|---|---|")
    alike = {"steepness_variation": 0.0, "midpoint_variation": 0.0}
    surface = {"space": "fsaverage5-left", "dtype": "float32"}
    cases: list[tuple[str, str, str, dict[str, Any]]] = [
        ("1, independent", "600", "no", alike | {"n_vertices": 600}),
        ("0.5, independent", "600", "no", alike | {"n_vertices": 600, "noise": 0.5}),
        ("1, independent", "600", "yes", {"n_vertices": 600}),
        ("1, smooth, 3 rounds", "10,242", "no", alike | surface | {"noise_smoothing": 3}),
        ("1, smooth, 10 rounds", "10,242", "no", alike | surface | {"noise_smoothing": 10}),
    ]
    for noise, vertices, differ, settings in cases:
        size = arguments.subjects, arguments.resamples
        rows = over_seeds(arguments, cover_bands, *size, **settings)
        cells = [f"{x:.1%}" for x in np.mean(rows, axis=0)]
        print("| " + " | ".join([noise, vertices, differ, *cells]) + " |", flush=True)


def over_seeds(
    arguments: argparse.Namespace, study: Callable[..., list[float]], *size: int, **settings: Any
) -> list[list[float]]:
    """Call with every seed, in processes that keep quiet."""
    first = arguments.first_seed
    calls = (
        delayed(quietly)(study, *size, seed, **settings)
        for seed in range(first, first + arguments.seeds)
    )
    return list(Parallel(arguments.jobs)(calls))


def quietly(study: Callable[..., list[float]], *size: int, **settings: Any) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.BraindiveWarning)
        return study(*size, **settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=["scores", "bands"])
    parser.add_argument("--subjects", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--resamples", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    {"scores": scores, "bands": bands}[arguments.study](arguments)


if __name__ == "__main__":
    main()
