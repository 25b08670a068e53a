"""Numbers that several commands take, refused in one line before any work."""

from __future__ import annotations

import typer

from braindive.cli.console import say

# Largest seed that NumPy takes.
_LARGEST_SEED = 2**32 - 1


def check_seed(seed: int) -> int:
    """Refuse a seed that no generator takes."""
    if not 0 <= seed <= _LARGEST_SEED:
        _refuse(f"--seed is a whole number from 0 to {_LARGEST_SEED}; got {seed}.")
    return seed


def check_jobs(jobs: int | None) -> int | None:
    """Refuse no workers."""
    if jobs == 0:
        _refuse("--jobs is a number of workers, or -1 for all cores; got 0.")
    return jobs


def _refuse(message: str) -> None:
    """End as the command line does where it is used wrongly."""
    say(f"Error: {message}")
    raise typer.Exit(2)
