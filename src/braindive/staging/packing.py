"""The parameters of the marginal model as one vector of numbers that may take any value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.curves import Bounds, Curves
from braindive.dive.site_offsets import site_basis
from braindive.staging.covariance import CorrelatedStageProblem, Covariance
from braindive.staging.likelihood import Evaluation
from braindive.staging.matrices import Roots
from braindive.staging.population import Effects, Population

# Clusters up to which E and B are climbed with the rest: their numbers grow with the square of
# that of the clusters. With more, as in atlases, they are updated by the EM. A choice.
_MOST_CLUSTERS = 30


class Part(IntEnum):
    """Parts of the vector, in their order."""

    CURVES = 0
    WITHIN = 1
    BETWEEN = 2
    SHIFT_MEANS = 3
    LOG_SHIFT_SDS = 4
    LOG_SPEED_MEANS = 5
    LOG_LOG_SPEED_SDS = 6
    SKEW = 7
    SITES = 8
    SHIFT_EFFECTS = 9
    LOG_SPEED_EFFECTS = 10


# What stages depend on of the population, in the order of `Packing.parameter_jacobian`.
_OF_POPULATION = (
    Part.SHIFT_MEANS,
    Part.LOG_SHIFT_SDS,
    Part.LOG_SPEED_MEANS,
    Part.LOG_LOG_SPEED_SDS,
)


@dataclass(frozen=True)
class Packing:
    """How curves, E, B and the population become a vector, and back.

    Curves' parameters that are bounded from below by something positive are packed as logarithms,
    spreads as logarithms, and E and B in units of those from which a fit begins (`matrices`).
    What fixes the score's origin and unit is not packed: the last group's mean shift is 0 and its
    mean speed 1, or without follow-up, where nobody's speed can be known, its spread is 1.

    Parameters
    ----------
    curve : type of Curves
        Shape of the trajectories.
    logarithmic : (n_parameters,) bool
        Which of a curve's parameters are packed as logarithms.
    n_clusters, n_groups : int
        Sizes.
    has_follow_up : bool
        Whether anybody was seen more than once.
    speeds_vary : bool
        Whether people differ in speed.
    within, between : Roots or None
        How E and B are packed; None where they are not.
    n_effects : (int, int)
        Effects of covariates on the shift, and on the log speed.
    curves_vary : bool
        Whether curves are packed; else they stay as they are.
    is_skewed : bool
        Whether the shifts of the last group are skewed; else they are normal.
    sites : (n_sites, n) or None
        Basis of the offsets of the sites: by default such that they average 0 over all visits.
    """

    curve: type[Curves]
    logarithmic: BoolArray
    n_clusters: int
    n_groups: int
    has_follow_up: bool
    speeds_vary: bool
    within: Roots | None
    between: Roots | None
    n_effects: tuple[int, int] = (0, 0)
    curves_vary: bool = True
    is_skewed: bool = False
    sites: Array | None = None

    @classmethod
    def of(
        cls, problem: CorrelatedStageProblem, bounds: Bounds, speeds_vary: bool = True
    ) -> Packing:
        """Return the packing of a problem's parameters."""
        effects = problem.prior.population.effects
        curve, follow_up = type(problem.trajectories), problem.timeline.has_follow_up
        climbed = len(problem.noise) <= _MOST_CLUSTERS
        lows = [bounds.limits.get(name, (-np.inf, np.inf))[0] for name in curve.names()]
        return cls(
            curve,
            np.array(lows) > 0,
            len(problem.noise),
            problem.prior.population.n_groups,
            follow_up,
            speeds_vary and follow_up,
            Roots.of(problem.covariance.within) if climbed else None,
            Roots.of(problem.covariance.between) if climbed and follow_up else None,
            (0, 0) if effects is None else (len(effects.shift), len(effects.log_speed)),
            is_skewed=problem.prior.population.skews is not None,
            sites=None
            if problem.sites is None
            else site_basis(problem.sites.sites, len(problem.sites.offsets)),
        )

    @property
    def n_curves(self) -> int:
        """Parameters of all curves."""
        return self.n_clusters * self.curve.n_parameters()

    @cached_property
    def sizes(self) -> list[int]:
        """Lengths of the parts."""
        others = self.n_groups - 1
        on_shift, on_log_speed = self.n_effects
        lengths = {
            Part.CURVES: self.n_curves if self.curves_vary else 0,
            Part.WITHIN: 0 if self.within is None else self.within.n_numbers,
            Part.BETWEEN: 0 if self.between is None else self.between.n_numbers,
            Part.SHIFT_MEANS: others,
            Part.LOG_SHIFT_SDS: self.n_groups if self.has_follow_up else others,
            Part.LOG_SPEED_MEANS: others if self.speeds_vary else 0,
            Part.LOG_LOG_SPEED_SDS: self.n_groups if self.speeds_vary else 0,
            Part.SKEW: 1 if self.is_skewed else 0,
            Part.SITES: 0 if self.sites is None else self.sites.shape[1] * self.n_clusters,
            Part.SHIFT_EFFECTS: on_shift,
            Part.LOG_SPEED_EFFECTS: on_log_speed,
        }
        return [lengths[part] for part in Part]

    @cached_property
    def _slices(self) -> list[slice]:
        ends = np.cumsum(self.sizes).tolist()
        return [slice(end - size, end) for size, end in zip(self.sizes, ends, strict=True)]

    def of_stages(self) -> IntArray:
        """Which numbers stages depend on directly: all but those of E and B."""
        before, after = self._slices[Part.WITHIN].start, self._slices[Part.BETWEEN].stop
        return np.r_[:before, after : sum(self.sizes)]

    @property
    def of_sites(self) -> slice:
        """Which numbers are offsets of sites."""
        return self._slices[Part.SITES]

    def parts(self, vector: Array) -> list[Array]:
        """Split a vector, or the last axis of an array of them, into its parts (see `Part`)."""
        return [vector[..., part] for part in self._slices]

    def pack_curves(self, curves: Curves) -> Array:
        """Parameters of the curves, (n_clusters, n_parameters)."""
        array = curves.to_array()
        array[:, self.logarithmic] = np.log(array[:, self.logarithmic])
        return array

    def pack(self, problem: CorrelatedStageProblem) -> Array:
        """Return the parameters of a problem as a vector."""
        people, covariance = problem.prior.population, problem.covariance
        parts = [self.pack_curves(problem.trajectories).ravel()] if self.curves_vary else []
        if self.within is not None:
            parts.append(self.within.pack(covariance.within))
        if self.between is not None:
            parts.append(self.between.pack(covariance.between))
        parts.append(people.shift_means[:-1])
        parts.append(np.log(people.shift_sds)[: self.n_groups - (not self.has_follow_up)])
        if self.speeds_vary:
            parts += [people.log_speed_means[:-1], np.log(people.log_speed_sds)]
        if people.skews is not None:
            parts.append(people.skews[-1:])
        if self.sites is not None and problem.sites is not None:
            parts.append((self.sites.T @ problem.sites.offsets).ravel())
        if people.effects is not None:
            parts += [people.effects.shift, people.effects.log_speed]
        return np.concatenate(parts)

    def unpack_curves(self, numbers: Array) -> Curves:
        """Undo `pack_curves`."""
        array = numbers.reshape(self.n_clusters, -1).copy()
        array[:, self.logarithmic] = np.exp(array[:, self.logarithmic])
        return self.curve.from_array(array)

    def unpack(self, vector: Array, problem: CorrelatedStageProblem) -> CorrelatedStageProblem:
        """Return the problem with the parameters of a vector."""
        parts = self.parts(vector)
        old, people = problem.covariance, problem.prior.population
        e = old.within if self.within is None else self.within.unpack(parts[Part.WITHIN])
        b = old.between if self.between is None else self.between.unpack(parts[Part.BETWEEN])
        shift_sds = np.exp(parts[Part.LOG_SHIFT_SDS])
        if not self.has_follow_up:
            shift_sds = np.append(shift_sds, 1.0)
        speed_means, speed_sds = people.log_speed_means, people.log_speed_sds
        if self.speeds_vary:
            speed_sds = np.exp(parts[Part.LOG_LOG_SPEED_SDS])
            speed_means = np.append(parts[Part.LOG_SPEED_MEANS], -0.5 * speed_sds[-1] ** 2)
        effects, skews = people.effects, None
        if effects is not None:
            effects = Effects(parts[Part.SHIFT_EFFECTS], parts[Part.LOG_SPEED_EFFECTS])
        if self.is_skewed:
            skews = np.append(np.zeros(self.n_groups - 1), parts[Part.SKEW])
        population = Population(
            np.append(parts[Part.SHIFT_MEANS], 0.0),
            shift_sds,
            speed_means,
            speed_sds,
            people.shares,
            effects,
            skews,
        )
        sites, curves = problem.sites, problem.trajectories
        if self.sites is not None and sites is not None:
            offsets = parts[Part.SITES].reshape(-1, self.n_clusters)
            sites = replace(sites, offsets=self.sites @ offsets)
        if self.curves_vary:
            curves = self.unpack_curves(parts[Part.CURVES])
        return replace(
            problem,
            sites=sites,
            trajectories=curves,
            covariance=Covariance(e, b, old.weights),
            prior=replace(problem.prior, population=population),
        )

    def gradients(self, vector: Array, problem: CorrelatedStageProblem, at: Evaluation) -> Array:
        """Gradient of each subject's log-likelihood by the vector, (n_subjects, n_numbers)."""
        return np.concatenate(self._gradient_parts(vector, problem, at), axis=1)

    def gradient(self, vector: Array, problem: CorrelatedStageProblem, at: Evaluation) -> Array:
        """Sum of these over subjects, (n_numbers,); derivatives by E and B may be sums already."""
        at = replace(
            at,
            by_curves=at.by_curves.sum(axis=0)[None],
            by_within=at.by_within.sum(axis=0)[None],
            by_between=at.by_between.sum(axis=0)[None],
        )
        parts = self._gradient_parts(vector, problem, at)
        return np.concatenate([part.sum(axis=0) for part in parts])

    def _gradient_parts(
        self, vector: Array, problem: CorrelatedStageProblem, at: Evaluation
    ) -> list[Array]:
        """Gradients by the parts of the vector, which have as many rows as what they are of."""
        parts, packed = [], self.parts(vector)
        if self.curves_vary:
            by_curves = at.by_curves.copy()
            by_curves[..., self.logarithmic] *= problem.trajectories.to_array()[:, self.logarithmic]
            parts.append(by_curves.reshape(len(by_curves), -1))
        if self.within is not None:
            parts.append(self.within.gradients(at.by_within, packed[Part.WITHIN]))
        if self.between is not None:
            parts.append(self.between.gradients(at.by_between, packed[Part.BETWEEN]))
        *population, effects = self._population_gradients(problem, at)
        parts += population
        if self.sites is not None and problem.sites is not None:
            by_sites = problem.sites.by_subject(at.by_means, problem.timeline)
            parts.append(np.einsum("igk,gf->ifk", by_sites, self.sites).reshape(len(effects), -1))
        return [*parts, effects]

    def parameter_jacobian(self, problem: CorrelatedStageProblem) -> Array:
        """Derivatives of what stages depend on by the vector, (n_parameters, n_numbers).

        Parameters are those of the curves, then every group's mean of the shift, its log-sd, the
        mean of the log speed and its log-sd, then the offsets of every site, and then the effects
        of covariates on both means.
        """
        people, n_groups = problem.prior.population, self.n_groups
        n_effects, n_population = sum(self.n_effects), self.n_curves + 4 * n_groups
        n_offsets = 0 if self.sites is None else len(self.sites) * self.n_clusters
        found = np.zeros((n_population + n_offsets + n_effects, sum(self.sizes)))
        if self.sites is not None:
            by_offsets = np.kron(self.sites, np.eye(self.n_clusters))
            found[n_population : n_population + n_offsets, self.of_sites] = by_offsets
        if self.curves_vary:
            lever = np.where(self.logarithmic, problem.trajectories.to_array(), 1.0)
            found[: self.n_curves, : self.n_curves] = np.diag(lever.ravel())
        if n_effects:
            found[-n_effects:, -n_effects:] = np.eye(n_effects)
        for place, part in enumerate(_OF_POPULATION):
            for group in range(self.sizes[part]):
                column = self._slices[part].start + group
                found[self.n_curves + place * n_groups + group, column] = 1.0
        if self.speeds_vary:
            last_mean = self.n_curves + 3 * n_groups - 1
            last_spread = self._slices[Part.LOG_LOG_SPEED_SDS].stop - 1
            found[last_mean, last_spread] = -(people.log_speed_sds[-1] ** 2)
        return found

    def _population_gradients(self, problem: CorrelatedStageProblem, at: Evaluation) -> list[Array]:
        """Each subject's gradient by its own group's parameters, 0 by the others', and effects.

        The effects are the last part, and may be none.
        """
        prior, people, groups = problem.prior, problem.prior.population, problem.prior.groups
        member = (groups[:, None] == np.arange(self.n_groups)).astype(float)
        of_mean, of_spread, of_speed, of_speed_spread = _by_means(problem, at)
        by_mean, by_spread, by_speed, by_speed_spread = (
            member * column[:, None] for column in (of_mean, of_spread, of_speed, of_speed_spread)
        )
        # The last group's mean of the log speed moves with its spread: the mean speed is 1.
        by_speed_spread[:, -1] -= people.log_speed_sds[-1] ** 2 * by_speed[:, -1]
        parts = [by_mean[:, :-1], by_spread if self.has_follow_up else by_spread[:, :-1]]
        if self.speeds_vary:
            parts += [by_speed[:, :-1], by_speed_spread]
        if at.by_skew is not None:
            parts.append(member[:, -1:] * at.by_skew[:, None])
        by_effects = [np.zeros((len(groups), 0))]
        if prior.design is not None:
            by_effects += [
                prior.design.shift * of_mean[:, None],
                prior.design.log_speed * of_speed[:, None],
            ]
        return [*parts, np.concatenate(by_effects, axis=1)]


def _by_means(problem: CorrelatedStageProblem, at: Evaluation) -> tuple[Array, ...]:
    """Gradients by each subject's own mean and log-sd of the shift, and of the log speed."""
    prior, groups = problem.prior, problem.prior.groups
    of_mean, of_spread, of_speed, of_speed_spread = at.by_population.T
    if prior.design is not None:
        # Who is faster is further on at the mean of its visits too.
        on_the_way = of_mean * prior.leads(groups)
        sds = prior.population.log_speed_sds[groups]
        of_speed, of_speed_spread = of_speed + on_the_way, of_speed_spread + on_the_way * sds**2
    return of_mean, of_spread, of_speed, of_speed_spread
