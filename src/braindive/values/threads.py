"""Work on some vertices at a time, in threads, for what is known of each without the values."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from joblib import effective_n_jobs

T = TypeVar("T")


def in_threads(function: Callable[[slice], T], length: int, width: int) -> list[T]:
    """Call with one part of so many vertices after the other, in as many threads as joblib knows.

    Parameters
    ----------
    function : callable
        Takes which vertices.
    length, width : int
        All vertices, and those of a part: fixed, so that threads cannot change a result.

    Examples
    --------
    >>> from braindive.values.threads import in_threads
    >>> in_threads(lambda part: part.stop - part.start, 7, 3)
    [3, 3, 1]
    """
    parts = [slice(start, min(start + width, length)) for start in range(0, length, width)]
    n_threads = min(effective_n_jobs(None), len(parts))
    if n_threads <= 1:
        return [function(part) for part in parts]
    # What to do about overflow is known to the thread that calls, and not to others.
    about_errors = np.geterr()

    def call(part: slice) -> T:
        with np.errstate(**about_errors):
            return function(part)

    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(call, parts))
