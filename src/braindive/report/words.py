"""The report's first screen in words: what is shown, in which unit, what comes first, how sure."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

import numpy as np

from braindive.cluster_names import display_names
from braindive.estimator import DIVE
from braindive.progression_words import progression_sentence
from braindive.report.people import describe_diagnoses
from braindive.report.places import Place
from braindive.score_names import score_is_in_years
from braindive.space import Regions

# FreeSurfer's measures by the words in the names of its files and columns, with their units.
_MEASURES = {
    "thickness": "cortical thickness (mm)",
    "area": "surface area (mm²)",
    "volume": "volume (mm³)",
}


def describe_measure(model: DIVE, measure: str | None) -> str:
    """What the values are, for axes and sentences: as the user calls them, or what is known."""
    name = measure or guess_measure(model)
    if _is_standard(model):
        return f"z-score of {_without_unit(name)}" if name else "z-score"
    return name or "value"


def explain_measure(model: DIVE, measure: str | None) -> str:
    """Say in which unit the values are, and how that is known."""
    name = measure or guess_measure(model)
    if _is_standard(model):
        of = f" of {_without_unit(name)}" if name else ""
        return (
            f"z-scores{of}: 0 is the mean of the controls there, and 1 is one of their standard "
            "deviations above it."
        )
    if measure:
        return f"{measure}, as in the maps that were fitted."
    if name:
        return f"{name}, by the names of files and regions."
    return "in the unit of the maps that were fitted."


def guess_measure(model: DIVE) -> str:
    """Measure that all regions, or all files of the table, have in their names; else nothing."""
    space, visits = model.space_, model.visits_
    if isinstance(space, Regions):
        names = [name.lower() for name in space.names]
    else:
        columns = [name for name in ("path", "left", "right") if name in visits]
        texts = visits[columns].to_numpy().ravel().tolist() if columns else []
        names = [PurePath(str(text)).name.lower() for text in texts]
    for word, measure in _MEASURES.items():
        alone = re.compile(rf"(?<![a-z]){word}(?![a-z])")
        if names and all(alone.search(name) for name in names):
            return measure
    return ""


def _without_unit(name: str) -> str:
    """A measure without the unit in brackets that its z-scores do not have."""
    return re.sub(r"\s*\([^()]*\)$", "", name)


def _is_standard(model: DIVE) -> bool:
    prepared = model.preprocessing_
    return prepared is not None and bool(prepared.standardise)


def explain_shown(model: DIVE, measure: str | None) -> str:
    """Say what the picture shows, and of whom."""
    people, visits = len(model.subjects_), len(model.scores_)
    space = model.space_
    what = {"volume": "voxels", "regions": "regions"}.get(
        "" if space is None else space.kind, "vertices"
    )
    where = f" of {space.name}" if space is not None else ""
    diagnoses = describe_diagnoses(model)
    whom = f"{people:,} people{f' ({diagnoses})' if diagnoses else ''}"
    return (
        f"The {describe_measure(model, measure)} that the model expects at each of "
        f"{model.n_vertices_:,} {what}{where}, at the score of the slider; learnt from {whom} at "
        f"{visits:,} visits."
    )


def explain_first(model: DIVE, places: list[list[Place]]) -> list[str]:
    """Say which places are affected first, and when the others follow."""
    onsets = model.trajectories_.onset(model.scores_)
    names = display_names(model, word="Area")
    unit = " years" if score_is_in_years(model) else ""
    sentences = []
    for k in range(min(len(names), 2)):
        where = ", ".join(str(place) for place in places[k][:3])
        if isinstance(model.space_, Regions):
            where = ", ".join(place.name for place in places[k][:5])
        share = 100 * float(model.responsibilities_[:, k].mean())
        where = where or f"{share:.0f} % of the vertices"
        if not k:
            sentences.append(f"{names[k]}: {where}.")
        else:
            later = float(onsets[k] - onsets[0])
            sentences.append(f"{later:.1f}{unit} later {names[k]}: {where}.")
    return sentences


def explain_progression(model: DIVE) -> str:
    """Say that no progression was found, where the fit has judged so; else nothing."""
    if model.progression_found_ is None or model.progression_found_:
        return ""
    return progression_sentence(model)


def explain_certainty(model: DIVE) -> str:
    """Say that a progression was found, and with which p-value; nothing if that is not known."""
    return progression_sentence(model) if model.progression_found_ else ""


def explain_errors(model: DIVE) -> str:
    """Say where standard errors come from, or why there are none."""
    if not model.staging:
        return "Without staging the score is time, which has no error."
    if model.people == "alike":
        return (
            "This model takes people for alike, as published: its standard errors are as small as "
            "if vertices were independent, and its curves have none."
        )
    if not np.isfinite(model.baseline_scores_se_).any():
        return "This model was saved before fits kept standard errors; fit it again to have them."
    return ""


def score_landmarks(model: DIVE) -> dict[str, Any]:
    """What 0 and 1 mean on the scale of the score, in a few words each."""
    if not model.staging:
        return {"zero": "time 0 of the table", "one": "a year after it"}
    if model.scale == "controls":
        return {
            "zero": "mean of the controls (of all, if there are none)",
            "one": "one of their standard deviations further",
        }
    zero = "the earliest area is half-way"
    if score_is_in_years(model):
        return {"zero": zero, "one": "a year later at the mean speed"}
    return {"zero": zero, "one": "one standard deviation of the scores further"}
