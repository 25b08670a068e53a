"""Every registered shape keeps the protocol, and a shape from outside is fitted like it."""

import base64
import json
import re
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import clone

import braindive as bd
from braindive.dive.curves import CURVES, Bounds, Curves

SCORES = np.linspace(-3, 3, 61)


@dataclass(frozen=True)
class Line(Curves):
    """f(s) = level + rate s."""

    level: np.ndarray
    rate: np.ndarray

    def evaluate(self, scores):
        return self.level + self.rate * np.asarray(scores, dtype=float)[:, None]

    def slope(self, scores):
        return np.tile(self.rate, (len(scores), 1))

    def jacobian(self, scores):
        scores = np.tile(np.asarray(scores, dtype=float)[:, None], (1, len(self)))
        return np.stack([np.ones_like(scores), scores], axis=2)

    def rescored(self, centre, spread):
        return Line(self.level + self.rate * centre, self.rate * spread)

    def revalued(self, offset, scale):
        return Line(offset + scale * self.level, scale * self.rate)

    @classmethod
    def bounds(cls, scores):
        steepest = 100.0 / float(np.std(scores))
        return Bounds({"rate": (-steepest, steepest)})

    @classmethod
    def search(cls, values, weights, scores, bounds):
        total = np.maximum(weights.sum(axis=0), 1e-300)
        centre, mean = (weights.T @ scores) / total, (weights * values).sum(axis=0) / total
        away = scores[:, None] - centre
        spread = np.maximum((weights * away**2).sum(axis=0), 1e-300)
        rate = (weights * away * values).sum(axis=0) / spread
        return cls(mean - rate * centre, rate)


# Shapes, with curves to look at: all that a new line in the registry needs here.
EXAMPLES = {
    "sigmoid": [[-1.0, 0.8, -1.5, 0.2], [2.0, 1.5, 0.3, -1.0], [-0.5, 4.0, 1.4, 0.1]],
}
SHAPES = [*CURVES.items(), ("line", Line)]


@pytest.fixture(params=SHAPES, ids=[name for name, _ in SHAPES])
def curves(request):
    name, shape = request.param
    return shape.from_array({**EXAMPLES, "line": [[1.0, -0.5], [0.0, 2.0]]}[name])


def test_parameters_are_the_fields_in_their_order(curves):
    array = curves.to_array()
    assert array.shape == (len(curves), curves.n_parameters())
    for column, name in enumerate(curves.names()):
        np.testing.assert_array_equal(array[:, column], getattr(curves, name))
    again = curves.from_array(array)
    assert type(again) is type(curves)
    np.testing.assert_array_equal(again.to_array(), array)
    np.testing.assert_array_equal(curves[np.array([1, 0])].to_array(), array[[1, 0]])


def test_slope_is_the_derivative_with_respect_to_the_score(curves):
    h = 1e-6
    expected = (curves.evaluate(SCORES + h) - curves.evaluate(SCORES - h)) / (2 * h)
    np.testing.assert_allclose(curves.slope(SCORES), expected, atol=1e-8)


def test_jacobian_is_the_derivative_with_respect_to_the_parameters(curves):
    jacobian, array = curves.jacobian(SCORES), curves.to_array()
    assert jacobian.shape == (len(SCORES), len(curves), curves.n_parameters())
    for p, step in enumerate(1e-6 * np.eye(curves.n_parameters())):
        up = curves.from_array(array + step).evaluate(SCORES)
        down = curves.from_array(array - step).evaluate(SCORES)
        np.testing.assert_allclose(jacobian[:, :, p], (up - down) / 2e-6, atol=1e-8)


@pytest.mark.parametrize("holes", [False, True], ids=["same weights", "own weights"])
def test_distances_from_points_have_their_derivatives(rng, curves, holes):
    points = curves.evaluate(SCORES) + rng.normal(size=(len(SCORES), len(curves)))
    weights = rng.random((len(SCORES), len(curves) if holes else 1))
    array, found = curves.to_array(), curves.least_squares(points, weights, SCORES)

    def gradient(array):
        there = curves.from_array(array)
        weighted = weights * (points - there.evaluate(SCORES))
        return np.einsum("nk,nkp->pk", weighted, there.jacobian(SCORES))

    away, jacobian = points - curves.evaluate(SCORES), curves.jacobian(SCORES)
    np.testing.assert_allclose(found.loss, np.sum(weights * away**2, axis=0))
    np.testing.assert_allclose(found.gradient, gradient(array), atol=1e-10)
    weights = np.broadcast_to(weights, points.shape)
    information = np.einsum("nk,nkp,nkq->pqk", weights, jacobian, jacobian)
    np.testing.assert_allclose(found.information, information, atol=1e-10)
    for p, step in enumerate(1e-6 * np.eye(curves.n_parameters())):
        expected = (gradient(array + step) - gradient(array - step)) / 2e-6
        np.testing.assert_allclose(found.bend[p] - found.information[p], expected, atol=1e-6)


def test_curves_are_the_same_in_other_units(curves):
    there, values = (SCORES - 0.7) / 2.5, curves.evaluate(SCORES)
    rescored = curves.rescored(0.7, 2.5)
    np.testing.assert_allclose(rescored.evaluate(there), values, atol=1e-12)
    np.testing.assert_allclose(rescored.onset(there), (curves.onset(SCORES) - 0.7) / 2.5)
    np.testing.assert_allclose(rescored.change(there), curves.change(SCORES))
    revalued = curves.revalued(3.0, -2.0)
    np.testing.assert_allclose(revalued.evaluate(SCORES), 3.0 - 2.0 * values, atol=1e-12)
    np.testing.assert_allclose(revalued.onset(SCORES), curves.onset(SCORES))
    np.testing.assert_allclose(revalued.change(SCORES), -2.0 * curves.change(SCORES))


def test_canonical_curves_are_the_same_curves(curves):
    for other in (curves, curves.rescored(0.0, -1.0)):  # a score that runs backwards
        canonical = other.canonical()
        np.testing.assert_allclose(canonical.evaluate(SCORES), other.evaluate(SCORES), atol=1e-12)
        np.testing.assert_array_equal(canonical.canonical().to_array(), canonical.to_array())


def test_search_is_near_curves_within_their_bounds(curves):
    bounds, values = type(curves).bounds(SCORES), curves.evaluate(SCORES)
    found = type(curves).search(values, np.ones_like(values), SCORES, bounds)
    np.testing.assert_array_equal(bounds.clip(found).to_array(), found.to_array())
    error = (found.evaluate(SCORES) - values).std(axis=0) / values.std(axis=0)
    assert error.max() < 0.2  # the fit does the rest


def test_half_of_the_change_has_happened_at_the_onset(curves):
    far = np.linspace(-60, 60, 1201)  # where sigmoids are flat
    onsets, change = curves.onset(far), curves.change(far)
    at_onset = np.diag(curves.evaluate(onsets))
    way = (at_onset - curves.evaluate(far[:1])[0]) / change
    np.testing.assert_allclose(way, 0.5, atol=1e-3)
    np.testing.assert_allclose(Curves.change(curves, far), change, rtol=1e-6)
    np.testing.assert_allclose(Curves.onset(curves, far), onsets, atol=0.12)


def test_bounds_hold_the_named_parameters_and_leave_the_others():
    lines = Line(np.array([-5.0, 0.0]), np.array([-5.0, 2.0]))
    bounds = Bounds({"rate": (-1.0, 1.0)})
    clipped = bounds.clip(lines)
    np.testing.assert_array_equal(clipped.level, lines.level)
    np.testing.assert_array_equal(clipped.rate, [-1.0, 1.0])
    # Downhill leads against the gradient: out of the bounds for the first line, in for the second.
    gradient = np.array([[1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(
        bounds.binding(clipped, gradient), [[False, True], [False, False]]
    )


# A shape from outside the package, through all that a model can do.


@pytest.fixture(scope="module")
def lines():
    """Two clusters that follow lines, the truth about them, and the model of their shape."""
    rng = np.random.default_rng(0)
    truth = Line(np.array([2.0, -1.0]), np.array([-1.0, 0.6]))
    labels = np.repeat([0, 1], 30)
    subjects, times = np.repeat(np.arange(60), 4), np.tile(np.arange(4.0), 60)
    speeds, shifts = rng.gamma(9.0, 0.05, 60), rng.normal(0, 2, 60)
    scores = speeds[subjects] * times + shifts[subjects]
    values = truth.evaluate(scores)[:, labels] + rng.normal(0, 0.5, (240, 60))
    cohort = bd.Cohort(values, subjects=subjects, times=times)
    model = bd.DIVE(2, curve=Line, scale="controls", random_state=0).fit(cohort)
    return cohort, truth, labels, scores, model


def test_lines_are_recovered(lines):
    _, truth, labels, scores, model = lines
    assert type(model.trajectories_) is Line
    assert bd.match_clusters(model, labels).agreement == pytest.approx(1.0, abs=1e-6)
    order = bd.match_clusters(model, labels).permutation
    assert np.corrcoef(model.scores_, scores)[0, 1] > 0.99
    # The scale of the score is the model's: one unit is the standard deviation of all visits'.
    expected = truth.rescored(scores.mean(), scores.std())
    found = model.trajectories_[order]
    np.testing.assert_allclose(found.level, expected.level, atol=0.1)
    np.testing.assert_allclose(found.rate, expected.rate, rtol=0.05)


def test_lines_fit_in_years_and_as_published_too(lines):
    cohort, truth, labels, scores, published_scale = lines
    speeds = np.diff(scores.reshape(60, 4)[:, [0, 3]], axis=1) / 3
    for people in ("differ", "alike"):
        model = bd.DIVE(2, curve=Line, people=people, personal=False, random_state=0).fit(cohort)
        assert model.speeds_.mean() == pytest.approx(1.0, abs=1e-9)
        assert model.trajectories_.onset(model.scores_).min() == pytest.approx(0.0, abs=1e-9)
        order = bd.match_clusters(model, labels).permutation
        # A year takes the disease as far as the mean speed does.
        expected = truth.rate * speeds.mean()
        np.testing.assert_allclose(model.trajectories_[order].rate, expected, rtol=0.15)
        ratio = model.trajectories_.rate / published_scale.trajectories_.rate
        if people == "differ":
            np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)


def test_criteria_count_the_parameters_of_the_curve(lines):
    cohort, _, _, _, model = lines
    n_parameters = (2 + 1) * 2 + 2 * 60 + 1
    assert model.aic_ == pytest.approx(2 * n_parameters - 2 * model.log_likelihood_)
    n_values = np.log(cohort.values.size)
    assert model.bic_ == pytest.approx(n_parameters * n_values - 2 * model.log_likelihood_)


def test_the_true_shape_has_the_better_criterion(lines):
    cohort, _, _, _, model = lines
    sigmoids = bd.DIVE(2, random_state=0, personal=False).fit(cohort)
    assert model.bic_ < sigmoids.bic_
    # And the other way round: lines do not pass for sigmoids.
    simulation = bd.simulate_cohort(60, 4, 60, noise=0.2, random_state=0)
    fits = {
        curve: bd.DIVE(3, curve=curve, random_state=0, personal=False).fit(simulation.cohort)
        for curve in ("sigmoid", Line)
    }
    assert fits["sigmoid"].bic_ < fits[Line].bic_ - 100
    assert bd.match_clusters(fits["sigmoid"], simulation.truth.labels).agreement > 0.9
    assert np.corrcoef(fits["sigmoid"].scores_, simulation.truth.scores)[0, 1] > 0.97


def test_people_are_staged_and_predicted_along_lines(lines):
    cohort, truth, labels, scores, model = lines
    stages = model.stage(cohort)
    first = (scores - scores.mean())[cohort.times == 0] / scores.std()
    assert np.corrcoef(stages["score"], first)[0, 1] > 0.99
    away = (stages["score"] - first) / stages["score_se"]
    assert 0.7 < away.std() < 1.5
    early, late = cohort.first_visits(3), cohort.later_visits(3)
    expected = truth.evaluate(scores[cohort.times == 3])[:, labels]
    for personal in (True, False):
        error = model.predict(late, history=early, personal=personal) - expected
        assert np.sqrt(np.mean(error**2)) < 0.3
    assert np.isfinite(model.score(cohort))


def test_goodness_of_fit_and_figure_take_lines(lines):
    cohort, _, _, _, model = lines
    found = bd.goodness_of_fit(model, cohort)
    assert not [text for text in found.warnings if "beyond the data" in text]
    axes = bd.plot_trajectories(model, cohort)
    drawn = [line.get_xydata() for line in axes.lines if len(line.get_xdata()) > 50]
    assert drawn
    for points in drawn:
        bends = np.diff(np.diff(points[:, 1]) / np.diff(points[:, 0]))
        np.testing.assert_allclose(bends, 0.0, atol=1e-8)
    plt.close("all")


def test_the_page_is_given_values_and_slopes_of_lines(lines):
    cohort, *_, model = lines
    html = bd.build_report(model, cohort).html
    data = json.loads(re.search(r'id="report-data"[^>]*>(.*?)</script>', html, re.S)[1])
    for k, cluster in enumerate(data["clusters"]):
        values, slopes = (
            np.frombuffer(base64.b64decode(cluster[part]), "<f8") for part in ("values", "slopes")
        )
        scores = np.linspace(data["range"]["low"], data["range"]["high"], len(values))
        np.testing.assert_allclose(values, model.trajectories_.evaluate(scores)[:, k])
        np.testing.assert_allclose(slopes, model.trajectories_.slope(scores)[:, k])
        assert len(scores) > 200


def test_bootstrap_names_the_parameters_of_lines(lines):
    cohort, _, _, _, model = lines
    found = bd.bootstrap(model, cohort, n=3)
    table = found.parameters()
    assert table.index.get_level_values("parameter").tolist() == ["level", "rate"] * 2
    np.testing.assert_array_equal(table["estimate"], model.trajectories_.to_array().ravel())
    lower, upper = found.bands(SCORES)
    assert (lower <= upper).all()


def test_maps_have_the_parameters_of_lines(lines, tmp_path):
    *_, model = lines
    bd.write_maps(model, tmp_path / "maps")
    header = (tmp_path / "maps" / "trajectories.tsv").read_text().splitlines()[0].split("\t")
    assert header[:6] == ["cluster", "name", "vertices", "level", "rate", "noise"]


def test_a_shape_without_a_name_is_refused_on_saving(lines, tmp_path):
    *_, model = lines
    with pytest.raises(bd.ParameterError, match=r"class Line cannot be saved.* add it to CURVES"):
        model.save(tmp_path / "fit.dive")
    assert not list(tmp_path.iterdir())


def test_a_named_shape_is_saved_and_loaded(lines, tmp_path, monkeypatch):
    cohort, *_, model = lines
    monkeypatch.setitem(CURVES, "line", Line)
    model.save(tmp_path / "fit.dive")
    loaded = bd.load_model(tmp_path / "fit.dive")
    assert loaded.curve is Line
    assert type(loaded.trajectories_) is Line
    assert set(loaded.internal_.training.bounds.limits) == {"rate"}
    assert loaded.internal_.training.bounds == model.internal_.training.bounds
    np.testing.assert_array_equal(loaded.predict(cohort), model.predict(cohort))
    loaded.save(tmp_path / "again.dive")
    assert (tmp_path / "again.dive").read_bytes() == (tmp_path / "fit.dive").read_bytes()
    by_name = clone(model).set_params(curve="line", max_iter=50).fit(cohort)
    np.testing.assert_array_equal(by_name.trajectories_.rate, model.trajectories_.rate)
    by_name.save(tmp_path / "named.dive")
    assert bd.load_model(tmp_path / "named.dive").curve == "line"
    monkeypatch.delitem(CURVES, "line")
    with pytest.raises(bd.ModelFileError, match="'line', which this version does not know"):
        bd.load_model(tmp_path / "fit.dive")


class Unfinished(Curves):
    def evaluate(self, scores):
        return np.zeros((len(scores), 1))


# All that is asked for, but no dataclass with parameters.
Undecorated = type("Undecorated", (Curves,), {x: vars(Line)[x] for x in Curves.__abstractmethods__})


@pytest.mark.parametrize(
    ("curve", "message"),
    [
        ("exponential", "curve must be \"sigmoid\" or a class that .*; got 'exponential'"),
        (np.ndarray, "curve must be .*; got <class 'numpy.ndarray'>"),
        (Line(np.ones(2), np.ones(2)), "curve must be .*; got Line"),
        (None, "curve must be .*; got None"),
        (Unfinished, "Unfinished cannot be fitted without bounds, jacobian, rescored"),
        (Undecorated, "Undecorated has no parameters; make it a frozen dataclass"),
    ],
)
def test_what_is_no_curve_is_refused(lines, curve, message):
    with pytest.raises(bd.ParameterError, match=message):
        bd.DIVE(2, curve=curve).fit(lines[0])


def test_a_prior_of_another_number_of_parameters_is_refused(lines):
    priors = bd.Priors(trajectory=bd.Normal(np.zeros(4), 1.0))
    with pytest.raises(bd.ParameterError, match=r"4 numbers, .* has 2 parameters \(level, rate\)"):
        bd.DIVE(2, curve=Line, priors=priors).fit(lines[0])


def test_a_prior_holds_the_parameters_of_lines(lines):
    cohort, *_ = lines
    priors = bd.Priors(trajectory=bd.Normal(np.array([0.0, 0.25]), np.array([100.0, 1e-6])))
    model = bd.DIVE(2, curve=Line, priors=priors, people="alike", personal=False, random_state=0)
    model.fit(cohort)
    np.testing.assert_allclose(model.internal_.parameters.trajectories.rate, 0.25, atol=1e-3)


def test_sigmoids_carry_gradients_back_as_any_shape_would(rng):
    """The short way of sigmoids against jacobian and slope, written out."""
    curves = bd.Trajectories.from_array(rng.normal([0.0, 3.0, 0.0, 0.0], size=(3, 4)))
    scores, by_values = rng.normal(size=(5, 7)), rng.normal(size=(3, 5, 7))
    short, plain = curves.at_points(scores), Curves.at_points(curves, scores)
    np.testing.assert_allclose(short.values, plain.values)
    mix = rng.normal(size=(3, 3)), rng.normal(size=(3, 5))
    np.testing.assert_allclose(short.mixed(*mix), plain.mixed(*mix))
    for one, other in zip(short.pull_back(by_values), plain.pull_back(by_values), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    by_score = np.zeros((5, 7))
    for visit in range(5):
        for point in range(7):
            slope = curves.slope(scores[visit, [point]])[0]
            by_score[visit, point] = slope @ by_values[:, visit, point]
    np.testing.assert_allclose(short.pull_back(by_values)[1], by_score)
