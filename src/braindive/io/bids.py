"""What BIDS keeps beside the images: one table of sessions for each participant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from braindive.io.paths import OutsideError, resolve_inside
from braindive.io.sheets import read_text_table


def read_sessions(
    table: pd.DataFrame, roots: Sequence[Path], columns: Sequence[str]
) -> pd.DataFrame | None:
    """Columns of ``sub-*/sub-*_sessions.tsv`` for every row of a table.

    Parameters
    ----------
    table : DataFrame
        With `participant_id` and `session_id`.
    roots : sequence of Path
        BIDS folders.
    columns : sequence of str
        Columns to look for.

    Returns
    -------
    DataFrame or None
        The columns that any of the sessions tables has, empty text where a visit is not found;
        None where there is no such table.
    """
    if "session_id" not in table.columns:
        return None
    found: dict[tuple[str, str], dict[str, str]] = {}
    for participant in table["participant_id"].unique():
        path = _sessions_file(participant, roots)
        if path is None:
            continue
        sessions = read_text_table(path)
        if "session_id" in sessions.columns:
            for entry in sessions.to_dict("records"):
                kept = {str(k): str(v) for k, v in entry.items() if k in columns}
                found[participant, _bare(str(entry["session_id"]), "ses-")] = kept
    if not any(found.values()):
        return None
    rows = [
        found.get((participant, _bare(session, "ses-")), {})
        for participant, session in zip(table["participant_id"], table["session_id"], strict=True)
    ]
    return pd.DataFrame(rows, index=table.index).fillna("")


def _bare(label: str, prefix: str) -> str:
    return label.removeprefix(prefix)


def _sessions_file(participant: str, roots: Sequence[Path]) -> Path | None:
    label = f"sub-{_bare(participant, 'sub-')}"
    try:
        path = resolve_inside(f"{label}/{label}_sessions.tsv", roots)
    except (OutsideError, OSError, ValueError):
        return None
    return path if path.is_file() else None
