import numpy as np
import pytest
from matplotlib.colors import to_hex

import braindive as bd
from braindive.palette import cluster_colours


@pytest.fixture(scope="module")
def regions_model():
    names = [f"region {i}" for i in range(12)]
    simulation = bd.simulate_cohort(n_subjects=40, n_vertices=12, noise=0.5, random_state=0)
    drawn = simulation.cohort
    cohort = bd.Cohort(
        np.asarray(drawn.values),
        subjects=drawn.subjects,
        times=drawn.times,
        space=bd.Regions("twelve", names),
    )
    return bd.DIVE(3, n_init=1, spatial=None, people="alike", random_state=0).fit(cohort)


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


def test_places_without_a_space_are_bars_too(model):
    ax = bd.plot_clusters(model).axes[0]
    heights = np.array([[bar.get_height() for bar in bars] for bars in ax.containers])
    np.testing.assert_allclose(heights.sum(axis=0), 1.0)
    counts = np.bincount(model.labels_, minlength=len(heights))
    np.testing.assert_array_equal(np.bincount(heights.argmax(axis=0)), counts)
