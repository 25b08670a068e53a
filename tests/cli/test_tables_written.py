"""Tables that commands write are what their names say."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    simulation = bd.simulate_cohort(
        n_subjects=12, n_visits=2, n_vertices=20, noise=0.02, control_share=0.4, random_state=0
    )
    table = bd.write_cohort(simulation.cohort, folder, "table")
    model = bd.DIVE(2, n_init=1, people="alike", personal=False, random_state=0)
    model.fit(bd.read_cohort(table)).save(folder / "fit.dive")
    return folder


def stage(study, output, *more):
    words = ["stage", study / "fit.dive", study / "cohort.tsv", "-o", output, *more]
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("stages.tsv", lambda path: pd.read_csv(path, sep="\t")),
        ("stages.txt", lambda path: pd.read_csv(path, sep="\t")),
        ("stages.csv", pd.read_csv),
        ("STAGES.CSV", pd.read_csv),
        ("stages.xlsx", pd.read_excel),
    ],
)
def test_the_ending_decides_how_a_table_is_written(study, tmp_path, name, read):
    stage(study, tmp_path / name)
    stages = read(tmp_path / name)
    assert stages["participant_id"].tolist() == [f"sub-{i:02d}" for i in range(12)]
    assert stages["score"].dtype == float


@pytest.mark.parametrize("name", ["stages.xls", "stages.pdf", "stages"])
def test_another_ending_is_refused_before_any_work(study, tmp_path, name):
    with pytest.raises(bd.ParameterError, match=r"\.tsv, \.csv or \.xlsx"):
        stage(study, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_tables_beside_maps_have_short_numbers_and_the_diagnosis(study, tmp_path):
    model = bd.load_model(study / "fit.dive")
    bd.write_maps(model, tmp_path)
    subjects = pd.read_csv(tmp_path / "subjects.tsv", sep="\t", dtype=str)
    cohort = bd.read_cohort(study / "cohort.tsv")
    first = cohort.table["diagnosis"][cohort.visit_numbers == 0]
    assert subjects["diagnosis"].tolist() == first.tolist()
    assert max(len(text.strip("-0").replace(".", "")) for text in subjects["score"]) <= 6
    np.testing.assert_allclose(subjects["speed"].astype(float), model.speeds_, rtol=1e-4)
