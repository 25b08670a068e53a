"""Differences between groups of people inside the marginal model, with intervals and tests.

Stages of single people are shrunk towards the mean, and differences between groups of them with
them, most of all those of speeds. Here groups move the means of the population itself: the model is
fitted again with the groups as covariates, and what differs are its means.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from braindive.arrays import Array
from braindive.cohort import Cohort
from braindive.dive.timeline import Timeline
from braindive.effects import SmallSample, shift_row, speed_row
from braindive.fitted import timeline_of
from braindive.staging.effects_fit import fit_effects
from braindive.staging.marginal_stager import MarginalStager, Training
from braindive.staging.population import Design, groups_of
from braindive.staging.skewed import skewed_mean

# Shares of a column that follow from the others below which it tells nothing of its own.
_NOTHING = 1e-8


def group_differences(
    model: Any, values: pd.Series, continuous: bool, cohort: Cohort | None = None
) -> list[dict[str, Any]]:
    """Differences of shift, speed and baseline score between groups, or along a quantity.

    Parameters
    ----------
    model : DIVE
        Fitted, with `people="differ"`.
    values : Series
        Group or quantity of some of the subjects, indexed by subject.
    continuous : bool
        Whether it is a quantity.
    cohort : Cohort, optional
        Other subjects than those of the fit; the curves are then those of the fit.

    Returns
    -------
    list of dict
        Of shift, speed and baseline score: `test`, `statistic`, `p_value`, and `estimate`, `se`,
        `low` and `high` of two groups or of a quantity; of more groups these with `_name` of each
        group but the first, against that one. Of speeds the estimates are ratios.
    """
    people, subjects = _people(model, cohort)
    chosen = np.flatnonzero(np.isin(subjects, values.index))
    people = people.select(chosen)
    values = values.loc[subjects[chosen]]
    names, columns, weights = _compared(values, continuous)
    timeline = people.timeline
    speeds_vary = timeline.has_follow_up and not model.internal_.priors.speed.is_fixed
    free = _independent(columns, people.groups)
    nothing = np.zeros((len(values), 0))
    design = Design(free, free if speeds_vary else nothing, np.zeros(len(values)))
    found, covariance = fit_effects(
        model.marginal_, people, design, model.internal_.priors, model.scale, cohort is None
    )
    # One parameter more: the skew of the patients' shifts.
    known = found.curve_uncertainty
    centre, spread = np.append(known.centre, 0.0), np.append(known.spread, 0.0)
    known = replace(known, covariance=covariance, centre=centre, spread=spread)
    found = replace(found, curve_uncertainty=known)
    sample = SmallSample(len(values), found.population.n_groups, columns.shape[1])
    rows = []
    for parameter in ("shift", "speed", "baseline score"):
        means, moves = _means(parameter, found, people, design.at(timeline))
        # Who is in which group is chance too, where groups differ in controls or in ages.
        full = np.column_stack([np.ones(len(values)), columns])
        by_chance = means - full @ np.linalg.lstsq(full, means, rcond=None)[0]
        extra = (weights * by_chance**2) @ weights.T
        value, jacobian = weights @ means, weights @ moves
        rows.append(_row(parameter, found, value, jacobian, extra, sample, names))
    return rows


def _row(
    parameter: str,
    found: MarginalStager,
    value: Array,
    jacobian: Array,
    extra: Array,
    sample: SmallSample,
    names: list[str],
) -> dict[str, Any]:
    """Test and estimates of one parameter, from its internal differences."""
    known = found.curve_uncertainty
    covariance = jacobian @ known.covariance @ jacobian.T + extra
    row: dict[str, Any] = {}
    if not covariance.any():  # speeds that do not vary
        return {"test": "none", "statistic": np.nan, "p_value": np.nan}
    parts = []
    for place in range(len(value)):
        if parameter == "speed":
            parts.append(speed_row(float(value[place]), float(covariance[place, place]), sample))
        else:
            parts.append(
                shift_row(
                    found,
                    float(value[place]),
                    jacobian[place],
                    sample,
                    float(extra[place, place]),
                )
            )
    if len(parts) == 1:
        only = parts[0]
        p_value = only.pop("p")
        sign = only["estimate"] - (parameter == "speed")
        row["test"] = "marginal t"
        row["statistic"] = float(np.sign(sign) * stats.t.isf(p_value / 2, sample.freedom))
        return row | {"p_value": p_value} | only
    squared = float(value @ np.linalg.solve(sample.inflation * covariance, value))
    statistic = squared / len(value)
    row["test"], row["statistic"] = "marginal F", statistic
    row["p_value"] = float(stats.f.sf(statistic, len(value), sample.freedom))
    for name, part in zip(names, parts, strict=True):
        row |= {f"{key}_{name}": part[key] for key in ("estimate", "se", "low", "high")}
    return row


def _means(
    parameter: str, found: MarginalStager, people: Training, design: Design
) -> tuple[Array, Array]:
    """Expected value of each subject in the population, and its derivatives by the parameters.

    Internal scores at time 0 or at the first visit, or log speeds. The last parameter is the skew
    of the last group's shifts.
    """
    population, timeline, groups = found.population, people.timeline, people.groups
    assert groups is not None
    assert population.effects is not None
    n_groups, n_subjects = population.n_groups, timeline.n_subjects
    n_shift, n_speed = len(population.effects.shift), len(population.effects.log_speed)
    size = len(found.curve_uncertainty.centre) - 1
    first = found.trajectories.to_array().size
    every = np.arange(n_subjects)
    of_speed = np.zeros((n_subjects, size + 1))
    of_speed[every, first + 2 * n_groups + groups] = 1.0
    of_speed[:, size - n_speed : size] = design.log_speed
    log_speeds = (
        population.log_speed_means[groups] + design.log_speed @ population.effects.log_speed
    )
    if parameter == "speed":
        return log_speeds, of_speed
    of_shift = np.zeros((n_subjects, size + 1))
    of_shift[every, first + groups] = 1.0
    of_shift[:, size - n_speed - n_shift : size - n_speed] = design.shift
    shifts = population.shift_means[groups] + design.shift @ population.effects.shift
    if population.skews is not None:
        # A skewed distribution's mean is not its origin, which groups with few controls are
        # further from than others.
        last = groups == n_groups - 1
        mean, by_skew = skewed_mean(float(population.skews[-1]))
        sd = float(population.shift_sds[-1])
        shifts = shifts + last * sd * mean
        of_shift[last, first + 2 * n_groups - 1] = sd * mean
        of_shift[last, size] = sd * by_skew
    if parameter == "baseline score":
        return shifts, of_shift
    variances = population.log_speed_sds[groups] ** 2
    way = _first_times(timeline) * np.exp(log_speeds + variances / 2)
    of_speed[every, first + 3 * n_groups + groups] = variances
    return shifts - way, of_shift - way[:, None] * of_speed


def _first_times(timeline: Timeline) -> Array:
    """The user's time of each subject's first visit, in internal units of time."""
    return np.asarray(timeline.years[timeline.starts] / timeline.unit)


def _people(model: Any, cohort: Cohort | None) -> tuple[Training, np.ndarray[Any, Any]]:
    """Pooled measurements of the training subjects, or of others, and who they are."""
    training: Training = model.internal_.training
    marginal: MarginalStager = model.marginal_
    if cohort is None:
        groups = training.groups
        if groups is None:  # files of the first format
            groups = np.zeros(training.timeline.n_subjects, dtype=int)
        return replace(training, groups=groups), np.asarray(model.subjects_)
    cohort = model.prepare(cohort)
    timeline = timeline_of(cohort, model.internal_.time_unit)
    sums, weights = model.pool(model.products(cohort))
    groups = np.full(timeline.n_subjects, marginal.population.n_groups - 1)
    if marginal.population.n_groups > 1 and cohort.controls is not None:
        groups = groups_of(timeline, cohort.controls[cohort.canonical_order], least=0)
    reference = np.ones(len(timeline.times), dtype=bool)
    sites = model.sites_of_visits(cohort)
    design = model.design(cohort, timeline)
    others = Training(timeline, sums, weights, reference, training.bounds, groups, design, sites)
    return others, np.asarray(cohort.subject_ids)


def _compared(values: pd.Series, continuous: bool) -> tuple[list[str], Array, Array]:
    """Names, columns (n_subjects, n) and weights (n, n_subjects) of what is compared."""
    if continuous:
        numbers = values.to_numpy(dtype=float)
        away = numbers - numbers.mean()
        return ["1"], away[:, None] / numbers.std(), away[None] / float(away @ away)
    names = sorted(values.unique(), key=lambda name: (str(type(name)), name))
    member = np.stack([(values == name).to_numpy(dtype=float) for name in names], axis=1)
    shares = member / member.sum(axis=0)
    columns = member[:, 1:]
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    return [str(name) for name in names[1:]], columns, (shares[:, 1:] - shares[:, :1]).T


def _independent(columns: Array, groups: Array | None) -> Array:
    """Columns that tell more than who is a control, which the population knows by itself."""
    assert groups is not None
    known = np.column_stack([np.ones(len(columns)), groups > 0]).astype(float)
    kept = []
    for column in columns.T:
        left = column - known @ np.linalg.lstsq(known, column, rcond=None)[0]
        if float(left @ left) > _NOTHING * len(column):
            kept.append(column)
            known = np.column_stack([known, column])
    return np.stack(kept, axis=1) if kept else np.zeros((len(columns), 0))
