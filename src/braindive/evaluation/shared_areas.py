"""Areas that two cohorts share: vertices that behave alike in both, each with curves of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from braindive.arrays import Array, IntArray
from braindive.cohort import Cohort
from braindive.dive.e_step import sweep_vertices
from braindive.dive.field import settle_anew, settling_strength
from braindive.dive.initial import one_hot
from braindive.values.walking import one_thread_per_product

# Most rounds of areas, curves and areas again, and the share of vertices that change their area
# below which these stay. Choices: most pairs of cohorts need two or three.
_ROUNDS, _FEW = 6, 0.002


def shared_areas(cohorts: Sequence[Cohort], own: Sequence[Any], fixed: Any) -> IntArray:
    """Find areas by both cohorts' measurements: a vertex belongs where both say it does.

    The likelihood of a label is the product of the two cohorts', each with curves and stages of its
    own, so that areas are shared without any curve being so. Begun from the clusters of either
    cohort's own fit, whichever explains both better.

    Parameters
    ----------
    cohorts : two of Cohort
        Prepared.
    own : two of DIVE
        Fitted, each to one of them.
    fixed : DIVE
        Not fitted; its `assignments` are set here.

    Returns
    -------
    (n_vertices,) int
        -1 where a vertex has no measurements in one of the cohorts.
    """
    known = own[0].internal_.known & own[1].internal_.known
    strength = float(np.mean([model.spatial_strength_ for model in own]))
    estimated = all(model.spatial == "auto" for model in own)
    starts = [_step(cohorts, _labels(model, known), fixed, strength, estimated) for model in own]
    labels, _ = max(starts, key=lambda start: start[1])
    for _ in range(_ROUNDS):
        after, _ = _step(cohorts, labels, fixed, strength, estimated)
        changed = float(np.mean(after != labels))
        labels = after
        if changed < _FEW:
            break
    return labels


def _labels(model: Any, known: Array) -> IntArray:
    """Labels of the clusters that have vertices, from 0."""
    _, labels = np.unique(np.where(known, model.labels_, -1), return_inverse=True)
    return np.asarray(labels - int(not known.all()))


def _step(
    cohorts: Sequence[Cohort], labels: IntArray, fixed: Any, strength: float, estimated: bool
) -> tuple[IntArray, float]:
    """Curves of both cohorts for some areas, the areas these curves ask for, and how well."""
    density = np.zeros((len(labels), int(labels.max()) + 1))
    for cohort in cohorts:
        model = clone(fixed).set_params(assignments=labels).fit(cohort)
        density += _log_densities(model, cohort)
    graph = cohorts[0].graph
    if graph is None or not strength:
        after = density.argmax(axis=1)
    else:
        if estimated:
            strength = settling_strength(strength, density)
        after = settle_anew(density, one_hot(labels, density.shape[1]), graph, strength).argmax(1)
    after = np.where(labels < 0, -1, after)
    reached = float(np.take_along_axis(density, np.maximum(after, 0)[:, None], 1).sum())
    # An area that nobody asks for any more would leave a curve without measurements.
    if len(np.unique(after[after >= 0])) < density.shape[1]:
        return labels, reached
    return after, reached


def _log_densities(model: Any, cohort: Cohort) -> Array:
    """Log-density of each vertex in each area, areas in the order of their names."""
    internal = model.internal_
    found, timeline = internal.parameters, internal.training.timeline
    scores = timeline.scores(found.speeds, found.shifts)
    with one_thread_per_product():
        swept, _ = sweep_vertices(model.products(cohort), scores, replace(found, shares=None))
    order = np.argsort(model.cluster_names_, kind="stable")
    return np.asarray(swept.log_densities[:, order])
