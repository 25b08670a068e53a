"""Spaces from the files in which studies keep them, and by name."""

import nibabel as nib
import numpy as np
import pytest
from nilearn.surface import load_surf_mesh

import braindive as bd
from braindive.errors import ParameterError


def write_gifti_surface(path, coordinates, faces, structure=None):
    meta = nib.gifti.GiftiMetaData({"AnatomicalStructurePrimary": structure} if structure else {})
    arrays = [
        nib.gifti.GiftiDataArray(
            coordinates.astype(np.float32), "NIFTI_INTENT_POINTSET", meta=meta
        ),
        nib.gifti.GiftiDataArray(faces.astype(np.int32), "NIFTI_INTENT_TRIANGLE"),
    ]
    nib.save(nib.GiftiImage(darrays=arrays), path)


def test_gifti_surface_agrees_with_nilearns_reader(tmp_path, sheet):
    coordinates, faces = sheet(3, 4)
    path = tmp_path / "sub_hemi-R_white.surf.gii"
    write_gifti_surface(path, coordinates, faces)
    space = bd.load_space(path)
    mesh = load_surf_mesh(path)
    np.testing.assert_array_equal(space.hemispheres[0].coordinates, mesh.coordinates)
    np.testing.assert_array_equal(space.hemispheres[0].faces, mesh.faces)
    assert space.sides == ("right",)


def test_two_files_or_a_subject_folder_give_two_hemispheres(tmp_path, sheet):
    coordinates, faces = sheet(3, 4)
    folder = tmp_path / "fsaverage" / "surf"
    folder.mkdir(parents=True)
    for side in ("lh", "rh"):
        nib.freesurfer.write_geometry(folder / f"{side}.sphere", coordinates, faces)
    left, right = folder / "lh.sphere", folder / "rh.sphere"
    for spec in (f"{left},{right}", (left, right), tmp_path / "fsaverage"):
        space = bd.load_space(spec)
        assert space.sides == ("left", "right")
        assert space.n_vertices == 24
    assert space.name == "fsaverage"


def test_hemispheres_in_the_wrong_order_are_refused(tmp_path, sheet):
    coordinates, faces = sheet(3, 4)
    write_gifti_surface(tmp_path / "a.surf.gii", coordinates, faces, "CortexRight")
    write_gifti_surface(tmp_path / "b.surf.gii", coordinates, faces, "CortexLeft")
    with pytest.raises(ParameterError, match=r"a\.surf\.gii is the right hemisphere"):
        bd.load_space((tmp_path / "a.surf.gii", tmp_path / "b.surf.gii"))


def test_masks_come_from_labels_gifti_and_cifti(tmp_path, sheet):
    coordinates, faces = sheet(2, 3)
    paths = [tmp_path / "x_hemi-L.surf.gii", tmp_path / "x_hemi-R.surf.gii"]
    for path in paths:
        write_gifti_surface(path, coordinates, faces)
    label = tmp_path / "lh.cortex.label"
    label.write_text("#! cortex\n2\n0 0 0 0 0\n4 1 1 0 0\n")
    shape = tmp_path / "rh.mask.shape.gii"
    on_the_right = np.array([0, 1, 1, 0, 0, 1], dtype=np.float32)
    nib.save(nib.GiftiImage(darrays=[nib.gifti.GiftiDataArray(on_the_right)]), shape)
    space = bd.load_space(paths, mask=(label, shape))
    assert [np.flatnonzero(part.mask).tolist() for part in space.hemispheres] == [[0, 4], [1, 2, 5]]

    axis = nib.cifti2.BrainModelAxis.from_mask(space.hemispheres[0].mask, "CortexLeft")
    axis += nib.cifti2.BrainModelAxis.from_mask(space.hemispheres[1].mask, "CortexRight")
    scalar = nib.cifti2.ScalarAxis(["x"])
    nib.save(nib.Cifti2Image(np.zeros((1, 5)), (scalar, axis)), tmp_path / "x.dscalar.nii")
    again = bd.load_space(paths, mask=tmp_path / "x.dscalar.nii")
    for one, other in zip(space.hemispheres, again.hemispheres, strict=True):
        np.testing.assert_array_equal(one.mask, other.mask)


def test_nifti_mask_gives_a_volume(tmp_path, rng):
    mask = rng.random((4, 3, 5)) < 0.6
    affine = np.diag([2.0, 2.0, 3.0, 1.0])
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), affine), tmp_path / "mask.nii.gz")
    space = bd.load_space(tmp_path / "mask.nii.gz", neighbourhood=26)
    np.testing.assert_array_equal(space.mask, mask)
    np.testing.assert_array_equal(space.affine, affine)
    assert space.neighbourhood == 26


def test_table_of_neighbours_gives_regions(tmp_path):
    path = tmp_path / "neighbours.tsv"
    path.write_text("region\tneighbour\nfrontal\tparietal\nparietal\toccipital\ninsula\t\n")
    space = bd.load_space(str(path))
    assert space.names == ("frontal", "parietal", "occipital", "insula")
    assert space.graph().sum(axis=1).tolist() == [1, 2, 1, 0]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("fsaverage7", "one of fsaverage5, fsaverage5-left"),
        ("fsaverage", r"\$SUBJECTS_DIR/fsaverage"),
        ("fsLR-32k", r"hemi-L_sphere\.surf\.gii"),
    ],
)
def test_unknown_spaces_are_named_with_what_to_give(spec, message):
    with pytest.raises(ParameterError, match=message):
        bd.load_space(spec)


def test_file_that_is_no_surface_is_named(tmp_path):
    (tmp_path / "lh.white").write_bytes(b"not a surface at all")
    (tmp_path / "a.surf.gii").write_text("<GIFTI>")
    for name in ("lh.white", "a.surf.gii"):
        with pytest.raises(ParameterError, match=name):
            bd.load_space(tmp_path / name)
