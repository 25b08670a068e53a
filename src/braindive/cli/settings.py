"""Settings of a fit, as options and as a file that repeats it."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import braindive as bd
from braindive.cli.inputs import is_model
from braindive.cli.table_options import TableOptions
from braindive.io.atlas_names import ATLASES
from braindive.io.outputs import replace_file

_PATHS = ("cohort", "output")
_PATHS_IF_GIVEN = ("root", "freesurfer")
_LISTS_OF_PATHS = ("start", "atlas", "regions")


@dataclass(frozen=True)
class FitSettings:
    """Everything that decides the result of `braindive fit`.

    Parameters
    ----------
    cohort, output : str
        Paths.
    start, atlas : tuple of str
        Files of the clusters to begin from, and of fixed ones.
    regions : tuple of str
        FreeSurfer's tables of regions beside the table of visits.
    priors : dict, optional
        As `parse_priors` takes them; only a settings file has them.
    space, clusters, spatial, ... : as the options of the command
    """

    cohort: str
    output: str
    space: str | None = None
    clusters: int = 3
    start: tuple[str, ...] = ()
    atlas: tuple[str, ...] = ()
    staging: bool = True
    method: str = "fast"
    spatial: str = "auto"
    seed: int = 0
    standardise: bool = False
    covariates: str = ""
    average_hemispheres: bool = False
    smooth: int = 0
    n_init: int = 4
    max_iter: int = 200
    tol: float = 1e-4
    people: str = "differ"
    scale: str = "years"
    speed_on: str = ""
    shift_on: str = ""
    sites: str = ""
    priors: dict[str, Any] | None = None
    regions: tuple[str, ...] = ()
    reference: str = "controls"
    drop_zeros: bool = False
    id: str | None = None
    time: str | None = None
    values: str | None = None
    controls: str | None = None
    root: str | None = None
    skip_bad: bool = False
    freesurfer: str | None = None
    measure: str = "thickness"
    fwhm: int = 0
    target: str = "fsaverage"

    def table(self) -> TableOptions:
        """Return how the table is read."""
        return TableOptions(
            **{each.name: getattr(self, each.name) for each in fields(TableOptions)}
        )

    def model(self) -> bd.DIVE:
        """Return the model to fit, but for the clusters that `given_clusters` reads."""
        if self.start and self.atlas:
            raise bd.ParameterError(
                "--atlas fixes the clusters, and --start is where a fit of them begins; give one "
                "of the two."
            )
        return bd.DIVE(
            self.clusters,
            spatial=_parse_spatial(self.spatial),
            staging=self.staging,
            method=_one_of("method", self.method, ("fast", "exact")),
            priors=None if self.priors is None else parse_priors(self.priors),
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            preprocessing=self.preprocessing(),
            people=_one_of("people", self.people, ("differ", "alike")),
            scale=_one_of("scale", self.scale, ("years", "controls")),
            speed_on=_names(self.speed_on) or None,
            shift_on=_names(self.shift_on) or None,
            sites=self.sites or None,
            random_state=self.seed,
        )

    def given_clusters(self, cohort: bd.Cohort) -> dict[str, Any]:
        """Read the clusters to begin from, or fixed ones, as parameters of the model."""
        # Checked first, because what is missing is a path that was mistyped, in any format.
        for path in (*self.start, *self.atlas):
            if not Path(path).is_file() and path not in ATLASES:
                raise bd.ParameterError(
                    f"there is no file {path} with clusters; check --start and --atlas."
                )
        if len(self.start) == 1 and is_model(Path(self.start[0])):
            return {"start": bd.load_model(self.start[0])}
        n_vertices, space = cohort.n_vertices, cohort.space
        if self.average_hemispheres:
            from braindive.space.folding import fold_hemispheres

            space, pairs = fold_hemispheres(space)
            n_vertices = len(pairs)
        return {
            name: bd.read_atlas(paths, n_vertices, space)
            for name, paths in (("start", self.start), ("assignments", self.atlas))
            if paths
        }

    def preprocessing(self) -> bd.Preprocessing | None:
        """Return what is done to the values first, or None for nothing."""
        covariates = _names(self.covariates)
        if not (
            self.standardise
            or covariates
            or self.average_hemispheres
            or self.smooth
            or self.drop_zeros
        ):
            return None
        return bd.Preprocessing(
            standardise=self.standardise,
            covariates=covariates,
            average_hemispheres=self.average_hemispheres,
            smooth=self.smooth,
            reference=_one_of("reference", self.reference, ("controls", "baseline")),
            drop_zeros=self.drop_zeros,
        )


def write_settings(settings: FitSettings, path: Path) -> None:
    """Write settings; paths are kept relative to the file, so that a folder can move."""
    content = asdict(settings)
    for name in (*_PATHS, *_PATHS_IF_GIVEN):
        if content[name] is not None:
            content[name] = os.path.relpath(content[name], path.parent)
    for name in _LISTS_OF_PATHS:
        content[name] = [
            each if each in ATLASES else os.path.relpath(each, path.parent)
            for each in content[name]
        ]
    content["braindive"] = bd.__version__
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_settings(path: Path) -> FitSettings:
    """Read settings that `write_settings` wrote, perhaps with priors that somebody added."""
    if not path.is_file():
        raise bd.ParameterError(f"there is no settings file {path}.")
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        content.pop("braindive", None)
        if "starts" in content:  # what older files call it
            content.setdefault("n_init", content.pop("starts"))
        for field in fields(FitSettings):
            kind = type(getattr(FitSettings, field.name, ""))
            value = content.get(field.name)
            if value is not None and kind in (bool, int, str) and type(value) is not kind:
                raise TypeError(f"{field.name} is {value!r}")
        for name in _PATHS:
            if name not in content:
                raise ValueError(f"it does not say {name}")
            content[name] = os.path.normpath(path.parent / content[name])
        for name in _PATHS_IF_GIVEN:
            if content.get(name) is not None:
                content[name] = os.path.normpath(path.parent / content[name])
        for name in _LISTS_OF_PATHS:
            paths = content.get(name, [])
            if not isinstance(paths, list):
                raise TypeError(f"{name} is {paths!r}, not a list of files")
            content[name] = tuple(
                each if each in ATLASES else os.path.normpath(path.parent / each) for each in paths
            )
        settings = FitSettings(**content)
        if settings.priors is not None:
            parse_priors(settings.priors)
        return settings
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise bd.ParameterError(f"{path} is not a settings file of a fit: {error}.") from None


def parse_priors(content: dict[str, Any]) -> bd.Priors:
    """Priors from their form in a settings file; those that are left out are the usual ones.

    Parameters
    ----------
    content : dict
        ``speed``: ``{"mode": 1, "sd": 0.4}``, ``{"shape": 8, "rate": 7}``, or ``"common"`` where
        everybody has the same speed. ``shift``: ``{"mean": 0, "sd": 3}``. ``trajectory``: the
        same, with one number for all parameters of a curve or a list of one for each.

    Examples
    --------
    >>> from braindive.cli.settings import parse_priors
    >>> parse_priors({"speed": "common", "shift": {"mean": 0, "sd": 2}}).speed.is_fixed
    True
    """
    _check_keys("priors", content, ("speed", "shift", "trajectory"))
    given: dict[str, Any] = {}
    speed = content.get("speed")
    if speed == "common":
        given["speed"] = bd.Gamma.fixed()
    elif isinstance(speed, dict) and set(speed) == {"mode", "sd"}:
        numbers = _numbers("speed", speed, positive=("mode", "sd"))
        given["speed"] = bd.Gamma.from_mode(**numbers)
    elif isinstance(speed, dict) and set(speed) == {"shape", "rate"}:
        given["speed"] = bd.Gamma(**_numbers("speed", speed, positive=("shape", "rate")))
    elif speed is not None:
        raise ValueError(
            'the prior of the speed is "common", or has mode and sd, or shape and rate; it is '
            f"{speed!r}"
        )
    for name in ("shift", "trajectory"):
        if content.get(name) is not None:
            _check_keys(f"the prior of the {name}", content[name], ("mean", "sd"), all_of_them=True)
            numbers = _numbers(name, content[name], positive=("sd",), lists=name == "trajectory")
            given[name] = bd.Normal(**numbers)
    return bd.Priors(**given)


def _check_keys(what: str, content: Any, known: tuple[str, ...], all_of_them: bool = False) -> None:
    if not isinstance(content, dict):
        raise TypeError(f"{what} is {content!r}, not {', '.join(known)}")
    odd = [key for key in content if key not in known]
    missing = [key for key in known if key not in content] if all_of_them else []
    if odd or missing:
        raise ValueError(f"{what} has {', '.join(content) or 'nothing'}, not {', '.join(known)}")


def _numbers(
    what: str, content: dict[str, Any], positive: tuple[str, ...], lists: bool = False
) -> dict[str, Any]:
    """Numbers, or arrays of them, by their names."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        several = value if lists and isinstance(value, list) else [value]
        for number in several:
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise TypeError(f"{name} of the {what} is {value!r}, not a number")
            if not math.isfinite(number):
                raise ValueError(f"{name} of the {what} is {value!r}, which is not finite")
            if name in positive and number <= 0:
                raise ValueError(f"{name} of the {what} is {value!r}, which is not above 0")
        found[name] = np.array(value, dtype=float) if isinstance(value, list) else float(value)
    return found


def merge(settings: FitSettings, given: dict[str, Any]) -> FitSettings:
    """Return the settings with what was given on the command line."""
    return replace(settings, **given)


def _names(text: str) -> tuple[str, ...]:
    """Names of columns, separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


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
