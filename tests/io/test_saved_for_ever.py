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


@pytest.fixture(params=MODELS)
def kept(request):
    path = FOLDER / request.param
    return bd.load_model(path), read_expected(path.with_suffix(".npz"))


def test_a_model_of_each_kind_is_kept():
    assert {"format-1.dive", "format-1-atlas.dive", "format-1-volume.dive"} <= set(MODELS)


def test_a_kept_model_has_what_its_fit_found(kept):
    model, expected = kept
    for name, value in group(expected, "fitted").items():
        assert_same(getattr(model, name), value, name)
    for name in CURVES:
        assert_same(getattr(model.trajectories_, name), expected[f"trajectories.{name}"], name)
    assert_same(model.space_.edges(), expected["neighbours"], "neighbours")
    assert_same(model.visits_["apoe"].fillna("nothing"), expected["visits.apoe"], "visits_")


def test_a_kept_model_stages_as_it_always_did(kept):
    model, expected = kept
    stages = model.stage(kept_cohort(expected, space_before_preprocessing(model)))
    for name, value in group(expected, "stage").items():
        assert_same(stages[name], value, name)
    for name, value in group(expected, "stage_trajectories").items():
        assert_same(getattr(model.stage_trajectories_, name), value, name)


def test_a_kept_model_predicts_as_it_always_did(kept):
    model, expected = kept
    cohort = kept_cohort(expected, space_before_preprocessing(model))
    early, late = cohort.first_visits(2), cohort.later_visits(2)
    predicted, spread = model.predict(late, history=early, return_std=True)
    assert_same(predicted, expected["predicted"], "predicted")
    assert_same(spread, expected["predicted_sd"], "predicted_sd")
    published = model.predict(late, history=early, personal=False)
    assert_same(published, expected["published"], "published")
    assert_same(model.score(cohort), expected["score"], "score")


def test_a_kept_model_can_be_fitted_again_with_its_settings():
    model = bd.load_model(FOLDER / "format-1.dive")
    assert model.priors.trajectory.sd.tolist() == [20.0] * 4
    assert model.preprocessing.covariates == ("age", "site")
    assert model.preprocessing.smooth == 1
    atlas = bd.load_model(FOLDER / "format-1-atlas.dive")
    assert atlas.assignments.tolist() == ["north"] * 20 + ["south"] * 20
    assert not atlas.staging


def test_a_kept_unfinished_fit_stands_where_it_stood():
    path = FOLDER / "format-1.checkpoint"
    expected = read_expected(path.with_name(f"{path.name}.npz"))
    mark, checkpoint = read_checkpoint(path)
    assert mark == "mark"
    space = bd.Regions("line", [f"r{i}" for i in range(40)], [[i, i + 1] for i in range(39)])
    # All of its three passes are done: whatever comes out was in the file.
    model = bd.DIVE(2, n_init=1, max_iter=3, tol=1e-12, random_state=0)
    passes = []
    with pytest.warns(bd.ConvergenceWarning):
        model.fit(kept_cohort(expected, space), resume=checkpoint, callback=passes.append)
    assert not passes
    for name, value in group(expected, "fitted").items():
        assert_same(getattr(model, name), value, name)
    for name in CURVES:
        assert_same(getattr(model.trajectories_, name), expected[f"trajectories.{name}"], name)


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
