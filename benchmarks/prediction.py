"""Error of predicting the last visit, against the obvious predictions.

    python benchmarks/prediction.py offsets
    python benchmarks/prediction.py fields FOLDER

`offsets` uses simulated cohorts with lasting personal offsets of growing size. `fields` uses the
visual fields of LEI-SFD (Turpin et al. 2026) in a folder of the user's own: `reliable.csv` to
learn and predict from, split by person. They are semi-synthetic: real last visits and real rates
of change, simulated noise.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import braindive as bd


def obvious(train: bd.Cohort, history: bd.Cohort, late: bd.Cohort) -> dict[str, np.ndarray]:
    """Predictions that need no model."""
    known, values = history.values, late.values
    out = {
        name: np.empty(values.shape)
        for name in ("population mean", "last value", "mean of earlier", "linear")
    }
    mean = np.nanmean(train.values, axis=0)
    for i, (subject, time) in enumerate(zip(late.subjects, late.times, strict=True)):
        rows = np.flatnonzero(history.subjects == subject)
        rows = rows[np.argsort(history.times[rows])]
        own, when = known[rows], history.times[rows]
        out["population mean"][i] = mean
        out["last value"][i] = own[-1]
        out["mean of earlier"][i] = own.mean(axis=0)
        centred = when - when.mean()
        slope = centred @ own / (centred @ centred) if len(rows) > 1 else 0.0
        out["linear"][i] = own.mean(axis=0) + slope * (time - when.mean())
    return out


def compare(
    train: bd.Cohort, test: bd.Cohort, n_clusters: int, n_history: int, regions: np.ndarray
) -> tuple[dict[str, float], float]:
    """Root mean squared error of each prediction of the last visit, and interval coverage."""
    model = bd.DIVE(n_clusters=n_clusters, random_state=0).fit(train)
    as_published = {"people": "alike", "personal": False}
    published = bd.DIVE(n_clusters=n_clusters, random_state=0, **as_published).fit(train)
    atlas = bd.roi_model(regions, **as_published).fit(train)
    history, late = test.first_visits(n_history), test.later_visits(n_history)
    times = pd.Series(late.times).groupby(pd.Series(late.subjects)).transform("max")
    late = late.select(visits=late.times == times.to_numpy())
    predicted = obvious(train, history, late)
    predicted["DIVE, no offsets"] = published.predict(late, history=history, personal=False)
    predicted["ROI-based"] = atlas.predict(late, history=history, personal=False)
    expected, spread = model.predict(late, history=history, return_std=True)
    predicted["braindive"] = expected
    truth = late.values
    errors = {name: float(np.sqrt(np.mean((x - truth) ** 2))) for name, x in predicted.items()}
    return errors, float(np.mean(np.abs(expected - truth) < 1.96 * spread))


def show(label: str, errors: dict[str, float], coverage: float) -> None:
    best = min(error for name, error in errors.items() if name != "braindive")
    cells = [f"{error:.3f}" for error in errors.values()]
    ratio = errors["braindive"] / best
    print("| " + " | ".join([label, *cells, f"{ratio:.3f}", f"{coverage:.1%}"]) + " |", flush=True)


def header(first: str) -> None:
    names = ["population mean", "last value", "mean of earlier", "linear"]
    names += ["DIVE, no offsets", "ROI-based", "braindive", "braindive / best other", "interval"]
    print("| " + " | ".join([first, *names]) + " |")
    print("|" + "---|" * (len(names) + 1))


def offsets(arguments: argparse.Namespace) -> None:
    header("noise, offsets, sd")
    regions = np.arange(400) // 80
    for noise in (1.0, 0.3):
        for components in (None, 3):
            for size in (0.0, 0.1, 0.3, 1.0, 3.0):
                cohort = bd.simulate_cohort(
                    n_subjects=160,
                    n_vertices=400,
                    noise=noise,
                    personal_offset=size,
                    personal_components=components,
                    random_state=arguments.seed,
                ).cohort
                ids = list(cohort.subject_ids)
                train, test = cohort.select(subjects=ids[:100]), cohort.select(subjects=ids[100:])
                kind = "each vertex" if components is None else f"{components} maps"
                show(f"{noise}, {kind}, {size}", *compare(train, test, 3, 3, regions))


def fields(arguments: argparse.Namespace) -> None:
    table = pd.read_csv(Path(arguments.folder) / "reliable.csv")
    values = table[[f"vf.{i}" for i in range(1, 53)]].to_numpy(float)
    eyes = (table["person"].astype(str) + table["eye"]).to_numpy()
    cohort = bd.Cohort(values, subjects=eyes, times=table["visit"].to_numpy() / 2)
    persons = np.random.default_rng(arguments.seed).permutation(table["person"].unique())
    header("visits known, half")
    for n_history in (1, 2, 5, 9):
        for half in (0, 1):
            test = table["person"].isin(persons[half::2]).to_numpy()
            errors, coverage = compare(
                cohort.select(visits=~test),
                cohort.select(visits=test),
                4,
                n_history,
                np.arange(52) // 13,
            )
            show(f"{n_history}, {half}", errors, coverage)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=["offsets", "fields"])
    parser.add_argument("folder", nargs="?", help="folder of reliable.csv, for fields")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.study == "fields" and arguments.folder is None:
        parser.error("fields needs the folder that holds reliable.csv")
    warnings.simplefilter("ignore", bd.BraindiveWarning)
    {"offsets": offsets, "fields": fields}[arguments.study](arguments)


if __name__ == "__main__":
    main()
