"""Sites of a fit: what they add, new people, new sites, files, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.cli.fit_summary import show_fit
from braindive.cli.settings import FitSettings
from braindive.cohort.sites import name_sites
from braindive.errors import CohortError, DataWarning, ParameterError
from braindive.evaluation.selection import fit_without
from braindive.report.content import describe_sites
from braindive.report.methods import describe_methods
from braindive.site_tables import sites_in_words


def draw(size=0.5, **settings):
    return bd.simulate_cohort(
        100,
        n_vertices=80,
        midpoints=(-6, 6),
        amplitude=-2,
        slope=-0.2,
        mean_shift=2,
        shift_sd=8,
        noise=0.3,
        personal_offset=0.3,
        personal_components=4,
        control_share=0.4,
        controls_shift=(-20, 3),
        controls_speed=0.4,
        sites=3,
        site_location=2 * size,
        site_scale=size,
        random_state=8,
        **settings,
    )


def dive(**settings):
    return bd.DIVE(2, n_init=1, personal=False, random_state=0, **settings)


def with_table(cohort, table):
    return bd.Cohort(
        cohort.values,
        subjects=cohort.subjects,
        times=cohort.times,
        controls=cohort.controls,
        table=table,
    )


@pytest.fixture(scope="module")
def simulation():
    return draw()


@pytest.fixture(scope="module")
def model(simulation):
    return dive(sites="site").fit(simulation.cohort)


@pytest.fixture(scope="module")
def blind(simulation):
    return dive().fit(simulation.cohort)


def site_biases(model, simulation):
    """Mean error of each site's patients in standard deviations of their true scores."""
    chosen = ~simulation.cohort.controls
    scores, truth = model.scores_[chosen], simulation.truth.scores[chosen]
    slope, intercept = np.polyfit(scores, truth, 1)
    errors = (intercept + slope * scores - truth) / truth.std()
    return pd.Series(errors).groupby(simulation.cohort.table["site"].to_numpy()[chosen]).mean()


def test_scores_of_a_site_with_many_patients_are_not_moved_by_its_scanner(model, blind, simulation):
    assert site_biases(model, simulation).abs().max() < 0.1
    assert site_biases(blind, simulation).abs().max() > 0.15
    chosen = ~simulation.cohort.controls
    truth = simulation.truth.scores[chosen]
    with_sites, without = (np.corrcoef(m.scores_[chosen], truth)[0, 1] for m in (model, blind))
    assert with_sites > without + 0.01


def test_offsets_and_noise_are_those_that_were_planted(model, simulation):
    planted = simulation.truth.sites
    visits = np.bincount(planted.sites)
    offsets = planted.offsets - visits @ planted.offsets / visits.sum()
    assert np.corrcoef(model.sites_.offsets.ravel(), offsets.ravel())[0, 1] > 0.95
    found, scales = np.log(model.sites_.scales), np.log(planted.scales)
    assert np.corrcoef(found.mean(axis=1), scales.mean(axis=1))[0, 1] > 0.95
    table = bd.site_table(model)
    assert table["visits"].sum() == simulation.cohort.n_visits
    assert list(table["noise"].argsort()) == list(scales.mean(axis=1).argsort())


def test_sites_without_an_effect_change_nothing():
    simulation = draw(0.0)
    with_sites, without = (dive(sites=each).fit(simulation.cohort) for each in ("site", None))
    truth = simulation.truth.scores
    gain = [np.corrcoef(m.scores_, truth)[0, 1] for m in (with_sites, without)]
    assert gain[0] == pytest.approx(gain[1], abs=0.002)
    assert np.abs(with_sites.sites_.offsets).max() < 0.1


def test_the_training_cohort_is_staged_as_it_was(model, simulation):
    stages = model.stage(simulation.cohort)
    np.testing.assert_allclose(stages["speed"], model.speeds_, rtol=1e-9)
    np.testing.assert_allclose(stages["shift"], model.shifts_, rtol=1e-9)
    np.testing.assert_allclose(stages["score_se"], model.baseline_scores_se_, rtol=1e-9)
    np.testing.assert_allclose(model.scores(simulation.cohort)["score"], model.scores_, rtol=1e-8)


def test_one_person_is_staged_alone_as_with_others(model, simulation):
    one = simulation.cohort.select(subjects=[simulation.cohort.subject_ids[-1]])
    alone = model.stage(one).iloc[0]
    np.testing.assert_allclose(
        alone[["score", "score_se"]].astype(float),
        model.stage(simulation.cohort).iloc[-1][["score", "score_se"]].astype(float),
        rtol=1e-9,
    )


def test_predictions_are_of_values_as_the_site_measures_them(model, simulation):
    cohort = simulation.cohort
    predicted = model.predict(cohort, personal=False)
    left = cohort.values - predicted
    sites = cohort.table["site"].to_numpy()
    assert max(abs(left[sites == site].mean()) for site in np.unique(sites)) < 0.1
    last = cohort.select(subjects=[cohort.subject_ids[0]])
    at = pd.Series([last.times[-1]], index=[cohort.subject_ids[0]])
    np.testing.assert_allclose(
        model.predict(cohort, at=at, history=cohort, personal=False)[0],
        model.predict(last, personal=False)[-1],
    )


@pytest.fixture(scope="module")
def personal(simulation):
    return dive(sites="site").set_params(personal=True).fit(simulation.cohort)


def covered(model, cohort):
    """Share of each site's last measurements within intervals of 95 %, from the visits before."""
    early, late = cohort.first_visits(3), cohort.later_visits(3)
    values, errors = model.predict(late, history=early, return_std=True)
    held = np.mean(np.abs(late.values - values) < 1.96 * errors, axis=1)
    return pd.Series(held).groupby(late.table["site"].to_numpy()).mean()


def test_intervals_are_as_wide_as_a_site_is_noisy(personal, simulation):
    held = covered(personal, simulation.cohort)
    assert held.between(0.93, 0.97).all()
    assert np.ptp(held) < 0.02
    # Negative control: were all sites taken to be as noisy, some would hold too few and some all.
    alike = replace(personal.sites_, scales=np.ones_like(personal.sites_.scales))
    blind = bd.DIVE(2)
    blind.__dict__.update(personal.__dict__, sites_=alike)
    assert np.ptp(covered(blind, simulation.cohort)) > 0.04


def test_a_later_visit_is_as_noisy_as_the_site_where_the_person_was_last(personal, simulation):
    cohort = simulation.cohort
    movers = cohort.table.groupby(cohort.subjects)["site"].nunique()
    mover = cohort.select(subjects=[movers.index[movers > 1][0]])
    at = pd.Series([mover.times[-1]], index=[mover.subject_ids[0]])
    for personally in (True, False):
        _, asked = personal.predict(
            mover, at=at, history=mover, personal=personally, return_std=True
        )
        last = mover.select(visits=np.arange(mover.n_visits) == mover.n_visits - 1)
        _, there = personal.predict(last, history=mover, personal=personally, return_std=True)
        np.testing.assert_allclose(asked, there)
        other = next(x for x in personal.sites_.names if x != last.table["site"].iloc[0])
        moved = with_table(last, last.table.assign(site=other))
        _, elsewhere = personal.predict(moved, history=mover, personal=personally, return_std=True)
        codes = [personal.sites_.names.index(x) for x in (last.table["site"].iloc[0], other)]
        quieter = np.subtract(*personal.sites_.scales[codes]) < 0
        np.testing.assert_array_equal(there[0] < elsewhere[0], quieter)


def test_people_at_a_site_that_is_added_have_its_noise(simulation, personal):
    cohort = simulation.cohort
    there = (cohort.table["site"] == "site 1").to_numpy()
    random = np.random.default_rng(0)
    people = cohort.select(visits=there)
    louder = bd.Cohort(
        people.values + random.normal(0, 1.0, people.values.shape),
        subjects=people.subjects,
        times=people.times,
        controls=people.controls,
        table=people.table.assign(site="new"),
    )
    taught = np.isin(louder.subjects, louder.subject_ids[::2])
    wider = personal.add_site(louder.select(visits=taught))
    rest = louder.select(visits=~taught)
    counts = pd.Series(rest.subjects).map(pd.Series(rest.subjects).value_counts())
    rest = rest.select(visits=(counts > 3).to_numpy())
    assert covered(wider, rest)["new"] == pytest.approx(0.95, abs=0.03)
    # Negative control: as people of the site that it was before, they are far outside.
    before = with_table(rest, rest.table.assign(site="site 1"))
    assert covered(personal, before)["site 1"] < 0.8


def test_a_saved_model_knows_its_sites(model, simulation, tmp_path):
    model.save(tmp_path / "fit.dive")
    again = bd.load_model(tmp_path / "fit.dive")
    assert again.sites_.names == model.sites_.names
    pd.testing.assert_frame_equal(again.stage(simulation.cohort), model.stage(simulation.cohort))
    pd.testing.assert_frame_equal(bd.site_table(again), bd.site_table(model))


@pytest.fixture(scope="module")
def without_first(simulation):
    """A model that has not seen site 1, people who were seen there, and which visits they are."""
    new = (simulation.cohort.table["site"] == "site 1").to_numpy()
    model = dive(sites="site").fit(simulation.cohort.select(visits=~new))
    return model, simulation.cohort.select(visits=new), new


def test_a_new_site_is_learnt_from_ten_controls(without_first, simulation):
    model, there, new = without_first
    subjects = there.subjects.astype(str)
    controls = np.unique(subjects[there.controls])[:10]
    wider = model.add_site(there.select(visits=np.isin(subjects, controls)))
    assert wider.sites_.names == (*model.sites_.names, "site 1")
    assert model.sites_.n_sites == 2
    planted = simulation.truth.sites
    counts = np.bincount(planted.sites)[1:]
    offset = planted.offsets[0] - counts @ planted.offsets[1:] / counts.sum()
    assert np.corrcoef(wider.sites_.offsets[-1], offset)[0, 1] > 0.9
    assert abs((wider.sites_.offsets[-1] - offset).mean()) < 0.15
    others = there.select(visits=~np.isin(subjects, controls))
    errors = wider.stage(others)["score_se"]
    # Were the new site known for sure, errors would be smaller.
    marginal = wider.marginal_
    covariance = marginal.curve_uncertainty.covariance.copy()
    own = slice(marginal.offsets_at.stop - 2, marginal.offsets_at.stop)
    assert (np.diag(covariance)[own] > 0).all()
    covariance[own, own] = 0.0
    sure = replace(marginal.curve_uncertainty, covariance=covariance)
    sure = replace(marginal, curve_uncertainty=sure)
    wider._marginal = sure
    assert (errors > wider.stage(others)["score_se"]).all()
    known = simulation.cohort.select(visits=~new)
    pd.testing.assert_frame_equal(wider.stage(known), model.stage(known))


def test_a_new_site_that_could_not_be_told_is_warned_of(without_first, monkeypatch):
    model, there, _ = without_first
    monkeypatch.setattr("braindive.staging.new_site._MOST_STEPS", 1)
    with pytest.warns(DataWarning, match="site 'site 1' adds could not be told for sure"):
        wider = model.add_site(there)
    assert "more controls" in wider.warnings_[-1]
    assert not any("for sure" in told for told in model.warnings_)


def test_a_wider_model_can_be_saved(without_first, tmp_path):
    model, there, _ = without_first
    wider = model.add_site(there)
    wider.save(tmp_path / "wider.dive")
    again = bd.load_model(tmp_path / "wider.dive")
    pd.testing.assert_frame_equal(again.stage(there), wider.stage(there))


def test_an_unknown_site_is_refused_with_what_to_do(without_first):
    model, there, _ = without_first
    with pytest.raises(CohortError, match=r"'site 1'.*model\.add_site\(cohort\)"):
        model.stage(there)


def test_add_site_says_what_it_needs(without_first, model, blind, simulation):
    fitted, there, new = without_first
    with pytest.raises(CohortError, match="knows every site"):
        fitted.add_site(simulation.cohort.select(visits=~new))
    with pytest.raises(ParameterError, match="knows no sites"):
        blind.add_site(there)
    nobody = bd.Cohort(there.values, subjects=there.subjects, times=there.times, table=there.table)
    with pytest.raises(CohortError, match="who is a control"):
        fitted.add_site(nobody)
    with pytest.raises(CohortError, match="too few"):
        fitted.add_site(there.select(visits=np.arange(there.n_visits) < 3))
    patients = there.select(visits=~there.controls)
    with pytest.warns(DataWarning, match="0 controls"):
        fitted.add_site(patients)


@pytest.mark.parametrize(
    ("column", "change", "message"),
    [
        ("scanner", None, "no column 'scanner'"),
        ("site", lambda column: column.where(column.index > 2), "empty for 3 visits"),
        ("site", lambda column: "here", "all visits are from 'here'"),
    ],
)
def test_a_column_that_cannot_be_used_is_refused_in_a_sentence(simulation, column, change, message):
    cohort = simulation.cohort
    if change is not None:
        cohort = with_table(cohort, cohort.table.assign(site=change(cohort.table["site"])))
    with pytest.raises(CohortError, match=message):
        dive(sites=column).fit(cohort)


def test_sites_need_a_model_in_which_people_differ(simulation):
    with pytest.raises(ParameterError, match='people="differ"'):
        dive(sites="site", people="alike").fit(simulation.cohort)
    with pytest.raises(ParameterError, match="name of a column"):
        dive(sites=["site"]).fit(simulation.cohort)


def test_sites_of_patients_alone_and_of_few_visits_are_warned_of(simulation):
    cohort = simulation.cohort
    movers = cohort.table.groupby(cohort.subjects)["site"].transform("nunique").to_numpy() > 1
    lonely = (cohort.table["site"] == "site 3").to_numpy() & (cohort.controls | movers)
    cohort = cohort.select(visits=~lonely)
    few = np.arange(cohort.n_visits) < 2
    table = cohort.table.assign(site=cohort.table["site"].mask(few, "site 9"))
    with (
        pytest.warns(DataWarning, match="no controls at site 'site 3'"),
        pytest.warns(DataWarning, match="site 'site 9' of 'site' had fewer than 5 visits"),
    ):
        model = dive(sites="site").fit(with_table(cohort, table))
    assert any("cannot be told apart" in told for told in model.warnings_)
    assert np.isfinite(model.baseline_scores_se_).all()


def test_sites_that_are_numbers_are_the_same_with_and_without_a_decimal_point():
    assert list(name_sites(pd.Series([1.0, 2.0]))) == list(name_sites(pd.Series([1, 2])))
    assert list(name_sites(pd.Series([1.5, " A "], dtype=object))) == ["1.5", "A"]


def test_groups_are_compared_with_what_sites_add_taken_off(model, simulation):
    table = bd.compare_groups(model, "diagnosis")
    assert np.isfinite(table["p_value"]).all()


def test_a_cohort_with_holes_is_fitted_too(simulation, model):
    cohort = simulation.cohort
    holes = np.random.default_rng(0).random(cohort.values.shape) < 0.1
    gappy = bd.Cohort(
        np.where(holes, np.nan, cohort.values),
        subjects=cohort.subjects,
        times=cohort.times,
        controls=cohort.controls,
        table=cohort.table,
    )
    found = dive(sites="site").fit(gappy)
    assert np.corrcoef(found.scores_, model.scores_)[0, 1] > 0.99
    assert np.corrcoef(found.sites_.offsets.ravel(), model.sites_.offsets.ravel())[0, 1] > 0.98
    np.testing.assert_allclose(found.stage(gappy)["speed"], found.speeds_, rtol=1e-9)


def test_the_command_and_the_report_speak_of_sites(model, simulation, capsys):
    assert FitSettings("study.zarr", "fit.dive", sites="scanner").model().sites == "scanner"
    assert FitSettings("study.zarr", "fit.dive").model().sites is None
    show_fit(model, Path("fit.dive"), json=True)
    told = json.loads(capsys.readouterr().out)["sites"]
    assert [row["site"] for row in told] == list(model.sites_.names)
    rows = describe_sites(model)
    assert [row["site"] for row in rows] == list(model.sites_.names)
    assert "3 sites (site)" in describe_methods(model)
    assert sites_in_words(model).startswith("3 sites (site) differ")


def test_scans_are_judged_among_those_of_their_site(model, simulation):
    cohort, sites = simulation.cohort, simulation.cohort.table["site"].to_numpy()
    there = np.isin(cohort.subjects, cohort.subject_ids[:8])
    random = np.random.default_rng(0)
    values = cohort.values + there[:, None] * random.normal(0, 1.5, cohort.values.shape)
    noisy = bd.Cohort(
        values,
        subjects=cohort.subjects,
        times=cohort.times,
        controls=cohort.controls,
        table=cohort.table.assign(site=np.where(there, "noisy", sites)),
    )
    found = bd.goodness_of_fit(dive(sites="site").fit(noisy), noisy).visits
    told = found["reason"].str.contains("typical scan")
    assert told[there].mean() < 0.1
    # Negative control: without sites the scans of the noisy one are all told.
    blind = bd.goodness_of_fit(dive().fit(noisy), noisy).visits
    assert blind["reason"].str.contains("typical scan")[there].mean() > 0.5


def test_a_site_that_is_left_out_as_a_whole_is_not_judged(simulation):
    cohort, sites = simulation.cohort, simulation.cohort.table["site"].to_numpy().copy()
    moved = cohort.subjects == cohort.subject_ids[0]
    table = cohort.table.assign(site=np.where(moved, "tiny", sites))
    people = list(cohort.subject_ids[:20])
    found = fit_without(dive(sites="site"), with_table(cohort, table), people, True)
    assert np.isfinite(found.held_out)
