"""Fitted models from files."""

from __future__ import annotations

import os

from braindive.errors import ModelFileError
from braindive.estimator import DIVE
from braindive.io.models import read_model


def load_model(path: str | os.PathLike[str]) -> DIVE:
    """Load a fitted model.

    Parameters
    ----------
    path : path
        File that `DIVE.save` wrote. Reading it never runs code from it.

    Returns
    -------
    DIVE

    Examples
    --------
    >>> import braindive as bd
    >>> bd.load_model("nowhere.dive")
    Traceback (most recent call last):
    braindive.errors.ModelFileError: there is no file nowhere.dive.
    """
    parameters, fitted = read_model(path)
    try:
        return DIVE.restored(parameters, fitted)
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"{path} does not hold a usable model ({error}).") from error
