"""Every product of the values, made from steps that somebody else runs over the vertices."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.errors import ParameterError
from braindive.values.adjustment import Adjusted
from braindive.values.arithmetic import (
    Distances,
    Features,
    Pool,
    PowerStep,
    Residuals,
    Summarise,
    SumResiduals,
    Sweep,
)
from braindive.values.blocks import Adjustment, Block, Found, Own, ResidualStep, Step, Summary, Unit
from braindive.values.coordinates import Coordinates
from braindive.values.protocol import AssignVertices, Swept
from braindive.values.sampling import FEW, Copy, OfSome, evenly_spread
from braindive.values.threads import in_threads

# In which values are summarised before their standard unit is known: their own.
AS_THEY_ARE = Unit(0.0, 1.0)
# Vertices that are worked on at once where values were copied. A choice.
_PIECE = 2048


T = TypeVar("T")


class kept_without_lock(Generic[T]):  # noqa: N801
    """Like `functools.cached_property`, which before Python 3.12 has one lock for all instances.

    Products on a cluster in this very process would hold it while their parts wait for it.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value = self._function(instance)
        instance.__dict__[self._name] = value
        return value


class BlockProducts(ABC):
    """All products, for a place where values are kept that can run a step over all vertices.

    A new place is one class with `run_step` and `with_visits`; see `LocalProducts`.

    Parameters
    ----------
    n_visits, n_vertices : int
        Size of the values.
    dtype : dtype
        Precision of the values.
    missing : bool
        Whether there are holes.
    unit : Unit or None
        Standard unit of the values; None takes their own global mean and spread.
    """

    found_travels: ClassVar[bool] = False
    """Whether what steps find comes from other machines, so that less of it is better."""
    depends_on_visits: ClassVar[tuple[str, ...]] = (
        "summary",
        "unit",
        "counts",
        "means",
        "energies",
    )
    """What is cached and holds for these visits and weights only."""

    def __init__(
        self,
        n_visits: int,
        n_vertices: int,
        dtype: np.dtype[Any],
        missing: bool,
        unit: Unit | None = None,
    ) -> None:
        self.n_visits, self.n_vertices = n_visits, n_vertices
        self.dtype, self.missing = np.dtype(dtype), missing
        self.weights: Array | None = None
        self.adjustment: Adjustment | None = None
        self._unit = unit
        self._sampled: tuple[BoolArray, CopiedProducts] | None = None

    @abstractmethod
    def run_step(self, step: Step, unit: Unit, own: Own) -> Found:
        """Run a step over all vertices; blocks come in this unit, and with `weights`.

        Arrays are joined along the vertices, and sums are added.
        """

    @abstractmethod
    def with_visits(self, visits: IntArray) -> Self:
        """A copy whose blocks have only these of the visits; `select` sees to the rest."""

    def run(self, step: Step, *own: Array | None) -> Found:
        """Run a step over all vertices; see `Products.run`."""
        return self._run(step, self.unit, own)

    def _run(self, step: Step, unit: Unit, own: Own) -> Found:
        """Run a step over all vertices, on adjusted values where there is an adjustment."""
        if self.adjustment is None:
            return self.run_step(step, unit, own)
        known = self.summary if step.needs_summary else ()
        offsets = np.ascontiguousarray(self.adjustment.offsets.T)
        return self.run_step(Adjusted(step, self.adjustment.sites), unit, (offsets, *known, *own))

    @kept_without_lock
    def summary(self) -> Summary:
        """Count, mean and sum of squared deviations of each vertex, in the unit of the values."""
        (counts, means, energies), _ = self._run(Summarise(), AS_THEY_ARE, ())
        return counts, means, energies

    @kept_without_lock
    def unit(self) -> Unit:
        """Standard unit of the values: standard values are (V - offset) / scale."""
        return self._unit if self._unit is not None else Unit.of(*self.summary)

    @kept_without_lock
    def counts(self) -> Array:
        """Number of observed visits of each vertex, or the sum of their weights."""
        if self.missing:
            return self.summary[0]
        total = self.n_visits if self.weights is None else self.weights.sum()
        return np.full(self.n_vertices, float(total))

    @kept_without_lock
    def means(self) -> Array:
        """Mean of each vertex over its observed visits, in standard units."""
        counts, means, _ = self.summary
        return self.unit.standard_means(counts, means)

    @kept_without_lock
    def energies(self) -> Array:
        """Sum of squared deviations of each vertex from its mean, in standard units."""
        return self.summary[2] / self.unit.scale**2

    @property
    def squares(self) -> Array:
        """sum_n V_ln^2 of each vertex in standard units."""
        return self.energies + self.counts * self.means**2

    def distances(self, curves: Array) -> Array:
        """Squared distance of every vertex to every curve; see `Products.distances`."""
        (found,), _ = self.run(Distances(curves, self.weights, self.dtype))
        return found.T

    def pool(self, responsibilities: Array) -> tuple[Array, Array]:
        """Sums over the vertices of each cluster; see `Products.pool`."""
        _, (sums, weights) = self.run(Pool(), responsibilities)
        return self._standard_sums(sums, weights)

    def sweep(
        self,
        curves: Array,
        assign: AssignVertices,
        field: Array | None = None,
        derivatives: Array | None = None,
    ) -> Swept:
        """Distances, assignment and pooling in one read; see `Products.sweep`."""
        distances: Step
        if derivatives is None:
            distances = Distances(curves, self.weights, self.dtype)
        else:
            distances = Coordinates(curves, derivatives, self.weights, self.dtype)
        again = self.found_travels and derivatives is None
        found, (sums, weights, *more) = self.run(Sweep(distances, assign, again), field)
        if again:
            density, responsibilities, _ = assign(found, self.counts, field)
        else:
            density, responsibilities = found[0].T, found[1].T
        pooled = self._standard_sums(sums, weights)
        return Swept(density, responsibilities, *pooled, tuple(more))

    def features(self, directions: Array) -> Array:
        """Level and directions of every vertex; see `Products.features`."""
        (found,), _ = self.run(Features(directions, self.weights, self.dtype))
        return found.T

    def power_step(self, directions: Array) -> Array:
        """Directions times V'V of enough vertices; see `Products.power_step`."""
        step = PowerStep(Features(directions, self.weights, self.dtype))
        _, (sums, weights) = self.run_on_some(step, evenly_spread(self.n_vertices))
        return self._standard_sums(sums, weights)[0]

    def sum_residuals(self, curves: Array, responsibilities: Array, power: int) -> Array:
        """Sums of residuals, one at a time; see `Products.sum_residuals`."""
        return self.run(SumResiduals(curves, power), responsibilities)[1][0]

    def run_residuals(
        self, step: ResidualStep, means: Array, course: Array, loadings: Array, *own: Array | None
    ) -> Found:
        """Run a step over residuals from a course; see `Products.run_residuals`."""
        return self.run(Residuals(step, course, self.dtype), means, loadings, *own)

    def run_on_some(self, step: Step, chosen: BoolArray | None, *own: Array | None) -> Found:
        """Run a step over some of the vertices; see `Products.run_on_some`."""
        if chosen is None:
            return self.run(step, *own)
        if np.mean(chosen) > FEW:
            return self.run(OfSome(step), chosen, *own)
        mine = (None if each is None else each[chosen] for each in own)
        return self.sample(chosen).run(step, *mine)

    def sample(self, chosen: BoolArray) -> CopiedProducts:
        """Products of some of the vertices; see `Products.sample`."""
        if self._sampled is not None and np.array_equal(self._sampled[0], chosen):
            return self._sampled[1]
        (values,), _ = self.run(OfSome(Copy()), chosen)
        found = CopiedProducts(values, self.missing, self.unit)
        found.weights = self.weights
        counts, means, energies = self.summary
        found.summary = (counts[chosen], means[chosen], energies[chosen])
        # The first are asked for again, and reading them takes as long as all.
        if self._sampled is None and np.mean(chosen) <= FEW:
            self._sampled = chosen, found
        return found

    def select(self, visits: IntArray) -> Self:
        """Return the products of some visits, in the same unit; the values are not copied."""
        other = self.with_visits(visits)
        other.n_visits = len(visits)
        other.weights = None if self.weights is None else self.weights[visits]
        other.adjustment = None if self.adjustment is None else self.adjustment.select(visits)
        return other._in_unit_of(self)

    def weighted(self, weights: Array | None) -> Self:
        """Return products with weights of visits; see `Products.weighted`."""
        other = copy.copy(self)
        other.weights = None if weights is None else check_weights(weights, self.n_visits)
        return other._in_unit_of(self)

    def adjusted(self, adjustment: Adjustment | None) -> Self:
        """Return products of values less the offsets of their sites; see `Products.adjusted`."""
        other = copy.copy(self)
        other.adjustment = adjustment
        return other._in_unit_of(self)

    def _in_unit_of(self, other: Self) -> Self:
        """Drop what was known of other visits or weights, but keep the unit."""
        for name in self.depends_on_visits:
            self.__dict__.pop(name, None)
        self._unit, self._sampled = other.unit, None
        return self

    def _standard_sums(self, sums: Array, weights: Array) -> tuple[Array, Array]:
        """Sums from `Pool` in standard units, with the weights of every visit."""
        weights = np.broadcast_to(weights, (self.n_visits, sums.shape[1])).copy()
        offset = 0.0 if self.missing else self.unit.offset
        return (sums - offset * weights) / self.unit.scale, weights


class CopiedProducts(BlockProducts):
    """Products of some values, copied into memory.

    Parameters
    ----------
    values : (n_visits, n_vertices)
        Visits in canonical order.
    missing : bool
        Whether there are holes.
    unit : Unit
        Standard unit of the values.
    """

    def __init__(self, values: Array, missing: bool, unit: Unit) -> None:
        n_visits, n_vertices = values.shape
        super().__init__(n_visits, n_vertices, values.dtype, missing, unit)
        self._values = values

    def with_visits(self, visits: IntArray) -> Self:
        """Return a copy with only these of the visits."""
        other = copy.copy(self)
        other._values = self._values[visits]
        return other

    def run_step(self, step: Step, unit: Unit, own: Own) -> Found:
        """Run a step over all vertices, in pieces as wide as it likes, in threads."""
        summary = self.summary if step.needs_summary else None
        observed = ~np.isnan(self._values) if self.missing else None
        everything = slice(0, self.n_vertices)
        block = Block(everything, self._values, observed, unit, summary, self.weights)

        def take(part: slice) -> Found:
            mine = (None if each is None else each[part] for each in own)
            return step(block.part(part), *mine)

        width = min(step.width(block), _PIECE)
        arrays, totals = zip(*in_threads(take, self.n_vertices, width), strict=True)
        joined = tuple(np.concatenate(parts, axis=-1) for parts in zip(*arrays, strict=True))
        return joined, tuple(np.sum(parts, axis=0) for parts in zip(*totals, strict=True))


def check_weights(weights: Array, n_visits: int) -> Array:
    """Weights of visits as float64: 0 or more, one for each visit, and not all 0."""
    checked = np.asarray(weights, dtype=float)
    if checked.shape != (n_visits,):
        raise ParameterError(
            f"weights have shape {checked.shape}; give one for each of the {n_visits} visits."
        )
    if not np.isfinite(checked).all() or (checked < 0).any() or not checked.any():
        raise ParameterError("weights of visits must be finite, 0 or more, and not all 0.")
    return checked
