"""What stages, errors and predictions cost beside the fit that they rest on.

    python benchmarks/aftermath.py
    python benchmarks/aftermath.py --subjects 454 --vertices 163842 --many 10000 --repeats 3

Two cohorts: many vertices, for what is learnt and predicted of every vertex; and many subjects, for
their stages and standard errors. Everything is done in turn and as often as asked for; medians are
shown. Memory is what the process needed at most, less what it had before the step.
"""

from __future__ import annotations

import argparse
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import braindive as bd
from tables import markdown, seconds

Steps = dict[str, list[tuple[float, float]]]


class Peak:
    """Most memory of this process while the context lasts, in bytes beyond its beginning."""

    def __enter__(self) -> Peak:
        self._begin = self.most = resident()
        self._ends = threading.Event()
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        return self

    def _look(self) -> None:
        while not self._ends.wait(0.02):
            self.most = max(self.most, resident())

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._watch.join()
        self.most -= self._begin


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def note(steps: Steps, name: str, step: Callable[[], Any]) -> Any:
    """Do a step and note its seconds and memory."""
    with Peak() as peak:
        start = time.perf_counter()
        found = step()
        took = time.perf_counter() - start
    steps.setdefault(name, []).append((took, peak.most))
    return found


def follow(steps: Steps, cohort: bd.Cohort, offsets: bool) -> None:
    """Fit a cohort and do what comes after."""
    early, late = cohort.first_visits(3), cohort.later_visits(3)
    model = note(steps, "fit", lambda: bd.DIVE(3, personal=False, random_state=0).fit(cohort))
    note(steps, "stages and standard errors", lambda: model.stage(cohort))
    if offsets:
        model = note(
            steps, "fit that learns how to predict", lambda: bd.DIVE(3, random_state=0).fit(cohort)
        )
        note(steps, "predict a visit of everybody", lambda: model.predict(late, history=early))


def show(title: str, cohort: bd.Cohort, steps: Steps) -> None:
    """Print a table of medians."""
    medians = {name: np.median(found, axis=0) for name, found in steps.items()}
    fit, size = medians["fit"][0], cohort.values.nbytes
    lines = [[title, "time", "÷ fit", "memory ÷ values"]]
    lines += [
        [name, seconds(took), f"{took / fit:.2f}", f"{peak / size:.0%}"]
        for name, (took, peak) in medians.items()
    ]
    print(markdown(lines) + "\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subjects", type=int, default=454)
    parser.add_argument("--vertices", type=int, default=163_842)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--few-vertices", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", bd.BraindiveWarning)
    for n_subjects, n_vertices, offsets in (
        (arguments.subjects, arguments.vertices, True),
        (arguments.many, arguments.few_vertices, False),
    ):
        cohort = bd.simulate_cohort(
            n_subjects, 4, n_vertices, personal_offset=0.3, dtype="float32", random_state=0
        ).cohort
        title = f"{n_subjects:,} subjects x 4 visits x {n_vertices:,} vertices"
        steps: Steps = {}
        for _ in range(arguments.repeats):
            follow(steps, cohort, offsets)
        show(title, cohort, steps)


if __name__ == "__main__":
    main()
