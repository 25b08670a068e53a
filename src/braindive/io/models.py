"""Fitted models and interrupted fits as files."""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from braindive.cohort import Cohort
from braindive.dive.starts import Checkpoint
from braindive.errors import ModelFileError
from braindive.io.archive import digest, read_archive, write_archive
from braindive.io.model_checks import check_model
from braindive.io.objects import put_together, take_apart
from braindive.io.registry import to_code_names, to_file_names
from braindive.values.walking import vertex_blocks

MODEL_FORMAT = 2
CHECKPOINT_FORMAT = 1

_PACKAGES = ("braindive", "numpy", "scipy", "scikit-learn")


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that decide the result of a fit."""
    return {name: _version(name) for name in _PACKAGES}


@cache
def _version(name: str) -> str:
    """Of an installed package, which is looked up on the disk once."""
    return version(name)


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
        parameters, found = content["parameters"], content["fitted"]
        wrong = check_model(parameters, found)
        parameters = to_code_names("parameters", parameters)
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
        mark, starts = content["fingerprint"], content["starts"]
    except (LookupError, TypeError) as error:
        raise ModelFileError(f"{path} lacks a part of the checkpoint: {error}.") from error
    if not isinstance(mark, str) or not isinstance(starts, (list, tuple)):
        raise ModelFileError(f"{path} does not hold a usable checkpoint.")
    return mark, tuple(starts)


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
