"""Scans joined with what was found at the visits nearest to them in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd


def join_nearest(
    scans: pd.DataFrame, visits: pd.DataFrame, columns: Sequence[str], within: float
) -> pd.DataFrame:
    """Give each scan what the same person's nearest visit says.

    Each column is taken from the nearest visit that has an entry, so that a test that was left out
    at one visit may come from another.

    Parameters
    ----------
    scans, visits : DataFrame
        With `participant_id` and `date` (datetime64); NaT matches nothing.
    columns : sequence of str
        Columns of `visits`; a missing entry is NaN or None.
    within : float
        Most days between scan and visit.

    Returns
    -------
    DataFrame
        The scans with the columns, and `days_apart` from the nearest visit of all, NaN where
        there is none within reach. Of two visits equally near the earlier counts.

    Examples
    --------
    >>> import pandas as pd
    >>> from braindive.io.joining import join_nearest
    >>> scans = pd.DataFrame({"participant_id": ["a"], "date": pd.to_datetime(["2010-03-01"])})
    >>> visits = pd.DataFrame(
    ...     {
    ...         "participant_id": ["a", "a"],
    ...         "date": pd.to_datetime(["2010-02-20", "2010-06-01"]),
    ...         "MMSE": [None, 27.0],
    ...     }
    ... )
    >>> join_nearest(scans, visits, ["MMSE"], 180)[["MMSE", "days_apart"]].values.tolist()
    [[27.0, 9.0]]
    """
    joined = scans.reset_index(drop=True).copy()
    of_person = dict(tuple(visits.sort_values("date", kind="stable").groupby("participant_id")))
    found: dict[str, list[object]] = {name: [] for name in columns}
    apart: list[float] = []
    for participant, date in zip(joined["participant_id"], joined["date"], strict=True):
        own = of_person.get(participant)
        if own is None or pd.isna(date):
            days = np.empty(0)
        else:
            days = np.abs((own["date"] - date).dt.total_seconds().to_numpy() / 86400)
        near = days <= within
        apart.append(float(days[near].min()) if near.any() else np.nan)
        for name in columns:
            entries: Any = () if own is None else own[name].to_numpy(dtype=object)
            usable = [(days[row], row) for row in np.flatnonzero(near) if not pd.isna(entries[row])]
            found[name].append(entries[min(usable)[1]] if usable else None)
    for name, values in found.items():
        joined[name] = pd.Series(values, dtype=object).infer_objects()
    joined["days_apart"] = apart
    return joined
