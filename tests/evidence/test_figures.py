"""Figures of the experiments: what they show is what was computed."""

import numpy as np
import pandas as pd
import pytest

from braindive.evaluation.groups import PARAMETERS
from figures import (
    plot_areas,
    plot_chosen_clusters,
    plot_p_values,
    plot_recovery,
)


def recovery_rows(step, values):
    """Two repeats of each step; every measure is the step's number plus an offset of its own."""
    return pd.DataFrame(
        [
            {
                step: value,
                "score_error": 100.0 * value + repeat,
                "midpoint_error": 10.0 * value + repeat,
                "agreement": 0.9 - 0.1 * repeat,
                "ceiling": 0.95,
            }
            for value in values
            for repeat in (0, 2)
        ]
    )


@pytest.fixture
def recovery_figure():
    closer = recovery_rows("spacing", [0.1, 0.3, 0.2])
    fewer = recovery_rows("n_subjects", [5, 300])
    published = {"closer trajectories": {0.3: 0.97, 0.1: 0.7}, "fewer subjects": {300: 0.98}}
    return plot_recovery(closer, fewer, published)


def bars(container):
    """Half lengths of the error bars."""
    segments = container.lines[2][0].get_segments()
    return [np.ptp(segment[:, 1]) / 2 for segment in segments]


def test_errors_are_means_over_repeats_from_the_easiest_step_to_the_hardest(recovery_figure):
    scores = recovery_figure.axes[0].containers[0]
    np.testing.assert_allclose(scores.lines[0].get_ydata(), [31.0, 21.0, 11.0])
    midpoints = recovery_figure.axes[3].containers[0]
    np.testing.assert_allclose(midpoints.lines[0].get_ydata(), [3001.0, 51.0])
    labels = [label.get_text() for label in recovery_figure.axes[0].get_xticklabels()]
    assert labels == ["0.3", "0.2", "0.1"]


def test_bars_are_one_standard_deviation_over_repeats(recovery_figure):
    np.testing.assert_allclose(bars(recovery_figure.axes[0].containers[0]), np.sqrt(2.0))


def test_panels_are_lettered_as_in_the_supplement(recovery_figure):
    letters = [ax.get_title(loc="left") for ax in recovery_figure.axes]
    assert letters == ["A", "C", "B", "D", "E", "F"]
    left, right = recovery_figure.axes[2], recovery_figure.axes[1]
    assert (left.get_ylabel(), right.get_ylabel()) == (
        "error in midpoints (SSD)",
        "error in scores (SSD)",
    )
    assert right.get_xlabel() == "subjects"


def test_agreement_stands_beside_its_ceiling_and_the_papers_numbers(recovery_figure):
    ax = recovery_figure.axes[4]
    drawn = {bar.get_label(): bar.lines[0].get_ydata() for bar in ax.containers}
    np.testing.assert_allclose(drawn["ceiling"], 0.95)
    np.testing.assert_allclose(drawn["DIVE"], 0.8)
    (paper,) = [line for line in ax.lines if line.get_label() == "paper"]
    # The paper has no number for the step in the middle.
    np.testing.assert_allclose(paper.get_xdata(), [0, 2])
    np.testing.assert_allclose(paper.get_ydata(), [0.97, 0.7])


def test_areas_show_both_settings_of_the_field_from_rough_to_smooth_noise():
    frame = pd.DataFrame(
        {
            "smoothing": [2, 0, 2, 0],
            "spatial": ["auto", "auto", None, None],
            "agreement": [0.9, 0.98, 0.61, 0.62],
        }
    )
    ax = plot_areas(frame)
    drawn = {bar.get_label(): bar.lines[0].get_ydata() for bar in ax.containers}
    np.testing.assert_allclose(drawn["with field"], [0.98, 0.9])
    np.testing.assert_allclose(drawn["without field"], [0.62, 0.61])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "2"]


def test_one_repeat_has_no_bars():
    frame = pd.DataFrame({"smoothing": [0], "spatial": ["auto"], "agreement": [0.9]})
    without = frame.assign(spatial=None, agreement=0.5)
    ax = plot_areas(pd.concat([frame, without]))
    assert bars(ax.containers[0]) == [0.0]


def test_chosen_numbers_are_means_over_seeds_beside_the_truth_and_the_papers():
    rows = [
        {"kind": kind, "n_true": n_true, "criterion": name, "chosen": n_true + more + seed}
        for kind, more in (("alike", 0), ("own", 4))
        for n_true in (5, 2)
        for name in ("AIC", "stability")
        for seed in (0, 1)
    ]
    published = {"AIC": {2: 2, 5: 6, 10: 12}, "BIC": {2: 3}}
    figure = plot_chosen_clusters(pd.DataFrame(rows), published, {"alike": "alike", "own": "own"})
    assert [ax.get_title() for ax in figure.axes] == ["alike", "own"]
    for ax, more in zip(figure.axes, (0, 4), strict=True):
        drawn = {line.get_label(): line for line in ax.lines}
        assert list(drawn) == ["AIC", "stability", "paper: AIC", "paper: BIC", "truth"]
        # Side by side, near the true numbers.
        np.testing.assert_allclose(drawn["AIC"].get_xdata(), [2, 5], rtol=0.05)
        assert (drawn["AIC"].get_xdata() < drawn["stability"].get_xdata()).all()
        np.testing.assert_allclose(drawn["AIC"].get_ydata(), [2.5 + more, 5.5 + more])
        np.testing.assert_allclose(drawn["paper: AIC"].get_ydata(), [2, 6])
        np.testing.assert_allclose(drawn["paper: BIC"].get_xdata(), [2])
        np.testing.assert_allclose(drawn["truth"].get_ydata(), [2, 5])


def test_p_values_of_cohorts_without_an_effect_are_drawn_as_their_distribution():
    rows = [
        {"effect": effect, "parameter": parameter, "p_value": p_value}
        for parameter in PARAMETERS
        for effect, p_value in ((0.0, 0.8), (0.0, 0.2), (0.8, 0.001))
    ]
    ax = plot_p_values(pd.DataFrame(rows))
    *lines, diagonal = ax.lines
    assert [line.get_label() for line in lines] == list(PARAMETERS)
    for line in lines:
        np.testing.assert_allclose(line.get_xdata(), [0.2, 0.8])
        np.testing.assert_allclose(line.get_ydata(), [0.5, 1.0])
        assert line.get_drawstyle() == "steps-post"
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
