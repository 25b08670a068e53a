"""Tables of results, written as what their names say."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from braindive.errors import ParameterError
from braindive.io.outputs import replace_file

# Numbers in tables for people have so many significant digits, and large ones so many decimals:
# more than any standard error is worth, and enough to tell likelihoods apart. A choice.
_DIGITS, _DECIMALS = 5, 3
# Tables for further computing have those that a float32 has.
MORE_DIGITS = 7
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


def write_table(
    table: pd.DataFrame, path: Path, *, index: bool = True, digits: int = _DIGITS
) -> None:
    """Write a table with tabs (.tsv, .txt), commas (.csv) or as an Excel sheet (.xlsx).

    Numbers from 100 on have three decimals. The file appears only when it is complete.

    Parameters
    ----------
    table : DataFrame
        What to write.
    path : Path
        Where to; the ending decides.
    index : bool
        Whether the index is the first column.
    digits : int
        Significant digits.
    """
    ending = check_table_name(path).suffix.lower()
    with replace_file(path) as temporary:
        if ending == ".xlsx":
            with pd.ExcelWriter(temporary, engine="openpyxl") as writer:
                rounded(table, digits).to_excel(writer, index=index)
        else:
            rounded(table, digits).to_csv(temporary, sep=_SEPARATORS[ending], index=index)


def rounded(table: pd.DataFrame, digits: int = _DIGITS) -> pd.DataFrame:
    """Return a table whose numbers are as short as people want them.

    Examples
    --------
    >>> import pandas as pd
    >>> from braindive.io.written_tables import rounded
    >>> rounded(pd.DataFrame({"p": [0.000123456789], "bic": [123456.789123]})).iloc[0].tolist()
    [0.00012346, 123456.789]
    """

    def short(number: float) -> float:
        return round(number, _DECIMALS) if abs(number) >= 100 else float(f"{number:.{digits}g}")

    floats = [name for name in table.columns if table[name].dtype.kind == "f"]
    return table.assign(**{str(name): table[name].map(short) for name in floats})
