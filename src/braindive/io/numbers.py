"""Numbers as tables have them: with a decimal point, or with a decimal comma."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from braindive.arrays import Array

_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
# 1.234,5 is European for 1234.5.
_EUROPEAN = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+,\d+")


def with_point(text: str) -> str:
    """Return a number with a decimal point; any other text as it is.

    Examples
    --------
    >>> with_point("62,5"), with_point("1.234,5"), with_point("a,b"), with_point("3.1")
    ('62.5', '1234.5', 'a,b', '3.1')
    """
    if "," not in text:
        return text
    if _EUROPEAN.fullmatch(text):
        return text.replace(".", "").replace(",", ".")
    return text.replace(",", ".") if _COMMA.fullmatch(text) else text


def has_decimal_commas(texts: Sequence[str]) -> bool:
    """Whether a column is numbers, of which some have a decimal comma; empty entries are allowed.

    Examples
    --------
    >>> has_decimal_commas(["28", "", "27,5"]), has_decimal_commas(["1,2", "a"])
    (True, False)
    """
    if not any("," in text for text in texts):
        return False
    return not np.isnan(to_numbers(pd.Series([text for text in texts if text]))).any()


def to_numbers(column: pd.Series) -> Array:
    """Numbers of a column of text or numbers; NaN where an entry is empty or none."""
    if column.dtype.kind in "fiu":
        return column.to_numpy(dtype=np.float64)
    texts = column.map(lambda entry: with_point(entry.strip()) if isinstance(entry, str) else entry)
    numbers: Array = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64)
    return numbers
