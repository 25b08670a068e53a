"""ADNI's files as its holders have them, made up here."""

import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app
from braindive.cli.settings import read_settings
from braindive.errors import CohortError
from braindive.io.adni import COGNITIVE_TESTS, _date_of, read_adni
from braindive.io.joining import join_nearest
from braindive.simulation.layouts import write_adni
from braindive.space.folding import fold_hemispheres


@pytest.fixture(scope="module")
def adni(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adni")
    drawn = bd.simulate_cohort(
        n_subjects=6, n_visits=5, space="fsaverage5", control_share=0.5, noise=0.3, cognition=True,
        demographics=True, group_effect=0.5, random_state=5,
    )  # fmt: skip
    write_adni(drawn.cohort, folder)
    return folder


def read(folder, **options):
    options = {"target": "fsaverage5", **options}
    return read_adni(folder / "ADNIMERGE.csv", folder / "subjects", **options)


def test_scans_take_diagnosis_tests_and_genes_of_the_nearest_exam(adni):
    study = read(adni)
    exams = pd.read_csv(adni / "ADNIMERGE.csv")
    assert study.table["participant_id"].nunique() == 5
    for _, row in study.table.iterrows():
        own = exams[exams["PTID"] == row["participant_id"]].reset_index(drop=True)
        days = (pd.to_datetime(own["EXAMDATE"]) - pd.Timestamp(row["scan_date"])).dt.days.abs()
        assert row["days_apart"] == days.min()
        assert row["APOE4"] == own["APOE4"].iloc[0]
        assert row["APOE4_carrier"] == ("carrier" if row["APOE4"] else "non-carrier")
        for test in COGNITIVE_TESTS:
            near = own[test].where(days <= 91)
            expected = near.loc[days[near.notna()].idxmin()] if near.notna().any() else np.nan
            assert row[test] == expected or (np.isnan(row[test]) and np.isnan(expected))
        if own["DX"].notna().all():
            assert row["diagnosis"] == own["DX"].loc[days.idxmin()]


def test_times_are_years_since_the_first_scan_and_ages_those_of_the_scan(adni):
    table = read(adni).table
    dates = pd.to_datetime(table["scan_date"])
    first = dates.groupby(table["participant_id"]).transform("min")
    np.testing.assert_allclose(table["years"], (dates - first).dt.days / 365.25)
    exams = pd.read_csv(adni / "ADNIMERGE.csv", parse_dates=["EXAMDATE"])
    start = table["participant_id"].map(exams.groupby("PTID")["EXAMDATE"].min())
    bl_age = table["participant_id"].map(exams.groupby("PTID")["AGE"].first())
    np.testing.assert_allclose(table["age"], bl_age + (dates - start).dt.days / 365.25, atol=0.006)


def test_people_with_few_scans_are_left_out_and_counted(adni):
    study = read(adni)
    assert "001_S_0100" not in set(study.table["participant_id"])
    assert any("2 scans of people with fewer than 4" in step for step in study.steps)
    assert study.steps[-1].startswith("Kept 25 scans of 5 people")
    assert "001_S_0100" in set(read(adni, at_least=2).table["participant_id"])


def test_a_diagnosis_that_is_missing_is_that_of_the_scan_before(adni):
    table = read(adni, at_least=2).table
    assert table["diagnosis"].notna().all()


def test_longitudinal_runs_come_first_and_templates_are_no_scans(adni, tmp_path):
    shutil.copytree(adni, tmp_path / "copy")
    subjects = tmp_path / "copy" / "subjects"
    run = next(path for path in subjects.iterdir() if ".long." in path.name)
    shutil.copytree(run, subjects / run.name.partition(".long.")[0])
    table = read(tmp_path / "copy").table
    assert run.name in set(table["fsid"])
    assert len(table) == 25


def test_scans_without_maps_or_far_from_any_exam_are_left_out_by_name(adni, tmp_path):
    shutil.copytree(adni, tmp_path / "copy")
    subjects = tmp_path / "copy" / "subjects"
    first, second = sorted(path for path in subjects.iterdir() if path.name.startswith("003_S"))[:2]
    (first / "surf" / "rh.thickness.fwhm0.fsaverage5.mgh").unlink()
    second.rename(subjects / "003_S_0102_2015-01-01")
    study = read(tmp_path / "copy")
    said = " ".join(study.steps)
    assert f"Left out 1 scans without maps of thickness: {first.name}." in said
    assert "without an exam within 91 days: 003_S_0102_2015-01-01" in said


def test_a_table_of_scans_tells_what_folders_do_not(adni, tmp_path):
    shutil.copytree(adni, tmp_path / "copy")
    subjects = tmp_path / "copy" / "subjects"
    rows = []
    for number, path in enumerate(sorted(subjects.glob("005_S_0104_*"))):
        rows.append({"Image Data ID": number + 5000, "Subject": "005_S_0104",
                     "Acq Date": f"{pd.Timestamp(path.name[11:21]):%m/%d/%Y}"})  # fmt: skip
        path.rename(subjects / f"I{number + 5000}")
    pd.DataFrame(rows).to_csv(tmp_path / "search.csv", index=False)
    assert "folders of nobody in the table: I5000, I5001" in " ".join(read(tmp_path / "copy").steps)
    told = read(tmp_path / "copy", scans=tmp_path / "search.csv").table
    columns = ["participant_id", "scan_date"]
    pd.testing.assert_frame_equal(told[columns], read(adni).table[columns])


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("002_S_0413_2007-06-01", "2007-06-01"),
        ("002_S_0413_20070601", "2007-06-01"),
        ("ADNI_002_S_0413_2007_06_01_I123", "2007-06-01"),
        ("002_S_0413_m12", "2008-01-01"),
        ("sub-ADNI002S0413_ses-M012", "2008-01-01"),
        ("sub-ADNI002S0413_ses-M000", "2007-01-01"),
        ("002_S_0413_sc", "2007-01-01"),
        ("002_S_0413", None),
    ],
)
def test_dates_are_read_from_the_names_that_people_use(name, date):
    dates = {
        ("002_S_0413", "bl"): pd.Timestamp("2007-01-01"),
        ("002_S_0413", "m12"): pd.Timestamp("2008-01-01"),
    }
    found = _date_of(name, "002_S_0413", dates)
    assert (None if pd.isna(found) else f"{found:%Y-%m-%d}") == date


def test_each_column_comes_from_the_nearest_visit_that_has_it():
    random = np.random.default_rng(0)
    day = pd.Timestamp("2010-01-01")

    def some(n):
        return pd.DataFrame(
            {
                "participant_id": random.choice(["a", "b", "c"], n),
                "date": day + pd.to_timedelta(random.integers(0, 900, n), unit="D"),
            }
        )

    scans, visits = some(25), some(40)
    visits["test"] = np.where(random.random(40) < 0.4, np.nan, random.random(40))
    joined = join_nearest(scans, visits, ["test"], 60)
    for row, scan in scans.iterrows():
        best, value = 61.0, np.nan
        for _, visit in visits.sort_values("date", kind="stable").iterrows():
            apart = abs((visit["date"] - scan["date"]).days)
            same = visit["participant_id"] == scan["participant_id"]
            if same and apart < best and not np.isnan(visit["test"]):
                best, value = apart, visit["test"]
        np.testing.assert_equal(float(joined["test"].iloc[row] or np.nan), value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns="PTID"), "no column PTID; a table of ADNI's exams has"),
        (lambda table: table.assign(EXAMDATE="soon"), "row 1: EXAMDATE 'soon' is not a date"),
        (lambda table: table.assign(PTID="999_S_9999"), "no folder of .* is a scan of a person"),
    ],
)
def test_tables_that_are_not_adnis_are_refused_in_one_sentence(adni, tmp_path, change, message):
    change(pd.read_csv(adni / "ADNIMERGE.csv")).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(CohortError, match=message):
        read_adni(tmp_path / "t.csv", adni / "subjects", target="fsaverage5")


def test_the_study_is_a_cohort_whose_zero_vertices_are_dropped(adni):
    cohort = bd.read_cohort(read(adni).table, "fsaverage5", root=adni / "subjects", times="years")
    assert cohort.n_visits == 25
    recipe = bd.Preprocessing(reference="baseline", average_hemispheres=True, drop_zeros=True)
    prepared = recipe.fit_transform(cohort)
    wall = np.array(bd.region_names(bd.load_space("fsaverage5"))) == ""
    assert prepared.n_vertices == np.sum(~wall[:10242] & ~wall[10242:])
    first = pd.Series(cohort.times).groupby(cohort.subjects).transform("min").to_numpy()
    baseline = cohort.controls & (cohort.times == first)
    np.testing.assert_allclose(np.mean(prepared.values[baseline], axis=0), 0, atol=1e-4)


def test_the_command_writes_a_cohort_and_the_settings_of_its_fit(adni, tmp_path):
    words = ["adni", adni / "ADNIMERGE.csv", "--freesurfer", adni / "subjects", "--target",
             "fsaverage5", "-o", tmp_path / "adni.zarr"]  # fmt: skip
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    assert "Kept 25 scans of 5 people" in result.stderr
    assert "--scores CDRSB,ADAS13,MMSE,RAVLT_immediate" in result.stdout
    cohort = bd.open_packed(tmp_path / "adni.zarr")
    assert (cohort.n_visits, cohort.n_vertices) == (25, 20484)
    assert cohort.times.max() < 6  # years since the first scan, not ages
    chosen = read_settings(tmp_path / "adni.json").preprocessing()
    assert chosen.average_hemispheres
    assert chosen.drop_zeros
    assert chosen.standardise
    assert chosen.reference == "baseline"


def test_an_atlas_by_name_is_that_of_the_averaged_hemispheres():
    folded, pairs = fold_hemispheres(bd.load_space("fsaverage5"))
    labels = bd.read_atlas("desikan-killiany", len(pairs), folded)
    whole = np.array(bd.region_names(bd.load_space("fsaverage5-left")))
    names = np.unique(whole[labels == labels[whole == "left insula"][0]])
    assert names.tolist() == ["left insula"]
    with pytest.raises(
        CohortError, match=r"no Desikan-Killiany atlas here.*the cohort has no space"
    ):
        bd.read_atlas("desikan-killiany", 5)
