"""What a check-up finds, and what it finds about the controls of a cohort."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.cohort.checks import some
from braindive.cohort.cohort import Cohort
from braindive.cohort.summary import Summary
from braindive.cohort.table_columns import simple
from braindive.space import Space, Surface

Level = Literal["warning", "note"]
# Columns that tell who is ill, without case and punctuation.
_DIAGNOSES = ("diagnosis", "dx", "group", "researchgroup", "clinicalgroup")


@dataclass(frozen=True)
class Finding:
    """Something a person should look at.

    Parameters
    ----------
    level : {"warning", "note"}
        A warning is probably a mistake; a note is good to know.
    what : str
        What was seen, in a sentence.
    where : str
        Subjects, visits, vertices or column; empty for the whole cohort.
    remedy : str
        What to do.
    """

    level: Level
    what: str
    where: str
    remedy: str


def groups_of(cohort: Cohort, summary: Summary) -> Iterator[Finding]:
    """Who the controls are, and how the others differ from them."""
    controls = cohort.controls
    if controls is None or not controls.any():
        yield Finding(
            "note",
            "No visit is marked as a control's.",
            _diagnoses(cohort),
            "Scores will be relative to everybody, and the direction of time is judged from "
            "follow-up alone. Give a diagnosis column with controls (CN), or say who they are, as "
            'in --controls "diagnosis == HC".',
        )
        return
    people, everybody = len(set(cohort.subjects[controls].tolist())), cohort.n_subjects
    yield Finding(
        "note",
        f"{people:,} of {everybody:,} people {'is a control' if people == 1 else 'are controls'}, "
        f"at {_visits(int(controls.sum()))}.",
        _diagnoses(cohort, controls),
        "Name others with --controls.",
    )
    if controls.all():
        yield Finding("warning", "Every visit is a control's.", "", "There is no disease to model.")
        return
    known = np.isfinite(summary.difference) & ~summary.constant
    if not known.any():
        return
    lower = float(np.mean(summary.difference[known] < 0))
    word, share = ("lower", lower) if lower >= 0.5 else ("higher", 1 - lower)
    yield Finding(
        "note",
        f"Patients are {word} than controls at {share:.0%} of the vertices.",
        "",
        "Atrophy lowers thickness and volume; amyloid and tau raise PET.",
    )
    within = cohort.times - subject_means(cohort, cohort.times)
    moved = summary.scan_mean - subject_means(cohort, summary.scan_mean)
    patients = ~controls & (within != 0)
    if patients.sum() < 3:
        return
    slope = float(within[patients] @ moved[patients] / (within[patients] @ within[patients]))
    residual = moved[patients] - slope * within[patients]
    error = float(np.sqrt(np.mean(residual**2) / (within[patients] @ within[patients])))
    gap = float(np.mean(summary.difference[known]))
    if abs(slope) > 3 * error and np.sign(slope) != np.sign(gap) and share > 0.7:
        yield Finding(
            "warning",
            f"Patients are {word} than controls, but move the other way over time "
            f"({slope:+.3g} a year on average).",
            "",
            "Check the sign of the measure, the labels of the controls and the order of visits.",
        )


def standard_of(cohort: Cohort, summary: Summary) -> Iterator[Finding]:
    """Whether values are standardised to the controls."""
    known = np.isfinite(summary.control_spread) & ~summary.constant
    if not known.any():
        return
    level = float(np.median(np.abs(summary.control_mean[known])))
    spread = float(np.median(summary.control_spread[known]))
    if level > 0.5 or not 0.5 < spread < 2:
        yield Finding(
            "note",
            f"Values are not standardised to the controls, in whom vertices have mean {level:.3g} "
            f"and standard deviation {spread:.3g} (medians).",
            "",
            "Fit with --standardise, or DIVE(preprocessing=Preprocessing()).",
        )


def _visits(number: int) -> str:
    return "1 visit" if number == 1 else f"{number:,} visits"


def _diagnoses(cohort: Cohort, visits: BoolArray | None = None) -> str:
    """Diagnoses of some visits or of all, with their numbers; nothing where others have them too.

    Parameters
    ----------
    cohort : Cohort
        With a table.
    visits : (n_visits,) bool, optional
        Which visits.
    """
    found = [name for name in cohort.table if simple(str(name)) in _DIAGNOSES]
    if not found:
        return ""
    column = cohort.table[found[0]].astype(str).to_numpy()
    chosen = np.ones(len(column), dtype=bool) if visits is None else visits
    if set(column[chosen]) & set(column[~chosen]):
        return ""  # something else tells these visits
    names, counts = np.unique(column[chosen], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    listed = [f"{names[each]} {counts[each]:,}" for each in order]
    return f"{found[0]}: {some(listed, most=8)}"


def constant_advice(zero: bool, space: Space | None) -> str:
    """What to do about vertices that have the same value at every visit, in a sentence.

    Parameters
    ----------
    zero : bool
        Whether the value is 0.
    space : Space or None
        Where the vertices lie.
    """
    if not zero:
        return (
            "They cannot belong to a course: drop them with --standardise, or "
            "DIVE(preprocessing=Preprocessing()), or set them to NaN."
        )
    drop = "drop them with --drop-zeros, or DIVE(preprocessing=Preprocessing(drop_zeros=True))"
    if isinstance(space, Surface):
        return f"They are 0, as FreeSurfer writes off the cortex (the medial wall): {drop}."
    mask = ", or give the mask of the brain (--space mask.nii.gz)" if space is None else ""
    return f"They are 0, as values outside the brain are: {drop}{mask}."


def subject_means(cohort: Cohort, values: Array) -> Array:
    """Mean over the visits of each person, for every visit."""
    index = cohort.subject_index
    return (np.bincount(index, values) / np.bincount(index))[index]
