"""How the scores of visits go with other numbers of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from braindive.cohort.table_columns import find_column
from braindive.errors import ParameterError


def associate_scores(model: Any, columns: Sequence[str]) -> pd.DataFrame:
    """Correlation of the training visits' scores with columns of their table.

    Parameters
    ----------
    model : fitted DIVE
        With staging.
    columns : sequence of str
        Columns that hold numbers; visits without one are left out.

    Returns
    -------
    DataFrame
        Indexed by column: number of `visits`, `spearman` and `pearson`; NaN where fewer than three
        visits have a number, or all have the same.

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.evaluation.associations import associate_scores
    >>> cohort = bd.simulate_cohort(
    ...     n_subjects=20, n_vertices=40, noise=0.3, cognition=True, random_state=0
    ... ).cohort
    >>> model = bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(cohort)
    >>> bool(associate_scores(model, ["MMSE"]).loc["MMSE", "spearman"] < 0)
    True
    """
    if isinstance(columns, str) or not len(columns):
        raise ParameterError(f"give a list of at least one column; got {columns!r}.")
    rows = []
    for column in columns:
        found = find_column(model.visits_, column)
        values = pd.to_numeric(model.visits_[found], errors="coerce").to_numpy(float)
        known = np.isfinite(values)
        if not known.any():
            raise ParameterError(f"{column!r} holds no numbers.")
        x, y = model.scores_[known], values[known]
        varies = len(y) > 2 and np.ptp(y) > 0 and np.ptp(x) > 0
        rows.append(
            {
                "visits": int(known.sum()),
                "spearman": float(stats.spearmanr(x, y).statistic) if varies else np.nan,
                "pearson": float(stats.pearsonr(x, y).statistic) if varies else np.nan,
            }
        )
    return pd.DataFrame(rows, index=pd.Index(list(columns), name="column"))
