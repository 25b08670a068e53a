import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

import braindive as bd
from braindive.plotting.people import PARAMETERS


@pytest.fixture(scope="module")
def first_scores(model, cohort):
    order = np.lexsort((cohort.times, cohort.subjects.astype(str)))
    first = pd.Series(model.scores_[order], index=cohort.subjects[order])
    return first[~first.index.duplicated()]


@pytest.fixture(scope="module")
def sexes(model):
    names = np.where(np.arange(len(model.subjects_)) % 3 == 0, "f", "m")
    return pd.Series(names, index=model.subjects_, name="sex")


def test_rows_hold_the_first_scores_of_each_diagnosis(model, cohort, first_scores):
    ax = bd.plot_stages(model)
    controls = set(cohort.subjects[cohort.controls])
    is_control = np.array([subject in controls for subject in first_scores.index])
    np.testing.assert_allclose(ax.lines[0].get_xdata(), np.sort(first_scores[is_control]))
    np.testing.assert_allclose(ax.lines[1].get_xdata(), np.sort(first_scores[~is_control]))
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels == [f"CN ({is_control.sum()})", f"patient ({(~is_control).sum()})"]
    assert ax.get_xlabel() == "disease progression score at first visit (years)"


def test_speed_stands_against_first_score(model, first_scores):
    line = bd.plot_speed_shift(model).lines[0]
    np.testing.assert_allclose(line.get_xdata(), first_scores[model.subjects_])
    np.testing.assert_allclose(line.get_ydata(), model.speeds_)


def test_a_group_has_one_colour_in_all_figures(model, sexes):
    stages, speeds = bd.plot_stages(model, sexes), bd.plot_speed_shift(model, sexes)
    named = [label.get_text() for label in stages.get_yticklabels()]
    by_stage = {
        name: to_hex(line.get_color()) for name, line in zip(named, stages.lines, strict=True)
    }
    assert by_stage == {line.get_label(): to_hex(line.get_color()) for line in speeds.lines}


def test_subjects_without_a_group_are_left_out(model, sexes):
    known = sexes.where(np.arange(len(sexes)) > 10)
    lines = bd.plot_speed_shift(model, known).lines
    assert sum(len(line.get_xdata()) for line in lines) == len(sexes) - 11


def test_groups_show_each_parameter_with_mean_and_p_value(model, sexes):
    figure = bd.plot_groups(model, sexes)
    table = bd.compare_groups(model, sexes)
    for ax, parameter in zip(figure.axes, PARAMETERS, strict=True):
        means = [bar.lines[0].get_ydata()[0] for bar in ax.containers]
        np.testing.assert_allclose(means, table.loc[parameter, ["mean_f", "mean_m"]].astype(float))
        assert f"corrected p = {table['p_corrected'][parameter]:.3f}" in ax.get_title()
        assert ax.get_xlabel() == "sex"
        assert ax.get_ylabel()


def test_an_unknown_column_is_named_with_those_there_are(model):
    with pytest.raises(bd.ParameterError, match=r"'education'.*diagnosis"):
        bd.plot_stages(model, by="education")


def test_a_model_without_staging_is_refused(cohort):
    model = bd.no_staging_model(n_clusters=2, n_init=1, personal=False, random_state=0).fit(cohort)
    with pytest.raises(bd.ParameterError, match="staging"):
        bd.plot_stages(model)
