"""Run every experiment of the DIVE paper and write the pages of docs/evidence.

python evidence/run.py --output docs/evidence            reduced, minutes
python evidence/run.py --output docs/evidence --full     as large as in the paper, hours

Results are kept in the cache folder, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import matplotlib as mpl

from braindive.evaluation.adni import MODELS, adni_fold
from braindive.evaluation.cache import Row, Task, run_cached
from braindive.evaluation.experiments import (
    closer_trajectories,
    contiguous_areas,
    fewer_subjects,
    group_test,
    more_clusters,
)
from pages import choosing_page, comparison_page, groups_page, index_page, simulations_page
from sizes import FULL, REDUCED, Size

PAGES = {
    "simulations": simulations_page,
    "comparison": comparison_page,
    "groups": groups_page,
    "choosing-clusters": choosing_page,
}


def tasks_of(size: Size) -> dict[str, list[tuple]]:
    """Everything to run for each page: function and arguments."""
    seeds = range(size.repeats)
    return {
        "simulations": [
            *(
                (closer_trajectories, {"spacing": x, "seed": s})
                for x in size.spacings
                for s in seeds
            ),
            *((fewer_subjects, {"n_subjects": n, "seed": s}) for n in size.subjects for s in seeds),
            *(
                (contiguous_areas, {"smoothing": m, "spatial": spatial, "seed": s})
                for m in size.smoothings
                for spatial in ("auto", None)
                for s in range(size.cortex_repeats)
            ),
        ],
        "comparison": [
            (
                adni_fold,
                {
                    "model": model,
                    "fold": fold,
                    "n_folds": size.folds,
                    "n_subjects": size.cohort_subjects,
                    "space": size.space,
                    "seed": 0,
                },
            )
            for fold in range(size.folds)
            for model in MODELS
        ],
        "groups": [
            (group_test, {"effect": effect, "seed": seed})
            for effect, cohorts in ((0.0, size.null_cohorts), (0.8, size.planted_cohorts))
            for seed in range(cohorts)
        ],
        "choosing-clusters": [
            (
                more_clusters,
                {
                    "n_true": n_true,
                    "candidates": list(candidates),
                    "seed": seed,
                    "n_splits": size.splits,
                    "n_resamples": size.resamples,
                    "n_subjects": size.selection_subjects,
                },
            )
            for n_true, candidates in size.clusters.items()
            for seed in range(size.selection_repeats)
        ],
    }


def run_page(name: str, jobs: list[tuple], cache: Path, n_jobs: int) -> dict[str, list[Row]]:
    """Rows of a page, by the function that made them."""
    rows: dict[str, list[Row]] = {}
    for function in dict.fromkeys(function for function, _ in jobs):
        tasks: list[Task] = [task for other, task in jobs if other is function]
        start = time.monotonic()

        def show(
            done: int, total: int, title: str = function.__name__, since: float = start
        ) -> None:
            passed = time.monotonic() - since
            left = passed / done * (total - done)
            end = "\n" if done == total else "\r"
            text = f"{name}: {title} {done}/{total}, {passed:.0f} s, about {left:.0f} s left   "
            if sys.stderr.isatty() or done == total:
                print(text, end=end, file=sys.stderr, flush=True)

        rows[function.__name__] = run_cached(function, tasks, cache, n_jobs, show)
    return rows


def main() -> None:
    """Run what was asked for and write its pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs/evidence"))
    parser.add_argument("--cache", type=Path, default=Path("build/evidence"))
    parser.add_argument("--full", action="store_true", help="as large as in the paper: hours")
    parser.add_argument("--jobs", type=int, default=-1, help="workers; -1 for all cores")
    parser.add_argument("--only", choices=PAGES, help="one page instead of all")
    options = parser.parse_args()
    mpl.use("agg")
    options.output.mkdir(parents=True, exist_ok=True)
    size = FULL if options.full else REDUCED
    for name, jobs in tasks_of(size).items():
        if options.only in (None, name):
            rows = run_page(name, jobs, options.cache, options.jobs)
            PAGES[name](rows, size, options.output)
    index_page(size, options.output)


if __name__ == "__main__":
    main()
