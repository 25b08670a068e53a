"""Everything that is wrong with a study, told at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from braindive.errors import CohortError


@dataclass
class Problems:
    """What is wrong with the rows of a table.

    Parameters
    ----------
    source : str
        Name of the table, for people.
    participants : list of str
        Participant of each row.
    """

    source: str
    participants: list[str] = field(default_factory=list)
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(
        self, row: int, message: str, *, column: str | None = None, file: object = None
    ) -> None:
        """Note a problem of a row, counted from 0 here and from 1 for people."""
        where = f"row {row + 1}"
        if row < len(self.participants) and self.participants[row]:
            where += f" ({self.participants[row]})"
        if column is not None:
            where += f", column {column}"
        if file is not None:
            where += f", file {file}"
        self.found.append((row, f"{where}: {message}"))

    @property
    def rows(self) -> set[int]:
        """Rows with at least one problem."""
        return {row for row, _ in self.found}

    def raise_if_any(self) -> None:
        """Raise one error that lists every problem, in the order of the rows."""
        if not self.found:
            return
        listed = [text for _, text in sorted(self.found, key=lambda problem: problem[0])]
        count = "1 problem" if len(listed) == 1 else f"{len(listed)} problems"
        raise CohortError(
            f"{self.source} has {count} (row 1 is the first below the header):\n  "
            + "\n  ".join(listed)
        )
