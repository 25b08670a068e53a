"""Fits that begin from clusters, keep an atlas, or take priors from a settings file."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app
from braindive.cli.settings import FitSettings, read_settings, write_settings

# Fits that end soon.
SOON = ("--n-init", 1, "--max-iter", 40, "--people", "alike")
LIKE_SOON = {"n_init": 1, "max_iter": 40, "people": "alike", "random_state": 0}


def invoke(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Files of a study, with the true clusters as a table; 0 is of no cluster."""
    folder = tmp_path_factory.mktemp("study")
    simulation = bd.simulate_cohort(
        n_subjects=20,
        n_visits=3,
        n_vertices=40,
        midpoints=(-10, 10),
        noise=0.5,
        control_share=0.4,
        random_state=0,
    )
    bd.write_cohort(simulation.cohort, folder, "table")
    labels = np.where(np.arange(40) % 4, simulation.truth.labels + 1, 0)
    pd.DataFrame({"cluster": labels}).to_csv(folder / "known.csv", index=False)
    invoke("fit", folder / "cohort.tsv", *SOON, "-k", 2, "-o", folder / "fit.dive")
    return folder


@pytest.fixture(scope="module")
def cohort(study):
    return bd.read_cohort(study / "cohort.tsv")


@pytest.fixture(scope="module")
def known(study):
    """Labels of the table, -1 where it has none."""
    return pd.read_csv(study / "known.csv")["cluster"].to_numpy() - 1


def test_labels_of_a_file_are_where_a_fit_begins(study, cohort, known, tmp_path):
    start = ("--start", study / "known.csv")
    invoke("fit", study / "cohort.tsv", *SOON, *start, "-o", tmp_path / "fit.dive")
    model = bd.load_model(tmp_path / "fit.dive")
    expected = bd.DIVE(start=known, **LIKE_SOON).fit(cohort)
    np.testing.assert_array_equal(model.start, known)
    np.testing.assert_array_equal(model.responsibilities_, expected.responsibilities_)
    assert model.responsibilities_.shape == (40, 2)


def test_scripts_may_go_on_saying_starts(study, tmp_path):
    for name in ("--n-init", "--starts"):
        soon = (name, 2, "--max-iter", 40, "--people", "alike")
        invoke("fit", study / "cohort.tsv", "-k", 2, *soon, "-o", tmp_path / f"{name}.dive")
        assert bd.load_model(tmp_path / f"{name}.dive").n_init == 2
        assert json.loads((tmp_path / f"{name}.dive.json").read_text())["n_init"] == 2


def test_an_earlier_model_is_where_a_fit_begins(study, cohort, tmp_path):
    start = ("--start", study / "fit.dive")
    invoke("fit", study / "cohort.tsv", *SOON, *start, "-o", tmp_path / "fit.dive")
    model, earlier = bd.load_model(tmp_path / "fit.dive"), bd.load_model(study / "fit.dive")
    expected = bd.DIVE(start=earlier, **LIKE_SOON).fit(cohort)
    np.testing.assert_array_equal(model.start, earlier.labels_)
    np.testing.assert_array_equal(model.scores_, expected.scores_)


def test_an_atlas_keeps_its_regions(study, cohort, known, tmp_path):
    atlas = ("--atlas", study / "known.csv")
    invoke("fit", study / "cohort.tsv", *SOON, *atlas, "-o", tmp_path / "fit.dive")
    model = bd.load_model(tmp_path / "fit.dive")
    expected = bd.roi_model(known, **LIKE_SOON).fit(cohort)
    np.testing.assert_array_equal(model.scores_, expected.scores_)
    np.testing.assert_array_equal(model.cluster_names_, expected.cluster_names_)


@pytest.mark.parametrize(
    "options",
    [
        ("--start", "known.csv"),
        ("--start", "fit.dive"),
        ("--atlas", "known.csv"),
        ("--no-staging",),
        ("--method", "exact", "--max-iter", 3),
    ],
    ids=["labels", "model", "atlas", "no staging", "exact"],
)
@pytest.mark.filterwarnings("ignore::braindive.ConvergenceWarning")
def test_every_fit_can_be_repeated_where_its_folder_has_moved(
    study, tmp_path, monkeypatch, options
):
    moved = tmp_path / "moved"
    shutil.copytree(study, moved)
    monkeypatch.chdir(moved)
    invoke("fit", "cohort.tsv", *SOON, *options, "-o", "out/first.dive")
    again = moved.rename(tmp_path / "again")
    monkeypatch.chdir(tmp_path)
    invoke("fit", "--settings", again / "out" / "first.dive.json", "-o", "second.dive")
    first, second = (again / "out" / "first.dive"), tmp_path / "second.dive"
    assert first.read_bytes() == second.read_bytes()
    model = bd.load_model(second)
    assert model.staging == ("--no-staging" not in options)
    assert model.method == ("exact" if "exact" in options else "fast")


def test_the_command_line_turns_staging_on_again(study, tmp_path):
    recipe = tmp_path / "recipe.json"
    content = json.loads((study / "fit.dive.json").read_text())
    recipe.write_text(json.dumps(content | {"cohort": str(study / "cohort.tsv"), "staging": False}))
    assert not read_settings(recipe).model().staging
    invoke("fit", "--settings", recipe, "--staging", "-o", tmp_path / "fit.dive")
    assert bd.load_model(tmp_path / "fit.dive").staging


def test_an_interrupted_fit_goes_on_from_its_start_to_the_same_file(study, tmp_path, monkeypatch):
    def command(name):
        start = ("--start", study / "fit.dive")
        return ("fit", study / "cohort.tsv", *SOON, *start, "-o", tmp_path / name)

    invoke(*command("whole.dive"))

    def full_disk(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(bd.DIVE, "save", full_disk)
        with pytest.raises(OSError, match="no space left"):
            invoke(*command("cut.dive"))
    assert sorted(path.name for path in tmp_path.glob("cut*")) == ["cut.dive.checkpoint"]
    assert "Going on after pass" in invoke(*command("cut.dive"), "--resume").output
    assert (tmp_path / "cut.dive").read_bytes() == (tmp_path / "whole.dive").read_bytes()
    other = (*command("cut.dive")[:-4], "--start", study / "known.csv", "-o", tmp_path / "cut.dive")
    with pytest.raises(bd.ParameterError, match="no interrupted fit of these data and settings"):
        invoke(*other, "--resume")


def priors_of(tmp_path, priors):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"cohort": "c.tsv", "output": "o.dive", "priors": priors}))
    return read_settings(path).model().priors


def test_priors_of_a_settings_file_are_those_of_the_model(tmp_path):
    found = priors_of(
        tmp_path,
        {
            "speed": {"mode": 1.5, "sd": 0.2},
            "shift": {"mean": 0.5, "sd": 2},
            "trajectory": {"mean": 0, "sd": [1, 2, 3, 4.5]},
        },
    )
    assert found.speed == bd.Gamma.from_mode(1.5, sd=0.2)
    assert found.shift == bd.Normal(0.5, 2.0)
    assert found.trajectory.mean == 0
    np.testing.assert_array_equal(found.trajectory.sd, [1, 2, 3, 4.5])
    assert priors_of(tmp_path, {"speed": {"shape": 8, "rate": 7}}).speed == bd.Gamma(8.0, 7.0)
    assert priors_of(tmp_path, {"speed": None}) == bd.Priors()
    assert priors_of(tmp_path, None) is None


def test_a_fit_with_a_common_speed_is_repeated_with_it(study, tmp_path):
    content = json.loads((study / "fit.dive.json").read_text())
    content |= {"cohort": str(study / "cohort.tsv"), "priors": {"speed": "common"}}
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(content))
    invoke("fit", "--settings", recipe, "-o", tmp_path / "fit.dive")
    invoke("fit", "--settings", tmp_path / "fit.dive.json", "-o", tmp_path / "again.dive")
    speeds = bd.load_model(tmp_path / "fit.dive").speeds_
    assert np.ptp(speeds) < 0.02 * speeds.mean()
    assert np.ptp(bd.load_model(study / "fit.dive").speeds_) > 0.2
    assert (tmp_path / "again.dive").read_bytes() == (tmp_path / "fit.dive").read_bytes()


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ([], r"priors is \[\], not speed, shift, trajectory"),
        ({"slope": {}}, "priors has slope, not speed, shift, trajectory"),
        ({"speed": {"mean": 1}}, 'speed is "common", or has mode and sd, or shape and rate'),
        ({"speed": {"mode": 1, "sd": 0}}, "sd of the speed is 0, which is not above 0"),
        ({"shift": {"mean": 0}}, "the prior of the shift has mean, not mean, sd"),
        ({"shift": {"mean": "0", "sd": 1}}, "mean of the shift is '0', not a number"),
        ({"shift": {"mean": [0, 1], "sd": 1}}, r"mean of the shift is \[0, 1\], not a number"),
        ({"trajectory": {"mean": float("nan"), "sd": 1}}, "mean of the trajectory is nan"),
    ],
)
def test_priors_that_are_none_are_told_with_the_file(tmp_path, priors, message):
    with pytest.raises(bd.ParameterError, match=rf"settings\.json is not a .* fit: .*{message}"):
        priors_of(tmp_path, priors)


def test_settings_of_earlier_versions_are_read(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"cohort": "c.tsv", "output": "o.dive", "clusters": 4}))
    found = read_settings(path)
    assert found == FitSettings(str(tmp_path / "c.tsv"), str(tmp_path / "o.dive"), clusters=4)
    write_settings(found, path)
    assert read_settings(path) == found
    path.write_text(json.dumps({"cohort": "c.tsv", "output": "o.dive", "starts": 2}))
    assert read_settings(path).model().n_init == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"output": "o"}, "it does not say cohort"),
        ({"cohort": "c", "output": "o", "start": "a.csv"}, "start is 'a.csv', not a list of files"),
    ],
)
def test_settings_without_a_use_are_refused(tmp_path, content, message):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(content))
    with pytest.raises(bd.ParameterError, match=message):
        read_settings(path)
    with pytest.raises(bd.ParameterError, match="there is no settings file"):
        read_settings(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (("--start", "nowhere.csv"), bd.ParameterError, "there is no file .*nowhere.csv with clu"),
        (("--start", "known.csv", "--atlas", "known.csv"), bd.ParameterError, "one of the two"),
        (("--start", "short.csv"), bd.CohortError, "covers 3 vertices .* but the cohort has 40"),
        (("--start", "fit.dive"), bd.ParameterError, "has 40 vertices, but the cohort has 30"),
        (("--start", "broken.dive"), bd.ModelFileError, "broken.dive"),
        (("--method", "slow"), bd.ParameterError, "--method is fast or exact; got 'slow'"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_leaves_nothing(
    study, tmp_path, options, error, message
):
    pd.DataFrame({"region": [1, 2, 2]}).to_csv(study / "short.csv", index=False)
    (study / "broken.dive").write_text("nothing")
    table = study / "cohort.tsv"
    if "30" in message:
        whole = bd.read_cohort(table)
        fewer = bd.Cohort(whole.values[:, :30], subjects=whole.subjects, times=whole.times)
        table = bd.write_cohort(fewer, study / "fewer", "table")
    paths = [study / word if "." in word else word for word in options]
    with pytest.raises(error, match=message) as refused:
        invoke("fit", table, *SOON, *paths, "-o", tmp_path / "fit.dive")
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_clusters_are_judged_with_the_settings_of_a_fit(study, cohort, tmp_path):
    options = ("-k", "2", "--splits", 0, "--resamples", 0, "-j", 1, "-o", tmp_path)
    settings = ("--settings", study / "fit.dive.json")
    invoke("select", study / "cohort.tsv", *options, *settings)
    table = pd.read_csv(tmp_path / "selection.tsv", sep="\t", index_col=0)
    assert table.loc[2, "bic"] == pytest.approx(bd.DIVE(2, **LIKE_SOON).fit(cohort).bic_)
    content = json.loads((study / "fit.dive.json").read_text())
    (study / "fixed.json").write_text(json.dumps(content | {"atlas": ["known.csv"]}))
    with pytest.raises(bd.ParameterError, match=r"fixed\.json has a start or an atlas"):
        invoke("select", study / "cohort.tsv", *options, "--settings", study / "fixed.json")
