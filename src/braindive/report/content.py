"""What the report says about a fit: plain rows and numbers, taken from the model as it is."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from braindive.cluster_names import display_names
from braindive.estimator import DIVE
from braindive.io.anatomy import Anatomy, paint_regions
from braindive.palette import cluster_colours
from braindive.progression_words import progression_sentence
from braindive.report.embedding import encode_array
from braindive.report.people import describe_diagnoses
from braindive.report.picture import PagePicture, draw_surface
from braindive.report.places import Place, describe_places
from braindive.report.planes import draw_volume
from braindive.score_names import score_is_in_years
from braindive.site_tables import site_table
from braindive.space import Surface, Volume

_LARGEST = 65_535
# Points at which the page is given each curve; between them it interpolates. The slider's 200
# steps are every second of them, so that what it shows is the model's own number.
_POINTS = 401


def describe_clusters(model: DIVE, places: list[list[Place]]) -> list[dict[str, Any]]:
    """Curve with its error, colour, noise, share of the vertices and places of each cluster."""
    curves, drawn = model.trajectories_, describe_range(model)
    scores = np.linspace(drawn["low"], drawn["high"], _POINTS)
    values, slopes = curves.evaluate(scores), curves.slope(scores)
    errors = model.trajectory_errors(scores)
    onsets = curves.onset(model.scores_)
    shares, known = model.responsibilities_.mean(axis=0), bool(np.isfinite(errors).all())
    # The page speaks of areas, and says once that these are the clusters.
    named = zip(display_names(model, word="Area"), cluster_colours(len(curves)), strict=True)
    return [
        {
            "name": name,
            "colour": colour,
            "onset": onsets[k],
            "values": encode_array(values[:, k], "float64"),
            "slopes": encode_array(slopes[:, k], "float64"),
            # Bands are drawn a few pixels wide: more digits than these would be lost.
            "errors": encode_array(errors[:, k], "float32") if known else None,
            "noise": model.noise_[k],
            "share": shares[k],
            "places": describe_places(places[k]),
        }
        for k, (name, colour) in enumerate(named)
    ]


def describe_range(model: DIVE) -> dict[str, float]:
    """Scores along which the slider runs: nearly everybody's."""
    low, high = np.quantile(model.scores_, [0.005, 0.995])
    margin = 0.05 * (high - low) or 1.0
    return {"low": float(low - margin), "high": float(high + margin)}


def draw_model(model: DIVE) -> PagePicture | None:
    """Choose what the page draws of a model's space; None where there is nothing to look at."""
    space = model.space_
    if isinstance(space, Surface):
        return draw_surface(space)
    if isinstance(space, Volume):
        return draw_volume(space, len(model.noise_))
    painting = paint_regions(space)
    if painting is None:
        return None
    drawn = draw_surface(painting.space)
    columns = np.where(drawn.columns < 0, -1, painting.columns[drawn.columns])
    note = f"Regions are painted on fsaverage5 within the borders of {painting.atlas}."
    if painting.left_out:
        note += f" Not drawn: {', '.join(painting.left_out)}."
    return PagePicture(drawn.kind, columns, drawn.content | {"ofRegions": True}, note)


def describe_picture(model: DIVE, picture: PagePicture, anatomy: Anatomy | None) -> dict[str, Any]:
    """Geometry, membership and region of each point; the page computes every frame from them."""
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
    if anatomy is not None:
        regions = np.zeros(len(measured), dtype=np.uint16)
        regions[measured] = anatomy.labels[picture.columns[measured]] + 1
        found["regions"] = {"names": list(anatomy.names), "of": encode_array(regions, "uint16")}
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
    diagnoses = describe_diagnoses(model)
    if diagnoses:
        facts.append(("Diagnosis at the first visit", diagnoses))
    return facts


def describe_warnings(model: DIVE, anonymous: bool = False) -> list[str]:
    """What a reader should know before trusting the fit; without ids if people are numbers."""
    # Whether there is a progression stands at the top of the page already.
    judged = progression_sentence(model)
    found = [message[:1].upper() + message[1:] for message in model.warnings_ if message != judged]
    if anonymous:
        ids = sorted((str(subject) for subject in model.subjects_.tolist()), key=len, reverse=True)
        known = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, ids))})(?!\w)")
        found = [known.sub("[a person]", message) for message in found]
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
        if name in ("speed_on", "shift_on"):
            value = ", ".join(map(str, value or ())) or None
        elif isinstance(value, (np.ndarray, list, tuple, pd.Series)):
            value = f"{len(value):,} given labels"
        elif isinstance(value, type):
            value = value.__name__
        rows.append((name, str(value)))
    return rows


def describe_versions(model: DIVE) -> list[tuple[str, str]]:
    """Versions with which the model was fitted and the report was written."""
    fitted = [(f"Fitted with {name}", number) for name, number in model.versions_.items()]
    return [*fitted, ("Report written with braindive", version("braindive"))]


def describe_sites(model: DIVE) -> list[dict[str, str]]:
    """What sites add, where the model was asked: one row for each."""
    if getattr(model, "sites_", None) is None:
        return []
    return [
        {
            "site": str(row["site"]),
            "people": f"{row['people']:,} ({row['visits']:,} visits)",
            "offset": f"{row['offset']:+.2g} \N{PLUS-MINUS SIGN} {row['offset_sd']:.2g}",
            "noise": f"\N{MULTIPLICATION SIGN} {row['noise']:.2f}",
        }
        for row in site_table(model).rename_axis("site").reset_index().to_dict("records")
    ]


def describe_effects(model: DIVE) -> list[dict[str, str]]:
    """What moves people, where the model was asked: one row for each effect."""
    table = getattr(model, "effects_", None)
    if table is None:
        return []
    years = " years" if score_is_in_years(model) else ""
    rows = []
    for row in table.to_dict("records"):
        is_shift = row["parameter"] == "shift"
        what, unit = ("score at the first visit", years) if is_shift else ("speed", "")
        sign = "+" if is_shift else ""
        times = "" if is_shift else "\N{MULTIPLICATION SIGN} "
        rows.append(
            {
                "what": what,
                "contrast": f"{row['covariate']}: {row['contrast']}",
                "estimate": f"{times}{row['estimate']:{sign}.2f}{unit}",
                "interval": f"{row['low']:{sign}.2f} to {row['high']:{sign}.2f}",
                "p": "< 0.001" if row["p"] < 0.001 else f"{row['p']:.3f}",
            }
        )
    return rows
