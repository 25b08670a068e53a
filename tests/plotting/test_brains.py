import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgba

import braindive as bd
from braindive.palette import cluster_colours
from braindive.plotting.drawing import NO_VALUE, CortexPicture, SlicePicture, display_mesh
from braindive.space import Hemisphere
from braindive.space.fsaverage import fsaverage5_mesh


@pytest.fixture(scope="module")
def block():
    mask = np.ones((6, 7, 5), dtype=bool)
    mask[0, 0, 0] = False
    return bd.Volume("block", mask, np.diag([-10.0, 10.0, 10.0, 1.0]))


@pytest.fixture(scope="module")
def block_model(block):
    cohort = bd.simulate_cohort(n_subjects=20, space=block, noise=0.3, random_state=0).cohort
    return bd.DIVE(n_clusters=3, n_init=1, personal=False, random_state=0).fit(cohort)


@pytest.fixture(scope="module")
def cortex_model():
    """A right hemisphere without its medial wall, in two regions, front and back."""
    whole = bd.load_space("fsaverage5-right")
    x, y, _ = whole.hemispheres[0].coordinates.T
    space = whole.restrict(x > -60)
    cohort = bd.simulate_cohort(
        n_subjects=6, n_visits=3, space=space, noise=0.1, random_state=0
    ).cohort
    front = (y > 0)[whole.hemispheres[0].mask & (x > -60)]
    return bd.roi_model(np.where(front, "front", "back"), spatial=None, personal=False).fit(
        cohort
    ), front


def shaded(colours, colour):
    """Which colours are a darker shade of the given one."""
    ratio = colours[:, :3] / np.maximum(to_rgba(colour)[:3], 1e-9)
    return (np.ptp(ratio, axis=1) < 1e-6) & (ratio[:, 0] > 0.5) & (ratio[:, 0] <= 1 + 1e-9)


def test_faces_of_a_cortex_have_the_colours_of_their_clusters(cortex_model):
    model, _ = cortex_model
    figure = bd.plot_clusters(model)
    assert [ax.get_label() for ax in figure.axes] == ["right lateral", "right medial"]
    palette = cluster_colours(2)
    front = palette[list(model.cluster_names_).index("front")]
    back = palette[list(model.cluster_names_).index("back")]
    lateral, medial = (ax.collections[0] for ax in figure.axes)
    # From the right, the front of the brain (y) points to the right.
    middles = np.array([path.vertices[:3, 0].mean() for path in lateral.get_paths()])
    colours = lateral.get_facecolors()
    assert shaded(colours[middles > 40], front).mean() > 0.9
    assert shaded(colours[middles < -80], back).mean() > 0.9
    assert shaded(medial.get_facecolors(), NO_VALUE).mean() > 0.2
    assert not shaded(colours, NO_VALUE).mean() > 0.1


def test_both_hemispheres_are_shown_from_both_sides():
    picture = CortexPicture(bd.load_space("fsaverage5"))
    assert picture.panels == [
        ("left", "lateral"),
        ("right", "lateral"),
        ("left", "medial"),
        ("right", "medial"),
    ]
    assert len(picture.heights) == 2


def test_a_finer_mesh_is_shown_on_its_first_vertices():
    coarse = bd.load_space("fsaverage5-left").hemispheres[0]
    more = np.concatenate([coarse.coordinates, coarse.coordinates[:5]])
    mesh = display_mesh(Hemisphere("left", more, coarse.faces))
    assert mesh.n_mesh == 10242
    assert not np.allclose(np.linalg.norm(mesh.coordinates, axis=1), 100, atol=5)


def test_a_folded_mesh_that_is_called_fsaverage_is_shown_inflated():
    folded = bd.Surface("fsaverage5", (Hemisphere("left", *fsaverage5_mesh("pial", "left")),))
    figure = CortexPicture(folded)
    assert figure.heights == CortexPicture(bd.load_space("fsaverage5-left")).heights
    other = CortexPicture(bd.Surface("sub-01", folded.hemispheres))
    assert figure.heights != other.heights


def test_another_mesh_is_shown_as_it_is():
    mesh = display_mesh(Hemisphere("left", np.eye(3), [[0, 1, 2]]))
    np.testing.assert_array_equal(mesh.coordinates, np.eye(3))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("flat_axis", [0, 1, 2])
def test_a_flat_mesh_is_drawn_whole_from_both_its_sides(flat_axis, side):
    """As of a cortex that was cut and flattened: a grid of 4 x 5 vertices in a plane."""
    grid = np.array([(column, row) for row in range(5) for column in range(4)], dtype=float)
    corners = np.array([4 * row + column for row in range(4) for column in range(3)])
    faces = np.concatenate([corners[:, None] + [0, 1, 5], corners[:, None] + [0, 5, 4]])
    part = Hemisphere(side, np.insert(grid, flat_axis, 3.0, axis=1), faces)
    cohort = bd.simulate_cohort(
        n_subjects=10,
        space=bd.Surface("flat", (part,)),
        noise=0.1,
        control_share=0.3,
        random_state=0,
    ).cohort
    model = bd.roi_model(grid[:, 1] > 2, spatial=None, personal=False).fit(cohort)
    lateral, medial = bd.plot_clusters(model).axes
    for ax in (lateral, medial):
        (drawn,) = ax.collections
        assert len(drawn.get_paths()) == len(faces)
        middles = np.array([path.vertices[:3].mean(axis=0) for path in drawn.get_paths()])
        np.testing.assert_allclose(np.ptp(middles, axis=0), [7 / 3, 10 / 3])
        # Nothing is shaded, and all triangles above the third row have the colour of their region.
        late = cluster_colours(2)[list(model.cluster_names_).index("True")]
        is_late = [to_hex(colour) == late for colour in drawn.get_facecolors()]
        np.testing.assert_array_equal(is_late, middles[:, 1] > 2.5)


def test_slices_show_the_labels_upright(block_model, block):
    figure = bd.plot_clusters(block_model)
    axial = figure.axes[7]
    assert axial.get_label() == "z = 20 mm"
    shown = axial.images[0].get_array()
    labels = block.unmask(block_model.labels_.astype(float))
    # The first axis of the volume runs from right to left, so the picture is flipped.
    np.testing.assert_array_equal(shown, labels[::-1, :, 2].T)
    colour_map = axial.images[0].get_cmap()
    assert [to_hex(colour_map(k)) for k in range(3)] == cluster_colours(3)


def test_voxels_outside_the_mask_have_no_colour(block):
    from matplotlib import pyplot as plt

    picture = SlicePicture(block)
    _, axes = plt.subplots(3, 3)
    values = np.arange(block.n_vertices)
    picture.draw(axes.ravel(), values, plt.get_cmap("viridis"), plt.Normalize(0, 9))
    n_shown = sum(np.ma.count(ax.images[0].get_array()) for ax in axes.ravel())
    cuts = picture.panels
    assert n_shown == sum(np.take(block.mask[::-1], cut, axis=axis).sum() for axis, cut in cuts)


def test_pathology_is_the_expected_value_on_one_scale(block_model, block):
    figure = bd.plot_pathology(block_model, scores=[-1.0, 0.5])
    assert [text.get_text() for text in figure.texts] == ["score \N{MINUS SIGN}1.0", "score +0.5"]
    expected = block_model.trajectories_.evaluate([-1.0, 0.5]) @ block_model.responsibilities_.T
    images = [ax.images[0] for ax in figure.axes if ax.images]
    assert len(images) == 6
    for image in images:
        np.testing.assert_allclose(image.get_clim(), (expected.min(), expected.max()))
    shown = images[5].get_array()
    np.testing.assert_allclose(shown, block.unmask(expected[1])[::-1, :, 2].T)
    assert figure.axes[-1].get_xlabel() == "expected value"


def test_a_brain_without_space_says_what_to_do(model):
    with pytest.raises(bd.ParameterError, match="space"):
        bd.plot_pathology(model)


def test_scores_that_are_no_numbers_are_refused(block_model):
    with pytest.raises(bd.ParameterError, match="scores"):
        bd.plot_pathology(block_model, scores=[np.nan])
