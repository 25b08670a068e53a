"""Regions: FreeSurfer's tables and wide spreadsheets, straight to a cohort."""

import json
import logging

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.main import app
from braindive.errors import CohortError
from braindive.io.atlas_names import DESIKAN_KILLIANY, DESTRIEUX
from braindive.io.region_columns import find_region_columns, is_summary

N_PEOPLE, N_VISITS = 24, 3
# What the tools of FreeSurfer 7 write beside the regions.
APARC_SUMMARIES = ("MeanThickness_thickness",)
ASEG_SUMMARIES = (
    "BrainSegVol", "BrainSegVolNotVent", "lhCortexVol", "rhCortexVol", "CortexVol",
    "lhCerebralWhiteMatterVol", "rhCerebralWhiteMatterVol", "CerebralWhiteMatterVol",
    "SubCortGrayVol", "TotalGrayVol", "SupraTentorialVol", "SupraTentorialVolNotVent", "MaskVol",
    "BrainSegVol-to-eTIV", "MaskVol-to-eTIV", "lhSurfaceHoles", "rhSurfaceHoles", "SurfaceHoles",
    "EstimatedTotalIntraCranialVol",
)  # fmt: skip
ASEG_REGIONS = (
    "Left-Lateral-Ventricle", "Left-Inf-Lat-Vent", "Left-Cerebellum-White-Matter",
    "Left-Cerebellum-Cortex", "Left-Thalamus", "Left-Caudate", "Left-Putamen", "Left-Pallidum",
    "3rd-Ventricle", "4th-Ventricle", "Brain-Stem", "Left-Hippocampus", "Left-Amygdala",
    "Left-Accumbens-area", "Left-VentralDC", "Left-choroid-plexus", "Right-Hippocampus",
    "Optic-Chiasm", "CC_Posterior", "CC_Central", "CC_Anterior",
)  # fmt: skip
ASEG_NO_PLACE = ("CSF", "Left-vessel", "WM-hypointensities", "Left-WM-hypointensities",
                 "non-WM-hypointensities")  # fmt: skip


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Visits of a study, and FreeSurfer's tables of them as its tools write them."""
    folder = tmp_path_factory.mktemp("regions")
    names = list(DESIKAN_KILLIANY)
    drawn = bd.simulate_cohort(
        n_subjects=N_PEOPLE, n_visits=N_VISITS, n_vertices=2 * len(names),
        noise=0.3, control_share=0.3, random_state=3,
    ).cohort  # fmt: skip
    thickness = 2.5 + 0.2 * np.asarray(drawn.values)
    ids = [f"{who}_{visit}.long.{who}" for who, visit in _visits(drawn)]
    for place, prefix in enumerate(("lh", "rh")):
        part = thickness[:, place * len(names) : (place + 1) * len(names)]
        table = pd.DataFrame(part, columns=[f"{prefix}_{name}_thickness" for name in names])
        table.insert(0, f"{prefix}.aparc.thickness", ids)
        table[f"{prefix}_MeanThickness_thickness"] = part.mean(axis=1)
        table["BrainSegVolNotVent"], table["eTIV"] = 1.1e6, 1.5e6
        # FreeSurfer's order is not that of the visits.
        table.iloc[::-1].to_csv(folder / f"{prefix}.tsv", sep="\t", index=False)
    aseg = pd.DataFrame({name: 1e3 * thickness[:, i] for i, name in enumerate(ASEG_REGIONS)})
    aseg = aseg.assign(**dict.fromkeys((*ASEG_SUMMARIES, *ASEG_NO_PLACE), 5.0))
    aseg["5th-Ventricle"] = 0.0
    aseg.insert(0, "Measure:volume", ids)
    aseg.to_csv(folder / "aseg.csv", index=False)
    people = pd.DataFrame(_visits(drawn), columns=["participant_id", "session_id"])
    people["years"] = drawn.times
    people["diagnosis"] = np.where(drawn.controls, "CN", "AD")
    people.to_csv(folder / "visits.tsv", sep="\t", index=False)
    return folder, thickness, people


def _visits(cohort):
    order = pd.Series(cohort.times).groupby(cohort.subjects).rank().astype(int)
    return [(f"s{who}", f"v{visit}") for who, visit in zip(cohort.subjects, order, strict=True)]


def test_left_and_right_tables_join_the_visits_whatever_their_order(study):
    folder, thickness, _ = study
    cohort = bd.read_cohort(
        bd.read_region_tables([folder / "lh.tsv", folder / "rh.tsv"], folder / "visits.tsv")
    )
    assert cohort.n_vertices == 68
    assert cohort.space.names[0] == "lh_bankssts_thickness"
    np.testing.assert_allclose(cohort.values, thickness, rtol=1e-6)
    assert "eTIV" in cohort.table


def test_summaries_are_left_out_and_named(study, caplog):
    folder, _, _ = study
    with caplog.at_level(logging.INFO, "braindive"):
        bd.read_cohort(bd.read_region_tables(folder / "lh.tsv", folder / "visits.tsv"))
    assert "34 columns are regions by their names: lh_bankssts_thickness, " in caplog.text
    assert (
        "lh_MeanThickness_thickness, BrainSegVolNotVent, eTIV (no region by itself" in caplog.text
    )


def test_volumes_of_the_segmentation_leave_summaries_and_empty_regions_out(study, caplog):
    folder, _, _ = study
    with caplog.at_level(logging.INFO, "braindive"):
        cohort = bd.read_cohort(bd.read_region_tables(folder / "aseg.csv", folder / "visits.tsv"))
    assert cohort.space.names == ASEG_REGIONS
    assert "5th-Ventricle (the same at every visit)" in caplog.text


@pytest.mark.parametrize("name", [*ASEG_SUMMARIES, *ASEG_NO_PLACE, "lh_MeanThickness_thickness",
    "rh_WhiteSurfArea_area", "eTIV", "ICV", "LThickness", "RSurfArea", "lh_unknown_thickness",
    "BrainSegVolNotVent"])  # fmt: skip
def test_summaries_are_recognised(name):
    assert is_summary(name)


@pytest.mark.parametrize("atlas", [DESIKAN_KILLIANY, DESTRIEUX])
@pytest.mark.parametrize("measure", ["thickness", "volume", "area", "meancurv"])
def test_no_region_is_taken_for_a_summary(atlas, measure):
    names = [f"{side}_{name}_{measure}" for side in ("lh", "rh") for name in atlas]
    found = find_region_columns([*names, "age", "MMSE"], "table")
    assert found.regions == tuple(names)
    assert found.measures == (measure,)
    assert not any(map(is_summary, ASEG_REGIONS))


def test_a_wide_spreadsheet_is_a_cohort_of_its_regions(study, tmp_path):
    _, thickness, people = study
    wide = people.assign(MMSE=28, ICV=1.5e6).assign(
        **{f"L_{name}_thickavg": thickness[:, i] for i, name in enumerate(DESIKAN_KILLIANY)}
    )
    wide.to_csv(tmp_path / "study.csv", index=False)
    cohort = bd.read_cohort(tmp_path / "study.csv")
    assert cohort.space.names == tuple(f"L_{name}_thickavg" for name in DESIKAN_KILLIANY)
    assert {"MMSE", "ICV"} <= set(cohort.table.columns)


def test_columns_that_the_user_names_are_regions_too(study):
    _, thickness, people = study
    wide = people.assign(here=thickness[:, 0], there=thickness[:, 1])
    cohort = bd.read_cohort(wide, values=["here", "there"])
    assert cohort.space.names == ("here", "there")


def test_regions_without_neighbours_are_fitted_like_columns_without_a_space(study):
    _, thickness, people = study
    controls = (people["diagnosis"] == "CN").to_numpy()
    given = {"subjects": people["participant_id"], "times": people["years"], "controls": controls}
    names = tuple(f"r{i}" for i in range(thickness.shape[1]))
    fits = [
        bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(
            bd.Cohort(thickness, space=space, **given)
        )
        for space in (None, bd.Regions("r", names))
    ]
    np.testing.assert_allclose(fits[0].scores_, fits[1].scores_, rtol=1e-9)


def test_two_measures_of_the_same_regions_are_refused_with_advice(study):
    _, thickness, people = study
    wide = people.assign(
        lh_insula_thickness=thickness[:, 0], lh_insula_volume=thickness[:, 1],
        rh_insula_thickness=thickness[:, 2],
    )  # fmt: skip
    with pytest.raises(CohortError, match=r"lh_insula_thickness and lh_insula_volume; choose one"):
        bd.read_cohort(wide)
    assert bd.read_cohort(wide, values="*_thickness").n_vertices == 2


def test_visits_that_no_table_has_are_listed_together(study):
    folder, _, people = study
    more = pd.concat(
        [people, people.iloc[[0, 1]].assign(participant_id=["new1", "new2"])], ignore_index=True
    )
    with pytest.raises(
        CohortError, match=r"(?s)2 problems.*new1_v1 or new1_ses-v1.*new2"
    ) as raised:
        bd.read_region_tables(folder / "lh.tsv", more)
    assert "name it in a column fsid" in str(raised.value)


def test_the_same_measure_twice_is_refused(study):
    folder, _, people = study
    with pytest.raises(CohortError, match="another table of regions has already"):
        bd.read_region_tables([folder / "lh.tsv", folder / "lh.tsv"], people)


def test_a_table_of_freesurfers_alone_says_what_is_missing(study):
    folder, _, _ = study
    with pytest.raises(CohortError, match=r"does not say when a scan was taken.*--regions"):
        bd.read_cohort(folder / "lh.tsv")


def test_another_table_is_not_taken_for_freesurfers(study):
    folder, _, people = study
    with pytest.raises(CohortError, match=r"visits\.tsv is not a table of aparcstats2table"):
        bd.read_region_tables(folder / "visits.tsv", people)


def test_from_freesurfers_tables_to_a_report_by_commands(study, tmp_path):
    folder, _, _ = study
    tables = ["--regions", folder / "lh.tsv", "--regions", folder / "rh.tsv"]
    visits, fit, page = folder / "visits.tsv", tmp_path / "f.dive", tmp_path / "r.html"

    def braindive(*words):
        result = CliRunner().invoke(app, list(map(str, words)))
        assert result.exit_code == 0, result.output
        return result

    said = braindive("check", visits, *tables)
    assert "68 vertices on Desikan-Killiany" in said.stdout
    assert "lh_MeanThickness_thickness" in said.stderr
    braindive("fit", visits, *tables, "-k", 2, "--n-init", 1, "-o", fit)
    settings = json.loads((tmp_path / "f.dive.json").read_text())
    assert len(settings["regions"]) == 2
    braindive("fit", "--settings", tmp_path / "f.dive.json", "-o", tmp_path / "again.dive")
    first, again = bd.load_model(fit), bd.load_model(tmp_path / "again.dive")
    np.testing.assert_array_equal(first.labels_, again.labels_)
    braindive("stage", fit, visits, *tables, "-o", tmp_path / "stages.tsv")
    stages = pd.read_csv(tmp_path / "stages.tsv", sep="\t", index_col=0)
    np.testing.assert_allclose(stages.loc[first.subjects_, "shift"], first.shifts_, rtol=1e-3)
    braindive("pack", visits, *tables, "-o", tmp_path / "s.zarr")
    assert bd.open_packed(tmp_path / "s.zarr").space.names == first.space_.names
    braindive("report", fit, "-o", page)
    assert page.is_file()
