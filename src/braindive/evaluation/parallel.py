"""Many independent pieces of work, on as many workers as there are."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from joblib import Parallel, delayed

from braindive.errors import BraindiveWarning, DataWarning

Result = TypeVar("Result")
Report = Callable[[int, int], None]
"""Called with the number of pieces done and their total."""


def run_tasks(
    function: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    n_jobs: int | None = None,
    progress: Report | None = None,
) -> list[Result]:
    """Call a function once for each tuple of arguments; results come in the order of the tasks.

    Each task carries its own seed, so the number of workers cannot change a result. Warnings of
    the fits are counted and given once, since those of a worker process would be lost.

    Parameters
    ----------
    function : callable
        Importable by name, so that worker processes can call it.
    tasks : sequence of tuples
        Arguments of each call.
    n_jobs : int, optional
        Workers, as in joblib; any joblib backend can be chosen with `joblib.parallel_config`.
    progress : callable, optional
        Called with the number of finished tasks and of all.

    Returns
    -------
    list

    Examples
    --------
    >>> from braindive.evaluation.parallel import run_tasks
    >>> run_tasks(divmod, [(7, 2), (9, 4)])
    [(3, 1), (2, 1)]
    """
    calls = (delayed(_recorded)(function, task) for task in tasks)
    results: list[Result] = []
    seen: Counter[str] = Counter()
    for result, messages in Parallel(n_jobs=n_jobs, return_as="generator")(calls):
        results.append(result)
        seen.update(set(messages))
        if progress is not None:
            progress(len(results), len(tasks))
    for message, count in sorted(seen.items()):
        warnings.warn(f"in {count} of {len(tasks)} runs: {message}", DataWarning, stacklevel=3)
    return results


def _recorded(
    function: Callable[..., Result], arguments: tuple[Any, ...]
) -> tuple[Result, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BraindiveWarning)
        result = function(*arguments)
    return result, [_kind(warning.message) for warning in caught]


def _kind(warning: Warning | str) -> str:
    """The warning without the numbers of this one run, so that equal ones can be counted."""
    return "".join("#" if letter.isdigit() else letter for letter in str(warning))
