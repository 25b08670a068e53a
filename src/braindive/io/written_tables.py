"""Tables of results, written as what their names say."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from braindive.errors import ParameterError
from braindive.io.outputs import replace_file

# Digits of numbers in tables for people: more than any standard error is worth. A choice.
DIGITS = 5
_SEPARATORS = {".tsv": "\t", ".txt": "\t", ".csv": ","}


def check_table_name(path: Path) -> Path:
    """Refuse, before any work, a name that tells no kind of table.

    Examples
    --------
    >>> from pathlib import Path
    >>> check_table_name(Path("stages.doc"))
    Traceback (most recent call last):
    braindive.errors.ParameterError: a table ends in .tsv, .csv or .xlsx; got stages.doc.
    """
    ending = path.suffix.lower()
    if ending not in (*_SEPARATORS, ".xlsx"):
        raise ParameterError(f"a table ends in .tsv, .csv or .xlsx; got {path.name}.")
    if ending == ".xlsx" and find_spec("openpyxl") is None:
        raise ParameterError(
            f"{path.name} is an Excel file, for which openpyxl is not installed; get it with: pip "
            'install "braindive[excel]", or write a .tsv or .csv.'
        )
    return path


def write_table(table: pd.DataFrame, path: Path, *, index: bool = True) -> None:
    """Write a table with tabs (.tsv, .txt), commas (.csv) or as an Excel sheet (.xlsx).

    Numbers have five significant digits. The file appears only when it is complete.

    Parameters
    ----------
    table : DataFrame
        What to write.
    path : Path
        Where to; the ending decides.
    index : bool
        Whether the index is the first column.
    """
    ending = check_table_name(path).suffix.lower()
    with replace_file(path) as temporary:
        if ending == ".xlsx":
            rounded = table.apply(lambda column: _rounded(column))
            with pd.ExcelWriter(temporary, engine="openpyxl") as writer:
                rounded.to_excel(writer, index=index)
        else:
            separator = _SEPARATORS[ending]
            table.to_csv(temporary, sep=separator, index=index, float_format=f"%.{DIGITS}g")


def _rounded(column: pd.Series) -> pd.Series:
    if column.dtype.kind != "f":
        return column
    numbers = [float(f"{number:.{DIGITS}g}") for number in column]
    return pd.Series(np.array(numbers), index=column.index, name=column.name)
