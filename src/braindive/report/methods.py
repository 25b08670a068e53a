"""A methods paragraph to paste into a paper: what was done, with which settings and versions."""

from __future__ import annotations

import numpy as np

from braindive.estimator import DIVE
from braindive.report.people import describe_diagnoses
from braindive.score_names import explain_score

CITATION = (
    "Marinescu RV, Eshaghi A, Lorenzi M, et al. DIVE: A spatiotemporal progression model of brain "
    "pathology in neurodegenerative disorders. NeuroImage 192 (2019), 166-177."
)


def describe_methods(model: DIVE) -> str:
    """Write the paragraph from what the model holds.

    Parameters
    ----------
    model : DIVE
        Fitted.

    Returns
    -------
    str

    Examples
    --------
    >>> import braindive as bd
    >>> from braindive.report.methods import describe_methods
    >>> cohort = bd.simulate_cohort(30, n_vertices=40, noise=0.3, random_state=0).cohort
    >>> model = bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(cohort)
    >>> describe_methods(model).startswith("Disease progression was modelled with DIVE")
    True
    """
    parts = [
        _tools(model),
        _data(model),
        _preparation(model),
        _clusters(model),
        _stages(model),
        _fitting(model),
    ]
    return " ".join(part for part in parts if part)


def _tools(model: DIVE) -> str:
    versions = model.versions_
    others = ", ".join(f"{name} {v}" for name, v in versions.items() if name != "braindive")
    return (
        "Disease progression was modelled with DIVE (Marinescu et al., 2019) in braindive "
        f"{versions.get('braindive', '')}".rstrip()
        + (f" ({others})." if others else ".")
    )


def _data(model: DIVE) -> str:
    visits = model.visits_
    follow_up = visits.groupby("subject")["time"].agg(np.ptp)
    per_person = visits.groupby("subject").size()
    space = model.space_
    where = f" of {space.name}" if space is not None else ""
    diagnoses = describe_diagnoses(model)
    return (
        f"Maps with {model.n_vertices_:,} vertices{where} came from {len(model.subjects_):,} people"
        + (f" ({diagnoses} at the first visit)" if diagnoses else "")
        + f" at {len(model.scores_):,} visits (median {per_person.median():g} visits over "
        f"{follow_up.median():.1f} years)."
    )


def _preparation(model: DIVE) -> str:
    prepared = model.preprocessing_
    if prepared is None:
        return ""
    steps = []
    if prepared.average_hemispheres:
        steps.append("averaged over the hemispheres")
    if prepared.smooth:
        steps.append(f"smoothed ({prepared.smooth} steps between neighbours)")
    if prepared.covariates:
        listed = ", ".join(str(name) for name in prepared.covariates)
        steps.append(f"adjusted for {listed} by regressions learnt on the controls")
    if prepared.standardise:
        steps.append("expressed as z-scores of the controls")
    return f"Values were {_listed(steps)} before the fit." if steps else ""


def _clusters(model: DIVE) -> str:
    n_clusters, curve = len(model.noise_), model.curve
    shape = curve if isinstance(curve, str) else curve.__name__
    if model.assignments is not None:
        return (
            f"The {n_clusters} regions that were given each followed one {shape} trajectory along "
            "a common disease score."
        )
    strength = model.spatial_strength_
    how = f"{'estimated' if model.spatial == 'auto' else 'fixed'} strength {strength:.3g}"
    if model.spatial == "auto" and model.people == "differ" and model.staging:
        how += ", for the final labels no stronger than vertices at borders could contradict"
    field = (
        f" A Markov random field between neighbouring vertices ({how}) encouraged contiguous "
        "clusters."
        if strength
        else ""
    )
    return (
        f"Vertices were grouped into {n_clusters} clusters, each of which followed one {shape} "
        f"trajectory along a common disease score.{field}"
    )


def _stages(model: DIVE) -> str:
    if not model.staging:
        return "People were not staged: the score was the time of the visit."
    if model.people == "alike":
        how = (
            "Each person's time shift and speed were estimated together with the trajectories, "
            "as published."
        )
    else:
        how = (
            "Trajectories and each person's time shift and speed were estimated by maximising the "
            "marginal likelihood of the clusters' means, with persistent differences between "
            "people and correlated noise, the stages integrated out; standard errors combine the "
            "posterior of a person's stage with the uncertainty of the trajectories."
        )
    moved = [
        f"{what} were allowed to depend on {', '.join(map(str, columns))}"
        for what, columns in (
            ("scores at the first visit", model.shift_on),
            ("speeds", model.speed_on),
        )
        if columns
    ]
    if moved:
        how += f" People's {_listed(moved)}, by effects estimated in the same likelihood."
    if model.sites is not None:
        how += (
            f" What each of {model.sites_.n_sites} sites ({model.sites}) adds to every vertex, and "
            "by how much it multiplies noise, was estimated together with trajectories and stages "
            "and shrunk over vertices by empirical Bayes."
        )
    # "Its zero is ..." goes on from "the score".
    unit = explain_score(model).replace("Its zero", "The score's zero", 1)
    unit = unit.replace("and its unit", "and the unit", 1)
    return f"{how} {unit}"


def _fitting(model: DIVE) -> str:
    seed = model.random_state
    starts = "one given start" if model.start is not None else f"{model.n_init} starts"
    if model.assignments is not None:
        starts = "the given regions"
    known = f", seed {seed}" if isinstance(seed, (int, np.integer)) else ""
    end = {
        "converged": "converged",
        "max_iter": "stopped at its most passes without converging",
        "cycling": "stopped without converging, swapping the same labels",
    }.get(model.stop_reason_, model.stop_reason_)
    return (
        f"The fit ({starts}{known}, tolerance {model.tol:g}) {end} after {model.n_iter_} passes "
        "over the data."
    )


def _listed(steps: list[str]) -> str:
    """Steps in a sentence."""
    return steps[0] if len(steps) == 1 else ", ".join(steps[:-1]) + " and " + steps[-1]
