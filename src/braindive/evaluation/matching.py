"""Agreement of clusters with a true parcellation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from braindive.arrays import IntArray
from braindive.errors import ParameterError


class Matching(NamedTuple):
    """How clusters and true labels correspond.

    Attributes
    ----------
    agreement : float
        Mean probability that vertices give to their true cluster under the best matching.
    permutation : (n_true,) int
        `permutation[j]` is the cluster that matches true label j; -1 if there is none.
    """

    agreement: float
    permutation: IntArray


def match_clusters(model: Any, labels: Any) -> Matching:
    """Match clusters to true labels so that the agreement is largest.

    Parameters
    ----------
    model : fitted DIVE, or array (n_vertices, n_clusters) or (n_vertices,)
        Responsibilities, or labels.
    labels : (n_vertices,)
        True labels 0, 1, 2, ...; the number of true clusters may differ from the model's.

    Returns
    -------
    Matching

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> bd.match_clusters(np.array([[0.1, 0.9], [0.2, 0.8], [1.0, 0.0]]), [0, 0, 1])
    Matching(agreement=0.9, permutation=array([1, 0]))
    """
    found = np.asarray(getattr(model, "responsibilities_", model), dtype=float)
    truth = np.asarray(labels)
    if truth.ndim != 1 or truth.dtype.kind not in "iu" or (truth.size and truth.min() < 0):
        raise ParameterError("labels must be whole numbers from 0, one for each vertex.")
    if found.ndim == 1:
        found = np.eye(int(found.max()) + 1)[found.astype(int)]
    if len(found) != len(truth):
        raise ParameterError(
            f"the clusters cover {len(found)} vertices, but there are {len(truth)} labels."
        )
    n_true = int(truth.max()) + 1
    overlap = np.eye(n_true)[truth].T @ found
    rows, columns = linear_sum_assignment(overlap, maximize=True)
    permutation = np.full(n_true, -1)
    permutation[rows] = columns
    return Matching(float(overlap[rows, columns].sum() / len(truth)), permutation)
