"""A study as it comes: from its folder to the report with two runs of `check`."""

from datetime import date, timedelta

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app

QUICK = ("-k", 2, "--n-init", 1, "--people", "alike")


def run(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def save(path, values):
    image = nib.MGHImage(np.asarray(values, dtype=np.float32).reshape(-1, 1, 1), np.eye(4))
    nib.save(image, path)


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """The folder, the visits whose scans are good, and which rows of the table are bad."""
    folder = tmp_path_factory.mktemp("messy")
    cohort = bd.simulate_cohort(
        14, 3, space="fsaverage5", noise=0.3, control_share=0.4, demographics=True,
        dtype="float32", random_state=2,
    ).cohort  # fmt: skip
    table = pd.read_csv(bd.write_cohort(cohort, folder, "freesurfer"), sep="\t", dtype=str)
    # Dates with the day first, ages with a decimal comma, and names that people give.
    days = 40 * cohort.subject_index + np.round(365.25 * cohort.times).astype(int)
    dates = [date(2010, 3, 14) + timedelta(days=int(day)) for day in days]
    table["Scan date"] = [day.strftime("%d/%m/%Y") for day in dates]
    table["Age"] = table.pop("age").str.replace(".", ",")
    table = table.drop(columns="years").rename(
        columns={"participant_id": "Subject ID", "session_id": "visit", "diagnosis": "DX"}
    )
    table.loc[4, "left"] = ""  # a hemisphere that is missing
    for side in ("left", "right"):  # a scan of nothing but NaN
        save(folder / table.loc[10, side], np.full(10242, np.nan))
    save(folder / table.loc[13, "right"], np.ones(40962))  # another mesh
    (folder / table.loc[16, "left"]).unlink()
    save(folder / table.loc[19, "left"], np.full(10242, np.nan))  # half a scan
    table = pd.concat([table.iloc[:23], table.iloc[[22]], table.iloc[23:]], ignore_index=True)
    text = table.to_csv(index=False, sep=";", lineterminator="\r\n")
    (folder / "messy.csv").write_bytes(text.encode("utf-8-sig"))
    table.to_excel(folder / "messy.xlsx", index=False)
    good = np.setdiff1d(np.arange(cohort.n_visits), [4, 10, 13, 16])
    return folder, cohort.select(visits=good)


@pytest.mark.parametrize("name", ["messy.csv", "messy.xlsx"])
def test_two_runs_of_check_lead_to_a_report(messy, tmp_path, name):
    folder, good = messy
    with pytest.raises(bd.CohortError) as caught:  # the first run of check
        run("check", folder / name)
    told = str(caught.value)
    assert f"{name} has 5 problems" in told
    assert "row 5 (sub-01), column left: no file is named." in told
    assert "row 11 (sub-03), column left/right" in told
    assert "only NaN" in told
    assert "row 14 (sub-04), column right" in told
    assert "40962 values (fsaverage6)" in told
    assert "row 17 (sub-05), column left" in told
    assert "row 24 (sub-07): the row is the same as row 23" in told
    assert "--skip-bad" in told

    with pytest.warns(bd.DataWarning, match="5 of 43 rows"):  # the second
        second = run("check", folder / name, "--skip-bad")
    said = " ".join(second.output.split())
    assert "'Subject ID' as participant_id" in said
    assert "Decimal commas are read in: age" in said
    assert "taken to be fsaverage5" in said
    assert "1 scan has no measurement in the left hemisphere. (sub-06 at 0.9993)" in said

    model, page = tmp_path / "fit.dive", tmp_path / "report.html"
    with pytest.warns(bd.DataWarning) as warned:
        run("fit", folder / name, "--skip-bad", *QUICK, "-o", model)
    assert any("left hemisphere" in str(each.message) for each in warned)
    run("report", model, "-o", page)
    assert page.stat().st_size > 1e5

    fitted = bd.load_model(model)
    assert fitted.subjects_.tolist() == good.subject_ids.tolist()
    assert len(fitted.scores_) == good.n_visits
    assert fitted.space_.name == "fsaverage5"
    assert any("left hemisphere" in text for text in fitted.warnings_)


def test_the_cohort_is_that_of_a_clean_study(messy):
    folder, good = messy
    with pytest.warns(bd.DataWarning):
        cohort = bd.read_cohort(folder / "messy.xlsx", skip_bad=True)
    expected = good.values.copy()
    expected[np.flatnonzero((good.subjects == "sub-06") & (good.times == 1)), :10242] = np.nan
    np.testing.assert_array_equal(cohort.values, expected)
    assert cohort.subjects.tolist() == good.subjects.tolist()
    np.testing.assert_array_equal(cohort.controls, good.controls)
    first = good.visit_numbers == 0
    # Visits are within a day of their true times, counted from the first that is left.
    start = dict(zip(good.subjects[first], good.times[first], strict=True))
    since = good.times - np.array([start[subject] for subject in good.subjects])
    np.testing.assert_allclose(cohort.times, since, atol=1.5 / 365.25)
    np.testing.assert_allclose(cohort.table["age"], good.table["age"])
