"""What the report takes from a model, without a browser."""

import base64
import html
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import braindive as bd
from braindive.cli.demo_disease import demo_cortex, demo_stages
from braindive.cli.main import app
from braindive.io.anatomy import Anatomy
from braindive.palette import cluster_colours
from braindive.progression_words import progression_sentence
from braindive.report.picture import draw_surface, thin_mesh
from braindive.report.places import places_of_clusters
from braindive.report.planes import draw_volume
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


def people_of(report):
    return {c["name"]: c["cells"] for c in data_of(report)["people"]["columns"]}


def test_standard_errors_are_those_of_stage_with_and_without_the_cohort(model, cohort):
    stages = model.stage(cohort)
    for report in (bd.build_report(model), bd.build_report(model, cohort)):
        columns = people_of(report)
        np.testing.assert_allclose(columns["Score ±"], stages["score_se"], rtol=1e-6)
        np.testing.assert_allclose(columns["Speed ±"], stages["speed_se"], rtol=1e-6)


def test_models_of_earlier_formats_have_a_report_that_says_what_it_does_not_know():
    saved = Path(__file__).parents[1] / "io" / "saved" / "format-1.dive"
    report = bd.build_report(bd.load_model(saved))
    assert set(people_of(report)["Score ±"]) == {None}
    assert "saved before fits kept standard errors" in report.html


def test_errors_of_curves_reach_the_page(model):
    data = data_of(bd.build_report(model))
    scores = np.linspace(data["range"]["low"], data["range"]["high"], 401)
    expected = model.trajectory_errors(scores)
    for k, cluster in enumerate(data["clusters"]):
        errors = np.frombuffer(base64.b64decode(cluster["errors"]), "<f4")
        np.testing.assert_allclose(errors, expected[:, k], rtol=1e-6)


def test_of_the_table_the_page_holds_diagnosis_and_what_was_asked_for(make_model):
    extra = {"path": "secret-folder/scan.mgh", "postcode": "secret-town", "age": 71.5}
    model = make_model(None, extra=extra)
    held = ["Person", "Score", "Score ±", "Speed", "Speed ±", "Visits", "diagnosis"]
    plain = bd.build_report(model)
    assert list(people_of(plain)) == held
    asked = bd.build_report(model, columns=["age"])
    assert list(people_of(asked)) == [*held, "age"]
    assert people_of(asked)["age"] == [71.5] * 12
    for page in (plain, asked):
        assert "secret" not in page.html
    assert "MMSE" not in plain.html
    assert (
        "the id, the scores of all visits, the speed, standard errors of both, diagnosis, age."
        in (asked.html)
    )


def test_an_unknown_column_is_named_with_those_there_are(make_model):
    with pytest.raises(bd.ParameterError, match=r"'educaton'.*MMSE"):
        bd.build_report(make_model(None), columns=["educaton"])


def test_anonymous_people_are_numbers_by_their_scores(make_model):
    model = make_model(None, n_subjects=12, names=[f"Ann Other {i}" for i in range(12)])
    model.warnings_ = ["the maps of Ann Other 7 are odd."]
    page = bd.build_report(model, anonymous=True)
    assert "Ann" not in page.html
    columns, first = people_of(page), model.scores_[::2]
    assert columns["Person"] == [str(i + 1) for i in range(12)]
    np.testing.assert_allclose(columns["Score"], np.sort(first))
    order = np.argsort(first)
    np.testing.assert_allclose(columns["Speed"], model.speeds_[order])
    np.testing.assert_allclose(columns["Score ±"], model.baseline_scores_se_[order])
    assert columns["diagnosis"] == np.where(order % 3, "patient", "CN").tolist()
    people = data_of(page)["people"]
    np.testing.assert_allclose(people["at"], model.scores_.reshape(12, 2)[order])
    assert [people["groups"][g]["name"] for g in people["group"]] == columns["diagnosis"]
    assert "for each person: a number," in page.html
    # A negative control: without it, the ids are there.
    assert "Ann Other 7" in bd.build_report(model).html


def test_missing_entries_are_empty(make_model):
    model = make_model(None, n_subjects=2, n_visits=1, extra={"MMSE": [np.nan, 20.0]})
    assert people_of(bd.build_report(model, columns=["MMSE"]))["MMSE"] == [None, 20.0]


def test_regions_of_an_area_are_those_of_which_most_belongs_to_it():
    labels = np.repeat(np.arange(4), [20, 20, 30, 3])
    names = ("left insula", "right insula", "left cuneus", "right cuneus")
    anatomy = Anatomy("", "", names, np.concatenate([labels, [-1]]))
    responsibilities = np.zeros((74, 2))
    responsibilities[:40, 0] = 0.9  # both insulae
    responsibilities[40:70, 0] = 0.25  # the left cuneus, a little
    responsibilities[:, 1] = 1 - responsibilities[:, 0]
    first, second = places_of_clusters(anatomy, responsibilities)
    assert [str(place) for place in first] == ["left and right insula (90 %)", "left cuneus (25 %)"]
    # The right cuneus has too few vertices to be named.
    assert [str(place) for place in second] == [
        "left cuneus (75 %)",
        "left and right insula (10 %)",
    ]


def test_no_progression_is_the_first_thing_that_is_said(make_model):
    model = make_model(None)
    assert "No progression was found" not in bd.build_report(model).html
    model.progression_found_, model.progression_p_ = False, 0.41
    words = re.sub(r"<[^>]+>", " ", bd.build_report(model).html.partition("<header>")[2])
    assert " ".join(words.split()).startswith("No progression was found: ")
    assert "(p = 0.41)" in words
    model.warnings_ = [progression_sentence(model), *model.warnings_]
    assert bd.build_report(model).html.count("No progression was found") == 1
    model.progression_p_, model.warnings_ = np.nan, []
    assert "cannot be judged: nobody was seen more than once" in bd.build_report(model).html
    model.progression_found_, model.progression_p_ = True, 0.0002
    page = bd.build_report(model).html
    assert "No progression" not in page
    assert "A progression was found: people change together over time (p &lt; 0.001)." in page


def test_methods_name_versions_settings_and_what_was_done(model):
    page = bd.build_report(model).html
    methods = re.search(r'id="methods-text">(.*?)</p>', page, re.DOTALL)[1]
    for words in (
        "Marinescu et al., 2019",
        f"braindive {model.versions_['braindive']}",
        f"numpy {model.versions_['numpy']}",
        "150 vertices came from 40 people (28 patient, 12 CN at the first visit) at 160 visits",
        "grouped into 3 clusters",
        "one sigmoid trajectory",
        "4 starts, seed 0, tolerance 0.0001",
        f"converged after {model.n_iter_} passes",
        "unit is a year",
    ):
        assert words in methods, words
    for warning in model.warnings_:
        assert page.count(html.escape(warning[1:], quote=True).replace("&#x27;", "&#39;")) >= 2


def test_effects_of_covariates_have_a_table_and_a_sentence():
    cohort = bd.simulate_cohort(
        n_subjects=50, n_vertices=60, noise=0.3, group_effect=1.5, random_state=0
    ).cohort
    model = bd.DIVE(2, n_init=1, personal=False, shift_on=["apoe4"], random_state=0).fit(cohort)
    page = bd.build_report(model).html
    (row,) = re.findall(r"<tbody><tr><th scope=\"row\">(apoe4.*?)</tr>", page)
    effect = model.effects_.iloc[0]
    assert f"{effect['estimate']:+.2f} years" in row
    assert f"{effect['low']:+.2f} to {effect['high']:+.2f}" in row
    assert "scores at the first visit were allowed to depend on apoe4" in page
    assert "<dt>shift_on</dt><dd>apoe4</dd>" in page


def test_the_page_says_what_the_values_are(make_model):
    page = bd.build_report(make_model(None), measure="cortical thickness (mm)").html
    assert "The cortical thickness (mm) that the model expects" in page
    assert data_of(bd.build_report(make_model(None)))["measure"] == "value"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["sub-1/lh.thickness.fwhm10.mgh", "sub-2/lh.thickness.mgh"], "cortical thickness (mm)"),
        (["sub-1/lh.thickness.mgh", "sub-2/lh.area.mgh"], "value"),
        (["thickness/lh.mgh", "thickness/lh2.mgh"], "value"),
        (["lh.areal.mgh", "lh.areal.mgh"], "value"),
    ],
)
def test_a_measure_that_all_files_name_is_known(make_model, names, expected):
    model = make_model(None, n_subjects=2, n_visits=1, extra={"left": names})
    assert data_of(bd.build_report(model))["measure"] == expected
    model.preprocessing_ = bd.Preprocessing(standardise=True)
    # A z-score is of the measure, but not in its unit.
    standard = "z-score" if expected == "value" else "z-score of cortical thickness"
    assert data_of(bd.build_report(model))["measure"] == standard


def test_a_measure_that_all_regions_name_is_known(make_model):
    space = bd.Regions("aparc", ("lh_insula_area", "rh_insula_area", "lh_cuneus_area"))
    model = make_model(space, n_clusters=2)
    assert data_of(bd.build_report(model))["measure"] == "surface area (mm²)"


def test_an_anonymous_report_refuses_a_column_of_ids(make_model):
    with pytest.raises(bd.ParameterError, match="'participant_id' holds people's ids"):
        bd.build_report(make_model(None), columns=["participant_id"], anonymous=True)


def test_without_staging_nothing_was_estimated_of_people(cohort):
    model = bd.no_staging_model(n_clusters=2, n_init=1, personal=False, random_state=0).fit(cohort)
    page = bd.build_report(model)
    assert set(people_of(page)["Score ±"]) == {None}
    assert data_of(page)["clusters"][0]["errors"] is None
    assert "People were not staged" in page.html


def test_policy_forbids_the_network_and_all_scripts_but_the_own(make_model):
    page = bd.build_report(make_model(None)).html
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)[1]
    assert "default-src &#39;none&#39;" in policy or "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'sha256-" in policy.replace("&#39;", "'")


def test_warnings_and_versions_of_the_fit_reach_the_page_through_a_file(tmp_path):
    cohort = bd.simulate_cohort(n_subjects=40, n_visits=1, random_state=0).cohort
    with pytest.warns(bd.DataWarning, match="one visit"):
        model = bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(cohort)
    model.versions_["numpy"] = "1.2.3"
    model.save(tmp_path / "fit.dive")
    page = bd.build_report(bd.load_model(tmp_path / "fit.dive")).html
    assert "Every subject has one visit" in page
    assert "<dt>Fitted with numpy</dt><dd>1.2.3</dd>" in page


def test_a_fit_without_warnings_shows_none(make_model):
    assert 'class="warning"' not in bd.build_report(make_model(None)).html


def test_many_warnings_leave_the_first_screen_to_the_answers(make_model):
    model = make_model(None)
    model.warnings_ = [f"warning number {i}." for i in range(7)]
    page = bd.build_report(model).html
    header, _, rest = page.partition("</header>")
    assert header.count("Warning number") == 2
    assert "5 more warnings" in header
    assert rest.count("<li>Warning number") == 7


def test_a_flat_mesh_faces_the_views_from_the_sides():
    across, up = (axis.ravel() for axis in np.meshgrid(np.arange(5.0), np.arange(4.0)))
    corners = [[a, a + 1, a + 5] for a in range(14) if a % 5 != 4]
    flat = Hemisphere("left", np.column_stack([across, up, 0 * up]), np.array(corners))
    content = draw_surface(bd.Surface("sheet", (flat,))).content
    assert content["flat"]  # and so has no front and back, no above and below
    assert not draw_surface(bd.load_space("fsaverage5-left")).content["flat"]
    shape = content["shapes"]["Surface"]
    points = np.frombuffer(base64.b64decode(shape["points"]), "<i2").reshape(-1, 3).astype(int)
    assert np.ptp(points, axis=0)[0] == 0
    assert (np.ptp(points, axis=0)[1:] > 10_000).all()


def test_full_resolution_is_drawn_on_the_first_vertices_of_its_family():
    coarse = bd.load_space("fsaverage5-left").hemispheres[0]
    more = np.random.default_rng(0).normal(size=(40_962 - 10_242, 3))
    sphere = np.concatenate(
        [coarse.coordinates, more / np.linalg.norm(more, axis=1)[:, None] * 100]
    )
    fine = bd.Surface("anything", (Hemisphere("left", sphere, coarse.faces),))
    picture = draw_surface(fine)
    assert picture.columns.tolist() == list(range(10_242))
    assert list(picture.content["shapes"]) == ["Folded", "Inflated"]
    assert "40,962" in picture.note


def test_a_folded_mesh_that_is_called_fsaverage_has_the_folds_of_its_sphere():
    folded = bd.Surface("fsaverage5", (Hemisphere("left", *fsaverage5_mesh("pial", "left")),))
    sphere = bd.load_space("fsaverage5-left")
    parts = [draw_surface(space).content["parts"][0] for space in (folded, sphere)]
    assert parts[0]["sulci"] == parts[1]["sulci"]
    assert parts[0]["faces"] == parts[1]["faces"]


def test_vertices_outside_the_mask_are_drawn_without_data():
    space = bd.load_space("fsaverage5-left").restrict(np.arange(10_242) >= 3)
    columns = draw_surface(space).columns
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


def test_planes_of_a_volume_show_each_voxel_at_its_own_place():
    mask = np.zeros((6, 7, 5), dtype=bool)
    mask[1:5, 1:6, 1:4] = True
    affine = np.diag([-2.0, 2, 2, 1])
    picture = draw_volume(bd.Volume("box", mask, affine))
    content = picture.content
    assert sorted(picture.columns.tolist()) == list(range(60))
    assert content["template"] is None
    places = np.frombuffer(base64.b64decode(content["places"]), dtype="<u4")
    drawn = np.column_stack(np.unravel_index(places, content["shape"]))
    to_mm = np.array(content["affine"])
    shown = drawn @ to_mm[:, :3].T + to_mm[:, 3]
    numbers = np.argwhere(mask)[picture.columns]
    np.testing.assert_allclose(shown, numbers @ affine[:3, :3] + affine[:3, 3])
    # The first axis points left here, and is drawn from left to right.
    assert to_mm[0, 0] > 0


def test_a_large_volume_is_thinned_and_says_so():
    affine = np.diag([1.0, 1, 1, 1])
    picture = draw_volume(bd.Volume("large", np.ones((80, 80, 80), dtype=bool), affine), 20)
    assert len(picture.columns) * 20 <= 1_600_000
    assert "One voxel in 8 is drawn." in picture.note
    numbers = np.column_stack(np.unravel_index(picture.columns, (80, 80, 80)))
    places = np.frombuffer(base64.b64decode(picture.content["places"]), dtype="<u4")
    drawn = np.column_stack(np.unravel_index(places, picture.content["shape"]))
    to_mm = np.array(picture.content["affine"])
    np.testing.assert_allclose(drawn @ to_mm[:, :3].T + to_mm[:, 3], numbers)


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
    more = ["--anonymous", "--columns", "diagnosis, time", "--measure", "thickness (mm)"]
    result = CliRunner().invoke(app, arguments + more)
    assert result.exit_code == 0, result.output
    saved = (tmp_path / "report.html").read_text(encoding="utf-8")
    expected = bd.build_report(
        bd.load_model(tmp_path / "fit.dive"),
        columns=["diagnosis", "time"],
        anonymous=True,
        measure="thickness (mm)",
    )
    assert saved == expected.html


def test_help_says_what_a_page_and_a_model_hold_about_people():
    for command, words in (
        ("report", "id (or with --anonymous a number), scores, speed and diagnosis"),
        ("fit", "people's ids and the whole table"),
    ):
        said = CliRunner().invoke(app, [command, "--help"]).output
        assert words in re.sub(r"[\s│]+", " ", said)


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
