"""Files that were once written are read for ever: see saved/write_files.py for what they hold.

No file in the folder is ever written anew. What the code calls a thing may change; then the file's
name for it is translated, in `braindive.io.registry`.
"""

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.io.models import read_checkpoint

FOLDER = Path(__file__).parent / "saved"
MODELS = sorted(path.name for path in FOLDER.glob("*.dive"))
CURVES = ("amplitude", "steepness", "midpoint", "baseline")
# How far models of the first format may be from what they gave when they were written. Their prior
# of speeds was a Gamma distribution, which is read as a normal one of the log speed with the same
# mode and curvature; this moves stages, in units of their errors, and their errors, relatively.
# What they predict without personal deviations rests on the curves and stages of the marginal model
# now, and no longer on those of the EM; it moves in units of the spread of a measurement, as
# predictions do. Measured on the kept files: 0.13, 0.44, 0.03, 0.33 and 0.02.
STAGE, ERROR, PREDICTED, BY_CURVES, SCORE = 0.15, 0.5, 0.05, 0.4, 0.03


def read_expected(path):
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def group(expected, name):
    """Parts of one thing: what is kept as "name.part"."""
    return {
        key.removeprefix(f"{name}."): value
        for key, value in expected.items()
        if key.startswith(f"{name}.")
    }


def kept_cohort(expected, space):
    return bd.Cohort(
        **group(expected, "cohort"), space=space, table=pd.DataFrame(group(expected, "table"))
    )


def assert_same(found, expected, name):
    found = np.asarray(found)
    assert found.shape == expected.shape, name
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10, err_msg=name)
    else:
        np.testing.assert_array_equal(found.astype(expected.dtype), expected, err_msg=name)


def read_kept(name):
    path = FOLDER / name
    return bd.load_model(path), read_expected(path.with_suffix(".npz"))


@pytest.fixture(params=MODELS)
def kept(request):
    return read_kept(request.param)


# Staging of the first format was another one; its models without staging are the same.
TRANSLATED = ["format-1.dive", "format-1-volume.dive"]


@pytest.fixture(params=[name for name in MODELS if name not in TRANSLATED])
def unchanged(request):
    return read_kept(request.param)


@pytest.fixture(params=TRANSLATED)
def translated(request):
    return read_kept(request.param)


def test_a_model_of_each_kind_is_kept():
    for number in (1, 2):
        kinds = {f"format-{number}{kind}.dive" for kind in ("", "-atlas", "-volume")}
        assert kinds <= set(MODELS)
    assert "format-2-alike.dive" in MODELS


def test_a_kept_model_has_what_its_fit_found(kept):
    model, expected = kept
    for name, value in group(expected, "fitted").items():
        assert_same(getattr(model, name), value, name)
    for name in CURVES:
        assert_same(getattr(model.trajectories_, name), expected[f"trajectories.{name}"], name)
    assert_same(model.space_.edges(), expected["neighbours"], "neighbours")
    assert_same(model.visits_["apoe"].fillna("nothing"), expected["visits.apoe"], "visits_")


def test_a_kept_model_tells_which_plateaus_were_reached(kept):
    """Whether somebody has gone through less than a tenth, or more than nine, of the change."""
    model, expected = kept
    steepness, midpoint = (expected[f"trajectories.{name}"] for name in ("steepness", "midpoint"))
    done = 1 / (1 + np.exp(-steepness * (expected["fitted.scores_"][:, None] - midpoint)))
    reached = np.stack([done.min(axis=0) <= 0.1, done.max(axis=0) >= 0.9], axis=1)
    np.testing.assert_array_equal(model.plateaus_reached_, reached)


def test_a_kept_model_stages_as_it_always_did(unchanged):
    model, expected = unchanged
    stages = model.stage(kept_cohort(expected, space_before_preprocessing(model)))
    for name, value in group(expected, "stage").items():
        assert_same(stages[name], value, name)


def test_a_model_of_the_first_format_stages_nearly_as_it_did(translated):
    model, expected = translated
    stages = model.stage(kept_cohort(expected, space_before_preprocessing(model)))
    before = group(expected, "stage")
    for name in ("speed", "shift", "score"):
        error = before[f"{name}_se"]
        assert np.max(np.abs(stages[name] - before[name]) / error) < STAGE, name
        assert np.max(np.abs(stages[f"{name}_se"] / error - 1)) < ERROR, name
    assert_same(stages["n_visits"], before["n_visits"], "n_visits")


def predictions(model, expected):
    cohort = kept_cohort(expected, space_before_preprocessing(model))
    early, late = cohort.first_visits(2), cohort.later_visits(2)
    predicted, spread = model.predict(late, history=early, return_std=True)
    by_curves = model.predict(late, history=early, personal=False)
    return predicted, spread, by_curves, model.score(cohort)


def test_a_kept_model_predicts_as_it_always_did(unchanged):
    found = predictions(*unchanged)
    names = ("predicted", "predicted_sd", "published", "score")
    for name, value in zip(names, found, strict=True):
        assert_same(value, unchanged[1][name], name)


def test_a_model_of_the_first_format_predicts_nearly_as_it_did(translated):
    _, expected = translated
    predicted, spread, by_curves, score = predictions(*translated)
    assert_same(spread, expected["predicted_sd"], "predicted_sd")
    assert np.nanmax(np.abs(predicted - expected["predicted"]) / spread) < PREDICTED
    assert np.nanmax(np.abs(by_curves - expected["published"]) / spread) < BY_CURVES
    assert abs(score - expected["score"]) < SCORE


def test_a_kept_model_can_be_fitted_again_with_its_settings():
    model = bd.load_model(FOLDER / "format-1.dive")
    assert model.priors.trajectory.sd.tolist() == [20.0] * 4
    assert model.preprocessing.covariates == ("age", "site")
    assert model.preprocessing.smooth == 1
    atlas = bd.load_model(FOLDER / "format-1-atlas.dive")
    assert atlas.assignments.tolist() == ["north"] * 20 + ["south"] * 20
    assert not atlas.staging


def test_a_kept_unfinished_fit_stands_where_it_stood(monkeypatch):
    # It began before fits with a field did so without one, and priors are scaled to the start.
    monkeypatch.setattr("braindive.dive.starts.may_begin_without_field", lambda settings: False)
    path = FOLDER / "format-1.checkpoint"
    expected = read_expected(path.with_name(f"{path.name}.npz"))
    mark, checkpoint = read_checkpoint(path)
    assert mark == "mark"
    space = bd.Regions("line", [f"r{i}" for i in range(40)], [[i, i + 1] for i in range(39)])
    # All of its three passes are done: whatever comes out was in the file.
    model = bd.DIVE(
        2,
        n_init=1,
        max_iter=3,
        tol=1e-12,
        people="alike",
        scale="controls",
        personal=False,
        random_state=0,
    )
    passes = []
    with pytest.warns(bd.ConvergenceWarning):
        model.fit(kept_cohort(expected, space), resume=checkpoint, callback=passes.append)
    assert not passes
    # Stages are taken to their optimum after the last pass, which three passes have not reached:
    # for one person, late on flat curves, it is a hundredth away.
    stages, fitted = ("speeds_", "shifts_", "scores_"), group(expected, "fitted")
    for name, value in fitted.items():
        if name not in stages:
            assert_same(getattr(model, name), value, name)
    for name in stages:
        away = np.abs(getattr(model, name) - fitted[name])
        assert away.max() < 0.02, name
        assert np.median(away) < 1e-5, name
    # And with them the unit of the score.
    for name in CURVES:
        found, value = getattr(model.trajectories_, name), expected[f"trajectories.{name}"]
        if name in ("amplitude", "baseline"):
            assert_same(found, value, name)
        else:
            np.testing.assert_allclose(found, value, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("format-*")), ids=lambda path: path.name)
def test_kept_files_are_small_and_hold_no_pickle(path):
    assert path.stat().st_size < 200_000
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as entry:
                    np.lib.format.read_array(entry, allow_pickle=False)


def space_before_preprocessing(model):
    prepared = model.preprocessing_
    return model.space_ if prepared is None else prepared.space_in_
