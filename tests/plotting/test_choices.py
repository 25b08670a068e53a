import numpy as np
import pandas as pd

import braindive as bd


def test_convergence_shows_every_iteration_and_the_ending(model):
    ax = bd.plot_convergence(model)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.objective_)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.arange(1, model.n_iter_ + 1))
    assert ax.get_title() == f"converged after {model.n_iter_} iterations"
    assert ax.get_ylabel() == "log posterior"


def selection():
    return pd.DataFrame(
        {
            "aic": [10.0, 4.0, 3.0],
            "bic": [10.0, 5.0, 6.0],
            "held_out": [-3.0, -2.0, -1.9],
            "held_out_se": [0.1, 0.2, 0.3],
            "held_out_gap_se": [0.1, 0.05, 0.0],
            "rand": [0.9, 0.8, 0.4],
            "rand_se": [0.01, 0.01, np.nan],
            "dice": [0.95, 0.85, 0.5],
        },
        index=pd.Index([2, 3, 4], name="n_clusters"),
    )


def test_selection_shows_criteria_above_their_lowest_held_out_and_stability():
    frame = selection()
    criteria, held_out, stability = bd.plot_selection(frame).axes
    np.testing.assert_allclose(criteria.lines[0].get_ydata(), [7, 1, 0])
    np.testing.assert_allclose(criteria.lines[1].get_ydata(), [5, 0, 1])
    np.testing.assert_allclose(held_out.containers[0].lines[0].get_ydata(), frame["held_out"])
    np.testing.assert_allclose(stability.containers[0].lines[0].get_ydata(), frame["rand"])
    for ax in (criteria, held_out, stability):
        assert ax.lines[-1].get_xdata()[0] == bd.recommend_n_clusters(frame).n_clusters
        assert ax.get_xlabel() == "number of clusters"


def test_selection_leaves_out_panels_that_were_not_computed():
    figure = bd.plot_selection(selection()[["aic", "bic"]])
    assert len(figure.axes) == 1


def comparison():
    rows = [
        {"model": model, "fold": fold, "measure": measure, "value": level + 0.1 * fold}
        for model, level in (("DIVE", 0.4), ("no staging", 0.0))
        for measure in ("MMSE", "CDRSOB", "RMSE")
        for fold in range(3)
    ]
    return pd.DataFrame(rows)


def test_comparison_shows_folds_and_their_means_by_measure():
    figure = bd.plot_comparison(comparison())
    assert [ax.get_title() for ax in figure.axes] == ["MMSE", "CDRSOB", "RMSE"]
    for ax in figure.axes:
        np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.4, 0.5, 0.6])
        means = [bar.lines[0].get_ydata()[0] for bar in ax.containers]
        np.testing.assert_allclose(means, [0.5, 0.1])
        assert [label.get_text() for label in ax.get_xticklabels()] == ["DIVE", "no staging"]
    assert figure.axes[2].get_ylabel() == "error of prediction"


def test_correlations_share_a_scale_that_holds_all_folds():
    frame = comparison()
    frame.loc[(frame["measure"] == "CDRSOB") & (frame["model"] == "DIVE"), "value"] = 0.9
    first, second, error = bd.plot_comparison(frame).axes
    assert first.get_ylim() == second.get_ylim() != error.get_ylim()
    assert first.get_ylim()[1] > 0.9
    assert first.get_ylim()[0] < 0.0


def test_a_fold_without_a_value_is_left_out():
    frame = comparison()
    frame.loc[0, "value"] = np.nan
    ax = bd.plot_comparison(frame).axes[0]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.5, 0.6])
