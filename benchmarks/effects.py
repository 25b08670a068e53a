"""Effects of covariates: false alarms, power and coverage, on many small simulated cohorts.

    python benchmarks/effects.py none --cohorts 300
    python benchmarks/effects.py shift --cohorts 150
    python benchmarks/effects.py speed --cohorts 150
    python benchmarks/effects.py both --cohorts 150
    python benchmarks/effects.py none --cohorts 3000 --first-seed 80000 --true

Cohorts have 100 people with four yearly visits, a quarter of them carriers, on a sphere of 162
vertices with three areas (midpoints -6, 2 and 10, amplitude -2): noise of standard deviation 0.5
that is smooth over the sphere, and a smooth map of every person's own of the same size. Carriers
are tested by `compare_groups` inside the model ("model"), by its test of the estimated stages
(Mann-Whitney and Welch, "stages"), and by tests of the true values; with `--fits` by
`DIVE(shift_on=["apoe4"], speed_on=["apoe4"])`, too. `--true` has the tests of the true values
alone, and nothing is fitted: how far some seeds happen to be from 5 %.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import pandas as pd
from joblib import Parallel, delayed
from scipy import stats
from scipy.spatial import ConvexHull

import braindive as bd
from braindive.space.fsaverage import fsaverage5_mesh
from braindive.space.surface import Hemisphere, Surface

PLANTED: dict[str, dict[str, float]] = {
    "none": {},
    "shift": {"carriers_shift": 6.0},
    "speed": {"carriers_speed": 1.4},
    "both": {"carriers_shift": 6.0, "carriers_speed": 1.4},
}
SHARE = 0.25


def tiny_sphere() -> Surface:
    """A sphere of 162 vertices, the first of fsaverage5."""
    points = fsaverage5_mesh("sphere", "left")[0][:162]
    faces = ConvexHull(points).simplices.astype(int)
    return Surface("sphere of 162 vertices", (Hemisphere("left", points, faces),))


def draw(effect: str, n_subjects: int, seed: int) -> bd.Simulation:
    """One cohort."""
    return bd.simulate_cohort(
        n_subjects,
        space=tiny_sphere(),
        noise=0.5,
        noise_smoothing=1,
        personal_offset=0.5,
        personal_smoothing=3,
        midpoints=(-6, 2, 10),
        amplitude=-2,
        slope=-0.2,
        n_patches=6,
        carrier_share=SHARE,
        random_state=seed,
        **PLANTED[effect],
    )


def true_tests(simulation: bd.Simulation) -> list[dict[str, Any]]:
    """Tests of the true values of one cohort."""
    carriers = simulation.cohort.first_visits(1).table["apoe4"].to_numpy(bool)
    rows = []
    for parameter in ("shift", "speed"):
        true = getattr(simulation.truth, f"{parameter}s")
        groups = true[carriers], true[~carriers]
        rows.append(
            {
                "parameter": parameter,
                "rank test of true values": stats.mannwhitneyu(*groups).pvalue,
                "t-test of true values": stats.ttest_ind(*groups).pvalue,
            }
        )
    return rows


def one_cohort(
    effect: str, n_subjects: int, seed: int, fits: bool, only_true: bool
) -> list[dict[str, Any]]:
    """Tests of one cohort, and whether its intervals hold what was planted."""
    simulation = draw(effect, n_subjects, seed)
    if only_true:
        return true_tests(simulation)
    cohort = simulation.cohort
    faster = PLANTED[effect].get("carriers_speed", 1.0)
    # A year is what everybody moves by in a year on average.
    ahead = PLANTED[effect].get("carriers_shift", 0.0) / (1 + SHARE * (faster - 1))
    settings: dict[str, Any] = {"n_init": 1, "personal": False, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.BraindiveWarning)
        model = bd.DIVE(3, **settings).fit(cohort)
        tables = [bd.compare_groups(model, "apoe4", test=test) for test in ("model", "stages")]
        fitted = None
        if fits:
            on = {"shift_on": ["apoe4"], "speed_on": ["apoe4"]}
            fitted = bd.DIVE(3, **settings, **on).fit(cohort).effects_.set_index("parameter")
    inside, after = tables
    rows = []
    for true, name, planted in zip(
        true_tests(simulation), ("baseline score", "speed"), (ahead, faster), strict=True
    ):
        found, parameter = inside.loc[name], true["parameter"]
        row = {
            "parameter": parameter,
            "model": found["p_value"],
            "rank test of stages": after.loc[name, "p_value"],
            "t-test of stages": after.loc[name, "mean_p_value"],
            **true,
            "covered": found["low"] <= planted <= found["high"],
            "estimate": found["estimate"],
            "planted": planted,
        }
        if fitted is not None:
            own = fitted.loc[parameter]
            row |= {"fit": own["p"], "fit covered": own["low"] <= planted <= own["high"]}
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("effect", choices=list(PLANTED))
    parser.add_argument("--cohorts", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=10_000)
    parser.add_argument("--subjects", type=int, default=100)
    parser.add_argument("--fits", action="store_true", help="fit with covariates as well")
    parser.add_argument("--true", action="store_true", help="tests of the true values alone")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.cohorts)
    calls = (
        delayed(one_cohort)(
            arguments.effect, arguments.subjects, seed, arguments.fits, arguments.true
        )
        for seed in seeds
    )
    frame = pd.DataFrame([row for rows in Parallel(arguments.jobs)(calls) for row in rows])
    print(
        f"{arguments.cohorts} cohorts of {arguments.subjects} people from seed "
        f"{arguments.first_seed}, effect on: {arguments.effect}; share with p < 0.05"
    )
    tests = [name for name in frame if frame[name].dtype == float and name.split()[0] != "planted"]
    more = []
    if not arguments.true:
        tests.remove("estimate")
        more = ["intervals cover", "planted", "mean estimate"]
    print("| parameter | " + " | ".join(tests + more) + " |")
    print("|" + "---|" * (len(tests) + len(more) + 1))
    for parameter, part in frame.groupby("parameter", sort=False):
        cells = [f"{(part[test] < 0.05).mean():.1%}" for test in tests]
        if arguments.true:
            print(f"| {parameter} | " + " | ".join(cells) + " |", flush=True)
            continue
        cells.append(f"{part['covered'].mean():.1%}")
        if arguments.fits:
            cells[-1] += f" (fit {part['fit covered'].mean():.1%})"
        cells += [f"{part['planted'].mean():.2f}", f"{part['estimate'].mean():.2f}"]
        print(f"| {parameter} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
