"""Run every experiment of the DIVE paper and write the pages of docs/evidence.

python evidence/run.py --output docs/evidence            reduced, minutes
python evidence/run.py --output docs/evidence --full     as large as in the paper, hours

Results are kept in the cache folder, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import matplotlib as mpl

from adni import MODELS, PEOPLE, TRUTH, adni_fold
from cache import Row, Task, count_finished, run_cached
from choosing import choosing_page
from comparing import comparison_page
from experiments import (
    COHORTS,
    closer_trajectories,
    contiguous_areas,
    fewer_subjects,
    group_test,
    more_clusters,
)
from pages import groups_page, index_page, simulations_page
from sizes import FULL, REDUCED, TINY, Size

SIZES = {size.name: size for size in (TINY, REDUCED, FULL)}
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
                    "people": people,
                    "fold": fold,
                    "n_folds": size.folds,
                    "n_subjects": size.cohort_subjects,
                    "space": size.space,
                    "seed": 0,
                },
            )
            for people in PEOPLE
            for fold in range(size.folds)
            for model in (*MODELS, TRUTH)
        ],
        "groups": [
            (group_test, {"effect": effect, "seed": seed, **cohort})
            for cohort in size.group_cohorts
            for effect, cohorts in ((0.0, size.null_cohorts), (0.8, size.planted_cohorts))
            for seed in range(cohorts)
        ],
        "choosing-clusters": [
            (more_clusters, task | {"n_subjects": size.selection_subjects})
            for task in sorted(choosing_tasks(size), key=lambda task: task["n_clusters"])
        ],
    }


def choosing_tasks(size: Size) -> Iterator[Task]:
    """Every number of clusters to judge in experiment 1."""
    first, *others = size.selection_seeds
    for kind in COHORTS:
        # Many clusters, as in the paper, only where people are alike: the marginal fit of dozens of
        # clusters takes long.
        many = size.many_clusters if kind != "people" else {}
        grids = [(size.clusters | many, first)]
        grids += [(size.clusters, seed) for seed in others]
        for grid, seed in grids:
            for n_true, candidates in grid.items():
                for n_clusters in candidates:
                    # Groups are looked for around the fit with the most clusters.
                    most = n_clusters if n_clusters == max(candidates) else 0
                    task = {"n_true": n_true, "kind": kind, "n_clusters": n_clusters}
                    yield task | {"seed": seed, "most": most}


def run_page(name: str, jobs: list[tuple], cache: Path, n_jobs: int) -> dict[str, list[Row]]:
    """Rows of a page, by the function that made them."""
    rows: dict[str, list[Row]] = {}
    for function in dict.fromkeys(function for function, _ in jobs):
        tasks: list[Task] = [task for other, task in jobs if other is function]
        found = count_finished(function, tasks, cache)
        show = partial(report, f"{name}: {function.__name__}", found, time.monotonic())
        rows[function.__name__] = run_cached(function, tasks, cache, n_jobs, show)
    return rows


def report(title: str, found: int, since: float, done: int, total: int) -> None:
    """Say how far the work is: on a terminal as it goes, elsewhere at its end."""
    if not sys.stderr.isatty() and done < total:
        return
    passed = time.monotonic() - since
    text = f"{title} {done}/{total} ({found} found in the cache), {passed:.0f} s"
    if done < total:
        left = passed / max(done - found, 1) * (total - max(done, found))
        print(f"{text}, about {left:.0f} s left   ", end="\r", file=sys.stderr, flush=True)
    else:
        print(f"{text}          ", file=sys.stderr, flush=True)


def main() -> None:
    """Run what was asked for and write its pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs/evidence"))
    parser.add_argument("--cache", type=Path, default=Path("build/evidence"))
    parser.add_argument(
        "--size", choices=SIZES, default="reduced", help="full: as large as in the paper, hours"
    )
    parser.add_argument("--full", action="store_const", dest="size", const="full")
    parser.add_argument("--jobs", type=int, default=-1, help="workers; -1 for all cores")
    parser.add_argument("--only", choices=PAGES, help="one page instead of all")
    options = parser.parse_args()
    mpl.use("agg")
    options.output.mkdir(parents=True, exist_ok=True)
    size = SIZES[options.size]
    start = time.monotonic()
    try:
        for name, jobs in tasks_of(size).items():
            if options.only in (None, name):
                rows = run_page(name, jobs, options.cache, options.jobs)
                PAGES[name](rows, size, options.output)
        index_page(options.output)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would break the ending
        sys.exit("Interrupted. The same command goes on from here.")
    print(f"{size.name} size: {time.monotonic() - start:.0f} s in all", file=sys.stderr)


if __name__ == "__main__":
    main()
