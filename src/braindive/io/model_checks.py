"""What every part of a saved model must look like, checked before anything is computed from it.

A file may come from anywhere, so no part is believed: shapes have to agree with one another, and
numbers have to be finite, of the right sign, and where they are positions within range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from braindive.dive.curves import Curves
from braindive.io.model_forms import FITTED, INSIDE, INTERNAL, KERNELS, OBJECTS, SINCE, Form
from braindive.io.objects import take_apart
from braindive.space import Space

# Nobody is faster or slower than others by more than this power of e.
_LARGEST_LOG = 50.0
# Values are standardised before a fit, whatever their unit, and a cohort has no value beyond this.
_LARGEST = 1e15
_CHOICES = {
    "people": ("differ", "alike"),
    "vertices": ("auto", "differ", "alike"),
    "scale": ("years", "controls"),
    "method": ("fast", "exact"),
}


def check_model(parameters: Mapping[str, Any], fitted: Mapping[str, Any]) -> str:
    """Say what does not fit together in a model, or nothing.

    Parameters
    ----------
    parameters, fitted : mapping
        By their names in the file.

    Returns
    -------
    str
        Empty if nothing is wrong.
    """
    try:
        _check(parameters, fitted)
    except (KeyError, IndexError) as error:
        return f"it lacks {error}"
    except (TypeError, AttributeError, ValueError) as error:
        return str(error)
    return ""


def _check(parameters: Mapping[str, Any], fitted: Mapping[str, Any]) -> None:
    for name in fitted.keys() - {"_internal", "_placing", "_personal"}:
        public = name.endswith("_") and not name.startswith("_")
        _require(public, f"{name!r} is no attribute of a fitted model")
    for name, choices in _CHOICES.items():
        _require(parameters.get(name, choices[0]) in choices, f"its {name} is unknown")
    for name in ("staging", "personal"):
        _require(isinstance(parameters.get(name, True), bool), f"its {name} is not True or False")
    curves = fitted["trajectories_"]
    _require(isinstance(curves, Curves), "its trajectories are no curves")
    n_vertices, n_clusters = np.shape(fitted["responsibilities_"])
    lengths = {
        "V": n_vertices,
        "K": n_clusters,
        "I": n_clusters + 1,
        "S": len(fitted["subjects_"]),
        "N": len(fitted["scores_"]),
        "P": curves.n_parameters(),
    }
    _require(min(lengths.values()) > 0, "a part of it is empty")
    sizes = _Sizes(lengths)
    sizes.check_all("", fitted, FITTED)
    sizes.check_curves("trajectories_", curves)
    if fitted.get("sites_") is not None:
        sizes.check_object("sites_", fitted["sites_"], "Sites")
    sizes.check_all("internal ", fitted["_internal"], INTERNAL)
    internal = {
        name: sizes.check_object(f"internal {name}", fitted["_internal"][name], kind)
        for name, kind in (("unit", "Unit"), ("parameters", "Parameters"), ("training", "Training"))
    }
    _require(take_apart(fitted["_internal"]["priors"]) is not None, "its priors are unknown")
    if fitted.get("_placing") is not None:
        sizes.check_object("staging", fitted["_placing"], "Marginal")
    if fitted.get("_personal") is not None:
        sizes.check_object("prediction", fitted["_personal"], "PersonalModel")
    _check_sites(fitted, sizes)
    _check_people(fitted, lengths)
    _check_space(fitted, n_vertices)
    _check_agreement(fitted, internal)
    if fitted.get("preprocessing_") is not None:
        _check_preprocessing(fitted["preprocessing_"], n_vertices)


def _check_sites(fitted: Mapping[str, Any], sizes: _Sizes) -> None:
    """What is known of sites is known of the same ones by vertices and by clusters."""
    sites, marginal = fitted.get("sites_"), fitted.get("_placing")
    inside = getattr(marginal, "sites", None)
    visits = getattr(fitted["_internal"]["training"], "sites", None)
    together = (sites is None) == (inside is None) == (visits is None)
    _require(together, "what it knows of sites does not belong together")
    if sites is None:
        return
    names = sites.names
    _require(
        isinstance(names, tuple) and all(isinstance(name, str) for name in names),
        "the names of its sites are no text",
    )
    _require(len(names) == sizes.length("X"), f"it names {len(names)} sites")
    _require(sites.column in fitted["visits_"], "its table of visits lacks the column of sites")


def _check_people(fitted: Mapping[str, Any], lengths: Mapping[str, int]) -> None:
    visits, names = fitted["visits_"], fitted["cluster_names_"]
    _require(isinstance(visits, pd.DataFrame), "its table of visits is no table")
    _require({"subject", "time"} <= set(visits.columns), "its table of visits lacks a column")
    _require(len(visits) == lengths["N"], f"its table has {len(visits)} visits")
    _require(len(names) == lengths["K"], f"it names {len(names)} clusters of {lengths['K']}")
    _require(isinstance(fitted["warnings_"], list), "its warnings are no list")


def _check_space(fitted: Mapping[str, Any], n_vertices: int) -> None:
    said, space = fitted["n_vertices_"], fitted["space_"]
    _require(said == n_vertices, f"it is said to have {said} vertices but has {n_vertices}")
    if space is not None:
        _require(isinstance(space, Space), "its space is something else")
        size = space.n_vertices
        _require(size == n_vertices, f"its space has {size} vertices, the model {n_vertices}")


def _check_agreement(fitted: Mapping[str, Any], internal: Mapping[str, Mapping[str, Any]]) -> None:
    """What a file says twice, in the units of the user and in those of the fit, has to agree."""
    shares, labels = fitted["responsibilities_"], fitted["labels_"]
    sums = shares.sum(axis=1)
    _require(bool(np.isclose(sums, 1, atol=1e-6).all()), "responsibilities do not add up to 1")
    _require(bool((labels >= 0).all()), "labels_ has positions out of range")
    chosen = np.take_along_axis(shares, labels[:, None], axis=1)[:, 0]
    most = np.isclose(chosen, shares.max(axis=1), atol=1e-6).all()
    _require(bool(most), "its labels are not those of the responsibilities")
    unit, found = internal["unit"], internal["parameters"]
    centre, spread = fitted["_internal"]["centre"], fitted["_internal"]["spread"]
    curves = found["trajectories"].rescored(centre, spread)
    curves = curves.revalued(unit["offset"], unit["scale"])
    _agree("noise_", fitted["noise_"], unit["scale"] * found["noise"])
    _agree("trajectories_", fitted["trajectories_"].to_array(), curves.to_array())
    speeds, visits = found["speeds"], internal["training"]["timeline"]
    inner = (
        speeds[visits.subject_of_visit] * visits.times + found["shifts"][visits.subject_of_visit]
    )
    _agree("scores_", np.sort(fitted["scores_"]), np.sort((inner - centre) / spread))


def _agree(name: str, told: np.ndarray, inner: np.ndarray) -> None:
    # They were converted once and stored with all their digits.
    size = max(float(np.abs(told).max()), float(np.abs(inner).max()))
    same = np.allclose(told, inner, rtol=1e-6, atol=1e-9 * size)
    _require(same, f"{name} and the parameters of the fit do not agree")


def _check_preprocessing(steps: Any, n_vertices: int) -> None:
    kept = np.asarray(steps.keep_)
    _require(kept.dtype == bool and kept.ndim == 1, "its kept vertices are no mask")
    _require(int(kept.sum()) == n_vertices, f"it keeps {int(kept.sum())} of {n_vertices} vertices")
    sizes = _Sizes({"V": n_vertices, "Q": len(steps.centre_)})
    learnt = {"means_": Form("V"), "spreads_": Form("V", "positive")}
    learnt |= {"effects_": Form("QV"), "centre_": Form("Q")}
    sizes.check_all("preprocessing ", vars(steps), learnt)


class _Sizes:
    """Lengths of axes by their letters; those that are not known are learnt."""

    def __init__(self, known: dict[str, int]) -> None:
        self._known = {**{digit: int(digit) for digit in "123"}, **known}

    def length(self, axis: str) -> int | None:
        """Length of an axis, where it is known."""
        return self._known.get(axis)

    def check_object(self, where: str, part: Any, kind: str) -> dict[str, Any]:
        """Check an object of a kind with all that is in it; return its parts."""
        name, parts = take_apart(part) or ("", {})
        if name != kind:
            raise ValueError(f"{where} is a {type(part).__name__}")
        self.check_all(f"{where} ", parts, OBJECTS.get(kind, {}))
        for inner, form in INSIDE.get(kind, {}).items():
            self.check_object(f"{where} {inner}", parts[inner], form)
        for inner, form in SINCE.get(kind, {}).items():
            if parts.get(inner) is not None:
                self.check_object(f"{where} {inner}", parts[inner], form)
        if "trajectories" in parts:
            self.check_curves(f"{where} trajectories", parts["trajectories"])
        for inner, axis in KERNELS.get(kind, {}).items():
            kernel = self.check_object(f"{where} {inner}", parts[inner], "Kernel")
            rules = {"shape": "3", "persistent": axis, "noise": axis}
            forms = {each: Form(length, "not negative") for each, length in rules.items()}
            self.check_all(f"{where} {inner} ", kernel, forms)
        return parts

    def check_curves(self, where: str, curves: Any) -> None:
        """Check that every cluster has a curve of finite parameters."""
        if not isinstance(curves, Curves):
            raise ValueError(f"{where} is a {type(curves).__name__}")
        for field in fields(curves):
            self._check(f"{where} {field.name}", getattr(curves, field.name), Form("K"))

    def check_all(self, where: str, parts: Mapping[str, Any], forms: Mapping[str, Form]) -> None:
        """Check the parts that have a form."""
        for name, form in forms.items():
            if form.optional and parts.get(name) is None:
                continue
            self._check(f"{where}{name}", parts[name], form)

    def _check(self, name: str, value: Any, form: Form) -> None:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not (isinstance(value, np.ndarray) if form.lengths else is_number):
            raise ValueError(f"{name} is a {type(value).__name__}")
        array = np.asarray(value)
        expected = tuple(
            self._known.setdefault(axis, length)
            for axis, length in zip(form.lengths, array.shape, strict=False)
        )
        if array.shape != expected or array.ndim != len(form.lengths):
            wanted = tuple(self._known.get(axis, axis) for axis in form.lengths)
            raise ValueError(f"{name} has shape {array.shape} instead of {wanted}")
        kinds = {"bool": "b", "cluster": "iu", "subject": "iu", "group": "iu", "site": "iu"}
        if array.dtype.kind not in kinds.get(form.rule, "f" if form.lengths else "fiu"):
            raise ValueError(f"{name} holds {array.dtype}")
        wrong = self._breaks(array, form.rule)
        if wrong:
            raise ValueError(f"{name} has {wrong}")

    def _breaks(self, array: np.ndarray, rule: str) -> str:
        """How numbers break their rule, or nothing."""
        if rule == "any":
            return "infinite values" if np.isinf(array).any() else ""
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return "values that are not numbers"
        if array.dtype.kind == "f" and array.size and np.abs(array).max() > _LARGEST:
            return "values beyond all measure"
        if rule == "log" and (np.abs(array) > _LARGEST_LOG).any():
            return "values beyond all speeds"
        if rule == "positive" and (array <= 0).any():
            return "values that are not above 0"
        if rule == "not negative" and (array < 0).any():
            return "values below 0"
        # Shares of a cluster come from sums, which round.
        if rule == "share" and ((array < 0).any() or (array > 1 + 1e-6).any()):
            return "values that are not between 0 and 1"
        if rule == "symmetric":
            turned = np.swapaxes(array, -1, -2)
            if not np.allclose(array, turned, rtol=1e-6, atol=1e-9 * np.abs(array).max()):
                return "entries that are not symmetric"
            if (np.diagonal(array, axis1=-2, axis2=-1) < 0).any():
                return "variances below 0"
            values = np.linalg.eigvalsh(array)
            if array.size and (values.min(axis=-1) < -1e-6 * values.max(axis=-1)).any():
                return "variances below 0"
        most = {"cluster": "K", "subject": "S", "group": "G", "site": "X"}.get(rule)
        if most in self._known and ((array < -1).any() or (array >= self._known[most]).any()):
            return "positions out of range"
        if rule == "subject" and (
            array[0] != 0 or (np.diff(array) < 0).any() or (np.diff(array) > 1).any()
        ):
            return "subjects out of order"
        return ""


def _require(true: bool, otherwise: str) -> None:
    if not true:
        raise ValueError(otherwise)
