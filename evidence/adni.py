"""A simulated cohort with the shape of ADNI, and the paper's comparison on it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from braindive.arrays import IntArray
from braindive.cohort import Cohort
from braindive.estimator import DIVE
from braindive.evaluation.comparison import score_columns
from braindive.evaluation.folds import Ids, split_subjects
from braindive.evaluation.held_out import correlations, evaluate_fold
from braindive.evaluation.rivals import MeanMap
from braindive.io.spaces import load_space
from braindive.simulation import contiguous_patches, simulate_cohort
from braindive.simulation.cognition import TESTS
from braindive.variants import no_staging_model, roi_model

Row = dict[str, Any]
MODELS = (
    "DIVE",
    "published DIVE",
    "ROI-based",
    "published ROI-based",
    "no staging",
    "mean map",
)
PEOPLE = ("alike", "differ")
"""Whether maps of people are the same but for disease and noise, or differ persistently."""
TRUTH = "true stage"
"""Not a model: what a perfect staging would reach."""
STAGE = "stage"
"""Measure that only a simulation has: correlation with the true stage."""
N_SUBJECTS, N_SCANS = 454, 1973
# Regions of the atlas in a hemisphere, as many as the Desikan-Killiany atlas has.
_REGIONS = 34
# Persistent maps of 0.9 and noise of 0.45 make a spread of 1, smooth over some 25 mm as anatomy is.
_SETTINGS: dict[str, dict[str, Any]] = {
    "alike": {"noise": 1.0},
    "differ": {
        "noise": 0.45,
        "personal_offset": 0.9,
        "personal_smoothing": 40,
        "controls_shift": (-2.2, 0.3),
        "controls_speed": 0.3,
    },
}


@lru_cache(maxsize=1)
def adni_like_cohort(
    n_subjects: int = N_SUBJECTS,
    space: str = "fsaverage5-left",
    seed: int = 0,
    people: str = "alike",
) -> tuple[Cohort, IntArray]:
    """Simulate a cohort with the shape of ADNI, and an atlas that does not follow its areas.

    Simulated are: three true areas, each made of five contiguous patches; values in units of the
    controls' spread; spatially smooth noise; up to five yearly visits (4.3 on average, as in
    ADNI); ages at the first visit that have nothing to do with the disease; a third of controls;
    four cognitive scores; an APOE4 genotype with an effect of half a standard deviation; and an
    atlas of 34 contiguous regions for each hemisphere, drawn independently of the true areas.

    Where people differ, nine tenths of the controls' spread are smooth maps that everybody keeps,
    and the rest is noise; controls stand before the disease and move at a third of the pace.

    Parameters
    ----------
    n_subjects : int
        Subjects.
    space : str
        Surface; ADNI's hemispheres were averaged, so one of them is the default.
    seed : int
        Seed.
    people : {"alike", "differ"}
        Whether people differ persistently.

    Returns
    -------
    cohort : Cohort
        With the `true_stage` of every visit in its table.
    atlas : (n_vertices,) int

    Examples
    --------
    >>> from adni import adni_like_cohort
    >>> cohort, atlas = adni_like_cohort(n_subjects=10)
    >>> cohort.n_vertices, len(set(atlas.tolist()))
    (10242, 34)
    """
    simulation = simulate_cohort(
        n_subjects=n_subjects,
        n_visits=5,
        midpoints=(-0.8, 0.3, 1.4),
        slope=-0.8,
        amplitude=-2.0,
        shift_sd=1.0,
        mean_speed=0.15,
        midpoint_variation=0.116,
        space=space,
        noise_smoothing=2,
        control_share=1 / 3,
        **_SETTINGS[people],
        cognition=True,
        group_effect=0.5,
        dtype="float32",
        random_state=seed,
    )
    simulated = simulation.cohort
    random = np.random.default_rng([seed, 1])
    n_kept = round(n_subjects * N_SCANS / N_SUBJECTS)
    # Everybody has a first visit; later ones are lost at random.
    later = np.flatnonzero(simulated.times > 0)
    lost = random.choice(later, simulated.n_visits - n_kept, replace=False)
    kept = np.setdiff1d(np.arange(simulated.n_visits), lost)
    ages = random.normal(73.0, 7.0, n_subjects)[simulated.subject_index[kept]]
    cohort = Cohort(
        simulated.values[kept],
        subjects=simulated.subjects[kept],
        times=simulated.times[kept] + ages,
        controls=None if simulated.controls is None else simulated.controls[kept],
        graph=simulated.graph,
        space=simulated.space,
        table=simulated.table.assign(true_stage=simulation.truth.scores)
        .iloc[kept]
        .drop(columns="years"),
    )
    surface = load_space(space)
    n_regions = _REGIONS * (2 if space == "fsaverage5" else 1)
    return cohort, contiguous_patches(surface, n_regions, random)


def adni_fold(
    model: str,
    people: str,
    fold: int,
    n_folds: int,
    n_subjects: int,
    space: str,
    seed: int,
) -> list[Row]:
    """One model and fold of the paper's comparison, for work that is done in pieces.

    Together the folds are what `compare_models` gives on the same cohort; rows of DIVE also hold
    the labels found, for the overlap between folds. All models are also judged by the true stage;
    the "true stage" itself has correlations with cognitive scores alone.
    """
    cohort, atlas = adni_like_cohort(n_subjects, space, seed, people)
    results = score_columns(cohort, list(TESTS))
    test_subjects = split_subjects(cohort, n_folds, seed, smallest=3)[fold]
    if model == TRUTH:
        return _truth_rows(cohort, results, test_subjects)
    results = results.assign(**{STAGE: cohort.table["true_stage"].to_numpy(float)})
    fitted, rows = evaluate_fold(_models(atlas, seed)[model], cohort, test_subjects, results)
    if "ROI" not in model and hasattr(fitted, "labels_") and model != "no staging":
        rows.append({"measure": "labels", "value": fitted.labels_.tolist(), "n": 0})
    return rows


def _models(atlas: IntArray, seed: int) -> dict[str, Any]:
    """Every model of the comparison; published ones take people for alike, with their alpha, beta.

    Nothing is learnt for prediction, since the paper predicts by the trajectories alone.
    """
    settings: dict[str, Any] = {"personal": False, "random_state": seed}
    published: dict[str, Any] = settings | {"people": "alike", "scale": "controls"}
    return {
        "DIVE": DIVE(**settings),
        "published DIVE": DIVE(**published),
        "ROI-based": roi_model(atlas, **settings),
        "published ROI-based": roi_model(atlas, **published),
        "no staging": no_staging_model(**settings),
        "mean map": MeanMap(),
    }


def _truth_rows(cohort: Cohort, results: pd.DataFrame, test_subjects: Ids) -> list[Row]:
    stages = cohort.table["true_stage"].to_numpy(float)
    chosen = set(test_subjects)
    test = np.array([subject in chosen for subject in cohort.subjects])
    return [
        {"measure": measure}
        | correlations(stages[~test], stages[test], column.to_numpy(float), test)
        for measure, column in results.items()
    ]
