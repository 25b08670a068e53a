"""Whether sites that a user names can be told, and what is to be said where they cannot."""

from __future__ import annotations

from typing import Any, Protocol

from braindive.cohort.cohort import Cohort
from braindive.cohort.sites import check_sites, site_codes, untold_sites
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
    sites = site_codes(cohort, model.sites, names)
    controls = None if cohort.controls is None else cohort.controls[cohort.canonical_order]
    return SiteFit.begin(measurements, timeline, controls, model.sites, names, sites), told


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
    untold = untold_sites(cohort, model.sites, names)
    if not untold:
        return names, []
    listed = ", ".join(map(repr, untold))
    which = f"site {listed}" if len(untold) == 1 else f"sites {listed}"
    if cohort.controls is None:
        why = "controls are not known, and nobody at {} was seen at another site"
    else:
        why = "there are no controls at {}, and nobody there was seen at another site"
    return names, [
        f"{why.format(which)}: what the site adds and how far its people are cannot be told apart, "
        "so the model takes them to be as far as people of their kind elsewhere. Mark controls, or "
        "do not compare scores between these sites."
    ]
