"""Time and peak memory of one fit, each in a process of its own, beside what the machine can do."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

import braindive as bd
from cohorts import Size, draw_values, make_truth

Responsibilities = NDArray[np.float64]
Returned = TypeVar("Returned")

# Fits that take less than this are repeated and the best one counts, as for the sums.
_SHORT = 1.0
_REPEATS = 3


@dataclass(frozen=True)
class Fit:
    """How a fit went; passes over the values, and the median seconds of one, only for DIVE."""

    iterations: int
    end: str
    passes: int = 0
    pass_seconds: float = np.nan
    log_likelihood: float = np.nan


@dataclass(frozen=True)
class Result:
    """One line of a table; times in seconds, memory in bytes."""

    seconds: float
    sum_seconds: float
    product_seconds: float
    data_bytes: int
    memory: int
    agreement: float
    fit: Fit


def in_fresh_process(function: Callable[..., Returned], *arguments: Any) -> Returned:
    """Call the function in a new process, whose memory has seen nothing but imports."""
    context = multiprocessing.get_context("forkserver")
    # All that a fit imports: braindive itself brings its parts when they are first asked for.
    context.set_forkserver_preload(["braindive.estimator", "sklearn.mixture"])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def measure(size: Size, estimator: str, options: dict[str, Any]) -> Result:
    """Make a cohort on the mesh and fit it by "DIVE", "GaussianMixture" or "KMeans"."""
    truth = make_truth(size)
    before = resident_memory()
    values = draw_values(truth)
    cohort = bd.Cohort(values, subjects=truth.subjects, times=truth.times, graph=truth.graph)
    fit = {"DIVE": fit_dive, "GaussianMixture": fit_mixture, "KMeans": fit_k_means}[estimator]
    return _measure(fit, cohort, size.n_clusters, options, truth.labels, before)


def measure_basic(n_subjects: int, n_vertices: int, options: dict[str, Any]) -> Result:
    """Fit DIVE to the basic simulation of the paper, by default with its 1,000 vertices."""
    before = resident_memory()
    simulation = bd.simulate_cohort(n_subjects, n_vertices=n_vertices, random_state=0)
    return _measure(fit_dive, simulation.cohort, 3, options, simulation.truth.labels, before)


def _measure(
    fit: Callable[..., tuple[Fit, Responsibilities]],
    cohort: bd.Cohort,
    n_clusters: int,
    options: dict[str, Any],
    labels: NDArray[np.int64],
    memory_before: int,
) -> Result:
    values = cohort.values
    curves = np.ones((n_clusters, cohort.n_visits), values.dtype)
    weights = np.eye(n_clusters, dtype=values.dtype)[labels]

    def products() -> None:
        curves @ values
        values @ weights

    sum_seconds, product_seconds = best(values.sum), best(products)
    seconds, (found, responsibilities) = timed(lambda: fit(cohort, n_clusters, options))
    memory = peak_memory() - memory_before - values.nbytes
    if seconds < _SHORT:
        for _ in range(_REPEATS - 1):
            again, (found_again, _) = timed(lambda: fit(cohort, n_clusters, options))
            if again < seconds:
                seconds, found = again, found_again
    # The machine may have been busy with something else just before, but less likely twice.
    sum_seconds = min(sum_seconds, best(values.sum))
    product_seconds = min(product_seconds, best(products))
    return Result(
        seconds=seconds,
        sum_seconds=sum_seconds,
        product_seconds=product_seconds,
        data_bytes=values.nbytes,
        memory=memory,
        agreement=bd.match_clusters(responsibilities, labels).agreement,
        fit=found,
    )


def fit_dive(
    cohort: bd.Cohort, n_clusters: int, options: dict[str, Any]
) -> tuple[Fit, Responsibilities]:
    """DIVE, without learning how to predict unless the options say so.

    Its passes over the values include those of starts that were given up.
    """
    ends: list[float] = []
    model = bd.DIVE(n_clusters, random_state=0, **{"personal": False, **options})
    model.fit(cohort, callback=lambda progress: ends.append(time.perf_counter()))
    found = Fit(
        model.n_iter_,
        model.stop_reason_,
        passes=len(ends),
        pass_seconds=float(np.median(np.diff(ends))) if len(ends) > 1 else np.nan,
        log_likelihood=model.log_likelihood_ / cohort.values.size,
    )
    return found, model.responsibilities_


def fit_mixture(
    cohort: bd.Cohort, n_clusters: int, options: dict[str, Any]
) -> tuple[Fit, Responsibilities]:
    """Mixture of Gaussians with diagonal covariances; the vertices are the samples."""
    mixture = GaussianMixture(n_clusters, covariance_type="diag", random_state=0, **options)
    mixture.fit(cohort.values.T)
    end = "converged" if mixture.converged_ else "max_iter"
    return Fit(mixture.n_iter_, end), mixture.predict_proba(cohort.values.T)


def fit_k_means(
    cohort: bd.Cohort, n_clusters: int, options: dict[str, Any]
) -> tuple[Fit, Responsibilities]:
    """k-means; the vertices are the samples."""
    k_means = KMeans(n_clusters, random_state=0, **options).fit(cohort.values.T)
    end = "converged" if k_means.n_iter_ < k_means.max_iter else "max_iter"
    return Fit(k_means.n_iter_, end), np.eye(n_clusters)[k_means.labels_]


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and what it returns."""
    start = time.perf_counter()
    returned = function()
    return time.perf_counter() - start, returned


def best(function: Callable[[], Any]) -> float:
    """Seconds of the fastest of a few calls."""
    return min(timed(function)[0] for _ in range(_REPEATS))


def peak_memory() -> int:
    """Most bytes that this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def resident_memory() -> int:
    """Bytes that this process holds now; where the system does not tell, the most so far."""
    status = Path("/proc/self/statm")
    if not status.exists():
        return peak_memory()
    return int(status.read_text().split()[1]) * resource.getpagesize()
