"""Tables as people have them: text with tabs, commas or semicolons, and Excel sheets."""

from __future__ import annotations

import csv
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path
from typing import Any

import pandas as pd

from braindive.errors import CohortError
from braindive.io.paths import suggest_path

#: Entries that mean that something is not known.
MISSING = ("", "n/a", "N/A", "NA", "na", "NaN", "nan", "None", "none", "null")
EXCEL = (".xlsx", ".xlsm")
# Where a header has as many of one as of another, the first is taken.
_SEPARATORS = "\t;,"
# What Excel calls its text files begins with one of these marks.
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


@dataclass(frozen=True)
class Sheet:
    """A table of which the header was read.

    Attributes
    ----------
    path : Path
        The file.
    names : list of str
        Its columns.
    separator : str
        Between the columns of text; empty for Excel.
    encoding : str
        Of text.
    first : int
        Lines before the header.
    cells : list of lists or None
        All rows of an Excel sheet.
    """

    path: Path
    names: list[str]
    separator: str
    encoding: str = "utf-8"
    first: int = 0
    cells: list[list[str]] | None = None

    def read(self, names: Sequence[str], measured: Sequence[str] = ()) -> pd.DataFrame:
        """Read the rows.

        Parameters
        ----------
        names : sequence of str
            What to call the columns.
        measured : sequence of str
            Columns of numbers; all others come as text. Those whose entries are not all plain
            numbers come as text as well.

        Returns
        -------
        DataFrame
        """
        if self.cells is not None:
            frame = pd.DataFrame(self.cells, columns=list(names), dtype=object)
            for name in measured:
                frame[name] = frame[name].where(~frame[name].isin(MISSING), None)
            return frame
        is_measured = set(measured)
        try:
            with warnings.catch_warnings():
                # Of a row that is longer than the header pandas drops the end, and only warns.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                return pd.read_csv(
                    self.path,
                    sep=self.separator,
                    header=0,
                    names=list(names),
                    index_col=False,
                    skiprows=self.first,
                    dtype={name: str for name in names if name not in is_measured},
                    keep_default_na=False,
                    na_values={name: list(MISSING) for name in measured},
                    low_memory=False,
                    encoding=self.encoding,
                )
        except pd.errors.ParserWarning:
            raise CohortError(
                f"{self.path}: a row has more than the {len(names)} entries of the header; put "
                f"entries that hold {self.separator!r} in quotes, or name all columns."
            ) from None
        except (pd.errors.ParserError, UnicodeError) as error:
            raise CohortError(f"{self.path} cannot be read as a table: {error}.") from None


def open_sheet(path: Path) -> Sheet:
    """Read the header of a table, and find out how the table is written.

    Parameters
    ----------
    path : Path
        Text with tabs, commas or semicolons, whichever its header has most of, or an Excel sheet
        (``.xlsx``), of which the first page that is not empty counts.

    Returns
    -------
    Sheet

    Raises
    ------
    CohortError
        If there is no such file, or it is no table.
    """
    if not path.is_file():
        raise CohortError(f"there is no table {path}{suggest_path(path)}.")
    if path.suffix.lower() in EXCEL:
        cells = _excel_cells(path)
        return Sheet(path, [name.strip() for name in cells[0]], "", cells=cells[1:])
    if path.suffix.lower() in (".xls", ".ods"):
        raise CohortError(f"{path.name} is of a kind that is not read; save it as .xlsx or .csv.")
    encoding = _encoding(path)
    try:
        with path.open(encoding=encoding, newline="") as stream:
            header, first = stream.readline(), 0
            if header.lower().startswith("sep="):  # how Excel is told the separator
                header, first = stream.readline(), 1
    except UnicodeError:
        raise CohortError(f"{path} cannot be read as a table: it is not text.") from None
    if not header.strip():
        raise CohortError(f"{path} cannot be read as a table: its first line is empty.")
    bare = "".join(header.split('"')[::2])  # without what is quoted
    separator = max(_SEPARATORS, key=bare.count)
    names = next(csv.reader([header.rstrip("\r\n")], delimiter=separator))
    return Sheet(path, [name.strip() for name in names], separator, encoding, first)


def read_text_table(path: Path) -> pd.DataFrame:
    """Read a whole table as text, missing entries as empty text.

    Parameters
    ----------
    path : Path
        As for `open_sheet`.
    """
    sheet = open_sheet(path)
    table = sheet.read(sheet.names)
    return pd.DataFrame({name: _clean(table[name]) for name in table.columns})


def _clean(column: pd.Series) -> pd.Series:
    stripped = column.astype(str).str.strip()
    return stripped.mask(stripped.isin(MISSING), "")


def _encoding(path: Path) -> str:
    """UTF-8, what the first bytes say, or else that of Windows, where Excel wrote the text."""
    content = path.read_bytes()
    for mark, name in _MARKS.items():
        if content.startswith(mark):
            return name
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _excel_cells(path: Path) -> list[list[str]]:
    """Rows of the first page that is not empty, as text, the header first."""
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise CohortError(
            f"{path.name} is an Excel file, for which openpyxl is not installed; get it with: pip "
            'install "braindive[excel]", or save the table as .csv.'
        ) from None
    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise CohortError(f"{path} cannot be read as an Excel file: {error}.") from None
    try:
        for page in book.worksheets:
            rows = [[_excel_text(cell) for cell in row] for row in page.iter_rows(values_only=True)]
            rows = [row for row in rows if any(row)]
            if rows:
                break
        else:
            raise CohortError(f"{path} cannot be read as a table: all its pages are empty.")
    finally:
        book.close()
    # Cells right of the table that were once formatted are there, and empty.
    width = max(len(row) for row in rows)
    rows = [row + [""] * (width - len(row)) for row in rows]
    used = [column for column in range(width) if any(row[column] for row in rows)]
    return [[row[column] for column in used] for row in rows]


def _excel_text(cell: Any) -> str:
    """A cell as it would stand in a text; dates as ISO writes them."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        date = cell.isoformat()
        return date.removesuffix("T00:00:00")
    if isinstance(cell, time):
        return cell.isoformat()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()
