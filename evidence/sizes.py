"""How large the experiments are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SPACINGS = (0.33, 0.30, 0.23, 0.17, 0.10, 0.07, 0.03, 0.02)
SUBJECTS = (300, 200, 100, 50, 35, 20, 10, 5)


@dataclass(frozen=True)
class Size:
    """Numbers of everything."""

    name: str
    repeats: int
    cortex_repeats: int
    smoothings: Sequence[int]
    folds: int
    cohort_subjects: int
    space: str
    null_cohorts: int
    planted_cohorts: int
    clusters: Mapping[int, Sequence[int]]
    selection_repeats: int
    selection_subjects: int
    splits: int
    resamples: int
    spacings: Sequence[float] = field(default=SPACINGS)
    subjects: Sequence[int] = field(default=SUBJECTS)


REDUCED = Size(
    name="reduced",
    repeats=3,
    cortex_repeats=1,
    smoothings=(0, 2),
    folds=5,
    cohort_subjects=150,
    space="fsaverage5-left",
    null_cohorts=60,
    planted_cohorts=10,
    clusters={2: range(2, 5), 3: range(2, 6), 5: range(3, 8)},
    selection_repeats=1,
    selection_subjects=100,
    splits=3,
    resamples=2,
)
FULL = Size(
    name="full",
    repeats=10,
    cortex_repeats=5,
    smoothings=(0, 1, 2, 4),
    folds=10,
    cohort_subjects=454,
    space="fsaverage5",
    null_cohorts=200,
    planted_cohorts=50,
    clusters={
        2: range(2, 7),
        3: range(2, 8),
        5: range(3, 10),
        10: range(4, 17, 2),
        15: range(6, 22, 3),
        20: range(8, 29, 4),
        30: range(12, 40, 6),
        40: range(16, 53, 6),
    },
    selection_repeats=1,
    selection_subjects=300,
    splits=4,
    resamples=3,
)
