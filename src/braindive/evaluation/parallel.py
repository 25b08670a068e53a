"""Many independent pieces of work, on as many workers as there are."""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.backend import resource_tracker as loky_resource_tracker

from braindive.errors import BraindiveWarning, DataWarning

# A number in a message, with its sign, thousands and exponent.
_NUMBER = re.compile(r"(?:(?<![\w.])-)?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")

Result = TypeVar("Result")
Report = Callable[[int, int], None]
"""Called with the number of pieces done and their total."""


def run_tasks(
    function: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    n_jobs: int | None = None,
    progress: Report | None = None,
    names: Sequence[str] | None = None,
) -> list[Result]:
    """Call a function once for each tuple of arguments; results come in the order of the tasks.

    Each task carries its own seed, so the number of workers cannot change a result. Warnings of
    the fits are gathered, since those of a worker process would be lost, and given once for each
    kind: in how many fits, in which ones, and with the range of their numbers.

    Ctrl-C ends in a `KeyboardInterrupt` here, once, after the worker processes were ended; they
    say nothing about it themselves. SIGTERM likewise ends in a `SystemExit`.

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
    names : sequence of str, optional
        What warnings call each task, such as "3 clusters"; several may have the same name.

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
    heard: dict[str, dict[int, str]] = {}
    with _Interrupts() as interrupts:
        with interrupts.kept_from_workers(n_jobs):
            outputs = Parallel(n_jobs=n_jobs, return_as="generator")(calls)
        try:
            interrupts.let_through()
            for result, messages in outputs:
                for message in messages:
                    heard.setdefault(_NUMBER.sub("#", message), {})[len(results)] = message
                results.append(result)
                if progress is not None:
                    progress(len(results), len(tasks))
                interrupts.let_through()
        finally:
            interrupts.hold_back()
            with warnings.catch_warnings():
                # Whoever interrupts knows that tasks are left, of which joblib would warn.
                warnings.simplefilter("ignore", UserWarning)
                outputs.close()
    for _, found in sorted(heard.items()):
        where = f"in {len(found)} of {len(tasks)} fits"
        if names is not None:
            affected = dict.fromkeys(names[number] for number in found)
            where += f" ({', '.join(affected)})" * (len(affected) < len(set(names)))
        warnings.warn(f"{where}: {_in_one(list(found.values()))}", DataWarning, stacklevel=3)
    return results


def _recorded(
    function: Callable[..., Result], arguments: tuple[Any, ...]
) -> tuple[Result, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BraindiveWarning)
        result = function(*arguments)
    return result, [str(warning.message) for warning in caught]


def _in_one(messages: list[str]) -> str:
    """One message for several that differ in their numbers alone, of which it gives the range."""
    ranges = []
    for numbers in zip(*(_NUMBER.findall(message) for message in messages), strict=True):
        ordered = sorted(numbers, key=lambda number: float(number.replace(",", "")))
        same = len(set(numbers)) == 1
        ranges.append(ordered[0] if same else f"{ordered[0]} to {ordered[-1]}")
    left = iter(ranges)
    return _NUMBER.sub(lambda _: next(left), messages[0])


class _Interrupts:
    """Ctrl-C and SIGTERM that reach joblib only where it can end its workers.

    A terminal sends SIGINT to every process of a command. A worker that gets it prints a
    traceback, and a parent that gets it while it starts or ends workers leaves some of them
    behind. So the signal is held back then and handled afterwards, and workers never see it: the
    parent ends them.

    SIGTERM, which schedulers of clusters send, would end the parent alone and leave its workers
    to work for nobody. It is held back likewise, and where a program has no handler of its own
    for it, it ends in a `SystemExit` with the code that shells give to it, so that clean-up runs.

    Other threads than the main one, and programs that ignore a signal, are left as they are, and
    so are programs that let SIGINT kill them.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._usual: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._held = True
        self._missed: list[int] = []

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in (signal.SIGINT, signal.SIGTERM):
            usual = signal.getsignal(number)
            if number == signal.SIGTERM and usual is signal.SIG_DFL:
                usual = _exit
            if callable(usual):
                self._usual[number] = usual
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        # A second signal while workers were ended asks for what is under way.
        if self._missed and kind not in (KeyboardInterrupt, SystemExit):
            self._usual[self._missed[0]](self._missed[0], None)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._held:
            self._missed.append(number)
        else:
            self._held = True  # what follows is the ending of the workers
            self._usual[number](number, frame)

    def hold_back(self) -> None:
        """Remember signals from now on instead of handling them."""
        self._held = True

    def let_through(self) -> None:
        """Handle signals from now on, and at once one that was held back."""
        self._held = False
        if self._missed:
            self._receive(self._missed.pop(0), None)

    @contextmanager
    def kept_from_workers(self, n_jobs: int | None) -> Iterator[None]:
        """Start worker processes that never see Ctrl-C.

        Processes inherit the blocked signals of the thread that starts them, and so do threads,
        such as the one from which joblib replaces lost workers.
        """
        if (
            signal.SIGINT not in self._usual
            or not hasattr(signal, "pthread_sigmask")  # Windows
            or effective_n_jobs(n_jobs) == 1
        ):
            yield
            return
        # These helpers of multiprocessing and joblib unblock the signal in the thread that starts
        # them, so they have to be there before it is blocked.
        resource_tracker.ensure_running()
        loky_resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
