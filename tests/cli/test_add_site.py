"""`braindive add-site`: a model that knows one more site, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A model that has not seen site 1, one without sites, and tables of people at both."""
    folder = tmp_path_factory.mktemp("study")
    cohort = bd.simulate_cohort(
        50, n_vertices=30, midpoints=(-6, 6), noise=0.3, control_share=0.4, sites=3, random_state=0
    ).cohort
    is_new = (cohort.table["site"] == "site 1").to_numpy()
    settings = {"n_init": 1, "personal": False, "random_state": 0}
    known = cohort.select(visits=~is_new)
    bd.DIVE(2, sites="site", **settings).fit(known).save(folder / "fit.dive")
    bd.DIVE(2, people="alike", **settings).fit(known).save(folder / "blind.dive")
    bd.write_cohort(cohort.select(visits=is_new), folder / "new", "table")
    bd.write_cohort(known, folder / "known", "table")
    return folder


def test_the_model_that_is_written_knows_one_more_site(study, tmp_path):
    before = (study / "fit.dive").read_bytes()
    result = run(
        "add-site", study / "fit.dive", study / "new" / "cohort.tsv", "-o", tmp_path / "wider.dive"
    )
    assert result.exit_code == 0, result.output
    assert "3 sites; new in 'site': site 1" in result.stderr.replace("\n", " ")
    assert (study / "fit.dive").read_bytes() == before
    wider = bd.load_model(tmp_path / "wider.dive")
    people = bd.read_cohort(study / "new" / "cohort.tsv")
    expected = bd.load_model(study / "fit.dive").add_site(people)
    np.testing.assert_array_equal(wider.sites_.offsets, expected.sites_.offsets)
    told = run(
        *("add-site", study / "fit.dive", study / "new" / "cohort.tsv"),
        *("-o", tmp_path / "wider.dive", "--json"),
    )
    (row,) = json.loads(told.stdout)
    assert row["site"] == "site 1"
    assert row["offset"] == pytest.approx(bd.site_table(expected)["offset"]["site 1"])
    staged = run("stage", tmp_path / "wider.dive", study / "new" / "cohort.tsv")
    assert staged.exit_code == 0, staged.output


@pytest.mark.parametrize(
    ("model", "table", "output", "message"),
    [
        (
            "blind.dive",
            "new/cohort.tsv",
            "out.dive",
            "blind.dive knows no sites; fit it with --sit",
        ),
        ("fit.dive", "known/cohort.tsv", "out.dive", "knows every site of this cohort already"),
        ("fit.dive", "new/cohort.tsv", "fit.dive", "is an input of this command"),
        ("fit.dive", "new/cohort.tsv", "notes.txt", "was not written by braindive"),
        ("new/cohort.tsv", "fit.dive", "out.dive", "are swapped"),
        ("fit.dive", "new/without.tsv", "out.dive", "no column 'site'"),
        ("fit.dive", "new/cohort.tsv", "-", "-o needs the name of a file"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(study, model, table, output, message):
    (study / "notes.txt").write_text("mine")
    visits = pd.read_csv(study / "new" / "cohort.tsv", sep="\t")
    visits.drop(columns="site").to_csv(study / "new" / "without.tsv", sep="\t", index=False)
    held = {path: path.read_bytes() for path in study.rglob("*") if path.is_file()}
    to = output if output == "-" else study / output
    result = run("add-site", study / model, study / table, "-o", to)
    assert isinstance(result.exception, bd.BraindiveError)
    assert message in str(result.exception)
    assert {path: path.read_bytes() for path in study.rglob("*") if path.is_file()} == held


def test_an_unknown_site_names_the_command(study):
    result = run("stage", study / "fit.dive", study / "new" / "cohort.tsv")
    assert "braindive add-site" in str(result.exception)
