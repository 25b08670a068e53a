"""The score has the same name and unit wherever people read about it."""

import copy
import json
import re

import numpy as np
import pytest

import braindive as bd
from braindive.score_names import explain_score, name_score


@pytest.fixture(scope="module")
def cohort():
    return bd.simulate_cohort(
        n_subjects=40, n_vertices=60, noise=0.3, control_share=0.3, random_state=0
    ).cohort


def fitted(cohort, **settings):
    settings = {"people": "alike", "personal": False, "n_init": 1} | settings
    return bd.DIVE(2, random_state=0, **settings).fit(cohort)


def test_years_are_said_where_the_score_is_in_years(cohort):
    model = fitted(cohort)
    assert name_score(model, "score") == "score (years)"
    assert "half-way" in explain_score(model)
    assert "a year at the mean speed of the people who are not controls" in explain_score(model)


def test_the_published_unit_is_that_of_the_controls(cohort):
    model = fitted(cohort, scale="controls")
    assert name_score(model, "score") == "score"
    assert "standard deviation of the controls' scores" in explain_score(model)


def test_without_follow_up_the_unit_is_no_year(cohort):
    with pytest.warns(bd.DataWarning, match="no years can be known"):
        model = fitted(cohort.first_visits(1))
    assert name_score(model, "score") == "score"
    assert "not a year" in explain_score(model)


def test_scores_too_far_apart_for_a_life_are_no_years_where_no_progression_was_found(cohort):
    model = fitted(cohort)
    far = copy.copy(model)
    far.scores_ = 1e5 * model.scores_
    far.trajectories_ = model.trajectories_.rescored(0.0, 1e-5)
    for name in ("shifts_", "speeds_"):
        setattr(far, name, 1e5 * getattr(model, name))
    assert name_score(far, "score") == "score (years)"  # the fit says that people progress
    far.progression_found_, far.progression_p_ = False, 0.6
    assert name_score(far, "score") == "score"
    assert "nothing can be said in years" in explain_score(far)
    page = bd.build_report(far).html
    assert "years later" not in page
    assert "one standard deviation of the scores further" in page
    data = json.loads(re.search(r'id="report-data">(.*?)</script>', page, re.DOTALL)[1])
    spread = model.scores_.std()
    assert -20 < data["range"]["low"] < data["range"]["high"] < 20
    onsets = [cluster["onset"] for cluster in data["clusters"]]
    np.testing.assert_allclose(onsets, model.trajectories_.midpoint / spread, atol=1e-3)
    assert data["scoreInYears"] is False


def test_without_staging_the_score_is_time(cohort):
    model = fitted(cohort, staging=False)
    assert name_score(model, "time") == "time (years)"
    assert explain_score(model) == "It is the time of the visit, in years."


@pytest.mark.parametrize(("scale", "ending"), [("years", " (years)"), ("controls", "")])
def test_figures_and_report_say_the_same_unit(cohort, scale, ending):
    model = fitted(cohort, scale=scale)
    name = "disease progression score"
    assert bd.plot_trajectories(model).get_xlabel() == f"{name}{ending}"
    assert bd.plot_stages(model).get_xlabel() == f"{name} at first visit{ending}"
    assert bd.plot_speed_shift(model).get_xlabel() == f"{name} at first visit{ending}"
    labels = [ax.get_ylabel() for ax in bd.plot_groups(model, by="diagnosis").axes]
    assert labels[0] == f"shift: score at time 0{ending}"
    assert labels[2] == f"score at first visit{ending}"
    page = bd.build_report(model).html
    data = json.loads(re.search(r'id="report-data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["scoreName"] == f"Disease score{ending}"
    assert f'<label for="score">Disease score{ending}</label>' in page
    assert ("zero is where the earliest area is half-way" in page) == (scale == "years")
