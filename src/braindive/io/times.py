"""When each visit was, in years."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from braindive.arrays import Array
from braindive.cohort.table_columns import simple, suggest
from braindive.errors import CohortError
from braindive.io.bids import read_sessions
from braindive.io.columns import find_columns, find_named, is_variant
from braindive.io.dates import looks_like_a_date, read_dates
from braindive.io.numbers import with_point
from braindive.io.problems import Problems
from braindive.io.study_columns import meaning_of

# In the order in which they are looked for.
TIME_COLUMNS = ("age", "age_at_session", "years", "acq_time")
#: Times as `write_cohort` writes them beside an age that is none; it comes before all others.
WRITTEN_TIMES = "visit_years"
_AGES = ("age", "age_at_session")
_OLDEST = 130.0
_LONGEST = 60.0
_DAYS_PER_YEAR = 365.25
# Years within which two times are the same: a third of a second.
_SAME = 1e-8
# Visits of ADNI and studies like it: screening or baseline, or months after it.
_CODE = re.compile(r"(?:sc|bl|baseline|m(?:onth)? ?(?P<months>\d{1,3}))", re.IGNORECASE)
_log = logging.getLogger("braindive")
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
        Column with the times; None takes the first of `TIME_COLUMNS` in the table, or a later one
        where that one has gaps or repeats and the later one has none; or else in the BIDS sessions
        tables, or else the months that codes of visits such as m12 tell.
    roots : sequence of Path
        Where the sessions tables may be.
    problems : Problems
        Takes what is wrong.

    Returns
    -------
    (n_visits,)
        Years; dates become years since the participant's first. NaN where there is a problem.
    """
    names = table.columns.tolist()
    if column is not None:
        name: str | None = find_named(column, names, "times", problems.source)
    else:
        name = time_column(table)
    source = table
    if name is None:
        sessions = read_sessions(table, roots, TIME_COLUMNS)
        if sessions is None:
            months = _from_codes(table)
            if months is not None:
                return months
            raise CohortError(_no_times(names, problems.source))
        source = sessions
        name = time_column(sessions.assign(participant_id=table["participant_id"]))
        assert name is not None
    elif column is None:
        usual, name = name, _complete_column(table, name, problems.called)
        if name == usual and not is_variant(name, meaning_of(name)):
            _log.info("Times are read from %r.", name)
    return _read_column(source[name], table["participant_id"].to_numpy(), problems)


def _read_column(column: pd.Series, participants: np.ndarray, problems: Problems) -> Array:
    """Years from a column of ages, years or dates."""
    name = str(column.name)
    texts, meaning = column.tolist(), meaning_of(name)
    filled = [text for text in texts if text]
    written_as_dates = sum(map(looks_like_a_date, filled)) > len(filled) / 2
    if meaning == "acq_time" or (written_as_dates and meaning not in _AGES):
        times = _from_dates(texts, name, problems)
        times, meaning = times - _first_of_each(times, participants), "acq_time"
    else:
        times = _from_numbers(texts, name, problems)
    _check_units(times, participants, name, meaning, problems)
    return times


def _first_of_each(times: Array, participants: np.ndarray) -> Array:
    return pd.Series(times).groupby(participants).transform("min").to_numpy()


def _complete_column(table: pd.DataFrame, first: str, called: dict[str, str]) -> str:
    """The usual column, or another one that tells every visit where the usual one does not."""
    visits = table.drop_duplicates()  # a row that is there twice is bad whatever its time
    participants = visits["participant_id"].to_numpy()

    def tells_all(name: str) -> bool:
        problems = Problems("")
        times = _read_column(visits[name], participants, problems)
        same = pd.DataFrame({"participant": participants, "time": times}).duplicated()
        return not problems.found and not same.any()

    found = find_columns([str(name) for name in table.columns])
    others = [found[each] for each in TIME_COLUMNS if each in found and found[each] != first]
    # An age that never changes was passed over already.
    others = [name for name in others if meaning_of(name) not in _AGES]
    # The date of a single visit is 0 for everybody, and tells nothing.
    if not others or not visits["participant_id"].duplicated().any() or tells_all(first):
        return first
    chosen = next(filter(tells_all, others), None)
    if chosen is None:
        return first
    _log.info(
        "Times are read from %r, because %r has gaps, unreadable entries, or the same for two "
        "visits of a person; name another column with times= (--time).",
        called.get(chosen, chosen),
        called.get(first, first),
    )
    return chosen


def time_column(table: pd.DataFrame) -> str | None:
    """Return the first of the usual columns that tells when visits were, or None.

    An age that is the same at all visits of everybody is that of the first visit, so that another
    column comes before it.

    Parameters
    ----------
    table : DataFrame
        With `participant_id`.
    """
    if WRITTEN_TIMES in table.columns:
        return WRITTEN_TIMES
    found = find_columns([str(name) for name in table.columns])
    present = [(meaning, found[meaning]) for meaning in TIME_COLUMNS if meaning in found]
    repeated = table["participant_id"].duplicated().any()
    for meaning, name in present:
        # One person with two different entries is enough.
        different = table[["participant_id", name]].drop_duplicates()["participant_id"]
        if meaning not in _AGES or not repeated or different.duplicated().any():
            return name
    return present[0][1] if present else None


def column_with_times(table: pd.DataFrame, subjects: np.ndarray, times: Array) -> str | None:
    """Find the column of a table that tells times which are known, such as those of a fit.

    Parameters
    ----------
    table : DataFrame
        One row per visit.
    subjects, times : (n_visits,)
        Of the visits.

    Returns
    -------
    str or None
        None where no column does.
    """
    names = [str(name) for name in table.columns]
    usual = find_columns(names)
    ahead = [usual[meaning] for meaning in TIME_COLUMNS if meaning in usual]
    since_first = times - _first_of_each(times, subjects)
    dates = None
    for name in dict.fromkeys([*ahead, *names]):
        column = table[name].map(lambda entry: "" if pd.isna(entry) else str(entry))
        told = _read_column(column, subjects, Problems(""))
        if np.isnan(told).any():
            continue
        if np.allclose(told, times, rtol=0, atol=_SAME):
            return name
        # Of dates the first visit is 0, which may have been left out of the cohort.
        is_date = sum(map(looks_like_a_date, column)) > len(column) / 2
        if dates is None and is_date and since_first.any():
            dates = name if np.allclose(told, since_first, rtol=0, atol=_SAME) else None
    return dates


def column_of_same_kind(names: Sequence[str], fitted: str) -> str | None:
    """Find the column that tells times as another table's column does.

    Parameters
    ----------
    names : sequence of str
        Columns of the table.
    fitted : str
        The other table's column.

    Returns
    -------
    str or None
        The column of the same name, or of the same meaning, or one that counts from the same
        event: birth, or a person's first visit. None where there is none.

    Examples
    --------
    >>> from braindive.io.times import column_of_same_kind
    >>> column_of_same_kind(["ID", "Age", "EXAMDATE"], "Scan date")
    'EXAMDATE'
    >>> column_of_same_kind(["ID", "Age"], "Scan date") is None
    True
    """
    same = [name for name in names if simple(name) == simple(fitted)]
    found, meaning = find_columns(names), meaning_of(fitted)
    # What a column of another name counts from is not known.
    kinds = (meaning, *TIME_COLUMNS) if meaning in TIME_COLUMNS else ()
    alike = [found[each] for each in kinds if each in found]
    ages = meaning in _AGES
    same += [name for name in alike if (meaning_of(name) in _AGES) == ages]
    return same[0] if same else None


def _no_times(names: Sequence[str], source: str) -> str:
    likely = next(filter(None, (suggest(name, names) for name in TIME_COLUMNS)), "")
    visits = find_columns([name for name in names if name != "session_id"]).get("session_id")
    months = next((name for name in names if simple(name) in ("month", "months")), None)
    if months is not None:
        likely = f" (divide {months} by 12 and call it years)"
    numbers = f" The number of a visit ({visits}) does not tell when it was." if visits else ""
    return (
        f"{source} has no time column{likely}; add one of {', '.join(TIME_COLUMNS)}, or name yours "
        "with times= (--time on the command line), or give the BIDS folder with the sessions.tsv "
        f"files as root.{numbers}"
    )


def _from_codes(table: pd.DataFrame) -> Array | None:
    """Years from visits that are called bl, m06, m12 and so on; None where any is not."""
    if "session_id" not in table.columns:
        return None
    codes = [_CODE.fullmatch(session.removeprefix("ses-")) for session in table["session_id"]]
    if not all(codes):
        return None
    _log.info("Visits are taken to be so many months after the first as their codes say.")
    return np.array([int(code["months"] or 0) / 12 for code in codes if code is not None])


def _from_numbers(texts: list[str], column: str, problems: Problems) -> Array:
    times = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        if not text:
            problems.add(row, "the visit has no time.", column=column)
            continue
        try:
            times[row] = float(with_point(text))
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
    rows = [row for row, text in enumerate(texts) if text]
    for row in sorted(set(range(len(texts))) - set(rows)):
        problems.add(row, "the visit has no time.", column=column)
    for row, date in zip(rows, read_dates([texts[row] for row in rows]), strict=True):
        if isinstance(date, str):
            problems.add(row, date, column=column)
        else:
            times[row] = date.timestamp() / (86400 * _DAYS_PER_YEAR)
    return times


def _check_units(
    times: Array, participants: np.ndarray, column: str, meaning: str, problems: Problems
) -> None:
    """Refuse numbers that cannot be years."""
    if meaning in _AGES:
        for row in np.flatnonzero(times < 0):
            problems.add(int(row), f"the age {times[row]:g} is negative.", column=column)
        for row in np.flatnonzero(times > _OLDEST):
            problems.add(
                int(row),
                f"the age {times[row]:g} cannot be in years; divide months by 12.",
                column=column,
            )
        return
    advice = "check the dates" if meaning == "acq_time" else "divide months by 12"
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
    whole: dict[tuple[str, ...], int] = {}
    by_session: dict[tuple[str, str], int] = {}
    by_time: dict[tuple[str, float], int] = {}
    for row, participant in enumerate(table["participant_id"]):
        session, time = sessions[row], float(times[row])
        same = whole.setdefault(tuple(table.iloc[row]), row)
        if same != row:
            problems.add(row, f"the row is the same as row {same + 1}; keep one.")
            continue
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
                "or name the column of the times with times= (--time).",
            )
