import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from nilearn.surface import load_surf_data
from sklearn.utils import Bunch

import braindive as bd
from braindive.dive.curves import Trajectories
from braindive.space import Hemisphere, Surface

POINTS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0]], dtype=float)
FACES = [[0, 1, 2], [1, 2, 3], [1, 3, 4]]
LEFT, RIGHT = np.array([1, 1, 0, 1, 1], bool), np.array([0, 1, 1, 1, 1], bool)
SCORES = (-1.0, 0.5, 2.0)


def stand_in(space, n_vertices=None):
    """What maps need of a fitted model, with three clusters."""
    n_vertices = n_vertices or space.n_vertices
    z = np.random.default_rng(0).dirichlet(np.ones(3), n_vertices)
    return Bunch(
        responsibilities_=z,
        labels_=z.argmax(axis=1),
        trajectories_=Trajectories.from_array(
            [[-1.0, 2.0, -0.5, 3.0], [-2.0, 1.0, 0.0, 2.5], [-1.5, 3.0, 1.0, 2.0]]
        ),
        noise_=np.array([0.1, 0.2, 0.3]),
        subjects_=np.array(["a", "b"], dtype=object),
        speeds_=np.array([0.5, 0.25]),
        shifts_=np.array([1.0, -1.0]),
        scores_=np.array([2.0, 1.0, -1.0]),
        assignments=None,
        cluster_names_=np.arange(3),
        space_=space,
        visits_=pd.DataFrame({"subject": ["a", "a", "b"], "time": [2.0, 0.0, 0.0]}),
        summary=lambda: pd.DataFrame({"midpoint": [-0.5, 0.0, 1.0]}),
    )


@pytest.fixture
def surface():
    return Surface(
        "toy",
        (Hemisphere("left", POINTS, FACES, LEFT), Hemisphere("right", POINTS, FACES, RIGHT)),
    )


@pytest.fixture
def volume():
    mask = np.random.default_rng(1).random((3, 4, 5)) < 0.5
    return bd.Volume("toy", mask, np.diag([2.0, 2.0, 2.0, 1.0]))


def expected_values(model):
    return (model.trajectories_.evaluate(np.array(SCORES)) @ model.responsibilities_.T).astype(
        np.float32
    )


def by_side(values):
    return {"left": values[..., : LEFT.sum()], "right": values[..., LEFT.sum() :]}


@pytest.mark.parametrize(("side", "name", "mask"), [("left", "L", LEFT), ("right", "R", RIGHT)])
def test_gifti_maps_come_back_equal(surface, tmp_path, side, name, mask):
    model = stand_in(surface)
    bd.write_maps(model, tmp_path, scores=SCORES, formats=["gifti"])
    for group, values in (
        ("probabilities", model.responsibilities_.T.astype(np.float32)),
        ("expected", expected_values(model)),
    ):
        path = tmp_path / f"hemi-{name}_{group}.shape.gii"
        data = load_surf_data(path).T
        np.testing.assert_array_equal(data[:, mask], by_side(values)[side])
        assert np.isnan(data[:, ~mask]).all()
        image = nib.load(path)
        assert image.meta["AnatomicalStructurePrimary"] == f"Cortex{side.capitalize()}"
    assert [array.meta["Name"] for array in image.darrays] == ["score -1", "score 0.5", "score 2"]


def test_gifti_labels_have_names_and_colours(surface, tmp_path):
    model = stand_in(surface)
    bd.write_maps(model, tmp_path, formats=["gifti"])
    path = tmp_path / "hemi-L_clusters.label.gii"
    labels = load_surf_data(path)
    np.testing.assert_array_equal(labels[LEFT], by_side(model.labels_)["left"] + 1)
    assert (labels[~LEFT] == 0).all()
    image = nib.load(path)
    table = image.labeltable
    assert table.get_labels_as_dict() == {
        0: "outside",
        1: "cluster 1",
        2: "cluster 2",
        3: "cluster 3",
    }
    colours = [label.rgba for label in table.labels]
    assert colours[0][3] == 0
    assert [c[3] for c in colours[1:]] == [1, 1, 1]
    assert image.darrays[0].intent == nib.nifti1.intent_codes["NIFTI_INTENT_LABEL"]


@pytest.mark.parametrize(("side", "name", "mask"), [("left", "lh", LEFT), ("right", "rh", RIGHT)])
def test_mgh_maps_come_back_equal(surface, tmp_path, side, name, mask):
    model = stand_in(surface)
    bd.write_maps(model, tmp_path, scores=SCORES, formats=["freesurfer"])
    path = tmp_path / f"{name}.expected.mgh"
    data = nib.MGHImage.from_bytes(path.read_bytes()).get_fdata(dtype=np.float32)
    assert data.shape == (5, 1, 1, 3)
    np.testing.assert_array_equal(data[mask, 0, 0].T, by_side(expected_values(model))[side])
    assert np.isnan(data[~mask]).all()


def test_a_single_score_gives_mgh_of_one_map(surface, tmp_path):
    model = stand_in(surface)
    bd.write_maps(model, tmp_path, scores=SCORES[:1], formats=["freesurfer"])
    data = nib.MGHImage.from_bytes((tmp_path / "lh.expected.mgh").read_bytes()).get_fdata()
    assert data.shape == (5, 1, 1)
    np.testing.assert_array_equal(data[LEFT, 0, 0], by_side(expected_values(model))["left"][0])


def test_annotations_come_back_equal(surface, tmp_path):
    model = stand_in(surface)
    bd.write_maps(model, tmp_path, formats=["freesurfer"])
    labels, _, names = nib.freesurfer.read_annot(tmp_path / "rh.clusters.annot")
    np.testing.assert_array_equal(labels[RIGHT], by_side(model.labels_)["right"] + 1)
    assert (labels[~RIGHT] == 0).all()
    assert names == [b"outside", b"cluster-1", b"cluster-2", b"cluster-3"]


def test_cifti_maps_come_back_equal_with_their_vertices(surface, tmp_path):
    model = stand_in(surface)
    bd.write_maps(model, tmp_path, scores=SCORES, formats=["cifti"])
    image = nib.load(tmp_path / "expected.dscalar.nii")
    np.testing.assert_array_equal(image.get_fdata(dtype=np.float32), expected_values(model))
    names, brain = image.header.get_axis(0), image.header.get_axis(1)
    assert names.name.tolist() == ["score -1", "score 0.5", "score 2"]
    structures = {name: model.vertex.tolist() for name, _, model in brain.iter_structures()}
    assert structures == {
        "CIFTI_STRUCTURE_CORTEX_LEFT": np.flatnonzero(LEFT).tolist(),
        "CIFTI_STRUCTURE_CORTEX_RIGHT": np.flatnonzero(RIGHT).tolist(),
    }
    assert image.nifti_header.get_intent()[0] == "ConnDenseScalar"
    labels = nib.load(tmp_path / "clusters.dlabel.nii")
    np.testing.assert_array_equal(labels.get_fdata()[0], model.labels_ + 1)
    assert labels.header.get_axis(0).label[0][2][0] == "cluster 2"
    assert labels.nifti_header.get_intent()[0] == "ConnDenseLabel"


def test_nifti_maps_come_back_equal(volume, tmp_path):
    model = stand_in(volume)
    bd.write_maps(model, tmp_path, scores=SCORES)
    image = nib.load(tmp_path / "expected.nii.gz")
    data = image.get_fdata(dtype=np.float32)
    np.testing.assert_array_equal(data[volume.mask].T, expected_values(model))
    assert np.isnan(data[~volume.mask]).all()
    np.testing.assert_array_equal(image.affine, volume.affine)
    labels = np.asarray(nib.load(tmp_path / "clusters.nii.gz").dataobj)
    np.testing.assert_array_equal(labels[volume.mask], model.labels_ + 1)
    assert (labels[~volume.mask] == 0).all()


def test_regions_get_a_table_by_name(tmp_path):
    model = stand_in(bd.Regions("r", ("x", "y", "z")))
    bd.write_maps(model, tmp_path, scores=SCORES)
    table = pd.read_csv(tmp_path / "maps.tsv", sep="\t", index_col="region")
    assert table.index.tolist() == ["x", "y", "z"]
    np.testing.assert_array_equal(table["cluster"], model.labels_ + 1)
    np.testing.assert_allclose(table["expected: score 0.5"], expected_values(model)[1], rtol=1e-6)


def test_subjects_are_listed_with_the_score_of_their_first_visit(tmp_path):
    bd.write_maps(stand_in(None, 4), tmp_path)
    subjects = pd.read_csv(tmp_path / "subjects.tsv", sep="\t", index_col="participant_id")
    assert subjects.loc["a", "score"] == 1.0
    assert subjects["n_visits"].to_dict() == {"a": 2, "b": 1}
    curves = pd.read_csv(tmp_path / "trajectories.tsv", sep="\t")
    assert curves["midpoint"].tolist() == [-0.5, 0.0, 1.0]


def test_default_scores_are_quantiles_of_the_training_scores(surface, tmp_path):
    model = stand_in(surface)
    bd.write_maps(model, tmp_path, formats=["table"])
    columns = pd.read_csv(tmp_path / "maps.tsv", sep="\t").columns
    shown = [name.removeprefix("expected: score ") for name in columns if "expected" in name]
    quantiles = np.quantile(model.scores_, [0.05, 0.25, 0.5, 0.75, 0.95])
    np.testing.assert_allclose([float(score) for score in shown], quantiles, rtol=1e-2)


def test_surfaces_get_cifti_by_default_only_where_the_mesh_is_fslr(surface, tmp_path):
    names = {path.name for path in bd.write_maps(stand_in(surface), tmp_path)}
    assert "lh.clusters.annot" in names
    assert "hemi-R_clusters.label.gii" in names
    assert not any(name.endswith(".nii") for name in names)
    points = np.random.default_rng(0).normal(size=(4002, 3))
    fslr = Surface("fsLR-4k", (Hemisphere("left", points, FACES),))
    names = {path.name for path in bd.write_maps(stand_in(fslr), tmp_path)}
    assert "clusters.dlabel.nii" in names


def test_dropped_vertices_are_empty_in_maps_of_full_size(surface, tmp_path):
    keep = np.ones(surface.n_vertices, dtype=bool)
    keep[0] = False
    bd.write_maps(stand_in(surface.restrict(keep)), tmp_path, formats=["gifti"])
    data = load_surf_data(tmp_path / "hemi-L_probabilities.shape.gii")
    assert data.shape == (5, 3)
    assert np.isnan(data[0]).all()


def test_a_format_of_another_kind_of_space_is_refused(volume, tmp_path):
    with pytest.raises(bd.ParameterError, match="a volume cannot be written as 'gifti'"):
        bd.write_maps(stand_in(volume), tmp_path / "maps", formats=["gifti"])
    assert not (tmp_path / "maps").exists()


def test_an_unfitted_model_has_no_maps(tmp_path):
    with pytest.raises(bd.NotFittedError):
        bd.write_maps(bd.DIVE(), tmp_path)


def test_a_failed_write_leaves_the_folder_as_it_was(surface, tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("mine")

    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr("braindive.io.maps._write_tables", fail)
    with pytest.raises(OSError, match="no space left"):
        bd.write_maps(stand_in(surface), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
