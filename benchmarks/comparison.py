"""leaspy beside DIVE, where an environment that has leaspy is given."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pandas as pd

import braindive as bd
import tables
from measurement import best

# Iterations of leaspy by default, and those that are timed: each takes about as long.
DEFAULT_ITERATIONS = 10_000
TIMED_ITERATIONS = 100

ELSEWHERE = (
    ("10 features", "778 s"),
    ("100 features", "about 2.4 h"),
    ("1,000 features", "about a week"),
)


def leaspy_section(interpreter: str | None, quick: bool) -> str:
    """Measured where an interpreter is given, otherwise the figures known from elsewhere."""
    title = "Beside leaspy"
    known = tables.markdown([["100 subjects", "leaspy"], *map(list, ELSEWHERE)])
    note = "Measured elsewhere, on another machine, for a fit of leaspy's logistic model:"
    if interpreter is None:
        hint = (
            "leaspy pins old releases of numpy and needs an environment of its own, so it is left "
            "out by default; `--leaspy PYTHON` gives the interpreter of one."
        )
        return tables.section(title, hint, note, known)
    n_subjects, iterations = (20, 10) if quick else (100, TIMED_ITERATIONS)
    lines = [["", "DIVE", f"leaspy, {iterations} iterations", "leaspy, all iterations (scaled)"]]
    for n_features in (5,) if quick else (5, 10):
        print(f"leaspy: {n_features} features", file=sys.stderr, flush=True)
        # Regional means are far less noisy than vertices.
        simulation = bd.simulate_cohort(
            n_subjects, n_vertices=n_features, noise=0.1, random_state=0
        )
        cohort = simulation.cohort
        ours = best(partial(bd.DIVE(3, random_state=0).fit, cohort))
        theirs = time_leaspy(interpreter, cohort, iterations)
        whole = theirs * DEFAULT_ITERATIONS / iterations
        lines.append(
            [f"{n_features} features", *(tables.seconds(t) for t in (ours, theirs, whole))]
        )
    text = (
        f"{n_subjects} subjects x 4 visits. leaspy is timed for {iterations} iterations, and "
        f"scaled to its default of {DEFAULT_ITERATIONS:,}."
    )
    return tables.section(title, text, tables.markdown(lines), note, known)


def time_leaspy(interpreter: str, cohort: bd.Cohort, iterations: int) -> float:
    """Seconds of leaspy's logistic model on the cohort, brought to rise from 0 to 1."""
    values = -cohort.values
    values = (values - values.min()) / (values.max() - values.min())
    table = pd.DataFrame(values, columns=[f"feature_{i}" for i in range(cohort.n_vertices)])
    table.insert(0, "ID", cohort.subjects)
    table.insert(1, "TIME", cohort.times)
    script = Path(__file__).with_name("leaspy_fit.py")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.csv"
        table.to_csv(path, index=False)
        command = [interpreter, str(script), str(path), str(iterations)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.split()[-1])
