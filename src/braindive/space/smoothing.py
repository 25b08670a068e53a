"""Averaging over neighbours."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from braindive.arrays import Array


def smooth_over_graph(features: Array, graph: csr_array, rounds: int = 3) -> Array:
    """Average every vertex with its neighbours, a few times."""
    averages = graph.astype(features.dtype)
    degree = 1 + np.diff(graph.indptr)
    averages.data /= np.repeat(degree, degree - 1)
    own = (1 / degree).astype(features.dtype)[:, None]
    smooth = np.ascontiguousarray(features)
    for _ in range(rounds):
        smooth = averages @ smooth + own * smooth
    return smooth
