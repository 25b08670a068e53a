"""Results on disk, found again by what they were computed from."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import braindive
from braindive.evaluation.parallel import Report, run_tasks

Row = dict[str, Any]
Task = dict[str, Any]
_UNFINISHED = ".part"
# Seconds after which an unfinished file has nobody left who writes it.
_STALE = 60.0


def run_cached(
    function: Callable[..., list[Row]],
    tasks: Sequence[Task],
    folder: str | Path,
    n_jobs: int | None = None,
    progress: Report | None = None,
) -> list[Row]:
    """Call a function for each task, unless its result is already there.

    Every result is written as soon as it is known, so interrupted work goes on where it was. It
    is filed under a hash of the function's name, the task and the code of braindive: other
    arguments or other code never meet an old result.

    Parameters
    ----------
    function : callable
        Importable by name; returns a list of rows that JSON can hold.
    tasks : sequence of dict
        Keyword arguments of each call; JSON must be able to hold them.
    folder : path
        Where results are kept.
    n_jobs : int, optional
        Workers.
    progress : callable, optional
        Called with the number of finished tasks and of all.

    Returns
    -------
    list of dict
        The rows of all tasks, in their order, each with the arguments of its task.

    Examples
    --------
    >>> import tempfile
    >>> from cache import run_cached
    >>> def square(x):
    ...     return [{"y": x * x}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run_cached(square, [{"x": 2}, {"x": 3}], folder)
    [{'x': 2, 'y': 4}, {'x': 3, 'y': 9}]
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _clear_unfinished(folder)
    calls = [(function, task, _file(function, task, folder)) for task in tasks]
    results = run_tasks(_run_or_read, calls, n_jobs, progress)
    return [task | row for task, rows in zip(tasks, results, strict=True) for row in rows]


def count_finished(
    function: Callable[..., list[Row]], tasks: Sequence[Task], folder: str | Path
) -> int:
    """Count the tasks whose result is already there.

    Examples
    --------
    >>> import tempfile
    >>> from cache import count_finished, run_cached
    >>> def square(x):
    ...     return [{"y": x * x}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = run_cached(square, [{"x": 2}], folder)
    ...     count_finished(square, [{"x": 2}, {"x": 3}], folder)
    1
    """
    return sum(_file(function, task, folder).exists() for task in tasks)


def _run_or_read(function: Callable[..., list[Row]], task: Task, path: Path) -> list[Row]:
    if path.exists():
        return list(json.loads(path.read_text())["rows"])
    rows = function(**task)
    content = json.dumps({"function": function.__qualname__, "task": task, "rows": rows})
    # A name of its own: workers of a killed run may still be at the same task.
    unfinished = path.with_suffix(f".{os.getpid()}{_UNFINISHED}")
    unfinished.write_text(content)
    unfinished.replace(path)
    return list(json.loads(content)["rows"])


def _clear_unfinished(folder: Path) -> None:
    """Remove what killed processes left; writing takes far less than a minute."""
    for path in folder.glob(f"*{_UNFINISHED}"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _STALE:
                path.unlink()


def _file(function: Callable[..., Any], task: Task, folder: str | Path) -> Path:
    name = [function.__module__, function.__qualname__, task, _code()]
    text = json.dumps(name, sort_keys=True)
    return Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


@cache
def _code() -> str:
    """Hash of the code that results depend on."""
    code = hashlib.sha256()
    for path in code_files():
        code.update(path.read_bytes())
    return code.hexdigest()


def code_files() -> list[Path]:
    """Code that results depend on: the package and the experiments, but not how they are shown."""
    package = Path(braindive.__file__).parent
    shown = {"cli", "plotting", "report"}
    files = [
        path
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0] not in shown
    ]
    return files + [Path(__file__).with_name(name) for name in ("adni.py", "experiments.py")]
