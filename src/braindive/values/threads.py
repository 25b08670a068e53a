"""Work on some vertices, or some subjects, at a time, in threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from joblib import effective_n_jobs

T = TypeVar("T")


def in_threads(function: Callable[[slice], T], length: int, width: int) -> list[T]:
    """Call with one part of a length after the other, in as many threads as joblib knows.

    Parameters
    ----------
    function : callable
        Takes which part.
    length, width : int
        Of the whole, and of a part: fixed, so that threads cannot change a result.

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
