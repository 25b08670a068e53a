"""Error, CRPS and coverage of predicted visits, against rivals that know nothing of a disease.

    python benchmarks/prediction.py noise
    python benchmarks/prediction.py offsets
    python benchmarks/prediction.py fields FOLDER
    python benchmarks/prediction.py retest FOLDER

`noise` simulates cohorts whose noise is constant, depends on the level or on the person, has heavy
tails or shifts whole visits; `offsets` cohorts with lasting personal offsets of growing size.
`fields` uses the visual fields of LEI-SFD (Turpin et al. 2026) in a folder of the user's own:
`reliable.csv`, split by person. They are semi-synthetic: real last visits and real rates of change,
simulated noise. `retest` uses `fields.csv` of people who did not change (vfpwgRetest24d2 of the R
package visualFields): each fifth of the people is predicted from three visits by what the others
teach, and every person is asked whether it has changed.

Rivals are learnt on the same people: see `mixed_models.py`. Coverage is that of intervals of 95 %,
over all values and in the tenth (retest: the fifth) of the predicted level where it is least and
most.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

import braindive as bd
from mixed_models import RIVALS, predict_by_rivals

Predicted = dict[str, tuple[np.ndarray, np.ndarray]]
KINDS = ("constant", "level", "person", "heavy tails", "whole visits")


def crps(values: np.ndarray, expected: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of normal predictions."""
    z = (values - expected) / spread
    return spread * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))


def coverage(
    values: np.ndarray, expected: np.ndarray, spread: np.ndarray, parts: int
) -> tuple[float, float, float]:
    """Share of values inside their intervals: overall, and least and most by part of the level."""
    inside = (np.abs(values - expected) < norm.isf(0.025) * spread).ravel()
    shares = [inside[part].mean() for part in np.array_split(np.argsort(expected.ravel()), parts)]
    return float(inside.mean()), float(min(shares)), float(max(shares))


def predict_all(model: bd.DIVE, train: bd.Cohort, history: bd.Cohort, late: bd.Cohort) -> Predicted:
    """What everybody predicts."""
    found = predict_by_rivals(train, history, late)
    found["braindive"] = model.predict(late, history=history, return_std=True)
    return found


def last_visits(cohort: bd.Cohort, n_history: int) -> tuple[bd.Cohort, bd.Cohort]:
    """The first visits, and the very last."""
    late = cohort.later_visits(n_history)
    times = pd.Series(late.times).groupby(pd.Series(late.subjects)).transform("max")
    return cohort.first_visits(n_history), late.select(visits=late.times == times.to_numpy())


def header(first: str) -> None:
    names = [*RIVALS, "braindive", "/ best other", "CRPS", "/ best other", "interval", "by level"]
    print("| " + " | ".join([first, *names]) + " |")
    print("|" + "---|" * (len(names) + 1))


def show(label: str, values: np.ndarray, predicted: Predicted, parts: int = 10) -> None:
    errors = {name: np.sqrt(np.mean((x[0] - values) ** 2)) for name, x in predicted.items()}
    scores = {name: float(np.mean(crps(values, *x))) for name, x in predicted.items()}
    others = [name for name in predicted if name != "braindive"]
    inside, least, most = coverage(values, *predicted["braindive"], parts)
    cells = [f"{error:.4g}" for error in errors.values()]
    cells += [
        f"{errors['braindive'] / min(errors[name] for name in others):.3f}",
        f"{scores['braindive']:.4g}",
        f"{scores['braindive'] / min(scores[name] for name in others):.3f}",
        f"{inside:.1%}",
        f"{least:.1%} to {most:.1%}",
    ]
    print("| " + " | ".join([label, *cells]) + " |", flush=True)


def joined(parts: list[tuple[np.ndarray, Predicted]]) -> tuple[np.ndarray, Predicted]:
    """Predictions of several parts of the people as one."""
    names = parts[0][1]
    predicted = {
        name: (
            np.concatenate([one[name][0] for _, one in parts]),
            np.concatenate([one[name][1] for _, one in parts]),
        )
        for name in names
    }
    return np.concatenate([values for values, _ in parts]), predicted


def simulate(kind: str, seed: int, n_people: int) -> bd.Cohort:
    """People who differ persistently, in maps and in every vertex, with noise of some kind."""
    random = np.random.default_rng(seed + 100)
    simulated = bd.simulate_cohort(
        n_people,
        5,
        100,
        noise=1e-3,
        personal_offset=0.5,
        personal_components=6,
        random_state=seed,
    ).cohort
    own = 0.25 * random.normal(size=(n_people, 100))
    values = np.asarray(simulated.values) + own[simulated.subject_index]
    level = (values - values.mean()) / values.std()
    noise = random.normal(size=values.shape)
    if kind == "level":
        noise *= np.exp(-0.6 * level)
    elif kind == "person":
        noise *= np.exp(0.5 * random.normal(size=n_people))[simulated.subject_index][:, None]
    elif kind == "heavy tails":
        noise = random.standard_t(4, size=values.shape)
    elif kind == "whole visits":
        noise += 0.75 * random.normal(size=len(values))[:, None]
    values += 0.4 * noise / noise.std()
    return bd.Cohort(values, subjects=simulated.subjects, times=simulated.times)


def noise(arguments: argparse.Namespace) -> None:
    header("noise, visits known")
    n_train, n_test = 100, 150
    for kind in KINDS:
        found: dict[int, list[tuple[np.ndarray, Predicted]]] = {1: [], 2: [], 4: []}
        for seed in range(arguments.seed, arguments.seed + arguments.repeats):
            cohort = simulate(kind, seed, n_train + n_test)
            ids = list(cohort.subject_ids)
            train, test = (cohort.select(subjects=some) for some in (ids[:n_train], ids[n_train:]))
            model = bd.DIVE(3, random_state=0).fit(train)
            for n_history, parts in found.items():
                history, late = last_visits(test, n_history)
                parts.append((late.values, predict_all(model, train, history, late)))
        for n_history, parts in found.items():
            show(f"{kind}, {n_history}", *joined(parts))


def offsets(arguments: argparse.Namespace) -> None:
    header("noise, offsets, sd")
    for sd in (1.0, 0.3):
        for components in (None, 3):
            for size in (0.0, 0.1, 0.3, 1.0, 3.0):
                cohort = bd.simulate_cohort(
                    n_subjects=160,
                    n_vertices=400,
                    noise=sd,
                    personal_offset=size,
                    personal_components=components,
                    random_state=arguments.seed,
                ).cohort
                ids = list(cohort.subject_ids)
                train, test = cohort.select(subjects=ids[:100]), cohort.select(subjects=ids[100:])
                model = bd.DIVE(3, random_state=0).fit(train)
                history, late = last_visits(test, 3)
                kind = "each vertex" if components is None else f"{components} maps"
                predicted = predict_all(model, train, history, late)
                show(f"{sd}, {kind}, {size}", late.values, predicted)


def fields(arguments: argparse.Namespace) -> None:
    table = pd.read_csv(Path(arguments.folder) / "reliable.csv")
    values = table[[f"vf.{i}" for i in range(1, 53)]].to_numpy(float)
    eyes = (table["person"].astype(str) + table["eye"]).to_numpy()
    cohort = bd.Cohort(values, subjects=eyes, times=table["visit"].to_numpy() / 2)
    persons = np.random.default_rng(arguments.seed).permutation(table["person"].unique())
    header("half, visits known")
    for half in (0, 1):
        inside = table["person"].isin(persons[half::2]).to_numpy()
        train, test = cohort.select(visits=~inside), cohort.select(visits=inside)
        model = bd.DIVE(4, random_state=0).fit(train)
        for n_history in (1, 2, 5, 9):
            history, late = last_visits(test, n_history)
            show(f"{half}, {n_history}", late.values, predict_all(model, train, history, late))


def retest(arguments: argparse.Namespace) -> None:
    table = pd.read_csv(Path(arguments.folder) / "fields.csv")
    values = table[[name for name in table if name.startswith("place_")]].to_numpy(float)
    people = table["participant_id"].to_numpy()
    cohort = bd.Cohort(values, subjects=people, times=table["years"].to_numpy())
    ids = np.array(list(cohort.subject_ids))
    folds = np.random.default_rng(0).permutation(len(ids)) % 5
    parts, changes = [], []
    for fold in range(5):
        train = cohort.select(subjects=list(ids[folds != fold]))
        test = cohort.select(subjects=list(ids[folds == fold]))
        model = bd.DIVE(3, random_state=0).fit(train)
        history, late = test.first_visits(3), test.later_visits(3)
        parts.append((late.values, predict_all(model, train, history, late)))
        for n_visits, some in windows(test, arguments.seed):
            changes.append(bd.change(model, some).assign(visits=n_visits))
    header("visits known")
    show("3", *joined(parts), parts=5)
    found = pd.concat(changes).assign(
        changed=lambda x: x["p"] < 0.05,
        progressing=lambda x: (x["p"] < 0.05) & (x["change"] > 0),
    )
    print("\nStable people called changed, and called progressing, at 5 %:\n")
    columns = ["changed", "progressing"]
    print(found.groupby("visits")[columns].agg(["mean", "size"]).to_string())


def windows(cohort: bd.Cohort, seed: int) -> Iterator[tuple[int, bd.Cohort]]:
    """Any 3, 6 or 12 visits of everybody: the first, the last, and four times by chance."""
    random = np.random.default_rng(seed)
    subjects = np.asarray(cohort.subjects)
    rows = [np.flatnonzero(subjects == subject) for subject in cohort.subject_ids]
    rows = [own[np.argsort(cohort.times[own], kind="stable")] for own in rows]
    yield 12, cohort
    for n_visits in (3, 6):
        picks = [slice(None, n_visits), slice(-n_visits, None)]
        picks += [random.choice(12, n_visits, replace=False) for _ in range(4)]
        for pick in picks:
            mask = np.zeros(cohort.n_visits, dtype=bool)
            mask[np.concatenate([own[pick] for own in rows])] = True
            yield n_visits, cohort.select(visits=mask)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    studies = {"noise": noise, "offsets": offsets, "fields": fields, "retest": retest}
    parser.add_argument("study", choices=list(studies))
    parser.add_argument("folder", nargs="?", help="folder of the data, for fields and retest")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=2, help="cohorts of each kind of noise")
    arguments = parser.parse_args()
    if arguments.study in ("fields", "retest") and arguments.folder is None:
        parser.error(f"{arguments.study} needs the folder that holds the data")
    warnings.simplefilter("ignore", bd.BraindiveWarning)
    studies[arguments.study](arguments)


if __name__ == "__main__":
    main()
