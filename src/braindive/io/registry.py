"""What saved files call things: the one place where names in files meet names in the code.

A name in a file never changes, so that a file can be read for ever; names in the code may.

- A class is renamed or moved: only the class to the right of its name changes here.
- A field is renamed from ``old`` to ``new``: ``"old"`` becomes ``old="new"``.
- A class gets a new field: it is listed here, and its default must mean what files without it
  meant.
- A parameter or attribute of `DIVE` is renamed: it gets an entry in `RENAMED`.
- A new kind of object is to be saved: it gets an entry in `REGISTRY`.
- A new shape of trajectories needs nothing here: files call it by its name in
  `braindive.dive.curves.CURVES`, and its parameters as its class does. A shape whose class or
  parameter is renamed later gets an entry in `REGISTRY` by that name.

Whatever cannot be said like this needs a new number of the format in `braindive.io.models`.
Nothing is looked up, imported or called by a name from a file but what is listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from braindive.cohort.covariates import SubjectCovariate
from braindive.cohort.preprocessing import Covariate, Preprocessing
from braindive.dive.curves import Trajectories
from braindive.dive.priors import Gamma, Normal, Priors
from braindive.dive.problem import Parameters, State
from braindive.dive.site_offsets import Sites
from braindive.dive.starts import Trace
from braindive.dive.timeline import Timeline
from braindive.prediction.kernel import Kernel
from braindive.prediction.noise import PersonalNoise
from braindive.prediction.personal import PersonalModel
from braindive.staging.covariance import Covariance
from braindive.staging.curve_uncertainty import CurveUncertainty
from braindive.staging.marginal_stager import MarginalStager, Training
from braindive.staging.noise_prior import NoisePrior
from braindive.staging.population import Design, Effects, Population
from braindive.staging.site_means import ClusterSites
from braindive.staging.visit_noise import VisitNoise
from braindive.values.blocks import Unit


@dataclass(frozen=True)
class Saveable:
    """A class whose objects can be saved.

    Parameters
    ----------
    type : type
        The class itself; subclasses are other classes.
    names : mapping of str to str
        From each field's name in the file to its name in the code.
    """

    type: type
    names: Mapping[str, str]


def saveable(type_: type, *same: str, **renamed: str) -> Saveable:
    """Describe how a class is saved.

    Parameters
    ----------
    type_ : type
        The class.
    *same : str
        Fields that the file calls as the code does.
    **renamed : str
        Other fields, as ``name_in_the_file="name_in_the_code"``.

    Returns
    -------
    Saveable

    Examples
    --------
    >>> from braindive.io.registry import saveable
    >>> from braindive.values.blocks import Unit
    >>> saveable(Unit, "scale", mean="offset").names
    {'scale': 'scale', 'mean': 'offset'}
    """
    return Saveable(type_, {**{name: name for name in same}, **renamed})


REGISTRY: dict[str, Saveable] = {
    # What a fit found.
    "Trajectories": saveable(Trajectories, "amplitude", "steepness", "midpoint", "baseline"),
    "Parameters": saveable(
        Parameters,
        "trajectories",
        "noise",
        "speeds",
        "shifts",
        "strength",
        "vertex_covariance",
        "shares",
    ),
    "Gamma": saveable(Gamma, "shape", "rate"),
    "Normal": saveable(Normal, "mean", "sd"),
    "Priors": saveable(Priors, "speed", "shift", "trajectory"),
    "Unit": saveable(Unit, "offset", "scale"),
    "Timeline": saveable(Timeline, "subject_of_visit", "times", "centres", "unit"),
    "Training": saveable(
        Training,
        "timeline",
        "sums",
        "weights",
        "reference",
        "groups",
        "design",
        "sites",
        box="bounds",
    ),
    # What staging has learnt.
    "Marginal": saveable(
        MarginalStager,
        "trajectories",
        "noise",
        "population",
        "covariance",
        "curve_uncertainty",
        "centre",
        "spread",
        "known_shifts",
        "known_scores",
        "visit_noise",
        "sites",
    ),
    "VisitNoise": saveable(VisitNoise, "origin", "damage", "people", "visits"),
    "NoisePrior": saveable(NoisePrior, "trend", "centre", "spread", "low", "high", "freedom"),
    "Population": saveable(
        Population,
        "shift_means",
        "shift_sds",
        "log_speed_means",
        "log_speed_sds",
        "shares",
        "effects",
        "skews",
    ),
    # What moves people.
    "Effects": saveable(Effects, "shift", "log_speed"),
    "Design": saveable(Design, "shift", "log_speed", "lead"),
    "SubjectCovariate": saveable(SubjectCovariate, "name", "means", "sds", "levels"),
    # What sites add.
    "Sites": saveable(
        Sites, "column", "names", "offsets", "scales", "spread", "variances", "levels"
    ),
    "ClusterSites": saveable(ClusterSites, "offsets", "scales", "spread"),
    "Covariance": saveable(Covariance, "within", "between", "weights"),
    "CurveUncertainty": saveable(
        CurveUncertainty, "covariance", "centre", "spread", "unit_variance", "inflation"
    ),
    # What prediction has learnt.
    "PersonalModel": saveable(
        PersonalModel,
        "means",
        "rates",
        "centres",
        "components",
        "vertex_kernel",
        "component_kernel",
        "inflation",
        "varying",
        beliefs="shrinkage",
    ),
    "PersonalNoise": saveable(PersonalNoise, "levels", "logs", "own", "scatter", "whole", "single"),
    "Kernel": saveable(Kernel, "shape", "persistent", "noise"),
    # What the preprocessing was told and, with a trailing underscore, what it has learnt.
    "Preprocessing": saveable(
        Preprocessing,
        "standardise",
        "covariates",
        "categorical",
        "average_hemispheres",
        "smooth",
        "min_observed",
        "reference",
        "drop_zeros",
        "keep_",
        "means_",
        "spreads_",
        "effects_",
        "covariates_",
        "centre_",
        "n_vertices_in_",
        "space_in_",
    ),
    "Covariate": saveable(Covariate, "name", "centre", "scale", "groups"),
    # Where an unfinished fit stands.
    "Trace": saveable(Trace, "state", "objectives", "changes"),
    "State": saveable(
        State, "parameters", "responsibilities", "log_densities", "settled", "pooled"
    ),
}


RENAMED: dict[str, dict[str, str]] = {
    # Parameters of the constructor of `DIVE`.
    "parameters": {},
    # Attributes of a fitted `DIVE`.
    "fitted": {},
    # Fitted quantities in the internal units of the model: `fitted["_internal"]`.
    "_internal": {},
}
"""From names in the file to names in the code, for the parts of a model that are no objects.

Names that are not listed are the same in both.
"""


ADDED: dict[str, dict[str, Any]] = {
    "Parameters": {"vertex_covariance": None, "shares": None},
    "Training": {"design": None, "sites": None},
    "Marginal": {"visit_noise": None, "sites": None},
    "VisitNoise": {"damage": None},
    "Population": {"effects": None, "skews": None},
    "CurveUncertainty": {"inflation": 1.0},
    "Preprocessing": {"reference": "controls", "drop_zeros": False},
    "PersonalModel": {"varying": None},
}
"""Fields that a format got after it was new, and what they are without being in a file.

They are written only where they are something else.
"""


def to_file_names(part: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Call the entries of a part of the model as the file does.

    Parameters
    ----------
    part : {"parameters", "fitted", "_internal"}
        Which part.
    content : mapping
        By names in the code.

    Returns
    -------
    dict
    """
    in_file = {in_code: name for name, in_code in RENAMED[part].items()}
    return {in_file.get(name, name): value for name, value in content.items()}


def to_code_names(part: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Call the entries of a part of the model as the code does; undoes `to_file_names`."""
    return {RENAMED[part].get(name, name): value for name, value in content.items()}
