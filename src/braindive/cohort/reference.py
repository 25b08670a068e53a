"""Whom values are standardised to, and where nothing was measured at all."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from braindive.arrays import BoolArray
from braindive.cohort.cohort import Cohort
from braindive.errors import CohortError, DataWarning
from braindive.values.walking import vertex_blocks

REFERENCES = ("controls", "baseline")
# A scan that is 0 at so many more of the vertices than half of the scans are is a failed one, which
# would take its vertices from everybody.
_FAILED = 0.1


def reference_visits(cohort: Cohort, which: str = "controls") -> BoolArray:
    """Visits from which to estimate: controls, or everybody where there are none.

    Parameters
    ----------
    cohort : Cohort
        Of training.
    which : {"controls", "baseline"}
        All visits of the controls, or the first visit of each person who is a control then.

    Returns
    -------
    (n_visits,) bool

    Examples
    --------
    >>> import numpy as np, braindive as bd
    >>> from braindive.cohort.reference import reference_visits
    >>> cohort = bd.Cohort(
    ...     np.zeros((4, 2)), subjects=list("aabb"), times=[1, 0, 0, 1], controls=[1, 1, 0, 0]
    ... )
    >>> reference_visits(cohort, "baseline").tolist()
    [False, True, False, False]
    """
    if cohort.controls is not None and cohort.controls.any():
        found = cohort.controls
    else:
        warnings.warn(
            "the cohort has no controls, so values are standardised to everybody in it; mark "
            "controls for z-scores to healthy people.",
            DataWarning,
            stacklevel=6,
        )
        found = np.ones(cohort.n_visits, dtype=bool)
    if which == "controls":
        return found
    first = pd.Series(cohort.times).groupby(cohort.subjects).transform("min").to_numpy()
    at_baseline = found & (cohort.times == first)
    if not at_baseline.any():
        raise CohortError(
            "nobody is a control at the first visit, so there is no baseline to standardise to; "
            "use all visits of controls."
        )
    return np.asarray(at_baseline)


def never_zero(cohort: Cohort) -> BoolArray:
    """Vertices that are 0 at no visit.

    Parameters
    ----------
    cohort : Cohort
        Of training.

    Returns
    -------
    (n_vertices,) bool

    Raises
    ------
    CohortError
        Names scans that are 0 where the others are not.
    """
    measured = np.empty(cohort.n_vertices, dtype=bool)
    zeros = np.zeros(cohort.n_visits)
    for where, block in vertex_blocks(cohort.stored, cohort.rows):
        is_zero = block == 0
        measured[where] = ~is_zero.any(axis=0)
        zeros += is_zero.sum(axis=1)
    share = zeros / cohort.n_vertices
    failed = np.flatnonzero(share > np.median(share) + _FAILED)
    if len(failed):
        listed = ", ".join(
            f"{cohort.subjects[row]} at {cohort.times[row]:g} ({share[row]:.0%})"
            for row in failed[:5]
        )
        more = f" and {len(failed) - 5} more" if len(failed) > 5 else ""
        raise CohortError(
            f"{len(failed)} scans are 0 at far more vertices than the others ({listed}{more}); "
            "leave them out, since vertices that are 0 anywhere are dropped for everybody."
        )
    return measured
