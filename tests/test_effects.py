"""Covariates of a fit: effects, errors, files, new people and words."""

import numpy as np
import pandas as pd
import pytest

import braindive as bd


@pytest.fixture(scope="module")
def simulation():
    return bd.simulate_cohort(
        90,
        n_vertices=60,
        noise=0.3,
        midpoints=(-6, 6),
        carrier_share=0.4,
        carriers_shift=9,
        carriers_speed=1.5,
        random_state=2,
    )


def dive(**settings):
    return bd.DIVE(2, n_init=1, personal=False, random_state=0, **settings)


@pytest.fixture(scope="module")
def model(simulation):
    return dive(shift_on=["apoe4"], speed_on=["apoe4"]).fit(simulation.cohort)


def test_planted_effects_lie_within_the_intervals(model, simulation):
    truth, unit = simulation.truth, simulation.truth.speeds.mean()
    carriers = simulation.cohort.first_visits(1).table["apoe4"].to_numpy(bool)
    shift, speed = (row for _, row in model.effects_.iterrows())
    assert list(model.effects_["parameter"]) == ["shift", "speed"]
    for end, sign in (("low", -1), ("high", 1)):
        assert shift[end] == pytest.approx(shift["estimate"] + sign * 1.987 * shift["se"], rel=1e-2)
    in_sample = truth.shifts[carriers].mean() - truth.shifts[~carriers].mean()
    assert shift["estimate"] == pytest.approx(in_sample / unit, abs=1.0)
    assert shift["low"] < 9 / unit < shift["high"]
    assert speed["low"] < 1.5 < speed["high"]
    assert shift["p"] < 0.05
    assert speed["p"] < 0.01


def test_carriers_and_others_are_staged_the_same_way_after_the_fit(model, simulation):
    stages = model.stage(simulation.cohort)
    np.testing.assert_allclose(stages["speed"], model.speeds_, rtol=1e-9)
    np.testing.assert_allclose(stages["shift"], model.shifts_, rtol=1e-9)


def test_new_people_are_staged_with_their_covariates_or_as_usual_ones(model, simulation):
    one = simulation.cohort.select(subjects=list(simulation.cohort.subject_ids[:1]))
    stages = {}
    for carrier in (0, 1, None):
        table = pd.DataFrame({"apoe4": [carrier] * 4}, dtype=object)
        cohort = bd.Cohort(one.values, subjects=one.subjects, times=one.times, table=table)
        if carrier is None:
            with pytest.warns(bd.DataWarning, match="usual ones"):
                stages[carrier] = model.stage(cohort)["speed"].iloc[0]
        else:
            stages[carrier] = model.stage(cohort)["speed"].iloc[0]
    assert stages[0] < stages[None] < stages[1]


def test_groups_are_compared_by_a_model_that_knows_other_covariates(simulation):
    random = np.random.default_rng(0).integers(0, 2, simulation.cohort.n_subjects)
    sex = random[simulation.cohort.subject_index]
    cohort = cohort_of(simulation, sex=sex)
    knowing = dive(shift_on=["sex"]).fit(cohort)
    for people in (None, cohort):
        table = bd.compare_groups(knowing, "apoe4", cohort=people)
        # Carriers were planted 9 years ahead.
        assert table.loc["shift", "p_value"] < 0.05


def test_a_saved_model_keeps_its_covariates(model, simulation, tmp_path):
    model.save(tmp_path / "fit.dive")
    again = bd.load_model(tmp_path / "fit.dive")
    pd.testing.assert_frame_equal(again.effects_, model.effects_)
    pd.testing.assert_frame_equal(again.stage(simulation.cohort), model.stage(simulation.cohort))
    assert again.shift_on == ["apoe4"]


def test_the_unit_of_a_number_does_not_change_its_test(simulation):
    cohort = simulation.cohort
    education = np.repeat(np.random.default_rng(0).normal(12, 3, 90), 4)
    found = []
    for scale in (1.0, 12.0):
        table = cohort.table.assign(education=scale * education)
        scaled = bd.Cohort(cohort.values, subjects=cohort.subjects, times=cohort.times, table=table)
        found.append(dive(shift_on="education").fit(scaled).effects_.iloc[0])
    assert found[0]["p"] == pytest.approx(found[1]["p"], rel=1e-6)
    assert found[0]["estimate"] == pytest.approx(12 * found[1]["estimate"], rel=1e-6)
    # A number that has nothing to do with it has no effect.
    assert found[0]["p"] > 0.01


def test_a_fit_without_covariates_forgets_those_of_an_earlier_one(model, simulation):
    again = dive(shift_on=["apoe4"]).fit(simulation.cohort)
    again.set_params(shift_on=None).fit(simulation.cohort)
    assert not hasattr(again, "effects_")


def cohort_of(simulation, **columns):
    cohort = simulation.cohort
    return bd.Cohort(
        cohort.values,
        subjects=cohort.subjects,
        times=cohort.times,
        controls=columns.pop("controls", None),
        table=cohort.table.assign(**columns),
    )


def test_what_cannot_be_estimated_is_refused(simulation):
    apoe4 = simulation.cohort.table["apoe4"]
    priors = bd.Priors(speed=bd.Gamma.fixed())
    with pytest.raises(bd.ParameterError, match='shift_on needs people="differ"'):
        dive(shift_on=["apoe4"], people="alike").fit(simulation.cohort)
    with pytest.raises(bd.CohortError, match=r"speed_on: .*nobody was seen twice"):
        dive(speed_on=["apoe4"]).fit(simulation.cohort.first_visits(1))
    with pytest.raises(bd.CohortError, match=r"speed_on: .*the prior gives everybody the same"):
        dive(speed_on=["apoe4"], priors=priors).fit(simulation.cohort)
    with pytest.raises(bd.CohortError, match="apoe4, again say the same"):
        dive(shift_on=["apoe4", "again"]).fit(cohort_of(simulation, again=1 - apoe4))
    with pytest.raises(bd.CohortError, match="who is a control"):
        dive(shift_on=["apoe4"]).fit(cohort_of(simulation, controls=apoe4 == 0))
    with pytest.raises(bd.CohortError, match="'years' changes between visits"):
        dive(shift_on=["years"]).fit(simulation.cohort)


def effects(**rows):
    columns = ("estimate", "low", "high", "p")
    return pd.DataFrame(
        [
            {"parameter": name, "covariate": "sex", "contrast": "m against f"}
            | dict(zip(columns, row, strict=True))
            for name, row in rows.items()
        ]
    )


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"shift": (2.1, 0.9, 3.3, 0.0007)}, "2.1 years ahead (95 % 0.9 to 3.3, p < .001)"),
        (
            {"shift": (-2.1, -4.5, 0.3, 0.08)},
            "2.1 years behind (95 % from 4.5 behind to 0.3 ahead, p = .080)",
        ),
        ({"shift": (-2.1, -4.5, -0.3, 0.03)}, "2.1 years behind (95 % 0.3 to 4.5, p = .030)"),
        ({"shift": (1.0, -0.01, 2.0, 0.05)}, "1.0 years ahead (95 % 0.0 to 2.0, p = .050)"),
        ({"speed": (1.18, 1.03, 1.34, 0.02)}, "18 % faster (95 % 3 to 34, p = .020)"),
        (
            {"speed": (0.8, 0.6, 1.1, 0.2)},
            "20 % slower (95 % from 40 % slower to 10 % faster, p = .200)",
        ),
        (
            {"speed": (1.1, 0.9, 1.3, 0.2)},
            "10 % faster (95 % from 30 % faster to 10 % slower, p = .200)",
        ),
    ],
)
def test_effects_are_said_in_words(rows, words):
    assert bd.effects_in_words(effects(**rows)) == [f"sex, m against f: {words}."]


def test_figures_show_every_effect(model):
    figure = bd.plot_effects(model)
    shift, speed = figure.axes
    assert shift.get_xlabel() == "years ahead at the first visit"
    np.testing.assert_allclose(
        shift.lines[1].get_xdata(), model.effects_.loc[0, ["low", "high"]].astype(float)
    )
    assert speed.get_xscale() == "log"
    assert [label.get_text() for label in speed.get_yticklabels()] == ["apoe4: 1 against 0"]


def test_a_model_without_covariates_has_no_such_figure(simulation):
    with pytest.raises(bd.ParameterError, match="no covariates"):
        bd.plot_effects(dive().fit(simulation.cohort))
