"""Where the command begins: Ctrl-C while the packages are loaded ends it without a word."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn


def _leave(*_: object) -> NoReturn:
    # Nothing is begun yet, and what is loaded half cannot be unwound in order.
    os._exit(128 + signal.SIGINT)


def run() -> None:
    """Run a command."""
    usual = signal.getsignal(signal.SIGINT)
    # A shell lets what runs in the background ignore Ctrl-C, and that is kept.
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from braindive.cli.main import run as run_command

    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, usual)
    run_command()


if __name__ == "__main__":
    sys.exit(run())  # type: ignore[func-returns-value]
