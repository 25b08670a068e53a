"""`braindive change`: the table of `bd.change`, from the files of a study."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Thirty people with four visits, of whom the first one was seen once."""
    folder = tmp_path_factory.mktemp("change")
    drawn = bd.simulate_cohort(30, n_visits=4, n_vertices=30, noise=0.2, random_state=0).cohort
    table = pd.DataFrame(drawn.values, columns=[f"vertex_{i}" for i in range(30)])
    table.insert(0, "participant_id", [f"s{i:02d}" for i in drawn.subject_index])
    table.insert(1, "years", drawn.times)
    table["diagnosis"] = "AD"
    table = table[(drawn.subject_index > 0) | (drawn.visit_numbers == 0)]
    table.to_csv(folder / "visits.csv", index=False)
    cohort = bd.read_cohort(folder / "visits.csv")
    bd.DIVE(2, personal=False, random_state=0).fit(cohort).save(folder / "fit.dive")
    return folder


def test_the_table_is_that_of_python(study, tmp_path):
    result = invoke(
        "change", study / "fit.dive", study / "visits.csv", "-o", tmp_path / "changes.tsv"
    )
    assert result.exit_code == 0, result.output
    assert "1 of 30 subjects were seen once" in result.output
    found = pd.read_csv(tmp_path / "changes.tsv", sep="\t", index_col="participant_id")
    cohort = bd.read_cohort(study / "visits.csv")
    expected = bd.change(bd.load_model(study / "fit.dive"), cohort)
    np.testing.assert_allclose(found["change"], expected["change"], rtol=1e-4)
    np.testing.assert_allclose(found["p_cluster_2"], expected["p_cluster_2"], rtol=1e-3)
    assert found["diagnosis"].eq("AD").all()
    again = invoke(
        "change", study / "fit.dive", study / "visits.csv", "-o", tmp_path / "changes.tsv"
    )
    assert again.exit_code != 0


def test_no_change_is_null_for_machines(study):
    result = invoke("change", study / "fit.dive", study / "visits.csv", "--json")
    rows = json.loads(result.stdout, parse_constant=lambda word: pytest.fail(word))
    assert rows[0]["change"] is None
    assert rows[1]["change"] is not None
