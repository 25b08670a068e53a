"""Each file format, written by nibabel and read back through a table."""

import gzip

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from nibabel.cifti2 import BrainModelAxis, ScalarAxis
from nilearn.maskers import NiftiMasker
from nilearn.surface import load_surf_data

import braindive as bd
from braindive.io.formats.contents import UnreadableError
from braindive.io.formats.registry import open_map, read_frames
from braindive.space import Hemisphere


def table_of(**columns):
    n = len(next(iter(columns.values())))
    return pd.DataFrame(
        {"participant_id": [f"sub-{i}" for i in range(n)], "age": np.arange(n) + 60.0, **columns}
    )


@pytest.fixture
def maps(rng):
    """Multiples of 1/64, which six decimals hold exactly: text in GIFTI has no more."""
    return (np.round(rng.normal(size=(3, 36)) * 64) / 64).astype(np.float32)


@pytest.fixture
def right(sheet):
    return bd.Surface("right", (Hemisphere("right", *sheet(6, 6)),))


@pytest.mark.parametrize("ending", [".mgh", ".mgz", ".mgh.gz"])
def test_mgh_comes_back_equal(tmp_path, maps, right, ending):
    names = []
    for i, values in enumerate(maps):
        names.append(f"rh.{i}{ending}")
        image = nib.MGHImage(values.reshape(-1, 1, 1), np.eye(4))
        (tmp_path / names[-1]).write_bytes(
            image.to_bytes() if ending == ".mgh" else gzip.compress(image.to_bytes())
        )
    cohort = bd.read_cohort(table_of(right=names), right, root=tmp_path)
    np.testing.assert_array_equal(cohort.values, maps)


def test_morph_file_agrees_with_nilearn(tmp_path, maps, right):
    for i, values in enumerate(maps):
        (tmp_path / str(i)).mkdir()
        nib.freesurfer.write_morph_data(tmp_path / str(i) / "rh.thickness", values)
    names = [f"{i}/rh.thickness" for i in range(3)]
    cohort = bd.read_cohort(table_of(right=names), right, root=tmp_path)
    np.testing.assert_array_equal(cohort.values, maps)
    np.testing.assert_array_equal(cohort.values[1], load_surf_data(tmp_path / "1/rh.thickness"))


@pytest.mark.parametrize("ending", [".shape.gii", ".func.gii", ".gii.gz"])
@pytest.mark.parametrize("encoding", ["ASCII", "B64BIN", "B64GZ"])
def test_gifti_agrees_with_nilearn(tmp_path, maps, right, ending, encoding):
    names = [f"sub-{i}_hemi-R{ending}" for i in range(3)]
    for name, values in zip(names, maps, strict=True):
        array = nib.gifti.GiftiDataArray(values, "NIFTI_INTENT_SHAPE", "NIFTI_TYPE_FLOAT32")
        array.encoding = nib.gifti.gifti.gifti_encoding_codes.code[f"GIFTI_ENCODING_{encoding}"]
        nib.save(nib.GiftiImage(darrays=[array]), tmp_path / name)
    cohort = bd.read_cohort(table_of(path=names), right, root=tmp_path)
    np.testing.assert_array_equal(cohort.values, maps)
    np.testing.assert_array_equal(cohort.values[2], load_surf_data(tmp_path / names[2]))


def test_cifti_is_mapped_through_its_brain_models(tmp_path, surface, rng):
    """The file has a medial wall of its own, the right before the left, and voxels besides."""
    on_left, on_right = np.ones(30, dtype=bool), np.ones(36, dtype=bool)
    on_left[[4, 5, 11, 20]] = on_right[[0, 35]] = False
    axis = BrainModelAxis.from_mask(on_right, "CortexRight")
    axis += BrainModelAxis.from_mask(np.ones((2, 2, 2)), "BrainStem", np.eye(4))
    axis += BrainModelAxis.from_mask(on_left, "CortexLeft")
    full = {"left": rng.normal(size=30), "right": rng.normal(size=36)}
    row = np.concatenate([full["right"][on_right], np.zeros(8), full["left"][on_left]])
    image = nib.Cifti2Image(row[None].astype(np.float32), (ScalarAxis(["thickness"]), axis))
    nib.save(image, tmp_path / "a.dscalar.nii")

    cohort = bd.read_cohort(table_of(path=["a.dscalar.nii"]), surface, root=tmp_path)
    parts = surface.split(cohort.values[0])
    expected_left = np.where(on_left, full["left"], np.nan).astype(np.float32)
    expected_left[[4, 5, 11]] = np.nan
    np.testing.assert_array_equal(parts["left"], expected_left)
    np.testing.assert_array_equal(
        parts["right"], np.where(on_right, full["right"], np.nan).astype(np.float32)
    )


def test_cifti_of_the_usual_size_fills_59412_of_64984_vertices(tmp_path, rng):
    masks = [np.arange(32492) % 32492 < n for n in (29696, 29716)]
    axis = BrainModelAxis.from_mask(masks[0], "CortexLeft")
    axis += BrainModelAxis.from_mask(masks[1], "CortexRight")
    row = rng.normal(size=(1, 59412)).astype(np.float32)
    nib.save(nib.Cifti2Image(row, (ScalarAxis(["x"]), axis)), tmp_path / "a.dscalar.nii")
    triangle = [[0, 1, 2]]
    space = bd.Surface(
        "fsLR",
        tuple(Hemisphere(side, np.zeros((32492, 3)), triangle) for side in ("left", "right")),
    )
    cohort = bd.read_cohort(table_of(path=["a.dscalar.nii"]), space, root=tmp_path)
    assert cohort.n_vertices == 64984
    observed = ~np.isnan(cohort.values[0])
    np.testing.assert_array_equal(observed, np.concatenate(masks))
    np.testing.assert_array_equal(cohort.values[0][observed], row[0])


def test_nifti_agrees_with_nilearns_masker(tmp_path, rng):
    mask = rng.random((4, 5, 6)) < 0.5
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    mask_image = nib.Nifti1Image(mask.astype(np.uint8), affine)
    nib.save(mask_image, tmp_path / "mask.nii.gz")
    images = []
    for i in range(2):
        data = rng.normal(size=mask.shape).astype(np.float32)
        images.append(nib.Nifti1Image(data, affine))
        nib.save(images[-1], tmp_path / f"{i}.nii.gz")
    table = table_of(path=["0.nii.gz", "1.nii.gz"])
    cohort = bd.read_cohort(table, tmp_path / "mask.nii.gz", root=tmp_path)
    masker = NiftiMasker(mask_image, standardize=None).fit()
    for i in range(2):
        np.testing.assert_array_equal(cohort.values[i], np.ravel(masker.transform(images[i])))


def test_scaled_integers_in_nifti_are_scaled(tmp_path, rng):
    mask = np.ones((3, 3, 3))
    nib.save(nib.Nifti1Image(mask, np.eye(4)), tmp_path / "mask.nii")
    image = nib.Nifti1Image(rng.normal(size=(3, 3, 3)), np.eye(4))
    image.set_data_dtype(np.int16)
    nib.save(image, tmp_path / "a.nii")
    cohort = bd.read_cohort(table_of(path=["a.nii"]), tmp_path / "mask.nii", root=tmp_path)
    expected = nib.load(tmp_path / "a.nii").get_fdata().ravel()
    np.testing.assert_allclose(cohort.values[0], expected, rtol=1e-6)


def test_surface_data_folded_into_nifti_are_unfolded_first_axis_fastest(tmp_path, rng):
    """FreeSurfer folds 163,842 vertices to 27307 x 1 x 6."""
    values = rng.normal(size=163842).astype(np.float32)
    folded = np.empty((27307, 1, 6), dtype=np.float32)
    vertex = np.arange(163842)
    folded[vertex % 27307, 0, vertex // 27307] = values
    nib.save(nib.Nifti1Image(folded, np.eye(4)), tmp_path / "lh.thickness.nii")
    flat, _ = read_frames(tmp_path / "lh.thickness.nii", [0])
    np.testing.assert_array_equal(flat[0], values)
    assert open_map(tmp_path / "lh.thickness.nii").n_values == 163842


@pytest.mark.parametrize("ending", [".mgh", ".mgz"])
def test_stacked_file_gives_rows_in_order_or_by_frame(tmp_path, rng, right, ending):
    stack = rng.normal(size=(36, 1, 1, 20)).astype(np.float32)
    nib.save(nib.MGHImage(stack, np.eye(4)), tmp_path / f"rh.stack{ending}")
    whole = table_of(path=[f"rh.stack{ending}"] * 20)
    cohort = bd.read_cohort(whole, right, root=tmp_path)
    np.testing.assert_array_equal(cohort.values, stack[:, 0, 0].T)
    some = table_of(path=[f"rh.stack{ending}"] * 3, frame=[7, 0, 19])
    cohort = bd.read_cohort(some, right, root=tmp_path)
    np.testing.assert_array_equal(cohort.values, stack[:, 0, 0, [7, 0, 19]].T)


def test_one_file_of_both_hemispheres_is_left_then_right(tmp_path, surface, rng):
    values = rng.normal(size=66).astype(np.float32)
    nib.save(nib.MGHImage(values.reshape(-1, 1, 1), np.eye(4)), tmp_path / "both.mgh")
    cohort = bd.read_cohort(table_of(path=["both.mgh"]), surface, root=tmp_path)
    np.testing.assert_array_equal(
        cohort.values[0], surface.join({"left": values[:30], "right": values[30:]})
    )


@pytest.mark.parametrize("name", ["a.mgh", "a.mgz", "a.nii", "a.nii.gz", "a.gii", "rh.thickness"])
def test_truncated_files_are_known_from_their_header(tmp_path, rng, name):
    values = rng.normal(size=5000).astype(np.float32)
    path = tmp_path / name
    if name.endswith(".gii"):
        nib.save(nib.GiftiImage(darrays=[nib.gifti.GiftiDataArray(values)]), path)
    elif name == "rh.thickness":
        nib.freesurfer.write_morph_data(path, values)
    else:
        kind = nib.MGHImage if ".mg" in name else nib.Nifti1Image
        nib.save(kind(values.reshape(-1, 1, 1), np.eye(4)), path)
    assert open_map(path).n_values == 5000
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(UnreadableError, match="truncated"):
        open_map(path)


def test_gzip_of_several_members_is_not_taken_for_truncated(tmp_path, rng):
    image = nib.Nifti1Image(rng.normal(size=(9, 9, 9)).astype(np.float32), np.eye(4))
    raw = image.to_bytes()
    path = tmp_path / "a.nii.gz"
    path.write_bytes(gzip.compress(raw[:1000]) + gzip.compress(raw[1000:]))
    assert open_map(path).shape == (9, 9, 9)
