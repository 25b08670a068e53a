"""Sites that a fitted model has not seen, learnt from a few people who were seen there."""

from __future__ import annotations

from typing import Any

import numpy as np

from braindive.cohort.cohort import Cohort
from braindive.cohort.sites import LEAST_VISITS, site_names
from braindive.dive.site_offsets import Sites, learn_one_site
from braindive.errors import CohortError, ParameterError
from braindive.fitted import Fitted, timeline_of
from braindive.staging.marginal_stager import MarginalStager
from braindive.staging.new_site import fit_new_site, with_site
from braindive.values.walking import one_thread_per_product

# Controls below which a new site is warned of: bias grows with fewer, as one over their root.
_FEW_CONTROLS = 5


def learn_new_sites(
    model: Fitted, cohort: Cohort, client: Any = None
) -> tuple[Sites, MarginalStager, list[str]]:
    """Learn every site of a cohort that a model does not know.

    Parameters
    ----------
    model : DIVE
        Fitted with sites.
    cohort : Cohort
        People at the new site, of whom it is known who is a control; visits at sites that the model
        knows are left out.
    client : distributed.Client, optional
        Dask cluster over which to spread the values.

    Returns
    -------
    sites, marginal, warnings
        What the model knows then, and what is to be said of it.
    """
    known: Sites | None = getattr(model, "sites_", None)
    if known is None:
        raise ParameterError(
            "this model knows no sites; fit it with sites=..., the column of the table that has "
            "them."
        )
    cohort = model.prepare(cohort)
    names = site_names(cohort, known.column)
    unknown = sorted(set(names) - set(known.names))
    if not unknown:
        raise CohortError(
            f"the model knows every site of this cohort already ({', '.join(known.names)}): use "
            "it as it is."
        )
    stager, told = model.marginal_, []
    for name in unknown:
        own = cohort.select(visits=names == name)
        told += _check_people(own, name, stager)
        known, stager, converged = _learn(model, own, name, known, stager, client)
        if not converged:
            told.append(
                f"what site {name!r} adds could not be told for sure: its people are likely with "
                "more than one offset, or far from all others. Look at their scans (braindive "
                "check), and add the site again with more controls."
            )
    return known, stager, told


def _check_people(cohort: Cohort, name: str, stager: MarginalStager) -> list[str]:
    """Refuse a site of which nothing can be learnt, and warn where little can."""
    if cohort.n_visits < LEAST_VISITS:
        raise CohortError(
            f"{cohort.n_visits} visits are too few to learn site {name!r} from; about ten controls "
            "are enough."
        )
    if stager.population.n_groups == 1:
        return []
    if cohort.controls is None:
        raise CohortError(
            f"who is a control at site {name!r} is not known; give the cohort its controls, from "
            "whom the site is learnt."
        )
    n_controls = len(np.unique(cohort.subjects[cohort.controls]))
    if n_controls >= _FEW_CONTROLS:
        return []
    return [
        f"site {name!r} was learnt from {n_controls} controls: what it adds and how far its people "
        "are can hardly be told apart, so the model takes them to be as far as people of their "
        "kind elsewhere. About ten controls tell it."
    ]


def _learn(
    model: Fitted,
    cohort: Cohort,
    name: str,
    known: Sites,
    stager: MarginalStager,
    client: Any,
) -> tuple[Sites, MarginalStager, bool]:
    """Learn one site from people who were all seen there, and say whether that came to an end."""
    products = model.products(cohort, client, adjusted=False)
    timeline = timeline_of(cohort, model.internal_.time_unit)
    sums, weights = model.pool(products)
    groups = model.groups(cohort, timeline)
    if groups is None:
        groups = np.zeros(timeline.n_subjects, dtype=int)
    design = model.design(cohort, timeline)
    z = model.responsibilities_ * model.internal_.known[:, None]
    with one_thread_per_product():
        offsets, covariance, converged = fit_new_site(
            stager, timeline, sums, weights, groups, design
        )
        placed = stager.place(timeline, sums - weights * offsets, weights, groups, design)
        curves = stager.trajectories.evaluate(timeline.scores(placed.speeds, placed.shifts))
        sites = learn_one_site(products, timeline, known, name, curves, z, offsets)
    scales = sites.cluster_scales(z)[-1]
    return sites, with_site(stager, offsets, scales, covariance), converged
