"""Change within people: its error is that of noise alone, and stable people stay stable."""

from dataclasses import fields

import numpy as np
import pytest

import braindive as bd
from braindive.dive.timeline import Timeline
from braindive.fit_warnings import direction_warning
from braindive.staging.change import Lines, VisitSeries, spans
from braindive.staging.noise_prior import NoisePrior

MANY = 4000


def stable_people(random, n_visits, spread_of_noise=0.0, by_level=0.0, slope=0.0):
    """Visits of people whose noise differs, at irregular times, one series."""
    index = np.repeat(np.arange(MANY), n_visits)
    years = np.tile(np.arange(float(n_visits)), MANY) + random.uniform(0, 0.3, len(index))
    timeline = Timeline.from_times(index, years)
    levels = random.normal(size=MANY)
    sds = np.exp(spread_of_noise * random.normal(size=MANY) + by_level * levels)
    offsets = 10 * random.normal(size=MANY)
    noise = sds[index] * random.normal(size=len(index))
    values = offsets[index] + noise + slope * timeline.times
    return VisitSeries(timeline, values[:, None], np.ones((len(index), 1)), levels[:, None]), sds


@pytest.mark.parametrize("n_visits", [3, 6])
@pytest.mark.parametrize("differ", [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5)])
def test_five_percent_of_stable_people_change_at_five_percent(n_visits, differ):
    series, _ = stable_people(np.random.default_rng(n_visits), n_visits, *differ)
    lines = series.lines()
    found = lines.changes(lines.noise(trusted=True), spans(series.timeline))
    share = np.mean(found.p_value < 0.05)
    assert abs(share - 0.05) < 4 * np.sqrt(0.05 * 0.95 / MANY)


def test_where_noise_depends_on_level_every_level_has_its_share():
    series, _ = stable_people(np.random.default_rng(0), 3, by_level=0.7)
    lines = series.lines()
    found = lines.changes(lines.noise(trusted=True), spans(series.timeline))
    noisy = lines.levels[:, 0] > 1
    assert 0.02 < np.mean(found.p_value[noisy, 0] < 0.05) < 0.09
    # One variance for everybody would call a third of them changed.
    variance = np.sum(lines.squares) / np.sum(lines.freedom)
    same = lines.changes([NoisePrior.constant(variance)], spans(series.timeline))
    assert np.mean(same.p_value[noisy, 0] < 0.05) > 0.2


def test_people_who_move_are_told_from_noise_and_the_change_is_theirs():
    series, _ = stable_people(np.random.default_rng(1), 6, slope=2.0)
    lines = series.lines()
    found = lines.changes(lines.noise(trusted=True), spans(series.timeline))
    expected = 2.0 * np.mean(spans(series.timeline))
    assert np.mean(found.change) == pytest.approx(expected, rel=0.02)
    assert np.mean(found.p_value < 0.05) > 0.95


def test_errors_are_the_spread_of_the_changes():
    series, _ = stable_people(np.random.default_rng(2), 4)
    lines = series.lines()
    found = lines.changes(lines.noise(trusted=True), spans(series.timeline))
    assert np.std(found.change / found.error) == pytest.approx(1.0, abs=0.05)


def test_seen_twice_without_a_trusted_variance_nobody_is_taken_to_have_changed():
    series, _ = stable_people(np.random.default_rng(3), 2)
    scaled = VisitSeries(series.timeline, 7 * series.values, series.weights, series.levels)
    lines = scaled.lines()
    found = lines.changes(lines.noise(trusted=False), spans(series.timeline))
    assert 0.03 < np.mean(found.p_value < 0.05) < 0.07
    wrong = lines.changes(lines.noise(trusted=True), spans(series.timeline))
    assert np.mean(wrong.p_value < 0.05) > 0.5


def test_trend_and_likeness_of_variances_are_recovered():
    random = np.random.default_rng(4)
    levels = random.normal(size=MANY)
    true = np.exp(0.3 + 0.8 * levels)
    own = true * 12 / random.chisquare(12, size=MANY)  # twelve degrees of freedom
    freedom = random.integers(1, 9, size=MANY)
    variances = own * random.chisquare(freedom) / freedom
    prior = NoisePrior.learn(variances, freedom, levels)
    inner = np.abs(levels) < 2
    assert np.corrcoef(np.log(prior.at(levels)[inner]), np.log(true[inner]))[0, 1] > 0.99
    assert 8 < prior.freedom < 18


def test_moderated_variances_lie_between_the_person_and_the_usual():
    prior = NoisePrior.learn(np.full(50, 2.0), np.full(50, 4), np.zeros(50))
    variances, freedom = prior.moderate(np.array([0.0, 40.0]), np.array([0, 4]), np.zeros(2))
    assert variances[0] == pytest.approx(prior.at(np.zeros(1))[0])
    assert prior.at(np.zeros(1))[0] < variances[1] < 10
    assert freedom[1] == freedom[0] + 4


@pytest.fixture(scope="module")
def study():
    cohort = bd.simulate_cohort(
        60, n_visits=4, n_vertices=60, noise=0.2, personal_offset=1.0, random_state=0
    ).cohort
    return bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(cohort), cohort


def test_scores_of_the_training_cohort_are_those_of_the_fit(study):
    model, cohort = study
    shuffled = cohort.select(visits=np.random.default_rng(0).permutation(cohort.n_visits))
    for visits in (cohort, shuffled):
        table = model.scores(visits)
        assert table["subject"].tolist() == list(visits.subjects)
    assert np.allclose(model.scores(cohort)["score"], model.scores_, atol=1e-6)


def test_errors_of_first_scores_are_those_of_the_stage(study):
    model, cohort = study
    table, stages = model.scores(cohort), model.stage(cohort)
    first = table.sort_values("time", kind="stable").drop_duplicates("subject")
    first = first.set_index("subject").loc[stages.index]
    assert np.allclose(first["score"], stages["score"], atol=1e-9)
    assert np.allclose(first["score_se"], stages["score_se"], rtol=1e-6)


def test_a_lasting_offset_cancels_in_the_change_but_not_in_the_score(study):
    model, cohort = study
    change, stages = bd.change(model, cohort), model.stage(cohort)
    assert change["se"].median() < 0.5 * stages["score_se"].median()
    offsets = np.where(np.arange(60) % 2, 0.05, -0.05)[cohort.subject_index]
    shifted = cohort.values + offsets[:, None]
    moved = bd.Cohort(shifted, subjects=cohort.subjects, times=cohort.times)
    again = bd.change(model, moved)
    assert np.allclose(again["change_cluster_1"], change["change_cluster_1"], atol=1e-6)


def test_change_is_in_the_unit_of_the_score_and_of_the_values(study):
    model, cohort = study
    table = bd.change(model, cohort)
    spans = table["years"].to_numpy() * model.stage(cohort)["speed"].to_numpy()
    assert np.median(table["change"]) == pytest.approx(np.median(spans), rel=0.5)
    one = cohort.select(subjects=[table.index[3]])
    when, values = one.times, one.values @ model.responsibilities_[:, 0]
    slope = np.polyfit(when, values / model.responsibilities_[:, 0].sum(), 1)[0]
    assert table["change_cluster_1"].iloc[3] == pytest.approx(slope * np.ptp(when), rel=1e-4)


def test_who_was_seen_once_has_no_change(study):
    model, cohort = study
    table = bd.change(model, cohort.first_visits(1))
    assert table[["change", "se", "p"]].isna().all(axis=None)
    assert (table["n_visits"] == 1).all()


def test_published_estimates_and_holes_give_changes_too(study):
    _, cohort = study
    model = bd.DIVE(n_clusters=2, people="alike", personal=False, random_state=0).fit(cohort)
    whole = bd.change(model, cohort)
    values = np.array(cohort.values)
    values[0, :] = np.nan
    values[0, -3:] = cohort.values[0, -3:]
    holed = bd.change(model, bd.Cohort(values, subjects=cohort.subjects, times=cohort.times))
    assert np.isfinite(whole[["change", "se", "p"]].to_numpy()).all()
    assert np.isfinite(holed[["change", "se", "p"]].to_numpy()).all()
    assert np.allclose(holed["change"][1:], whole["change"][1:], rtol=1e-3, atol=1e-3)


def test_without_staging_or_fit_there_is_one_clear_sentence(study):
    _, cohort = study
    with pytest.raises(bd.NotFittedError, match="call fit"):
        bd.change(bd.DIVE(), cohort)
    model = bd.no_staging_model(n_clusters=2, personal=False, random_state=0).fit(cohort)
    with pytest.raises(bd.ParameterError, match="staging=True"):
        bd.change(model, cohort)
    assert np.allclose(model.scores(cohort)["score_se"], 0)


def test_people_who_move_against_the_disease_are_told_of():
    series, _ = stable_people(np.random.default_rng(5), 4, slope=-1.0)
    everybody = np.ones(MANY, dtype=bool)
    said = direction_warning(series.lines(), everybody)
    assert said is not None
    assert "against the disease's direction" in said
    still, _ = stable_people(np.random.default_rng(6), 4)
    assert direction_warning(still.lines(), everybody) is None
    onward, _ = stable_people(np.random.default_rng(7), 4, slope=1.0)
    assert direction_warning(onward.lines(), everybody) is None


def test_lines_in_another_order_of_clusters():
    """The score stays first; the clusters after it change places."""
    values = np.arange(12.0).reshape(3, 4)
    lines = Lines(*(values + 100 * i for i in range(len(fields(Lines)))))
    moved = lines.in_order(np.array([2, 0, 1]))
    for i, field in enumerate(fields(Lines)):
        np.testing.assert_array_equal(getattr(moved, field.name), values[:, [0, 3, 1, 2]] + 100 * i)
