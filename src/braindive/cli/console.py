"""What commands say: results on the standard output, everything else beside it."""

from __future__ import annotations

import json
import logging
import re
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NoReturn

import numpy as np
import typer
from rich.console import Console

from braindive.errors import BraindiveWarning

# What a terminal would obey: an id or a file name may hold anything. Lines and tabs are kept.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class _PlainConsole(Console):
    """Prints texts as they are: nothing in them is a command, a colour or a picture."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, with control characters written out."""
        told = [visible(each) if isinstance(each, str) else each for each in objects]
        super().print(*told, **options)


def visible(text: str) -> str:
    r"""Text in which control characters are written out, as a terminal must not obey them.

    Examples
    --------
    >>> from braindive.cli.console import visible
    >>> print(visible("sub-1" + chr(27) + "[31m"))
    sub-1\x1b[31m
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


output = _PlainConsole(highlight=False, soft_wrap=True, emoji=False)
messages = _PlainConsole(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def say(text: str) -> None:
    """Tell the person at the terminal something that is not the result."""
    messages.print(text, markup=False)


def print_json(content: Any) -> None:
    """Write a result for machines."""
    typer.echo(json.dumps(content, indent=2, default=_plain))


def end_interrupted(state: str) -> NoReturn:
    """End a command after Ctrl-C with one line; another Ctrl-C must not break the ending."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    say(f"Interrupted; {state}.")
    raise typer.Exit(130) from None


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Let Ctrl-C end a command with one line, where it does not say more itself."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            end_interrupted("nothing is kept")

    return run


@contextmanager
def orderly_termination() -> Iterator[None]:
    """Let SIGTERM, which schedulers of clusters send, end a command by way of its clean-up.

    Joblib keeps worker processes for the next call and ends them when Python ends in order; by
    default the signal would end the command alone and leave them behind.
    """

    def leave(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    usual = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)


class _Teller(logging.Handler):
    """Says what a function noted."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"Note: {record.getMessage()}")


@contextmanager
def readable_notes() -> Iterator[None]:
    """Say how files were understood where they left something open."""
    log, teller = logging.getLogger("braindive"), _Teller(logging.INFO)
    usual = log.level
    log.addHandler(teller)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(teller)
        log.setLevel(usual)


@contextmanager
def readable_warnings() -> Iterator[None]:
    """Show each warning of braindive once and as one line; others are for developers."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, BraindiveWarning):
            messages.print("[yellow]Warning:[/yellow]", end=" ")
            say(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)
