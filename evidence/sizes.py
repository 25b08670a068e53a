"""How large the experiments are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SPACINGS = (0.33, 0.30, 0.23, 0.17, 0.10, 0.07, 0.03, 0.02)
SUBJECTS = (300, 200, 100, 50, 35, 20, 10, 5)
# Few maps, in which speeds are mostly noise, and enough to see them.
GROUP_COHORTS: Sequence[Mapping[str, Any]] = (
    {"n_subjects": 60, "n_visits": 3, "n_vertices": 60, "personal_offset": 0.0},
    {"n_subjects": 150, "n_visits": 5, "n_vertices": 1000, "personal_offset": 0.0},
    {"n_subjects": 150, "n_visits": 5, "n_vertices": 1000, "personal_offset": 0.9},
)


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
    # Numbers to try by the true number, with every seed of selection_seeds ...
    clusters: Mapping[int, Sequence[int]]
    # ... and with the first of them.
    many_clusters: Mapping[int, Sequence[int]]
    selection_seeds: Sequence[int]
    selection_subjects: int
    spacings: Sequence[float] = field(default=SPACINGS)
    subjects: Sequence[int] = field(default=SUBJECTS)
    group_cohorts: Sequence[Mapping[str, Any]] = field(default=GROUP_COHORTS)


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
    clusters={2: range(2, 6), 3: range(2, 7), 5: range(2, 8)},
    many_clusters={10: (6, 8, 10, 12)},
    selection_seeds=(11, 12, 13),
    selection_subjects=100,
)
# Seconds: to see that everything runs, not to learn anything.
TINY = Size(
    name="tiny",
    repeats=2,
    cortex_repeats=1,
    smoothings=(0,),
    folds=2,
    cohort_subjects=40,
    space="fsaverage5-left",
    null_cohorts=2,
    planted_cohorts=1,
    clusters={2: (2, 3)},
    many_clusters={},
    selection_seeds=(11,),
    selection_subjects=20,
    spacings=(0.33,),
    subjects=(10, 5),
    group_cohorts=(
        {"n_subjects": 24, "n_visits": 4, "n_vertices": 300, "personal_offset": 0.0},
        {"n_subjects": 30, "n_visits": 4, "n_vertices": 60, "personal_offset": 0.3},
    ),
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
    clusters={2: range(2, 9), 3: range(2, 9), 5: range(2, 9)},
    # Around the truth, what the paper's AIC and BIC chose, and fewer.
    many_clusters={
        10: (3, 5, 7, 9, 10, 11, 12, 14),
        15: (4, 7, 9, 12, 15, 18, 20),
        20: (5, 8, 12, 14, 18, 20, 22, 25),
        30: (8, 12, 16, 20, 24, 30, 34, 38),
        40: (10, 16, 22, 28, 34, 40, 44, 48),
    },
    # Seeds that no rule was tried on.
    selection_seeds=(11, 12, 13, 14, 15),
    selection_subjects=300,
)
