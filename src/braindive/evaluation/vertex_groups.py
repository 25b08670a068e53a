"""How many groups do the vertices' own curves form?

Every vertex has a curve of its own, known with an error. Where areas differ, these curves gather
around a few; where they do not, one normal distribution describes them. Mixtures of normal
distributions of midpoints, or of midpoints and changes, are compared by their likelihood with each
vertex's curve integrated out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from braindive.arrays import Array, IntArray
from braindive.cohort.cohort import Cohort
from braindive.dive.design_effect import without_personal_noise
from braindive.dive.e_step import with_covariance
from braindive.dive.vertex_evidence import learn_population, log_evidence
from braindive.estimator import DIVE
from braindive.evaluation.ring_evidence import evidence_of_rings, neighbourhoods, rings_of
from braindive.evaluation.vertex_mixtures import Places, fit_mixture
from braindive.values.walking import one_thread_per_product

BELIEVED = 2.0
"""Least gain of a number of groups that is positive evidence for it (Kass and Raftery, 1995)."""
# Least gain that is very strong evidence (as above), which groups need that are not all told apart.
_VERY_STRONG = 10.0

PRICE = 3.0
"""What every parameter must gain, in twice the log-likelihood: Akaike's criterion with 3 instead
of 2, as for numbers of mixture components (Bozdogan, 1994). The usual Bayesian criterion asks for
about 7 here and misses groups that overlap."""
# Vertices that are looked at, evenly spread; where each is looked at with its neighbours, fewer.
_MOST_VERTICES = 1000
_MOST_RINGS = 600
# Vertices from which the correlation over the surface is learnt, how far it is followed, and where
# it is as good as none.
_SOURCES = 200
_FURTHEST = 14
_NO_CORRELATION = 0.03
_FEW_PAIRS = 50


class Groups(NamedTuple):
    """How well a number of groups describes the vertices' curves.

    Parameters
    ----------
    gain : float
        Twice the gain in the logarithm of the likelihood over the best smaller number, less what
        its parameters cost; 0 for one group.
    distinct : int
        Groups of the mixture that can be told apart.
    """

    gain: float
    distinct: int

    def are_believed(self, number: int) -> bool:
        """Whether there is evidence for so many groups, or for those of them that are distinct.

        Two groups in one place may be there to make one group larger or less normal, and the gain
        be theirs: of 40 cohorts (seeds 300 to 309 of `benchmarks/clusters.py`, vertices that differ
        without a mesh) five had such groups, with gains of 3 to 9, and four of these were counted
        too high.
        """
        return self.gain > (BELIEVED if self.distinct == number else _VERY_STRONG)


def count_groups(model: DIVE, cohort: Cohort, most: int) -> dict[int, Groups]:
    """Judge numbers of groups among the vertices' curves around a fit.

    Parameters
    ----------
    model : DIVE
        Fitted to the cohort, with as many clusters as could be.
    cohort : Cohort
        The same cohort.
    most : int
        Largest number of groups to judge.

    Returns
    -------
    dict
        `Groups` of 1, 2, ... groups.
    """
    cohort = model.prepare(cohort)
    graph = None
    if cohort.graph is not None and cohort.graph.nnz:
        graph = csr_array(cohort.graph)
    with one_thread_per_product():
        return compare_mixtures(place_vertices(model, cohort, graph), most, graph)


def compare_mixtures(places: Places, most: int, graph: csr_array | None) -> dict[int, Groups]:
    """Judge mixtures with 1, 2, ... groups.

    Parameters
    ----------
    places : Places
        Of vertices.
    most : int
        Largest number of groups.
    graph : sparse or None
        Neighbours.
    """
    # Where groups do not differ in their changes, these vary as those of all vertices do.
    all_alike = fit_mixture(places, 1, common=True)
    when = places.along_first(all_alike.means[0, 1], all_alike.covariances[0, 1, 1])
    one = fit_mixture(when, 1, common=True)
    effective = 1.0
    if graph is not None:
        # Neighbours that are alike count once, however many they are, be it in their noise or in
        # where they lie. What groups would explain is no likeness of the latter kind, so that it
        # is judged around as many groups as there may be.
        deviations = fit_mixture(when, most, common=True).deviations(when)
        effective = min(
            effective_number(each, places.vertices, graph)
            for each in (deviations, places.residuals)
        ) / len(places.vertices)
    best, found = 0.0, {1: Groups(0.0, 1)}
    for number in range(2, most + 1):
        # The first has the published model's equal shares: with fewer numbers to estimate it tells
        # groups that overlap, where they are about as large as each other.
        kinds = [
            fit_mixture(when, number, common=True, even=True),
            fit_mixture(when, number, common=True),
            fit_mixture(when, number, common=False),
            fit_mixture(places, number, common=True),
        ]
        judged = []
        for mixture in kinds:
            gain = 2 * effective * (mixture.log_likelihood - one.log_likelihood)
            price = PRICE * (mixture.n_parameters - one.n_parameters)
            judged.append(gain - price - mixture.unlikeness)
        value = max(judged)
        mixture = kinds[judged.index(value)]
        found[number] = Groups(float(value - best), mixture.n_distinct())
        if value - best > BELIEVED:
            best = value
    return found


def place_vertices(model: DIVE, cohort: Cohort, graph: csr_array | None) -> Places:
    """What vertices say about when they change and by how much.

    Where there are neighbours, each vertex is looked at together with them: areas are wider than
    that.

    Parameters
    ----------
    model : DIVE
        Fitted to the cohort.
    cohort : Cohort
        The same cohort, prepared.
    graph : sparse (n_vertices, n_vertices) or None
        Neighbours.

    Returns
    -------
    Places
        Their evidence.
    """
    internal, products = model.internal_, model.products(cohort)
    z, timeline = model.responsibilities_ * internal.known[:, None], internal.training.timeline
    chosen = np.flatnonzero(internal.known)
    most = _MOST_VERTICES if graph is None else _MOST_RINGS
    chosen = chosen[np.unique(np.linspace(0, len(chosen) - 1, most).astype(int))]
    wanted = np.zeros(len(z), dtype=bool)
    wanted[chosen] = True
    near = None
    if graph is not None:
        near = neighbourhoods(graph)
        wanted[csr_array(near[chosen]).indices] = True
        wanted &= internal.known
    found = with_covariance(products, timeline, internal.parameters, z)
    found = without_personal_noise(products, timeline, found, z)
    population, binned = learn_population(products, timeline, found, z, wanted)
    if near is None:
        evidence = log_evidence(population, binned.known_less(population.coarseness(binned)))
    else:
        rings = rings_of(near, chosen, np.flatnonzero(wanted))
        evidence = evidence_of_rings(population, binned, rings)
    residuals = population.residuals(binned)[:, np.isin(np.flatnonzero(wanted), chosen)]
    return Places.of(population, evidence, chosen, residuals)


def effective_number(deviations: Array, chosen: IntArray, graph: csr_array) -> float:
    """Independent vertices that would tell as much as these, of which neighbours are alike.

    Parameters
    ----------
    deviations : (n,) or (n_bins, n)
        Of some vertices from the centres of their groups, or from their curves.
    chosen : (n,) int
        Which vertices of the graph these are.
    graph : sparse
        Neighbours.
    """
    n_all, deviations = graph.shape[0], np.atleast_2d(deviations)
    standard = deviations - deviations.mean(axis=1, keepdims=True)
    standard = np.clip(standard / np.maximum(standard.std(axis=1, keepdims=True), 1e-300), -4, 4)
    value = np.full((len(standard), n_all), np.nan)
    value[:, chosen] = standard
    sources = chosen[np.unique(np.linspace(0, len(chosen) - 1, _SOURCES).astype(int))]
    steps = dijkstra(graph, indices=sources, unweighted=True, limit=_FURTHEST)
    alike = 1.0
    for distance in range(1, _FURTHEST + 1):
        source, vertex = np.nonzero(steps == distance)
        products = np.mean(value[:, sources[source]] * value[:, vertex], axis=0)
        products = products[np.isfinite(products)]
        if len(products) < _FEW_PAIRS:
            continue
        if products.mean() < _NO_CORRELATION:
            break
        alike += len(source) / len(sources) * float(products.mean())
    return float(max(min(n_all / alike, len(chosen)), 2.0))
