"""FreeSurfer's subjects folder."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app
from braindive.errors import CohortError


@pytest.fixture
def subjects_dir(tmp_path, save_mgh):
    """Make runs with maps whose numbers tell the run."""

    def make(*runs, measure="thickness", fwhm=0):
        for number, run in enumerate(runs):
            surf = tmp_path / "subjects" / run / "surf"
            surf.mkdir(parents=True)
            for side, n in (("lh", 30), ("rh", 36)):
                path = surf / f"{side}.{measure}.fwhm{fwhm}.fsaverage.mgh"
                save_mgh(path, np.full(n, number))
        return tmp_path / "subjects"

    return make


def visits(*rows, columns=("participant_id", "session_id", "age")):
    return pd.DataFrame(rows, columns=list(columns))


def test_longitudinal_runs_come_before_cross_sectional_ones(subjects_dir, surface):
    folder = subjects_dir("a_1", "a_1.long.a", "a_10.long.a", "b_1", "b")
    table = visits(("a", "1", 60), ("a", "10", 61), ("b", "1", 70))
    found = bd.read_freesurfer_table(folder, table)
    assert found["right"].tolist() == [
        f"{run}/surf/rh.thickness.fwhm0.fsaverage.mgh"
        for run in ("a_1.long.a", "a_10.long.a", "b_1")
    ]
    cohort = bd.read_cohort(found, surface, root=folder)
    assert cohort.values[:, 0].tolist() == [1, 2, 3]


def test_sessions_of_bids_and_participants_without_sessions(subjects_dir, tmp_path):
    folder = subjects_dir("sub-1_ses-2", measure="area", fwhm=10)
    table = tmp_path / "cohort.tsv"
    table.write_text("participant_id\tsession_id\tage\nsub-1\t2\t60\n")
    found = bd.read_freesurfer_table(folder, table, measure="area", fwhm=10)
    assert found["left"].item() == "sub-1_ses-2/surf/lh.area.fwhm10.fsaverage.mgh"
    folder = subjects_dir("bert")
    found = bd.read_freesurfer_table(
        folder, visits(("bert", 60), columns=["participant_id", "age"])
    )
    assert found["left"].item().startswith("bert/surf/lh.thickness")


def test_fsid_and_base_choose_the_run(subjects_dir):
    folder = subjects_dir("x1.long.base1", "x1.long.base2")
    columns = ["participant_id", "fsid", "fsid-base"]
    found = bd.read_freesurfer_table(folder, visits(("a", "x1", "base2"), columns=columns))
    assert found["left"].item().startswith("x1.long.base2/")


def test_every_visit_that_is_not_there_is_told_at_once(subjects_dir):
    folder = subjects_dir("a_1", "b_1.long.b", "b_1.long.other", "c_1")
    (folder / "c_1" / "surf" / "lh.thickness.fwhm0.fsaverage.mgh").unlink()
    table = visits(("a", "1", 60), ("a", "2", 60), ("b", "1", 60), ("c", "1", 60), ("../x", "1", 6))
    with pytest.raises(CohortError) as caught:
        bd.read_freesurfer_table(folder, table)
    message = str(caught.value)
    assert "row 2 (a): the subjects folder has no run a_2 or a_ses-2" in message
    assert "row 3 (b): b_1 has several longitudinal runs, b_1.long.b, b_1.long.other" in message
    assert "row 4 (c), file c_1/surf/lh.thickness.fwhm0.fsaverage.mgh: the file does not" in message
    assert "row 5 (../x): '../x_1' leads out of the subjects folder" in message
    assert "row 1 (a)" not in message


def test_missing_subjects_folder_is_named(tmp_path):
    with pytest.raises(CohortError, match="there is no subjects folder"):
        bd.read_freesurfer_table(tmp_path / "none", visits(("a", "1", 60)))


def test_the_built_in_template_needs_no_folder_of_its_own(tmp_path, save_mgh, rng):
    """`pack`, `check` and `fit` take the maps of a subjects folder without fsaverage5 in it."""
    subjects = tmp_path / "subjects"
    for run in ("a_1", "a_2", "b_1"):
        surf = subjects / run / "surf"
        surf.mkdir(parents=True)
        for side in ("lh", "rh"):
            save_mgh(surf / f"{side}.thickness.fwhm0.fsaverage5.mgh", rng.normal(size=10242))
    table = tmp_path / "visits.tsv"
    table.write_text("participant_id\tsession_id\tage\na\t1\t60\na\t2\t61\nb\t1\t70\n")
    options = ["--freesurfer", str(subjects), "--target", "fsaverage5"]
    packed = tmp_path / "study.zarr"
    result = CliRunner().invoke(app, ["pack", str(table), *options, "-o", str(packed)])
    assert result.exit_code == 0, result.output or result.exception
    cohort = bd.open_packed(packed)
    assert (cohort.n_visits, cohort.n_vertices, cohort.space.name) == (3, 20484, "fsaverage5")
