"""Sites: bias of patients' scores, coverage, an unseen site, and what it costs where there is none.

    pip install neuroCombat
    python benchmarks/sites.py effects --cohorts 20
    python benchmarks/sites.py unseen --cohorts 20
    python benchmarks/sites.py none --cohorts 20
    python benchmarks/sites.py intervals --cohorts 10

ComBat comes from neuroCombat, which is installed by hand for this script and nothing else; without
it, its row is left out.

Cohorts have 200 people with four yearly visits, 70 of them controls long before the disease, on a
sphere of 642 vertices with four areas (midpoints -6, 0, 6 and 12, amplitude -2): every person has a
smooth map of its own of standard deviation 0.9, and visits smooth noise of 0.45. Of five sites the
first has a third of the controls and a fifteenth of the patients, and the last the other way round;
a tenth of the people change site. Sites add offsets of standard deviation 0.5, half of whose
variance is the same everywhere, and multiply noise by exp(0.5 x) with x of standard deviation 1.

Scores are matched to the truth by one line for each cohort; bias is the mean error of a site's
patients at their first visit, in standard deviations of the patients' true scores. "unseen" leaves
one of six sites out of the fit (260 people), adds it from ten of its controls, and stages its
patients. "none" plants no effect of sites and compares fits with and without `sites`. "intervals"
leaves the same site and a fifth of the people out, and predicts the last visits of these from all
before, and those of the people at the unseen site once it is added: how many measurements lie
within their intervals of 95 %, by how noisy the visit's site is.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import ConvexHull

import braindive as bd
from braindive.space.fsaverage import fsaverage5_mesh
from braindive.space.surface import Hemisphere, Surface
from tables import markdown

N_VERTICES = 642
UNSEEN = "site 3"
N_CONTROLS = 10
# Sites by the root mean square of the factors of their noise.
_KINDS, _BOUNDS = ("quiet (below 0.8)", "usual", "noisy (above 1.25)"), (0.8, 1.25)


def sphere() -> Surface:
    """The first vertices of fsaverage5, which lie on a coarser sphere."""
    points = fsaverage5_mesh("sphere", "left")[0][:N_VERTICES]
    faces = ConvexHull(points).simplices.astype(int)
    return Surface(f"sphere of {N_VERTICES} vertices", (Hemisphere("left", points, faces),))


def draw(seed: int, sites: int = 5, n_subjects: int = 200, size: float = 0.5) -> bd.Simulation:
    """One cohort."""
    return bd.simulate_cohort(
        n_subjects,
        4,
        space=sphere(),
        midpoints=(-6, 0, 6, 12),
        amplitude=-2,
        slope=-0.15,
        midpoint_variation=1.0,
        mean_shift=2,
        shift_sd=9,
        control_share=0.35,
        controls_shift=(-22, 3),
        controls_speed=0.3,
        noise=0.45,
        noise_smoothing=1,
        personal_offset=0.9,
        personal_smoothing=4,
        sites=sites,
        site_location=size,
        site_scale=size,
        random_state=seed,
    )


def fit(cohort: bd.Cohort, personal: bool = False, **settings: Any) -> bd.DIVE:
    """Fit four clusters without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.BraindiveWarning)
        model = bd.DIVE(4, personal=personal, random_state=0, n_jobs=1, **settings)
        return model.fit(cohort)


def combat(cohort: bd.Cohort) -> bd.Cohort | None:
    """Harmonise by ComBat, which keeps what goes with the diagnosis and with time."""
    try:
        from neuroCombat import neuroCombat
    except ImportError:
        return None
    table = cohort.table[["site", "diagnosis", "years"]]
    found = neuroCombat(
        dat=cohort.values.T,
        covars=table,
        batch_col="site",
        categorical_cols=["diagnosis"],
        continuous_cols=["years"],
    )["data"]
    return bd.Cohort(
        np.ascontiguousarray(found.T),
        subjects=cohort.subjects,
        times=cohort.times,
        controls=cohort.controls,
        graph=cohort.graph,
        space=cohort.space,
        table=cohort.table,
    )


def matched(scores: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Slope and intercept of the line that matches scores to the truth."""
    slope, intercept = np.polyfit(scores, truth, 1)
    return float(slope), float(intercept)


def first_visits(cohort: bd.Cohort) -> np.ndarray:
    """Where each person's first visit is; visits are sorted."""
    return np.flatnonzero(np.append(True, cohort.subjects[1:] != cohort.subjects[:-1]))


def judge(model: bd.DIVE, simulation: bd.Simulation) -> dict[str, Any]:
    """Bias by site, correlation and coverage of patients' scores at their first visits."""
    cohort, first = simulation.cohort, first_visits(simulation.cohort)
    patients = ~cohort.controls[first]
    scores, truth = model.scores_[first][patients], simulation.truth.scores[first][patients]
    slope, intercept = matched(scores, truth)
    errors = intercept + slope * scores - truth
    sites = cohort.table["site"].to_numpy()[first][patients]
    bias = pd.Series(errors / truth.std()).groupby(sites).mean()
    reach = 1.96 * abs(slope) * model.baseline_scores_se_[patients]
    return {
        "correlation": np.corrcoef(scores, truth)[0, 1],
        "coverage": np.mean(np.abs(errors) < reach),
        **{f"bias at {site}": value for site, value in bias.items()},
    }


def effects(seed: int) -> list[dict[str, Any]]:
    """Nothing, regression, ComBat and sites on the same cohort."""
    simulation = draw(seed)
    cohort = simulation.cohort
    regression = bd.Preprocessing(standardise=False, covariates=["site"])
    harmonised = combat(cohort)
    models = {
        "doing nothing": fit(cohort),
        "regression beforehand": fit(cohort, preprocessing=regression),
        "ComBat beforehand": None if harmonised is None else fit(harmonised),
        '`sites="site"`': fit(cohort, sites="site"),
    }
    return [
        {"method": name, **judge(model, simulation)}
        for name, model in models.items()
        if model is not None
    ]


def ten_controls(cohort: bd.Cohort) -> np.ndarray:
    """Which visits are those of the first controls."""
    controls = np.unique(cohort.subjects[cohort.controls].astype(str))[:N_CONTROLS]
    return np.isin(cohort.subjects.astype(str), controls)


def unseen(seed: int) -> list[dict[str, Any]]:
    """A site that is added from ten controls; its patients are staged with and without that."""
    simulation = draw(seed, sites=6, n_subjects=260)
    cohort, truth = simulation.cohort, simulation.truth
    new = (cohort.table["site"] == UNSEEN).to_numpy()
    there, known = cohort.select(visits=new), cohort.select(visits=~new)
    model = fit(known, sites="site")
    wider = model.add_site(there.select(visits=ten_controls(there)))
    first = first_visits(known)
    first = first[~known.controls[first]]
    slope, intercept = matched(model.scores_[first], truth.scores[~new][first])
    spread = truth.scores[~new][first].std()
    patients = there.select(visits=~there.controls)
    true = pd.Series(truth.scores[new][~there.controls], index=patients.subjects)
    true = true.groupby(level=0).first()
    renamed = cohort_at(patients, model.sites_.names[0])
    rows = []
    for name, stages in (
        ("as a known site", model.stage(renamed)),
        (f"add_site, {N_CONTROLS} controls", wider.stage(patients)),
    ):
        errors = intercept + slope * stages["score"] - true.reindex(stages.index)
        reach = 1.96 * abs(slope) * stages["score_se"]
        rows.append(
            {
                "method": name,
                "bias at the site": errors.mean() / spread,
                "coverage": np.mean(np.abs(errors) < reach),
            }
        )
    return rows


def cohort_at(cohort: bd.Cohort, site: str) -> bd.Cohort:
    """The same visits, said to be from another site."""
    table = cohort.table.assign(site=site)
    return bd.Cohort(
        cohort.values,
        subjects=cohort.subjects,
        times=cohort.times,
        controls=cohort.controls,
        graph=cohort.graph,
        space=cohort.space,
        table=table,
    )


def none(seed: int) -> list[dict[str, Any]]:
    """Fits with and without sites where sites have no effect."""
    simulation = draw(seed, size=0.0)
    models = {"without sites": fit(simulation.cohort)}
    models['`sites="site"`'] = fit(simulation.cohort, sites="site")
    return [{"method": name, **judge(model, simulation)} for name, model in models.items()]


def intervals(seed: int) -> list[dict[str, Any]]:
    """Last visits of people left out, and of people at a site that is added, as predicted."""
    simulation = draw(seed, sites=6, n_subjects=260)
    cohort, planted = simulation.cohort, simulation.truth.sites
    noise = np.sqrt(np.mean(planted.scales**2, axis=1))
    new = (cohort.table["site"] == UNSEEN).to_numpy()
    there, known = cohort.select(visits=new), cohort.select(visits=~new)
    others = np.isin(known.subjects, known.subject_ids[::5])
    model = fit(known.select(visits=~others), personal=True, sites="site")
    is_taught = ten_controls(there)
    wider = model.add_site(there.select(visits=is_taught))
    rows = []
    for left_out in (known.select(visits=others), there.select(visits=~is_taught)):
        last = np.append(left_out.subjects[1:] != left_out.subjects[:-1], True)
        came_back = np.isin(left_out.subjects, left_out.subjects[~last])
        asked, history = left_out.select(visits=last & came_back), left_out.select(visits=~last)
        values, errors = wider.predict(asked, history=history, return_std=True)
        left = np.abs(asked.values - values)
        for site, own in asked.table.reset_index().groupby("site"):
            factor, held = (
                noise[int(site.split()[1]) - 1],
                left[own.index] < 1.96 * errors[own.index],
            )
            kind = "added" if site == UNSEEN else _KINDS[np.searchsorted(_BOUNDS, factor)]
            square = np.mean(left[own.index] ** 2)
            rows.append(
                {"site": kind, "coverage": held.mean(), "square": square, "visits": len(own)}
            )
    return rows


def by_kind(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Coverage of every kind of site: visits count alike, and the range is over sites."""
    found = []
    for kind, own in pd.DataFrame(rows).groupby("site"):
        mean, square = (np.average(own[x], weights=own["visits"]) for x in ("coverage", "square"))
        found.append({"site": kind, "coverage": mean, "error": np.sqrt(square), "sites": len(own)})
        found[-1] |= {"lowest": own["coverage"].min(), "highest": own["coverage"].max()}
    return pd.DataFrame(found).set_index("site")


def summarise(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Over all cohorts: bias by site, its mean size, correlation and coverage."""
    table = pd.DataFrame(rows)
    columns = [column for column in table if column.startswith("bias at")]
    found = []
    for method, own in table.groupby("method", sort=False):
        biases = own[columns].to_numpy()
        # Of the sites' mean bias over cohorts, the largest: what does not average out.
        lasting = np.abs(biases.mean(axis=0)).max()
        found.append(
            {
                "method": method,
                "mean size of the bias": np.abs(biases).mean(),
                "root mean square": np.sqrt(np.mean(biases**2)),
                "largest lasting bias of a site": lasting,
                "coverage": own["coverage"].mean(),
            }
        )
        if "correlation" in own:
            found[-1]["correlation with the truth"] = own["correlation"].mean()
    return pd.DataFrame(found).set_index("method")


def main() -> None:
    """Run one of the comparisons on some cohorts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("effects", "unseen", "none", "intervals"))
    parser.add_argument("--cohorts", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1000)
    arguments = parser.parse_args()
    runs = {"effects": effects, "unseen": unseen, "none": none, "intervals": intervals}
    one, told = runs[arguments.what], by_kind if arguments.what == "intervals" else summarise
    rows = []
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.cohorts):
        rows += one(seed)
        done = seed + 1 - arguments.first_seed
        print(f"{done} of {arguments.cohorts} cohorts", flush=True)
        table = told(rows).round(3).reset_index()
        lines = [list(table.columns), *table.astype(str).to_numpy().tolist()]
        print(markdown(lines), flush=True)


if __name__ == "__main__":
    main()
