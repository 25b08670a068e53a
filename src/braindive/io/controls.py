"""Which visits are healthy controls'."""

from __future__ import annotations

import logging
import re

import pandas as pd

from braindive.arrays import BoolArray
from braindive.errors import CohortError
from braindive.io.columns import find_named, shorten
from braindive.io.problems import Problems

_log = logging.getLogger("braindive")
#: Diagnoses that mean a healthy control, in any case, with spaces, - and _ taken as the same.
CONTROL_WORDS = frozenset(
    {
        "cn", "hc", "nc", "cu", "ctl", "ctrl", "control", "controls", "healthy", "normal",
        "healthy control", "healthy controls", "normal control", "cognitively normal",
        "cognitively unimpaired", "unimpaired",
    }
)  # fmt: skip
_TRUE = {"1", "1.0", "true", "yes", "y", "t"}
_FALSE = {"0", "0.0", "false", "no", "n", "f"}
_CONDITION = re.compile(r"^\s*(?P<column>.+?)\s*(?P<sign>==|!=)\s*(?P<value>.+?)\s*$")


def find_controls(text: pd.DataFrame, controls: str | None, problems: Problems) -> BoolArray | None:
    """Tell which visits are healthy controls'.

    Parameters
    ----------
    text : DataFrame of text
        The table.
    controls : str or None
        A condition such as ``"group == 'HC'"``; a column of true and false, or of diagnoses; by
        default the column `diagnosis`, if there is one.
    problems : Problems
        Takes what is wrong.

    Returns
    -------
    (n_visits,) bool or None
        None where nothing tells.
    """
    if controls is None:
        if "diagnosis" not in text.columns:
            return None
        known = text["diagnosis"].map(_is_control_word).to_numpy(dtype=bool)
        return known if known.any() else None
    condition = _CONDITION.match(controls)
    if condition is not None:
        column, value = condition["column"], condition["value"].strip("'\"")
        column = find_named(column, text.columns.tolist(), "controls", problems.source)
        equal = (text[column] == value).to_numpy(dtype=bool)
        if not equal.any():
            equal = (text[column].str.lower() == value.lower()).to_numpy(dtype=bool)
        if not equal.any():
            raise CohortError(
                f"no row of {problems.source} has {value!r} in the column {column}; it has "
                f"{shorten(sorted(set(text[column])))}."
            )
        return equal if condition["sign"] == "==" else ~equal
    controls = find_named(controls, text.columns.tolist(), "controls", problems.source)
    lowered = text[controls].str.lower()
    if lowered.isin(_TRUE | _FALSE | {""}).all():
        return lowered.isin(_TRUE).to_numpy(dtype=bool)
    known = text[controls].map(_is_control_word).to_numpy(dtype=bool)
    if not known.any():
        raise CohortError(
            f"the column {controls} of {problems.source} tells no control: it has "
            f"{shorten(sorted(set(text[controls])))}; say controls=\"{controls} == '...'\"."
        )
    return known


def one_spelling(diagnoses: pd.Series) -> pd.Series:
    """Diagnoses in which those that differ in case alone are written as most of them are.

    Parameters
    ----------
    diagnoses : Series of str
        Without blanks around them.

    Examples
    --------
    >>> import pandas as pd
    >>> from braindive.io.controls import one_spelling
    >>> one_spelling(pd.Series(["CN", "cn", "CN", "AD"])).tolist()
    ['CN', 'CN', 'CN', 'AD']
    """
    counts = diagnoses.value_counts().sort_index()
    ordered = counts.sort_values(ascending=False, kind="stable").index.tolist()
    usual = {text.lower(): text for text in reversed(ordered)}
    others = [text for text in ordered if usual[text.lower()] != text]
    merged = [f"{text!r} as {usual[text.lower()]!r}" for text in others]
    if merged:
        _log.info("Diagnoses that differ in case alone are one: %s.", shorten(merged))
    return diagnoses.map(lambda text: usual[text.lower()])


def _is_control_word(text: str) -> bool:
    return " ".join(re.split(r"[\s_-]+", text.lower())) in CONTROL_WORDS
