"""What there is to say about each site, as a table and in a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from braindive.cohort.sites import name_sites
from braindive.dive.site_offsets import Sites
from braindive.errors import ParameterError


def site_table(model: Any) -> pd.DataFrame:
    """What a model has found of each site.

    Parameters
    ----------
    model : DIVE
        Fitted with `sites`.

    Returns
    -------
    DataFrame
        A row for each site: how many `people` and `visits` of the training cohort were seen there
        (0 for a site that was added later); its `offset`, the mean over the brain of what it adds
        to the values; `offset_sd`, how much that varies over the brain; both in the unit of the
        values; and its `noise` relative to that of all sites.

    Examples
    --------
    >>> import braindive as bd
    >>> cohort = bd.simulate_cohort(
    ...     60, n_vertices=60, noise=0.3, control_share=0.4, sites=2, random_state=0
    ... ).cohort
    >>> model = bd.DIVE(2, sites="site", personal=False, random_state=0).fit(cohort)
    >>> list(bd.site_table(model).columns)
    ['people', 'visits', 'offset', 'offset_sd', 'noise']
    """
    sites: Sites | None = getattr(model, "sites_", None)
    if sites is None:
        raise ParameterError("this model knows no sites; fit it with sites=...")
    names, subjects = name_sites(model.visits_[sites.column]), model.visits_["subject"].to_numpy()
    known = model.internal_.known
    rows = []
    for name, offsets, scales in zip(sites.names, sites.offsets, sites.scales, strict=True):
        here = names == name
        rows.append(
            {
                "people": len(np.unique(subjects[here].astype(str))),
                "visits": int(here.sum()),
                "offset": float(offsets[known].mean()),
                "offset_sd": float(offsets[known].std()),
                "noise": float(np.exp(np.log(scales[known]).mean())),
            }
        )
    return pd.DataFrame(rows, index=pd.Index(sites.names, name=sites.column))


def sites_in_words(model: Any) -> str:
    """How many sites there are, and how much they differ, in one sentence; empty without sites.

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.site_tables import sites_in_words
    >>> cohort = bd.simulate_cohort(
    ...     60, n_vertices=60, noise=0.3, control_share=0.4, sites=2, random_state=0
    ... ).cohort
    >>> model = bd.DIVE(2, sites="site", personal=False, random_state=0).fit(cohort)
    >>> sites_in_words(model).split(" (")[0]
    '2 sites'
    """
    if getattr(model, "sites_", None) is None:
        return ""
    table, sites = site_table(model), model.sites_
    typical = float(np.sqrt(np.mean(sites.offsets[:, model.internal_.known] ** 2)))
    noise = float(np.sqrt(np.mean(model.noise_**2)))
    low, high = table["noise"].min(), table["noise"].max()
    return (
        f"{sites.n_sites} sites ({sites.column}) differ at a vertex by {typical:.2g} as a rule, "
        f"{typical / max(noise, 1e-300):.2g} times the noise of one measurement; their noise is "
        f"{low:.2g} to {high:.2g} times that of all."
    )
