"""The published DIVE code beside braindive, on the same arrays, drawn by the published generator.

Usage: python benchmarks/authors.py --code FOLDER [--write docs/performance.md]

FOLDER is a clone of https://github.com/mrazvan22/dive; nothing of it is part of braindive.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

import braindive as bd
import tables
from measurement import in_fresh_process, peak_memory, resident_memory

SOURCE = "https://github.com/mrazvan22/dive"
# Files without which a folder is not the published code.
FILES = ("synth.py", "synthCommon.py", "voxelDPM.py", "VDPMMean.py", "aux.py")
CONTROL = 1  # CTL in the published env.py
# Amplitude of every curve of the published generator.
AMPLITUDE = 5.0

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Ours:
    """A row of braindive: what is given to DIVE, and whether the cohort says who is a control."""

    options: dict[str, Any]
    controls: bool = True


# Diagnoses of the published generator depend on the score so weakly that in a small cohort its
# controls may be later than its patients. The published code takes the unit of the score from
# them; DIVE also takes from them which way the disease runs, so it is fitted without them too.
OURS = {
    "braindive": Ours({"random_state": 0}),
    "braindive, controls not marked": Ours({"random_state": 0}, controls=False),
}


@dataclass(frozen=True)
class Setting:
    """What the published generator is asked for; midpoints lie within `interval`."""

    n_subjects: int
    n_clusters: int
    interval: float

    def __str__(self) -> str:
        return (
            f"{self.n_subjects} subjects, {self.n_clusters} clusters, midpoints {self.interval:g} "
            "wide"
        )


# The published code needs two to three seconds for each subject, so that cohorts are small; 50 and
# 20 subjects are steps of its own experiments too.
SETTINGS = (
    Setting(20, 3, 3.0),
    Setting(20, 3, 0.5),
    Setting(20, 5, 3.0),
    Setting(50, 3, 3.0),
)


@dataclass(frozen=True)
class Recovery:
    """How near estimates are to the truth, and what they cost."""

    agreement: float
    pearson: float
    spearman: float
    speeds: float
    curve_error: float
    seconds: float
    memory: float


def main() -> None:
    parser = argparse.ArgumentParser(description="braindive beside the published DIVE code.")
    parser.add_argument(
        "--code",
        type=Path,
        required=True,
        help=f"folder of the published code, a clone of {SOURCE}",
    )
    parser.add_argument("--write", metavar="FILE", type=Path, help="page with marks to write into")
    arguments = parser.parse_args()
    if problem := problem_of(arguments.code):
        parser.error(problem)
    load = os.getloadavg()[0]
    results = {setting: measure(arguments.code, setting) for setting in SETTINGS}
    part = section(results, commit_of(arguments.code), load)
    if arguments.write:
        page = arguments.write.read_text(encoding="utf-8")
        arguments.write.write_text(tables.put_marked(page, "authors", part), encoding="utf-8")
    else:
        sys.stdout.write(part + "\n")


def problem_of(folder: Path) -> str | None:
    """Say why the folder is not the published code; None where it is."""
    missing = [name for name in FILES if not (folder / name).is_file()]
    if not missing:
        return None
    return (
        f"{folder} is not the published DIVE code, for it has no {missing[0]}: "
        f"git clone {SOURCE} and give that folder."
    )


def commit_of(folder: Path) -> str:
    """Return the commit of the clone, or nothing where git does not know."""
    command = ["git", "-C", str(folder), "log", "-1", "--format=%h of %ad", "--date=short"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def measure(code: Path, setting: Setting) -> dict[str, Recovery]:
    """Draw a cohort with the published generator, and fit it with both."""
    print(setting, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / name for name in ("settings.json", "arrays.npz", "found.npz")}
        settings, arrays, found = paths.values()
        settings.write_text(json.dumps(asdict(setting)), encoding="utf-8")
        run_published("draw", code, folder, settings, arrays)
        run_published("fit", code, folder, settings, arrays, found)
        truth = read(arrays)
        rows = {"authors' code": recovery(truth, read(found))}
        for name, ours in OURS.items():
            estimates = in_fresh_process(fit_ours, arrays, setting.n_clusters, ours)
            rows[name] = recovery(truth, estimates)
    for name, row in rows.items():
        print(f"  {name}: {row}", file=sys.stderr, flush=True)
    return rows


def run_published(task: str, code: Path, folder: str, *paths: Path) -> None:
    """Run the published code in a process of its own, and say how it ended if it failed."""
    script = Path(__file__).with_name("authors_fit.py").resolve()
    command = [sys.executable, str(script), task, str(code.resolve()), *map(str, paths)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the published code failed to {task}:\n{done.stderr[-2000:]}")


def read(path: Path) -> Arrays:
    """Arrays of a file, in memory."""
    with np.load(path) as stored:
        return dict(stored)


def fit_ours(path: Path, n_clusters: int, ours: Ours) -> Arrays:
    """Fit DIVE to the arrays that the published code was given."""
    arrays = read(path)
    subjects = np.char.mod("%06d", arrays["subjects"].astype(int))
    first = np.flatnonzero(np.diff(arrays["subjects"], prepend=-1))
    controls = None
    if ours.controls:
        visits_each = np.diff(np.append(first, len(subjects)))
        controls = np.repeat(arrays["diagnoses"][first] == CONTROL, visits_each)
    before, start = resident_memory(), time.process_time()
    cohort = bd.Cohort(arrays["values"], subjects=subjects, times=arrays["ages"], controls=controls)
    model = bd.DIVE(n_clusters, **ours.options).fit(cohort)
    seconds = time.process_time() - start
    curves = model.trajectories_
    return {
        "responsibilities": model.responsibilities_,
        "curves": np.stack(
            [curves.amplitude, curves.steepness, curves.midpoint, curves.baseline], axis=1
        ),
        "scores": model.scores_,
        "speeds": model.speeds_,
        "seconds": np.array(seconds),
        "memory": np.array(peak_memory() - before),
    }


def recovery(truth: Arrays, found: Arrays) -> Recovery:
    """Compare estimates with the truth.

    Scores have no unit of their own, so the found ones are brought to the true ones by a straight
    line before curves are compared: with the mean of the true curves of each cluster's vertices,
    over the middle 90% of the true scores. The error is the root mean square over clusters.
    """
    matching = bd.match_clusters(found["responsibilities"], truth["labels"])
    slope, intercept = np.polyfit(found["scores"], truth["scores"], 1)
    scores = np.linspace(*np.quantile(truth["scores"], [0.05, 0.95]), 200)
    true_vertices = sigmoids(truth["vertex_curves"], scores)
    found_curves = sigmoids(found["curves"], (scores - intercept) / slope)[:, matching.permutation]
    n_clusters = found["curves"].shape[0]
    true_curves = np.stack(
        [true_vertices[:, truth["labels"] == k].mean(axis=1) for k in range(n_clusters)], axis=1
    )
    error = np.sqrt(np.mean((found_curves - true_curves) ** 2))
    return Recovery(
        agreement=matching.agreement,
        pearson=float(np.corrcoef(found["scores"], truth["scores"])[0, 1]),
        spearman=float(spearmanr(found["scores"], truth["scores"]).statistic),
        speeds=float(np.corrcoef(found["speeds"], truth["speeds"])[0, 1]),
        curve_error=float(error / AMPLITUDE),
        seconds=float(found["seconds"]),
        memory=float(found["memory"]),
    )


def sigmoids(curves: NDArray[Any], scores: NDArray[Any]) -> NDArray[Any]:
    """Values (n_scores, n_curves) of curves a / (1 + exp(-b (s - c))) + d, one in each row."""
    a, b, c, d = curves.T
    exponents = np.clip(b * (scores[:, None] - c), -500, 500)
    return np.asarray(a / (1 + np.exp(-exponents)) + d)


def section(results: dict[Setting, dict[str, Recovery]], commit: str, load: float) -> str:
    """Text and table of all results."""
    head = ["", "agreement", "scores, Pearson", "scores, Spearman", "speeds, Pearson"]
    lines = [[*head, "curve error", "CPU time", "memory"]]
    for setting, rows in results.items():
        for name, row in rows.items():
            lines.append(
                [
                    f"{setting}: {name}",
                    *(f"{x:.3f}" for x in (row.agreement, row.pearson, row.spearman, row.speeds)),
                    f"{row.curve_error:.1%}",
                    tables.seconds(row.seconds),
                    f"{row.memory / 1e6:.0f} MB",
                ]
            )
    at = f", commit {commit}," if commit else ""
    text = f"""The [published code]({SOURCE}){at} draws each cohort with its own generator: 1,000
vertices, 4 yearly visits, curves that fall by 5, noise 0.5. Both codes are given the same arrays,
one after the other, each in a process of its own. The generator has one seed, so cohorts of as many
subjects are of the same people.

- *Authors' code* is model 8, which its README recommends, with the options of its `make synthAll`,
  and draws no figures; *braindive* is {calls()}.
- The generator's diagnoses depend on the score only weakly, and controls happen to be later than
  patients. The published code takes the unit of the score from its controls; DIVE learns from them
  how controls are distributed, and is fitted to the same visits without diagnoses too.
- *Agreement* is the mean probability given to the true cluster; scores are those of all visits.
- *Curve error* is the root mean square difference from the mean of the true curves of a cluster's
  vertices, over the middle 90% of scores, as a share of the amplitude. The found scores are brought
  to the true ones by a straight line.
- *CPU time* is that of all threads of the fit, *memory* its peak beyond the arrays; both without
  imports."""
    machine = (
        f"Machine: {tables.describe_machine()}; load of other work when the run began: {load:.1f}."
    )
    return "\n\n".join([text, tables.markdown(lines), machine])


def calls() -> str:
    """Calls of DIVE that make the rows of braindive, each once."""
    words = [", ".join(f"{k}={v!r}" for k, v in ours.options.items()) for ours in OURS.values()]
    return " and ".join(f"`DIVE(n_clusters, {word})`" for word in dict.fromkeys(words))


if __name__ == "__main__":
    main()
