"""Look a cohort over before anyone waits for a fit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.cohort import Cohort
from braindive.cohort.checks import some
from braindive.cohort.cohort import check_cohort
from braindive.cohort.findings import (
    Finding,
    constant_advice,
    groups_of,
    standard_of,
    subject_means,
)
from braindive.cohort.flat_scans import describe_flat_scans, find_flat_scans
from braindive.cohort.summary import Summary
from braindive.space import Regions, Surface, Volume
from braindive.space.fsaverage import N_FSAVERAGE5
from braindive.values.chunks import Chunks

# Nobody is older, and studies see people more often than once in so many years.
_OLDEST = 120.0
_LONG_GAP = 5.0
# First visits are at 0 where time counts from them; above this many years they are ages. A choice.
_YOUNGEST = 10.0
# Scans that miss this much more of their vertices than usual are listed. A choice.
_MORE_MISSING = 0.01
# A scan whose mean or spread lies so many robust standard deviations away is odd.
_OUTLYING = 6.0
# Share of the variation of time that sites may explain.
_CONFOUNDED = 0.5
# Fewer people than this do not show how people differ, which stages are told from. A choice.
_FEW_PEOPLE = 10
_SITES = ("site", "scanner", "field_strength", "manufacturer")


def inspect_cohort(cohort: Cohort) -> list[Finding]:
    """Look for what is odd in a cohort.

    Parameters
    ----------
    cohort : Cohort
        Not changed, and read once.

    Returns
    -------
    list of Finding
        Warnings first; empty if nothing is odd.

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(n_subjects=20, n_vertices=50, random_state=0).cohort
    >>> months = bd.Cohort(cohort.values, subjects=cohort.subjects, times=cohort.times * 12)
    >>> print(bd.inspect_cohort(months)[0].what)
    Visits of one person are 12 years apart (median).
    """
    check_cohort(cohort)
    summary = Summary.of(cohort)
    findings = [
        *_times(cohort),
        *_sites(cohort),
        *_visits(cohort),
        *_flat(cohort),
        *_missing(cohort, summary),
        *_outlying(cohort, summary),
        *groups_of(cohort, summary),
        *standard_of(cohort, summary),
        *_space(cohort),
        *_store(cohort),
    ]
    return sorted(findings, key=lambda finding: finding.level != "warning")


def _times(cohort: Cohort) -> Iterator[Finding]:
    order = cohort.canonical_order
    same = np.diff(cohort.subject_index[order]) == 0
    gaps = np.diff(cohort.times[order])[same]
    remedy = "Times are in years: divide months by 12 and days by 365.25."
    oldest = int(np.argmax(cohort.times))
    if cohort.times[oldest] > _OLDEST:
        yield Finding(
            "warning",
            f"The largest time is {cohort.times[oldest]:g} years.",
            f"subject {cohort.subjects[oldest]}",
            remedy,
        )
    if len(gaps) and np.median(gaps) > _LONG_GAP:
        yield Finding(
            "warning",
            f"Visits of one person are {np.median(gaps):.3g} years apart (median).",
            "",
            f"Are these months? {remedy}",
        )
    first = cohort.times[cohort.visit_numbers == 0]
    if np.median(first) > _YOUNGEST and cohort.times[oldest] <= _OLDEST:
        yield Finding(
            "note",
            f"Times are ages, from {np.min(first):.3g} to {cohort.times[oldest]:.3g} years.",
            "",
            "That is fine; a shift is then the score extrapolated to birth, so compare scores. To "
            "count from the first visit give such a column (--time years).",
        )


def _sites(cohort: Cohort) -> Iterator[Finding]:
    table = cohort.table
    within = cohort.times - subject_means(cohort, cohort.times)
    for name in [name for name in table if str(name).lower() in _SITES]:
        groups = table[name].astype(str).to_numpy()
        if len(set(groups)) < 2:
            continue
        levels = {
            "time between people": cohort.times,
            "time within people (they change it from visit to visit)": within,
        }
        for label, times in levels.items():
            share = _explained(times, groups)
            if share > _CONFOUNDED:
                yield Finding(
                    "warning",
                    f"{name} explains {share:.0%} of the variation of {label}, so its effect looks "
                    "like the disease's.",
                    f"column {name}",
                    f"Regress {name} out with controls of every {name} (--covariates {name}), or "
                    "fit one at a time.",
                )


def _visits(cohort: Cohort) -> Iterator[Finding]:
    counts = np.bincount(cohort.subject_index)
    if len(counts) < _FEW_PEOPLE:
        yield Finding(
            "warning",
            f"There {'is 1 person' if len(counts) == 1 else f'are {len(counts)} people'}: too few.",
            "",
            "A course is put together from people at different stages; nothing that a fit finds "
            "in so few can be trusted.",
        )
    share = float(np.mean(counts == 1))
    if share == 1:
        yield Finding(
            "warning",
            "Every subject has one visit.",
            "",
            "Speeds cannot be told from one visit; scores still can. Add follow-up visits.",
        )
    elif share > 0:
        alone = cohort.subject_ids[counts == 1].tolist()
        number = f"{share:.0%}" if share > 0.5 else f"{len(alone):,}"
        of = "of the subjects" if share > 0.5 else f"of {len(counts):,} subjects"
        yield Finding(
            "note",
            f"{number} {of} {'has' if number == '1' else 'have'} one visit.",
            f"subjects {some(alone)}",
            "Their speed is the typical one; their score is told by the scan.",
        )


def _flat(cohort: Cohort) -> Iterator[Finding]:
    for what, scans in describe_flat_scans(cohort, find_flat_scans(cohort)):
        remedy = "Look at these scans and leave out those that failed."
        yield Finding("warning", what, scans, remedy)


def _missing(cohort: Cohort, summary: Summary) -> Iterator[Finding]:
    never = summary.vertex_observed == 0
    seldom = (summary.vertex_observed < 0.5) & ~never
    if never.any():
        yield Finding(
            "note",
            f"{_count(never, 'vertex', 'vertices')} never measured.",
            _first(np.flatnonzero(never), "vertices"),
            f"They get no cluster. {_mask_advice(cohort)}",
        )
    if seldom.any():
        yield Finding(
            "warning",
            f"{_count(seldom, 'vertex', 'vertices')} measured at less than half of the visits.",
            _first(np.flatnonzero(seldom), "vertices"),
            "Preprocessing drops them (min_observed).",
        )
    missing = 1 - summary.scan_observed
    more = np.flatnonzero(missing - np.median(missing) > _MORE_MISSING)
    if len(more):
        counted = "1 scan has" if len(more) == 1 else f"{len(more):,} scans have"
        worst = more[np.argsort(-missing[more], kind="stable")]
        shares = [
            f"{cohort.subjects[row]} at {cohort.times[row]:.4g}: {missing[row]:.0%}"
            for row in worst
        ]
        yield Finding(
            "note",
            f"{counted} more missing than the usual {np.median(missing):.0%} of the vertices.",
            some(shares, most=10),
            "Missing values are allowed; look at scans that miss much.",
        )
    poor = summary.scan_observed < 0.5 * np.median(summary.scan_observed)
    if poor.any():
        yield Finding(
            "warning",
            f"{_count(poor, 'scan', 'scans')} with less than half of the usual measurements.",
            _scans(cohort, poor),
            "Look at these scans, and leave out what failed.",
        )
    constant = summary.constant & ~never
    if constant.any():
        advice = constant_advice(bool(summary.zero[constant].all()), cohort.space)
        yield Finding(
            "warning",
            f"{_count(constant, 'vertex', 'vertices')} with the same value at every visit.",
            _first(np.flatnonzero(constant), "vertices"),
            f"A fit refuses them. {advice}",
        )


def _outlying(cohort: Cohort, summary: Summary) -> Iterator[Finding]:
    """Scans unlike the others: far out in robust units, and far out in plain ones.

    A map of many vertices has so precise a mean and spread that sick people alone would be far
    out in robust units.
    """
    spread = summary.scan_spread
    usual = float(np.median(spread))
    with np.errstate(divide="ignore"):
        sides = {
            "mean": (summary.scan_mean, usual),
            "spread": (np.log(np.maximum(spread, 1e-300)), np.log(1.5)),
        }
    for label, (values, least) in sides.items():
        away = np.abs(values - np.median(values))
        odd = (away > _OUTLYING * 1.4826 * np.median(away)) & (away > least)
        if odd.any():
            shown = getattr(summary, f"scan_{label}")
            yield Finding(
                "warning",
                f"{_count(odd, 'scan', 'scans')} with an odd {label}, for example "
                f"{shown[np.argmax(odd)]:.3g} where others have {np.median(shown):.3g}.",
                _scans(cohort, odd),
                "Look at these scans: another unit, another measure, or a failed segmentation?",
            )


def _space(cohort: Cohort) -> Iterator[Finding]:
    if cohort.graph is None:
        yield Finding(
            "note",
            f"The {cohort.n_vertices:,} vertices have no neighbours.",
            "",
            f"Neighbours inform each other where there is a space. {_space_advice(cohort)}",
        )
    elif cohort.graph.nnz == 0 and not isinstance(cohort.space, Regions):
        yield Finding("warning", "No two vertices are neighbours.", "", "Is it the right space?")


def _mask_advice(cohort: Cohort) -> str:
    """How to leave out what lies outside the brain."""
    if isinstance(cohort.space, Surface):
        return "A medial wall? Use a mask of the cortex as part of the space."
    if isinstance(cohort.space, Volume):
        return "Use a mask that leaves them out."
    return "Outside the brain? Give its mask as the space (--space mask.nii.gz)."


def _space_advice(cohort: Cohort) -> str:
    """Which space to give, as far as the number of vertices tells."""
    if cohort.n_vertices in (N_FSAVERAGE5, 2 * N_FSAVERAGE5):
        sides = "" if cohort.n_vertices > N_FSAVERAGE5 else "-left or fsaverage5-right"
        return f"There are as many as fsaverage5 has: --space fsaverage5{sides}."
    return (
        "Give it with --space: the mask of a volume, the files of a surface, or a table of "
        "neighbouring regions."
    )


def _explained(values: Array, groups: np.ndarray) -> float:
    """Share of the variance that group means explain, less what chance would."""
    _, index = np.unique(groups, return_inverse=True)
    centred = values - values.mean()
    total = float(centred @ centred)
    n_groups = int(index.max()) + 1
    if total == 0 or len(values) <= n_groups:
        return 0.0
    means = np.bincount(index, centred) / np.bincount(index)
    rest = float(np.sum((centred - means[index]) ** 2)) / (len(values) - n_groups)
    return max(0.0, 1 - rest / (total / (len(values) - 1)))


def _count(mask: BoolArray, one: str, many: str) -> str:
    number = int(mask.sum())
    return f"{number:,} {one if number == 1 else many} of {len(mask):,}"


def _first(items: Array, word: str, most: int = 5) -> str:
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return f"{word} {', '.join(map(str, items[:most].tolist()))}{more}"


def _scans(cohort: Cohort, mask: BoolArray, most: int = 5) -> str:
    rows = np.flatnonzero(mask)
    shown = [f"{cohort.subjects[row]} at {cohort.times[row]:.4g}" for row in rows[:most]]
    more = f" and {len(rows) - most:,} more" if len(rows) > most else ""
    return ", ".join(shown) + more


def _store(cohort: Cohort) -> Iterator[Finding]:
    """A store with checksums was compared with them as it was read; an older one has none."""
    stored = cohort.stored
    if not isinstance(stored, Chunks) or stored.checksums is not None:
        return
    remedy = "Pack the cohort again to have damage noticed."
    absent = stored.absent()
    if absent:
        width = stored.chunks[1]
        where = some([f"{first} to {min(first + width, stored.shape[1]) - 1}" for first in absent])
        what = "Chunks of the packed cohort are absent: they have no value, or were lost."
        yield Finding("warning", what, f"vertices {where}", remedy)
    what = "The packed cohort is of an earlier version of braindive and has no checksums."
    yield Finding("note", what, "", remedy)
