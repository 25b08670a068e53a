"""What the model asks of a curve: everything that depends on its shape, and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.cluster_names import ClusterFrame, cluster_frame
from braindive.dive.priors import Normal

# Points at which the onset of a curve that has no formula for it is looked for: a thousandth of
# the range of the scores is far finer than anyone's score is known.
_GRID = 1001
# Step of the derivative of a curve's onset, relative to its parameter: the cube root of the machine
# precision, as for any central difference.
_STEP = 6e-6


@cache
def _field_names(curve: type) -> tuple[str, ...]:
    """Of a dataclass; asked for at every step of a fit."""
    return tuple(field.name for field in fields(curve))


class LeastSquares(NamedTuple):
    """How far curves lie from points, and how that changes with their parameters.

    Parameters
    ----------
    loss : (n_curves,)
        sum_n w_n (y_n - f_n)^2.
    gradient : (n_parameters, n_curves)
        sum_n w_n (y_n - f_n) df_n: minus half of the loss's.
    information : (n_parameters, n_parameters, n_curves)
        sum_n w_n df_n df_n'.
    bend : (n_parameters, n_parameters, n_curves)
        sum_n w_n (y_n - f_n) d2f_n, by which half of the loss's Hessian is less than the
        information; 0 where a shape does not know it.
    """

    loss: Array
    gradient: Array
    information: Array
    bend: Array


@dataclass(frozen=True)
class Curves(ABC):
    """One curve per cluster, all of one shape.

    A shape is a frozen dataclass that inherits from this one. Its fields, each (n_clusters,), are
    its parameters, in this order everywhere: in arrays, in priors and in the columns of tables.
    """

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the parameters of one curve."""
        return _field_names(cls)

    @classmethod
    def n_parameters(cls) -> int:
        """Number of parameters of one curve."""
        return len(_field_names(cls))

    @classmethod
    def from_array(cls, parameters: Array) -> Self:
        """Return curves from an array of shape (n_clusters, n_parameters).

        Single precision is kept, which is enough for the many curves of single vertices.
        """
        parameters = np.asarray(parameters)
        single = parameters.dtype == np.float32
        return cls(*np.ascontiguousarray(parameters.T, None if single else float))

    def to_array(self) -> Array:
        """Return an array of shape (n_clusters, n_parameters)."""
        return np.array([getattr(self, name) for name in self.names()]).T.copy()

    def to_frame(self) -> ClusterFrame:
        """Return a table with a row for each cluster, numbered from 1, and its parameters.

        Examples
        --------
        >>> import numpy as np
        >>> from braindive import Trajectories
        >>> curves = Trajectories(*np.array([[-1.0, -2.0], [0.4, 0.4], [0.0, 3.0], [0.0, 0.0]]))
        >>> curves.to_frame()["midpoint"].to_dict()
        {1: 0.0, 2: 3.0}
        """
        return cluster_frame({name: getattr(self, name) for name in self.names()})

    def __len__(self) -> int:
        return len(getattr(self, self.names()[0]))

    def __getitem__(self, index: IntArray) -> Self:
        return self.from_array(self.to_array()[index])

    @abstractmethod
    def evaluate(self, scores: Array) -> Array:
        """Expected values at scores: (n,) to (n, n_clusters)."""

    @abstractmethod
    def slope(self, scores: Array) -> Array:
        """Derivative with respect to the score: (n,) to (n, n_clusters)."""

    @abstractmethod
    def jacobian(self, scores: Array) -> Array:
        """Derivatives with respect to the parameters: (n,) to (n, n_clusters, n_parameters)."""

    def values_and_jacobian(self, scores: Array) -> tuple[Array, Array]:
        """Both at once, for shapes that compute one from the other."""
        return self.evaluate(scores), self.jacobian(scores)

    def values_and_slope(self, scores: Array) -> tuple[Array, Array]:
        """Both at once, for shapes that compute one from the other."""
        return self.evaluate(scores), self.slope(scores)

    def least_squares(self, points: Array, weights: Array, scores: Array) -> LeastSquares:
        """How far each of many curves lies from points of its own.

        A shape whose derivatives share work may have a cheaper way, and one that knows its second
        derivatives lets a search take Newton's steps in place of those of Gauss and Newton.

        Parameters
        ----------
        points, weights : (n, n_curves)
            y_n and w_n of each curve.
        scores : (n,)
            Where.
        """
        values, derivatives = self.values_and_jacobian(scores)
        parts = np.moveaxis(derivatives, 2, 0)
        residuals = points - values
        weighted = weights * residuals
        information = np.empty((len(parts), *parts.shape[::2]), dtype=parts.dtype)
        for p in range(len(parts)):
            information[p, p:] = np.einsum("nk,qnk->qk", weights * parts[p], parts[p:])
            information[p + 1 :, p] = information[p, p + 1 :]
        return LeastSquares(
            np.einsum("nk,nk->k", weighted, residuals),
            np.einsum("pnk,nk->pk", parts, weighted),
            information,
            np.zeros_like(information),
        )

    def at_points(self, scores: Array) -> AtPoints:
        """Values at several scores of every visit, (n_visits, n_points), with derivatives.

        A shape whose values and derivatives share work may have a cheaper way.
        """
        shape, flat = (len(self), *scores.shape), scores.ravel()
        jacobian = self.jacobian(flat).T
        return CurvesAtPoints(
            np.ascontiguousarray(self.evaluate(flat).T).reshape(shape),
            np.ascontiguousarray(self.slope(flat).T).reshape(shape),
            np.ascontiguousarray(jacobian).reshape(-1, *shape),
        )

    @abstractmethod
    def rescored(self, centre: float, spread: float) -> Self:
        """Return the same curves over the score (s - centre) / spread."""

    @abstractmethod
    def revalued(self, offset: float, scale: float) -> Self:
        """Return curves whose values are offset + scale times these."""

    @classmethod
    @abstractmethod
    def bounds(cls, scores: Array) -> Bounds:
        """Return where the parameters may lie if these are the scores of the visits."""

    @classmethod
    @abstractmethod
    def search(cls, values: Array, weights: Array, scores: Array, bounds: Bounds) -> Self:
        """Return roughly the best curves through some points: the fit starts from them.

        Parameters
        ----------
        values, weights : (n, n_clusters)
            Mean of each cluster at each point, and its weight.
        scores : (n,)
            Where the points are.
        bounds : Bounds
            Where the parameters may lie.
        """

    @classmethod
    def has_amplitude(cls) -> bool:
        """Whether the first parameter is the change from one plateau to the other."""
        return False

    def weak_prior(
        self, centre: float, spread: float, values: Array, change: float, logarithmic: BoolArray
    ) -> Normal:
        """Prior of the parameters in units of the data, for what the data do not tell.

        Here ten times as wide as any change that was seen, around 0.

        Parameters
        ----------
        centre, spread : float
            Of the scores.
        values : (n_clusters,)
            Mean of each cluster.
        change : float
            About the largest change that the data show.
        logarithmic : (n_parameters,) bool
            Parameters whose logarithm the prior is of.

        Returns
        -------
        Normal
            Arrays of shape (n_clusters, n_parameters).
        """
        shape = (len(self), self.n_parameters())
        middle = np.where(logarithmic, -np.log(spread), 0.0)
        wide = np.where(logarithmic, 2.0, 10 * max(change, abs(centre) + spread))
        return Normal(np.broadcast_to(middle, shape), np.broadcast_to(wide, shape))

    def reached(self, scores: Array) -> BoolArray:
        """Whether anybody has reached the early and the late plateau, (n_clusters, 2).

        Curves without plateaus know nothing beyond the scores that were seen, and claim nothing.
        """
        return np.ones((len(self), 2), dtype=bool)

    def canonical(self) -> Self:
        """Return the same curves by that one of several equal sets of parameters that is shown."""
        return self

    def change(self, scores: Array) -> Array:
        """Signed change of each curve over the course of the disease, (n_clusters,).

        Here from the first to the last of the scores that were seen. A curve that levels off at
        both ends has a change of its own, however much of it was seen.
        """
        first, last = self.evaluate(np.array([np.min(scores), np.max(scores)]))
        return np.asarray(last - first)

    def onset(self, scores: Array) -> Array:
        """Score at which each curve is half-way through its change, (n_clusters,).

        Clusters are ordered by it, from the earliest to the latest affected.
        """
        grid = np.linspace(np.min(scores), np.max(scores), _GRID)
        values = self.evaluate(grid)
        way = (values - values[0]) * np.sign(values[-1] - values[0])
        # A little less than half, so that rounding does not order curves that are half-way at once.
        return np.asarray(grid[np.argmax(way >= (0.5 - 1e-9) * way[-1], axis=0)])


class AtPoints(Protocol):
    """Curves at several scores of every visit, which carry gradients back to parameters."""

    @property
    def values(self) -> Array:
        """Of the curves, (n_clusters, n_visits, n_points)."""

    def mixed(self, matrix: Array, offsets: Array) -> Array:
        """Product of a matrix of clusters with the values, and offsets of visits.

        Parameters
        ----------
        matrix : (n_clusters, n_clusters)
        offsets : (n_clusters, n_visits)

        Returns
        -------
        (n_clusters, n_visits, n_points) array
        """

    def pull_back(self, by_values: Array) -> tuple[Array, Array]:
        """From a gradient by the values to those by parameters and scores (the chain rule).

        Parameters
        ----------
        by_values : (n_clusters, n_visits, n_points)

        Returns
        -------
        by_parameters : (n_visits, n_clusters, n_parameters)
            Summed over the points.
        by_scores : (n_visits, n_points)
            Summed over the clusters.
        """


@dataclass(frozen=True)
class CurvesAtPoints:
    """`AtPoints` of any shape.

    Parameters
    ----------
    values, slope : (n_clusters, n_visits, n_points)
        Of the curves.
    jacobian : (n_parameters, n_clusters, n_visits, n_points)
        Derivatives by the parameters.
    """

    values: Array
    slope: Array
    jacobian: Array

    def mixed(self, matrix: Array, offsets: Array) -> Array:
        """Product of a matrix of clusters with the values, and offsets of visits."""
        return np.asarray(np.tensordot(matrix, self.values, 1) + offsets[:, :, None])

    def pull_back(self, by_values: Array) -> tuple[Array, Array]:
        """From a gradient by the values to those by parameters and scores."""
        by_parameters = np.einsum("knq,pknq->nkp", by_values, self.jacobian)
        return by_parameters, np.einsum("knq,knq->nq", by_values, self.slope)


_Shape = TypeVar("_Shape", bound=Curves)


@dataclass(frozen=True)
class Bounds:
    """Where the parameters of curves may lie: beyond, the data cannot tell curves apart.

    Parameters
    ----------
    limits : mapping of str to (float, float)
        Least and largest value of a parameter, by its name. Parameters that are not named may
        take any value.
    """

    limits: Mapping[str, tuple[float, float]]

    def clip(self, curves: _Shape) -> _Shape:
        """Return the curves with their parameters moved into the bounds."""
        inside = {
            # A third of the time of `np.clip`, which counts where curves are many and few at once.
            name: np.minimum(np.maximum(getattr(curves, name), least), most)
            for name, (least, most) in self.limits.items()
        }
        return replace(curves, **inside)

    def binding(self, curves: Curves, gradient: Array) -> BoolArray:
        """Which parameters (n_clusters, n_parameters) lie on a bound and would cross it downhill.

        Parameters
        ----------
        curves : Curves
            Where the parameters are.
        gradient : (n_clusters, n_parameters)
            Of the loss that is to fall.
        """
        binding = np.zeros(gradient.shape, dtype=bool)
        for column, name in enumerate(curves.names()):
            if name in self.limits:
                low, high = self.limits[name]
                value, downhill = getattr(curves, name), -gradient[:, column]
                binding[:, column] = ((value <= low) & (downhill < 0)) | (
                    (value >= high) & (downhill > 0)
                )
        return binding


def onset_gradients(curves: Curves, scores: Array) -> Array:
    """Derivatives of each curve's onset by its own parameters, (n_clusters, n_parameters)."""
    array = curves.to_array()
    found = np.empty_like(array)
    for column in range(array.shape[1]):
        step = _STEP * np.maximum(np.abs(array[:, column]), 1.0)
        ends = []
        for sign in (1.0, -1.0):
            beside = array.copy()
            beside[:, column] += sign * step
            ends.append(type(curves).from_array(beside).onset(scores))
        found[:, column] = (ends[0] - ends[1]) / (2 * step)
    return found


def choose(condition: BoolArray, yes: _Shape, no: _Shape) -> _Shape:
    """Take each cluster's curve from one or the other."""
    return type(no).from_array(np.where(condition[:, None], yes.to_array(), no.to_array()))
