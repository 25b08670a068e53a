"""`check` of NIfTI images, with a mask and without."""

import json

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app


@pytest.fixture(scope="module", params=[np.nan, 0.0], ids=["NaN outside", "0 outside"])
def study(request, tmp_path_factory):
    """Images of 9 x 9 x 9 voxels, of which a fifth are brain, and one file with the mask."""
    folder = tmp_path_factory.mktemp("volumes")
    inside = np.linalg.norm(np.indices((9, 9, 9)) - 4.0, axis=0) < 3.4
    nib.save(nib.Nifti1Image(inside.astype(np.uint8), np.eye(4)), folder / "mask.nii.gz")
    space = bd.load_space(folder / "mask.nii.gz")
    cohort = bd.simulate_cohort(
        30, 2, space=space, control_share=0.5, noise=0.3, dtype="float32", random_state=0
    ).cohort
    table = bd.write_cohort(cohort, folder, "nifti")
    for name in pd.read_csv(table, sep="\t")["path"]:
        image = nib.load(folder / name)
        data = np.where(inside, image.get_fdata(), request.param).astype(np.float32)
        nib.save(nib.Nifti1Image(data, np.eye(4)), folder / name)
    return folder


def check(study, *options):
    result = CliRunner().invoke(app, ["check", str(study / "cohort.tsv"), *map(str, options)])
    assert result.exit_code == 0, result.output
    return result


def direction(study, *options):
    found = json.loads(check(study, "--json", *options).stdout)["findings"]
    (told,) = [finding["what"] for finding in found if "than controls at" in finding["what"]]
    return told


def test_the_direction_is_that_of_the_brain_with_a_mask_and_without(study):
    with_mask = direction(study, "--space", study / "mask.nii.gz")
    assert "Patients are lower than controls" in with_mask
    assert direction(study) == with_mask


def test_a_mask_is_advised_and_no_surface(study):
    text = " ".join(check(study).output.split())
    assert "images of 9 x 9 x 9 voxels" in text
    assert "--space mask.nii.gz" in text
    assert "fsaverage" not in text
    assert "cortex" not in text


def test_voxels_outside_the_brain_are_not_missing(study):
    assert "more missing" not in check(study).output
