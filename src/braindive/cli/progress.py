"""Progress of long work on the terminal; silent where the output is not one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from braindive.estimator import Progress


@contextmanager
def fit_progress(console: Console) -> Iterator[Callable[[Progress], None]]:
    """Give a callback for `DIVE.fit` that shows how the fit is going."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("Starting the fit ...", total=None)

        def show(progress: Progress) -> None:
            start = f"start {progress.start + 1}/{progress.n_starts}, " * (progress.n_starts > 1)
            bar.update(
                task,
                description=f"Fitting: {start}pass {progress.iteration}, log-posterior "
                f"{progress.objective:,.0f}, {progress.change:.2%} of labels changed",
            )

        yield show
