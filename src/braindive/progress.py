"""Progress of a fit on the terminal or in a notebook; silent where there is neither."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what `braindive --help` need not wait for
    from rich.console import Console

    from braindive.dive.problem import State
    from braindive.dive.starts import Checkpoint


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each iteration."""

    iteration: int
    objective: float
    change: float
    start: int
    n_starts: int
    state: State
    checkpoint: Checkpoint


@contextmanager
def fit_progress(
    console: Console, tol: float = 1e-4, max_iter: int = 200
) -> Iterator[Callable[[Progress], None]]:
    """Give a callback for `DIVE.fit` that shows how the fit is going and when it may end."""
    # Here, because a fit that shows nothing need not wait for it.
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    silent = not (console.is_terminal or console.is_jupyter)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=console, disable=silent, transient=True) as bar:
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
def on_standard_error(
    wanted: bool, tol: float, max_iter: int
) -> Iterator[Callable[[Progress], None] | None]:
    """Give a callback that shows a fit beside its results, or None where that is not wanted."""
    if not wanted:
        yield None
        return
    from rich.console import Console

    with fit_progress(Console(stderr=True), tol, max_iter) as show:
        yield show


def passes_left(changes: list[float], tol: float) -> float:
    """Passes until the change is below the tolerance, if it goes on shrinking as it did.

    Examples
    --------
    >>> from braindive.progress import passes_left
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
