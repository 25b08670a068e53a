"""Arguments in the wrong place, or of the wrong kind, are told as such."""

import os

import numpy as np
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app

TIMES = {"subjects": list("aabb"), "times": [0, 1, 0, 1]}


def run(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table, a packed cohort and a model of the same study."""
    folder = tmp_path_factory.mktemp("mistaken")
    cohort = bd.simulate_cohort(12, 2, 20, noise=0.02, control_share=0.4, random_state=0).cohort
    table = bd.write_cohort(cohort, folder, "table")
    bd.pack_cohort(table, folder / "study.zarr")
    bd.DIVE(2, n_init=1, people="alike", personal=False, random_state=0).fit(cohort).save(
        folder / "fit.dive"
    )
    return folder


def test_a_cohort_takes_the_name_of_a_built_in_space():
    values = np.random.default_rng(0).normal(size=(4, 10242))
    named = bd.Cohort(values, space="fsaverage5-left", **TIMES)
    assert named.space is bd.load_space("fsaverage5-left")


def test_a_cohort_refuses_other_names_and_says_how_to_load_a_space():
    with pytest.raises(bd.CohortError, match=r"bd\.load_space\('mask\.nii'\)"):
        bd.Cohort(np.eye(4), space="mask.nii", **TIMES)
    with pytest.raises(bd.CohortError, match=r"space must be .*; got int"):
        bd.Cohort(np.eye(4), space=5, **TIMES)
    with pytest.raises(bd.CohortError, match=r"4 vertices .* 'fsaverage5' has 20484"):
        bd.Cohort(np.eye(4), space="fsaverage5", **TIMES)


def test_packing_or_reading_a_cohort_says_what_to_give_instead(tmp_path):
    cohort = bd.Cohort(np.eye(4), **TIMES)
    with pytest.raises(bd.ParameterError, match=r"write_cohort\(cohort, folder\)"):
        bd.pack_cohort(cohort, tmp_path / "study.zarr")
    with pytest.raises(bd.ParameterError, match="is a Cohort already"):
        bd.read_cohort(cohort)
    with pytest.raises(bd.ParameterError, match="a table is a file or a DataFrame; got list"):
        bd.read_cohort([1, 2])


@pytest.mark.parametrize("cohort", ["study.zarr", "cohort.tsv"])
@pytest.mark.parametrize("command", ["stage", "predict"])
def test_a_cohort_in_the_place_of_the_model_is_noticed(files, tmp_path, command, cohort):
    words = (command, files / cohort, files / "fit.dive", "-o", tmp_path / "out.tsv")
    with pytest.raises(bd.ParameterError, match=f"{command} FIT COHORT.*swapped"):
        run(*words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("report",), ("maps",), ("groups", "--by", "diagnosis")])
def test_a_packed_cohort_is_no_model(files, tmp_path, words):
    command, *options = words
    with pytest.raises(bd.ModelFileError, match=r"study\.zarr is a folder, not the file of a"):
        run(command, files / "study.zarr", *options, "-o", tmp_path / "out")


@pytest.mark.parametrize("command", ["check", "fit", "select"])
def test_a_model_in_the_place_of_a_cohort_is_noticed(files, tmp_path, command):
    output = () if command == "check" else ("-o", tmp_path / "out")
    with pytest.raises(bd.ParameterError, match=r"fit\.dive is a fitted model, not a cohort"):
        run(command, files / "fit.dive", *output)


def test_a_name_that_is_nearly_right_is_suggested(files):
    with pytest.raises(bd.ParameterError, match=r"did you mean .*cohort\.tsv\?"):
        run("check", files / "cohrt.tsv")
    with pytest.raises(bd.ModelFileError, match=r"did you mean .*fit\.dive\?"):
        run("report", files / "fti.dive")


def test_a_demo_into_a_folder_that_cannot_be_made_ends_at_once(tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("the simulation was begun")

    monkeypatch.setattr(bd, "simulate_cohort", never)
    (tmp_path / "file").touch()
    with pytest.raises(bd.ParameterError, match="is a file"):
        run("demo", tmp_path / "file")
    with pytest.raises(bd.ParameterError, match="Not a directory"):
        run("demo", tmp_path / "file" / "demo")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.getuid() != 0:  # who may write everywhere
        with pytest.raises(bd.ParameterError, match="Permission denied"):
            run("demo", closed / "demo")


def test_a_folder_with_a_table_in_it_is_told_from_a_packed_cohort(files):
    with pytest.raises(bd.ParameterError, match=r"give its table: .*cohort\.tsv"):
        run("check", files)
