"""What a fit is given, what it estimates, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from braindive.arrays import Array
from braindive.dive.curves import Bounds, Curves
from braindive.dive.priors import Priors
from braindive.dive.timeline import Timeline
from braindive.values.protocol import Products

# Strength of the field below which neighbours do not belong together: vertices that differ would
# only make labels less sure, and nothing would make up for it. On a simulated cortex with shuffled
# vertices, agreement was .56 in place of .62. And the strength below which a field that has settled
# has lost against the data: 1.2 with 400 people, and 4 to 12 on cohorts where it had not.
_PATTERN, _WEAK = 0.3, 2.0


@dataclass(frozen=True)
class Parameters:
    """Everything that is estimated but z, in internal units.

    Where vertices differ, `noise` is that around a vertex's own curve, `vertex_covariance` is
    Psi, (n_clusters, n_parameters, n_parameters), and `shares` are the clusters' shares of the
    vertices; both are None where vertices are alike.
    """

    trajectories: Curves
    noise: Array
    speeds: Array
    shifts: Array
    strength: float | None = None
    vertex_covariance: Array | None = None
    shares: Array | None = None


@dataclass(frozen=True)
class Problem:
    """What a fit is given.

    Parameters
    ----------
    measurements : Products
        The products of the values.
    timeline : Timeline
        When subjects were seen.
    priors : Priors
        Priors, with the shift's in score units.
    bounds : Bounds
        Of the trajectories.
    graph : sparse (n_vertices, n_vertices) or None
        Neighbours; None for no Markov random field.
    strength : float or None
        lambda where it is fixed; None to estimate it.
    fixed : (n_vertices, n_clusters) or None
        Responsibilities where they are fixed.
    staging : bool
        Whether alpha and beta are estimated.
    exact : bool
        Whether the M-step sums over vertices instead of using pooled means.
    vertices : {"alike", "differ", "auto"}
        Whether vertices have curves of their own around their cluster's; "auto" where a Markov
        random field would else lose against the data.
    each : float
        Vertices that each one stands for: more than 1 where these are a sample of all.
    """

    measurements: Products
    timeline: Timeline
    priors: Priors
    bounds: Bounds
    graph: csr_array | None = None
    strength: float | None = None
    fixed: Array | None = None
    staging: bool = True
    exact: bool = False
    vertices: Literal["alike", "differ", "auto"] = "alike"
    each: float = 1.0

    def vertices_differ(self, parameters: Parameters, few_change: bool = False) -> bool:
        """Whether vertices have curves of their own at this point of the fit.

        By default they get them where labels have settled and the field is weak, though neighbours
        do belong together: there the data are too sure of themselves.
        """
        if self.vertices != "auto":
            return self.vertices == "differ"
        strength = parameters.strength
        if self.graph is None or strength is None or strength < _PATTERN:
            return False
        return parameters.vertex_covariance is not None or (few_change and strength < _WEAK)


@dataclass(frozen=True)
class State:
    """Where a fit stands after an iteration: enough to report it, to keep it and to go on.

    Parameters
    ----------
    parameters : Parameters
        theta, sigma, alpha, beta, lambda.
    responsibilities : (n_vertices, n_clusters)
        z.
    log_densities : (n_vertices, n_clusters) or None
        D at these parameters; None before the first iteration.
    settled : (n_vertices, n_clusters) or None
        z after its neighbours have adapted to it, which the next iteration's field is made from.
    pooled : tuple of (n_visits, n_clusters), or None
        Sums of the measurements and of the weights over z, as the iteration found them; None
        before the first one. Pooled anew they would differ in the last digits.
    """

    parameters: Parameters
    responsibilities: Array
    log_densities: Array | None = None
    settled: Array | None = None
    pooled: tuple[Array, Array] | None = None


def log_prior(problem: Problem, parameters: Parameters) -> float:
    """Log-density of the priors at the parameters, up to a constant."""
    priors, value = problem.priors, 0.0
    if problem.staging:
        value += float(np.sum(priors.speed.log_density(parameters.speeds)))
        value += float(np.sum(priors.shift.log_density(parameters.shifts)))
    if priors.trajectory is not None:
        value += float(np.sum(priors.trajectory.log_density(parameters.trajectories.to_array())))
    return value
