"""Fitted models and interrupted fits as files."""

from __future__ import annotations

import os
import sys
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from braindive.blocks import vertex_blocks
from braindive.cohort import Cohort
from braindive.errors import ModelFileError
from braindive.io.archive import digest, read_archive, write_archive
from braindive.measurements import Unit
from braindive.model.starts import Checkpoint
from braindive.preprocessing import Covariate, Preprocessing
from braindive.space import Space, space_from_arrays

MODEL_FORMAT = 1
CHECKPOINT_FORMAT = 1

_PACKAGES = ("braindive", "numpy", "scipy", "scikit-learn")


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that decide the result of a fit."""
    return {name: version(name) for name in _PACKAGES}


def write_model(
    path: str | os.PathLike[str], parameters: dict[str, Any], fitted: dict[str, Any]
) -> None:
    """Write a fitted model in one step.

    Parameters
    ----------
    path : path
        File to write, by custom ``something.dive``.
    parameters : dict
        Of the constructor.
    fitted : dict
        Attributes that `fit` set.
    """
    content = {
        "parameters": parameters,
        "fitted": fitted,
        "packages": package_versions(),
    }
    write_archive(Path(path), "braindive model", MODEL_FORMAT, content, _take_apart)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the parameters and fitted attributes of a model.

    Parameters
    ----------
    path : path
        File that `write_model` wrote.

    Returns
    -------
    parameters, fitted : dict
        As they were given to `write_model`.
    """
    path = Path(path)
    content = read_archive(path, "braindive model", MODEL_FORMAT, _put_together)
    try:
        parameters, fitted = content["parameters"], content["fitted"]
        wrong = _mismatch(fitted)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{path} lacks a part of the model: {error}.") from error
    if wrong:
        raise ModelFileError(f"{path} does not hold a usable model: {wrong}.")
    return parameters, fitted


def write_checkpoint(
    path: str | os.PathLike[str], fingerprint: str, checkpoint: Checkpoint
) -> None:
    """Write where an unfinished fit stands.

    Parameters
    ----------
    path : path
        File to write.
    fingerprint : str
        Of the data and settings, so that no other fit goes on from here.
    checkpoint : Checkpoint
        As in `Progress.checkpoint`.
    """
    content = {"fingerprint": fingerprint, "starts": checkpoint}
    write_archive(Path(path), "braindive checkpoint", CHECKPOINT_FORMAT, content, _take_apart)


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[str, Checkpoint]:
    """Read where an unfinished fit stands.

    Parameters
    ----------
    path : path
        File that `write_checkpoint` wrote.

    Returns
    -------
    fingerprint, checkpoint : str, Checkpoint
    """
    content = read_archive(Path(path), "braindive checkpoint", CHECKPOINT_FORMAT, _put_together)
    try:
        return content["fingerprint"], content["starts"]
    except (LookupError, TypeError) as error:
        raise ModelFileError(f"{path} lacks a part of the checkpoint: {error}.") from error


def fit_fingerprint(cohort: Cohort, parameters: dict[str, Any]) -> str:
    """Tell a fit apart from any other: its data, its parameters and the versions it runs with.

    Parameters
    ----------
    cohort : Cohort
        What is fitted; its values are read once.
    parameters : dict
        Of the model.

    Returns
    -------
    str
    """
    same_result = {
        key: value for key, value in parameters.items() if key not in ("n_jobs", "memory")
    }
    facts = {
        "parameters": same_result,
        "packages": package_versions(),
        "subjects": cohort.subjects,
        "times": cohort.times,
        "controls": cohort.controls,
        "graph": cohort.graph,
        "table": cohort.table,
    }
    values = [digest(block, _take_apart) for _, block in vertex_blocks(cohort)]
    return digest([facts, values], _take_apart)


def _known_types() -> dict[str, type]:
    """Plain values of the model, by name; nothing else is ever made from a file."""
    known: dict[str, type] = {"Unit": Unit, "Covariate": Covariate}
    for name, module in list(sys.modules.items()):
        if name.startswith(("braindive.model.", "braindive.prediction.")):
            known |= {
                each.__name__: each
                for each in vars(module).values()
                if isinstance(each, type) and is_dataclass(each) and each.__module__ == name
            }
    return known


def _take_apart(value: Any) -> tuple[str, dict[str, Any]] | None:
    if isinstance(value, Space):
        return "Space", dict(value.to_arrays())
    if isinstance(value, Preprocessing):
        return "Preprocessing", dict(vars(value))
    if isinstance(value, np.random.RandomState):
        return "RandomState", {}
    if is_dataclass(value) and _known_types().get(type(value).__name__) is type(value):
        return type(value).__name__, {
            field.name: getattr(value, field.name) for field in fields(value)
        }
    return None


def _put_together(name: str, parts: dict[str, Any]) -> Any:
    if name == "Space":
        return space_from_arrays(parts)
    if name == "RandomState":
        return None  # a generator has no seed to repeat the fit from
    if name == "Preprocessing":
        parameters = {key: parts.pop(key) for key in Preprocessing().get_params()}
        preprocessing = Preprocessing(**parameters)
        if any(not key.endswith("_") or key.startswith("_") for key in parts):
            raise ValueError("the preprocessing has unknown parts")
        for key, part in parts.items():
            setattr(preprocessing, key, part)
        return preprocessing
    known = _known_types()
    if name not in known:
        raise ValueError(f"unknown part {name!r}")
    return known[name](**parts)


def _mismatch(fitted: dict[str, Any]) -> str:
    """What does not fit together in a model, or nothing."""
    internal = fitted["_internal"]
    curves, inner = fitted["trajectories_"], internal["parameters"].trajectories
    n_vertices, n_clusters = fitted["responsibilities_"].shape
    n_subjects = len(fitted["subjects_"])
    shapes = {"responsibilities_": (n_vertices, n_clusters), "labels_": (n_vertices,)}
    shapes["noise_"] = (n_clusters,)
    shapes["speeds_"] = shapes["shifts_"] = (n_subjects,)
    for name, shape in shapes.items():
        if fitted[name].shape != shape:
            return f"{name} has shape {fitted[name].shape} instead of {shape}"
    for each in (curves, inner):
        if any(getattr(each, field.name).shape != (n_clusters,) for field in fields(each)):
            return f"a trajectory is not there for each of the {n_clusters} clusters"
    if fitted["n_vertices_"] != n_vertices:
        return f"it is said to have {fitted['n_vertices_']} vertices but has {n_vertices}"
    space = fitted["space_"]
    if space is not None and space.n_vertices != n_vertices:
        return f"its space has {space.n_vertices} vertices, the model {n_vertices}"
    numbers = (fitted["responsibilities_"], fitted["noise_"], curves.to_array())
    if not all(array.dtype.kind == "f" and np.isfinite(array).all() for array in numbers):
        return "it has values that are not numbers"
    return ""
