"""The simplest rival of every model: the mean of the map, and the last scan."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from braindive.arrays import Array
from braindive.cohort import Cohort
from braindive.cohort.checks import quoted
from braindive.errors import CohortError


class MeanMap(BaseEstimator):  # type: ignore[misc]
    """The mean over all vertices as the stage, the last scan as the prediction.

    It learns nothing, so whatever costs more has to beat it.

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> cohort = bd.Cohort(
    ...     np.array([[1.0, 3.0], [2.0, 6.0]]), subjects=["a", "a"], times=[70.0, 71.0]
    ... )
    >>> bd.MeanMap().fit(cohort).stage_visits(cohort)
    array([2., 4.])
    """

    def fit(self, cohort: Cohort, y: None = None) -> MeanMap:
        """Learn nothing."""
        self.n_vertices_ = cohort.n_vertices
        return self

    def stage(self, cohort: Cohort) -> pd.DataFrame:
        """Mean of each subject's first scan, as `score`."""
        first = cohort.first_visits(1)
        means = pd.Series(self.stage_visits(first), index=first.subjects)
        return pd.DataFrame({"score": means.loc[cohort.subject_ids]})

    def stage_visits(self, cohort: Cohort) -> Array:
        """Mean of each scan over its measured vertices, (n_visits,)."""
        return np.array([np.nanmean(np.asarray(scan, dtype=float)) for scan in cohort.values])

    def predict(self, cohort: Cohort, history: Cohort) -> Array:
        """Last scan of the history, for every visit: (n_visits, n_vertices)."""
        order = history.canonical_order
        last = dict(zip(history.subjects[order], order, strict=True))
        unknown = set(cohort.subjects) - set(last)
        if unknown:
            raise CohortError(
                f"no history for {len(unknown)} subjects, such as {quoted(min(unknown))}."
            )
        values = history.values
        return np.stack([np.asarray(values[last[subject]]) for subject in cohort.subjects])
