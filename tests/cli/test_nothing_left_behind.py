"""A command that fails leaves no folder that it made for its output."""

import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app


@pytest.fixture
def table(tmp_path):
    cohort = bd.simulate_cohort(6, 2, n_vertices=5, control_share=0.5, random_state=0).cohort
    return bd.write_cohort(cohort, tmp_path / "study", "table")


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "{table}", "--covariates", "nothing", "-o", "{folder}/mistyped/a/b.dive"),
        ("fit", "{table}", "-k", "99", "--maps", "{folder}/maps", "-o", "{folder}/fit.dive"),
        ("select", "{table}", "-k", "50-51", "-o", "{folder}/deep/selection"),
        ("maps", "{table}", "-o", "{folder}/maps"),
        ("groups", "{folder}/absent.dive", "--by", "sex", "-o", "{folder}/groups"),
    ],
)
def test_folders_are_removed_with_their_parents(tmp_path, table, arguments):
    folder = tmp_path / "out"
    folder.mkdir()
    given = [each.format(table=table, folder=folder) for each in arguments]
    result = CliRunner().invoke(app, given)
    assert isinstance(result.exception, bd.BraindiveError), result.output
    assert not list(folder.iterdir())


def test_what_was_there_before_stays(tmp_path, table):
    (tmp_path / "empty").mkdir()
    CliRunner().invoke(app, ["maps", str(table), "-o", str(tmp_path / "empty")])
    assert (tmp_path / "empty").is_dir()


def test_what_was_there_stays_by_whichever_way_it_is_named(tmp_path, table):
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(app, ["maps", str(table), "-o", str(tmp_path / "new/../empty")])
    assert isinstance(result.exception, bd.BraindiveError), result.output
    assert [each.name for each in tmp_path.iterdir() if each.name != "study"] == ["empty"]


def test_a_folder_in_which_something_was_written_stays(tmp_path, table, monkeypatch):
    def write_and_fail(model, folder, **options):
        pd.DataFrame().to_csv(folder / "half.csv")
        raise bd.CohortError("it failed")

    monkeypatch.setattr(bd, "load_model", lambda path: None)
    monkeypatch.setattr(bd, "write_maps", write_and_fail)
    CliRunner().invoke(app, ["maps", str(table), "-o", str(tmp_path / "maps")])
    assert (tmp_path / "maps" / "half.csv").exists()
