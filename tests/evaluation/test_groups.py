"""Group comparison against scipy, and its false positives."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import braindive as bd
from braindive.evaluation import group_effects
from braindive.evaluation.groups import holm
from braindive.staging.effects_fit import fit_effects
from braindive.staging.population import Design


@pytest.fixture(scope="module")
def fitted():
    simulation = bd.simulate_cohort(
        n_subjects=60, n_vertices=60, group_effect=1.5, control_share=0.3, random_state=0
    )
    return bd.DIVE(3, n_init=1, tol=1e-3, personal=False, random_state=0).fit(simulation.cohort)


def by_subject(model, values, name="group"):
    return pd.Series(values, index=model.subjects_, name=name)


def test_two_groups_give_the_tests_of_scipy(fitted):
    group = np.arange(60) % 2
    table = bd.compare_groups(fitted, by_subject(fitted, group), test="stages")
    first, last = fitted.speeds_[group == 0], fitted.speeds_[group == 1]
    row = table.loc["speed"]
    assert row["p_value"] == stats.mannwhitneyu(last, first).pvalue
    assert row["mean_p_value"] == stats.ttest_ind(last, first, equal_var=False).pvalue
    assert row["mean_1"] == pytest.approx(last.mean())
    assert (row["n_0"], row["n_1"]) == (30, 30)
    pooled = np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / 2)
    assert row["effect_size"] == pytest.approx((last.mean() - first.mean()) / pooled)
    wins = np.mean(last[:, None] > first) - np.mean(last[:, None] < first)
    assert row["rank_effect"] == pytest.approx(wins)


def test_more_groups_give_the_tests_of_scipy(fitted):
    group = np.array(["a", "b", "c"])[np.arange(60) % 3]
    row = bd.compare_groups(fitted, by_subject(fitted, group), test="stages").loc["shift"]
    parts = [fitted.shifts_[group == name] for name in "abc"]
    assert row["test"] == "Kruskal-Wallis"
    assert row["p_value"] == pytest.approx(stats.kruskal(*parts).pvalue)
    assert row["mean_p_value"] == pytest.approx(stats.f_oneway(*parts).pvalue)


def test_a_quantity_is_correlated(fitted):
    amount = np.random.default_rng(0).normal(size=60)
    row = bd.compare_groups(fitted, by_subject(fitted, amount), test="stages").loc["shift"]
    assert row["test"] == "Spearman"
    assert row["p_value"] == pytest.approx(stats.spearmanr(amount, fitted.shifts_).pvalue)
    assert row["effect_size"] == pytest.approx(np.corrcoef(amount, fitted.shifts_)[0, 1])


def test_a_column_of_the_training_table_names_the_groups(fitted):
    table = bd.compare_groups(fitted, by="apoe4")
    assert table.loc["shift", "p_value"] < 0.01
    assert table.loc["shift", "effect_size"] > 0.5
    assert table.attrs["by"] == "apoe4"


def test_the_baseline_score_is_that_of_the_first_visit(fitted):
    carriers = fitted.visits_.groupby("subject")["apoe4"].first()
    first = fitted.visits_["time"].to_numpy() == 0
    scores = pd.Series(fitted.scores_[first], index=fitted.visits_["subject"][first])
    row = bd.compare_groups(fitted, by="apoe4").loc["baseline score"]
    assert row["mean_1"] == pytest.approx(scores[carriers == 1].mean())


def test_with_times_from_zero_shift_and_baseline_score_are_corrected_for_as_one_test(fitted):
    table = bd.compare_groups(fitted, by="apoe4")
    for p_value, corrected in (("p_value", "p_corrected"), ("mean_p_value", "mean_p_corrected")):
        two = holm(table.loc[["speed", "baseline score"], p_value])
        assert table.loc["speed", corrected] == two["speed"]
        assert table.loc["baseline score", corrected] == two["baseline score"]
        assert table.loc["shift", corrected] == two["baseline score"]


def test_with_ages_for_times_three_tests_are_corrected_for(fitted):
    ages = by_subject(fitted, np.random.default_rng(0).uniform(60, 80, 60))
    aged = bd.DIVE(3, n_init=1, tol=1e-3, personal=False, random_state=0)
    cohort = bd.simulate_cohort(
        n_subjects=60, n_vertices=60, group_effect=1.5, control_share=0.3, random_state=0
    ).cohort
    times = cohort.times + ages.loc[cohort.subjects].to_numpy()
    model = aged.fit(bd.Cohort(cohort.values, subjects=cohort.subjects, times=times))
    table = bd.compare_groups(model, by_subject(model, np.arange(60) % 2))
    assert table["p_corrected"].tolist() == holm(table["p_value"]).tolist()


def test_other_subjects_are_staged(fitted):
    other = bd.simulate_cohort(
        n_subjects=30, n_vertices=60, group_effect=1.5, control_share=0.3, random_state=7
    ).cohort
    table = bd.compare_groups(fitted, by="apoe4", cohort=other)
    stages = fitted.stage(other)
    carriers = other.table.groupby("participant_id")["apoe4"].first()
    expected = stages.loc[carriers.index[carriers == 1], "shift"].mean()
    assert table.loc["shift", "mean_1"] == pytest.approx(expected)


def test_holm_equals_the_step_down_rule(rng):
    p_values = rng.random(6) / 10
    corrected = holm(pd.Series(p_values)).to_numpy()
    for level in np.linspace(0.001, 0.5, 50):
        rejected = set()
        for place, index in enumerate(np.argsort(p_values)):
            if p_values[index] > level / (6 - place):
                break
            rejected.add(index)
        assert set(np.flatnonzero(corrected <= level)) == rejected


def test_subjects_without_a_value_and_alone_in_their_group_are_counted(fitted):
    group = np.array(["a", "b"], dtype=object)[np.arange(60) % 2]
    group[0], group[1], group[2] = "c", None, np.nan
    with pytest.warns(bd.DataWarning, match="2 without a value, 1 alone in group 'c'"):
        table = bd.compare_groups(fitted, by_subject(fitted, group))
    assert table.attrs["excluded"] == {"without a value": 2, "alone in group 'c'": 1}
    assert table.loc["shift", "n"] == 57


def test_a_group_of_one_and_nobody_else_is_refused(fitted):
    group = np.array(["a"] * 59 + ["b"])
    with pytest.raises(bd.ParameterError, match="fewer than two groups of at least two"):
        bd.compare_groups(fitted, by_subject(fitted, group))


def test_one_group_is_refused(fitted):
    with pytest.raises(bd.ParameterError, match="all 60 subjects have 'group'"):
        bd.compare_groups(fitted, by_subject(fitted, ["a"] * 60))


def test_a_value_that_changes_between_visits_is_reported(fitted, monkeypatch):
    visits = fitted.visits_.copy()
    visits.loc[0, "apoe4"] = 1 - visits.loc[0, "apoe4"]
    monkeypatch.setattr(fitted, "visits_", visits)
    with pytest.warns(bd.DataWarning, match="changes between visits of 1 subjects"):
        bd.compare_groups(fitted, by="apoe4")


@pytest.mark.parametrize(
    ("by", "message"),
    [("apoe", "no column 'apoe'"), (pd.Series([1, 2], index=["x", "y"]), "indexed by subject")],
)
def test_an_unknown_column_or_index_is_refused(fitted, by, message):
    with pytest.raises(bd.ParameterError, match=message):
        bd.compare_groups(fitted, by)


def test_a_model_without_staging_is_refused(cohort):
    model = bd.no_staging_model(n_clusters=2, n_init=1, personal=False, random_state=0).fit(cohort)
    with pytest.raises(bd.ParameterError, match="without staging"):
        bd.compare_groups(model, by="diagnosis")


def test_groups_drawn_at_random_have_uniform_p_values(fitted):
    rng = np.random.default_rng(0)
    draws = (by_subject(fitted, rng.permutation(np.arange(60) % 2)) for _ in range(200))
    tables = [bd.compare_groups(fitted, drawn, test="stages") for drawn in draws]
    for parameter in ("shift", "speed", "baseline score"):
        p_values = [table.loc[parameter, "p_value"] for table in tables]
        assert 0.02 <= np.mean(np.array(p_values) < 0.05) <= 0.09
        assert stats.kstest(p_values, "uniform").pvalue > 0.001


def test_the_test_inside_the_model_is_that_of_a_fit_with_the_group_as_covariate(fitted):
    # A cohort in which neither fit finds shifts skewed: else they would be two models.
    cohort = bd.simulate_cohort(
        n_subjects=60, n_vertices=60, noise=0.3, carrier_share=0.4, carriers_shift=6, random_state=1
    ).cohort
    settings = {"n_init": 1, "personal": False, "vertices": "alike", "random_state": 0}
    table = bd.compare_groups(bd.DIVE(3, **settings).fit(cohort), by="apoe4")
    on = {"shift_on": ["apoe4"], "speed_on": ["apoe4"]}
    effects = bd.DIVE(3, **settings, **on).fit(cohort).effects_.set_index("parameter")
    for row, parameter in (("shift", "shift"), ("baseline score", "shift"), ("speed", "speed")):
        for mine, other in (("estimate", "estimate"), ("se", "se"), ("low", "low")):
            # Clusters are slightly different ones.
            assert table.loc[row, mine] == pytest.approx(effects.loc[parameter, other], rel=0.05)
        assert table.loc[row, "test"] == "marginal t"


def test_controls_and_patients_differ_by_the_means_of_their_groups(fitted):
    controls = fitted.visits_.groupby("subject")["diagnosis"].first()
    row = bd.compare_groups(fitted, controls).loc["baseline score"]
    people, spread = fitted.marginal_.population, fitted.marginal_.spread
    expected = (people.shift_means[1] - people.shift_means[0]) / spread
    assert row["estimate"] == pytest.approx(expected, rel=0.1)
    assert row["p_value"] < 0.001


def test_several_groups_are_each_compared_with_the_first(fitted):
    group = np.array(["a", "b", "c"])[np.arange(60) % 3]
    table = bd.compare_groups(fitted, by_subject(fitted, group))
    for row in table.itertuples():
        assert row.test == "marginal F"
        assert row.low_b < row.estimate_b < row.high_b
        assert 0 < row.p_value <= 1


def test_a_quantity_has_an_effect_for_each_one_of_it(fitted):
    amount = np.random.default_rng(0).normal(size=60)
    table = bd.compare_groups(fitted, by_subject(fitted, amount))
    ten = bd.compare_groups(fitted, by_subject(fitted, 10 * amount))
    assert table.attrs["continuous"]
    assert table.loc["shift", "estimate"] == pytest.approx(10 * ten.loc["shift", "estimate"])
    assert table.loc["speed", "p_value"] == pytest.approx(ten.loc["speed", "p_value"])


def test_models_of_people_who_are_alike_have_the_tests_of_their_stages(fitted):
    cohort = bd.simulate_cohort(40, n_vertices=30, group_effect=1.0, random_state=0).cohort
    model = bd.DIVE(2, n_init=1, people="alike", personal=False, random_state=0).fit(cohort)
    assert bd.compare_groups(model, by="apoe4").loc["shift", "test"] == "Mann-Whitney"


def test_only_the_two_tests_are_known(fitted):
    with pytest.raises(bd.ParameterError, match="test must be"):
        bd.compare_groups(fitted, by="apoe4", test="ranks")


def test_errors_are_those_of_least_squares_where_stages_are_known():
    """Maximum likelihood alone would make them smaller by a factor of the root of 18 / 20."""
    cohort = bd.simulate_cohort(
        20,
        n_vertices=60,
        midpoints=(-6, 6),
        amplitude=-2,
        slope=-0.2,
        noise=0.05,
        carrier_share=0.4,
        shift_sd=5,
        random_state=1,
    ).cohort
    model = bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(cohort)
    found = bd.compare_groups(model, "apoe4").loc["baseline score"]
    first = cohort.visit_numbers == 0
    scores, carriers = model.scores_[first], cohort.table["apoe4"].to_numpy(bool)[first]
    groups = scores[carriers], scores[~carriers]
    squares = sum(np.sum((group - group.mean()) ** 2) for group in groups)
    variance = squares / (20 - 2) * sum(1 / len(group) for group in groups)
    assert found["se"] == pytest.approx(np.sqrt(variance), rel=0.02)


@pytest.fixture(scope="module")
def found_early():
    """A fit to patients most of whom were found early, and who is a control."""
    random = np.random.default_rng(4)
    n_people = 90
    controls = np.arange(n_people) < 0.4 * n_people
    shifts = random.gamma(1.2, 8.0, n_people) - 6
    shifts = np.where(controls, random.normal(-15, 3, n_people), shifts)
    speeds = np.where(controls, 0.4, 1.0) * random.gamma(12, 1 / 12, n_people)
    subjects, times = np.repeat(np.arange(n_people), 4), np.tile(np.arange(4.0), n_people)
    scores = shifts[subjects] + speeds[subjects] * times
    midpoints = np.array([-4.0, 2.0, 8.0, 14.0])[np.arange(48) % 4]
    values = -2 / (1 + np.exp(-0.3 * (scores[:, None] - midpoints)))
    values += random.normal(0, 0.2, values.shape)
    cohort = bd.Cohort(values, subjects=subjects, times=times, controls=controls[subjects])
    model = bd.DIVE(4, n_init=1, personal=False, random_state=0).fit(cohort)
    assert model.marginal_.population.skews is not None
    return model, controls


def test_groups_with_few_controls_are_told_by_the_mean_of_skewed_shifts(found_early, monkeypatch):
    model, controls = found_early
    # Two in three patients, and one in six controls.
    group = np.where(controls, np.arange(90) % 6 == 0, np.arange(90) % 3 > 0)
    groups = by_subject(model, group)
    scores = model.scores_[::4]  # at first visits
    expected = scores[group].mean() - scores[~group].mean()
    found = bd.compare_groups(model, groups).loc["baseline score"]
    assert found["estimate"] == pytest.approx(expected, rel=0.15)
    # Negative control: the origin of the distribution is far from its mean.
    monkeypatch.setattr(group_effects, "skewed_mean", lambda skew: (0.0, 0.0))
    blind = bd.compare_groups(model, groups).loc["baseline score"]
    assert blind["estimate"] < 0.8 * expected


def test_the_error_of_a_skewed_mean_is_that_of_its_derivatives(found_early):
    model, controls = found_early
    people, _ = group_effects._people(model, None)
    column = np.where(np.arange(90) % 2, 1.0, -1.0)[:, None]
    design = Design(column, column, np.zeros(90))
    priors = model.internal_.priors
    stager, covariance = fit_effects(model.marginal_, people, design, priors, "years")
    n_parameters = len(stager.curve_uncertainty.centre)
    np.testing.assert_allclose(
        covariance[:-1, :-1], stager.curve_uncertainty.covariance, rtol=1e-6, atol=1e-12
    )
    assert 0 < covariance[-1, -1] < 0.5**2
    known = replace(
        stager.curve_uncertainty,
        centre=np.zeros(n_parameters + 1),
        spread=np.zeros(n_parameters + 1),
    )
    stager = replace(stager, curve_uncertainty=known)
    at = design.at(people.timeline)
    _, moves = group_effects._means("baseline score", stager, people, at)
    step, first = 1e-6, stager.trajectories.to_array().size

    def means(log_sd, skew):
        population = stager.population
        sds = population.shift_sds * np.exp([0.0, log_sd])
        moved = replace(population, shift_sds=sds, skews=population.skews + np.array([0.0, skew]))
        found = replace(stager, population=moved)
        return group_effects._means("baseline score", found, people, at)[0]

    for place, way in ((first + 3, (step, 0.0)), (n_parameters, (0.0, step))):
        ends = means(*way) - means(*(-x for x in way))
        np.testing.assert_allclose(moves[:, place], ends / (2 * step), atol=1e-6)
        assert np.any(moves[~controls, place])
