"""Atlas files."""

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.space.surface import Hemisphere


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


def label_image(numbers, affine=None):
    return nib.Nifti1Image(
        np.asarray(numbers, dtype=np.int16), np.eye(4) if affine is None else affine
    )


@pytest.fixture
def volume():
    mask = np.zeros((2, 3, 4), dtype=bool)
    mask[1, 0, 2] = mask[0, 1, 3] = mask[1, 2, 0] = True
    return bd.Volume("box", mask, np.diag([2.0, 2.0, 2.0, 1.0]))


def test_a_label_volume_gives_the_regions_inside_the_mask(tmp_path, volume):
    path = tmp_path / "regions.nii.gz"
    numbers = np.zeros(volume.mask.shape)
    numbers[1, 0, 2], numbers[0, 1, 3], numbers[1, 2, 0] = 5, 2, 0
    nib.save(label_image(numbers, volume.affine), path)
    expected = (numbers[volume.mask] - 1).astype(int)
    np.testing.assert_array_equal(bd.read_atlas(path, 3, volume), expected)
    assert sorted(expected) == [-1, 1, 4]


@pytest.mark.parametrize("wrong", ["shape", "affine"])
def test_a_label_volume_of_another_grid_is_refused(tmp_path, volume, wrong):
    path = tmp_path / "regions.nii.gz"
    shape = (3, 2, 4) if wrong == "shape" else volume.mask.shape
    affine = volume.affine if wrong == "shape" else np.eye(4)
    nib.save(label_image(np.ones(shape), affine), path)
    with pytest.raises(bd.CohortError, match=r"regions.nii.gz.*resample the atlas"):
        bd.read_atlas(path, 3, volume)


def surface(masks):
    """Two hemispheres of four vertices each."""
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    faces = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])
    return bd.Surface(
        "pair",
        tuple(
            Hemisphere(side, points, faces, np.array(mask, dtype=bool))
            for side, mask in masks.items()
        ),
    )


def save_gifti(path, numbers, names=None, side=None):
    array = nib.gifti.GiftiDataArray(np.array(numbers, dtype=np.int32), intent="NIFTI_INTENT_LABEL")
    table = nib.gifti.GiftiLabelTable()
    for key, name in (names or {}).items():
        label = nib.gifti.GiftiLabel(key=key)
        label.label = name
        table.labels.append(label)
    meta = nib.gifti.GiftiMetaData()
    if side is not None:
        meta["AnatomicalStructurePrimary"] = f"Cortex{side.capitalize()}"
    nib.save(nib.gifti.GiftiImage(darrays=[array], labeltable=table, meta=meta), path)


def test_a_region_of_gifti_labels_that_is_called_unknown_is_outside(tmp_path):
    path = tmp_path / "regions.label.gii"
    save_gifti(path, [3, 1, 1, 2], names={1: "front", 2: "back", 3: "Unknown"})
    np.testing.assert_array_equal(bd.read_atlas(path, 4), [-1, 0, 0, 1])


def test_labels_of_whole_hemispheres_are_cut_to_the_measured_vertices(tmp_path):
    space = surface({"left": [1, 0, 1, 1], "right": [0, 1, 1, 0]})
    paths = [tmp_path / "lh.label.gii", tmp_path / "rh.label.gii"]
    save_gifti(paths[0], [1, 2, 1, 0])
    save_gifti(paths[1], [1, 1, 2, 2])
    np.testing.assert_array_equal(bd.read_atlas(paths, 5, space), [0, 0, -1, 2, 3])


def test_hemispheres_in_the_wrong_order_are_refused(tmp_path):
    space = surface({"left": [1] * 4, "right": [1] * 4})
    paths = [tmp_path / "rh.label.gii", tmp_path / "lh.label.gii"]
    for path in paths:
        save_gifti(path, [1, 1, 2, 2])
    with pytest.raises(bd.CohortError, match=r"rh.label.gii is of the right .* left first"):
        bd.read_atlas(paths, 8, space)


def test_an_atlas_of_the_other_hemisphere_is_refused_by_its_metadata(tmp_path):
    path = tmp_path / "regions.label.gii"
    save_gifti(path, [1, 1, 2, 2], side="right")
    with pytest.raises(bd.CohortError, match="is of the right hemisphere"):
        bd.read_atlas(path, 4, surface({"left": [1] * 4}))


def save_dlabel(path, numbers, vertices, n_mesh=4):
    """CIFTI labels of some vertices of both hemispheres; 3 is the medial wall."""
    names = {0: ("???", (0, 0, 0, 0)), 1: ("front", (1, 0, 0, 1)), 2: ("back", (0, 1, 0, 1)),
             3: ("Medial_Wall", (0, 0, 1, 1))}  # fmt: skip
    structures = [
        nib.cifti2.BrainModelAxis.from_surface(where, n_mesh, name)
        for name, where in zip(("CORTEX_LEFT", "CORTEX_RIGHT"), vertices, strict=True)
    ]
    axes = nib.cifti2.LabelAxis(["regions"], [names]), structures[0] + structures[1]
    data = np.array([numbers], dtype=np.int32)
    nib.save(nib.Cifti2Image(data, nib.cifti2.Cifti2Header.from_axes(axes)), path)


def test_cifti_labels_go_to_the_vertices_they_name(tmp_path):
    path = tmp_path / "regions.dlabel.nii"
    save_dlabel(path, [1, 3, 2, 1, 2], vertices=([0, 2, 3], [1, 2]))
    space = surface({"left": [1, 1, 1, 1], "right": [1, 1, 0, 1]})
    expected = [0, -1, -1, 1, -1, 0, -1]
    np.testing.assert_array_equal(bd.read_atlas(path, 7, space), expected)
    # Without a space the numbers of the file are the columns.
    np.testing.assert_array_equal(bd.read_atlas(path, 5), [0, -1, 1, 0, 1])


def test_cifti_labels_of_another_mesh_are_refused(tmp_path):
    path = tmp_path / "regions.dlabel.nii"
    save_dlabel(path, [1, 2], vertices=([0], [5]), n_mesh=6)
    with pytest.raises(bd.CohortError, match=r"meshes with 6 vertices.*'pair' has 4"):
        bd.read_atlas(path, 8, surface({"left": [1] * 4, "right": [1] * 4}))


def test_an_atlas_without_any_region_is_refused(tmp_path):
    path = tmp_path / "regions.label.gii"
    save_gifti(path, [0, 0, 0])
    with pytest.raises(bd.CohortError, match=r"no region at any of the cohort's 3 vertices"):
        bd.read_atlas(path, 3)
