"""Both hemispheres are read, whether the user names the space or not."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app
from braindive.errors import CohortError


@pytest.fixture
def write_study(tmp_path, save_mgh, rng):
    """Two people, two visits each, one map for each hemisphere."""

    def write(n_left, n_right):
        rows = []
        for person in ("a", "b"):
            for visit in (1, 2):
                row = {"participant_id": person, "years": visit}
                for column, prefix, n in (("left", "lh", n_left), ("right", "rh", n_right)):
                    row[column] = f"{prefix}.{person}{visit}.mgh"
                    save_mgh(tmp_path / row[column], rng.normal(size=n))
                rows.append(row)
        pd.DataFrame(rows).to_csv(tmp_path / "cohort.tsv", sep="\t", index=False)
        return tmp_path / "cohort.tsv"

    return write


def test_the_number_of_vertices_tells_fsaverage5(write_study):
    path = write_study(10242, 10242)
    inferred, given = bd.read_cohort(path), bd.read_cohort(path, space="fsaverage5")
    assert inferred.n_vertices == 20484
    assert inferred.space == bd.load_space("fsaverage5")
    np.testing.assert_array_equal(inferred.values, given.values)


def test_one_file_of_another_size_does_not_hide_the_space(write_study, save_mgh):
    path = write_study(10242, 10242)
    save_mgh(path.parent / "lh.a1.mgh", np.zeros(2562))
    with pytest.raises(CohortError, match=r"row 1 \(a\).*2562 values \(fsaverage4\)") as caught:
        bd.read_cohort(path)
    assert "1 problem" in str(caught.value)


@pytest.mark.parametrize("sizes", [(40962, 40962), (30, 36), (10242, 40962)])
def test_other_meshes_have_to_be_named(write_study, sizes):
    message = r"left .*{} .*right .*{}.* give .*space".format(*sizes)
    with pytest.raises(CohortError, match=message):
        bd.read_cohort(write_study(*sizes))


def test_a_packed_cohort_holds_both_hemispheres(write_study, tmp_path):
    packed = bd.pack_cohort(write_study(10242, 10242), tmp_path / "study.zarr")
    assert bd.open_packed(packed).n_vertices == 20484


def test_the_command_says_which_space_it_took(write_study):
    result = CliRunner().invoke(app, ["check", str(write_study(10242, 10242))])
    assert "Note: No space was given: taken to be fsaverage5" in result.output
    assert "20,484 vertices on fsaverage5" in result.output
