"""Sites of a simulated cohort: who is seen where, and what each scanner adds and multiplies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from braindive.arrays import Array, BoolArray, IntArray
from braindive.errors import ParameterError
from braindive.space.smoothing import smooth_over_graph

# Rounds of neighbour averaging of the maps of sites: scanners differ in wide areas. A choice.
_SMOOTHING = 20
# Share of the variance of a site's map that is the same at all its vertices. A choice: the part
# that is most like a disease is as large as the rest.
_COMMON = 0.5


@dataclass(frozen=True)
class SimulatedSites:
    """Sites of a simulated cohort.

    Attributes
    ----------
    sites : (n_visits,) int
        Site of each visit.
    offsets, scales : (n_sites, n_vertices)
        What each adds to the values, and by how much it multiplies their noise.
    """

    sites: IntArray
    offsets: Array
    scales: Array


def draw_sites(
    n_sites: int,
    subject: IntArray,
    controls: BoolArray,
    n_vertices: int,
    graph: csr_array | None,
    random: np.random.Generator,
    *,
    location: float,
    scale: float,
    change: float,
) -> SimulatedSites:
    """Draw sites; the words are `simulate_cohort`'s.

    Site 1 has many controls and few patients, the last one few controls and many patients.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.simulation.sites import draw_sites
    >>> found = draw_sites(
    ...     2, np.repeat(np.arange(30), 2), np.arange(30) < 15, 5, None, np.random.default_rng(0),
    ...     location=0.5, scale=0.5, change=0.1,
    ... )
    >>> found.offsets.shape, int((found.sites[::2] != found.sites[1::2]).sum())
    ((2, 5), 3)
    """
    _check(n_sites, location, scale, change)
    n_subjects = len(controls)
    weights = np.arange(1, n_sites + 1) / np.arange(1, n_sites + 1).sum()
    home = np.empty(n_subjects, dtype=int)
    for members, shares in ((controls, weights[::-1]), (~controls, weights)):
        # As many as the shares say, so that cohorts differ in who they are and not in how many.
        edges = np.round(np.cumsum(shares) * members.sum())
        home[members] = random.permutation(np.searchsorted(edges, np.arange(members.sum()) + 0.5))
    starts = np.flatnonzero(np.diff(subject, prepend=-1))
    counts = np.diff(np.append(starts, len(subject)))
    sites = home[subject]
    several = np.flatnonzero(counts > 1)
    movers = random.choice(several, round(change * len(several)), replace=False)
    for person in movers:
        first = starts[person] + random.integers(1, counts[person])
        elsewhere = (home[person] + random.integers(1, n_sites)) % n_sites if n_sites > 1 else 0
        sites[first : starts[person] + counts[person]] = elsewhere
    offsets, logs = (_maps(n_sites, n_vertices, graph, random) for _ in range(2))
    return SimulatedSites(sites, location * offsets, np.exp(scale * logs))


def _maps(
    n_sites: int, n_vertices: int, graph: csr_array | None, random: np.random.Generator
) -> Array:
    """Maps of variance 1 over sites and vertices."""
    own = random.standard_normal((n_sites, n_vertices))
    if graph is not None:
        own = smooth_over_graph(own.T, graph, _SMOOTHING).T
        own /= np.sqrt(np.mean(own**2))
    whole = random.standard_normal((n_sites, 1))
    return np.asarray(np.sqrt(_COMMON) * whole + np.sqrt(1 - _COMMON) * own)


def _check(n_sites: int, location: float, scale: float, change: float) -> None:
    whole = isinstance(n_sites, (int, np.integer)) and not isinstance(n_sites, bool)
    if not whole or n_sites < 1:
        raise ParameterError(f"sites must be a number of sites, at least 1; got {n_sites!r}.")
    if location < 0 or scale < 0:
        raise ParameterError("site_location and site_scale are spreads over sites, at least 0.")
    if not 0 <= change <= 1:
        raise ParameterError(f"site_change is a share of the people, 0 to 1; got {change}.")
