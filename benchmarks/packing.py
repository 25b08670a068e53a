"""Peak memory and time of packing and fitting a study that lies on disk.

    python benchmarks/packing.py --scans 2000 --vertices 163842

Makes a study of uncompressed FreeSurfer maps in a temporary folder (a disease with three clusters),
then runs `braindive pack` and `braindive fit` as a user would, and prints what each took.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd

import braindive as bd


def make_study(folder: Path, n_scans: int, n_vertices: int, n_visits: int = 4) -> Path:
    random = np.random.default_rng(0)
    n_subjects = n_scans // n_visits
    speeds, shifts = random.gamma(6.25, 1 / 6.25, n_subjects), random.normal(0, 10, n_subjects)
    curves = bd.Trajectories(*np.array([[-1.0] * 3, [0.4] * 3, [-15.0, 2.5, 20.0], [0.0] * 3]))
    labels = random.integers(3, size=n_vertices)
    rows = []
    for subject in range(n_subjects):
        for visit in range(n_visits):
            score = speeds[subject] * visit + shifts[subject]
            values = curves.evaluate(np.array([score]))[0][labels]
            values = values + random.standard_normal(n_vertices, dtype=np.float32)
            name = f"sub-{subject:04d}_ses-{visit}.mgh"
            image = nib.MGHImage(values.astype(np.float32).reshape(-1, 1, 1), np.eye(4))
            nib.save(image, folder / name)
            rows.append((f"sub-{subject:04d}", visit, name))
    table = pd.DataFrame(rows, columns=["participant_id", "years", "path"])
    table.to_csv(folder / "cohort.tsv", sep="\t", index=False)
    return folder / "cohort.tsv"


def run(*command: str) -> str:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "braindive.cli.main", *command], check=True)
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    return f"braindive {command[0]}: {took:.0f} s, peak memory so far {peak:.2f} GB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scans", type=int, default=2000)
    parser.add_argument("--vertices", type=int, default=163_842)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        table = make_study(folder, arguments.scans, arguments.vertices)
        packed, model = str(folder / "study.zarr"), str(folder / "fit.dive")
        print(f"{arguments.scans} scans x {arguments.vertices} vertices")
        print(run("pack", str(table), "-o", packed), flush=True)
        print(run("fit", packed, "-k", "3", "-o", model), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
