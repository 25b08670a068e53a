"""Names of places: from installed packages, at every vertex, in words."""

import nibabel as nib
import numpy as np
import pytest

import braindive as bd
from braindive.io import anatomy, installed_atlases
from braindive.io.anatomy import (
    count_regions,
    explain_missing,
    find_anatomy,
    paint_regions,
    region_names,
    voxel_positions,
)
from braindive.io.atlas_names import DESIKAN_KILLIANY, DESTRIEUX, read_region_name
from braindive.space import Hemisphere, Surface
from braindive.space.fsaverage import fsaverage5, fsaverage5_mesh, nearest_on_fsaverage5


def subdivide(part: Hemisphere) -> Hemisphere:
    """The next finer sphere: the vertices so far, then the middles of the edges."""
    ends = np.unique(np.sort(part.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
    number = {tuple(pair): part.n_mesh + row for row, pair in enumerate(ends.tolist())}
    middles = part.coordinates[ends].mean(axis=1)
    middles *= np.linalg.norm(part.coordinates[0]) / np.linalg.norm(middles, axis=1, keepdims=True)
    faces = []
    for a, b, c in part.faces.tolist():
        ab, bc, ca = (number[tuple(sorted(pair))] for pair in ((a, b), (b, c), (c, a)))
        faces += [[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]
    return Hemisphere(part.side, np.concatenate([part.coordinates, middles]), faces)


def test_regions_of_fsaverage5_lie_where_anatomy_has_them():
    names = np.array(region_names(bd.load_space("fsaverage5")))
    points = np.concatenate([fsaverage5_mesh("pial", side)[0] for side in ("left", "right")])

    def middle(name):
        return points[names == name].mean(axis=0)

    for side, sign in (("left", -1), ("right", 1)):
        assert sign * middle(f"{side} superior temporal gyrus")[0] > 40
        assert middle(f"{side} pericalcarine cortex")[1] < -60  # far back
        assert middle(f"{side} frontal pole")[1] > 50  # far in front
        assert middle(f"{side} precentral gyrus")[2] > 30  # high
        assert middle(f"{side} entorhinal cortex")[2] < -20  # low
        assert middle(f"{side} precentral gyrus")[1] > middle(f"{side} postcentral gyrus")[1]
    assert set(names) == {""} | {
        f"{s} {w}" for s in ("left", "right") for w in DESIKAN_KILLIANY.values()
    }


def test_a_mask_and_one_hemisphere_keep_names_and_columns_together():
    whole = np.array(region_names(bd.load_space("fsaverage5")))
    right = fsaverage5("fsaverage5-right")
    keep = np.arange(right.n_vertices) % 3 == 0
    np.testing.assert_array_equal(region_names(right.restrict(keep)), whole[10242:][keep])


def test_averaged_hemispheres_have_no_side():
    left = fsaverage5("fsaverage5-left").hemispheres
    names = set(region_names(Surface("fsaverage5-averaged", left)))
    assert "insula" in names
    assert not any(name.startswith(("left", "right")) for name in names)


def test_a_finer_mesh_takes_the_nearest_vertex_on_the_sphere():
    coarse = fsaverage5("fsaverage5-left").hemispheres[0]
    fine = subdivide(coarse)
    nearest = nearest_on_fsaverage5(fine)
    np.testing.assert_array_equal(nearest[:10242], np.arange(10242))
    # Naively: of the vertices of fsaverage5, the one in the most similar direction.
    chosen = np.arange(10242, fine.n_mesh, 97)
    apart = np.linalg.norm(fine.coordinates[chosen, None] - coarse.coordinates[None], axis=2)
    found = apart[np.arange(len(chosen)), nearest[chosen]]
    np.testing.assert_allclose(found, apart.min(axis=1), rtol=0.02)


def test_a_mesh_of_another_family_has_no_names_and_the_reason_is_told():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(10242, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    other = bd.Surface.from_mesh("other", points, [[0, 1, 2]])
    assert region_names(other) is None
    assert "not known to be a mesh of the fsaverage family" in explain_missing(other)


def test_without_the_package_there_are_no_names_and_the_reason_is_told(monkeypatch):
    monkeypatch.delenv("FREESURFER_HOME", raising=False)
    monkeypatch.setattr(installed_atlases, "find_spec", lambda name: None)
    installed_atlases.read_fsaverage5_atlas.cache_clear()
    try:
        space = bd.load_space("fsaverage5")
        assert region_names(space) is None
        assert 'pip install "braindive[anatomy]"' in explain_missing(space)
    finally:
        installed_atlases.read_fsaverage5_atlas.cache_clear()


@pytest.mark.parametrize(
    ("place", "name"),
    [((-26, -20, -16), "left hippocampus"), ((26, -20, -16), "right hippocampus"),
     ((-62, -20, 0), "left superior temporal gyrus"), ((4, -60, 40), "right precuneus")],
)  # fmt: skip
def test_voxels_in_mni_space_have_the_names_that_textbooks_give_them(place, name):
    affine = np.eye(4)
    affine[:3, 3] = place
    assert region_names(bd.Volume("one", np.ones((1, 1, 1), dtype=bool), affine)) == [name]


def test_a_volume_elsewhere_has_no_names():
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    corner = bd.Volume("scanner", np.ones((90, 20, 20), dtype=bool), affine)
    assert region_names(corner) is None
    assert "do not lie in MNI space" in explain_missing(corner)


def test_positions_of_voxels_follow_the_columns():
    mask = np.zeros((2, 2, 3), dtype=bool)
    mask[0, 1, 2] = mask[1, 0, 0] = True
    affine = np.array([[2, 0, 0, -5], [0, 2, 0, 1], [0, 0, 3, 0], [0, 0, 0, 1.0]])
    expected = [[-5, 3, 6], [-3, 1, 0]]
    np.testing.assert_array_equal(voxel_positions(bd.Volume("v", mask, affine)), expected)


def test_shares_of_a_cluster_count_what_lies_in_no_region():
    found = find_anatomy(bd.Regions("r", ("lh_insula", "rh_insula")))
    half = anatomy.Anatomy(found.atlas, "", found.names, np.array([0, 0, 1, -1]))
    table = count_regions([1.0, 0.5, 0.5, 1.0], half)
    assert table["region"].tolist() == ["left insula", "right insula"]
    np.testing.assert_allclose(table["share"], [0.5, 1 / 6])
    np.testing.assert_allclose(table["covered"], [0.75, 0.5])


@pytest.mark.parametrize(
    ("written", "side", "atlas", "words"),
    [
        ("lh_bankssts_thickness", "left", "desikan-killiany",
         "left banks of the superior temporal sulcus"),
        ("rh.G&S_frontomargin", "right", "destrieux", "right frontomarginal gyrus and sulcus"),
        ("rh_G_and_S_cingul-Mid-Ant_volume", "right", "destrieux",
         "right middle anterior cingulate gyrus and sulcus"),
        ("Left-Thalamus-Proper", "left", "segmentation", "left thalamus"),
        ("L_precuneus_thickavg", "left", "desikan-killiany", "left precuneus"),
        ("Brain-Stem", "", "segmentation", "brainstem"),
        ("ctx_rh_S_temporal_sup", "right", "destrieux", "right superior temporal sulcus"),
        ("entorhinal.left", "left", "desikan-killiany", "left entorhinal cortex"),
        ("thickness_lh_insula", "left", "desikan-killiany", "left insula"),
        ("lingual", "", "desikan-killiany", "lingual gyrus"),
        ("lh_G.S_frontomargin_thickness", "left", "destrieux",
         "left frontomarginal gyrus and sulcus"),
        ("lh_G_subcallosal_area", "left", "destrieux", "left subcallosal gyrus"),
        ("X3rd.Ventricle", "", "segmentation", "third ventricle"),
        ("MMSE", "", "", "MMSE"),
    ],
)  # fmt: skip
def test_names_of_columns_are_understood(written, side, atlas, words):
    found = read_region_name(written)
    assert (found.side, found.atlas, found.words) == (side, atlas, words)


def test_destrieux_regions_lie_where_anatomy_has_them():
    names = np.array(region_names(bd.load_space("fsaverage5"), "destrieux"))
    points = np.concatenate([fsaverage5_mesh("pial", side)[0] for side in ("left", "right")])
    wall = np.array(region_names(bd.load_space("fsaverage5"))) == ""
    np.testing.assert_array_equal(names == "", wall)
    for side in ("left", "right"):
        found = {
            word: points[names == f"{side} {word}"].mean(axis=0)
            for word in (
                "precentral gyrus",
                "central sulcus",
                "postcentral gyrus",
                "occipital pole",
            )
        }
        order = ["precentral gyrus", "central sulcus", "postcentral gyrus", "occipital pole"]
        front_to_back = [found[word][1] for word in order]
        assert front_to_back == sorted(front_to_back, reverse=True)
        present = {name.removeprefix(f"{side} ") for name in names if name.startswith(side)}
        # One of them has a handful of voxels.
        assert len(set(DESTRIEUX.values()) - present) <= 1


@pytest.mark.parametrize(("side", "first"), [("left", 1001), ("right", 2001)])
def test_regions_found_by_the_nearest_voxel_agree_with_those_known_at_the_vertices(side, first):
    known, labels, _ = installed_atlases.read_fsaverage5_atlas("desikan-killiany", side)
    keys, found = installed_atlases.nearest_voxels(
        "desikan_killiany", side, range(first, first + 36)
    )
    cortex = np.array(known)[labels] != "unknown"
    assert np.mean(np.array(known)[labels][cortex] == np.array(keys)[found][cortex]) > 0.9


def test_regions_are_painted_where_their_vertices_are():
    space = bd.Regions(
        "mixed", ("rh_insula_thickness", "Left-Hippocampus", "lh_insula_thickness", "cuneus")
    )
    painting = paint_regions(space)
    names = np.array(region_names(bd.load_space("fsaverage5")))
    painted = painting.paint([[1.0, 2.0, 3.0, 4.0]])[0]
    expected = np.select(
        [names == "right insula", names == "left insula", np.char.endswith(names, " cuneus")],
        [1.0, 3.0, 4.0],
        np.nan,
    )
    np.testing.assert_array_equal(painted, expected)
    assert painting.left_out == ("left hippocampus",)


def test_destrieux_regions_are_painted_too():
    names = [f"{side}_{name}_thickness" for side in ("lh", "rh") for name in DESTRIEUX]
    painting = paint_regions(bd.Regions("d", names))
    assert painting.atlas == "Destrieux"
    assert len(painting.left_out) <= 1  # a region of a handful of voxels
    words = np.array([read_region_name(name).words for name in names])
    expected = np.array(region_names(bd.load_space("fsaverage5"), "destrieux"))
    drawn = painting.columns >= 0
    np.testing.assert_array_equal(drawn, expected != "")
    np.testing.assert_array_equal(words[painting.columns[drawn]], expected[drawn])


def test_regions_of_no_atlas_are_not_painted():
    assert paint_regions(bd.Regions("own", ("here", "there"))) is None


def test_freesurfers_own_annotations_come_first(tmp_path, monkeypatch):
    label = tmp_path / "subjects" / "fsaverage5" / "label"
    label.mkdir(parents=True)
    numbers = np.full(10242, -1)
    numbers[:3] = [0, 1, 1]
    colours = np.array([[25, 5, 25, 0, 0], [10, 20, 30, 0, 1]])
    nib.freesurfer.write_annot(
        label / "lh.aparc.a2009s.annot", numbers, colours, ["Unknown", "S_central"], fill_ctab=True
    )
    monkeypatch.setenv("FREESURFER_HOME", str(tmp_path))
    installed_atlases.read_fsaverage5_atlas.cache_clear()
    try:
        found = find_anatomy(bd.load_space("fsaverage5-left"), "destrieux")
        assert found.source == "FreeSurfer"
        assert found.of_vertices()[:4] == ["", "left central sulcus", "left central sulcus", ""]
    finally:
        installed_atlases.read_fsaverage5_atlas.cache_clear()
