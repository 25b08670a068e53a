"""What the model may ask of the measurements.

Everything is computed from the *steps* of `blocks`. Whoever can run a step over all vertices,
wherever these are, can give all products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.values.blocks import Adjustment, Found, ResidualStep, Step, Summary, Unit

AssignVertices = Callable[
    [tuple[Array, ...], Array, Array | None], tuple[Array, Array, tuple[Array, ...]]
]
"""From distances (and coordinates), counts and field of some vertices to log-densities,
responsibilities and sums over these vertices."""


class Swept(NamedTuple):
    """What one read of the values finds: see `Products.sweep`."""

    log_densities: Array
    responsibilities: Array
    sums: Array
    weights: Array
    more: tuple[Array, ...]


class Products(Protocol):
    """What the model asks of the measurements, wherever they are kept."""

    @property
    def missing(self) -> bool:
        """Whether there are holes."""

    @property
    def n_visits(self) -> int:
        """Number of visits."""

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the values."""

    @property
    def unit(self) -> Unit:
        """Standard unit of the values: standard values are (V - offset) / scale."""

    @property
    def summary(self) -> Summary:
        """Count, mean and energy of each vertex in the unit of the values."""

    @property
    def counts(self) -> Array:
        """Number of observed visits of each vertex."""

    @property
    def means(self) -> Array:
        """Mean of each vertex over its observed visits."""

    @property
    def energies(self) -> Array:
        """Sum of squared deviations of each vertex from its mean."""

    @property
    def squares(self) -> Array:
        """Sum of squares of each vertex."""

    def distances(self, curves: Array) -> Array:
        """Squared distance of every vertex to every curve over its observed visits.

        Parameters
        ----------
        curves : (n_visits, n_clusters)
            F_nk in standard units.

        Returns
        -------
        (n_vertices, n_clusters)
            sum_n (V_ln - F_nk)^2.
        """

    def pool(self, responsibilities: Array) -> tuple[Array, Array]:
        """Sums of the values over the vertices of each cluster, and of the responsibilities.

        Parameters
        ----------
        responsibilities : (n_vertices, n_clusters)
            z_lk.

        Returns
        -------
        sums, weights : (n_visits, n_clusters)
            sum_l z_lk V_ln in standard units and sum_l z_lk over the vertices observed at n.
        """

    def sweep(
        self,
        curves: Array,
        assign: AssignVertices,
        field: Array | None = None,
        derivatives: Array | None = None,
    ) -> Swept:
        """Distances, assignment and pooling in one read of the values.

        Parameters
        ----------
        curves : (n_visits, n_clusters)
            F_nk in standard units.
        assign : callable
            Takes what was found of some vertices, their counts (n,) and field (n, n_clusters) or
            None; returns log-densities and responsibilities, each (n, n_clusters), and sums over
            these vertices. Found are distances (n_clusters, n) and, with derivatives, the rest of
            what `values.coordinates.Coordinates` returns.
        field : (n_vertices, n_clusters), optional
            What the neighbours say.
        derivatives : (n_visits, n_clusters, n_parameters), optional
            Of the curves by their parameters.

        Returns
        -------
        log_densities, responsibilities : (n_vertices, n_clusters)
        sums, weights : (n_visits, n_clusters)
            As from `pool` with these responsibilities.
        more : tuple
            Sums over all vertices of what `assign` returned.
        """

    def features(self, directions: Array) -> Array:
        """Level of every vertex and its deviations from it along some directions.

        Parameters
        ----------
        directions : (n_visits, n_features)
            Linear combinations of visits.

        Returns
        -------
        (n_vertices, n_features + 1)
            sqrt(n_visits) times the vertex mean, then sum_n x_ln G_n, in standard units.
        """

    def power_step(self, directions: Array) -> Array:
        """Take a step of the power iteration towards the leading components, in one read.

        Where vertices are many, an even sample of them tells the components.

        Parameters
        ----------
        directions : (n_visits, n_features)
            Linear combinations of visits.

        Returns
        -------
        (n_visits, n_features)
            What `pool` finds for the deviations that `features` finds.
        """

    def sum_residuals(self, curves: Array, responsibilities: Array, power: int) -> Array:
        """sum_l z_lk (V_ln - F_nk)^power over observed vertices, one residual at a time.

        Parameters
        ----------
        curves : (n_visits, n_clusters)
            F_nk in standard units.
        responsibilities : (n_vertices, n_clusters)
            z_lk.
        power : 1 or 2
            Residuals or their squares.

        Returns
        -------
        (n_visits, n_clusters)
        """

    def run(self, step: Step, *own: Array | None) -> Found:
        """Run a step over all vertices.

        Parameters
        ----------
        step : Step
            What to do with a block.
        *own : (n_vertices, ...) or None
            Inputs of which the step is given the rows of its block.

        Returns
        -------
        arrays, sums : tuples
            Arrays of all vertices, along the last axis, and sums over them.
        """

    def run_on_some(self, step: Step, chosen: BoolArray | None, *own: Array | None) -> Found:
        """Run a step over some of the vertices; over all of them where none are chosen.

        Parameters
        ----------
        step : Step
            What to do with a block.
        chosen : (n_vertices,) bool or None
            Which vertices, as from `values.sampling.evenly_spread`.
        *own : (n_vertices, ...) or None
            Inputs of all vertices.

        Returns
        -------
        arrays, sums : tuples
            Arrays of the chosen vertices, along the last axis, and sums over them.
        """

    def sample(self, chosen: BoolArray) -> Products:
        """Products of some of the vertices, in the same unit; their values are copied."""

    def run_residuals(
        self,
        step: ResidualStep,
        means: Array,
        course: Array,
        loadings: Array,
        *own: Array | None,
    ) -> Found:
        """Run a step over the values less their vertex's mean and less a course.

        Residuals are V_ln - mean_l - sum_j course_nj loading_lj in standard units, and 0 where
        nothing was observed.

        Parameters
        ----------
        step : ResidualStep
            What to do with a block's residuals.
        means : (n_vertices,)
            Mean of every vertex in standard units.
        course : (n_visits, n)
            What visits have in common ...
        loadings : (n_vertices, n)
            ... and how much of it goes with a vertex.
        *own : (n_vertices, ...) or None
            Other inputs of which the step is given the rows of its block.

        Returns
        -------
        arrays, sums : tuples
        """

    def select(self, visits: IntArray) -> Products:
        """Products of some visits, in the same unit; the values are not copied."""

    def weighted(self, weights: Array | None) -> Products:
        """Products in which visits count as often as their weights say, in the same unit.

        Sums over visits (`distances`, `counts`, `means`, `energies`, `squares`, `features`) are
        the same as if visit n were there weights[n] times, and row n of `sum_residuals` is
        multiplied by weights[n]. `pool` and `run_residuals` give what they find visit by visit,
        and do not change.

        Parameters
        ----------
        weights : (n_visits,) or None
            0 or more, not all 0; in place of those there were. None counts every visit once.
        """

    def adjusted(self, adjustment: Adjustment | None) -> Products:
        """Products of values less the offsets of their sites, in the same unit; none are copied.

        Parameters
        ----------
        adjustment : Adjustment or None
            In place of the one there was; None for the values as they are.
        """
