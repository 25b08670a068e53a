"""A file format that is not known yet: one object and one line make it readable and writable."""

import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.io.formats.base import Format, Writer
from braindive.io.formats.contents import LabelFile, MapFile, UnreadableError
from braindive.io.formats.registry import FORMATS, open_map, read_frames
from braindive.io.sides import sides_told


def header(path):
    values = np.load(path, mmap_mode="r")
    if values.ndim != 2:
        raise UnreadableError(f"the array has {values.ndim} axes; give one with two")
    return MapFile(path, values.shape[1:], len(values), sides_told(path))


def read(path, frames):
    return np.load(path)[list(frames)].astype(np.float32), None


def write_scalars(path, part):
    np.save(path, np.atleast_2d(part.values))


def write_labels(path, part):
    np.savez(path, labels=part.values, names=part.names, colours=part.colours)


NPY = Format(
    "npy",
    suffixes=(".npy",),
    examples=(".npy",),
    header=header,
    read=read,
    read_labels=lambda path: LabelFile(np.load(path)[0]),
    read_mask=lambda path: LabelFile(np.load(path)[0]),
    writer=Writer(
        ".npy",
        write_scalars=write_scalars,
        label_ending=".npz",
        write_labels=write_labels,
        scans=("surface",),
        maps=("surface",),
        fill=-1.0,
    ),
)


@pytest.fixture(scope="module")
def model(study):
    return bd.DIVE(3, spatial=None, people="alike", personal=False, random_state=0).fit(study)


@pytest.fixture
def npy(monkeypatch):
    monkeypatch.setitem(FORMATS, NPY.name, NPY)


@pytest.mark.usefixtures("npy")
def test_a_cohort_is_written_and_read_back(tmp_path, study, surface):
    table = bd.write_cohort(study, tmp_path, "npy")
    names = pd.read_csv(table, sep="\t")
    assert names["left"].str.endswith("_hemi-L.npy").all()
    assert names["right"].str.endswith("_hemi-R.npy").all()
    cohort = bd.read_cohort(table, surface)
    np.testing.assert_array_equal(cohort.values, study.values)


@pytest.mark.usefixtures("npy")
def test_frames_sizes_and_sides_are_checked_as_in_every_format(tmp_path, surface):
    np.save(tmp_path / "rh.stack.npy", np.arange(72.0).reshape(2, 36))
    np.save(tmp_path / "lh.short.npy", np.zeros((1, 29)))
    np.save(tmp_path / "lh.flat.npy", np.zeros(30))
    flat, vertices = read_frames(tmp_path / "rh.stack.npy", [1])
    np.testing.assert_array_equal(flat, [np.arange(36, 72)])
    assert vertices is None
    table = pd.DataFrame(
        {
            "participant_id": ["a", "b", "c"],
            "age": [60, 61, 62],
            "left": ["lh.short.npy", "rh.stack.npy", "lh.flat.npy"],
            "right": ["rh.stack.npy"] * 3,
            "frame": [0, 1, 0],
        }
    )
    with pytest.raises(bd.CohortError) as caught:
        bd.read_cohort(table, surface, root=tmp_path)
    message = str(caught.value)
    assert "29 values, but the left mesh of 'sheets' has 30" in message
    assert "the file says it is of the right hemisphere, not the left one" in message
    assert "the array has 1 axes; give one with two" in message


@pytest.mark.usefixtures("npy")
def test_maps_of_a_model_are_written_with_names_and_colours(tmp_path, surface, model):
    names = {path.name for path in bd.write_maps(model, tmp_path, scores=(0.5,), formats="npy")}
    assert {"hemi-L_expected.npy", "hemi-R_probabilities.npy", "hemi-R_clusters.npz"} <= names
    probabilities = np.load(tmp_path / "hemi-L_probabilities.npy")
    expected = surface.split(model.responsibilities_.T.astype(np.float32), -1.0)["left"]
    np.testing.assert_array_equal(probabilities, expected)
    assert (probabilities[:, [4, 5, 11]] == -1.0).all()
    with np.load(tmp_path / "hemi-L_clusters.npz") as written:
        np.testing.assert_array_equal(
            written["labels"], surface.split(model.labels_ + 1, 0)["left"]
        )
        assert written["names"].tolist() == ["cluster 1", "cluster 2", "cluster 3"]
        assert written["colours"].shape == (3, 3)


@pytest.mark.usefixtures("npy")
def test_an_atlas_and_a_mask_are_read(tmp_path, surface):
    labels = {"left": np.arange(30) % 3, "right": np.arange(36) % 2}
    for side, numbers in labels.items():
        np.save(tmp_path / f"{side}.npy", numbers[None])
    paths = [tmp_path / "left.npy", tmp_path / "right.npy"]
    regions = surface.split(bd.read_atlas(paths, surface.n_vertices, surface), -1)
    np.testing.assert_array_equal(regions["right"], np.where(labels["right"] > 0, 2, -1))
    masked = bd.load_space(surface, mask=paths)
    np.testing.assert_array_equal(masked.hemispheres[0].mask, labels["left"] > 0)


@pytest.mark.usefixtures("npy")
def test_messages_name_it_and_defaults_leave_it_out(tmp_path, study, model):
    (tmp_path / "scan.xyz").write_bytes(b"nothing")
    with pytest.raises(UnreadableError, match=r"format is not known; give \.mgh.* or \.npy"):
        open_map(tmp_path / "scan.xyz")
    with pytest.raises(bd.ParameterError, match="must be freesurfer, gifti, nifti, npy or table"):
        bd.write_cohort(study, tmp_path, "npz")
    without = bd.Cohort(np.ones((2, 3)), subjects=["a", "a"], times=[0, 1])
    with pytest.raises(bd.ParameterError, match="NPY holds surfaces; write regions as nifti"):
        bd.write_cohort(without, tmp_path, "npy")
    written = bd.write_maps(model, tmp_path / "maps")
    assert not any(path.suffix == ".npy" for path in written)


def test_without_its_line_it_is_not_known(tmp_path, study):
    np.save(tmp_path / "lh.npy", np.zeros((1, 30)))
    with pytest.raises(UnreadableError, match="the format is not known"):
        open_map(tmp_path / "lh.npy")
    with pytest.raises(bd.ParameterError, match="must be freesurfer, gifti, nifti or table"):
        bd.write_cohort(study, tmp_path, "npy")
