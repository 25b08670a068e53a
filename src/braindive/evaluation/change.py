"""Has a person changed? The change between visits, judged by noise alone."""

from __future__ import annotations

from typing import Any

import pandas as pd

from braindive.cohort import Cohort
from braindive.errors import NotFittedError, ParameterError
from braindive.staging.change import find_changes


def change(model: Any, cohort: Cohort, *, client: Any = None) -> pd.DataFrame:
    """Change of each person from the first visit to the last, with its error from noise alone.

    Where a person stands is known less well than how far the person has moved: what lasts, such
    as a brain that has always been small, is the same at every visit and cancels in the change.
    The change is that of the line through the person's visits, each placed by itself, so that a
    person may stand still or get better. How large noise is comes from the scatter of visits
    around people's own lines: usually by level, and for the person as far as its own visits tell
    it. Of people who do not change, 5 % have `p` below 0.05.

    Parameters
    ----------
    model : fitted DIVE
        With staging.
    cohort : Cohort
        Subjects with two or more visits; who was seen once has no change (NaN).
    client : distributed.Client, optional
        Dask cluster over which to spread the values.

    Returns
    -------
    DataFrame
        One row for each subject: `change` of the score from the first to the last visit, its
        standard error `se`, and `p`, that there is no change (two-sided, by a t distribution).
        Then the same for the mean of each cluster, in the unit of the values:
        `change_cluster_1`, `se_cluster_1`, `p_cluster_1`, and so on from the earliest. `n_visits`
        and `years` say how often and over which time the person was seen.

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(60, n_visits=4, n_vertices=60, random_state=0).cohort
    >>> model = bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(cohort)
    >>> changes = bd.change(model, cohort)
    >>> list(changes.columns[:5])
    ['change', 'se', 'p', 'n_visits', 'years']
    >>> bool((changes["se"] > 0).all())
    True
    """
    if not hasattr(model, "shifts_"):
        raise NotFittedError("change needs a fitted model; call fit(cohort) first.")
    if not model.staging:
        raise ParameterError(
            "a model without staging takes time for the score, which changes as time does; fit it "
            "with staging=True."
        )
    ids = cohort.subject_ids
    placed, sums, weights = model.place(cohort, client)
    found = find_changes(model.stager(), model.internal_.training, placed, sums, weights)
    timeline, scale = placed.timeline, model.stage_scale()
    last = timeline.starts + timeline.n_visits_of_subject - 1
    columns = {
        "change": scale.score_changes(found.change[:, 0]),
        "se": scale.score_errors(found.error[:, 0]),
        "p": found.p_value[:, 0],
        "n_visits": timeline.n_visits_of_subject,
        "years": timeline.years[last] - timeline.years[timeline.starts],
    }
    for i in range(1, found.change.shape[1]):
        columns[f"change_cluster_{i}"] = scale.unit.scale * found.change[:, i]
        columns[f"se_cluster_{i}"] = scale.value_errors(found.error[:, i])
        columns[f"p_cluster_{i}"] = found.p_value[:, i]
    return pd.DataFrame(columns, index=pd.Index(ids, name="subject"))
