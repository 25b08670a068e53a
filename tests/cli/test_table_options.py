"""Options that every command with a table has."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app

QUICK = ("-k", 2, "--n-init", 1, "--max-iter", 20, "--people", "alike")


def run(*words):
    result = CliRunner().invoke(app, list(map(str, words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A table with names of its own, one of whose rows is bad, and the good rows."""
    folder = tmp_path_factory.mktemp("odd")
    cohort = bd.simulate_cohort(16, 3, 12, noise=0.3, control_share=0.4, random_state=1).cohort
    table = pd.DataFrame({"who": cohort.subjects, "when": cohort.times})
    table["status"] = np.where(cohort.controls, "well", "ill")
    measured = pd.DataFrame(cohort.values, columns=[f"thick_{i}" for i in range(12)]).astype(object)
    measured.iloc[5, 2] = "failed"
    pd.concat([table, measured], axis=1).to_csv(folder / "odd.csv", index=False)
    return folder / "odd.csv", cohort.select(visits=np.arange(48) != 5)


NAMES = ("--id", "Who", "--time", "When", "--values", "thick_*", "--controls", "status == well")


def test_check_names_the_bad_row_and_goes_on_without_it(odd):
    path, good = odd
    with pytest.raises(bd.CohortError, match=r"row 6 \(sub-01\), column thick_2: 'failed' is not"):
        run("check", path, *NAMES)
    with pytest.warns(bd.DataWarning, match="1 of 48 rows"):
        result = run("check", path, *NAMES, "--skip-bad", "--json")
    assert f"{good.n_visits} visits" in json.loads(result.stdout)["cohort"]


@pytest.mark.filterwarnings("ignore::braindive.errors.BraindiveWarning")
def test_fit_and_stage_take_the_same_options_and_settings_keep_them(odd, tmp_path):
    path, good = odd
    run("fit", path, *NAMES, "--skip-bad", *QUICK, "-o", tmp_path / "fit.dive")
    model = bd.load_model(tmp_path / "fit.dive")
    assert len(model.scores_) == good.n_visits
    run("fit", "--settings", tmp_path / "fit.dive.json", "-o", tmp_path / "again.dive")
    assert (tmp_path / "again.dive").read_bytes() == (tmp_path / "fit.dive").read_bytes()
    result = run("stage", tmp_path / "fit.dive", path, *NAMES, "--skip-bad", "--json")
    assert [row["participant_id"] for row in json.loads(result.stdout)] == model.subjects_.tolist()


def test_pack_takes_them_too(odd, tmp_path):
    path, good = odd
    with pytest.warns(bd.DataWarning, match="1 of 48 rows"):
        run("pack", path, *NAMES, "--skip-bad", "-o", tmp_path / "study.zarr")
    packed = bd.open_packed(tmp_path / "study.zarr")
    np.testing.assert_array_equal(packed.values, good.values.astype(np.float32))
    with pytest.raises(bd.ParameterError, match=r"--id and --time belongs to a table"):
        run("check", tmp_path / "study.zarr", "--id", "who", "--time", "when")


def test_options_of_freesurfer_need_its_folder(odd):
    with pytest.raises(bd.ParameterError, match="belong to --freesurfer"):
        run("check", odd[0], "--measure", "area")


@pytest.fixture(scope="module")
def subjects(tmp_path_factory):
    """A subjects folder and an Excel table of its visits."""
    folder = tmp_path_factory.mktemp("freesurfer")
    cohort = bd.simulate_cohort(
        10, 2, space="fsaverage5", noise=0.3, control_share=0.4, dtype="float32", random_state=0
    ).cohort
    written = bd.write_cohort(cohort, folder / "written", "freesurfer")
    table = pd.read_csv(written, sep="\t")
    for row in table.to_dict("records"):
        surf = folder / "subjects" / f"{row['participant_id']}_{row['session_id']}" / "surf"
        surf.mkdir(parents=True)
        for column, side in (("left", "lh"), ("right", "rh")):
            source = folder / "written" / row[column]
            source.rename(surf / f"{side}.thickness.fwhm10.fsaverage5.mgh")
    table = table.drop(columns=["left", "right"]).rename(columns={"participant_id": "Subject ID"})
    table.to_excel(folder / "visits.xlsx", index=False)
    return folder, cohort


def test_check_and_fit_find_the_maps_of_freesurfer(subjects, tmp_path):
    folder, cohort = subjects
    maps = ("--freesurfer", folder / "subjects", "--fwhm", 10, "--target", "fsaverage5")
    result = run("check", folder / "visits.xlsx", *maps)
    assert "10 subjects, 20 visits, 20,484 vertices on fsaverage5" in result.output
    run("fit", folder / "visits.xlsx", *maps, *QUICK, "-o", tmp_path / "fit.dive")
    model = bd.load_model(tmp_path / "fit.dive")
    assert model.space_.name == "fsaverage5"
    assert model.subjects_.tolist() == cohort.subject_ids.tolist()
    stages = tmp_path / "stages.csv"
    run("stage", tmp_path / "fit.dive", folder / "visits.xlsx", *maps, "-o", stages)
    assert pd.read_csv(stages)["diagnosis"].tolist() == [
        cohort.table["diagnosis"][2 * i] for i in range(10)
    ]


def test_faults_of_the_folder_and_of_the_table_are_told_together(subjects, tmp_path):
    folder, _ = subjects
    table = pd.read_excel(folder / "visits.xlsx").astype({"years": object})
    table.loc[3, "years"], table.loc[4, "session_id"] = "soon", "ses-9"
    table.to_excel(tmp_path / "visits.xlsx", index=False)
    maps = ("--freesurfer", folder / "subjects", "--fwhm", 10, "--target", "fsaverage5")
    with pytest.raises(bd.CohortError) as caught:
        run("check", tmp_path / "visits.xlsx", *maps)
    assert "2 problems" in str(caught.value)
    assert "'soon' is text" in str(caught.value)
    assert "no run sub-2_ses-9" in str(caught.value)


def test_the_version_is_shown():
    assert run("--version").stdout.split() == ["braindive", bd.__version__]


def test_numbers_in_tables_are_short(surface_model, tmp_path):
    cohort = bd.simulate_cohort(8, 2, space="fsaverage5-left", noise=0.3, random_state=1).cohort
    table = bd.write_cohort(cohort.select(visits=range(4)), tmp_path, "freesurfer")
    run("stage", surface_model, table, "-o", tmp_path / "stages.tsv")
    text = (tmp_path / "stages.tsv").read_text()
    digits = [re.sub(r"^0+", "", n.replace(".", "")) for n in re.findall(r"\d+\.\d+", text)]
    assert max(map(len, digits)) == 5


@pytest.mark.parametrize("name", ["mgh", "freesurfer", "FreeSurfer"])
def test_one_word_for_the_format_of_scans_and_maps(subjects, tmp_path, name):
    _, cohort = subjects
    part = cohort.select(visits=[0])
    table = pd.read_csv(bd.write_cohort(part, tmp_path / "scans", name), sep="\t")
    assert table["left"][0].endswith(".mgh")


@pytest.mark.parametrize("option", ["--format", "--formats"])
@pytest.mark.parametrize("name", ["mgh", "freesurfer"])
def test_maps_take_the_word_of_scans(tmp_path, option, name, surface_model):
    run("maps", surface_model, "-o", tmp_path / "maps", option, name)
    assert any(path.suffix == ".annot" for path in (tmp_path / "maps").iterdir())


@pytest.fixture(scope="module")
def surface_model(tmp_path_factory):
    cohort = bd.simulate_cohort(
        8, 2, space="fsaverage5-left", noise=0.3, control_share=0.4, random_state=0
    ).cohort
    model = bd.DIVE(2, n_init=1, max_iter=5, people="alike", personal=False, random_state=0)
    path = tmp_path_factory.mktemp("surface") / "fit.dive"
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(cohort).save(path)
    return path
