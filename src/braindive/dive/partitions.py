"""Before the first pass: which vertices lead, which clusters to begin from, and is there change?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.dive.initial import cluster_vertices, fill_in, one_hot, vertex_features
from braindive.dive.progression import SIGNIFICANT, Progression, judge_progression
from braindive.dive.settings import Settings
from braindive.dive.timeline import Timeline
from braindive.values.protocol import Products
from braindive.values.sampling import FEW, evenly_spread

# P-value up to which a progression that some of the vertices show is not looked for in all of them:
# a tenth of what counts as found, so that looking twice hardly finds more by chance. A choice.
_PLAIN_TO_SEE = SIGNIFICANT / 10
# Least part of the vertices of a given cluster that leads, as a share of what all clusters have
# there. A choice.
_LEAST_SHARE = 0.25


def leading_vertices(settings: Settings, n_vertices: int) -> BoolArray | None:
    """Which vertices lead the others; None where some cannot, or where all are few."""
    alone = settings.labels is None and settings.graph is None and not settings.exact
    if not alone or settings.n_clusters < 2:
        return None
    chosen = evenly_spread(n_vertices)
    if chosen is None or settings.start is None:
        return chosen
    # A cluster of a given start that is hardly among them would be lost.
    own, everybody = settings.start[chosen].sum(axis=0), settings.start.sum(axis=0)
    least = np.maximum(_LEAST_SHARE * np.mean(chosen) * everybody, 1.0)
    return chosen if (own >= least).all() else None


def may_begin_without_field(settings: Settings) -> bool:
    """Whether the clusters that a field would hold are to be found, and can be without it."""
    given = settings.labels is not None or settings.start is not None
    return settings.graph is not None and settings.n_clusters > 1 and not given


def of_some(settings: Settings, chosen: BoolArray) -> Settings:
    """Return the settings of a fit of some of the vertices, without a graph and without labels."""
    if settings.start is None:
        return settings
    return replace(settings, start=np.ascontiguousarray(settings.start[chosen]))


def find_partitions(
    measurements: Products, settings: Settings, random: np.random.Generator
) -> tuple[list[Array], Array | None]:
    """Responsibilities to begin from, and the features of the vertices where they were needed.

    Fixed ones, given ones, or all that k-means ends in.
    """
    if settings.labels is not None:
        return [one_hot(settings.labels, settings.n_clusters)], None
    if settings.start is not None and (settings.start.sum(axis=1) > 0).all():
        return [settings.start], None
    features = vertex_features(measurements, settings.graph, random)
    if settings.start is not None:
        return [fill_in(settings.start, features)], features
    found = cluster_vertices(features, settings.n_clusters, random, settings.n_init)
    return [one_hot(labels, settings.n_clusters) for labels in found], features


def judge(
    measurements: Products,
    timeline: Timeline,
    settings: Settings,
    random: np.random.Generator,
    features: Array | None = None,
    some: tuple[Products, Array | None] | None = None,
) -> Progression:
    """Judge whether there is a progression, by clusters that the order of visits has no part in.

    Of many vertices some are asked first, and all only where these leave it open.

    Parameters
    ----------
    measurements, timeline, settings, random
        As in `fit_best`.
    features : (n_vertices, n_features), optional
        Of `initial.vertex_features`, where they are known already.
    some : tuple of Products and (n_some, n_features) or None, optional
        The measurements of some vertices and their features, where they are known already.
    """
    # With random numbers of its own, so that those of the starts stay the same.
    (own,) = random.spawn(1)
    if settings.labels is not None:
        regions = one_hot(settings.labels, settings.n_clusters)
        return judge_progression(measurements, timeline, None, regions, own)
    if not timeline.has_follow_up:
        return Progression(float("nan"))
    chosen = evenly_spread(measurements.n_vertices)
    if some is None and chosen is not None and np.mean(chosen) <= FEW:
        some = measurements.sample(chosen), None
    # A given start may come from a fit of the same visits in their order, and is not used.
    if some is not None:
        sample, known = some
        known = vertex_features(sample, None, own) if known is None else known
        found = judge_progression(sample, timeline, known, None, own)
        if found.p_value <= _PLAIN_TO_SEE:
            return found
    if features is None:
        features = vertex_features(measurements, settings.graph, own)
    return judge_progression(measurements, timeline, features, None, own)
