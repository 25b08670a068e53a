"""What is said of whether a fit found a progression, wherever people read about the fit."""

from __future__ import annotations

from typing import Protocol

import pandas as pd

from braindive.dive.progression import SIGNIFICANT, smallest_p_value


class Judged(Protocol):
    """A fitted model, as far as it is needed here."""

    progression_found_: bool | None
    progression_p_: float | None
    visits_: pd.DataFrame


def progression_sentence(model: Judged) -> str:
    """Say in a sentence or two whether the data of a fit hold a progression.

    Parameters
    ----------
    model : DIVE
        Fitted, or read from a file.

    Returns
    -------
    str

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.progression_words import progression_sentence
    >>> cohort = bd.simulate_cohort(40, n_vertices=60, noise=0.3, random_state=0).cohort
    >>> model = bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(cohort)
    >>> progression_sentence(model)
    'A progression was found: people change together over time (p < 0.001).'
    """
    p_value = model.progression_p_
    if model.progression_found_ is None or p_value is None:
        return (
            "Whether there is a progression was not judged: the model was saved by a version that "
            "did not ask. Fit it again to know."
        )
    if p_value != p_value:
        return "Whether there is a progression cannot be judged: nobody was seen more than once."
    known = f"p = {p_value:.2g}" if p_value >= 0.001 else "p < 0.001"
    if model.progression_found_:
        return f"A progression was found: people change together over time ({known})."
    least = smallest_p_value(model.visits_["subject"].value_counts().to_numpy())
    if least > SIGNIFICANT:
        return (
            f"No progression was found: so few people and visits cannot tell one from noise "
            f"({known}, which cannot be less than {least:.2g} here, and {SIGNIFICANT:g} would be "
            "needed). Clusters, curves and scores may describe noise, and differences between "
            "people that last."
        )
    return (
        f"No progression was found: people change over time no more alike than noise does "
        f"({known}). Clusters, curves and scores may describe noise, and differences between "
        "people that last; a disease that is weak for so few people and visits can be missed."
    )
