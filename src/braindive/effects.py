"""What moves people: covariates, their effects with errors and tests, and these in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy import stats

from braindive.arrays import Array
from braindive.cohort.cohort import Cohort
from braindive.cohort.covariates import (
    SubjectCovariate,
    check_independent,
    check_names,
    design_columns,
    learn_covariates,
)
from braindive.dive.priors import Priors
from braindive.dive.timeline import Timeline
from braindive.errors import CohortError, ParameterError
from braindive.results import Internal
from braindive.staging.marginal_stager import MarginalStager
from braindive.staging.population import Design, groups_of

Covariates = tuple[tuple[SubjectCovariate, ...], tuple[SubjectCovariate, ...]]
"""Those on the shift, and those on the speed."""


class Choices(Protocol):
    """What a user has chosen: the parameters of `DIVE`."""

    people: str
    staging: bool
    priors: Priors | None
    speed_on: Any
    shift_on: Any


def learn_design(
    model: Choices, cohort: Cohort, timeline: Timeline
) -> tuple[Covariates | None, Design | None]:
    """Check the covariates that a user names, and learn how they become numbers.

    Parameters
    ----------
    model : DIVE
        Names columns.
    cohort : Cohort
        The training cohort.
    timeline : Timeline
        When its subjects were seen.

    Returns
    -------
    covariates, design
        None and None where no column is named.
    """
    named = {name: check_names(getattr(model, name), name) for name in ("shift_on", "speed_on")}
    if not any(named.values()):
        return None, None
    first = next(name for name, columns in named.items() if columns)
    if model.people != "differ" or not model.staging:
        raise ParameterError(
            f'{first} needs people="differ" and staging=True: effects are those of the marginal '
            "model."
        )
    if named["speed_on"]:
        fixed = model.priors is not None and model.priors.speed.is_fixed
        if fixed or not timeline.has_follow_up:
            why = "the prior gives everybody the same" if fixed else "nobody was seen twice"
            raise CohortError(f"speed_on: people's speeds are not estimated, because {why}.")
    controls = None if cohort.controls is None else cohort.controls[cohort.canonical_order]
    is_other = groups_of(timeline, controls).astype(float)[:, None]
    learnt = []
    for argument, columns in named.items():
        covariates = learn_covariates(cohort, columns, argument)
        encoded = design_columns(cohort, covariates)
        check_independent(encoded, columns, argument)
        if columns and is_other.any():
            check_independent(
                np.column_stack([encoded, is_other]),
                [*columns, "and who is a control (whom the model lets differ anyway)"],
                argument,
            )
        learnt.append(covariates)
    found = (learnt[0], learnt[1])
    return found, design_of(cohort, found, timeline)


def design_of(cohort: Cohort, covariates: Covariates | None, timeline: Timeline) -> Design | None:
    """Covariates of each subject as the model takes them, or None where it takes none."""
    if covariates is None:
        return None
    of_shift, of_speed = (design_columns(cohort, listed) for listed in covariates)
    return Design(of_shift, of_speed, np.zeros(timeline.n_subjects)).at(timeline)


def effect_table(
    covariates: Covariates, internal: Internal, marginal: MarginalStager
) -> pd.DataFrame:
    """One row for each effect; see `DIVE.effects_`.

    Parameters
    ----------
    covariates : (tuple, tuple) of SubjectCovariate
        On the shift, and on the speed.
    internal, marginal : Internal, MarginalStager
        What the fit found.
    """
    effects = marginal.population.effects
    assert effects is not None
    known = marginal.curve_uncertainty
    first = len(known.centre) - len(effects.shift) - len(effects.log_speed)
    sample = SmallSample(
        internal.training.timeline.n_subjects,
        marginal.population.n_groups,
        max(len(effects.shift), len(effects.log_speed)),
    )
    rows, place = [], first
    for parameter, listed, found in zip(
        ("shift", "speed"), covariates, (effects.shift, effects.log_speed), strict=True
    ):
        values = iter(found)
        for covariate in listed:
            for contrast, sd in zip(covariate.contrasts, covariate.sds, strict=True):
                move = np.zeros(len(known.centre))
                move[place] = 1 / sd
                value = float(next(values)) / sd
                if parameter == "shift":
                    row = shift_row(marginal, value, move, sample)
                else:
                    row = speed_row(value, float(move @ known.covariance @ move), sample)
                rows.append({"parameter": parameter, "covariate": covariate.name} | row)
                rows[-1]["contrast"] = contrast
                place += 1
    columns = ["parameter", "covariate", "contrast", "estimate", "se", "low", "high", "p"]
    return pd.DataFrame(rows)[columns]


@dataclass(frozen=True)
class SmallSample:
    """What so many people tell of effects, beyond the means of their groups.

    Parameters
    ----------
    n_subjects, n_groups, n_effects : int
        People, groups of the population, and effects on one of its means.

    Examples
    --------
    >>> from braindive.effects import SmallSample
    >>> sample = SmallSample(50, 1, 1)
    >>> sample.freedom, round(sample.inflation, 4)
    (48.0, 1.0417)
    """

    n_subjects: int
    n_groups: int
    n_effects: int

    @property
    def freedom(self) -> float:
        """Degrees of freedom of Student's t: people beyond groups and effects."""
        return float(max(self.n_subjects - self.n_groups - self.n_effects, 1))

    @property
    def inflation(self) -> float:
        """By what variances are larger than by maximum likelihood.

        That divides the squares between people by their number, and not by what is left of it when
        means have been estimated, as the t distribution has it.
        """
        return self.n_subjects / self.freedom


def shift_row(
    marginal: MarginalStager,
    internal: float,
    move: Array,
    sample: SmallSample,
    extra: float = 0.0,
) -> dict[str, float]:
    """Estimate, error, interval and test of a difference of scores, in the user's unit.

    Parameters
    ----------
    marginal : MarginalStager
        How well its parameters are known.
    internal : float
        The difference in internal scores.
    move : (n_parameters,)
        Its derivatives.
    sample : SmallSample
        How many people there are.
    extra : float
        Variance beyond that of the parameters.
    """
    known, spread = marginal.curve_uncertainty, marginal.spread
    move = move - internal / spread * known.spread
    variance = float(move @ known.covariance @ move) + known.unit_variance * internal**2 + extra
    variance *= sample.inflation
    value, error = internal / spread, float(np.sqrt(variance)) / abs(spread)
    reach = float(stats.t.isf(0.025, sample.freedom)) * error
    return {
        "estimate": value,
        "se": error,
        "low": value - reach,
        "high": value + reach,
        "p": _p_value(value, error, sample.freedom),
    }


def speed_row(log_ratio: float, variance: float, sample: SmallSample) -> dict[str, float]:
    """Estimate, error, interval and test of a ratio of speeds, from those of its logarithm."""
    error = float(np.sqrt(variance * sample.inflation))
    reach = float(stats.t.isf(0.025, sample.freedom)) * error
    return {
        "estimate": float(np.exp(log_ratio)),
        "se": float(np.exp(log_ratio)) * error,
        "low": float(np.exp(log_ratio - reach)),
        "high": float(np.exp(log_ratio + reach)),
        "p": _p_value(log_ratio, error, sample.freedom),
    }


def _p_value(value: float, error: float, freedom: float) -> float:
    return float(2 * stats.t.sf(abs(value) / max(error, 1e-300), freedom))


def effects_in_words(effects: pd.DataFrame, in_years: bool = True) -> list[str]:
    """Say what moves people, one sentence for each covariate or contrast.

    Parameters
    ----------
    effects : DataFrame
        `DIVE.effects_`.
    in_years : bool
        Whether the score's unit is a year.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import braindive as bd, pandas as pd
    >>> row = dict(covariate="apoe4", contrast="1 against 0", se=0.6, p=0.0007)
    >>> shift = row | dict(parameter="shift", estimate=2.1, low=0.9, high=3.3)
    >>> speed = row | dict(parameter="speed", estimate=1.18, low=1.03, high=1.34)
    >>> for sentence in bd.effects_in_words(pd.DataFrame([shift])):
    ...     print(sentence)
    apoe4, 1 against 0: 2.1 years ahead (95 % 0.9 to 3.3, p < .001).
    >>> bd.effects_in_words(pd.DataFrame([shift, speed]))[0].split(" and ")[1]
    '18 % faster (95 % 3 to 34, p < .001).'
    """
    sentences = []
    for (covariate, contrast), rows in effects.groupby(["covariate", "contrast"], sort=False):
        parts = [
            ahead_in_words(row, in_years) if row["parameter"] == "shift" else faster_in_words(row)
            for _, row in rows.iterrows()
        ]
        which = f"{covariate}, {contrast}" if contrast != "per 1" else f"{covariate}, for each 1"
        sentences.append(f"{which}: {' and '.join(parts)}.")
    return sentences


def ahead_in_words(row: Mapping[str, Any] | pd.Series, in_years: bool = True) -> str:
    """Say how far ahead or behind somebody is, with an interval in words.

    Parameters
    ----------
    row : mapping
        `estimate`, `low` and `high`, and a p-value `p` if it is to be said.
    in_years : bool
        Whether the score's unit is a year.

    Examples
    --------
    >>> from braindive.effects import ahead_in_words
    >>> ahead_in_words({"estimate": -2.1, "low": -4.5, "high": 0.3})
    '2.1 years behind (95 % from 4.5 behind to 0.3 ahead)'
    """
    digits = _digits([row[name] for name in ("estimate", "low", "high")])
    unit = "years" if in_years else "units of the score"
    numbers = [row[name] for name in ("estimate", "low", "high")]
    return _directed(numbers, digits, f" {unit}", "", ("ahead", "behind"), row.get("p"))


def faster_in_words(row: Mapping[str, Any] | pd.Series) -> str:
    """Say how much faster or slower somebody is, by a ratio of speeds with an interval.

    Parameters
    ----------
    row : mapping
        `estimate`, `low` and `high`, and a p-value `p` if it is to be said.

    Examples
    --------
    >>> from braindive.effects import faster_in_words
    >>> faster_in_words({"estimate": 0.92, "low": 0.74, "high": 1.15, "p": 0.4})
    '8 % slower (95 % from 26 % slower to 15 % faster, p = .400)'
    """
    percent = [100 * (row[name] - 1) for name in ("estimate", "low", "high")]
    digits = 0 if max(map(abs, percent)) >= 2 else 1
    return _directed(percent, digits, " %", " %", ("faster", "slower"), row.get("p"))


def _directed(
    numbers: Sequence[float],
    digits: int,
    unit: str,
    unit_of_ends: str,
    words: tuple[str, str],
    p_value: float | None,
) -> str:
    """An estimate and the ends of its interval as amounts in a direction, never with a sign."""
    forward = numbers[0] >= 0
    near, far = sorted(numbers[1:], key=lambda end: end if forward else -end)
    beyond = f"{abs(near):.{digits}f}"
    if (near >= 0) == forward or float(beyond) == 0:
        interval = f"{beyond} to {abs(far):.{digits}f}"
    else:
        here, there = words if forward else words[::-1]
        interval = (
            f"from {abs(far):.{digits}f}{unit_of_ends} {here} to {beyond}{unit_of_ends} {there}"
        )
    said = "" if p_value is None else f", {p_in_words(p_value)}"
    direction = words[0] if forward else words[1]
    return f"{abs(numbers[0]):.{digits}f}{unit} {direction} (95 % {interval}{said})"


def _digits(numbers: Sequence[float]) -> int:
    return 1 if max(map(abs, numbers)) >= 1 else 2


def p_in_words(p_value: float) -> str:
    """Say a p-value, with three digits at most.

    Examples
    --------
    >>> from braindive.effects import p_in_words
    >>> p_in_words(0.0), p_in_words(0.0421)
    ('p < .001', 'p = .042')
    """
    return "p < .001" if p_value < 0.001 else f"p = {p_value:.3f}".replace("0.", ".", 1)
