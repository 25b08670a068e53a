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

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from braindive.cohort.covariates import SubjectCovariate
from braindive.cohort.preprocessing import Covariate, Preprocessing
from braindive.dive.curves import CURVES, Bounds, Curves, Trajectories
from braindive.dive.priors import Gamma, Normal, Priors
from braindive.dive.problem import Parameters, State
from braindive.dive.site_offsets import Sites
from braindive.dive.starts import Trace
from braindive.dive.timeline import Timeline
from braindive.errors import ParameterError
from braindive.prediction.kernel import Kernel
from braindive.prediction.noise import PersonalNoise
from braindive.prediction.personal import PersonalModel
from braindive.space import Regions, Surface, Volume, space_from_arrays
from braindive.staging.covariance import Covariance
from braindive.staging.curve_uncertainty import CurveUncertainty
from braindive.staging.marginal_stager import MarginalStager, Training
from braindive.staging.population import Design, Effects, Population
from braindive.staging.site_means import ClusterSites
from braindive.values.protocol import Unit


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
    >>> from braindive.values.protocol import Unit
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
        "sites",
    ),
    "Population": saveable(
        Population,
        "shift_means",
        "shift_sds",
        "log_speed_means",
        "log_speed_sds",
        "shares",
        "effects",
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
        CurveUncertainty, "covariance", "centre", "spread", "unit_variance"
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


def _curves() -> dict[str, Saveable]:
    """Shapes of trajectories without an entry in `REGISTRY`, by their names in `CURVES`."""
    listed = [saved.type for saved in REGISTRY.values()]
    others = {name: curve for name, curve in CURVES.items() if curve not in listed}
    return {name: saveable(curve, *curve.names()) for name, curve in others.items()}


def _parameters_of_curves() -> dict[str, str]:
    """Parameters of all shapes, from their names in files to their names in the code."""
    saved = {**REGISTRY, **_curves()}.values()
    shapes = [each.names for each in saved if issubclass(each.type, Curves)]
    return {in_file: in_code for names in shapes for in_file, in_code in names.items()}


# Spaces name their own parts, in `Space.to_arrays`; these can be rebuilt.
_SPACES = (Surface, Volume, Regions)

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


_ADDED: dict[str, dict[str, Any]] = {
    "Parameters": {"vertex_covariance": None, "shares": None},
    "Training": {"design": None, "sites": None},
    "Marginal": {"sites": None},
    "Population": {"effects": None},
    "Preprocessing": {"reference": "controls", "drop_zeros": False},
    "PersonalModel": {"varying": None},
}
"""Fields that a format got after it was new, and what they are without being in a file.

They are written only where they are something else.
"""


def take_apart(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Give what a file calls an object and its parts, or None where it cannot be saved.

    Parameters
    ----------
    value : object
        No array, table, container, number or text.

    Returns
    -------
    (str, dict) or None

    Examples
    --------
    >>> from braindive.io.registry import take_apart
    >>> from braindive.values.protocol import Unit
    >>> take_apart(Unit(offset=2.5, scale=0.5))
    ('Unit', {'offset': 2.5, 'scale': 0.5})
    """
    if type(value) in _SPACES:
        return "Space", dict(value.to_arrays())
    if isinstance(value, np.random.RandomState):
        return "RandomState", {}
    if type(value) is Bounds:
        # Files have always called it so; its parts are the parameters that are bounded.
        in_files = {in_code: in_file for in_file, in_code in _parameters_of_curves().items()}
        return "Box", {in_files.get(name, name): pair for name, pair in value.limits.items()}
    if isinstance(value, type) and issubclass(value, Curves):
        return "Curve", {"name": _name_of(value)}
    for name, saved in {**REGISTRY, **_curves()}.items():
        if type(value) is saved.type:
            parts = {each.name for each in fields(value)} if is_dataclass(value) else vars(value)
            unnamed = sorted(set(parts) - set(saved.names.values()))
            if unnamed:
                raise TypeError(
                    f"{type(value).__name__} has {', '.join(unnamed)}, for which saved files have "
                    "no name."
                )
            # Only what is yet to be learnt may be missing, and what files did not have at first.
            return name, {
                in_file: getattr(value, in_code)
                for in_file, in_code in saved.names.items()
                if (in_code in parts or not in_code.endswith("_"))
                and not _is_default(name, in_code, getattr(value, in_code))
            }
    if isinstance(value, Curves):
        _name_of(type(value))
    return None


def _is_default(name: str, field: str, value: Any) -> bool:
    """Whether a field is what it is where a file does not have it."""
    added = _ADDED.get(name, {})
    return field in added and type(value) is type(added[field]) and bool(value == added[field])


def _name_of(curve: type[Curves]) -> str:
    """Name of a shape of trajectories in files."""
    for name, known in CURVES.items():
        if curve is known:
            return name
    raise ParameterError(
        f"curves of the class {curve.__name__} cannot be saved, because files have no name for it; "
        "add it to CURVES in braindive.dive.curves.registry."
    )


def put_together(name: str, parts: dict[str, Any]) -> Any:
    """Rebuild an object from what `take_apart` gave.

    Parameters
    ----------
    name : str
        What the file calls the object.
    parts : dict
        Its parts, by their names in the file.

    Returns
    -------
    object

    Examples
    --------
    >>> from braindive.io.registry import put_together
    >>> put_together("Unit", {"offset": 2.5, "scale": 0.5})
    Unit(offset=2.5, scale=0.5)
    """
    if name == "Space":
        return space_from_arrays(parts)
    if name == "RandomState":
        return None  # a generator has no seed to repeat the fit from
    if name == "Curve":
        if parts["name"] not in CURVES:
            raise ValueError(f"its curve is {parts['name']!r}, which this version does not know")
        return CURVES[parts["name"]]
    if name == "Box":
        names = _parameters_of_curves()
        _refuse_unknown(name, parts, names)
        return Bounds({names[key]: (float(low), float(high)) for key, (low, high) in parts.items()})
    if name == "Placing":
        return _from_format_1(parts)
    registered = {**REGISTRY, **_curves()}
    if name not in registered:
        raise ValueError(f"it has a part called {name!r}, which this version does not know")
    saved = registered[name]
    _refuse_unknown(name, parts, saved.names)
    given = {saved.names[key]: part for key, part in parts.items()}
    learnt = {key: given.pop(key) for key in list(given) if key.endswith("_")}
    rebuilt = saved.type(**given)
    for key, part in learnt.items():
        setattr(rebuilt, key, part)
    return rebuilt


def _from_format_1(parts: dict[str, Any]) -> MarginalStager:
    """What staging had learnt in files of the first format.

    Its Gamma prior of the speed becomes the normal distribution of the log speed with the same
    mode and curvature there; stages differ from those of that time by a small part of their errors.
    """
    speed, shift, doubt = parts["speed_prior"], parts["shift_prior"], parts["doubt"]
    population = Population(
        np.array([float(shift.mean)]),
        np.array([float(shift.sd)]),
        np.array([np.log(speed.shape / speed.rate)]),
        np.array([speed.shape**-0.5]),
        np.ones(1),
    )
    # Mean and log-sd of the log speed were taken for known.
    padding = (0, 2)
    known = CurveUncertainty(
        np.pad(doubt.covariance, (padding, padding)),
        np.pad(doubt.centre, padding),
        np.pad(doubt.spread, padding),
    )
    same = ("trajectories", "noise", "covariance", "centre", "spread")
    return MarginalStager(
        population=population,
        curve_uncertainty=known,
        known_shifts=parts["known_shifts"],
        known_scores=parts["known_scores"],
        **{name: parts[name] for name in same},
    )


def _refuse_unknown(name: str, parts: Mapping[str, Any], known: Collection[str]) -> None:
    unknown = sorted(parts.keys() - set(known))
    if unknown:
        raise ValueError(
            f"the {name!r} in it has {', '.join(unknown)}, which this version does not know"
        )


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
