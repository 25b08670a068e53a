"""Objects of saved files: taken apart by their registered names, and put together again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from braindive.dive.curves import CURVES, Bounds, Curves
from braindive.errors import ParameterError
from braindive.io.registry import ADDED, REGISTRY, Saveable, saveable
from braindive.space import Regions, Surface, Volume, space_from_arrays
from braindive.staging.curve_uncertainty import CurveUncertainty
from braindive.staging.marginal_stager import MarginalStager
from braindive.staging.population import Population

# Spaces name their own parts, in `Space.to_arrays`; these can be rebuilt.
_SPACES = (Surface, Volume, Regions)


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
    >>> from braindive.io.objects import take_apart
    >>> from braindive.values.blocks import Unit
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
    added = ADDED.get(name, {})
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
    >>> from braindive.io.objects import put_together
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
