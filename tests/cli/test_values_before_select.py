"""`select` does to the values what `fit` does with the same options."""

import json

import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app


@pytest.fixture
def asked(monkeypatch):
    """The models that a command asks to choose the number of clusters for."""
    found = []

    def note(data, numbers, *, model, **options):
        found.append(model)
        raise bd.CohortError("enough")

    monkeypatch.setattr(bd, "select_n_clusters", note)
    return found


@pytest.fixture
def study(tmp_path):
    cohort = bd.simulate_cohort(6, 2, n_vertices=5, control_share=0.5, random_state=0).cohort
    return bd.write_cohort(cohort, tmp_path / "study", "table")


def select(study, *options):
    arguments = ["select", str(study), "-o", str(study.parent / "out"), *map(str, options)]
    result = CliRunner().invoke(app, arguments)
    assert str(result.exception) == "enough", result.output


def test_the_options_of_fit_are_there(study, asked):
    select(study, "--standardise", "--drop-zeros", "--covariates", "age,sex", "--seed", 3)
    before = asked[0].preprocessing
    assert (before.standardise, before.drop_zeros) == (True, True)
    assert before.covariates == ("age", "sex")
    assert asked[0].random_state == 3


def test_without_options_nothing_is_done(study, asked):
    select(study)
    assert asked == [None]


def test_options_come_before_a_settings_file(study, asked):
    file = study.parent / "fit.json"
    content = {"cohort": "x", "output": "y", "standardise": True, "smooth": 2, "people": "alike"}
    file.write_text(json.dumps(content))
    select(study, "--settings", file, "--smooth", 1)
    before = asked[0].preprocessing
    assert (before.standardise, before.smooth) == (True, 1)
    assert asked[0].people == "alike"
