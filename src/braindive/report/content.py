"""What the report says about a fit: plain rows and numbers, taken from the model as it is."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from braindive.cluster_names import display_names
from braindive.cohort import Cohort
from braindive.estimator import DIVE
from braindive.palette import cluster_colours
from braindive.report.embedding import encode_array, plain
from braindive.report.picture import PagePicture

# Where a table says who and when, or where on someone's disk a scan lies.
_NOT_SHOWN = {"participant_id", "subject", "time", "years", "path", "left", "right", "session_id"}
_MOST_COLUMNS = 12
_LARGEST = 65_535
# Points at which the page is given each curve; between them it interpolates. The slider's 200
# steps are every second of them, so that what it shows is the model's own number.
_POINTS = 401

CITATION = (
    "Marinescu RV, Eshaghi A, Lorenzi M, et al. DIVE: A spatiotemporal progression model of brain "
    "pathology in neurodegenerative disorders. NeuroImage 192 (2019), 166-177."
)


def describe_clusters(model: DIVE) -> list[dict[str, Any]]:
    """Curve, colour, noise and share of the vertices of each cluster."""
    curves, drawn = model.trajectories_, describe_range(model)
    scores = np.linspace(drawn["low"], drawn["high"], _POINTS)
    values, slopes = curves.evaluate(scores), curves.slope(scores)
    onsets = curves.onset(model.scores_)
    shares = model.responsibilities_.mean(axis=0)
    # The page speaks of areas, and says once that these are the clusters.
    named = zip(display_names(model, word="Area"), cluster_colours(len(curves)), strict=True)
    return [
        {
            "name": name,
            "colour": colour,
            "onset": onsets[k],
            "values": encode_array(values[:, k], "float64"),
            "slopes": encode_array(slopes[:, k], "float64"),
            "noise": model.noise_[k],
            "share": shares[k],
        }
        for k, (name, colour) in enumerate(named)
    ]


def describe_range(model: DIVE) -> dict[str, float]:
    """Scores along which the slider runs: nearly everybody's."""
    low, high = np.quantile(model.scores_, [0.005, 0.995])
    margin = 0.05 * (high - low) or 1.0
    return {"low": float(low - margin), "high": float(high + margin)}


def describe_picture(model: DIVE, picture: PagePicture) -> dict[str, Any]:
    """Geometry and membership of each point; the page computes every frame from them."""
    measured = picture.columns >= 0
    steps = np.zeros((len(picture.columns), len(model.noise_)), dtype=np.uint16)
    steps[measured] = np.round(model.responsibilities_[picture.columns[measured]] * _LARGEST)
    found = {
        "kind": picture.kind,
        "note": picture.note,
        "measured": encode_array(measured, "uint8"),
        "probabilities": encode_array(steps, "uint16"),
        **picture.content,
    }
    if hasattr(model, "vertex_midpoints_"):
        of_columns = {
            "midpoints": model.vertex_midpoints_,
            "midpointErrors": model.vertex_midpoints_se_,
        }
        for name, values in of_columns.items():
            shown = np.full(len(measured), np.nan)
            shown[measured] = values[picture.columns[measured]]
            found[name] = encode_array(shown, "float32")
    return found


def describe_people(model: DIVE, cohort: Cohort | None) -> dict[str, Any]:
    """One row per person: stage, speed and what the cohort's table says of the first visit."""
    visits = model.visits_.reset_index(drop=True)
    rows = visits.assign(score=model.scores_).sort_values("time", kind="stable")
    position = {subject: row for row, subject in enumerate(model.subjects_.tolist())}
    order = [position[subject] for subject in rows["subject"].tolist()]
    scores: list[list[float]] = [[] for _ in position]
    first: list[int] = [-1] * len(position)
    for row, label, score in zip(order, rows.index, rows["score"].tolist(), strict=True):
        scores[row].append(score)
        first[row] = label if first[row] < 0 else first[row]

    columns: dict[str, list[Any]] = {
        "Person": [str(subject) for subject in model.subjects_.tolist()],
        "Score": [each[0] for each in scores],
        "Speed": plain(model.speeds_),
        "Shift": plain(model.shifts_),
        "Visits": [len(each) for each in scores],
    }
    if cohort is not None:
        stages = model.stage(cohort).reindex(model.subjects_)
        columns["Score ±"] = plain(stages["score_se"].to_numpy())
    table = visits.loc[first]
    shown = [name for name in table.columns if str(name) not in _NOT_SHOWN]
    for name in shown[:_MOST_COLUMNS]:
        heading = str(name)
        columns[f"{heading} (table)" if heading in columns else heading] = plain(
            table[name].astype(object).where(table[name].notna(), None).tolist()
        )
    return {"columns": [{"name": n, "cells": cells} for n, cells in columns.items()], "at": scores}


def describe_facts(model: DIVE) -> list[tuple[str, str]]:
    """What was fitted and on whom, in words."""
    visits = model.visits_
    follow_up = visits.groupby("subject")["time"].agg(np.ptp)
    space = model.space_
    facts = [
        ("People", f"{len(model.subjects_):,}"),
        ("Visits", f"{len(model.scores_):,}"),
        ("Follow-up", f"{follow_up.median():.1f} years (median)"),
        ("Vertices", f"{model.n_vertices_:,}" + (f" on {space.name}" if space is not None else "")),
        ("Areas", f"{len(model.noise_)}"),
    ]
    if "diagnosis" in visits:
        last = visits.sort_values("time", kind="stable").groupby("subject")["diagnosis"].last()
        counts = last.astype(str).value_counts()
        facts.append(("Diagnosis", ", ".join(f"{n} {name}" for name, n in counts.items())))
    return facts


def describe_warnings(model: DIVE) -> list[str]:
    """What a reader should know before trusting the fit."""
    found = [message[:1].upper() + message[1:] for message in model.warnings_]
    vague = float((model.responsibilities_.max(axis=1) < 0.5).mean())
    if vague > 0.1:
        found.append(
            f"{vague:.0%} of the vertices belong to no area with more than 50% probability."
        )
    return found


def describe_fit(model: DIVE) -> list[tuple[str, str]]:
    """How the fit ended."""
    return [
        ("Ended", f"{model.stop_reason_} after {model.n_iter_} passes"),
        ("Log-likelihood", f"{model.log_likelihood_:,.1f}"),
        ("AIC", f"{model.aic_:,.1f}"),
        ("BIC", f"{model.bic_:,.1f}"),
        ("Spatial strength", f"{model.spatial_strength_:.3g}"),
    ]


def describe_settings(model: DIVE) -> list[tuple[str, str]]:
    """Parameters of the model, long lists cut short."""
    rows = []
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, (np.ndarray, list, tuple, pd.Series)):
            value = f"{len(value):,} given labels"
        elif isinstance(value, type):
            value = value.__name__
        rows.append((name, str(value)))
    return rows


def describe_versions(model: DIVE) -> list[tuple[str, str]]:
    """Versions with which the model was fitted and the report was written."""
    fitted = [(f"Fitted with {name}", number) for name, number in model.versions_.items()]
    return [*fitted, ("Report written with braindive", version("braindive"))]
