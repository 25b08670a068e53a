"""leaspy beside DIVE, on the same visits.

Usage: python benchmarks/comparison.py --leaspy PYTHON [--write docs/performance.md]

leaspy pins old releases of numpy, so it needs an environment of its own; PYTHON is its
interpreter: python -m venv FOLDER && FOLDER/bin/pip install leaspy
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

import braindive as bd
import tables

# Iterations of leaspy by default, and those of the fits that are timed. One iteration takes as long
# as another, so the difference of the last two fits tells how long all would take; the first is
# for what happens once in a process.
DEFAULT_ITERATIONS = 10_000
TIMED_ITERATIONS = (2, 10, 50)
FEATURES = (10, 30, 100)
REPEATS = 3
N_SUBJECTS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description="braindive beside leaspy.")
    parser.add_argument(
        "--leaspy", metavar="PYTHON", required=True, help="interpreter of an environment with it"
    )
    parser.add_argument("--write", metavar="FILE", type=Path, help="page with marks to write into")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    rows = {n: measure(arguments.leaspy, n) for n in FEATURES}
    part = section(rows, version_of(arguments.leaspy), load)
    if arguments.write:
        page = arguments.write.read_text(encoding="utf-8")
        arguments.write.write_text(tables.put_marked(page, "leaspy", part), encoding="utf-8")
    else:
        sys.stdout.write(part + "\n")


def measure(interpreter: str, n_features: int) -> tuple[float, float]:
    """CPU seconds of a whole fit of DIVE, and of one iteration of leaspy."""
    print(f"{n_features} features", file=sys.stderr, flush=True)
    # Regional means are far less noisy than vertices.
    simulation = bd.simulate_cohort(N_SUBJECTS, n_vertices=n_features, noise=0.1, random_state=0)
    ours = []
    for _ in range(REPEATS):
        start = time.process_time()
        bd.DIVE(3, random_state=0).fit(simulation.cohort)
        ours.append(time.process_time() - start)
    _, short, long = time_leaspy(interpreter, simulation.cohort, TIMED_ITERATIONS)
    return min(ours), (long - short) / (TIMED_ITERATIONS[2] - TIMED_ITERATIONS[1])


def section(rows: dict[int, tuple[float, float]], version: str, load: float) -> str:
    """Text and table; the time of all iterations of leaspy is scaled, and says so."""
    whole = f"leaspy, {DEFAULT_ITERATIONS:,} iterations (scaled)"
    lines = [["", "DIVE, whole fit", "leaspy, one iteration", whole]]
    for n_features, (ours, one) in rows.items():
        times = [tables.seconds(t) for t in (ours, one, one * DEFAULT_ITERATIONS)]
        lines.append([f"{n_features} features", *times])
    text = (
        f"{N_SUBJECTS} subjects x 4 visits, features with noise 0.1: the logistic model of leaspy "
        f"{version} and `DIVE(3, random_state=0)`. CPU time, of leaspy on one thread. One "
        f"iteration is the difference of fits of {TIMED_ITERATIONS[2]} and {TIMED_ITERATIONS[1]}, "
        f"scaled to leaspy's default of {DEFAULT_ITERATIONS:,}. The models are not the same: "
        "leaspy has a curve for every feature, DIVE one for every cluster."
    )
    machine = (
        f"Machine: {tables.describe_machine()}; load of other work when the run began: {load:.1f}."
    )
    return "\n\n".join([text, tables.markdown(lines), machine])


def version_of(interpreter: str) -> str:
    """Release of leaspy in the environment."""
    command = "from importlib.metadata import version; print(version('leaspy'))"
    done = subprocess.run(
        [interpreter, "-c", command], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def time_leaspy(interpreter: str, cohort: bd.Cohort, iterations: tuple[int, ...]) -> list[float]:
    """CPU seconds of fits of leaspy's logistic model to the cohort, brought to rise from 0 to 1."""
    values = -cohort.values
    values = (values - values.min()) / (values.max() - values.min())
    table = pd.DataFrame(values, columns=[f"feature_{i}" for i in range(cohort.n_vertices)])
    table.insert(0, "ID", cohort.subjects)
    table.insert(1, "TIME", cohort.times)
    script = Path(__file__).with_name("leaspy_fit.py")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.csv"
        table.to_csv(path, index=False)
        command = [interpreter, str(script), str(path), *map(str, iterations)]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=environment
        )
    return [float(word) for word in done.stdout.split()[-len(iterations) :]]


if __name__ == "__main__":
    main()
