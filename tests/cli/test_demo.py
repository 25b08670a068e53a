"""The demo on the command line."""

import re

import pandas as pd
import pytest
from typer.testing import CliRunner

from braindive.cli.main import app


@pytest.mark.slow
def test_demo_recovers_the_truth_and_writes_its_outputs(tmp_path):
    result = CliRunner().invoke(app, ["demo", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output

    def printed(text):
        return float(re.search(rf"{text} +([\d.]+)", result.output)[1])

    assert printed("agreement of clusters with the truth") > 0.9
    assert printed("correlation of scores with the truth") > 0.95
    subjects = pd.read_csv(tmp_path / "out" / "subjects.tsv", sep="\t")
    assert len(subjects) == 100
    assert {"speed", "shift", "score", "true_speed", "true_shift"} <= set(subjects.columns)
    curves = pd.read_csv(tmp_path / "out" / "trajectories.tsv", sep="\t")
    assert len(curves) == 4
    assert curves["vertices_found"].sum() == 19_294
    clusters = pd.read_csv(tmp_path / "out" / "clusters.tsv", sep="\t")
    assert len(clusters) == 19_294  # fsaverage5 without its medial wall
    assert (clusters["true_cluster"] == clusters["cluster"]).mean() > 0.9
    assert "Now open the report:" in result.output
    assert (tmp_path / "out" / "report.html").stat().st_size < 10_000_000
