"""Who is in a simulated cohort: speeds, shifts, controls and carriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.errors import ParameterError
from braindive.simulation.cognition import draw_carriers

# Shape of the Gamma distribution of the speeds: their standard deviation is 0.4 of their mean, as
# in the basic setting of the DIVE paper.
_SPEED_SHAPE = 6.25


@dataclass(frozen=True)
class People:
    """Subjects of a simulated cohort; all arrays are (n_subjects,).

    Attributes
    ----------
    speeds, shifts : float
        Score per year, and score at the first visit.
    controls : bool
        Who is marked as a control.
    mislabelled : bool
        Who is marked as a control but progresses like the others.
    carriers : bool or None
        Who carries the risk gene.
    """

    speeds: Array
    shifts: Array
    controls: BoolArray
    mislabelled: BoolArray
    carriers: BoolArray | None


def draw_people(
    n_subjects: int,
    random: np.random.Generator,
    *,
    mean_speed: float,
    mean_shift: float,
    shift_sd: float,
    control_share: float,
    controls_shift: tuple[float, float] | None,
    controls_speed: float | None,
    mislabelled: float,
    group_effect: float | None,
    carrier_share: float | None = None,
    carriers_shift: float = 0.0,
    carriers_speed: float = 1.0,
) -> People:
    """Draw speeds and shifts, and say who is a control; the words are `simulate_cohort`'s.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.simulation.people import draw_people
    >>> people = draw_people(
    ...     10, np.random.default_rng(0), mean_speed=1, mean_shift=2, shift_sd=9, control_share=0.3,
    ...     controls_shift=(-22, 3), controls_speed=0.3, mislabelled=0, group_effect=None,
    ... )
    >>> people.controls.sum(), bool(people.shifts[people.controls].max() < -10)
    (np.int64(3), True)
    """
    _check_controls(control_share, controls_shift, controls_speed, mislabelled)
    _check_carriers(group_effect, carrier_share, carriers_shift, carriers_speed)
    n_controls = int(np.ceil(min(1.0, control_share) * n_subjects))
    n_genuine = n_controls - round(mislabelled * n_controls)

    speeds = random.gamma(_SPEED_SHAPE, mean_speed / _SPEED_SHAPE, n_subjects)
    shifts = random.normal(mean_shift, shift_sd, n_subjects)
    spreads = np.full(n_subjects, float(shift_sd))
    if controls_shift is not None:
        mean, sd = controls_shift
        shifts[:n_genuine] = random.normal(mean, sd, n_genuine)
        spreads[:n_genuine] = sd
    carriers = None
    if group_effect is not None:
        carriers = draw_carriers(n_subjects, random)
        shifts = shifts + group_effect * spreads * carriers
    if carrier_share is not None:
        # As many as the share says, so that cohorts differ in who they are and not in how many.
        chosen = random.permutation(n_subjects) < round(carrier_share * n_subjects)
        carriers, shifts = chosen, shifts + carriers_shift * chosen
    # Controls that have a distribution of their own come first; otherwise the earliest are chosen.
    places = np.arange(n_subjects)
    order = places if controls_shift is not None else np.argsort(np.argsort(shifts))
    genuine = order < n_genuine
    if controls_speed is not None:
        speeds[genuine] = random.gamma(_SPEED_SHAPE, controls_speed / _SPEED_SHAPE, n_genuine)
    if group_effect is not None:
        sd_of_log_speed = _SPEED_SHAPE**-0.5
        speeds = speeds * np.exp(group_effect * sd_of_log_speed * carriers)
    if carrier_share is not None:
        speeds = speeds * np.where(chosen, carriers_speed, 1.0)

    wrong = np.zeros(n_subjects, dtype=bool)
    if n_controls > n_genuine:
        wrong[random.choice(places[~genuine], n_controls - n_genuine, replace=False)] = True
    return People(speeds, shifts, genuine | wrong, wrong, carriers)


def draw_demographics(
    controls: BoolArray, random: np.random.Generator
) -> tuple[Array, np.ndarray[Any, Any]]:
    """Draw ages at the first visit, to a tenth of a year, and sexes, "F" or "M".

    There are as many of one sex as of the other, among the controls and among the others.

    Examples
    --------
    >>> import numpy as np
    >>> from braindive.simulation.people import draw_demographics
    >>> ages, sexes = draw_demographics(np.arange(200) < 40, np.random.default_rng(0))
    >>> bool(55 <= ages.min() and ages.max() <= 90), sorted(sexes[:40]).count("F")
    (True, 20)
    """
    # As in studies of dementia: three quarters of the people are between 68 and 80.
    ages = np.clip(random.normal(74.0, 7.0, len(controls)), 55.0, 90.0).round(1)
    sexes = np.empty(len(controls), dtype=object)
    for group in (controls, ~controls):
        members = random.permutation(np.flatnonzero(group))
        sexes[members] = np.where(np.arange(len(members)) % 2 == 0, "F", "M")
    return ages, sexes


def _check_carriers(
    group_effect: float | None,
    carrier_share: float | None,
    carriers_shift: float,
    carriers_speed: float,
) -> None:
    if carrier_share is None:
        if carriers_shift != 0 or carriers_speed != 1:
            raise ParameterError(
                "carriers_shift and carriers_speed are about carriers: they need a carrier_share."
            )
        return
    if group_effect is not None:
        raise ParameterError(
            "group_effect draws carriers of its own; give it, or carrier_share, not both."
        )
    if not 0 < carrier_share < 1:
        raise ParameterError(f"carrier_share is a share between 0 and 1; got {carrier_share}.")
    if not carriers_speed > 0:
        raise ParameterError(
            f"carriers_speed is how many times as fast carriers are, above 0; got {carriers_speed}."
        )


def _check_controls(
    control_share: float,
    controls_shift: tuple[float, float] | None,
    controls_speed: float | None,
    mislabelled: float,
) -> None:
    if not 0 <= mislabelled <= 1:
        raise ParameterError(f"mislabelled is a share of the controls, 0 to 1; got {mislabelled}.")
    if controls_shift is not None and (np.shape(controls_shift) != (2,) or controls_shift[1] < 0):
        raise ParameterError(
            "controls_shift must be the mean and the standard deviation of the controls' shifts; "
            f"got {controls_shift!r}."
        )
    if controls_speed is not None and controls_speed < 0:
        raise ParameterError(
            f"controls_speed is a mean of Gamma-distributed speeds, at least 0; got "
            f"{controls_speed}."
        )
    about_controls = {
        "controls_shift": controls_shift is not None,
        "controls_speed": controls_speed is not None,
        "mislabelled": mislabelled > 0,
    }
    for name, given in about_controls.items():
        if given and control_share <= 0:
            raise ParameterError(f"{name} is about controls: it needs a control_share above 0.")
