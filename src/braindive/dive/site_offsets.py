"""Sites: how much each scanner adds to every vertex, and how much noisier it is there.

V_ln = f_k(s_n) + u_il + a_gl + d_gl e_ln, where g is the site of visit n. Given the stages, a is
linear in the values: least squares with a random intercept for each person, so that people who
changed scanner count for most. Both a and d are shrunk over the vertices of a site (empirical
Bayes, as ComBat does). The mean of a over the vertices of a cluster is not told here: it can be
taken for a stage, and is estimated together with the stages by the marginal fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import null_space
from scipy.special import digamma, polygamma

from braindive.arrays import Array, BoolArray, IntArray
from braindive.dive.curves import Curves
from braindive.dive.timeline import Timeline
from braindive.values.blocks import Adjustment
from braindive.values.protocol import Products
from braindive.values.site_residuals import SiteResiduals

# Variance between people over that of visits by which people are weighed: that of a test-retest
# reliability of 0.8, the lower end for vertexwise thickness. Offsets are unbiased with any.
_BETWEEN_PEOPLE = 4.0
# Most directions in the span of the clusters' curves that the course of a vertex of its own may
# take. A choice: the curves of all clusters are nearly combinations of so few.
_MOST_DIRECTIONS = 6
# Singular values below this share of the largest add no direction.
_RANK = 1e-3


@dataclass(frozen=True)
class Sites:
    """What is known of every site.

    Parameters
    ----------
    column : str
        Of the cohort's table, with the site of each visit.
    names : tuple of str
        Of the sites.
    offsets : (n_sites, n_vertices)
        a_gl in the unit of the values; over all training visits they average 0.
    scales : (n_sites, n_vertices)
        d_gl, noise of a site relative to that of all.
    spread : float
        Standard deviation of a cluster's mean offset over sites, in standard units.
    variances : (n_vertices,)
        Of a visit around its person's level, at all sites together, in standard units.
    levels : (n_vertices,)
        Mean of controls' visits, or of all, less the curves of their stage, in standard units:
        from there a site that is learnt later is told.
    """

    column: str
    names: tuple[str, ...]
    offsets: Array
    scales: Array
    spread: float
    variances: Array
    levels: Array

    def __repr__(self) -> str:
        """Say what it is of, and not all its numbers."""
        n_vertices = self.offsets.shape[1]
        return f"Sites({self.n_sites} of the column {self.column!r}, {n_vertices:,} vertices)"

    @property
    def n_sites(self) -> int:
        """Number of sites."""
        return len(self.names)

    def adjustment(self, sites: IntArray) -> Adjustment:
        """What is to be taken off the values of visits at some sites."""
        return Adjustment(self.offsets, sites)

    def cluster_offsets(self, z: Array, scale: float) -> Array:
        """Mean offset of each cluster at each site, (n_sites, n_clusters), in standard units."""
        return cluster_means(self.offsets, z) / scale

    def cluster_scales(self, z: Array) -> Array:
        """Mean scale of each cluster at each site, (n_sites, n_clusters)."""
        # A cluster without vertices has no noise of its own.
        return np.where(z.sum(axis=0) > 0, cluster_means(self.scales, z), 1.0)

    def moved(self, z: Array, by: Array, scale: float) -> Sites:
        """Return the same with other mean offsets of the clusters.

        Parameters
        ----------
        z : (n_vertices, n_clusters)
            Responsibilities.
        by : (n_sites, n_clusters)
            By how much they are higher, in standard units.
        scale : float
            Of the standard unit.
        """
        return replace(self, offsets=self.offsets + scale * _with_means(by, z))


def cluster_means(maps: Array, z: Array) -> Array:
    """Mean of maps (n, n_vertices) over the vertices of each cluster, (n, n_clusters)."""
    return np.asarray(maps @ z / np.maximum(z.sum(axis=0), 1e-300))


def site_basis(sites: IntArray, n_sites: int) -> Array:
    """Orthonormal basis of offsets that average 0 over all visits, (n_sites, n_sites - 1)."""
    counts = np.bincount(sites, minlength=n_sites).astype(float)
    return np.asarray(null_space(counts[None] / counts.max()))


def learn_sites(
    measurements: Products,
    timeline: Timeline,
    sites: IntArray,
    known: Sites,
    course: Array,
    z: Array,
    means: Array | None = None,
) -> tuple[Sites, float]:
    """Offsets and scales of every vertex at known stages, from one read of the values.

    Parameters
    ----------
    measurements : Products
        Adjusted by what is known.
    timeline : Timeline
        Of the visits.
    sites : (n_visits,) int
        Site of each visit.
    known : Sites
        What is known so far.
    course : (n_visits, n_directions)
        What the course of a vertex may be a combination of, besides a constant.
    z : (n_vertices, n_clusters)
        Responsibilities.
    means : (n_sites, n_clusters), optional
        Mean offsets of the clusters in standard units, where they are known better.

    Returns
    -------
    known : Sites
        What is known now.
    freedom : float
        Effective number of offsets, were the means of the clusters found here too: the trace of
        the linear map from the values of all visits to the offsets at these visits.
    """
    n_sites, unit = known.n_sites, measurements.unit
    basis = site_basis(sites, n_sites)
    design = np.column_stack([basis[sites], np.ones(len(sites)), course])
    rows = _least_squares(design, timeline)
    step = SiteResiduals(rows, design, timeline.subject_of_visit, sites, n_sites)
    nothing = np.zeros((measurements.n_vertices, 0))
    (found, squares, freedoms, visits, levels, inverse), _ = measurements.run_residuals(
        step, measurements.means, np.zeros((len(sites), 0)), nothing
    )
    n_free = basis.shape[1]
    # Where values are missing the coefficients are those of fewer visits.
    seen = visits / np.maximum(np.bincount(sites, minlength=n_sites), 1)[:, None]
    away = np.where(seen > 0, basis @ found[:n_free] / np.maximum(seen, 1e-300), 0.0)
    raw = known.offsets / unit.scale + away
    within = squares.sum(axis=0) / np.maximum(freedoms.sum(axis=0), 1.0)
    between = np.maximum(levels - within * inverse, 0.0)
    lever = basis @ rows[:n_free]
    of_people = timeline.by_subject(lever, axis=1)
    variances = np.outer((lever**2).sum(axis=1), within)
    variances += np.outer((of_people**2).sum(axis=1), between)
    variances /= np.maximum(seen, 1e-300)
    is_seen = (z.sum(axis=1) > 0.5) & (measurements.counts > 0)
    offsets, shares = _shrunk_offsets(raw, variances, z, is_seen, means)
    # How much of a visit's own value is in the offset of its site; their sum is that of the sites
    # but one. The means of clusters are not shrunk, and what vertices differ from them by is.
    own = np.bincount(sites, lever[sites, np.arange(len(sites))], minlength=n_sites)
    in_mean = (z**2 / np.maximum(z.sum(axis=0), 1e-300)).sum(axis=1)
    freedom = own @ (np.sum(z.sum(axis=0) > 0) + shares @ (1 - in_mean))
    # Sites are shrunk by different amounts, and what is left of their average is no site's.
    offsets = offsets - np.bincount(sites, minlength=n_sites) @ offsets / len(sites)
    scales = _shrunk_scales(squares, freedoms, within, is_seen)
    learnt = replace(known, offsets=unit.scale * offsets, scales=scales, variances=within)
    return learnt, float(freedom)


def learn_one_site(
    measurements: Products,
    timeline: Timeline,
    known: Sites,
    name: str,
    curves: Array,
    z: Array,
    means: Array,
) -> Sites:
    """Add a site to those that are known, from visits whose stages are known, in one read.

    Parameters
    ----------
    measurements : Products
        Of visits at the site, not adjusted.
    timeline : Timeline
        Of these visits.
    known : Sites
        The others.
    name : str
        Of the site.
    curves : (n_visits, n_clusters)
        Of the clusters at the visits' scores, in standard units.
    z : (n_vertices, n_clusters)
        Responsibilities.
    means : (n_clusters,)
        Mean offsets of the clusters at the site, in standard units.
    """
    unit, design = measurements.unit, np.ones((len(curves), 1))
    rows, sites = _least_squares(design, timeline), np.zeros(len(curves), dtype=int)
    step = SiteResiduals(rows, design, timeline.subject_of_visit, sites, 1)
    (raw, squares, freedoms, visits, levels, inverse), _ = measurements.run_residuals(
        step, known.levels, curves, z
    )
    seen = visits / len(curves)
    between = np.maximum(levels - known.variances * inverse, 0.0)
    of_people = timeline.by_subject(rows, axis=1)
    variances = np.outer((rows**2).sum(axis=1), known.variances)
    variances += np.outer((of_people**2).sum(axis=1), between)
    raw, variances = raw / np.maximum(seen, 1e-300), variances / np.maximum(seen, 1e-300)
    is_seen = (z.sum(axis=1) > 0.5) & (visits[0] > 0)
    offsets, _ = _shrunk_offsets(raw, variances, z, is_seen, means[None])
    scales = _shrunk_scales(squares, freedoms, known.variances, is_seen)
    return replace(
        known,
        names=(*known.names, name),
        offsets=np.vstack([known.offsets, unit.scale * offsets]),
        scales=np.vstack([known.scales, scales]),
    )


def curve_directions(trajectories: Curves, scores: Array) -> Array:
    """Directions in which a vertex may differ from its cluster, (n_visits, n_directions).

    The leading ones of the clusters' curves and their slopes at the scores: a vertex that is
    earlier, or changes by more, is not taken for one that is high at a site with many patients.
    """
    columns = np.column_stack([trajectories.evaluate(scores), trajectories.slope(scores)])
    columns = columns - columns.mean(axis=0)
    norms = np.linalg.norm(columns, axis=0)
    columns = columns[:, norms > 0] / norms[norms > 0]
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    leading = values > _RANK * values[:1].max(initial=0.0)
    return np.asarray(left[:, leading][:, :_MOST_DIRECTIONS])


def starting_directions(timeline: Timeline, groups: IntArray) -> Array:
    """Directions before anything is known: controls against others, and time for each of them."""
    of_visit = groups[timeline.subject_of_visit]
    kinds = np.unique(of_visit)
    columns = [(of_visit == kind).astype(float) for kind in kinds[:-1]]
    if timeline.has_follow_up:
        columns += [np.where(of_visit == kind, timeline.times, 0.0) for kind in kinds]
    return np.column_stack([np.zeros((len(of_visit), 0)), *columns])


def _least_squares(design: Array, timeline: Timeline) -> Array:
    """Rows that give the coefficients of a design with a random intercept for each person."""
    counts = timeline.n_visits_of_subject[:, None]
    share = _BETWEEN_PEOPLE / (1 + counts * _BETWEEN_PEOPLE)
    weighed = design - (share * timeline.by_subject(design))[timeline.subject_of_visit]
    # What the visits cannot tell apart is left where it is by the pseudo-inverse.
    return np.asarray(np.linalg.pinv(design.T @ weighed, hermitian=True) @ weighed.T)


def _shrunk_offsets(
    raw: Array, variances: Array, z: Array, is_seen: BoolArray, means: Array | None
) -> tuple[Array, Array]:
    """Offsets shrunk towards the mean of their cluster as far as they are noise, and how far."""
    own = cluster_means(raw, z * is_seen[:, None])
    away = raw - own @ z.T
    excess = (away**2 - variances)[:, is_seen]
    spread = np.maximum(excess.mean(axis=1), 0.0)[:, None]
    shares = np.where(is_seen, spread / np.maximum(spread + variances, 1e-300), 0.0)
    shrunk, wanted = away * shares, own if means is None else means
    return shrunk + _with_means(wanted - cluster_means(shrunk, z), z), shares


def _with_means(means: Array, z: Array) -> Array:
    """Maps that are constant in each cluster, and have these means over the clusters."""
    overlap = cluster_means(z.T, z).T
    empty = z.sum(axis=0) <= 0
    overlap[empty, empty] = 1.0
    return np.asarray(np.linalg.lstsq(overlap, means.T, rcond=None)[0].T @ z.T)


def _shrunk_scales(squares: Array, freedoms: Array, within: Array, is_seen: BoolArray) -> Array:
    """Scales shrunk towards that of their site, as far as they are noise, on the log scale."""
    scales = np.ones_like(squares)
    for site, (own, freedom) in enumerate(zip(squares, freedoms, strict=True)):
        known = is_seen & (freedom > 0) & (own > 0) & (within > 0)
        if not known.any():
            continue
        half = freedom[known] / 2
        # The logarithm of a variance with few degrees of freedom is too low on average.
        logs = np.log(own[known] / freedom[known] / within[known]) - digamma(half) + np.log(half)
        noise = polygamma(1, half)
        mean = float(np.average(logs, weights=1 / noise))
        spread = max(float(np.mean((logs - mean) ** 2 - noise)), 0.0)
        scales[site] = np.exp(mean / 2)
        scales[site, known] = np.exp((mean + (logs - mean) * spread / (spread + noise)) / 2)
    return scales
