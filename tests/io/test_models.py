import io
import json
import os
import zipfile

import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.io.archive import digest
from braindive.io.models import fit_fingerprint, read_checkpoint, write_checkpoint
from braindive.io.outputs import replace_file


@pytest.fixture(scope="module")
def study():
    simulation = bd.simulate_cohort(
        n_subjects=16,
        n_visits=3,
        space=bd.Regions("line", [f"r{i}" for i in range(60)], [[i, i + 1] for i in range(59)]),
        noise=0.1,
        control_share=0.4,
        random_state=0,
    )
    cohort = simulation.cohort
    table = cohort.table.assign(
        age=70 + cohort.times, apoe=np.where(cohort.subject_index % 3, "e3", None)
    )
    return bd.Cohort(
        cohort.values,
        subjects=cohort.subjects,
        times=cohort.times,
        controls=cohort.controls,
        space=cohort.space,
        table=table,
    )


@pytest.fixture(scope="module")
def fitted(study):
    preprocessing = bd.Preprocessing(covariates=("age",))
    return bd.DIVE(3, random_state=4, preprocessing=preprocessing, n_init=2).fit(study)


@pytest.fixture
def saved(fitted, tmp_path):
    path = tmp_path / "fit.dive"
    fitted.save(path)
    return path


def rewrite(path, change, compression=zipfile.ZIP_STORED):
    """Write the archive again with other entries."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def change_header(path, **changes):
    def change(entries):
        entries["header.json"] = json.dumps(
            {**json.loads(entries["header.json"]), **changes}
        ).encode()

    rewrite(path, change)


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def test_a_loaded_model_stages_predicts_and_scores_the_same(fitted, saved, study):
    loaded = bd.load_model(saved)
    new = study.select(subjects=study.subject_ids[:5])
    pd.testing.assert_frame_equal(loaded.stage(new), fitted.stage(new), check_exact=True)
    np.testing.assert_array_equal(loaded.predict(new), fitted.predict(new))
    assert loaded.score(new) == fitted.score(new)


def test_every_parameter_and_fitted_attribute_comes_back(fitted, saved):
    loaded = bd.load_model(saved)
    assert set(vars(loaded)) == set(vars(fitted))
    for name in vars(fitted):
        first, second = getattr(fitted, name), getattr(loaded, name)
        if isinstance(first, np.ndarray):
            np.testing.assert_array_equal(first, second)
            assert first.dtype == second.dtype
        elif isinstance(first, (int, float, str, bool, type(None))):
            assert first == second
    pd.testing.assert_frame_equal(loaded.visits_, fitted.visits_)
    assert loaded.space_.names == fitted.space_.names
    assert loaded.preprocessing_.covariates == ("age",)


def test_a_model_with_atlas_priors_and_array_settings_comes_back(study, tmp_path):
    labels = np.array(["north", "south"])[np.arange(60) // 30]
    priors = bd.Priors(trajectory=bd.Normal(np.zeros(4), np.full(4, 10.0)))
    model = bd.roi_model(labels, priors=priors, people="alike", random_state=0).fit(study)
    model.save(tmp_path / "roi.dive")
    loaded = bd.load_model(tmp_path / "roi.dive")
    assert loaded.cluster_names_.tolist() == model.cluster_names_.tolist()
    np.testing.assert_array_equal(loaded.priors.trajectory.sd, priors.trajectory.sd)
    again = loaded.fit(study)
    np.testing.assert_array_equal(again.scores_, model.scores_)


@pytest.mark.parametrize("kind", [pd.Series, pd.Index, pd.Categorical])
@pytest.mark.parametrize("regions", [["ent", "hip"], [11, 12]], ids=["names", "numbers"])
def test_a_column_of_a_table_as_assignments_comes_back_as_an_array(study, tmp_path, kind, regions):
    labels = np.resize(regions, study.n_vertices)
    model = bd.roi_model(kind(labels), personal=False, random_state=0).fit(study)
    model.save(tmp_path / "fit.dive")
    loaded = bd.load_model(tmp_path / "fit.dive")
    np.testing.assert_array_equal(loaded.assignments, labels)
    np.testing.assert_array_equal(loaded.cluster_names_, model.cluster_names_)
    np.testing.assert_array_equal(loaded.stage(study), model.stage(study))


def test_the_same_fit_gives_the_same_bytes(fitted, study, saved, tmp_path):
    again = tmp_path / "again.dive"
    bd.DIVE(**fitted.get_params(deep=False)).fit(study).save(again)
    assert again.read_bytes() == saved.read_bytes()
    bd.load_model(saved).save(again)
    assert again.read_bytes() == saved.read_bytes()


def test_the_file_says_what_it_was_made_with(saved):
    with zipfile.ZipFile(saved) as archive:
        text = archive.read("header.json").decode()
    for word in ("braindive", "numpy", "scipy", "scikit-learn", bd.__version__, "random_state"):
        assert word in text


def test_no_entry_needs_pickle(saved):
    with zipfile.ZipFile(saved) as archive:
        for name in archive.namelist()[1:]:
            np.load(io.BytesIO(archive.read(name)), allow_pickle=False)


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(bd.NotFittedError):
        bd.DIVE().save(tmp_path / "fit.dive")
    assert not list(tmp_path.iterdir())


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(bd.ModelFileError, match=r"no file .*none\.dive"):
        bd.load_model(tmp_path / "none.dive")


def test_a_file_of_a_newer_version_asks_for_an_update(saved):
    change_header(saved, version=99)
    with pytest.raises(bd.ModelFileError, match=r"newer braindive.*update"):
        bd.load_model(saved)


def test_a_file_of_another_kind_is_refused(saved):
    change_header(saved, kind="recipe")
    with pytest.raises(bd.ModelFileError, match="holds a recipe"):
        bd.load_model(saved)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(saved, share):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(share * len(data))])
    with pytest.raises(bd.ModelFileError):
        bd.load_model(saved)


def test_a_flipped_byte_in_an_array_is_noticed(saved):
    with zipfile.ZipFile(saved) as archive:
        entry = max(archive.infolist(), key=lambda entry: entry.file_size)
    data = bytearray(saved.read_bytes())
    data[entry.header_offset + entry.file_size // 2] ^= 1
    saved.write_bytes(bytes(data))
    with pytest.raises(bd.ModelFileError, match="damaged"):
        bd.load_model(saved)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "text.dive"
    path.write_text("not a model")
    with pytest.raises(bd.ModelFileError, match=r"text\.dive"):
        bd.load_model(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(bd.ModelFileError, match="not a braindive model file"):
        bd.load_model(path)


def test_a_table_or_an_empty_file_is_not_called_damaged(tmp_path):
    for content, said in [("id;age\n1;70\n", "is not a braindive model"), ("", "is empty")]:
        (tmp_path / "visits.csv").write_text(content)
        with pytest.raises(bd.ModelFileError, match=said) as caught:
            bd.load_model(tmp_path / "visits.csv")
        assert "zip" not in str(caught.value)


def test_compressed_entries_are_refused_before_they_are_opened(saved):
    rewrite(saved, lambda entries: None, zipfile.ZIP_DEFLATED)
    with pytest.raises(bd.ModelFileError, match="compressed"):
        bd.load_model(saved)


def test_an_array_that_claims_to_be_huge_is_refused(saved):
    def change(entries):
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
        )
        entries["arrays/0000.npy"] = header.getvalue()

    rewrite(saved, change)
    with pytest.raises(bd.ModelFileError, match="size it claims"):
        bd.load_model(saved)


def test_a_pickled_array_is_refused_and_never_run(saved, tmp_path):
    proof = tmp_path / "ran"

    class Hostile:
        def __reduce__(self):
            return (os.mkdir, (str(proof),))

    hostile = npy(np.array([Hostile()], dtype=object), allow_pickle=True)
    rewrite(saved, lambda entries: entries.update({"arrays/0000.npy": hostile}))
    with pytest.raises(bd.ModelFileError, match="only plain numbers"):
        bd.load_model(saved)
    assert not proof.exists()


def test_entries_with_other_names_are_refused(saved, tmp_path):
    rewrite(saved, lambda entries: entries.update({"../outside.npy": npy(np.zeros(1))}))
    with pytest.raises(bd.ModelFileError, match="unexpected entries"):
        bd.load_model(saved)
    assert not (tmp_path.parent / "outside.npy").exists()


@pytest.mark.parametrize(
    "content",
    [
        None,
        {"dict": []},
        {"dict": [["parameters", {"dict": []}], ["fitted", {"dict": []}]]},
        {"known": ["os.system", {}]},
        {"known": ["State", {"nonsense": 1}]},
        {"array": 10**9},
        {"nonsense": 1, "more": 2},
        {"sparse": [[2, 2], [{"array": 0}, {"array": 0}, {"array": 0}]]},
        [1, 2],
    ],
)
def test_nonsense_in_the_header_is_refused(saved, content):
    change_header(saved, content=content)
    with pytest.raises(bd.ModelFileError):
        bd.load_model(saved)


def test_a_deeply_nested_header_is_refused(saved):
    deep = '{"list": [' * 100_000
    rewrite(saved, lambda entries: entries.update({"header.json": deep.encode()}))
    with pytest.raises(bd.ModelFileError):
        bd.load_model(saved)


@pytest.mark.parametrize("name", ["responsibilities_", "noise_", "shifts_", "labels_"])
def test_an_array_of_another_shape_is_refused(fitted, tmp_path, name):
    changed = bd.DIVE(**fitted.get_params(deep=False))
    vars(changed).update(vars(fitted))
    setattr(changed, name, getattr(fitted, name)[:-1])
    changed.save(tmp_path / "fit.dive")
    with pytest.raises(bd.ModelFileError, match="usable model"):
        bd.load_model(tmp_path / "fit.dive")


def test_values_that_are_not_numbers_are_refused(fitted, tmp_path):
    changed = bd.DIVE(**fitted.get_params(deep=False))
    vars(changed).update(vars(fitted))
    changed.noise_ = np.full_like(fitted.noise_, np.nan)
    changed.save(tmp_path / "fit.dive")
    with pytest.raises(bd.ModelFileError, match="not numbers"):
        bd.load_model(tmp_path / "fit.dive")


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text("old")

    def fail():
        with replace_file(path) as temporary:
            temporary.write_text("half")
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        fail()
    assert [p.name for p in tmp_path.iterdir()] == ["table.tsv"]
    assert path.read_text() == "old"


@pytest.mark.parametrize(("spatial", "holes"), [(None, True), ("auto", False)])
def test_a_fit_resumed_at_any_pass_ends_the_same_to_the_last_bit(study, tmp_path, spatial, holes):
    # So noisy that starts differ, and that nobody can tell whether there is a progression.
    values = study.values + np.random.default_rng(1).standard_normal(study.values.shape)
    if holes:
        values[np.random.default_rng(0).random(values.shape) < 0.1] = np.nan
    cohort = bd.Cohort(
        values,
        subjects=study.subjects,
        times=study.times,
        controls=study.controls,
        graph=study.graph,
    )
    # Of the published fit, because what comes after the EM begins from its end.
    quick = {"people": "alike", "personal": False, "random_state": 1}
    model = bd.DIVE(3, spatial=spatial, n_init=3, max_iter=7, tol=1e-12, **quick)
    paths = []

    def keep(progress):
        paths.append(tmp_path / f"{len(paths)}.checkpoint")
        write_checkpoint(paths[-1], "mark", progress.checkpoint)

    with (
        pytest.warns(bd.ConvergenceWarning),
        pytest.warns(bd.StagingWarning, match="No progression was found"),
    ):
        model.fit(cohort, callback=keep)
    # In the first start, at the end of the screening, and when all was done.
    assert len(paths) > 8
    for path in (paths[1], paths[-4], paths[-1]):
        mark, checkpoint = read_checkpoint(path)
        assert mark == "mark"
        again = bd.DIVE(**model.get_params(deep=False))
        with (
            pytest.warns(bd.ConvergenceWarning),
            pytest.warns(bd.StagingWarning, match="No progression was found"),
        ):
            again.fit(cohort, resume=checkpoint)
        for name in ("responsibilities_", "scores_", "objective_", "noise_", "speeds_"):
            np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
        assert again.log_likelihood_ == model.log_likelihood_


def test_a_fingerprint_tells_data_and_settings_apart(study):
    parameters = bd.DIVE(3, random_state=0).get_params(deep=False)
    first = fit_fingerprint(study, parameters)
    assert first == fit_fingerprint(study, {**parameters, "n_jobs": 7})
    assert first != fit_fingerprint(study, {**parameters, "random_state": 1})
    values = study.values.copy()
    values[3, 5] += 1e-9
    changed = bd.Cohort(
        values,
        subjects=study.subjects,
        times=study.times,
        controls=study.controls,
        space=study.space,
        table=study.table,
    )
    assert first != fit_fingerprint(changed, parameters)


def test_what_cannot_be_saved_is_named():
    with pytest.raises(TypeError, match="type set cannot be saved"):
        digest({"a": {1}}, lambda value: None)
