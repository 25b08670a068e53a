"""Where people stand, as tables in the user's units: a row for each person, or for each visit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from braindive.cohort.cohort import Cohort
from braindive.fitted import Fitted
from braindive.values.walking import one_thread_per_product

_COLUMNS = ("speed", "shift", "score", "speed_se", "shift_se", "score_se")


def stage_table(model: Fitted, cohort: Cohort, client: Any = None) -> pd.DataFrame:
    """Place subjects on the course; see `DIVE.stage`.

    Parameters
    ----------
    model : Fitted
        A fitted model.
    cohort : Cohort
        Subjects, seen before or not.
    client : distributed.Client, optional
        Dask cluster over which to spread the values.

    Returns
    -------
    DataFrame
        One row for each subject.
    """
    placed, _, _ = model.place(cohort, client)
    timeline, stager, scale = placed.timeline, model.stager(), model.stage_scale()
    with one_thread_per_product(model.n_jobs):
        errors = stager.errors(placed)
    outside = stager.is_outside(placed, errors)
    stages = scale.stages(timeline, placed.speeds, placed.shifts)
    return pd.DataFrame(
        {
            **dict(zip(_COLUMNS, (*stages, *scale.stage_errors(errors).T), strict=True)),
            "n_visits": timeline.n_visits_of_subject,
            "outside": outside,
        },
        index=pd.Index(cohort.subject_ids, name="subject"),
    )


def score_table(model: Fitted, cohort: Cohort, client: Any = None) -> pd.DataFrame:
    """Score of every visit with its standard error; see `DIVE.scores`.

    Parameters
    ----------
    model, cohort, client
        As in `stage_table`.

    Returns
    -------
    DataFrame
        One row for each visit, in the order of the cohort.
    """
    placed, _, _ = model.place(cohort, client)
    scale, order = model.stage_scale(), cohort.canonical_order
    with one_thread_per_product(model.n_jobs):
        errors = model.stager().score_errors(placed)
    scores = placed.timeline.scores(placed.speeds, placed.shifts)
    found = np.empty((2, len(order)))
    found[:, order] = scale.scores(scores), scale.score_errors(errors)
    return pd.DataFrame(
        {
            "subject": cohort.subjects,
            "time": cohort.times,
            "score": found[0],
            "score_se": found[1],
        }
    )
