import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app
from braindive.errors import BraindiveWarning

SCANS = "Scan date"


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Dates are the times, ages a covariate; s00 has one visit and no other has fewer than 3."""
    folder = tmp_path_factory.mktemp("predicting")
    drawn = bd.simulate_cohort(
        40, n_visits=3, n_vertices=8, noise=0.3, control_share=0.5, random_state=0
    ).cohort
    table = drawn.table.drop(columns=["years"], errors="ignore")
    number = drawn.visit_numbers
    table["participant_id"] = [f"s{i:02d}" for i in drawn.subject_index]
    table[SCANS] = [f"{2015 + n}-03-{1 + i * (n + 1) % 28:02d}" for n, i in enumerate_visits(drawn)]
    table["age"] = 60 + drawn.subject_index % 20 + number + 0.25 * (drawn.subject_index % 3)
    values = 2 + 0.1 * drawn.values - 0.02 * (table["age"].to_numpy()[:, None] - 70)
    table[[f"vertex_{i}" for i in range(8)]] = values
    table["diagnosis"] = np.where(drawn.controls, "CN", "AD")
    table = table[(drawn.subject_index > 0) | (number == 0)]
    table.to_csv(folder / "visits.csv", index=False)
    options = ("--time", SCANS, "--standardise", "--covariates", "age")
    quick = ("-k", 2, "--n-init", 1, "--max-iter", 20, "--people", "alike")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BraindiveWarning)  # how well it fits is not asked here
        fit = invoke("fit", folder / "visits.csv", *options, *quick, "-o", folder / "fit.dive")
    assert fit.exit_code == 0, fit.output
    return folder


def enumerate_visits(cohort):
    return zip(cohort.visit_numbers, cohort.subject_index, strict=True)


def predict(study, to, *options):
    visits = (study / "visits.csv", "--time", SCANS)
    return invoke("predict", study / "fit.dive", *visits, "--history", 2, *options, "-o", to)


def test_predicted_maps_are_in_the_unit_of_the_scans_and_z_scores_only_if_asked_for(
    study, tmp_path
):
    result = predict(study, tmp_path / "own")
    assert "The maps are in the unit of the scans" in result.output
    standard = predict(study, tmp_path / "z", "--standardised")
    assert "The maps are z-scores of the controls, adjusted for age." in standard.output
    cohort = bd.read_cohort(study / "visits.csv", times=SCANS)
    model = bd.load_model(study / "fit.dive")
    later = cohort.later_visits(2)
    expected = model.predict(later, history=cohort.first_visits(2))
    found = bd.read_cohort(tmp_path / "z" / "cohort.tsv").values
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    # The same by hand: z-scores times spread, plus mean, plus what the visit's age adds.
    before = model.preprocessing_
    (age,) = before.covariates_
    ages = (later.table["age"].to_numpy() - age.centre) / age.scale - before.centre_[0]
    by_hand = expected * before.spreads_ + before.means_ + np.outer(ages, before.effects_[0])
    found = bd.read_cohort(tmp_path / "own" / "cohort.tsv").values
    np.testing.assert_allclose(found, by_hand, rtol=1e-5)
    assert np.abs(found - later.values).mean() < 0.1 < np.abs(expected - later.values).mean()


def test_who_is_left_out_is_said_and_visits_keep_their_numbers_and_covariates(study, tmp_path):
    result = predict(study, tmp_path / "predicted")
    assert "Left out, having no visit after the first 2: s00 (1 of 40 subjects)." in result.output
    table = pd.read_csv(tmp_path / "predicted" / "cohort.tsv", sep="\t")
    assert set(table["session_id"]) == {"ses-3"}
    assert {"age", SCANS, "diagnosis"} <= set(table.columns)
    again = bd.read_cohort(tmp_path / "predicted" / "cohort.tsv")
    later = bd.read_cohort(study / "visits.csv", times=SCANS).later_visits(2)
    np.testing.assert_allclose(again.times, later.times)
    staged = invoke("stage", study / "fit.dive", tmp_path / "predicted" / "cohort.tsv")
    assert staged.exit_code == 0, staged.output


def test_a_history_longer_than_anybodys_visits_is_named(study, tmp_path):
    result = predict(study, tmp_path / "none", "--history", 9)
    assert isinstance(result.exception, bd.CohortError)
    assert "nobody has more than 9 visits" in str(result.exception)


def test_a_covariate_that_is_missing_at_a_visit_to_predict_is_asked_for(study, tmp_path):
    table = pd.read_csv(study / "visits.csv")
    table.loc[table["participant_id"].eq("s02").pipe(np.flatnonzero)[2], "age"] = np.nan
    table.to_csv(tmp_path / "visits.csv", index=False)
    given = (study / "fit.dive", tmp_path / "visits.csv", "--time", SCANS, "--history", 2)
    result = invoke("predict", *given, "-o", tmp_path / "own")
    assert "--standardised leaves them in that of the model" in str(result.exception)
    assert invoke("predict", *given, "--standardised", "-o", tmp_path / "z").exit_code == 0
