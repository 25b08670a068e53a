"""Do curves of the same areas differ between two fits? Differences, intervals and tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from braindive.arrays import Array
from braindive.dive.curves import onset_gradients
from braindive.evaluation.groups import holm

# Draws for the interval of the agreement of orders; a choice.
_DRAWS = 4000


@dataclass(frozen=True)
class Known:
    """Numbers of the areas as one fit knows them, areas in the order of their names.

    Parameters
    ----------
    values : (n_areas,)
    covariance : (n_areas, n_areas)
    freedom : float
        People beyond the numbers that were learnt from them.
    """

    values: Array
    covariance: Array
    freedom: float = np.inf


def known_midpoints(model: Any) -> Known:
    """When each area is half-way, in the user's unit from the mean of all areas.

    From the mean, because the origin of a single fit, the midpoint of its earliest area, is itself
    uncertain, and may be another area in the other cohort.
    """
    marginal, timeline = model.marginal_, model.internal_.training.timeline
    parameters = model.internal_.parameters
    curves, known = marginal.trajectories, marginal.curve_uncertainty
    scores = timeline.scores(parameters.speeds, parameters.shifts)
    n_areas, width = len(curves), curves.n_parameters()
    moves = np.zeros((n_areas, len(known.centre)))
    for k, gradient in enumerate(onset_gradients(curves, scores)):
        moves[k, k * width : (k + 1) * width] = gradient
    onsets = curves.onset(scores)
    spread, by_spread, unit_variance = _unit(model)
    away = (onsets - onsets.mean()) / spread
    moves = (moves - moves.mean(axis=0)) / spread
    moves -= np.outer(away, by_spread) / spread
    covariance = moves @ known.covariance @ moves.T + unit_variance * np.outer(away, away)
    return _by_name(model, Known(away, covariance))


def known_log_steepness(model: Any) -> Known | None:
    """Logarithm of each area's steepness in the user's unit; None where curves have none."""
    marginal = model.marginal_
    curves, known = marginal.trajectories, marginal.curve_uncertainty
    if "steepness" not in curves.names():
        return None
    place, width = curves.names().index("steepness"), curves.n_parameters()
    n_areas, steepness = len(curves), curves.to_array()[:, place]
    moves = np.zeros((n_areas, len(known.centre)))
    moves[np.arange(n_areas), np.arange(n_areas) * width + place] = 1 / steepness
    spread, by_spread, unit_variance = _unit(model)
    moves += by_spread / spread
    covariance = moves @ known.covariance @ moves.T + unit_variance
    return _by_name(model, Known(np.log(steepness * spread), covariance))


def _unit(model: Any) -> tuple[float, Array, float]:
    """Unit of the score, its derivatives by the parameters, and its relative variance beyond that.

    In years it is that of the population, whose mean speed is 1 in the internal unit. The scores of
    one cohort have the mean speed of its own people, who are a sample: two samples of the same
    people would differ by that.
    """
    marginal, timeline = model.marginal_, model.internal_.training.timeline
    known = marginal.curve_uncertainty
    if model.scale == "years" and timeline.has_follow_up:
        return 1 / timeline.unit, np.zeros_like(known.spread), 0.0
    return marginal.spread, known.spread, known.unit_variance


def _by_name(model: Any, known: Known) -> Known:
    """Areas in the order of their names, which is not that of the onsets.

    As in regression, numbers that are learnt from people leave fewer of them to tell how much these
    vary: the covariance is raised by people over people beyond the numbers.
    """
    order = np.argsort(model.cluster_names_, kind="stable")
    n_people = model.internal_.training.timeline.n_subjects
    freedom = max(n_people - len(model.marginal_.curve_uncertainty.centre), 1)
    covariance = known.covariance[np.ix_(order, order)] * (n_people / freedom)
    return Known(known.values[order], covariance, float(freedom))


def midpoint_test(a: Known, b: Known) -> dict[str, float]:
    """Are areas half-way at the same times from each other, in the user's unit?"""
    contrasts = np.eye(len(a.values))[1:] - 1 / len(a.values)
    covariance = contrasts @ (a.covariance + b.covariance) @ contrasts.T
    return _wald(contrasts @ (a.values - b.values), covariance, a.freedom + b.freedom)


def order_test(a: Known, b: Known) -> dict[str, float]:
    """Is the order, with its relative distances, the same up to origin and unit?

    Positions are midpoints with mean 0 and spread 1 over the areas: whether a disease takes ten or
    twenty years from the first area to the last does not matter. Of two areas only the distance
    itself is left.
    """
    n_areas = len(a.values)
    if n_areas < 3:
        return midpoint_test(a, b)
    (one, turn), (other, back) = _positions(a), _positions(b)
    covariance = turn @ a.covariance @ turn.T + back @ b.covariance @ back.T
    # Mean 0 and spread 1 leave two directions without any variance.
    kept = np.linalg.eigh(covariance)[1][:, 2:]
    return _wald(kept.T @ (one - other), kept.T @ covariance @ kept, a.freedom + b.freedom)


def _positions(known: Known) -> tuple[Array, Array]:
    """Midpoints with mean 0 and spread 1, and their derivatives by the midpoints."""
    away = known.values - known.values.mean()
    n_areas, spread = len(away), float(np.sqrt(np.mean(away**2)))
    centring = np.eye(n_areas) - 1 / n_areas
    turn = (centring - np.outer(away, away) / (n_areas * spread**2)) / spread
    return away / spread, turn


def steepness_test(a: Known, b: Known) -> dict[str, float]:
    """Are curves as steep, area by area?"""
    return _wald(a.values - b.values, a.covariance + b.covariance, a.freedom + b.freedom)


def _wald(difference: Array, covariance: Array, freedom: float) -> dict[str, float]:
    """Wald's test, F distributed; `statistic` is the squared distance in standard errors."""
    statistic, n_numbers = (
        float(difference @ np.linalg.solve(covariance, difference)),
        len(difference),
    )
    return {
        "statistic": statistic,
        "df": float(n_numbers),
        "p_value": float(stats.f.sf(statistic / n_numbers, n_numbers, min(freedom, 1e9))),
    }


def order_agreement(a: Known, b: Known, random: np.random.Generator) -> dict[str, float]:
    """Kendall's tau of the two orders, its 95 % interval, and how probable it is that both agree.

    The interval is of draws of both cohorts' midpoints from what is known of them.
    """
    draws = []
    for known in (a, b):
        root = np.linalg.cholesky(known.covariance + 1e-12 * np.eye(len(known.values)))
        noise = random.standard_normal((_DRAWS, len(known.values)))
        draws.append(known.values + noise @ root.T)
    found = _taus(*draws)
    low, high = np.quantile(found, [0.025, 0.975])
    estimate = float(_taus(a.values[None], b.values[None])[0])
    same = float(np.mean(found > 1 - 1e-9))
    return {"tau": estimate, "low": float(low), "high": float(high), "same_order": same}


def _taus(one: Array, other: Array) -> Array:
    """Kendall's tau of each row."""
    rows, columns = np.triu_indices(one.shape[1], 1)
    signs = np.sign(one[:, rows] - one[:, columns]) * np.sign(other[:, rows] - other[:, columns])
    return np.asarray(signs.mean(axis=1))


def area_table(
    names: list[str], midpoints: tuple[Known, Known], steepness: tuple[Known, Known] | None
) -> pd.DataFrame:
    """Midpoints and steepness of each area in both cohorts, and how they differ."""
    a, b = midpoints
    columns: dict[str, Any] = {}
    for name, known in (("a", a), ("b", b)):
        columns[f"midpoint_{name}"] = known.values
        columns[f"midpoint_{name}_se"] = np.sqrt(np.diag(known.covariance))
    freedom = min(a.freedom + b.freedom, 1e9)
    errors = np.sqrt(np.diag(a.covariance + b.covariance))
    columns |= _compared("midpoint", b.values - a.values, errors, freedom)
    if steepness is not None:
        a, b = steepness
        columns |= {"steepness_a": np.exp(a.values), "steepness_b": np.exp(b.values)}
        errors = np.sqrt(np.diag(a.covariance + b.covariance))
        columns |= _compared("steepness", b.values - a.values, errors, freedom, ratio=True)
    return pd.DataFrame(columns, index=pd.Index(names, name="area"))


def _compared(
    name: str, difference: Array, errors: Array, freedom: float, ratio: bool = False
) -> dict[str, Any]:
    shown = np.exp if ratio else np.asarray
    width = float(stats.t.isf(0.025, freedom))
    p_values = pd.Series(2 * stats.t.sf(np.abs(difference) / errors, freedom))
    return {
        f"{name}_{'ratio' if ratio else 'difference'}": shown(difference),
        f"{name}_low": shown(difference - width * errors),
        f"{name}_high": shown(difference + width * errors),
        f"{name}_p": p_values.to_numpy(),
        f"{name}_p_corrected": holm(p_values).to_numpy(),
    }
