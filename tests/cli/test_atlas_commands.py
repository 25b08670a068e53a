"""The command compare with an atlas in every format, on packed cohorts."""

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app
from braindive.space.surface import Hemisphere

N_RING = 12
# Vertex 0 is outside; the others are in two regions that cut across the clusters.
LABELS = np.array([0] + [1, 2] * 5 + [1])


def ring(side):
    """A band of triangles around a ring: 12 vertices."""
    turn = 2 * np.pi * np.arange(N_RING) / N_RING
    points = np.stack([np.cos(turn), np.sin(turn), np.arange(N_RING) % 2], axis=1)
    here = np.arange(N_RING)
    faces = np.stack([here, (here + 1) % N_RING, (here + 2) % N_RING], axis=1)
    return Hemisphere(side, points, faces, np.ones(N_RING, dtype=bool))


def pack(space, folder, format_):
    cohort = bd.simulate_cohort(
        n_subjects=30,
        n_visits=3,
        space=space,
        midpoints=(-8, 10),
        noise=0.1,
        n_patches=4,
        control_share=0.4,
        cognition=True,
        random_state=0,
    ).cohort
    table = bd.write_cohort(cohort, folder, format_)
    return bd.pack_cohort(table, folder / "study.zarr", space=space)


@pytest.fixture(scope="module")
def on_surface(tmp_path_factory):
    space = bd.Surface("rings", (ring("left"), ring("right")))
    return pack(space, tmp_path_factory.mktemp("surface"), "gifti")


@pytest.fixture(scope="module")
def in_volume(tmp_path_factory):
    mask = np.zeros((4, 3, 3), dtype=bool)
    mask[:, 1:, 1:] = True
    space = bd.Volume("box", mask, np.diag([2.0, 2.0, 2.0, 1.0]))
    return pack(space, tmp_path_factory.mktemp("volume"), "nifti"), space


def write_annot(folder):
    colours = np.array([[0, 0, 0, 0], [255, 0, 0, 0], [0, 255, 0, 0]])
    paths = [folder / f"{side}.regions.annot" for side in ("lh", "rh")]
    for path in paths:
        nib.freesurfer.write_annot(path, LABELS, colours, ["unknown", "a", "b"], fill_ctab=True)
    return paths


def write_gifti(folder):
    paths = [folder / f"regions_hemi-{side}.label.gii" for side in ("L", "R")]
    for path in paths:
        array = nib.gifti.GiftiDataArray(LABELS.astype(np.int32), intent="NIFTI_INTENT_LABEL")
        nib.save(nib.gifti.GiftiImage(darrays=[array]), path)
    return paths


def write_cifti(folder):
    """Both hemispheres in one file, without the vertex that is outside."""
    names = {n: (str(n), (n / 9, 0, 0, 1)) for n in range(1, 5)}
    inside = np.flatnonzero(LABELS)
    structures = [
        nib.cifti2.BrainModelAxis.from_surface(inside, N_RING, name)
        for name in ("CORTEX_LEFT", "CORTEX_RIGHT")
    ]
    axes = nib.cifti2.LabelAxis(["regions"], [names]), structures[0] + structures[1]
    data = np.concatenate([LABELS[inside], LABELS[inside] + 2])[None].astype(np.int32)
    path = folder / "regions.dlabel.nii"
    nib.save(nib.Cifti2Image(data, nib.cifti2.Cifti2Header.from_axes(axes)), path)
    return [path]


def compare(cohort, atlas, folder):
    options = ["--folds", "2", "-k", "2", "-j", "1", "--scores", "MMSE", "-o", str(folder)]
    for path in atlas:
        options += ["--atlas", str(path)]
    result = CliRunner().invoke(app, ["compare", str(cohort), *options])
    if result.exception is not None:
        raise result.exception
    return pd.read_csv(folder / "folds.tsv", sep="\t").query("model == 'ROI-based'")


@pytest.fixture(scope="module")
def expected(on_surface, tmp_path_factory):
    """The ROI-based model with the same regions, given as an array."""
    regions = np.concatenate([LABELS, np.where(LABELS > 0, LABELS + 2, 0)]) - 1
    frame = bd.compare_models(
        bd.open_packed(on_surface),
        scores=["MMSE"],
        n_folds=2,
        n_clusters=2,
        atlas=regions,
        random_state=0,
    )
    return frame.query("model == 'ROI-based'")


@pytest.mark.parametrize("write", [write_annot, write_gifti, write_cifti])
def test_the_same_regions_give_the_same_model_in_every_format(
    on_surface, expected, tmp_path, write
):
    found = compare(on_surface, write(tmp_path), tmp_path / "out")
    assert found["measure"].tolist() == expected["measure"].tolist()
    np.testing.assert_allclose(found["value"], expected["value"], rtol=1e-6)


def test_a_label_volume_is_read_inside_the_mask(in_volume, tmp_path):
    cohort, space = in_volume
    regions = np.where(np.arange(space.n_vertices) % 2, 7, 3)
    path = tmp_path / "regions.nii.gz"
    nib.save(nib.Nifti1Image(space.unmask(regions, fill=0).astype(np.int16), space.affine), path)
    found = compare(cohort, [path], tmp_path / "out")
    frame = bd.compare_models(
        bd.open_packed(cohort),
        scores=["MMSE"],
        n_folds=2,
        n_clusters=2,
        atlas=regions,
        random_state=0,
    ).query("model == 'ROI-based'")
    np.testing.assert_allclose(found["value"], frame["value"], rtol=1e-6)


def test_a_label_volume_of_another_grid_is_refused(in_volume, tmp_path):
    path = tmp_path / "regions.nii.gz"
    nib.save(nib.Nifti1Image(np.ones((5, 5, 5), dtype=np.int16), np.eye(4)), path)
    with pytest.raises(bd.CohortError, match=r"5 x 5 x 5 voxels.*4 x 3 x 3.*resample"):
        compare(in_volume[0], [path], tmp_path / "out")


def test_hemispheres_in_the_wrong_order_are_refused(on_surface, tmp_path):
    paths = write_annot(tmp_path)[::-1]
    with pytest.raises(bd.CohortError, match=r"rh.regions.annot is of the right hemisphere"):
        compare(on_surface, paths, tmp_path / "out")


def test_averaged_hemispheres_take_the_regions_of_the_left_one(on_surface, tmp_path):
    left, right = write_annot(tmp_path)
    soon = ["--n-init", "1", "--max-iter", "20", "--people", "alike", "--average-hemispheres"]
    command = ["fit", str(on_surface), *soon, "-o", str(tmp_path / "fit.dive")]
    result = CliRunner().invoke(app, [*command, "--atlas", str(left)])
    assert result.exit_code == 0, result.output
    model = bd.load_model(tmp_path / "fit.dive")
    np.testing.assert_array_equal(model.assignments, np.where(LABELS > 0, LABELS, -1))
    assert model.space_.n_vertices == N_RING
    refused = CliRunner().invoke(app, [*command, "--atlas", str(left), "--atlas", str(right)])
    assert isinstance(refused.exception, bd.CohortError)
    assert "covers 24 vertices" in str(refused.exception)
