"""What the report takes from a model, without a browser."""

import base64
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.demo_disease import demo_cortex, demo_stages
from braindive.cli.main import app
from braindive.palette import cluster_colours
from braindive.report.picture import draw_space, thin_mesh
from braindive.space import Hemisphere
from braindive.space.fsaverage import fsaverage5_mesh


def data_of(report):
    found = re.search(r'id="report-data">(.*?)</script>', report.html, re.DOTALL)
    return json.loads(found[1])


def test_probabilities_survive_the_page_to_four_digits(make_model):
    model = make_model(bd.load_space("fsaverage5-left"), n_clusters=5)
    text = data_of(bd.build_report(model))["picture"]["probabilities"]
    steps = np.frombuffer(base64.b64decode(text), dtype="<u2").reshape(-1, 5)
    np.testing.assert_allclose(steps / 65_535, model.responsibilities_, atol=1e-5)


def test_people_have_the_scores_of_their_own_visits(make_model):
    model = make_model(None, n_subjects=5, n_visits=3)
    shuffled = np.random.default_rng(1).permutation(15)
    expected = model.scores_.reshape(5, 3)
    model.visits_, model.scores_ = model.visits_.iloc[shuffled], model.scores_[shuffled]
    people = data_of(bd.build_report(model))["people"]
    np.testing.assert_allclose(people["at"], expected)
    columns = {column["name"]: column["cells"] for column in people["columns"]}
    np.testing.assert_allclose(columns["Score"], expected[:, 0])
    assert columns["Person"] == model.subjects_.tolist()


def test_standard_errors_are_those_of_stage(model, cohort):
    people = data_of(bd.build_report(model, cohort))["people"]
    columns = {column["name"]: column["cells"] for column in people["columns"]}
    np.testing.assert_allclose(columns["Score ±"], model.stage(cohort)["score_se"])


def test_paths_of_scans_stay_out_of_the_page(make_model):
    model = make_model(None, extra={"path": "secret-folder/scan.mgh"})
    assert "secret-folder" not in bd.build_report(model).html


def test_missing_entries_are_empty(make_model):
    model = make_model(None, n_subjects=2, n_visits=1, extra={"MMSE": [np.nan, 20.0]})
    columns = {c["name"]: c["cells"] for c in data_of(bd.build_report(model))["people"]["columns"]}
    assert columns["MMSE"] == [None, 20.0]


def test_policy_forbids_the_network_and_all_scripts_but_the_own(make_model):
    html = bd.build_report(make_model(None)).html
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', html)[1]
    assert "default-src &#39;none&#39;" in policy or "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'sha256-" in policy.replace("&#39;", "'")


def test_warnings_and_versions_of_the_fit_reach_the_page_through_a_file(tmp_path):
    cohort = bd.simulate_cohort(n_subjects=40, n_visits=1, random_state=0).cohort
    with pytest.warns(bd.DataWarning, match="one visit"):
        model = bd.DIVE(n_clusters=2, random_state=0).fit(cohort)
    model.versions_["numpy"] = "1.2.3"
    model.save(tmp_path / "fit.dive")
    html = bd.build_report(bd.load_model(tmp_path / "fit.dive")).html
    assert "Every subject has one visit" in html
    assert "<dt>Fitted with numpy</dt><dd>1.2.3</dd>" in html


def test_a_fit_without_warnings_shows_none(make_model):
    assert 'class="warning"' not in bd.build_report(make_model(None)).html


def test_full_resolution_is_drawn_on_the_first_vertices_of_its_family():
    coarse = bd.load_space("fsaverage5-left").hemispheres[0]
    more = np.random.default_rng(0).normal(size=(40_962 - 10_242, 3))
    sphere = np.concatenate(
        [coarse.coordinates, more / np.linalg.norm(more, axis=1)[:, None] * 100]
    )
    fine = bd.Surface("anything", (Hemisphere("left", sphere, coarse.faces),))
    picture = draw_space(fine)
    assert picture.columns.tolist() == list(range(10_242))
    assert list(picture.content["shapes"]) == ["Folded", "Inflated"]
    assert "40,962" in picture.note


def test_a_folded_mesh_that_is_called_fsaverage_has_the_folds_of_its_sphere():
    folded = bd.Surface("fsaverage5", (Hemisphere("left", *fsaverage5_mesh("pial", "left")),))
    sphere = bd.load_space("fsaverage5-left")
    parts = [draw_space(space).content["parts"][0] for space in (folded, sphere)]
    assert parts[0]["sulci"] == parts[1]["sulci"]
    assert parts[0]["faces"] == parts[1]["faces"]


def test_vertices_outside_the_mask_are_drawn_without_data():
    space = bd.load_space("fsaverage5-left").restrict(np.arange(10_242) >= 3)
    columns = draw_space(space).columns
    assert columns[:5].tolist() == [-1, -1, -1, 0, 1]


def test_thinned_mesh_keeps_its_form_and_its_vertices_near():
    part = bd.load_space("fsaverage5-left").hemispheres[0]
    kept, faces = thin_mesh(part.coordinates, part.faces, 1500)
    assert 700 < len(kept) <= 1500
    assert len(np.unique(kept)) == len(kept)
    assert faces.max() < len(kept)
    corners = part.coordinates[kept][faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(normals, axis=1).sum() / 2
    assert area == pytest.approx(4 * np.pi * 100**2, rel=0.1)


def test_slices_of_a_volume_show_each_voxel_at_its_own_place():
    mask = np.zeros((6, 7, 5), dtype=bool)
    mask[1:5, 1:6, 1:4] = True
    picture = draw_space(bd.Volume("box", mask, np.diag([-1.0, 1, 1, 1])))
    assert sorted(picture.columns.tolist()) == list(range(60))
    places = np.frombuffer(base64.b64decode(picture.content["places"]), dtype="<u2").reshape(-1, 2)
    assert len(np.unique(places, axis=0)) == 60
    assert places[:, 0].max() < picture.content["width"]
    assert places[:, 1].max() < picture.content["height"]
    # The first axis points left here: the voxel with the highest index is leftmost.
    numbers = np.full(mask.shape, -1)
    numbers[mask] = np.arange(60)
    row_of = dict(zip(picture.columns.tolist(), places.tolist(), strict=True))
    assert row_of[numbers[4, 1, 1]][0] < row_of[numbers[1, 1, 1]][0]


@pytest.mark.parametrize("n", [1, 2, 3, 8, 20])
def test_colours_of_clusters_get_lighter_from_early_to_late(n):
    colours = cluster_colours(n)
    rgb = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in colours]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    assert len(set(colours)) == n
    assert (np.diff(luminance) > 0).all()


def test_command_writes_the_page_of_a_saved_model(model, tmp_path):
    model.save(tmp_path / "fit.dive")
    arguments = ["report", str(tmp_path / "fit.dive"), "-o", str(tmp_path / "report.html")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    saved = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert saved == bd.build_report(bd.load_model(tmp_path / "fit.dive")).html
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fit.dive", "report.html"]


def test_an_unfitted_model_is_refused():
    with pytest.raises(bd.NotFittedError, match="not fitted"):
        bd.build_report(bd.DIVE())


def test_demo_disease_begins_in_the_temporal_lobe_and_the_posterior_cingulate():
    space = demo_cortex()
    stages = demo_stages(space)
    assert sorted(set(stages)) == [0, 1, 2, 3]
    shares = np.bincount(stages) / len(stages)
    np.testing.assert_allclose(shares, [0.12, 0.24, 0.32, 0.32], atol=0.001)
    # A contiguous spread: nearly all neighbours are at most one stage apart.
    first, second = space.edges().T
    assert (np.abs(stages[first] - stages[second]) <= 1).mean() > 0.99


def test_simulated_areas_are_the_labels_that_were_given():
    labels = np.arange(50) % 3
    simulation = bd.simulate_cohort(n_subjects=5, n_vertices=50, labels=labels, random_state=0)
    np.testing.assert_array_equal(simulation.truth.labels, labels)
    with pytest.raises(bd.ParameterError, match="3 midpoints"):
        bd.simulate_cohort(n_subjects=5, n_vertices=50, labels=labels + 1, random_state=0)
