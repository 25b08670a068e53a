"""Sums over measurements some of which are missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.space.smoothing import smooth_over_graph


def varies(values: Array, observed: BoolArray) -> BoolArray:
    """Vertices whose observed values are not all the same."""
    highest = np.where(observed, values, -np.inf).max(axis=0)
    lowest = np.where(observed, values, np.inf).min(axis=0)
    return np.asarray(highest > lowest)


def regress(values: Array, design: Array) -> tuple[Array, Array, Array]:
    """Intercept, effects and residual spread of each vertex over its observed visits."""
    full = np.column_stack([np.ones(len(design)), design])
    n_columns = full.shape[1]
    observed = ~np.isnan(values)
    filled = np.where(observed, values, 0.0)
    counts = observed.sum(axis=0)
    if observed.all():
        coefficients = np.linalg.pinv(full) @ values
    else:
        products = (full[:, :, None] * full[:, None, :]).reshape(len(full), -1)
        gram = (observed.T.astype(float) @ products).reshape(-1, n_columns, n_columns)
        inverse = np.linalg.pinv(gram, hermitian=True)
        coefficients = np.einsum("lij,jl->il", inverse, full.T @ filled)
    residuals = np.where(observed, values - full @ coefficients, 0.0)
    freedom = counts - n_columns
    with np.errstate(divide="ignore", invalid="ignore"):
        spreads = np.sqrt(np.sum(residuals**2, axis=0) / np.where(freedom > 0, freedom, np.nan))
    means = np.where(freedom > 0, coefficients[0], np.nan)
    return means, coefficients[1:], spreads


def smooth_observed(values: Array, graph: Any, rounds: int) -> Array:
    """Average with neighbours; holes stay holes and do not leak into their neighbours."""
    observed = ~np.isnan(values)
    if observed.all():
        return smooth_over_graph(values.T, graph, rounds).T
    weights = smooth_over_graph(observed.T.astype(values.dtype), graph, rounds).T
    sums = smooth_over_graph(np.where(observed, values, 0).T, graph, rounds).T
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(observed, sums / weights, np.nan).astype(values.dtype)


def mean_observed(left: Array, right: Array) -> Array:
    """Mean of two, or the one that is measured."""
    both = (left + right) / 2
    return np.where(np.isnan(left), right, np.where(np.isnan(right), left, both))
