"""What the columns of a table are called, and what they are meant to be."""

from __future__ import annotations

from collections.abc import Sequence

from braindive.cohort.table_columns import simple, suggest
from braindive.errors import CohortError

#: Columns with a meaning. Their names may be written in any case, with spaces, dots or dashes.
KNOWN = (
    "participant_id", "session_id", "age", "age_at_session", "years", "acq_time", "diagnosis",
    "path", "left", "right", "frame",
)  # fmt: skip
#: Other names that people have for them, without case, spaces and punctuation; the first that a
#: table has is taken.
ALIASES: dict[str, tuple[str, ...]] = {
    "participant_id": (
        "subjectid", "ptid", "patientid", "participant", "subject", "patient", "rid", "subjid",
        "subj", "sub", "id",
    ),
    "session_id": (
        "session", "visit", "visitid", "visitcode", "viscode", "timepoint", "visitnumber",
    ),
    "age_at_session": ("ageatscan", "ageatvisit", "ageatexam", "scanage", "ageyears"),
    "years": ("yearsbl", "yearssincebaseline", "yearsfrombaseline", "timeyears"),
    "acq_time": (
        "examdate", "scandate", "visitdate", "acqdate", "acquisitiondate", "mridate",
        "sessiondate", "studydate", "date", "dateofscan", "dateofvisit",
    ),
    "diagnosis": ("dx", "group", "researchgroup", "clinicalgroup"),
    "left": ("lh", "lefthemisphere"),
    "right": ("rh", "righthemisphere"),
}  # fmt: skip


def find_columns(names: Sequence[str]) -> dict[str, str]:
    """Find the columns with a meaning, by their names.

    Parameters
    ----------
    names : sequence of str
        Columns of a table.

    Returns
    -------
    dict of str to str
        The column for each meaning that there is one for.

    Examples
    --------
    >>> from braindive.io.columns import find_columns
    >>> find_columns(["Subject ID", "Age", "visit", "MMSE"])
    {'participant_id': 'Subject ID', 'session_id': 'visit', 'age': 'Age'}
    """
    found: dict[str, str] = {}
    for meaning in KNOWN:
        if meaning in names:
            found[meaning] = meaning
            continue
        for wanted in (simple(meaning), *ALIASES.get(meaning, ())):
            named = [name for name in names if simple(name) == wanted]
            if named:
                found[meaning] = named[0]
                break
    return found


def is_variant(name: str, meaning: str) -> bool:
    """Whether a name is that of its meaning but for case, spaces and punctuation."""
    return simple(name) == simple(meaning)


def shorten(names: Sequence[str], most: int = 12) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def find_named(name: str, names: Sequence[str], option: str, source: str) -> str:
    """Return the column that a user names, in whatever case.

    Parameters
    ----------
    name : str
        What the user wrote.
    names : sequence of str
        Columns of the table.
    option : str
        What the name was given as, for the message.
    source : str
        Name of the table, for the message.
    """
    if name in names:
        return name
    same = [other for other in names if simple(other) == simple(name) and simple(name)]
    if len(same) == 1:
        return same[0]
    raise CohortError(
        f"{option} names the column {name!r}, but {source} has none{suggest(name, names)}; its "
        f"columns are {shorten(names)}."
    )
