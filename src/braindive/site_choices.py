"""Whether sites that a user names can be told, and what is to be said where they cannot."""

from __future__ import annotations

from typing import Any, Protocol

from braindive.cohort.cohort import Cohort
from braindive.cohort.sites import (
    LEAST_VISITS,
    check_sites,
    site_codes,
    small_sites,
    untold_sites,
)
from braindive.cohort.table_columns import find_column
from braindive.dive.timeline import Timeline
from braindive.errors import ParameterError
from braindive.site_fit import SiteFit
from braindive.values.protocol import Products


class Choices(Protocol):
    """What a user has chosen: the parameters of `DIVE`."""

    people: Any
    staging: bool
    sites: Any


def begin_sites(
    model: Choices, cohort: Cohort, timeline: Timeline, measurements: Products
) -> tuple[SiteFit | None, list[str]]:
    """Sites before a fit, from one read of the values, and warnings; None where none are named.

    Parameters
    ----------
    model : DIVE
        Names a column.
    cohort : Cohort
        The training cohort.
    timeline : Timeline
        When its subjects were seen.
    measurements : Products
        Of its values.
    """
    if model.sites is None:
        return None, []
    names, told = check_site_choices(model, cohort)
    column = find_column(cohort.table, model.sites)
    sites = site_codes(cohort, column, names)
    controls = None if cohort.controls is None else cohort.controls[cohort.canonical_order]
    return SiteFit.begin(measurements, timeline, controls, column, names, sites), told


def check_site_choices(model: Choices, cohort: Cohort) -> tuple[tuple[str, ...], list[str]]:
    """Names of the sites of a training cohort, and warnings.

    Parameters
    ----------
    model : DIVE
        Names a column.
    cohort : Cohort
        The training cohort.

    Returns
    -------
    names, warnings
    """
    if model.people != "differ" or not model.staging:
        raise ParameterError(
            'sites needs people="differ" and staging=True: what sites add is estimated by the '
            "marginal model, together with the stages."
        )
    names = check_sites(cohort, model.sites)
    found = []
    small = small_sites(cohort, model.sites)
    if small:
        found.append(
            f"{_listed(small)} of {model.sites!r} had fewer than {LEAST_VISITS} visits, which say "
            "little of what a site adds: join sites that have the same scanner, or leave these "
            "visits out."
        )
    untold = untold_sites(cohort, model.sites, names)
    if untold:
        if cohort.controls is None:
            why = f"controls are not known, and nobody at {_listed(untold)} was seen elsewhere"
        else:
            why = f"there are no controls at {_listed(untold)}, and nobody there was seen elsewhere"
        found.append(
            f"{why}: what a site adds and how far its people are cannot be told apart, so the "
            "model takes them to be as far as people of their kind elsewhere. Mark controls, or "
            "do not compare scores between these sites."
        )
    return names, found


def _listed(sites: list[str]) -> str:
    word = "site" if len(sites) == 1 else "sites"
    return f"{word} {', '.join(map(repr, sites))}"
