"""Progress of long work on the terminal; silent where the output is not one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from braindive.estimator import Progress


@contextmanager
def fit_progress(
    console: Console, tol: float = 1e-4, max_iter: int = 200
) -> Iterator[Callable[[Progress], None]]:
    """Give a callback for `DIVE.fit` that shows how the fit is going and when it may end."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("Starting the fit ...", total=None)
        seen: list[tuple[float, float]] = []

        def show(progress: Progress) -> None:
            seen.append((time.monotonic(), progress.change))
            start = f"start {progress.start + 1}/{progress.n_starts}, " * (progress.n_starts > 1)
            left = ""
            if len(seen) > 4:
                seconds = (seen[-1][0] - seen[-5][0]) / 4
                passes = passes_left([change for _, change in seen[-5:]], tol)
                passes = min(passes, max_iter - progress.iteration)
                left = f", about {_duration(passes * seconds)} left"
            bar.update(
                task,
                description=f"Fitting: {start}pass {progress.iteration}, "
                f"{progress.change:.2%} of labels changed{left}",
            )

        yield show


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


def passes_left(changes: list[float], tol: float) -> float:
    """Passes until the change is below the tolerance, if it goes on shrinking as it did.

    Examples
    --------
    >>> from braindive.cli.progress import passes_left
    >>> passes_left([0.08, 0.04, 0.02, 0.01], tol=0.0025)
    2.0
    """
    first, last = changes[0], changes[-1]
    if last <= tol:
        return 1.0
    if last >= first:
        return math.inf
    rate = (math.log(first) - math.log(last)) / (len(changes) - 1)
    return round(math.log(last / tol) / rate, 6)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" if minutes >= 10 else f"{minutes}:{rest:02d}"
