import json
import re
import sys
import types
import zipfile
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest

import braindive as bd
from braindive.io import models, registry
from braindive.io.models import (
    CHECKPOINT_FORMAT,
    MODEL_FORMAT,
    read_checkpoint,
    read_model,
    write_checkpoint,
    write_model,
)
from braindive.io.objects import put_together, take_apart
from braindive.io.registry import REGISTRY, saveable

SAVED = Path(__file__).parent / "saved"
KEPT = SAVED / f"format-{MODEL_FORMAT}.dive"
UNFINISHED = SAVED / f"format-{CHECKPOINT_FORMAT}.checkpoint"


@pytest.fixture
def same_packages(monkeypatch):
    """Let files say that they were written with the packages of the kept one."""
    with zipfile.ZipFile(KEPT) as archive:
        content = json.loads(archive.read("header.json"))["content"]
    (packages,) = [body["dict"] for name, body in content["dict"] if name == "packages"]
    monkeypatch.setattr(models, "package_versions", lambda: dict(packages))


def change_header(source, target, old, new):
    """Copy a file with another text in its header."""
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as copy:
        for name in archive.namelist():
            data = archive.read(name)
            if name == "header.json":
                assert old.encode() in data
                data = data.replace(old.encode(), new.encode())
            copy.writestr(name, data)
    return target


# What is written.


@pytest.mark.parametrize(
    "path", sorted(SAVED.glob(f"format-{MODEL_FORMAT}*.dive")), ids=lambda path: path.name
)
def test_a_model_is_written_to_the_same_bytes_as_when_the_format_was_new(
    path, tmp_path, same_packages
):
    # If this fails, a name in files has changed: translate it in the registry.
    parameters, fitted = read_model(path)
    if path.name.endswith("-volume.dive"):
        parameters["random_state"] = np.random.RandomState(0)  # is not kept in the file
    write_model(tmp_path / "again.dive", parameters, fitted)
    assert (tmp_path / "again.dive").read_bytes() == path.read_bytes()


def test_an_unfinished_fit_is_written_to_the_same_bytes_as_when_the_format_was_new(tmp_path):
    write_checkpoint(tmp_path / "again", *read_checkpoint(UNFINISHED))
    assert (tmp_path / "again").read_bytes() == UNFINISHED.read_bytes()


@pytest.fixture
def other_class_names():
    """Let every registered class have another name and live in another module."""
    attributes = ("__name__", "__qualname__", "__module__")
    before = [
        (saved.type, attribute, getattr(saved.type, attribute))
        for saved in REGISTRY.values()
        for attribute in attributes
    ]
    for number, (class_, attribute, _) in enumerate(before):
        setattr(class_, attribute, f"Elsewhere{number}")
    yield
    for class_, attribute, value in before:
        setattr(class_, attribute, value)


def test_renaming_and_moving_classes_changes_nothing_in_files(
    tmp_path, other_class_names, same_packages
):
    model, checkpoint = tmp_path / "again.dive", tmp_path / "again.checkpoint"
    write_model(model, *read_model(KEPT))
    assert model.read_bytes() == KEPT.read_bytes()
    write_checkpoint(checkpoint, *read_checkpoint(UNFINISHED))
    assert checkpoint.read_bytes() == UNFINISHED.read_bytes()


def test_a_renamed_field_is_translated_on_the_way_in_and_out(tmp_path, monkeypatch, same_packages):
    @dataclass(frozen=True)
    class Standard:
        spread: float
        middle: float

    unit = bd.load_model(KEPT)._internal.unit
    monkeypatch.setitem(REGISTRY, "Unit", saveable(Standard, offset="middle", scale="spread"))
    parameters, fitted = read_model(KEPT)
    assert fitted["_internal"]["unit"] == Standard(spread=unit.scale, middle=unit.offset)
    write_model(tmp_path / "again.dive", parameters, fitted)
    assert (tmp_path / "again.dive").read_bytes() == KEPT.read_bytes()


def test_a_renamed_parameter_of_a_curve_is_translated_in_its_bounds_too(monkeypatch):
    names = {**REGISTRY["Trajectories"].names, "midpoint": "middle"}
    monkeypatch.setitem(REGISTRY, "Trajectories", registry.Saveable(bd.Trajectories, names))
    bounds = put_together("Box", {"midpoint": (-1.0, 1.0)})
    assert bounds.limits == {"middle": (-1.0, 1.0)}
    assert take_apart(bounds) == ("Box", {"midpoint": (-1.0, 1.0)})


@pytest.mark.parametrize("part", ["parameters", "fitted", "_internal"])
def test_a_renamed_attribute_of_the_model_is_translated_on_the_way_in_and_out(
    part, tmp_path, monkeypatch, same_packages
):
    old = {"parameters": "tol", "fitted": "_personal", "_internal": "known"}[part]
    monkeypatch.setitem(registry.RENAMED, part, {old: "modern"})
    parameters, fitted = read_model(KEPT)
    changed = {"parameters": parameters, "fitted": fitted, "_internal": fitted["_internal"]}[part]
    assert "modern" in changed
    assert old not in changed
    write_model(tmp_path / "again.dive", parameters, fitted)
    assert (tmp_path / "again.dive").read_bytes() == KEPT.read_bytes()


def test_a_class_that_is_not_registered_is_refused_wherever_it_lives(tmp_path, monkeypatch):
    @dataclass(frozen=True)
    class Novelty:
        number: float

    module = types.ModuleType("braindive.dive.novelties")
    module.Novelty, Novelty.__module__ = Novelty, module.__name__
    monkeypatch.setitem(sys.modules, module.__name__, module)
    parameters, fitted = read_model(KEPT)
    with pytest.raises(TypeError, match="type Novelty cannot be saved"):
        write_model(tmp_path / "fit.dive", parameters, {**fitted, "novelty_": Novelty(1.0)})
    assert not list(tmp_path.iterdir())


def test_a_subclass_is_not_saved_as_what_it_is_not():
    class OwnPreprocessing(bd.Preprocessing):
        pass

    class OwnPriors(bd.Priors):
        pass

    class OwnRegions(bd.Regions):
        pass

    assert take_apart(OwnPreprocessing()) is None
    assert take_apart(OwnPriors()) is None
    assert take_apart(OwnRegions("line", ("a", "b"), [[0, 1]])) is None


def test_a_part_that_files_have_no_name_for_is_refused(monkeypatch):
    preprocessing = bd.Preprocessing()
    preprocessing.novelty_ = 1
    with pytest.raises(TypeError, match=r"Preprocessing has novelty_, for which .* no name"):
        take_apart(preprocessing)
    monkeypatch.setitem(REGISTRY, "Gamma", saveable(bd.Gamma, "shape"))
    with pytest.raises(TypeError, match="Gamma has rate"):
        take_apart(bd.Gamma(2.0, 1.0))


# What is registered.


def test_every_field_of_a_registered_class_has_one_name_in_files():
    for name, saved in REGISTRY.items():
        in_code = list(saved.names.values())
        assert len(set(in_code)) == len(in_code), name
        if is_dataclass(saved.type):
            assert set(in_code) == {field.name for field in fields(saved.type)}, name
    assert len({saved.type for saved in REGISTRY.values()}) == len(REGISTRY)


def test_all_that_preprocessing_is_told_and_learns_has_a_name_in_files():
    cohort = bd.simulate_cohort(20, 2, 10, control_share=0.5, random_state=0).cohort
    fitted = bd.Preprocessing().fit(cohort)
    assert set(REGISTRY["Preprocessing"].names.values()) == set(vars(fitted))


@pytest.fixture(scope="module")
def cohort():
    points = np.array([(x, y, 0.0) for y in range(5) for x in range(6)])
    corners = [6 * y + x for y in range(4) for x in range(5)]
    faces = [(a, a + 1, a + 6) for a in corners] + [(a + 1, a + 7, a + 6) for a in corners]
    sides = tuple(bd.space.Hemisphere(side, points, faces) for side in ("left", "right"))
    simulated = bd.simulate_cohort(
        20, 3, space=bd.Surface("sheets", sides), noise=0.1, control_share=0.5, random_state=0
    ).cohort
    return bd.Cohort(
        simulated.values,
        subjects=simulated.subjects,
        times=simulated.times,
        controls=simulated.controls,
        space=simulated.space,
        table=simulated.table.assign(
            age=70 + simulated.subject_index % 7 + simulated.times,
            scanner=1 + simulated.subject_index % 2,
            sex=np.where(simulated.subject_index % 3, "f", "m"),
        ),
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"staging": False},
        {"method": "exact", "people": "alike"},
        {"curve": bd.Trajectories},
        {"spatial": None, "people": "alike"},
        {"spatial": 1.5, "people": "alike"},
        {"assignments": np.arange(60) // 20 - 1},
        {"start": np.arange(60) // 20 - 1, "people": "alike"},
        {"assignments": ["one", "two"] * 30, "staging": False},
        {"priors": bd.Priors(bd.Gamma(3.0, 2.0), bd.Normal(0.0, 2.0))},
        {"priors": bd.Priors(trajectory=bd.Normal(np.zeros(4), 9.0))},
        {"random_state": np.random.RandomState(0), "people": "alike"},
        {"preprocessing": bd.Preprocessing(), "people": "alike"},
        {
            "preprocessing": bd.Preprocessing(standardise=False, covariates=["age"]),
            "people": "alike",
        },
        {
            "preprocessing": bd.Preprocessing(covariates=("sex", "scanner"), smooth=2),
            "people": "alike",
        },
        {"preprocessing": bd.Preprocessing(average_hemispheres=True, min_observed=0.0)},
    ],
)
def test_all_that_a_fitted_model_holds_is_registered(cohort, settings, tmp_path):
    model = bd.DIVE(**{"n_clusters": 2, "n_init": 1, "random_state": 0, **settings}).fit(cohort)
    model.save(tmp_path / "fit.dive")
    loaded = bd.load_model(tmp_path / "fit.dive")
    np.testing.assert_array_equal(loaded.predict(cohort), model.predict(cohort))
    loaded.save(tmp_path / "again.dive")
    if "random_state" not in settings:  # a generator has no seed to keep
        assert (tmp_path / "again.dive").read_bytes() == (tmp_path / "fit.dive").read_bytes()


# What is read.


@pytest.mark.parametrize(
    "name", ["Novelty", "Monitor", "StageProblem", "DIVE", "os.system", "antigravity"]
)
def test_an_unknown_name_in_a_file_is_refused_without_looking_for_it(tmp_path, name):
    path = change_header(KEPT, tmp_path / "odd.dive", '"known": ["Unit"', f'"known": ["{name}"')
    before = set(sys.modules)
    with pytest.raises(bd.ModelFileError, match=rf"part called '{re.escape(name)}', which this"):
        bd.load_model(path)
    assert set(sys.modules) == before


def test_an_unknown_field_in_a_file_is_refused(tmp_path):
    path = change_header(KEPT, tmp_path / "odd.dive", '"steepness":', '"__class__":')
    with pytest.raises(bd.ModelFileError, match="has __class__, which this version does not know"):
        bd.load_model(path)


def test_bounds_of_an_unknown_parameter_are_refused():
    assert put_together("Box", {"midpoint": (-1.0, 1.0)}).limits == {"midpoint": (-1.0, 1.0)}
    with pytest.raises(ValueError, match="the 'Box' in it has novelty, which this version"):
        put_together("Box", {"novelty": (-1.0, 1.0)})


@pytest.mark.parametrize("name", ["__class__", "__dict__", "predict", "_prepare"])
def test_a_file_cannot_replace_what_is_no_fitted_attribute(tmp_path, name):
    path = change_header(KEPT, tmp_path / "odd.dive", '["warnings_"', f'["{name}"')
    with pytest.raises(bd.ModelFileError, match=f"'{name}' is no attribute of a fitted model"):
        bd.load_model(path)


def test_a_field_that_a_file_lacks_gets_the_default_of_the_class():
    assert put_together("Priors", {}) == bd.Priors()
    with pytest.raises(TypeError, match="offset"):
        put_together("Unit", {"scale": 1.0})
