"""Standard errors of stages, and the bootstrap."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import braindive as bd
from braindive.dive.curves import Trajectories
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Gamma, Normal
from braindive.dive.stages import StageProblem, find_stages
from braindive.dive.timeline import Timeline
from braindive.staging import marginal, marginal_stager
from braindive.staging.covariance import CorrelatedStageProblem, Covariance
from braindive.staging.curve_uncertainty import sensitivities
from braindive.staging.marginal import integrate

SUBJECTS = np.array([0, 0, 0, 1, 2, 2])
YEARS = np.array([60.0, 61.0, 63.0, 70.0, 50.0, 52.0])


def make_problem(rng, *, gaps=False, between=0.02, weights=40.0):
    timeline = Timeline.from_times(SUBJECTS, YEARS)
    curves = Trajectories(
        np.array([-1.0, -2.0]), np.array([1.0, 0.6]), np.array([-0.5, 1.0]), np.array([0.0, 0.3])
    )
    all_weights = np.full((6, 2), weights)
    if gaps:
        all_weights[2] = [10.0, 40.0]
        all_weights[4] = [40.0, 0.0]
    means = curves.evaluate(rng.normal(size=6)) + 0.1 * rng.normal(size=(6, 2))
    means[all_weights == 0] = 0.0
    root = rng.normal(size=(2, 2))
    covariance = Covariance(
        0.01 * np.array([[2.0, 0.8], [0.8, 1.5]]), between * root @ root.T, np.full(2, weights)
    )
    return CorrelatedStageProblem(
        PooledMeans(means, all_weights, np.zeros(2)),
        timeline,
        curves,
        np.array([0.5, 0.6]),
        Gamma.from_mode(1.0, sd=0.4),
        Normal(0.0, 2.0),
        covariance,
    )


@pytest.mark.parametrize("gaps", [False, True])
def test_misfit_is_that_of_a_normal_with_a_persons_own_level(rng, gaps):
    problem = make_problem(rng, gaps=gaps)
    speeds, shifts = np.array([0.8, 1.0, 1.4]), np.array([-0.3, 0.5, 1.0])
    residuals, weights = problem.residuals(speeds, shifts), problem.pooled.weights
    covariance = problem.covariance
    for i, misfit in enumerate(problem.misfit(speeds, shifts)):
        rows = np.flatnonzero(i == SUBJECTS)
        dense = np.kron(np.ones((len(rows), len(rows))), covariance.between)
        for j, row in enumerate(rows):
            fewer = problem.noise**2 * (1 / np.maximum(weights[row], 1e-6) - 1 / 40.0)
            dense[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] += covariance.within + np.diag(fewer)
        own = residuals[rows].ravel()
        density = multivariate_normal(np.zeros(len(own)), dense, allow_singular=False)
        expected = -2 * (density.logpdf(own) - density.logpdf(np.zeros(len(own))))
        np.testing.assert_allclose(misfit, expected, rtol=1e-6)


@pytest.mark.parametrize("gaps", [False, True])
def test_gradient_is_the_derivative_of_the_loss(rng, gaps):
    problem = make_problem(rng, gaps=gaps)
    log_speeds, shifts, step = np.array([-0.2, 0.1, 0.3]), np.array([-0.3, 0.5, 1.0]), 1e-6
    gradient, _ = problem.gradient(np.exp(log_speeds), shifts)
    by_speed = problem.loss(np.exp(log_speeds + step), shifts)
    by_speed -= problem.loss(np.exp(log_speeds - step), shifts)
    by_shift = problem.loss(np.exp(log_speeds), shifts + step)
    by_shift -= problem.loss(np.exp(log_speeds), shifts - step)
    expected = np.stack([by_speed, by_shift], axis=1) / (2 * step)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_independent_vertices_give_the_published_loss(rng):
    problem = make_problem(rng)
    independent = Covariance.independent(np.full(2, 40.0), problem.noise)
    parts = (problem.timeline, problem.trajectories, problem.noise)
    priors = (problem.speed_prior, problem.shift_prior)
    published = StageProblem(problem.pooled, *parts, *priors)
    general = CorrelatedStageProblem(problem.pooled, *parts, *priors, independent)
    stages = np.array([0.8, 1.0, 1.4]), np.array([-0.3, 0.5, 1.0])
    np.testing.assert_allclose(general.loss(*stages), published.loss(*stages), rtol=1e-10)
    for one, other in zip(general.gradient(*stages), published.gradient(*stages), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def test_posterior_agrees_with_a_fine_grid(rng):
    problem = make_problem(rng)
    posterior = integrate(problem, *find_stages(problem, np.array([-4.0, 4.0])))
    log_speeds, shifts = np.linspace(-2, 1.2, 33), np.linspace(-8, 8, 201)
    heights = np.empty((3, len(log_speeds), len(shifts)))
    for j, log_speed in enumerate(log_speeds):
        for k, shift in enumerate(shifts):
            at = np.full(3, np.exp(log_speed)), np.full(3, shift)
            heights[:, j, k] = log_speed - problem.loss(*at)
    weights = np.exp(heights - heights.max(axis=(1, 2), keepdims=True))
    weights /= weights.sum(axis=(1, 2), keepdims=True)
    speed = (weights * np.exp(log_speeds)[:, None]).sum(axis=(1, 2))
    shift = (weights * shifts).sum(axis=(1, 2))
    found_speed, found_shift = posterior.mean()
    spread = np.sqrt((weights * (shifts - shift[:, None, None]) ** 2).sum(axis=(1, 2)))
    np.testing.assert_allclose(found_speed, speed, atol=0.02)
    np.testing.assert_allclose(found_shift, shift, atol=0.1 * spread.max())


def test_gradient_of_the_marginal_likelihood_follows_the_curves(rng):
    """Fisher's identity against differences of log-sum-exp over the same points."""
    problem = make_problem(rng)
    modes = find_stages(problem, np.array([-4.0, 4.0]))
    posterior = integrate(problem, *modes)
    gradients, _, _ = sensitivities(problem, posterior)

    def log_sums(move):
        parameters = problem.trajectories.to_array()
        parameters[1, 2] += move
        moved = CorrelatedStageProblem(
            problem.pooled,
            problem.timeline,
            Trajectories.from_array(parameters),
            problem.noise,
            problem.speed_prior,
            problem.shift_prior,
            problem.covariance,
        )
        change = np.stack(
            [
                problem.loss(speeds, shifts) - moved.loss(speeds, shifts)
                for speeds, shifts in zip(posterior.speeds, posterior.shifts, strict=True)
            ]
        )
        return np.log((posterior.weights * np.exp(change)).sum(axis=0))

    numeric = (log_sums(1e-5) - log_sums(-1e-5)) / 2e-5
    np.testing.assert_allclose(gradients[:, 4 + 2], numeric, rtol=1e-4, atol=1e-6)


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
    model = bd.DIVE(n_clusters=3, random_state=0).fit(train)
    return model, train, new, simulation.truth.shifts


@pytest.fixture(scope="module")
def correlated():
    return fit_correlated(3)


def errors_of_scores(correlated, part):
    model, train, new, truth = correlated
    scores = model.stage(train)["score"].to_numpy()
    known = np.abs(truth[:120] - 2.5) < 20
    slope, origin = np.polyfit(scores[known], truth[:120][known], 1)
    stages = model.stage(train if part == "training" else new)
    truth = truth[:120] if part == "training" else truth[120:]
    inside = np.abs(truth - 2.5) < 20
    errors = origin + slope * stages["score"].to_numpy() - truth
    return errors[inside], slope * stages["score_se"].to_numpy()[inside]


@pytest.mark.parametrize("part", ["training", "new"])
def test_intervals_cover_when_noise_is_correlated(part):
    found = [errors_of_scores(fit_correlated(seed), part) for seed in range(6)]
    errors, spread = map(np.concatenate, zip(*found, strict=True))
    assert 0.92 < np.mean(np.abs(errors) < 1.96 * spread) <= 0.97


def test_intervals_that_take_vertices_for_independent_do_not_cover(correlated):
    model = correlated[0]
    learnt = model.marginal_
    independent = Covariance.independent(learnt.covariance.weights, learnt.noise)
    ratio = np.diag(learnt.covariance.within) / np.diag(independent.within)
    errors, spread = errors_of_scores(correlated, "new")
    naive = spread / np.sqrt(ratio.mean())
    assert np.mean(np.abs(errors) < 1.96 * naive) < 0.75


def test_correlated_noise_is_staged_better_than_by_the_published_objective(correlated):
    model, train, _, truth = correlated
    first = truth[: train.n_subjects]
    staged = np.corrcoef(model.stage(train)["score"], first)[0, 1]
    published = np.corrcoef(model.scores_[::4], first)[0, 1]
    assert staged > published


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
    assert abs(stage["score"]) < 10
    assert model.stage(train)["outside"].mean() < 0.1


def test_standard_errors_do_not_depend_on_the_origin_of_time(correlated):
    model, train, new, _ = correlated
    aged = bd.Cohort(train.values, subjects=train.subjects, times=train.times + 70)
    older = bd.DIVE(n_clusters=3, random_state=0).fit(aged)
    late = bd.Cohort(new.values, subjects=new.subjects, times=new.times + 70)
    here, there = model.stage(new), older.stage(late)
    np.testing.assert_allclose(here["score_se"], there["score_se"], rtol=1e-3)
    assert (there["shift_se"] > here["shift_se"]).mean() > 0.95


@pytest.fixture(scope="module")
def small():
    cohort = bd.simulate_cohort(
        n_subjects=30, n_vertices=60, noise=0.5, midpoints=(-10, 10), random_state=2
    ).cohort
    return bd.DIVE(n_clusters=2, random_state=0).fit(cohort), cohort


def test_bootstrap_does_not_depend_on_the_number_of_jobs(small):
    one, two = (bd.bootstrap(*small, n=3, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.trajectories, two.trajectories)
    np.testing.assert_array_equal(one.membership_mean, two.membership_mean)


def test_bootstrap_goes_on_from_kept_resamples(small, tmp_path):
    whole = bd.bootstrap(*small, n=3)
    bd.bootstrap(*small, n=2, checkpoint=tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("resample-*")}
    seen = []
    again = bd.bootstrap(
        *small, n=3, checkpoint=tmp_path, progress=lambda done, total: seen.append((done, total))
    )
    assert len(kept) == 2
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    assert seen == [(1, 3), (2, 3), (3, 3)]
    np.testing.assert_allclose(again.trajectories, whole.trajectories)


def test_kept_resamples_of_another_bootstrap_are_refused(small, tmp_path):
    bd.bootstrap(*small, n=1, checkpoint=tmp_path)
    with pytest.raises(bd.ParameterError, match="another"):
        bd.bootstrap(*small, n=1, checkpoint=tmp_path, random_state=5)


def test_bands_lie_around_the_curves_on_the_models_scale(small):
    found = bd.bootstrap(*small, n=6)
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
    inside, close = [], []
    grid = np.linspace(-12, 12, 13)
    for seed in range(4):
        simulation = bd.simulate_cohort(
            n_subjects=50, n_vertices=150, noise=0.5, midpoints=(-10, 10), random_state=seed
        )
        truth = simulation.truth
        model = bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(simulation.cohort)
        slope = truth.scores.std() / model.scores_.std()
        origin = truth.scores.mean() - slope * model.scores_.mean()
        lower, upper = bd.bootstrap(model, simulation.cohort, n=12).bands((grid - origin) / slope)
        curves = truth.vertices.evaluate(grid)
        true = np.stack([curves[:, truth.labels == k].mean(axis=1) for k in (0, 1)], axis=1)
        away = np.abs(true - (lower + upper) / 2) / (upper - lower)
        inside.append(np.mean(away < 0.5))
        close.append(np.mean(away < 0.1))
    assert np.mean(inside) > 0.88
    assert np.mean(close) < 0.6  # a fifth as wide, they would not


def test_bootstrap_refuses_another_cohort(small):
    model, cohort = small
    with pytest.raises(bd.ParameterError, match="subjects"):
        bd.bootstrap(model, cohort.select(subjects=list(cohort.subject_ids[:20])), n=1)


def test_staging_learnt_from_enough_subjects_is_nearly_that_of_all(correlated, monkeypatch):
    model, train, new, _ = correlated
    monkeypatch.setattr(marginal_stager, "_ENOUGH_SUBJECTS", 80)
    fewer = bd.DIVE(n_clusters=3, random_state=0).fit(train)
    both = model.stage(new), fewer.stage(new)
    assert np.corrcoef(both[0]["score"], both[1]["score"])[0, 1] > 0.99
    ratio = np.median(both[1]["score_se"] / both[0]["score_se"])
    assert 0.9 < ratio < 1.3
    assert len(fewer.marginal_.known_shifts) == train.n_subjects


def test_leap_reaches_the_limit_of_updates_that_slow_down():
    limit, away = np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([0.5, -0.8])

    def after(n):
        move = np.exp(0.9**n * away)
        return Covariance(
            move[:, None] * limit * move, 0.1 * move[:, None] * limit * move, np.ones(2)
        )

    leapt, furthest = marginal._extrapolate(after(0), after(1), after(2), 16.0)
    np.testing.assert_allclose(leapt.within, limit, rtol=1e-6)
    np.testing.assert_allclose(leapt.between, 0.1 * limit, rtol=1e-6)
    short, further = marginal._extrapolate(after(0), after(1), after(2), 2.0)
    assert (furthest, further) == (16.0, 8.0)
    assert np.linalg.norm(short.within - limit) < np.linalg.norm(after(2).within - limit)
