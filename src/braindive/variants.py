"""The models that DIVE is compared with: its own special cases."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from braindive.estimator import DIVE


def roi_model(labels: ArrayLike, **parameters: Any) -> DIVE:
    """Return the ROI-based model: DIVE with clusters fixed to an atlas.

    Parameters
    ----------
    labels : (n_vertices,)
        Region of each vertex.
    **parameters
        Passed on to `DIVE`.

    Returns
    -------
    DIVE

    Examples
    --------
    >>> import braindive as bd
    >>> simulation = bd.simulate_cohort(n_subjects=30, n_vertices=60, noise=0.3, random_state=0)
    >>> model = bd.roi_model(simulation.truth.labels, personal=False).fit(simulation.cohort)
    >>> model.responsibilities_.shape
    (60, 3)
    """
    return DIVE(assignments=labels, **parameters)


def no_staging_model(**parameters: Any) -> DIVE:
    """Return the no-staging model: DIVE whose score is the time itself.

    Parameters
    ----------
    **parameters
        Passed on to `DIVE`.

    Returns
    -------
    DIVE

    Examples
    --------
    >>> import braindive as bd
    >>> bd.no_staging_model(n_clusters=2).staging
    False
    """
    return DIVE(staging=False, **parameters)
