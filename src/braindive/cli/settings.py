"""Settings of a fit, as options and as a file that repeats it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import braindive as bd
from braindive.io.archive import replace_file

_PATHS = ("cohort", "output")


@dataclass(frozen=True)
class FitSettings:
    """Everything that decides the result of `braindive fit`."""

    cohort: str
    output: str
    space: str | None = None
    clusters: int = 3
    spatial: str = "auto"
    seed: int = 0
    standardise: bool = False
    covariates: str = ""
    average_hemispheres: bool = False
    smooth: int = 0
    starts: int = 4
    max_iter: int = 200
    tol: float = 1e-4
    people: str = "differ"
    scale: str = "years"

    def model(self) -> bd.DIVE:
        """Return the model to fit."""
        return bd.DIVE(
            self.clusters,
            spatial=_parse_spatial(self.spatial),
            n_init=self.starts,
            max_iter=self.max_iter,
            tol=self.tol,
            preprocessing=self.preprocessing(),
            people=_one_of("people", self.people, ("differ", "alike")),
            scale=_one_of("scale", self.scale, ("years", "controls")),
            random_state=self.seed,
        )

    def preprocessing(self) -> bd.Preprocessing | None:
        """Return what is done to the values first, or None for nothing."""
        covariates = tuple(name.strip() for name in self.covariates.split(",") if name.strip())
        if not (self.standardise or covariates or self.average_hemispheres or self.smooth):
            return None
        return bd.Preprocessing(
            standardise=self.standardise,
            covariates=covariates,
            average_hemispheres=self.average_hemispheres,
            smooth=self.smooth,
        )


def write_settings(settings: FitSettings, path: Path) -> None:
    """Write settings; paths are kept relative to the file, so that a folder can move."""
    content = asdict(settings)
    for name in _PATHS:
        content[name] = os.path.relpath(content[name], path.parent)
    content["braindive"] = bd.__version__
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_settings(path: Path) -> FitSettings:
    """Read settings that `write_settings` wrote."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        content.pop("braindive", None)
        for field in fields(FitSettings):
            kind = type(getattr(FitSettings, field.name, ""))
            value = content.get(field.name)
            if value is not None and kind in (bool, int, str) and type(value) is not kind:
                raise TypeError(f"{field.name} is {value!r}")
        for name in _PATHS:
            content[name] = os.path.normpath(path.parent / content[name])
        return FitSettings(**content)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise bd.ParameterError(f"{path} is not a settings file of a fit: {error}.") from None


def merge(settings: FitSettings, given: dict[str, Any]) -> FitSettings:
    """Return the settings with what was given on the command line."""
    return replace(settings, **given)


def _one_of(name: str, text: str, choices: tuple[str, ...]) -> Any:
    if text not in choices:
        raise bd.ParameterError(f"--{name} is {' or '.join(choices)}; got {text!r}.")
    return text


def _parse_spatial(text: str) -> Any:
    if text == "auto":
        return "auto"
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise bd.ParameterError(f"--spatial is auto, none or a number; got {text!r}.") from None
