"""A table that a fitted model is given is read as the table of its fit was."""

import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app


def invoke(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A table with ages and dates, and a model whose times are the dates."""
    folder = tmp_path_factory.mktemp("study")
    cohort = bd.simulate_cohort(12, 3, n_vertices=20, noise=0.1, random_state=0).cohort
    table = pd.DataFrame(cohort.values, columns=[f"vertex_{i}" for i in range(20)])
    days = pd.to_timedelta((cohort.times * 365.25).round(), unit="D")
    table.insert(0, "Age", (cohort.subject_index + 60 + cohort.times).round(2))
    table.insert(0, "Scan date", (pd.Timestamp("2010-01-01") + days).strftime("%Y-%m-%d"))
    table.insert(0, "Subject ID", cohort.subjects)
    table.to_csv(folder / "visits.csv", index=False)
    fast = ("-k", 2, "--n-init", 1, "--people", "alike", "--max-iter", 20)
    out = ("-o", folder / "dates.dive")
    assert not invoke("fit", folder / "visits.csv", "--time", "Scan date", *fast, *out).exit_code
    return folder


def test_times_are_those_of_the_column_of_the_fit(study):
    result = invoke("stage", study / "dates.dive", study / "visits.csv", "-o", study / "s.tsv")
    assert "Times are read from 'Scan date', as in the fit" in result.stderr
    model = bd.load_model(study / "dates.dive")
    stages = pd.read_csv(study / "s.tsv", sep="\t")
    assert stages["shift"].to_numpy() == pytest.approx(model.shifts_, abs=1e-3)


def test_a_table_without_such_times_is_noted(study):
    table = pd.read_csv(study / "visits.csv").drop(columns="Scan date")
    table.to_csv(study / "ages.csv", index=False)
    result = invoke("stage", study / "dates.dive", study / "ages.csv")
    assert "the fit are those of 'Scan date', and ages.csv has no such column" in result.stderr


def test_the_option_decides(study):
    result = invoke("stage", study / "dates.dive", study / "visits.csv", "--time", "Age")
    assert "as in the fit" not in result.stderr
