"""What the score is called, and what its zero and its unit are, wherever people read about it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

__all__ = [
    "NamedScore",
    "explain_score",
    "name_score",
    "score_is_in_years",
    "years_are_meaningless",
]

# Scores that differ by more years than people live are no years. A choice.
_LONGEST = 200.0


class NamedScore(Protocol):
    """What the name is made from."""

    staging: bool
    scale: str
    # Table of the training visits, with the `subject` and `time` of each.
    visits_: Any


def years_are_meaningless(model: Any) -> bool:
    """Whether scores that should be in years cannot be: people do not move along the course.

    The unit of the score is what people progress by in a year. Where no progression is found that
    may be next to nothing, and scores of people are then thousands of such years apart.

    Parameters
    ----------
    model : DIVE
        Fitted.
    """
    if model.scale != "years" or not model.staging or model.progression_found_ is not False:
        return False
    return bool(np.ptp(model.scores_) > _LONGEST)


def score_is_in_years(model: NamedScore) -> bool:
    """Whether the unit of the score is a year.

    It is where the score is time itself, and where `scale="years"` and somebody was seen more than
    once: without follow-up nobody's speed is known, and the unit is the spread of the scores. Where
    no progression was found, scores may be too far apart to be years.

    Parameters
    ----------
    model : DIVE
        Fitted.
    """
    if not model.staging:
        return True
    if years_are_meaningless(model):
        return False
    times = model.visits_.groupby("subject")["time"]
    return model.scale == "years" and bool((times.max() > times.min()).any())


def name_score(model: NamedScore, name: str) -> str:
    """Name of a score or of something in its unit, with that unit if it has one.

    Parameters
    ----------
    model : DIVE
        Fitted.
    name : str
        Such as "score at first visit".

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.score_names import name_score
    >>> cohort = bd.simulate_cohort(n_subjects=20, n_vertices=40, noise=0.3, random_state=0).cohort
    >>> model = bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(cohort)
    >>> name_score(model, "score at first visit")
    'score at first visit (years)'
    """
    return f"{name} (years)" if score_is_in_years(model) else name


def explain_score(model: NamedScore, cluster: str = "cluster") -> str:
    """Say what the zero and the unit of the score are, in one sentence.

    Parameters
    ----------
    model : DIVE
        Fitted.
    cluster : str
        The reader's word for a cluster.
    """
    if not model.staging:
        return "It is the time of the visit, in years."
    if model.scale == "controls":
        return (
            "Its zero and unit are the mean and the standard deviation of the controls' scores, or "
            "of everybody's where there are no controls."
        )
    zero = f"Its zero is where the earliest {cluster} is half-way through its change"
    if score_is_in_years(model):
        return (
            f"{zero}, and its unit is a year at the mean speed of the people who are not controls."
        )
    if years_are_meaningless(model):
        return (
            f"{zero}; people do not move along it, so that nothing can be said in years of where "
            "they stand."
        )
    return (
        f"{zero}; nobody was seen more than once, so that its unit is not a year but the standard "
        "deviation of the scores."
    )
