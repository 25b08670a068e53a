"""Atlas files."""

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

import braindive as bd


def test_an_annot_file_gives_its_regions_and_what_is_outside(tmp_path):
    path = tmp_path / "lh.regions.annot"
    colours = np.array([[0, 0, 0, 0], [255, 0, 0, 0], [0, 255, 0, 0]])
    labels = np.array([0, 1, 1, 2, 0])
    nib.freesurfer.write_annot(path, labels, colours, ["unknown", "front", "back"], fill_ctab=True)
    np.testing.assert_array_equal(bd.read_atlas(path, 5), [-1, 1, 1, 2, -1])


def test_gifti_labels_keep_zero_for_outside(tmp_path):
    path = tmp_path / "regions.label.gii"
    array = nib.gifti.GiftiDataArray(
        np.array([0, 1, 2, 2], dtype=np.int32), intent="NIFTI_INTENT_LABEL"
    )
    nib.save(nib.gifti.GiftiImage(darrays=[array]), path)
    np.testing.assert_array_equal(bd.read_atlas(path, 4), [-1, 0, 1, 1])


def test_two_hemispheres_have_regions_of_their_own(tmp_path):
    for side in ("left", "right"):
        pd.DataFrame({"region": ["a", "b", "unknown"]}).to_csv(tmp_path / f"{side}.tsv", sep="\t")
    labels = bd.read_atlas([tmp_path / "left.tsv", tmp_path / "right.tsv"], 6)
    np.testing.assert_array_equal(labels, [0, 1, -1, 2, 3, -1])


def test_an_atlas_of_another_space_is_refused_with_both_counts(tmp_path):
    path = tmp_path / "regions.csv"
    pd.DataFrame({"region": ["a", "b"]}).to_csv(path, index=False)
    with pytest.raises(bd.CohortError, match=r"2 vertices .* but the cohort has 10,242"):
        bd.read_atlas(path, 10242)


def test_fractions_a_missing_file_and_a_broken_one_are_refused(tmp_path):
    path = tmp_path / "regions.csv"
    pd.DataFrame({"region": [0.5, 1.0]}).to_csv(path, index=False)
    with pytest.raises(bd.CohortError, match="fractions"):
        bd.read_atlas(path, 2)
    with pytest.raises(bd.CohortError, match="there is no atlas"):
        bd.read_atlas(tmp_path / "nothing.annot", 2)
    broken = tmp_path / "broken.label.gii"
    broken.write_text("not xml")
    with pytest.raises(bd.CohortError, match="cannot be read"):
        bd.read_atlas(broken, 2)
