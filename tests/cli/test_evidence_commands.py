"""The commands select, compare and groups."""

import json
import re

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
        midpoints=(-10, 10),
        midpoint_variation=1.0,
        noise=0.05,
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


@pytest.fixture(scope="module")
def packed(study):
    return bd.pack_cohort(study / "cohort.tsv", study / "study.zarr")


def one_line(result):
    """What `braindive` prints after "Error:" for this result."""
    assert isinstance(result.exception, bd.BraindiveError), result.output
    message = str(result.exception)
    assert "\n" not in message
    return message


def test_groups_writes_table_and_figure(study, tmp_path):
    result = run("groups", study / "fit.dive", "--by", "apoe4", "-o", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)[0]["parameter"] == "shift"
    written = pd.read_csv(tmp_path / "groups.tsv", sep="\t", index_col=0)
    assert written.loc["shift", "p_value"] < 0.05
    assert (tmp_path / "groups.png").stat().st_size > 1000


def test_groups_are_compared_in_sentences_with_units_and_what_is_adjusted_for(study, tmp_path):
    result = run("groups", study / "fit.dive", "--by", "apoe4", "-o", tmp_path)
    first, second, adjusted = result.stdout.splitlines()[:3]
    assert re.match(
        r"Score at the first visit, apoe4 1 against 0: \d+\.\d years (ahead|behind) \(95 %", first
    )
    assert re.match(r"Speed, apoe4 1 against 0: \d+ % (faster|slower) \(95 %", second)
    assert "controls and patients together" in adjusted
    assert "--shift-on apoe4" in adjusted
    # Years since the first visit are the times here, so that the shift is the same number.
    assert "time 0" not in result.stdout


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
    overlap = pd.read_csv(tmp_path / "overlap.tsv", sep="\t")
    assert overlap["cluster"].tolist() == [1, 2]
    assert overlap["dice"].between(0, 1).all()
    assert "Dice overlap of DIVE's clusters across folds: " in result.stdout


def test_select_recommends(study, tmp_path):
    result = run(
        *("select", study / "cohort.tsv", "-k", "2,3", "--splits", 0, "--resamples", 1),
        *("-j", 1, "-o", tmp_path),
    )
    assert result.exit_code == 0, result.output
    table = pd.read_csv(tmp_path / "selection.tsv", sep="\t", index_col=0)
    assert table.index.tolist() == [2, 3]
    number, reason = (tmp_path / "recommendation.txt").read_text().splitlines()
    # 1 is a possible answer on a study this small.
    recommended = bd.recommend_n_clusters(table)
    assert (number, reason) == (str(recommended.n_clusters), recommended.reason)
    assert number in ("1", "2", "3")
    assert reason in result.stdout


def test_select_can_answer_none(tmp_path):
    random = np.random.default_rng(0)
    noise = bd.Cohort(
        random.standard_normal((80, 20)),
        subjects=np.repeat(np.arange(20), 4),
        times=np.tile(np.arange(4.0), 20),
    )
    table = bd.write_cohort(noise, tmp_path / "noise", "table")
    options = ("-k", "1", "--splits", 0, "--resamples", 0, "-j", 1, "-o", tmp_path / "out")
    result = run("select", table, *options)
    assert result.exit_code == 0, result.output
    number, reason = (tmp_path / "out" / "recommendation.txt").read_text().splitlines()
    assert number == "none"
    assert reason.startswith("None: no progression was found")
    assert reason in result.stdout
    assert (tmp_path / "out" / "selection.png").stat().st_size > 1000


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


def test_a_packed_cohort_gives_the_tables_of_its_files(study, packed, tmp_path):
    compare = ("--scores", "MMSE", "--folds", 2, "-k", 2, "-j", 1)
    select = ("-k", "2", "--splits", 2, "--resamples", 0, "-j", 1)
    for name, cohort in (("files", study / "cohort.tsv"), ("packed", packed)):
        assert run("compare", cohort, *compare, "-o", tmp_path / name).exit_code == 0
        assert run("select", cohort, *select, "-o", tmp_path / name).exit_code == 0
    for table in ("folds.tsv", "summary.tsv", "selection.tsv"):
        files, from_pack = (
            pd.read_csv(tmp_path / name / table, sep="\t") for name in ("files", "packed")
        )
        pd.testing.assert_frame_equal(files, from_pack, rtol=1e-4)


def test_covariates_of_a_fit_are_said_and_kept_in_its_settings(study, tmp_path):
    on = ("--shift-on", "apoe4", "--speed-on", "apoe4")
    result = run("fit", study / "cohort.tsv", "-k", 2, "-o", tmp_path / "on.dive", *on)
    assert result.exit_code == 0, result.output
    assert re.search(
        r"apoe4, 1 against 0: .* years (ahead|behind) .* % (faster|slower)", result.output
    )
    settings = json.loads((tmp_path / "on.dive.json").read_text())
    assert (settings["shift_on"], settings["speed_on"]) == ("apoe4", "apoe4")
    effects = bd.load_model(tmp_path / "on.dive").effects_
    assert list(effects["parameter"]) == ["shift", "speed"]


def test_a_covariate_that_is_no_column_ends_in_one_line(study, tmp_path):
    path = tmp_path / "on.dive"
    result = run("fit", study / "cohort.tsv", "-k", 2, "-o", path, "--shift-on", "gene")
    assert "shift_on: there is no column 'gene'" in one_line(result)
    assert not path.exists()


def test_two_cohorts_are_compared_in_tables_a_figure_and_sentences(study, tmp_path):
    options = ("--atlas", study / "atlas.csv", "--permutations", 9, "-o", tmp_path)
    result = run("cohorts", study / "cohort.tsv", study / "cohort.tsv", *options)
    assert result.exit_code == 0, result.output
    assert "the same order with probability" in result.stdout
    tests = pd.read_csv(tmp_path / "tests.tsv", sep="\t", index_col=0)
    # A cohort is like itself.
    assert (tests["statistic"] < 1e-6).all()
    for name in ("areas.tsv", "overlap.tsv", "replication.tsv", "cohorts.png"):
        assert (tmp_path / name).stat().st_size > 50


def test_groups_of_a_fit_of_a_packed_cohort(packed, tmp_path):
    fit = run("fit", packed, "-k", 2, "-o", tmp_path / "fit.dive")
    assert fit.exit_code == 0, fit.output
    result = run("groups", tmp_path / "fit.dive", "--by", "apoe4", "-o", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    assert [row["n_1"] + row["n_0"] for row in json.loads(result.stdout)] == [24] * 3


@pytest.fixture(scope="module")
def spoilt(study):
    """The table with columns that cannot be used, and with what each is called."""
    table = pd.read_csv(study / "cohort.tsv", sep="\t")
    first = table["participant_id"] == table["participant_id"].iloc[0]
    table["constant"] = 3
    table["words"] = "good"
    table["one_word"] = np.where(table.index == 5, "low", "4")
    table["nothing"] = np.nan
    table["alone"] = np.where(first, "B", "A")
    table["third"] = np.where(first, "C", np.where(table["apoe4"] == 1, "B", "A"))
    path = study / "spoilt.tsv"
    table.to_csv(path, sep="\t", index=False)
    return path


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("absent", r"no column 'absent'.*its columns are.*MMSE"),
        ("constant", "'constant' is constant"),
        ("words", r"'words' holds 'good' for subject 'sub-00' at 0: 96 of its 96 values"),
        ("one_word", r"'one_word' holds 'low' for subject 'sub-01' at 1: 1 of its 96 values"),
        ("nothing", "'nothing' is empty"),
    ],
)
def test_a_score_that_cannot_be_used_is_one_clear_line(spoilt, tmp_path, column, message):
    result = run("compare", spoilt, "--scores", f"MMSE,{column}", "-o", tmp_path / "out")
    assert re.search(message, one_line(result))
    assert not (tmp_path / "out").exists()


def test_folds_with_too_few_subjects_are_one_clear_line(study, tmp_path):
    result = run("compare", study / "cohort.tsv", "--scores", "MMSE", "-o", tmp_path)
    assert one_line(result) == (
        "24 subjects are too few for 10 folds of at least 3; use at most 8 folds, or more subjects."
    )


@pytest.mark.filterwarnings("ignore:in . of . fits.*which way:braindive.DataWarning")
def test_folds_of_one_class_are_reported_with_counts(study, tmp_path):
    table = pd.read_csv(study / "cohort.tsv", sep="\t")
    rare = table["participant_id"] == table["participant_id"].iloc[-1]
    table["diagnosis"] = np.where(rare, "rare", "usual")
    table.to_csv(study / "one_class.tsv", sep="\t", index=False)
    with pytest.warns(bd.DataWarning, match=r"fewer subjects than the 2 folds.*'rare' \(1\)"):
        result = run(
            *("compare", study / "one_class.tsv", "--scores", "MMSE", "--folds", 2, "-k", 2),
            *("-j", 1, "-o", tmp_path),
        )
    assert result.exit_code == 0, result.output


def test_controls_that_all_fall_into_one_fold_are_one_clear_line(study, tmp_path):
    table = pd.read_csv(study / "cohort.tsv", sep="\t")
    alone = table["participant_id"] == table["participant_id"].iloc[0]
    table["diagnosis"] = np.where(alone, "CN", "patient")
    table.to_csv(study / "one_control.tsv", sep="\t", index=False)
    with pytest.warns(bd.DataWarning, match="'CN'"):
        result = run(
            "compare", study / "one_control.tsv", "--scores", "MMSE", "--folds", 3, "-o", tmp_path
        )
    assert re.search("all 1 control subjects fall into fold", one_line(result))


def test_subjects_with_one_scan_are_counted(study, tmp_path):
    table = pd.read_csv(study / "cohort.tsv", sep="\t")
    some = table["participant_id"] < "sub-05"
    table[~some | (table["years"] == 0)].to_csv(study / "one_scan.tsv", sep="\t", index=False)
    with pytest.warns(bd.DataWarning, match="5 of 24 subjects have at most 2 visits"):
        result = run(
            *("compare", study / "one_scan.tsv", "--scores", "MMSE", "--folds", 2, "-k", 2),
            *("-j", 1, "-o", tmp_path),
        )
    assert result.exit_code == 0, result.output
    folds = pd.read_csv(tmp_path / "folds.tsv", sep="\t").query("model == 'DIVE'")
    assert folds.query("measure == 'RMSE'")["n"].sum() == 2 * 19
    assert folds.query("measure == 'MMSE'")["n"].sum() > 2 * 19


def test_a_group_of_one_is_one_clear_line_or_left_out(spoilt, tmp_path):
    fit = run("fit", spoilt, "-k", 2, "-o", tmp_path / "fit.dive")
    assert fit.exit_code == 0, fit.output
    refused = run("groups", tmp_path / "fit.dive", "--by", "alone", "-o", tmp_path)
    assert "'A': 23, 'B': 1" in one_line(refused)
    with pytest.warns(bd.DataWarning) as caught:
        result = run("groups", tmp_path / "fit.dive", "--by", "third", "-o", tmp_path)
    assert result.exit_code == 0, result.output
    assert [str(warning.message) for warning in caught] == [
        "subjects left out: 1 alone in group 'C'."
    ]


def test_an_atlas_of_another_space_is_one_clear_line(packed, study, tmp_path):
    pd.DataFrame({"region": ["a", "b", "c"]}).to_csv(study / "other.csv", index=False)
    result = run("compare", packed, "--atlas", study / "other.csv", "-o", tmp_path)
    assert one_line(result).startswith(
        "the atlas covers 3 vertices (3 in other.csv), but the cohort has 20;"
    )
