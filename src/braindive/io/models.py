"""Fitted models and interrupted fits as files."""

from __future__ import annotations

import os
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from braindive.cohort import Cohort
from braindive.dive.starts import Checkpoint
from braindive.errors import ModelFileError
from braindive.io.archive import digest, read_archive, write_archive
from braindive.io.registry import put_together, take_apart, to_code_names, to_file_names
from braindive.values.walking import vertex_blocks

MODEL_FORMAT = 2
CHECKPOINT_FORMAT = 1

# What a file has beside the attributes that are meant for users.
_INNER_PARTS = {"_internal", "_placing", "_personal"}
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
    found = to_file_names("fitted", fitted)
    found["_internal"] = to_file_names("_internal", found["_internal"])
    content = {
        "parameters": to_file_names("parameters", parameters),
        "fitted": found,
        "packages": package_versions(),
    }
    write_archive(Path(path), "braindive model", MODEL_FORMAT, content, take_apart)


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
    content = read_archive(path, "braindive model", MODEL_FORMAT, put_together)
    try:
        parameters, found = to_code_names("parameters", content["parameters"]), content["fitted"]
        wrong = _mismatch(found)
        found["_internal"] = to_code_names("_internal", found["_internal"])
        fitted = to_code_names("fitted", found)
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
    write_archive(Path(path), "braindive checkpoint", CHECKPOINT_FORMAT, content, take_apart)


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
    content = read_archive(Path(path), "braindive checkpoint", CHECKPOINT_FORMAT, put_together)
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
        # Of a model to start from, what the fit begins from.
        key: getattr(value, "responsibilities_", value)
        for key, value in parameters.items()
        if key not in ("n_jobs", "memory", "verbose")
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
    values = [digest(block, take_apart) for _, block in vertex_blocks(cohort.stored, cohort.rows)]
    return digest([facts, values], take_apart)


def _mismatch(fitted: dict[str, Any]) -> str:
    """What does not fit together in a model, by its names in the file, or nothing."""
    for name in fitted.keys() - _INNER_PARTS:
        if name.startswith("_") or not name.endswith("_"):
            return f"{name!r} is no attribute of a fitted model"
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
