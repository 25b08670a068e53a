"""What a notebook shows of a cohort and of a fitted model: small pages of HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["cohort_page", "model_page"]


def cohort_page(title: str, facts: Mapping[str, str]) -> str:
    """A title, and a row for each fact about a cohort.

    Parameters
    ----------
    title : str
        In one line what the cohort is.
    facts : mapping of str to str
        What is known, by its name.

    Examples
    --------
    >>> from braindive.notebook import cohort_page
    >>> cohort_page("Cohort", {"visits": "3 < 4"})
    '<b>Cohort</b><table><tr><th>visits</th><td>3 &lt; 4</td></tr></table>'
    """
    rows = (
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items()
    )
    return f"<b>{escape(title)}</b><table>{''.join(rows)}</table>"


def model_page(title: str, table: pd.DataFrame, unit: str, warnings: Sequence[str]) -> str:
    """A title, the table of the clusters, what the score is, and what the fit warned of.

    Parameters
    ----------
    title : str
        In one line what the model is.
    table : DataFrame
        `DIVE.summary`.
    unit : str
        What zero and unit of the score are.
    warnings : sequence of str
        Of the fit.
    """
    shown = table.to_html(float_format="{:.3g}".format, border=0, escape=True)
    said = "".join(f"<li>{escape(message)}</li>" for message in warnings)
    warned = f"<p>The fit warned:</p><ul>{said}</ul>" if said else ""
    return f"<b>{escape(title)}</b>{shown}<p>The score: {escape(unit)}</p>{warned}"
