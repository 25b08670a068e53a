"""Standard errors of stages, and the bootstrap."""

import copy
from dataclasses import replace

import numpy as np
import pytest

import braindive as bd
from braindive.staging import marginal_fit
from braindive.staging.covariance import Covariance


def fit_correlated(seed):
    """Fit a cohort with noise that whole regions of a scan share, as smooth noise does."""
    rng = np.random.default_rng(seed)
    simulation = bd.simulate_cohort(n_subjects=240, n_vertices=300, noise=0.5, random_state=seed)
    cohort = simulation.cohort
    maps = rng.normal(size=(6, 300))
    shared = 0.12 * rng.normal(size=(cohort.n_visits, 6)) @ maps
    shared += 0.1 * rng.normal(size=(cohort.n_visits, 3))[:, simulation.truth.labels]
    noisy = bd.Cohort(cohort.values + shared, subjects=cohort.subjects, times=cohort.times)
    ids = list(cohort.subject_ids)
    train, new = noisy.select(subjects=ids[:120]), noisy.select(subjects=ids[120:])
    model = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(train)
    return model, train, new, simulation.truth


@pytest.fixture(scope="module")
def correlated():
    return fit_correlated(3)


def errors_of_scores(correlated, part):
    """Errors of first scores in years, and their standard errors, of people on the curves."""
    model, train, new, truth = correlated
    some = slice(0, 120) if part == "training" else slice(120, 240)
    stages = model.stage(train if part == "training" else new)
    # In the model's unit, the training subjects move by one a year; 0 is the first midpoint.
    first = truth.shifts[some]
    years = (first - truth.trajectories.midpoint.min()) / truth.speeds[:120].mean()
    inside = np.abs(first - 2.5) < 20
    errors = stages["score"].to_numpy() - years
    return errors[inside], stages["score_se"].to_numpy()[inside]


def test_intervals_that_take_vertices_for_independent_do_not_cover(correlated):
    model, *others = correlated
    errors, spread = errors_of_scores(correlated, "new")
    assert np.mean(np.abs(errors) < 1.96 * spread) > 0.92
    learnt, naive = model.marginal_, copy.copy(model)
    independent = Covariance.independent(learnt.covariance.weights, learnt.noise)
    nothing_known = replace(
        learnt.curve_uncertainty, covariance=0 * learnt.curve_uncertainty.covariance
    )
    naive._marginal = replace(learnt, covariance=independent, curve_uncertainty=nothing_known)
    errors, spread = errors_of_scores((naive, *others), "new")
    assert np.mean(np.abs(errors) < 1.96 * spread) < 0.75


def test_correlated_noise_is_staged_better_than_by_the_published_objective(correlated):
    model, train, _, truth = correlated
    first = truth.shifts[: train.n_subjects]
    staged = np.corrcoef(model.stage(train)["score"], first)[0, 1]
    published = bd.DIVE(n_clusters=3, people="alike", personal=False, random_state=0).fit(train)
    assert staged > np.corrcoef(published.scores_[::4], first)[0, 1]


def test_staging_alone_or_among_others_is_the_same(correlated):
    model, _, new, _ = correlated
    one = new.subject_ids[7]
    alone = model.stage(new.select(subjects=[one]))
    among = model.stage(new).loc[[one]]
    np.testing.assert_allclose(
        alone.drop(columns="outside").to_numpy(float),
        among.drop(columns="outside").to_numpy(float),
        rtol=1e-9,
        atol=1e-9,
    )


def test_fewer_visits_and_fewer_vertices_make_scores_less_certain(correlated):
    model, _, new, _ = correlated
    whole = model.stage(new)["score_se"].median()
    assert model.stage(new.first_visits(1))["score_se"].median() > 1.2 * whole
    values = new.values.copy()
    values[:, 30:] = np.nan
    few = bd.Cohort(values, subjects=new.subjects, times=new.times)
    assert model.stage(few)["score_se"].median() > 1.2 * whole


def test_maps_like_no_other_are_flagged_and_not_wild(correlated):
    model, train, _, _ = correlated
    strange = bd.Cohort(np.full((2, 300), -20.0), subjects=["strange", "strange"], times=[0.0, 1.0])
    stage = model.stage(strange).iloc[0]
    assert bool(stage["outside"])
    assert abs(stage["score"]) < 10 * model.scores_.std()
    assert model.stage(train)["outside"].mean() < 0.1


def test_standard_errors_do_not_depend_on_the_origin_of_time(correlated):
    model, train, new, _ = correlated
    aged = bd.Cohort(train.values, subjects=train.subjects, times=train.times + 70)
    older = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(aged)
    late = bd.Cohort(new.values, subjects=new.subjects, times=new.times + 70)
    here, there = model.stage(new), older.stage(late)
    np.testing.assert_allclose(here["score_se"], there["score_se"], rtol=1e-3)
    assert (there["shift_se"] > here["shift_se"]).mean() > 0.95


def fit_small(**settings):
    cohort = bd.simulate_cohort(
        n_subjects=30, n_vertices=60, noise=0.3, midpoints=(-10, 10), random_state=2
    ).cohort
    return bd.DIVE(n_clusters=2, personal=False, random_state=0, **settings).fit(cohort), cohort


@pytest.fixture(scope="module")
def small():
    return fit_small()


@pytest.fixture(scope="module")
def resampled(small):
    return bd.bootstrap(*small, n=4)


@pytest.fixture(scope="module")
def alike():
    """The same with the published estimates, which are quickly found again."""
    return fit_small(people="alike")


def test_bootstrap_does_not_depend_on_the_number_of_jobs(small, resampled):
    two = bd.bootstrap(*small, n=4, n_jobs=2)
    np.testing.assert_array_equal(resampled.trajectories, two.trajectories)
    np.testing.assert_array_equal(resampled.membership_mean, two.membership_mean)


def test_bootstrap_goes_on_from_kept_resamples(alike, tmp_path):
    whole = bd.bootstrap(*alike, n=3)
    bd.bootstrap(*alike, n=2, checkpoint=tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("resample-*")}
    seen = []
    again = bd.bootstrap(
        *alike, n=3, checkpoint=tmp_path, progress=lambda done, total: seen.append((done, total))
    )
    assert len(kept) == 2
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    assert seen == [(1, 3), (2, 3), (3, 3)]
    np.testing.assert_allclose(again.trajectories, whole.trajectories)


def test_kept_resamples_of_another_bootstrap_are_refused(alike, tmp_path):
    bd.bootstrap(*alike, n=1, checkpoint=tmp_path)
    with pytest.raises(bd.ParameterError, match="another"):
        bd.bootstrap(*alike, n=1, checkpoint=tmp_path, random_state=5)


def test_bands_lie_around_the_curves_on_the_models_scale(small, resampled):
    found = resampled
    scores = np.linspace(-1, 1, 9)
    lower, upper = found.bands(scores)
    np.testing.assert_allclose((lower + upper) / 2, small[0].trajectories_.evaluate(scores))
    narrow = np.subtract(*found.bands(scores, level=0.5)[::-1])
    assert (narrow < upper - lower).all()
    low, high = found.membership()
    assert ((low >= 0) & (low <= high) & (high <= 1)).all()
    table = found.parameters()
    assert list(table.columns) == ["estimate", "lower", "upper"]
    assert table.loc[("cluster 1", "midpoint"), "estimate"] == small[0].trajectories_.midpoint[0]


def test_bands_cover_the_true_curves():
    inside, halved, close = [], [], []
    grid = np.linspace(-12, 12, 13)
    for seed in range(5):
        simulation = bd.simulate_cohort(
            n_subjects=50, n_vertices=150, noise=0.5, midpoints=(-10, 10), random_state=seed
        )
        truth = simulation.truth
        model = bd.DIVE(n_clusters=2, vertices="alike", personal=False, random_state=0)
        model.fit(simulation.cohort)
        slope = truth.scores.std() / model.scores_.std()
        origin = truth.scores.mean() - slope * model.scores_.mean()
        lower, upper = bd.bootstrap(model, simulation.cohort, n=5).bands((grid - origin) / slope)
        curves = truth.vertices.evaluate(grid)
        true = np.stack([curves[:, truth.labels == k].mean(axis=1) for k in (0, 1)], axis=1)
        away = np.abs(true - (lower + upper) / 2) / (upper - lower)
        inside.append(np.mean(away < 0.5))
        halved.append(np.mean(away < 0.25))
        close.append(np.mean(away < 0.1))
    assert np.mean(inside) > 0.88
    assert np.mean(halved) < 0.88  # half as wide, they would not
    assert np.mean(close) < 0.6  # nor are they far too wide


def test_bootstrap_refuses_another_cohort(alike):
    model, cohort = alike
    with pytest.raises(bd.ParameterError, match="subjects"):
        bd.bootstrap(model, cohort.select(subjects=list(cohort.subject_ids[:20])), n=1)


def test_many_subjects_are_first_fitted_in_part_and_then_all(correlated, monkeypatch):
    model, train, new, _ = correlated
    monkeypatch.setattr(marginal_fit, "FEW_SUBJECTS", 60)
    monkeypatch.setattr(marginal_fit, "_MANY_SUBJECTS", 80)
    fewer = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(train)
    both = model.stage(new), fewer.stage(new)
    away = np.abs(both[0]["score"] - both[1]["score"]) / both[0]["score_se"]
    assert away.max() < 0.2
    assert len(fewer.marginal_.known_shifts) == train.n_subjects


def test_a_fit_keeps_the_errors_that_stage_gives(correlated):
    model, train, _, _ = correlated
    stages = model.stage(train)
    for kept, name in (
        (model.speeds_se_, "speed_se"),
        (model.shifts_se_, "shift_se"),
        (model.baseline_scores_se_, "score_se"),
    ):
        np.testing.assert_allclose(kept, stages[name], rtol=1e-6)


def test_errors_of_trajectories_follow_their_parameters(correlated):
    """Curves over the user's score, their parameters moved one by one, with the score's scale."""
    model, *_ = correlated
    internal, known = model.internal_, model.marginal_.curve_uncertainty
    curves, scores = internal.parameters.trajectories, np.array([-20.0, 0.0, 7.0])
    flat = curves.to_array()

    def at(step):
        moved = type(curves).from_array(flat + step[: flat.size].reshape(flat.shape))
        centre = internal.centre + known.centre @ step
        spread = internal.spread + known.spread @ step
        scale = replace(internal, centre=centre, spread=spread).scale
        return scale.curves(moved).evaluate(scores)

    width = 1e-6 * np.eye(len(known.centre))
    gradients = np.array([(at(step) - at(-step)) / 2e-6 for step in width])
    expected = np.einsum("pnk,pq,qnk->nk", gradients, known.covariance, gradients)
    assert known.inflation > 1
    expected *= known.inflation
    slopes = model.trajectories_.slope(scores)
    expected += known.unit_variance * (slopes * scores[:, None]) ** 2
    np.testing.assert_allclose(model.trajectory_errors(scores) ** 2, expected, rtol=1e-4)


def test_bands_around_trajectories_hold_the_truth(correlated):
    model, _, _, truth = correlated
    onset, speed = truth.trajectories.midpoint.min(), truth.speeds[:120].mean()
    true = truth.trajectories.rescored(float(onset), float(speed))
    order = bd.match_clusters(model, truth.labels).permutation
    scores = np.quantile(model.scores_, np.linspace(0.05, 0.95, 30))
    away = model.trajectories_.evaluate(scores)[:, order] - true.evaluate(scores)
    errors = model.trajectory_errors(scores)[:, order]
    assert np.mean(np.abs(away) < 1.96 * errors) > 0.85
    # A negative control: a tenth of the width does not hold it.
    assert np.mean(np.abs(away) < 0.196 * errors) < 0.5
