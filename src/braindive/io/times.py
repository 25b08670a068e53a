"""When each visit was, in years."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from braindive.arrays import Array
from braindive.errors import CohortError
from braindive.io.bids import read_sessions
from braindive.io.problems import Problems

# In the order in which they are looked for.
TIME_COLUMNS = ("age", "age_at_session", "years", "acq_time")
_AGES = ("age", "age_at_session")
_OLDEST = 130.0
_LONGEST = 60.0
_DAYS_PER_YEAR = 365.25
_LIKE_A_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")


def read_times(
    table: pd.DataFrame, column: str | None, roots: Sequence[Path], problems: Problems
) -> Array:
    """Find the time of each visit.

    Parameters
    ----------
    table : DataFrame of text
        With `participant_id`.
    column : str or None
        Column with the times; None takes the first of `TIME_COLUMNS` in the table, or else in the
        BIDS sessions tables.
    roots : sequence of Path
        Where the sessions tables may be.
    problems : Problems
        Takes what is wrong.

    Returns
    -------
    (n_visits,)
        Years; dates become years since the participant's first. NaN where there is a problem.
    """
    name = column or time_column(table)
    source = table
    if name is None:
        sessions = read_sessions(table, roots, TIME_COLUMNS)
        if sessions is None:
            raise CohortError(
                f"{problems.source} has no time column; add one of {', '.join(TIME_COLUMNS)}, "
                "or name yours with times=, or give the BIDS folder with the sessions.tsv files "
                "as root."
            )
        source = sessions
        name = time_column(sessions.assign(participant_id=table["participant_id"]))
        assert name is not None
    texts = source[name].tolist()
    if name == "acq_time":
        times = _from_dates(texts, name, problems)
        first = pd.Series(times).groupby(table["participant_id"].to_numpy()).transform("min")
        times = times - first.to_numpy()
    else:
        times = _from_numbers(texts, name, problems)
    _check_units(times, table["participant_id"].to_numpy(), name, problems)
    return times


def time_column(table: pd.DataFrame) -> str | None:
    """Return the first of the usual columns that tells when visits were, or None.

    An age that is the same at all visits of everybody is that of the first visit, so that another
    column comes before it.
    """
    present = [name for name in TIME_COLUMNS if name in table.columns]
    repeated = table["participant_id"].duplicated().any()
    for name in present:
        # One person with two different entries is enough.
        different = table[["participant_id", name]].drop_duplicates()["participant_id"]
        if name not in _AGES or not repeated or different.duplicated().any():
            return name
    return present[0] if present else None


def _from_numbers(texts: list[str], column: str, problems: Problems) -> Array:
    times = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        if not text:
            problems.add(row, "the visit has no time.", column=column)
            continue
        try:
            times[row] = float(text)
        except ValueError:
            kind = "a date" if _LIKE_A_DATE.match(text) else "text"
            advice = "; put dates in a column acq_time" if kind == "a date" else ""
            problems.add(row, f"{text!r} is {kind}, not a number of years{advice}.", column=column)
            continue
        if not np.isfinite(times[row]):
            times[row] = np.nan
            problems.add(row, f"{text!r} is not a time.", column=column)
    return times


def _from_dates(texts: list[str], column: str, problems: Problems) -> Array:
    times = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        if not text:
            problems.add(row, "the visit has no time.", column=column)
            continue
        date = _parse_date(text)
        if date is None:
            problems.add(row, f"{text!r} is not a date such as 2012-05-30T14:00:00.", column=column)
        else:
            times[row] = date.timestamp() / (86400 * _DAYS_PER_YEAR)
    return times


def _parse_date(text: str) -> datetime | None:
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _check_units(times: Array, participants: np.ndarray, column: str, problems: Problems) -> None:
    """Refuse numbers that cannot be years."""
    if column in _AGES:
        for row in np.flatnonzero(times < 0):
            problems.add(int(row), f"the age {times[row]:g} is negative.", column=column)
        for row in np.flatnonzero(times > _OLDEST):
            problems.add(
                int(row),
                f"the age {times[row]:g} cannot be in years; divide months by 12.",
                column=column,
            )
        return
    advice = "check the dates" if column == "acq_time" else "divide months by 12"
    grouped = pd.Series(times).groupby(participants)
    span = (grouped.transform("max") - grouped.transform("min")).to_numpy()
    latest = times == grouped.transform("max").to_numpy()
    for row in np.flatnonzero((span > _LONGEST) & latest):
        problems.add(
            int(row),
            f"the visits span {span[row]:g} years, which cannot be; {advice}.",
            column=column,
        )


def check_visits(table: pd.DataFrame, times: Array, problems: Problems) -> None:
    """Note visits that are there twice, by session or by time."""
    sessions = table["session_id"].tolist() if "session_id" in table.columns else [""] * len(table)
    by_session: dict[tuple[str, str], int] = {}
    by_time: dict[tuple[str, float], int] = {}
    for row, participant in enumerate(table["participant_id"]):
        session, time = sessions[row], float(times[row])
        before = by_session.setdefault((participant, session), row) if session else row
        if before != row:
            problems.add(
                row,
                f"session {session} of {participant} is in row {before + 1} already; keep one.",
                column="session_id",
            )
            continue
        if np.isfinite(time) and (before := by_time.setdefault((participant, time), row)) != row:
            problems.add(
                row,
                f"{participant} has another visit at time {time:g} in row {before + 1}; drop one, "
                "or name the column of the times with times=.",
            )
