"""The commands select, compare and groups."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.evidence import parse_numbers
from braindive.cli.main import app


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    simulation = bd.simulate_cohort(
        n_subjects=24,
        n_vertices=20,
        noise=0.4,
        cognition=True,
        group_effect=1.5,
        control_share=0.4,
        random_state=0,
    )
    bd.write_cohort(simulation.cohort, folder, "table")
    bd.DIVE(2, n_init=1, tol=1e-2, random_state=0).fit(simulation.cohort).save(folder / "fit.dive")
    pd.DataFrame({"region": np.repeat(["a", "b"], 10)}).to_csv(folder / "atlas.csv", index=False)
    return folder


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_groups_writes_table_and_figure(study, tmp_path):
    result = run("groups", study / "fit.dive", "--by", "apoe4", "-o", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)[0]["parameter"] == "shift"
    written = pd.read_csv(tmp_path / "groups.tsv", sep="\t", index_col=0)
    assert written.loc["shift", "p_value"] < 0.05
    assert (tmp_path / "groups.png").stat().st_size > 1000


def test_compare_writes_folds_and_summary(study, tmp_path):
    result = run(
        *("compare", study / "cohort.tsv", "--atlas", study / "atlas.csv", "--scores", "MMSE"),
        *("--folds", 2, "-k", 2, "-j", 1, "-o", tmp_path),
    )
    assert result.exit_code == 0, result.output
    assert "ROI-based" in result.stdout
    folds = pd.read_csv(tmp_path / "folds.tsv", sep="\t")
    assert len(folds) == 4 * 2 * 2  # models, folds, measures
    assert (tmp_path / "comparison.png").exists()


def test_select_recommends(study, tmp_path):
    result = run(
        *("select", study / "cohort.tsv", "-k", "2,3", "--splits", 0, "--resamples", 1),
        *("-j", 1, "-o", tmp_path),
    )
    assert result.exit_code == 0, result.output
    table = pd.read_csv(tmp_path / "selection.tsv", sep="\t", index_col=0)
    assert table.index.tolist() == [2, 3]
    number, reason = (tmp_path / "recommendation.txt").read_text().splitlines()
    assert number in ("2", "3")
    assert reason in result.stdout


def test_an_unknown_column_is_an_error_and_leaves_nothing_behind(study, tmp_path):
    result = run("groups", study / "fit.dive", "--by", "nothing", "-o", tmp_path)
    assert isinstance(result.exception, bd.ParameterError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("text", "numbers"), [("2-4", [2, 3, 4]), ("2,5", [2, 5]), ("3", [3])])
def test_numbers_are_read(text, numbers):
    assert parse_numbers(text) == numbers


@pytest.mark.parametrize("text", ["x", "", "4-2"])
def test_what_is_not_a_number_is_refused(text):
    with pytest.raises(bd.ParameterError, match="-k"):
        parse_numbers(text)
