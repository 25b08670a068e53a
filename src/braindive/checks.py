"""Checks of what a model is given: each returns the usable value or says what to do."""

from __future__ import annotations

import inspect
import re
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from braindive.arrays import Array, BoolArray, IntArray
from braindive.cohort import Cohort
from braindive.cohort.findings import constant_advice
from braindive.dive.curves import CURVES, Curves
from braindive.dive.initial import one_hot
from braindive.dive.priors import Normal, Priors
from braindive.dive.settings import Settings
from braindive.errors import CohortError, ParameterError
from braindive.values.protocol import Products

# Vertices for each cluster from which on a fit lets them differ by itself. A choice.
_MANY_VERTICES = 100


def check_variation(measurements: Products, cohort: Cohort) -> None:
    """Refuse vertices that are the same at every visit: they cannot belong to a trajectory.

    Parameters
    ----------
    measurements : Products
        Of the cohort's values.
    cohort : Cohort
        Read at the first few of such vertices.
    """
    constant = np.flatnonzero((measurements.energies == 0) & (measurements.counts > 1))
    if len(constant) and len(constant) == np.count_nonzero(measurements.counts > 1):
        raise CohortError("every vertex of the cohort is constant: there is no change to model.")
    if len(constant):
        shown = ", ".join(map(str, constant[:5].tolist()))
        more = f" and {len(constant) - 5:,} more" if len(constant) > 5 else ""
        zero = all(_is_zero(cohort, int(vertex)) for vertex in constant[:5])
        advice = constant_advice(zero, cohort.space)
        raise CohortError(f"vertices {shown}{more} have the same value at every visit. {advice}")


def _is_zero(cohort: Cohort, vertex: int) -> bool:
    """Whether a vertex is 0 wherever it was measured."""
    column = np.asarray(cohort.stored[:, vertex : vertex + 1])[:, 0]
    values = column if cohort.rows is None else column[cohort.rows]
    return bool(np.all((values == 0) | np.isnan(values)))


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        words = " or ".join(f'"{choice}"' for choice in choices)
        raise ParameterError(f"{name} must be {words}; got {value!r}.")


def check_count(name: str, value: Any) -> int:
    """A whole number of at least 1."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < 1:
        raise ParameterError(f"{name} must be a whole number of at least 1; got {value!r}.")
    return int(value)


def check_memory(memory: Any) -> int | None:
    """Bytes from a number or from text such as "2GB"; None where there is no limit."""
    if memory is None:
        return None
    units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
    units |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
    match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([A-Za-z]*)\s*", str(memory))
    if match is None or match[2].upper() not in units:
        raise ParameterError(f'memory must be a size such as "2GB"; got {memory!r}.')
    return int(float(match[1]) * units[match[2].upper()])


def check_seed(seed: Any) -> np.random.RandomState:
    """A generator of a seed: a whole number, a RandomState, or None for another every time."""
    try:
        generator: np.random.RandomState = check_random_state(seed)
    except (TypeError, ValueError):
        raise ParameterError(
            f"random_state must be a whole number from 0 to 4294967295, a RandomState or None; got "
            f"{seed!r}."
        ) from None
    return generator


def check_n_clusters(n_clusters: Any, cohort: Cohort) -> int:
    """As many clusters as the cohort can carry."""
    number = check_count("n_clusters", n_clusters)
    if number > cohort.n_vertices:
        raise ParameterError(
            f"n_clusters={number} is more than the {cohort.n_vertices} vertices; use fewer."
        )
    if cohort.n_visits < 2 * number:
        raise CohortError(
            f"{cohort.n_visits} visits are too few for {number} clusters: at least two visits per "
            "cluster are needed. Use fewer clusters or more data."
        )
    return number


def check_spatial(spatial: Any, cohort: Cohort) -> float | None:
    """The fixed strength of the field, or None where it is estimated or off."""
    if spatial is None or (isinstance(spatial, str) and spatial == "auto"):
        return None
    number = isinstance(spatial, (int, float, np.number)) and not isinstance(spatial, bool)
    if not number or not 0 <= spatial < np.inf:
        raise ParameterError(
            f'spatial must be "auto", None or a number of at least 0; got {spatial!r}.'
        )
    if cohort.graph is None:
        raise ParameterError(
            f"spatial={spatial} needs neighbours, but the cohort has no graph; pass graph=... to "
            "Cohort, or use spatial=None."
        )
    return float(spatial)


def check_curve(curve: Any, prior: Normal | None) -> type[Curves]:
    """The class of the trajectories, by its name or itself; the prior must have its parameters."""
    shape: Any = CURVES.get(curve) if isinstance(curve, str) else curve
    if not (isinstance(shape, type) and issubclass(shape, Curves)):
        names = ", ".join(f'"{name}"' for name in CURVES)
        raise ParameterError(
            f"curve must be {names} or a class that inherits from braindive.dive.curves.Curves; "
            f"got {curve!r}."
        )
    if inspect.isabstract(shape):
        missing = ", ".join(sorted(shape.__abstractmethods__))
        raise ParameterError(f"{shape.__name__} cannot be fitted without {missing}; define them.")
    if not shape.n_parameters():
        raise ParameterError(
            f"{shape.__name__} has no parameters; make it a frozen dataclass with a field for each."
        )
    if prior is not None:
        numbers = max(np.size(prior.mean), np.size(prior.sd))
        if numbers not in (1, shape.n_parameters()):
            raise ParameterError(
                f"the prior of the trajectories has {numbers} numbers, but the curve has "
                f"{shape.n_parameters()} parameters ({', '.join(shape.names())})."
            )
    return shape


def check_assignments(
    assignments: ArrayLike,
    cohort: Cohort,
    keep: BoolArray | None = None,
    what: str = "assignments",
) -> tuple[np.ndarray[Any, Any], IntArray]:
    """Names of the regions and the region number of each vertex, -1 where it has none.

    Parameters
    ----------
    assignments : (n_vertices,) labels
        Of the vertices of the cohort, or of those before the preprocessing dropped some.
    cohort : Cohort
        After preprocessing.
    keep : (n_vertices,) bool, optional
        Vertices that the preprocessing kept.
    what : str
        What the labels are called where they cannot be used.
    """
    labels = np.asarray(assignments)
    if keep is not None and labels.shape == keep.shape:
        labels = labels[keep]
    if labels.shape != (cohort.n_vertices,):
        raise ParameterError(
            f"{what} have shape {labels.shape}, but the cohort has {cohort.n_vertices} "
            "vertices; give one label for each vertex, from an atlas of the same space."
        )
    if labels.dtype.kind == "f":
        if not np.all(labels == np.round(labels)):
            raise ParameterError(f"{what} must be whole numbers or names, one for each vertex.")
        labels = labels.astype(int)
    if labels.dtype.kind not in "iu":
        names, codes = np.unique(labels.astype(str), return_inverse=True)
        check_n_clusters(len(names), cohort)
        return names, codes
    names = np.unique(labels[labels >= 0])
    if len(names) == 0:
        raise ParameterError(f"{what} hold no region: all labels are negative.")
    check_n_clusters(len(names), cohort)
    return names, np.where(labels >= 0, np.searchsorted(names, labels), -1)


def check_start(start: Any, cohort: Cohort, keep: BoolArray | None = None) -> Array:
    """Responsibilities to begin from, (n_vertices, n_clusters); 0 for vertices not known of.

    Parameters
    ----------
    start : (n_vertices,) labels, or a fitted DIVE
        As the user gave it.
    cohort, keep
        As in `check_assignments`.
    """
    if not isinstance(start, BaseEstimator):
        names, labels = check_assignments(start, cohort, keep, "the labels of start")
        return one_hot(labels, len(names))
    if not hasattr(start, "responsibilities_"):
        raise ParameterError(
            "the model to start from is not fitted; call its fit(cohort) first, or give labels."
        )
    known = start.responsibilities_ * start.internal_.known[:, None]
    if keep is not None and len(known) == len(keep):
        known = known[keep]
    if len(known) != cohort.n_vertices:
        raise ParameterError(
            f"the model to start from has {len(known)} vertices, but the cohort has "
            f"{cohort.n_vertices}; start from a model of the same space and preprocessing."
        )
    # A cluster with less than half a vertex is empty, and nothing can begin from it.
    kept = known[:, known.sum(axis=0) >= 0.5]
    check_n_clusters(kept.shape[1], cohort)
    total = kept.sum(axis=1, keepdims=True)
    return np.where(total > 0.5, kept / np.maximum(total, 0.5), 0.0)


class Choices(Protocol):
    """What a user has chosen: the parameters of `DIVE`."""

    n_clusters: int
    spatial: Any
    assignments: Any
    start: Any
    staging: bool
    method: str
    n_init: int
    max_iter: int
    tol: float
    priors: Priors | None
    curve: Any
    people: str
    vertices: Any
    scale: str


def check_settings(
    model: Choices, cohort: Cohort, keep: BoolArray | None = None
) -> tuple[np.ndarray[Any, Any] | None, Settings]:
    """Check the parameters of a model and translate them for the fit.

    Parameters
    ----------
    model : Choices
        The parameters.
    cohort, keep
        As in `check_assignments`.

    Returns
    -------
    regions, settings
        Names of the regions where assignments are given, and what to fit.
    """
    regions, labels, start = None, None, None
    if model.assignments is not None and model.start is not None:
        raise ParameterError(
            "assignments fix the clusters, and start is where a fit of them begins; give one of "
            "the two."
        )
    if model.assignments is not None:
        regions, labels = check_assignments(model.assignments, cohort, keep)
        n_clusters = len(regions)
    elif model.start is not None:
        start = check_start(model.start, cohort, keep)
        n_clusters = start.shape[1]
    else:
        n_clusters = check_n_clusters(model.n_clusters, cohort)
    check_choice("method", model.method, ("fast", "exact"))
    check_choice("people", model.people, ("differ", "alike"))
    check_choice("vertices", model.vertices, ("auto", "differ", "alike"))
    check_choice("scale", model.scale, ("years", "controls"))
    if not model.staging and np.ptp(cohort.times) == 0:
        raise CohortError(
            "without staging the score is the time, and all visits have the same time; use "
            "staging=True, or give times that differ, such as ages."
        )
    if not model.tol > 0:
        raise ParameterError(f"tol must be above 0; got {model.tol!r}.")
    strength, graph = check_spatial(model.spatial, cohort), cohort.graph
    # A graph without an edge says nothing about the strength of the field.
    if model.spatial is None or (strength is None and graph is not None and not graph.nnz):
        graph = None
    priors = model.priors or Priors()
    return regions, Settings(
        n_clusters=n_clusters,
        curve=check_curve(model.curve, priors.trajectory),
        strength=strength,
        graph=graph,
        labels=labels,
        start=start,
        staging=model.staging,
        exact=model.method == "exact",
        # Of few vertices it cannot be told how they differ.
        vertices="alike"
        if model.vertices == "auto" and cohort.n_vertices < _MANY_VERTICES * n_clusters
        else model.vertices,
        n_init=check_count("n_init", model.n_init),
        max_iter=check_count("max_iter", model.max_iter),
        tol=model.tol,
        priors=priors,
    )
