"""What moves people: covariates, their effects with errors and tests, and these in plain words."""

from __future__ import annotations

from collections.abc import Sequence
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
            _ahead(row, in_years) if row["parameter"] == "shift" else _faster(row)
            for _, row in rows.iterrows()
        ]
        which = f"{covariate}, {contrast}" if contrast != "per 1" else f"{covariate}, for each 1"
        sentences.append(f"{which}: {' and '.join(parts)}.")
    return sentences


def _ahead(row: pd.Series, in_years: bool) -> str:
    sign = 1.0 if row["estimate"] >= 0 else -1.0
    low, high = sorted((sign * row["low"], sign * row["high"]))
    digits = _digits([row["estimate"], low, high])
    unit = "years" if in_years else "units of the score"
    direction = "ahead" if sign > 0 else "behind"
    return (
        f"{abs(row['estimate']):.{digits}f} {unit} {direction} (95 % {_signed(low, digits)} to "
        f"{_signed(high, digits)}, {_p_words(row['p'])})"
    )


def _faster(row: pd.Series) -> str:
    sign = 1.0 if row["estimate"] >= 1 else -1.0
    percent = [sign * 100 * (row[name] - 1) for name in ("estimate", "low", "high")]
    low, high = sorted(percent[1:])
    digits = 0 if max(map(abs, percent)) >= 2 else 1
    direction = "faster" if sign > 0 else "slower"
    return (
        f"{percent[0]:.{digits}f} % {direction} (95 % {_signed(low, digits)} to "
        f"{_signed(high, digits)}, {_p_words(row['p'])})"
    )


def _digits(numbers: Sequence[float]) -> int:
    return 1 if max(map(abs, numbers)) >= 1 else 2


def _signed(value: float, digits: int) -> str:
    text = f"{abs(value):.{digits}f}"
    return text if value >= 0 or float(text) == 0 else f"-{text}"


def _p_words(p_value: float) -> str:
    return "p < .001" if p_value < 0.001 else f"p = {p_value:.3f}".replace("0.", ".", 1)
