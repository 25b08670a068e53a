"""Scores against cognition, age and the truth, and maps of groups."""

import numpy as np
import pytest
from scipy import stats

import braindive as bd


@pytest.fixture(scope="module")
def simulation():
    return bd.simulate_cohort(
        30,
        n_visits=3,
        n_vertices=60,
        noise=0.3,
        cognition=True,
        control_share=0.4,
        random_state=0,
    )


@pytest.fixture(scope="module")
def model(simulation):
    return bd.DIVE(3, n_init=1, personal=False, random_state=0).fit(simulation.cohort)


def test_each_cognitive_test_has_a_panel_with_its_correlation(model, simulation):
    figure = bd.plot_cognition(model, ["CDRSOB", "MMSE"], by="diagnosis")
    results = simulation.cohort.table["MMSE"].to_numpy(float)
    known = np.isfinite(results)
    expected = stats.spearmanr(model.scores_[known], results[known]).statistic
    panel = figure.axes[1]
    assert panel.get_ylabel() == "MMSE"
    assert panel.get_title() == f"Spearman {expected:.2f}".replace("-", "\N{MINUS SIGN}")
    drawn = np.concatenate([line.get_xydata() for line in panel.lines])
    assert np.isfinite(drawn).all(axis=1).sum() == known.sum()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["CN (12)", "patient (18)"]


def test_every_person_has_a_line_along_their_own_visits(model, simulation):
    ax = bd.plot_scores(model, by="diagnosis")
    assert len(ax.lines) == 30
    cohort = simulation.cohort
    first = cohort.subjects == cohort.subject_ids[0]
    order = np.argsort(cohort.times[first])
    expected = np.column_stack([cohort.times[first][order], model.scores_[first][order]])
    assert any(np.array_equal(line.get_xydata(), expected) for line in ax.lines)


def test_the_truth_is_drawn_in_the_models_unit(model, simulation):
    figure = bd.plot_truth(model, simulation)
    scores, speeds, curves = figure.axes
    true, found = scores.lines[0].get_data()
    np.testing.assert_array_equal(found, model.scores_)
    # A straight line through the scores: no shift and no stretch is left between the two.
    np.testing.assert_allclose(np.polyfit(true, found, 1), [1, 0], atol=1e-8)
    assert speeds.lines[0].get_xydata().shape == (30, 2)
    solid, dashed = curves.lines[:3], curves.lines[3:]
    for one, other in zip(solid, dashed, strict=True):
        assert one.get_color() == other.get_color()
        assert np.abs(one.get_ydata() - other.get_ydata()).max() < 0.25


def test_a_model_of_another_cohort_has_no_truth_here(model):
    other = bd.simulate_cohort(10, n_visits=2, n_vertices=60, random_state=0)
    with pytest.raises(bd.ParameterError, match="90 visits"):
        bd.plot_truth(model, other)


@pytest.mark.parametrize(
    "draw", [bd.plot_cognition, lambda model, names: bd.plot_scores(model, *names)]
)
def test_a_column_that_is_not_there_is_named(model, draw):
    with pytest.raises(bd.ParameterError, match="no column 'MoCA'"):
        draw(model, ["MoCA"])


@pytest.mark.parametrize(
    ("show", "titles"), [("mean", ["CN", "patient"]), ("difference", ["patient"])]
)
def test_each_group_has_a_brain(show, titles):
    space = bd.Volume("block", np.ones((4, 5, 4), dtype=bool), 10 * np.eye(4))
    cohort = bd.simulate_cohort(20, space=space, control_share=0.4, random_state=0).cohort
    figure = bd.plot_group_maps(cohort, show=show)
    assert [text.get_text() for text in figure.texts] == titles
    drawn = np.array(figure.axes[0].images[0].get_array())
    volume = space.unmask(bd.group_maps(cohort, show=show).loc[titles[0]].to_numpy())
    assert np.isin(drawn[np.isfinite(drawn)], volume).all()
