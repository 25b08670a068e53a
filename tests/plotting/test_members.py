import copy

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import ListedColormap, to_hex

import braindive as bd
from braindive.io.anatomy import region_names
from braindive.palette import cluster_colours
from braindive.plotting.drawing import picture_of
from braindive.space.fsaverage import fsaverage5_mesh


@pytest.fixture(scope="module")
def regions_model():
    names = [f"region {i}" for i in range(12)]
    simulation = bd.simulate_cohort(n_subjects=40, n_vertices=12, noise=0.1, random_state=0)
    drawn = simulation.cohort
    cohort = bd.Cohort(
        np.asarray(drawn.values),
        subjects=drawn.subjects,
        times=drawn.times,
        space=bd.Regions("twelve", names),
    )
    return bd.DIVE(3, n_init=1, spatial=None, people="alike", personal=False, random_state=0).fit(
        cohort
    )


def test_regions_are_bars_of_their_probabilities_in_the_order_of_their_clusters(regions_model):
    ax = bd.plot_clusters(regions_model).axes[0]
    names = [label.get_text() for label in ax.get_yticklabels()]
    rows = [regions_model.space_.names.index(name) for name in names]
    assert sorted(rows) == list(range(12))
    assert (np.diff(regions_model.labels_[rows]) >= 0).all()
    for k, bars in enumerate(ax.containers):
        widths = [bar.get_width() for bar in bars]
        np.testing.assert_allclose(widths, regions_model.responsibilities_[rows, k], atol=1e-12)
        assert to_hex(bars[0].get_facecolor()) == cluster_colours(3)[k]
    ends = [bar.get_x() + bar.get_width() for bar in ax.containers[-1]]
    np.testing.assert_allclose(ends, 1.0)


@pytest.fixture(scope="module")
def painted_model(regions_model):
    """The same fit of regions that have names of Desikan-Killiany, but for two of them."""
    names = [f"{side}_{name}_thickness" for side in ("lh", "rh") for name in
             ("insula", "precuneus", "lingual", "cuneus", "fusiform")]  # fmt: skip
    painted = copy.copy(regions_model)
    painted.space_ = bd.Regions("twelve", [*names, "Left-Hippocampus", "my own"])
    return painted


def test_regions_of_an_atlas_are_painted_and_listed(painted_model):
    figure = bd.plot_clusters(painted_model)
    labels = [ax.get_label() for ax in figure.axes]
    assert labels[:4] == ["left lateral", "right lateral", "left medial", "right medial"]
    listed = [label.get_text() for label in figure.axes[4].get_yticklabels()]
    assert sorted(listed) == sorted(region_names(painted_model.space_))
    assert {"left insula", "left hippocampus", "my own"} <= set(listed)


def test_a_painted_region_has_the_colour_of_its_value():
    figure, axes = plt.subplots(1, 2)
    picture = picture_of(bd.Regions("two", ("lh_insula", "lh_precuneus")))
    picture.draw(axes, np.array([0.0, 1.0]), ListedColormap(["red", "blue"]), plt.Normalize(0, 1))
    names = np.array(region_names(bd.load_space("fsaverage5-left")))
    _, faces = fsaverage5_mesh("inflated", "left")
    colours = np.concatenate([ax.collections[0].get_facecolors() for ax in axes])
    # A triangle has a colour if all its corners lie in the two regions; shade makes it darker.
    for name, colour in (("left insula", 0), ("left precuneus", 2)):
        n_inside = (names[faces] == name).all(axis=1).sum()
        other = colours[:, [channel for channel in range(3) if channel != colour]]
        n_drawn = ((colours[:, colour] > 0.5) & (other < 1e-9).all(axis=1)).sum()
        assert 0.5 * n_inside < n_drawn <= n_inside
    plt.close(figure)


def test_the_course_is_painted_too(painted_model):
    figure = bd.plot_pathology(painted_model, scores=[0.0])
    assert figure.axes[0].get_label() == "left lateral"


def test_regions_of_no_atlas_have_no_brain_to_draw_the_course_on(regions_model):
    with pytest.raises(bd.ParameterError, match="names of Desikan-Killiany or Destrieux"):
        bd.plot_pathology(regions_model)


def test_places_without_a_space_are_bars_too(model):
    ax = bd.plot_clusters(model).axes[0]
    heights = np.array([[bar.get_height() for bar in bars] for bars in ax.containers])
    np.testing.assert_allclose(heights.sum(axis=0), 1.0)
    counts = np.bincount(model.labels_, minlength=len(heights))
    np.testing.assert_array_equal(np.bincount(heights.argmax(axis=0)), counts)
