"""Do people change along a common course at all, or do they only differ, and visits scatter?

The null hypothesis is that every person has a map of its own that stays, to which every visit adds
noise: then the order of a person's visits says nothing. It is tested by giving the visits of each
person other orders, or people's changes other signs. Clusters, and the between-person differences
along which change is looked for, are found without the order of visits and so are the same in
every other order: the test holds whatever k-means makes of noise, whatever people differ by, and
however noise is correlated over the brain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array, IntArray
from braindive.dive.initial import cluster_vertices, one_hot
from braindive.dive.timeline import Timeline
from braindive.values.protocol import Products

# No progression counts as found above this p-value. A choice: of a hundred cohorts without any,
# one is said to have one.
SIGNIFICANT = 0.01
# Orders, or signs, with which those of the data are compared. A choice.
_DRAWS = 4999
# With fewer people with follow-up than this, visits are put in other orders; with as many, people's
# changes get other signs, which holds however people drift, each in its own way, but needs many
# who change: of 24 people a third of whom do, all in the same way, it does not find that.
_MANY_PEOPLE = 40
# From so many people on, pairs of them are compared, and clusters are found without the levels of
# vertices. With fewer people of the paper's simulation, pairs said nothing, and without the levels
# 84 in place of 93 % of cohorts of 10 people were found.
_FEW_PEOPLE = 20
# Clusters in which people's course is looked for, and those in which change of any pattern is.
# With 4 or 6 in place of 3, fewer of the paper's cohorts of 5 people were found.
_COARSE, _FINE = 3, 12
# Starts of k-means for the few clusters. A choice.
_STARTS = 4
# Standard deviation of the window in which the course is taken for straight, in multiples of that
# of the people along it. 0.4 and 1 found as many, or fewer, of the paper's cohorts of 5 to 10.
_WINDOW = 0.6
# Most people around whom there is a window. A choice that bounds the cost.
_WINDOWS = 200
# People whose visits scatter by more than so many times the variance of the median person count
# for less. A choice.
_WILD = 3.0
# Visits for which the assumption counts that the noise of a cluster goes down with its size. A
# choice.
_ASSUMED = 10.0
# Signs drawn at once: bounds the memory where people are many. A choice.
_AT_ONCE = 2**22


@dataclass(frozen=True)
class Progression:
    """Whether a cohort holds a progression.

    Parameters
    ----------
    p_value : float
        Chance of as much common change if the order of people's visits said nothing; NaN where
        nobody was seen twice.
    """

    p_value: float

    @property
    def found(self) -> bool:
        """Whether there is a progression, as far as these data can tell."""
        return self.p_value <= SIGNIFICANT


def judge_progression(
    measurements: Products,
    timeline: Timeline,
    features: Array | None,
    regions: Array | None,
    random: np.random.Generator,
) -> Progression:
    """Test whether people change along a common course, with one read of the values at most.

    Parameters
    ----------
    measurements : Products
        The products of the values.
    timeline : Timeline
        When subjects were seen.
    features : (n_vertices, n_features) or None
        Of `initial.vertex_features`; not needed where there are regions.
    regions : (n_vertices, n_regions) or None
        0 and 1: given clusters, which are then not looked for.
    random : Generator
        Of the orders and signs.

    Returns
    -------
    Progression
    """
    if not timeline.has_follow_up:
        return Progression(float("nan"))
    if regions is not None:
        # Regions are put together as vertices would be, by how they are at all visits.
        sums, weights = measurements.pool(regions)
        features = np.where(weights > 0, sums / np.where(weights > 0, weights, 1.0), 0.0).T
        features = np.column_stack([np.sqrt(features.shape[1]) * features.mean(axis=1), features])
        features[:, 1:] -= features[:, 1:].mean(axis=1, keepdims=True)
    assert features is not None
    if np.count_nonzero(timeline.n_visits_of_subject > 1) >= _FEW_PEOPLE:
        # Levels of vertices are means over visits, and so hold something of how people change: all
        # the same where all orders are as likely, but not where people drift.
        features = np.ascontiguousarray(features[:, 1:])
    parts = []
    for number, n_starts in ((_COARSE, _STARTS), (_FINE, 1)):
        found = cluster_vertices(features, min(number, len(features)), random, n_starts)
        parts.append(one_hot(found[0], number))
    both = np.column_stack(parts)
    if regions is not None:
        sums, weights = sums @ both, weights @ both
    else:
        sums, weights = measurements.pool(both)
    used = weights.sum(axis=0) > 0
    coarse, fine = (
        (sums[:, own & used], weights[:, own & used])
        for own in (np.arange(len(used)) < _COARSE, np.arange(len(used)) >= _COARSE)
    )
    return Progression(common_change(timeline, coarse, fine, random))


def common_change(
    timeline: Timeline,
    coarse: tuple[Array, Array],
    fine: tuple[Array, Array],
    random: np.random.Generator,
) -> float:
    """P-value of a common change of people, from means over clusters.

    Parameters
    ----------
    timeline : Timeline
        When subjects were seen, some of them more than once.
    coarse, fine : pairs of (n_visits, n_clusters)
        Sums and weights of `Products.pool` over a few clusters, and over more, all of them found
        without the order of visits.
    random : Generator
        Of the orders and signs.

    Returns
    -------
    float

    Notes
    -----
    Three statistics of the change with time, each the largest in the order of the data if people
    change together: of the mean of the whole map; along the course, which is the derivative of the
    cluster means along the leading between-person difference, where each person stands (the score
    test of a speed that all people share); and the products of the change maps of all pairs of
    people, which needs neither a direction nor a course. The p-values of the first two are
    multiplied (Fisher), and the smaller of that and the third is taken; all of it again in every
    other order. Of few people the third says nothing, and is left out.
    """
    subjects, followed = timeline.subject_of_visit, timeline.n_visits_of_subject > 1
    of_coarse, level = _means(*coarse, timeline)
    of_fine, fine_level = _means(*fine, timeline)
    size, freedom = coarse[1].mean(axis=0), len(subjects) - timeline.n_subjects
    to_coarse = _whitening(of_coarse, size, freedom)
    to_fine = _whitening(of_fine, fine[1].mean(axis=0), freedom)
    level = (level - level.mean(axis=0)) @ to_coarse
    # Where people stand: along the difference between them that is the largest.
    stands = np.linalg.svd(level, full_matrices=False)[0][:, 0]
    stands = stands / max(float(np.std(stands)), 1e-300)
    course = derivatives(level, stands)[subjects]
    along = np.column_stack([of_coarse @ size, np.sum(course * (of_coarse @ to_coarse), axis=1)])
    maps = of_fine @ to_fine
    scatter = timeline.by_subject(np.sum(maps**2, axis=1))
    scatter = scatter / np.maximum(timeline.n_visits_of_subject - 1, 1)
    usual = float(np.median(scatter[followed]))
    shares = np.minimum(1.0, _WILD * usual / np.maximum(scatter, 1e-300))
    times = timeline.times * shares[subjects]
    if np.count_nonzero(followed) >= _MANY_PEOPLE:
        sums, own = _other_signs(timeline.by_subject(times[:, None] * np.c_[along, maps]), random)
    else:
        fine_course = derivatives(fine_level @ to_fine, stands)[subjects]
        unlike = _without(maps, fine_course, np.broadcast_to(to_fine.sum(axis=0), maps.shape))
        sums, own = _other_orders(timeline, times, along, maps, unlike, random)
    evidence = _fisher([_tail(np.abs(each)) for each in sums[:, :2].T])
    if np.count_nonzero(followed) >= _FEW_PEOPLE:
        pairs = np.sum(sums[:, 2:] ** 2, axis=1) - own
        evidence = -np.minimum(_tail(evidence), _tail(pairs))
    return float(_tail(evidence)[0])


def _means(sums: Array, weights: Array, timeline: Timeline) -> tuple[Array, Array]:
    """Deviations of visits from their person's mean, and these means; 0 where nothing was seen."""
    seen = weights > 0
    means = np.where(seen, sums / np.where(seen, weights, 1.0), 0.0)
    counts = timeline.by_subject(seen.astype(float))
    level = timeline.by_subject(means) / np.maximum(counts, 1.0)
    return np.where(seen, means - level[timeline.subject_of_visit], 0.0), level


def _whitening(deviations: Array, size: Array, freedom: int) -> Array:
    """Matrix after which noise of the clusters has about unit covariance, (n, n).

    Variances are shrunk to what sizes have them be, and correlations to 0 where visits are few.
    The order of visits does not enter.
    """
    covariance = deviations.T @ deviations / freedom
    variances = np.diag(covariance)
    expected = np.mean(variances * size) / size
    variances = (freedom * variances + _ASSUMED * expected) / (freedom + _ASSUMED)
    spreads = np.sqrt(np.maximum(variances, 1e-300))
    correlation = covariance / np.outer(spreads, spreads)
    correlation *= 1 - min(1.0, 2 * len(size) / freedom)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    root = (vectors / np.sqrt(np.maximum(values, 1e-3))) @ vectors.T
    return np.asarray(root / spreads[:, None])


def derivatives(level: Array, stands: Array) -> Array:
    """Derivative of people's levels along where they stand, at each person's place.

    Parameters
    ----------
    level : (n_subjects, n_clusters)
        People's means.
    stands : (n_subjects,)
        Where each stands, with a standard deviation of 1.

    Returns
    -------
    (n_subjects, n_clusters)
        Slope of the line through the levels in a window around each person.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.dive.progression import derivatives
    >>> stands = np.array([-1.5, -0.5, 0.5, 1.5])
    >>> derivatives(np.stack([stands, -2 * stands], axis=1), stands)[0]
    array([ 1., -2.])
    """
    # Windows around a few hundred people, and the nearest of these for the others.
    at = np.unique(np.quantile(stands, np.linspace(0, 1, min(len(stands), _WINDOWS))))
    away = stands[:, None] - at
    window = np.exp(-0.5 * (away / _WINDOW) ** 2)
    away = away - np.sum(window * away, axis=0) / np.sum(window, axis=0)
    weights = window * away / np.maximum(np.sum(window * away**2, axis=0), 1e-12)
    nearest = np.abs(stands[:, None] - at).argmin(axis=1)
    return np.asarray((weights.T @ level)[nearest])


def _without(maps: Array, *directions: Array) -> Array:
    """What is left of maps, row by row, without their parts along some directions."""
    taken: list[Array] = []
    for each in directions:
        for other in taken:
            each = each - np.sum(each * other, axis=1, keepdims=True) * other
        length = np.sqrt(np.sum(each**2, axis=1, keepdims=True))
        taken.append(each / np.maximum(length, 1e-300))
    for each in taken:
        maps = maps - np.sum(maps * each, axis=1, keepdims=True) * each
    return maps


def _other_signs(changes: Array, random: np.random.Generator) -> tuple[Array, Array]:
    """Sums of people's changes as they are and with other signs, and the squares of their maps.

    Parameters
    ----------
    changes : (n_subjects, 2 + n)
        Along the two directions, and of the maps.
    random : Generator
        Of the signs.
    """
    found = [changes.sum(axis=0, keepdims=True)]
    each = max(1, _AT_ONCE // len(changes))
    for start in range(0, _DRAWS, each):
        number = min(each, _DRAWS - start)
        signs = random.integers(0, 2, (number, len(changes)), dtype=np.int8)
        found.append((2.0 * signs - 1.0) @ changes)
    return np.concatenate(found), np.sum(changes[:, 2:] ** 2)


def _other_orders(
    timeline: Timeline,
    times: Array,
    along: Array,
    maps: Array,
    unlike: Array,
    random: np.random.Generator,
) -> tuple[Array, Array]:
    """Sums of people's changes as they are and in other orders, and the squares of their maps.

    People who drift, each in its own way, change more in the order of the data than in others, and
    more alike therefore, by chance. Where people's changes are larger than in other orders also in
    directions in which the course does not lie, those of other orders are enlarged as much.

    Parameters
    ----------
    timeline, times : Timeline, (n_visits,)
        Visits, and what each counts for in the change of its person.
    along, maps : (n_visits, 2), (n_visits, n)
        Along the two directions, and of the maps.
    unlike : (n_visits, n)
        Of the maps, without the course.
    random : Generator
        Of the orders.
    """
    sums = np.zeros((1 + _DRAWS, along.shape[1] + maps.shape[1]))
    own, drift, drifts = np.zeros(len(sums)), np.zeros((len(sums), maps.shape[1])), np.zeros(1)
    everything = np.column_stack([along, maps, unlike])
    for start, number in zip(timeline.starts, timeline.n_visits_of_subject, strict=True):
        visits = slice(start, start + number)
        orders = np.tile(times[visits], (len(sums), 1))
        orders[1:] = random.permuted(orders[1:], axis=1)
        changes = orders @ everything[visits]
        sums += changes[:, : sums.shape[1]]
        own += np.sum(changes[:, 2 : sums.shape[1]] ** 2, axis=1)
        drift += changes[:, sums.shape[1] :]
        drifts = drifts + np.sum(changes[:, sums.shape[1] :] ** 2, axis=1)
    # What people share is no drift.
    drifts = drifts - np.sum(drift**2, axis=1) / timeline.n_subjects
    if _tail(drifts)[0] <= SIGNIFICANT:
        enlarge = drifts[0] / max(float(drifts[1:].mean()), 1e-300)
        sums[1:] *= np.sqrt(enlarge)
        own[1:] *= enlarge
    return sums, own


def _tail(statistics: Array) -> Array:
    """Share of all orders in which a statistic is as large as in each."""
    # Orders that only numbers' last digits tell apart are the same.
    largest = max(float(np.abs(statistics).max()), 1e-300)
    rounded = np.round(statistics / largest, 10)
    above = len(rounded) - np.searchsorted(np.sort(rounded), rounded)
    return np.asarray(above / len(rounded))


def _fisher(tails: list[Array]) -> Array:
    return np.asarray(-np.sum(np.log(tails), axis=0))


def smallest_p_value(n_visits_of_subject: IntArray) -> float:
    """Smallest p-value that so many people and visits can have; NaN without follow-up.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.dive.progression import smallest_p_value
    >>> smallest_p_value(np.array([2, 2, 2]))
    0.25
    """
    visits = n_visits_of_subject[n_visits_of_subject > 1]
    if not len(visits):
        return float("nan")
    # An order and its reverse count as one: change is common whichever way it goes.
    different = 2 ** min(len(visits), 1000)
    if len(visits) < _MANY_PEOPLE:
        different = math.prod(math.factorial(number) for number in visits.tolist())
    return max(2 / different, 1 / (1 + _DRAWS))
