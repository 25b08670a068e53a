"""Dates as tables have them: ISO's, and others that can be read in one way only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

# 30/05/2012, 5.30.2012 or 2012/05/30, perhaps with a time of day.
_CLOCK = r"(?:[ T]+(?P<clock>\d{1,2}:\d{2}(?::\d{2})?))?"
_YEAR_LAST = re.compile(
    r"(?P<a>\d{1,2})(?P<sign>[/.-])(?P<b>\d{1,2})(?P=sign)(?P<y>\d{4})" + _CLOCK
)
_YEAR_FIRST = re.compile(
    r"(?P<y>\d{4})(?P<sign>[/.])(?P<b>\d{1,2})(?P=sign)(?P<a>\d{1,2})" + _CLOCK
)
# 30 May 2012, 30-May-2012, May 30, 2012.
_MONTH_NAMED = re.compile(
    r"(?P<d>\d{1,2})(?:st|nd|rd|th|\.)?[ -]*(?P<m>[A-Za-z]{3,9})\.?[ ,-]*(?P<y>\d{4})" + _CLOCK
)
_MONTH_FIRST = re.compile(
    r"(?P<m>[A-Za-z]{3,9})\.? *(?P<d>\d{1,2})(?:st|nd|rd|th)?[ ,]+(?P<y>\d{4})" + _CLOCK
)
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip


def looks_like_a_date(text: str) -> bool:
    """Whether a text is written as a date, whatever day it is.

    Examples
    --------
    >>> [looks_like_a_date(text) for text in ("3/4/2012", "4 May 2012", "71.5", "visit 2")]
    [True, True, False, False]
    """
    if any(kind.fullmatch(text) for kind in (_YEAR_LAST, _YEAR_FIRST, _MONTH_NAMED, _MONTH_FIRST)):
        return True
    return re.match(r"\d{4}-\d{1,2}-\d{1,2}", text) is not None


def read_dates(texts: Sequence[str]) -> list[datetime | str]:
    """Read the dates of one column.

    Whether 03/04/2012 is in March or in April is told by the other dates of the column: where one
    of them can only have the day first, or the month first, so have all. Dates with dots have the
    day first, as everywhere where dots are used.

    Parameters
    ----------
    texts : sequence of str
        None of them empty.

    Returns
    -------
    list of datetime or str
        A sentence where a text is no date, or may be one of two.

    Examples
    --------
    >>> from braindive.io.dates import read_dates
    >>> [date.date().isoformat() for date in read_dates(["03/04/2012", "30/05/2012"])]
    ['2012-04-03', '2012-05-30']
    >>> read_dates(["03/04/2012"])[0]
    "'03/04/2012' may be in April or in March; write it as 2012-04-03 or 2012-03-04."
    """
    matches = [_YEAR_LAST.fullmatch(text) for text in texts]
    slashed = [found for found in matches if found is not None and found["sign"] != "."]
    day_first = any(int(found["a"]) > 12 for found in slashed)
    month_first = any(int(found["b"]) > 12 for found in slashed)
    settled = None if day_first == month_first else day_first
    return [_read(text, found, settled) for text, found in zip(texts, matches, strict=True)]


def _read(text: str, found: re.Match[str] | None, day_first: bool | None) -> datetime | str:
    no_date = f"{text!r} is not a date such as 2012-05-30."
    try:
        if found is None:
            return _one_way(text) or no_date
        a, b, year = int(found["a"]), int(found["b"]), int(found["y"])
        if found["sign"] == "." or a == b or a > 12:
            day_first = True
        elif b > 12:
            day_first = False
        if day_first is None:
            ways = f"{year}-{b:02d}-{a:02d} or {year}-{a:02d}-{b:02d}"
            months = f"{_MONTHS[b - 1].title()} or in {_MONTHS[a - 1].title()}"
            return f"{text!r} may be in {months}; write it as {ways}."
        day, month = (a, b) if day_first else (b, a)
        return _with_clock(datetime(year, month, day, tzinfo=UTC), found["clock"])
    except (ValueError, IndexError):
        return no_date


def _one_way(text: str) -> datetime | None:
    """Read a date that no other date has to explain."""
    year_first = _YEAR_FIRST.fullmatch(text)
    if year_first is not None:
        year, month, day = (int(year_first[name]) for name in ("y", "b", "a"))
        return _with_clock(datetime(year, month, day, tzinfo=UTC), year_first["clock"])
    named = _MONTH_NAMED.fullmatch(text) or _MONTH_FIRST.fullmatch(text)
    if named is not None:
        months = [n for n, name in enumerate(_MONTHS, 1) if name.startswith(named["m"].lower())]
        if len(months) != 1:
            return None
        date = datetime(int(named["y"]), months[0], int(named["d"]), tzinfo=UTC)
        return _with_clock(date, named["clock"])
    date = datetime.fromisoformat(text)
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _with_clock(date: datetime, clock: str | None) -> datetime:
    if clock is None:
        return date
    hour, minute, *second = map(int, clock.split(":"))
    return date.replace(hour=hour, minute=minute, second=second[0] if second else 0)
