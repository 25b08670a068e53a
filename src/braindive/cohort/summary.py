"""The values of a cohort in a few numbers for each scan and each vertex."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.cohort import Cohort
from braindive.values.walking import vertex_blocks


@dataclass(frozen=True)
class Summary:
    """Everything the check-up needs of the values.

    Attributes
    ----------
    scan_mean, scan_spread, scan_observed : (n_visits,)
        Mean and spread of each scan, and how many of the vertices that anybody has were
        measured; vertices that are 0 in everybody are left out.
    vertex_observed : (n_vertices,)
        Share of the visits at which a vertex was measured.
    constant : (n_vertices,) bool
        Whether a vertex has the same value at every visit.
    zero : (n_vertices,) bool
        Whether this value is 0.
    control_mean, control_spread : (n_vertices,)
        Of the controls; NaN where there are none.
    difference : (n_vertices,)
        Mean of the others less that of the controls; NaN where one of the groups has no
        measurement.
    """

    scan_mean: Array
    scan_spread: Array
    scan_observed: Array
    vertex_observed: Array
    constant: BoolArray
    zero: BoolArray
    control_mean: Array
    control_spread: Array
    difference: Array

    @classmethod
    def of(cls, cohort: Cohort) -> Summary:
        """Read the values once."""
        n_visits, n_vertices = cohort.n_visits, cohort.n_vertices
        controls = np.zeros(n_visits, dtype=bool) if cohort.controls is None else cohort.controls
        sums, squares, counts = np.zeros(n_visits), np.zeros(n_visits), np.zeros(n_visits)
        observed_of_vertex = np.empty(n_vertices)
        constant, zero = np.empty(n_vertices, dtype=bool), np.empty(n_vertices, dtype=bool)
        mean, spread, difference = (np.full(n_vertices, np.nan) for _ in range(3))
        for where, block in vertex_blocks(cohort.stored, cohort.rows):
            values = block.astype(float)
            observed = ~np.isnan(values)
            filled = np.where(observed, values, 0.0)
            observed_of_vertex[where] = observed.sum(axis=0)
            highest = np.where(observed, values, -np.inf).max(axis=0)
            constant[where] = highest == np.where(observed, values, np.inf).min(axis=0)
            zero[where] = constant[where] & (highest == 0)
            sums += filled.sum(axis=1)
            squares += (filled**2).sum(axis=1)
            counts += observed[:, ~zero[where]].sum(axis=1)
            if controls.any():
                mean[where], spread[where] = _moments(filled[controls], observed[controls])
            if controls.any() and not controls.all():
                others, _ = _moments(filled[~controls], observed[~controls])
                difference[where] = others - mean[where]
        # Vertices outside the brain are measured in nobody, or 0 in everybody, and not missing in
        # anybody.
        ever = max(int(((observed_of_vertex > 0) & ~zero).sum()), 1)
        scan_observed = counts / ever
        counts = np.maximum(counts, 1)
        scan_mean = sums / counts
        variance = np.maximum(squares / counts - scan_mean**2, 0)
        return cls(
            scan_mean,
            np.sqrt(variance),
            scan_observed,
            observed_of_vertex / n_visits,
            constant,
            zero,
            mean,
            spread,
            difference,
        )


def _moments(filled: Array, observed: BoolArray) -> tuple[Array, Array]:
    """Mean and standard deviation of each vertex; NaN where it was not measured."""
    counts = observed.sum(axis=0)
    counts = np.where(counts > 0, counts, np.nan)
    mean = filled.sum(axis=0) / counts
    variance = np.where(observed, (filled - mean) ** 2, 0.0).sum(axis=0) / counts
    return mean, np.sqrt(variance)
