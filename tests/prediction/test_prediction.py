"""Prediction of later visits with the person's own deviations."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import lsq_linear

import braindive as bd
from braindive.dive.timeline import Timeline
from braindive.fitted import timeline_of
from braindive.prediction import learning, left_out
from braindive.prediction.course import foresee, histories
from braindive.prediction.kernel import Kernel
from braindive.prediction.personal import PersonalModel
from braindive.prediction.shrinkage import (
    CourseProducts,
    Innovations,
    choose_columns,
    innovations,
)

SHAPE = np.array([0.7, 0.2, 0.3])


def naive_kappa(t, s):
    return SHAPE[0] + SHAPE[1] * t * s + SHAPE[2] * min(t, s)


@pytest.mark.parametrize("gaps", [True, False])
@pytest.mark.parametrize("scales", [None, np.array([[1.0, 0.5, 2.0], [1.5, 1.5, 0.7]])])
def test_expected_deviations_are_those_of_conditional_normals(rng, gaps, scales):
    times, targets = np.array([[0.0, 1.0, 2.5], [0.0, 2.0, 2.2]]), np.array([3.0, 4.0])
    kernel = Kernel(SHAPE, np.array([0.5, 2.0]), np.array([0.3, 0.1]))
    deviations = rng.normal(size=(2, 3, 2))
    observed = np.ones((2, 3, 2), dtype=bool)
    if gaps:
        observed[0, 1, 1] = observed[1, 2, 0] = False
    known = np.stack([deviations, 2 * deviations]) * observed
    conditional = kernel.conditional(times, targets, scales)
    expected, variance = kernel.expect(conditional, known, observed if gaps else None)
    for person, series in np.ndindex(2, 2):
        rows = np.flatnonzero(observed[person, :, series])
        a, n = kernel.persistent[series], kernel.noise[series]
        seen, target = times[person, rows], targets[person]
        inside = np.array([[a * naive_kappa(t, u) for t in seen] for u in seen])
        across = np.array([a * naive_kappa(t, target) for t in seen])
        noise = n * np.ones(len(rows)) if scales is None else n * scales[person, rows] ** 2
        gain = np.linalg.solve(inside + np.diag(noise), across)
        wanted = gain @ deviations[person, rows, series]
        np.testing.assert_allclose(expected[:, person, series], [wanted, 2 * wanted])
        left = a * naive_kappa(target, target) - gain @ across
        np.testing.assert_allclose(variance[person, series], left)


def split(cohort, n_train):
    ids = list(cohort.subject_ids)
    return cohort.select(subjects=ids[:n_train]), cohort.select(subjects=ids[n_train:])


def simulate(offset, *, components=None, noise=0.5, seed=1):
    cohort = bd.simulate_cohort(
        n_subjects=100,
        n_vertices=120,
        noise=noise,
        personal_offset=offset,
        personal_components=components,
        random_state=seed,
    ).cohort
    return split(cohort, 70)


def rmse(one, other):
    return float(np.sqrt(np.mean((one - other) ** 2)))


@pytest.mark.filterwarnings("ignore:which way the disease runs")  # offsets of 3 hide it
@pytest.mark.parametrize(
    ("offset", "components"), [(0.0, None), (0.3, None), (0.3, 3), (3.0, None), (3.0, 3)]
)
def test_prediction_never_loses_to_the_obvious(offset, components):
    train, test = simulate(offset, components=components)
    model = bd.DIVE(n_clusters=3, random_state=0).fit(train)
    early, late = test.first_visits(3), test.later_visits(3)
    truth = late.values
    by_person = early.values.reshape(30, 3, -1)
    centred = np.array([-1.0, 0.0, 1.0])
    slope = np.tensordot(by_person, centred, axes=(1, 0)) / 2
    others = {
        "population mean": train.values.mean(axis=0),
        "last value": by_person[:, -1],
        "mean of earlier visits": by_person.mean(axis=1),
        "linear extrapolation": by_person.mean(axis=1) + 2 * slope,
        "published": model.predict(late, history=early, personal=False),
    }
    error = rmse(model.predict(late, history=early), truth)
    assert error < 1.01 * min(rmse(other, truth) for other in others.values())


@pytest.mark.filterwarnings("ignore:which way the disease runs")  # offsets hide it
def test_components_borrow_strength_over_vertices():
    train, test = simulate(1.0, components=2, noise=1.0)
    model = bd.DIVE(n_clusters=3, random_state=0).fit(train)
    early, late = test.first_visits(3), test.later_visits(3)
    mean = early.values.reshape(30, 3, -1).mean(axis=1)
    error = rmse(model.predict(late, history=early), late.values)
    assert error < 0.95 * rmse(mean, late.values)


@pytest.fixture(scope="module")
def fitted():
    train, test = simulate(0.5)
    return bd.DIVE(n_clusters=3, random_state=0).fit(train), test


def test_prediction_uses_nothing_but_the_history(fitted):
    model, test = fitted
    early, late = test.first_visits(2), test.later_visits(2)
    changed = bd.Cohort(np.zeros_like(late.values), subjects=late.subjects, times=late.times)
    np.testing.assert_array_equal(
        model.predict(late, history=early), model.predict(changed, history=early)
    )


def test_intervals_cover_new_measurements(fitted):
    model, test = fitted
    early, late = test.first_visits(3), test.later_visits(3)
    values, spread = model.predict(late, history=early, return_std=True)
    assert 0.93 < np.mean(np.abs(late.values - values) < 1.96 * spread) < 0.97


def test_one_visit_is_history_enough(fitted):
    model, test = fitted
    early, late = test.first_visits(1), test.later_visits(1)
    last = np.repeat(early.values, 3, axis=0)
    assert rmse(model.predict(late, history=early), late.values) < rmse(last, late.values)


def test_other_times_are_one_row_each(fitted):
    model, test = fitted
    one = test.subject_ids[3]
    at = pd.Series([3.0, 5.0], index=[one, one])
    early = test.first_visits(3)
    asked = model.predict(test, at=at, history=early)
    late = test.later_visits(3).select(subjects=[one])
    np.testing.assert_allclose(asked[0], model.predict(late, history=early)[0])
    assert asked.shape == (2, 120)


def test_a_hole_in_the_history_changes_little_but_its_vertex(fitted):
    model, test = fitted
    early, late = test.first_visits(3), test.later_visits(3)
    values = early.values.copy()
    values[0, 5] = np.nan
    values[3:6, 8] = np.nan
    gappy = bd.Cohort(values, subjects=early.subjects, times=early.times)
    whole, holed = model.predict(late, history=early), model.predict(late, history=gappy)
    assert np.isfinite(holed).all()
    moved = np.abs(whole - holed)
    assert moved[0, 5] > 1e-3
    assert np.median(moved) < 1e-3


def test_training_with_holes_predicts_nearly_as_well(fitted):
    train, test = simulate(0.5)
    values = train.values.copy()
    values[np.random.default_rng(0).random(values.shape) < 0.1] = np.nan
    gappy = bd.Cohort(values, subjects=train.subjects, times=train.times)
    early, late = test.first_visits(3), test.later_visits(3)
    models = fitted[0], bd.DIVE(n_clusters=3, random_state=0).fit(gappy)
    errors = [rmse(model.predict(late, history=early), late.values) for model in models]
    assert errors[1] < 1.02 * errors[0]


def test_change_is_not_believed_where_there_is_none(rng):
    subjects, times = np.repeat(np.arange(60), 4), np.tile(np.arange(4.0), 60)
    levels = rng.normal(size=(60, 40))[subjects]
    values = levels + 0.3 * rng.normal(size=levels.shape)
    train, test = split(bd.Cohort(values, subjects=subjects, times=times), 40)
    with (
        pytest.warns(bd.DataWarning, match="disease runs"),
        pytest.warns(bd.StagingWarning, match="No progression was found"),
    ):
        model = bd.DIVE(n_clusters=2, random_state=0).fit(train)
    early, late = test.first_visits(3), test.later_visits(3)
    mean = early.values.reshape(20, 3, -1).mean(axis=1)
    assert rmse(model.predict(late, history=early), late.values) < 1.01 * rmse(mean, late.values)


def test_saved_model_predicts_the_same(fitted, tmp_path):
    model, test = fitted
    model.save(tmp_path / "fit.dive")
    loaded = bd.load_model(tmp_path / "fit.dive")
    early, late = test.first_visits(2), test.later_visits(2)
    np.testing.assert_array_equal(
        loaded.predict(late, history=early), model.predict(late, history=early)
    )


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_choices_made_by_enough_people_predict_as_well(monkeypatch, missing):
    settings = {"personal_offset": 0.5, "missing": missing, "random_state": 0}
    cohort = bd.simulate_cohort(200, 4, 120, **settings).cohort
    train = cohort.select(subjects=cohort.subject_ids[:140])
    new = cohort.select(subjects=cohort.subject_ids[140:])
    early, late = new.first_visits(3), new.later_visits(3)
    errors = []
    for enough in (200, 70):
        monkeypatch.setattr(learning, "_JUDGES", enough)
        model = bd.DIVE(3, people="alike", random_state=0).fit(train)
        errors.append(np.nanstd(late.values - model.predict(late, history=early)))
        everyone = np.nanmean(train.values, axis=0)
        unit = model.internal_.unit
        np.testing.assert_allclose(unit.offset + unit.scale * model.personal_.means, everyone)
    assert errors[0] != errors[1]
    assert errors[1] < 1.02 * errors[0]


def test_people_who_came_back_judge_first():
    counts = np.repeat([1, 3], 30)
    subjects = np.repeat(np.arange(60), counts)
    timeline = Timeline.from_times(subjects, np.arange(len(subjects), dtype=float))
    chosen = learning._judging_subjects(timeline)
    assert list(chosen) == list(range(60))
    for enough, from_back, from_once in ((40, 30, 10), (12, 12, 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(learning, "_JUDGES", enough)
            chosen = learning._judging_subjects(timeline)
        assert np.sum(counts[chosen] == 3) == from_back
        assert np.sum(counts[chosen] == 1) == from_once
        assert np.all(np.diff(chosen) > 0)


def test_scores_of_components_from_pooled_sums_are_those_of_the_values(fitted, monkeypatch):
    model, test = fitted
    early, late = test.first_visits(3), test.later_visits(3)
    pooled = model.predict(late, history=early, return_std=True)
    predict = PersonalModel.predict

    def without_sums(model, *given):
        return predict(model, *given[:-1])

    monkeypatch.setattr(PersonalModel, "predict", without_sums)
    read = model.predict(late, history=early, return_std=True)
    for one, other in zip(pooled, read, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_last_visits_are_predicted_from_one_from_half_and_from_all_earlier_visits():
    found = histories(np.array([10, 4, 3, 2, 1]))
    expected = [[9, 3, 2, 1, 1], [5, 2, 1, 1, 1], [1, 1, 1, 1, 1]]
    assert [known.tolist() for known in found] == expected
    assert [known.tolist() for known in histories(np.array([2, 1, 2]))] == [[1, 1, 1]]


def test_what_is_foreseen_rests_on_the_first_visits_alone(fitted):
    model, _ = fitted
    training, stager = model.internal_.training, model.stager()
    counts = training.timeline.n_visits_of_subject
    late = np.arange(len(training.sums)) - np.repeat(training.timeline.starts, counts) >= 2
    sums = training.sums.copy()
    sums[late] = -100.0
    known = np.full(len(counts), 2)
    one, other = (foresee(stager, replace(training, sums=s), known) for s in (training.sums, sums))
    np.testing.assert_array_equal(one.curves(), other.curves())
    assert not np.array_equal(one.curves(), foresee(stager, training, known + 1).curves())


@pytest.mark.parametrize(("missing", "site"), [(0.0, None), (0.1, None), (0.1, "site")])
def test_innovations_are_those_of_a_loop_over_histories(monkeypatch, missing, site):
    cohort = bd.simulate_cohort(
        24,
        n_vertices=30,
        noise=0.1,
        personal_offset=0.5,
        missing=missing,
        sites=None if site is None else 2,
        site_scale=0.8,
        random_state=2,
    ).cohort
    given, returned = [], []

    def remember(*arguments):
        given.append(arguments)
        returned.append(innovations(*arguments))
        return returned[-1]

    monkeypatch.setattr(left_out, "innovations", remember)
    bd.DIVE(2, sites=site, random_state=0).fit(cohort)
    for number in (0, len(given) // 3, len(given) - 1):  # of each length of history, or fold
        start, timeline, foresight, groups, sample, loadings, scores, noise = given[number]
        parts, vertex, wide = start.components, start.vertex_kernel, start.component_kernel
        columns = foresight.course.columns(start.centres) @ loadings.T
        paths = np.concatenate([sample.values[None], columns])
        series = np.concatenate([scores[None], columns @ parts])
        since, found, unknowns, noises = foresight.course.since, [], [], []
        scales = np.ones(sample.values.shape)
        if noise is not None:
            scales = noise.scales[:, noise.sites].T
            assert scales.std() > 0.1
        of_visits = np.sqrt(np.mean(scales**2, axis=1))
        for person in timeline.subject_of_visit[groups[:, -1]]:
            first = timeline.starts[person]
            rows = first + np.arange(foresight.n_known[person])
            last = first + timeline.n_visits_of_subject[person] - 1
            times = since[None, rows], since[[last]], of_visits[None, rows]
            shared, unknown = wide.expect(wide.conditional(*times), series[:, None, rows])
            for place in np.flatnonzero(sample.observed[last]):
                seen = rows[sample.observed[rows, place]]
                rest = paths[:, None, seen, place] - series[:, None, seen] @ parts[place]
                kernel = vertex.at(np.array([place]))
                # Nothing seen is a visit without any weight.
                known = seen if len(seen) else rows[:1]
                rest = rest if len(seen) else np.zeros((4, 1, 1))
                observed = None if len(seen) else np.zeros((1, 1, 1), dtype=bool)
                times = since[None, known], since[[last]], of_visits[None, known]
                conditional = kernel.conditional(*times)
                own, left = kernel.expect(conditional, rest[..., None], observed)
                found.append(paths[:, last, place] - own[:, 0, 0] - shared[:, 0] @ parts[place])
                unknowns.append(left[0, 0] + unknown[0] @ parts[place] ** 2)
                usual = kernel.noise[0] + wide.noise @ parts[place] ** 2
                noises.append(usual * scales[last, place] ** 2)
        np.testing.assert_allclose(returned[number].parts, np.array(found).T, atol=1e-8)
        np.testing.assert_allclose(returned[number].unknown, unknowns, rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(returned[number].noise, noises, rtol=1e-6)


def test_weights_of_the_course_are_least_squares_within_bounds(rng):
    parts = rng.normal(size=(4, 500))
    parts[0] += 0.7 * parts[1] - 0.5 * parts[2] + 1.4 * parts[3]
    found = made_up_innovations(parts, np.repeat(np.arange(50), 10))
    products = CourseProducts.of(found, 50)
    weights = products.weights(np.ones(50, dtype=bool), (0, 1, 2))
    np.testing.assert_allclose(weights, lsq_linear(parts[1:].T, parts[0], (0, 1)).x, atol=1e-5)
    squares = (parts[0] - weights @ parts[1:]) ** 2
    np.testing.assert_allclose(products.errors(weights), squares.reshape(50, 10).mean(axis=1))


def test_a_course_that_says_nothing_is_left_out_and_one_that_does_is_kept(rng):
    people = np.repeat(np.arange(60), 20)
    parts = rng.normal(size=(4, 1200))
    nothing = CourseProducts.of(made_up_innovations(parts, people), 60)
    assert choose_columns(nothing)[0] == ()
    parts[0] += 0.5 * parts[2]
    something = CourseProducts.of(made_up_innovations(parts, people), 60)
    assert choose_columns(something)[0] == (0, 1, 2)


def made_up_innovations(parts, people):
    n = parts.shape[1]
    ones, zeros = np.ones(n), np.zeros(n, dtype=int)
    return Innovations(parts, ones, ones, ones, zeros, people, people, ones, ones, zeros)


def test_who_is_like_nobody_in_training_is_not_foretold_a_fall_of_everything(fitted):
    """One cluster of this person falls by far more than anybody's, and the others stay."""
    model, test = fitted
    healthy = test.subject_ids[int(np.argmin(model.stage(test.first_visits(3))["score"]))]
    person = test.select(subjects=[healthy])
    first = model.labels_ == 0
    values = np.repeat(person.values.mean(axis=0)[None], 4, axis=0)
    drop = np.arange(4.0)[:, None] * model.trajectories_.amplitude[0]
    values[:, first] += drop
    odd = bd.Cohort(values, subjects=person.subjects, times=person.times)
    early, late = odd.first_visits(3), odd.later_visits(3)
    assert bool(model.stage(early)["outside"].iloc[0])
    by_stage, predicted = (
        rmse(model.predict(late, history=early, personal=personal)[:, ~first], values[-1:, ~first])
        for personal in (False, True)
    )
    assert predicted < 0.4 * by_stage


def test_who_is_like_others_is_predicted_from_the_stage_found(fitted):
    model, test = fitted
    early = test.first_visits(3)
    timeline = timeline_of(early, model.internal_.time_unit)
    placed = model.stager().place(timeline, *model.pool(model.products(early)))
    used = placed.for_prediction()
    assert not placed.unlike().any()
    for own, likeliest in zip((used.speeds, used.shifts), placed.likeliest, strict=True):
        np.testing.assert_array_equal(own, likeliest)
    # One of them may be at two places, and is predicted from the likelier one.
    assert np.mean(used.shifts == placed.shifts) > 0.95


def test_a_course_that_adds_nothing_is_said_and_not_believed(rng):
    subjects, times = np.repeat(np.arange(60), 4), np.tile(np.arange(4.0), 60)
    levels = rng.normal(size=(60, 40))[subjects]
    values = levels + 0.3 * rng.normal(size=levels.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.BraindiveWarning)  # of the direction, perhaps
        model = bd.DIVE(2, random_state=0).fit(bd.Cohort(values, subjects=subjects, times=times))
    assert any("adds nothing here" in said for said in model.warnings_)
    assert not model.personal_.shrinkage[1:].any()


def test_a_course_that_helps_is_not_said_to_add_nothing(fitted):
    model, _ = fitted
    assert not any("adds nothing here" in said for said in model.warnings_)
    assert not any("against the disease" in said for said in model.warnings_)
