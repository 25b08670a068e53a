"""Everything that is wrong with a study, told at once."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from braindive.errors import CohortError, DataWarning

# Rows of a kind that are shown; one more is shown rather than counted. A choice.
_SHOWN = 3


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a row.

    Attributes
    ----------
    row : int
        Counted from 0.
    text : str
        Where and what, for people.
    kind : str
        The same for problems that differ in nothing but names and numbers.
    cause : str
        What may be wrong with all rows of the kind, as the end of "all because"; may be empty.
    """

    row: int
    text: str
    kind: str
    cause: str = ""


@dataclass
class Problems:
    """What is wrong with a table and with its rows.

    Parameters
    ----------
    source : str
        Name of the table, for people.
    participants : list of str
        Participant of each row.
    called : dict of str to str
        What the table itself calls columns that have other names here.
    remedy : str
        What can be done about bad rows, as the last line of the error; may be empty.
    """

    source: str
    participants: list[str] = field(default_factory=list)
    called: dict[str, str] = field(default_factory=dict)
    remedy: str = ""
    general: list[str] = field(default_factory=list)
    found: list[Problem] = field(default_factory=list)

    def add(
        self,
        row: int,
        message: str,
        *,
        column: str | None = None,
        file: object = None,
        cause: str = "",
    ) -> None:
        """Note a problem of a row, counted from 0 here and from 1 for people."""
        where = f"row {row + 1}"
        if row < len(self.participants) and self.participants[row]:
            where += f" ({self.participants[row]})"
        if column is not None:
            own = "/".join(self.called.get(name, name) for name in column.split("/"))
            where += f", column {own}"
        if file is not None:
            where += f", file {file}"
        # Quoted words, names with a dot, underscore or dash, and numbers differ between rows.
        kind = re.sub(r"'[^']*'|\S*[\d_./-]\S*", "", message)
        self.found.append(Problem(row, f"{where}: {message}", f"{column} {kind}", cause))

    def tell(self, error: CohortError | str) -> None:
        """Note a problem of the table as a whole."""
        if str(error) not in self.general:
            self.general.append(str(error))

    @property
    def rows(self) -> set[int]:
        """Rows with at least one problem."""
        return {problem.row for problem in self.found}

    def raise_if_any(self) -> None:
        """Raise one error that lists every problem: of the table, then in the order of the rows.

        Of many problems of the same kind, a few are shown and the others counted.
        """
        if len(self.general) == 1 and not self.found:
            raise CohortError(self.general[0])
        number = len(self.general) + len(self.found)
        if not number:
            return
        count = "1 problem" if number == 1 else f"{number} problems"
        listed = [*self.general, *self._grouped()]
        raise CohortError(
            f"{self.source} has {count} (row 1 is the first below the header):\n  "
            + "\n  ".join(listed)
            + (f"\n{self.remedy}" if self.remedy and not self.general else "")
        )

    def warn_of_left_out(self, stacklevel: int) -> None:
        """Warn of the rows with a problem, which are left out; each is listed."""
        if not self.found:
            return
        listed = "\n  ".join(self.each())
        warnings.warn(
            f"{len(self.rows)} of {len(self.participants)} rows of {self.source} were left out "
            f"(row 1 is the first below the header):\n  {listed}",
            DataWarning,
            stacklevel=stacklevel + 1,
        )

    def each(self) -> list[str]:
        """Every problem of a row in full, in the order of the rows."""
        return [problem.text for problem in sorted(self.found, key=lambda each: each.row)]

    def _grouped(self) -> Iterator[str]:
        groups: dict[str, list[Problem]] = {}
        for problem in sorted(self.found, key=lambda each: each.row):
            groups.setdefault(problem.kind, []).append(problem)
        if all(len(group) <= _SHOWN + 1 for group in groups.values()):
            yield from self.each()
            return
        for group in groups.values():
            if len(group) <= _SHOWN + 1:
                yield from (problem.text for problem in group)
                continue
            yield from (problem.text for problem in group[:_SHOWN])
            causes = {problem.cause for problem in group}
            cause = causes.pop() if len(causes) == 1 else ""
            why = f", all because {cause}" if cause else " of the same kind"
            rows = describe_rows([problem.row for problem in group[_SHOWN:]])
            yield f"  {_SHOWN} shown, {len(group) - _SHOWN} more{why} ({rows})"


def describe_rows(rows: Sequence[int]) -> str:
    """Rows, counted from 0, for people, who count from 1.

    Examples
    --------
    >>> describe_rows([3, 4, 5, 9])
    'rows 4-6, 10'
    """
    runs: list[list[int]] = []
    for row in dict.fromkeys(rows):
        if runs and row == runs[-1][-1] + 1:
            runs[-1].append(row)
        else:
            runs.append([row])
    parts = [f"{run[0] + 1}-{run[-1] + 1}" if len(run) > 1 else str(run[0] + 1) for run in runs]
    return ("rows " if len(rows) > 1 else "row ") + ", ".join(parts)
