"""Where the time of a fit goes: what its parts take, one after the other, in the main thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import braindive as bd
import braindive.answers
import braindive.dive.starts
import braindive.estimator
import braindive.results
from braindive.values.products import BlockProducts
from cohorts import Size, draw_values, make_truth
from measurement import best

_SUMMARY = "mean and spread of every vertex"
_SAMPLE = "starts, test of progression and EM on a sample of the vertices"
_EM = "EM on all vertices"
_LABELS = "labels by the curves of the marginal fit"
_MARGINAL = "marginal fit and standard errors"
_CURVES = "every vertex's own curve"
_REST = "everything else"

# Where each part is called from, by which name, and within which other part alone it counts as
# this one.
_CALLS: tuple[tuple[Any, str, str, str], ...] = (
    (braindive.estimator, "check_variation", _SUMMARY, _REST),
    (braindive.estimator, "fit_best", _EM, _REST),
    (BlockProducts, "sample", _SAMPLE, _EM),
    (braindive.dive.starts, "find_partitions", _SAMPLE, _EM),
    (braindive.dive.starts, "judge", _SAMPLE, _EM),
    (braindive.dive.starts, "find_starts", _SAMPLE, _EM),
    (braindive.dive.starts, "follow_best", _SAMPLE, _EM),
    (braindive.results, "marginal_answer", _MARGINAL, _REST),
    (braindive.answers, "relabel", _LABELS, _MARGINAL),
    (braindive.results, "_map_vertices", _CURVES, _REST),
)
READS = {_SUMMARY: 1, _SAMPLE: 1, _EM: 2, _LABELS: 1, _CURVES: 1}
"""How often a fit without a spatial field reads all values in each part."""


@dataclass(frozen=True)
class Parts:
    """Seconds of the parts of a fit, and of one sum and two products of the same values."""

    seconds: dict[str, float]
    sum_seconds: float
    product_seconds: float


def measure_parts(size: Size, repeats: int = 3) -> Parts:
    """Fit a cohort on the mesh several times; the parts are those of the fastest fit."""
    truth = make_truth(size)
    values = draw_values(truth)
    cohort = bd.Cohort(values, subjects=truth.subjects, times=truth.times)
    curves = values[:, : size.n_clusters].T.copy()
    weights = values[: size.n_clusters].T.copy()
    fits = []
    for _ in range(repeats):
        with clocks() as seconds:
            bd.DIVE(size.n_clusters, personal=False, random_state=0).fit(cohort)
        fits.append(dict(seconds))
    fastest = min(fits, key=lambda each: sum(each.values()))
    products = best(lambda: (curves @ values, values @ weights))
    return Parts(fastest, best(values.sum), products)


@contextmanager
def clocks() -> Iterator[dict[str, float]]:
    """Seconds that each part takes while this is open, without the parts inside of it."""
    seconds = dict.fromkeys((_SUMMARY, _SAMPLE, _EM, _MARGINAL, _LABELS, _CURVES, _REST), 0.0)
    running, since = [_REST], [time.perf_counter()]

    def change() -> None:
        now = time.perf_counter()
        seconds[running[-1]] += now - since[0]
        since[0] = now

    def timed(function: Callable[..., Any], part: str, within: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if running[-1] != within:
                return function(*arguments, **options)
            change()
            running.append(part)
            try:
                return function(*arguments, **options)
            finally:
                change()
                running.pop()

        return call

    patches = [
        patch.object(place, name, timed(getattr(place, name), part, within))
        for place, name, part, within in _CALLS
    ]
    for each in patches:
        each.start()
    try:
        yield seconds
    finally:
        change()
        for each in patches:
            each.stop()
