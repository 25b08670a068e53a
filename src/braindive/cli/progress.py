"""Progress of long work on the terminal; silent where the output is not one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar


@contextmanager
def count_progress(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Give a callback that is told what is being done, how much is done and how much there is."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        tasks: dict[str, int] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what.capitalize(), total=total)
            bar.update(tasks[what], completed=done, total=total)  # type: ignore[arg-type]

        yield show
