"""Means, spreads and tests of a comparison of models."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from braindive.arrays import Array
from braindive.errors import ParameterError

REFERENCE = "DIVE"
RMSE = "RMSE"


def summarise_comparison(
    frame: pd.DataFrame, reference: str = REFERENCE, level: float = 0.05
) -> pd.DataFrame:
    """Mean and spread over folds, and a paired test of each model against one of them.

    The test is the corrected resampled t-test of Nadeau and Bengio (2003): a paired t-test over
    folds whose variance is raised by n_test / n_train, since training parts overlap.

    Parameters
    ----------
    frame : DataFrame
        Of `compare_models`.
    reference : str
        Model to test the others against.
    level : float
        Models with a smaller p-value are marked; p-values are not corrected for their number.

    Returns
    -------
    DataFrame
        One row for each (model, measure): `mean`, `sd`, `n_folds`, `difference` from the
        reference, `p_value`, `differs`.

    Examples
    --------
    >>> import pandas as pd, braindive as bd
    >>> frame = pd.DataFrame({
    ...     "model": ["DIVE"] * 3 + ["other"] * 3, "fold": [0, 1, 2] * 2, "measure": "MMSE",
    ...     "value": [0.5, 0.6, 0.4, 0.1, 0.2, 0.05],
    ... })
    >>> bd.summarise_comparison(frame)["differs"].tolist()
    [False, True]
    """
    if reference not in set(frame["model"]):
        raise ParameterError(
            f"there is no model {reference!r} in the comparison to test the others against; choose "
            f"reference from {', '.join(frame['model'].unique())}."
        )
    rows = []
    for measure in frame["measure"].unique():
        part = frame[frame["measure"] == measure]
        values = part.pivot_table(index="fold", columns="model", values="value", dropna=False)
        for model in part["model"].unique():
            found = values[model].dropna()
            differences = (values[model] - values[reference]).dropna().to_numpy()
            p_value = np.nan if model == reference else corrected_t_test(differences)
            rows.append(
                {
                    "model": model,
                    "measure": measure,
                    "mean": found.mean(),
                    "sd": found.std(),
                    "n_folds": len(found),
                    "difference": differences.mean() if len(differences) else np.nan,
                    "p_value": p_value,
                    "differs": bool(p_value < level),
                }
            )
    return pd.DataFrame(rows)


def corrected_t_test(differences: Array) -> float:
    """Two-sided p-value of paired differences over the folds of a cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.evaluation.summary import corrected_t_test
    >>> round(corrected_t_test(np.array([0.3, 0.4, 0.35, 0.31])), 4)
    0.0023
    """
    n_folds = len(differences)
    if n_folds < 2:
        return np.nan
    variance = float(np.var(differences, ddof=1)) * (1 / n_folds + 1 / (n_folds - 1))
    if variance == 0:
        return 1.0 if differences[0] == 0 else 0.0
    t = float(np.mean(differences)) / np.sqrt(variance)
    return float(2 * stats.t.sf(abs(t), n_folds - 1))


def comparison_table(summary: pd.DataFrame) -> pd.DataFrame:
    """Lay a summary out as in the paper: a row for each model, "mean ± sd", * where it differs.

    Examples
    --------
    >>> import pandas as pd
    >>> from braindive.evaluation.summary import comparison_table
    >>> summary = pd.DataFrame({
    ...     "model": ["DIVE"], "measure": ["MMSE"], "mean": [0.5], "sd": [0.1], "differs": [False],
    ... })
    >>> comparison_table(summary).loc["DIVE", "MMSE"]
    '0.50 ± 0.10'
    """
    cells = summary.copy()
    digits = np.where(cells["measure"] == RMSE, 3, 2)
    cells["cell"] = [
        f"{mean:.{n}f} ± {sd:.{n}f}{'*' if differs else ''}" if np.isfinite(mean) else "undefined"
        for mean, sd, n, differs in zip(
            cells["mean"], cells["sd"], digits, cells["differs"], strict=True
        )
    ]
    wide = cells.pivot_table(index="model", columns="measure", values="cell", aggfunc="first")
    return wide.loc[cells["model"].unique(), cells["measure"].unique()]
