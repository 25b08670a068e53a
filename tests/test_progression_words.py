"""A fit says whether the data hold a progression at all, wherever people read about it."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import braindive as bd
from braindive.progression_words import progression_sentence

SAVED = Path(__file__).parent / "io" / "saved"
SOON = {"n_init": 1, "tol": 1e-2, "personal": False, "people": "alike", "random_state": 0}
NOT_FOUND = "No progression was found"


def still(n_subjects=24, n_visits=4, n_vertices=60, seed=0):
    """People with maps that last, and noise."""
    random = np.random.default_rng(seed)
    subjects = np.repeat(np.arange(n_subjects), n_visits)
    values = random.standard_normal((n_subjects, n_vertices))[subjects]
    return bd.Cohort(
        values + random.standard_normal(values.shape),
        subjects=subjects,
        times=np.tile(np.arange(float(n_visits)), n_subjects),
    )


@pytest.fixture(scope="module")
def ill():
    return bd.simulate_cohort(
        40, n_vertices=90, noise=0.3, control_share=0.3, random_state=0
    ).cohort


def fit_heard(cohort, **settings):
    """Fit, and hear all warnings that are given."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", bd.BraindiveWarning)
        model = bd.DIVE(**(SOON | settings)).fit(cohort)
    return model, given


@pytest.fixture(scope="module")
def of_noise():
    return fit_heard(still())


def test_noise_is_not_a_disease(of_noise):
    model, given = of_noise
    assert model.progression_found_ is False
    assert 0.01 < model.progression_p_ <= 1
    sentence = progression_sentence(model)
    assert sentence.startswith(NOT_FOUND)
    assert f"p = {model.progression_p_:.2g}" in sentence
    assert model.warnings_[0] == str(given[0].message) == sentence
    assert given[0].category is bd.StagingWarning


def test_summary_says_whether_there_is_anything_to_describe(of_noise, ill):
    for model, found in ((of_noise[0], False), (bd.DIVE(**SOON).fit(ill), True)):
        table = model.summary()
        assert table["progression_found"].tolist() == [found] * 3
        assert table.attrs["progression_found"] is found
        assert table.attrs["progression_p"] == model.progression_p_
        assert table.attrs["progression"] == progression_sentence(model)


def test_files_keep_it(of_noise, tmp_path):
    of_noise[0].save(tmp_path / "fit.dive")
    again = bd.load_model(tmp_path / "fit.dive")
    assert again.progression_found_ is False
    assert again.progression_p_ == of_noise[0].progression_p_
    assert progression_sentence(again) == progression_sentence(of_noise[0])


def test_models_from_before_do_not_know():
    model = bd.load_model(SAVED / "format-2.dive")
    assert model.progression_found_ is None
    assert model.progression_p_ is None
    assert "was not judged" in progression_sentence(model)
    assert model.summary()["progression_found"].isna().all()


@pytest.mark.parametrize(
    "settings",
    [
        {"people": "differ"},
        {"staging": False},
        {"n_clusters": 2},
        {"vertices": "alike"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_the_judgement_does_not_depend_on_the_model(of_noise, settings):
    model, given = fit_heard(still(), **settings)
    assert model.progression_p_ == of_noise[0].progression_p_
    assert str(given[0].message).startswith(NOT_FOUND)


@pytest.mark.parametrize(
    "settings",
    [
        {"assignments": np.arange(90) % 5},
        {"start": np.arange(90) % 3},
        {"start": np.where(np.arange(90) < 50, np.arange(90) % 3, -1)},
    ],
    ids=["assignments", "start", "start of some"],
)
def test_given_clusters_are_judged_too(ill, settings):
    assert bd.DIVE(**(SOON | settings)).fit(ill).progression_found_
    assert not fit_heard(still(n_vertices=90), **settings)[0].progression_found_


def test_it_is_the_same_from_disk_and_again(tmp_path):
    """With random numbers of its own, from one seed; values in blocks, and with a hole."""
    cohort = bd.simulate_cohort(30, 3, 60, noise=0.5, random_state=0).cohort
    values = cohort.values.copy()
    values[5, 7] = np.nan
    kept = np.memmap(tmp_path / "values", dtype=float, mode="w+", shape=values.shape)
    kept[:] = values
    facts = {"subjects": cohort.subjects, "times": cohort.times}
    first, second = (bd.DIVE(2, **SOON).fit(bd.Cohort(each, **facts)) for each in (values, kept))
    assert first.progression_p_ == second.progression_p_ < 0.01


def test_people_seen_once_cannot_be_judged(ill):
    with pytest.warns(bd.StagingWarning, match="whether there is a progression cannot be judged"):
        model = bd.DIVE(2, **SOON).fit(ill.first_visits(1))
    assert model.progression_found_ is False
    assert np.isnan(model.progression_p_)
    assert "cannot be judged" in progression_sentence(model)
    ages = np.random.default_rng(0).uniform(60, 80, ill.n_subjects)
    once = bd.Cohort(ill.first_visits(1).values, subjects=np.arange(len(ages)), times=ages)
    assert "cannot be judged" in fit_heard(once, staging=False)[0].warnings_[0]


def test_too_few_people_are_told_so():
    model, given = fit_heard(still(n_subjects=3, n_visits=2), n_clusters=1)
    assert not model.progression_found_
    assert "so few people and visits cannot tell" in str(given[0].message)
    assert "cannot be less than 0.25 here" in str(given[0].message)


@pytest.mark.parametrize(
    "settings", [{"people": "differ"}, {}, {"staging": False}], ids=["differ", "alike", "time"]
)
def test_controls_against_time_are_warned_of(ill, settings):
    facts = {"subjects": ill.subjects}
    right = bd.Cohort(ill.values, times=ill.times, controls=ill.controls, **facts)
    model = bd.DIVE(**(SOON | settings)).fit(right)
    assert not any("contradict" in message for message in model.warnings_)
    for controls, times in ((~ill.controls, ill.times), (ill.controls, -ill.times)):
        wrong = bd.Cohort(ill.values, times=times, controls=controls, **facts)
        with pytest.warns(bd.StagingWarning, match="controls and time contradict each other"):
            bd.DIVE(**(SOON | settings)).fit(wrong)
