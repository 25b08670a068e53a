"""Commands, run as a user would run them: in their own process, in an empty folder."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli import settings as fit_settings
from braindive.cli.main import app

# Seconds after which a process counts as hanging.
PATIENCE = 300
PAUSING = str(Path(__file__).parents[1] / "pausing.py")


def braindive(*arguments, folder, **options):
    return subprocess.run(
        [sys.executable, "-m", "braindive.cli.main", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **options,
    )


def invoke(*arguments):
    """Run a command in this process, which is faster."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    regions = [f"r{i}" for i in range(40)]
    neighbours = pd.DataFrame({"region": regions[:-1], "neighbour": regions[1:]})
    neighbours.to_csv(folder / "regions.tsv", sep="\t", index=False)
    simulation = bd.simulate_cohort(
        n_subjects=20,
        n_visits=3,
        space=bd.load_space(folder / "regions.tsv"),
        noise=0.1,
        control_share=0.4,
        random_state=0,
    )
    bd.write_cohort(simulation.cohort, folder, "table")
    return folder


# Fits that end soon; those of the default are in the tests that go from files to a report.
FIT = ("-k", 2, "--n-init", 2, "--max-iter", 40, "--people", "alike")


@pytest.fixture(scope="module")
def fitted(study):
    space = study / "regions.tsv"
    invoke("fit", study / "cohort.tsv", "--space", space, *FIT, "-o", study / "fit.dive")
    return study / "fit.dive"


def test_a_study_with_persistent_differences_and_mislabelled_controls(tmp_path):
    folder = tmp_path / "study"
    options = ("--subjects", 30, "--visits", 2, "--vertices", 8, "--format", "table", "--seed", 1)
    wrong = ("--mislabelled", 0.5, "--control-share", 0.4, "--personal-offset", 50)
    assert invoke("simulate", folder, *options, *wrong).exit_code == 0
    people = pd.read_csv(folder / "truth_subjects.tsv", sep="\t")
    assert people["mislabelled"].sum() == 6
    values = bd.read_cohort(folder / "cohort.tsv").values.reshape(30, 2, 8)
    # Offsets of 50 are the same at both visits; all else is of the order of 1.
    assert values.std() > 30
    assert np.abs(values[:, 0] - values[:, 1]).max() < 10


def test_from_an_empty_folder_to_stages_and_maps(tmp_path, monkeypatch):
    """The first and the longest command in processes of their own, the others in this one."""
    monkeypatch.chdir(tmp_path)
    small = ("--space", "fsaverage5", "--subjects", 12, "--visits", 2, "--seed", 1)
    steps = [
        ("simulate", "study/", *small, "--format", "mgh"),
        ("check", "study/cohort.tsv", "--space", "fsaverage5"),
        ("pack", "study/cohort.tsv", "--space", "fsaverage5", "-o", "study.zarr"),
        ("fit", "study.zarr", "-k", "2", "-o", "fit.dive", "--maps", "maps/"),
        ("stage", "fit.dive", "study/cohort.tsv", "-o", "stages.tsv"),
        ("predict", "fit.dive", "study/cohort.tsv", "--history", 1, "-o", "predicted/"),
    ]
    for step in steps:
        if step[0] in ("simulate", "fit"):
            result = braindive(*step, folder=tmp_path)
            assert result.returncode == 0, result.stderr
        else:
            assert invoke(*step).exit_code == 0
    stages = pd.read_csv(tmp_path / "stages.tsv", sep="\t")
    assert len(stages) == 12
    labels = nib.load(tmp_path / "maps" / "hemi-R_clusters.label.gii").darrays[0].data
    model = bd.load_model(tmp_path / "fit.dive")
    np.testing.assert_array_equal(labels, model.labels_[10242:] + 1)
    predicted = bd.read_cohort(tmp_path / "predicted" / "cohort.tsv", space="fsaverage5")
    cohort = bd.open_packed(tmp_path / "study.zarr")
    expected = model.predict(cohort.later_visits(1), history=cohort.first_visits(1))
    np.testing.assert_allclose(predicted.values, expected, rtol=1e-6)


# Memberships are vague only in data so noisy that the fit warns of them.
@pytest.mark.filterwarnings("ignore::braindive.errors.BraindiveWarning")
def test_printed_sizes_of_clusters_add_up_to_the_number_of_vertices(tmp_path):
    few = ("--n-init", 1, "--max-iter", 10, "--people", "alike")
    # Where so vague a fit ends depends on the order of sums, and so on the processor: the first of
    # these cohorts whose rounded sums of probabilities do not add up is taken.
    for seed in range(20):
        noisy = bd.simulate_cohort(
            n_subjects=20,
            n_visits=3,
            n_vertices=40,
            noise=3.0,
            control_share=0.4,
            random_state=seed,
        )
        folder = tmp_path / str(seed)
        table = bd.write_cohort(noisy.cohort, folder, "table")
        result = invoke("fit", table, "-k", 4, *few, "-o", folder / "fit.dive")
        assert result.exit_code == 0, result.output
        model = bd.load_model(folder / "fit.dive")
        if model.responsibilities_.sum(axis=0).round().sum() != 40:
            break
    assert model.responsibilities_.sum(axis=0).round().sum() != 40
    printed = re.search(r"4 clusters of ([\d, ]+) vertices", " ".join(result.output.split()))[1]
    sizes = [int(size) for size in printed.split(", ")]
    assert sizes == [int((model.labels_ == k).sum()) for k in range(4)]
    assert sum(sizes) == 40


def test_a_fit_killed_half_way_goes_on_to_the_same_file(study, tmp_path):
    """The same command after kill -9 ends in the very bytes of an undisturbed run."""
    command = ["fit", study / "cohort.tsv", "--space", study / "regions.tsv", *FIT]
    invoke(*command, "-o", tmp_path / "whole.dive")
    kept = tmp_path / "cut.dive.checkpoint"
    process = subprocess.Popen(
        [sys.executable, PAUSING, study, "checkpoint", *map(str, command), "-o", "cut.dive"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + PATIENCE
    while not (study / "paused").exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert kept.exists()
    assert not (tmp_path / "cut.dive").exists()
    again = braindive(*command, "-o", "cut.dive", "--resume", folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "Going on after pass" in again.stderr
    assert (tmp_path / "cut.dive").read_bytes() == (tmp_path / "whole.dive").read_bytes()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["cut.dive", "cut.dive.json", "whole.dive", "whole.dive.json"]


def test_a_full_disk_ends_in_one_line_and_leaves_nothing(study, tmp_path):
    def small_files_only():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    command = ("fit", study / "cohort.tsv", "--space", study / "regions.tsv", *FIT)
    result = braindive(*command, "-o", "fit.dive", folder=tmp_path, preexec_fn=small_files_only)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "Error:" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_bad_input_ends_in_one_line_and_no_traceback(tmp_path):
    result = braindive("fit", "nowhere.tsv", "-o", "fit.dive", folder=tmp_path)
    assert result.returncode == 1
    assert result.stderr == (
        "Error: there is no cohort nowhere.tsv: give a cohort.tsv or a packed cohort.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_piped_json_is_nothing_but_json(study, fitted):
    result = braindive("stage", fitted, study / "cohort.tsv", "--json", folder=study)
    stages = json.loads(result.stdout)
    expected = bd.load_model(fitted).stage(
        bd.read_cohort(study / "cohort.tsv", space=study / "regions.tsv")
    )
    assert [row["participant_id"] for row in stages] == expected.index.tolist()
    np.testing.assert_allclose([row["score"] for row in stages], expected["score"], rtol=1e-12)


def test_check_tells_machines_what_it_found(study):
    result = invoke("check", study / "cohort.tsv", "--space", study / "regions.tsv", "--json")
    found = json.loads(result.stdout)
    assert "20 subjects" in found["cohort"]
    assert {"level", "what", "where", "remedy"} == set(found["findings"][0])


def test_fit_summarises_for_machines(study, tmp_path):
    space = study / "regions.tsv"
    arguments = ("--space", space, *FIT, "--spatial", "none", "-o", tmp_path / "f.dive", "--json")
    summary = json.loads(invoke("fit", study / "cohort.tsv", *arguments).stdout)
    assert summary["n_clusters"] == 2
    assert summary["spatial_strength"] == 0
    assert summary["progression_found"] is True
    assert summary["progression_p"] <= 0.01
    assert bd.load_model(tmp_path / "f.dive").bic_ == summary["bic"]


def test_a_fit_says_first_whether_there_is_a_progression(study, tmp_path):
    options = ("--space", study / "regions.tsv", *FIT, "-o", tmp_path / "f.dive")
    first = invoke("fit", study / "cohort.tsv", *options).stdout.splitlines()[0]
    assert first.startswith("A progression was found")


def test_stages_are_printed_as_a_table_without_an_output(study, fitted):
    lines = invoke("stage", fitted, study / "cohort.tsv").stdout.splitlines()
    assert lines[0].split("\t")[:4] == ["participant_id", "speed", "shift", "score"]
    assert len(lines) == 21


def test_a_fit_can_be_repeated_from_the_settings_it_wrote(study, fitted, tmp_path):
    recipe = study / "fit.dive.json"
    invoke("fit", "--settings", recipe, "-o", tmp_path / "again.dive")
    assert (tmp_path / "again.dive").read_bytes() == fitted.read_bytes()


def test_the_command_line_overrules_the_settings_file(study, fitted, tmp_path):
    recipe = study / "fit.dive.json"
    invoke("fit", "--settings", recipe, "-k", 3, "-o", tmp_path / "other.dive")
    assert bd.load_model(tmp_path / "other.dive").n_clusters == 3


@pytest.mark.parametrize("text", ["", "[]", '{"cohort": 3}', '{"cohort": "a", "nonsense": 1}'])
def test_a_broken_settings_file_is_named(tmp_path, text):
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(bd.ParameterError, match=r"settings\.json is not a settings file"):
        fit_settings.read_settings(path)


def test_preprocessing_options_reach_the_model():
    chosen = fit_settings.FitSettings("c", "o", covariates="age, sex", smooth=2)
    preprocessing = chosen.model().preprocessing
    assert preprocessing.covariates == ("age", "sex")
    assert (preprocessing.smooth, preprocessing.standardise) == (2, False)
    assert fit_settings.FitSettings("c", "o").model().preprocessing is None


@pytest.mark.parametrize(("text", "value"), [("auto", "auto"), ("none", None), ("1.5", 1.5)])
def test_spatial_is_auto_none_or_a_number(text, value):
    assert fit_settings.FitSettings("c", "o", spatial=text).model().spatial == value


@pytest.mark.parametrize(("people", "scale"), [("differ", "years"), ("alike", "controls")])
def test_people_and_scale_are_those_of_the_model(people, scale):
    model = fit_settings.FitSettings("c", "o", people=people, scale=scale).model()
    assert (model.people, model.scale) == (people, scale)


@pytest.mark.parametrize(("name", "choices"), [("people", "alike"), ("scale", "controls")])
def test_other_people_and_scales_are_refused(name, choices):
    with pytest.raises(bd.ParameterError, match=f"--{name} is .* or {choices}; got 'other'"):
        fit_settings.FitSettings("c", "o", **{name: "other"}).model()


def test_another_spatial_is_refused():
    with pytest.raises(bd.ParameterError, match="auto, none or a number"):
        fit_settings.FitSettings("c", "o", spatial="strong").model()


def test_resume_without_an_interrupted_fit_is_refused(study, tmp_path):
    space = study / "regions.tsv"
    with pytest.raises(bd.ParameterError, match="no interrupted fit"):
        invoke("fit", study / "cohort.tsv", "--space", space, "-o", tmp_path / "f.dive", "--resume")


def test_a_checkpoint_of_other_settings_is_not_used(study, fitted, tmp_path):
    space = study / "regions.tsv"
    (tmp_path / "f.dive.checkpoint").write_bytes(b"of something else")
    result = invoke("fit", study / "cohort.tsv", "--space", space, *FIT, "-o", tmp_path / "f.dive")
    assert "Going on" not in result.output
    assert (tmp_path / "f.dive").read_bytes() == fitted.read_bytes()


def test_outputs_that_cannot_be_written_are_refused_before_the_fit(study, tmp_path):
    with pytest.raises(bd.ParameterError, match="is a folder"):
        invoke("fit", study / "cohort.tsv", "-o", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(bd.ParameterError, match="is a file"):
        invoke("fit", study / "cohort.tsv", "-o", tmp_path / "f.dive", "--maps", tmp_path / "file")


def test_maps_of_chosen_scores(fitted, tmp_path):
    invoke("maps", fitted, "-o", tmp_path, "--scores", "-1,2")
    columns = pd.read_csv(tmp_path / "maps.tsv", sep="\t").columns
    assert [name for name in columns if "expected" in name] == [
        "expected: score -1",
        "expected: score 2",
    ]
    with pytest.raises(bd.ParameterError, match="numbers with commas"):
        invoke("maps", fitted, "-o", tmp_path, "--scores", "high")


def test_a_file_that_is_no_model_is_refused(study):
    with pytest.raises(bd.ModelFileError, match=r"cohort\.tsv"):
        invoke("stage", study / "cohort.tsv", study / "cohort.tsv")


@pytest.mark.parametrize(
    "command", ["demo", "simulate", "check", "pack", "fit", "stage", "predict", "maps"]
)
def test_help_shows_an_example(command):
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", **os.environ})
    assert f"Example: braindive {command}" in result.output


def test_help_names_a_type_for_options_with_a_value_only():
    result = CliRunner().invoke(app, ["predict", "--help"], env={"COLUMNS": "200", **os.environ})
    assert re.search(r"--overwrite +Replace a file", result.output)
    assert re.search(r"--history +<?int", result.output, re.IGNORECASE)


def test_covariates_of_the_tutorial_are_in_the_study_that_it_simulates(tmp_path):
    small = ("--subjects", 20, "--visits", 2, "--vertices", 30, "--format", "table")
    assert invoke("simulate", tmp_path / "study", *small).exit_code == 0
    covariates = ("--standardise", "--covariates", "age,sex")
    output = ("-o", tmp_path / "fit.dive")
    # A study so small shows nothing.
    with pytest.warns(bd.StagingWarning, match="No progression was found"):
        result = invoke("fit", tmp_path / "study" / "cohort.tsv", *FIT, *covariates, *output)
    assert result.exit_code == 0, result.output
    # What that means is said once, by the warning.
    assert "No progression was found; see the warning." in result.output
    assert "describe noise" not in result.output
    assert bd.load_model(tmp_path / "fit.dive").preprocessing_.effects_.shape[0] == 2
