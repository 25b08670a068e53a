"""Errors of scores where the likelihood falls more slowly to one side of the optimum."""

import numpy as np
import pytest
from people_who_differ import draw, fit

from braindive.staging import profile_likelihood
from braindive.staging.curve_uncertainty import unit_of_years
from braindive.staging.expected_information import known_information
from braindive.staging.marginal_fit import points_at
from braindive.staging.optimum import climb, look
from braindive.staging.posterior import FINE, FINER
from braindive.staging.profile_likelihood import (
    leading_direction,
    profile_covariance,
    square_of_wider_side,
)


@pytest.mark.parametrize(("before", "after"), [(1.0, 1.0), (0.7, 1.6), (2.0, 0.5)])
def test_an_interval_leaves_as_much_out_as_its_wider_half_alone_would(before, after):
    grid = np.linspace(-20, 20, 400_001)
    density = np.exp(-0.5 * (grid / np.where(grid < 0, before, after)) ** 2)
    density /= density.sum()
    beyond = np.abs(grid) > 1.96 * np.sqrt(square_of_wider_side(before, after))
    is_wider = (grid < 0) == (before > after)
    expected = 0.05 * density[is_wider].sum()
    assert density[beyond & is_wider].sum() == pytest.approx(expected, abs=1e-4)
    # The other half adds nothing where sides differ.
    both = 0.025 if before == after else 0.0
    assert density[beyond & ~is_wider].sum() == pytest.approx(both, abs=1e-3)


def test_the_leading_direction_is_one_error_long_and_moves_quantities_most(rng):
    root = rng.normal(size=(5, 5))
    covariance, moves = root @ root.T + np.eye(5), rng.normal(size=(30, 5))
    along = leading_direction(moves, covariance)
    assert along @ np.linalg.solve(covariance, along) == pytest.approx(1.0)
    most = np.sum((moves @ along) ** 2)
    for _ in range(200):
        other = rng.normal(size=5)
        other /= np.sqrt(other @ np.linalg.solve(covariance, other))
        assert np.sum((moves @ other) ** 2) < most
    # Of one quantity, it is the direction of its covariance with the parameters.
    one = leading_direction(moves[:1], covariance)
    expected = covariance @ moves[0] / np.sqrt(moves[0] @ covariance @ moves[0])
    np.testing.assert_allclose(np.abs(one), np.abs(expected), rtol=1e-6)


def widened(drawn):
    """A fit, its covariance by the information, and by how much the profile adds to it."""
    found = fit(drawn, shifts=drawn.first)
    unit = unit_of_years(found.climb.problem, found.climb.evaluation.posterior)
    covariance = np.linalg.inv(known_information(found.climb, found.packing))
    added = profile_covariance(found, unit, covariance) - covariance
    return found, unit, covariance, added


def shares(covariance, added):
    """Eigenvalues of what is added, in units of the covariance, ascending."""
    half = np.linalg.inv(np.linalg.cholesky(covariance))
    return np.linalg.eigvalsh(half @ added @ half.T)


@pytest.fixture(scope="module")
def few_before():
    """People of whom hardly anybody is seen before the earliest cluster is half-way."""
    return widened(draw(3, n_controls=0, n_patients=60, midpoints=(-14.0, 2.0, 14.0), level=0.1))


def test_errors_of_the_origin_are_wider_where_few_people_tell_it(few_before):
    _, unit, covariance, added = few_before
    # In one direction alone.
    sizes = shares(covariance, added)
    assert sizes[-1] > 0.1
    assert np.abs(sizes[:-1]).max() < 1e-4
    # The first cluster's midpoint, which is the origin, is what it moves most.
    midpoints = np.diag(added)[2:12:4] / np.diag(covariance)[2:12:4]
    assert np.argmax(unit.by_centre) == 2
    assert midpoints[0] > 2 * midpoints[1:].max()


def test_errors_are_never_less_than_by_the_curvature(few_before, monkeypatch):
    found, unit, covariance, _ = few_before
    # Were the likelihood to fall on both sides as if errors were half as large.
    monkeypatch.setattr(profile_likelihood, "square_of_wider_side", lambda before, after: 0.25)
    np.testing.assert_array_equal(profile_covariance(found, unit, covariance), covariance)


def test_where_people_are_many_the_likelihood_is_taken_for_quadratic(few_before, monkeypatch):
    found, unit, covariance, _ = few_before
    monkeypatch.setattr(profile_likelihood, "ENOUGH_PER_NUMBER", 1)
    np.testing.assert_array_equal(profile_covariance(found, unit, covariance), covariance)


@pytest.mark.parametrize("reachable", [0, 1, 3])
def test_where_nothing_can_be_computed_errors_are_those_of_the_curvature(
    few_before, monkeypatch, reachable
):
    found, unit, covariance, added = few_before
    calls = []

    def fails(*arguments):
        calls.append(arguments)
        if len(calls) > reachable:
            return None
        return look(*arguments)

    monkeypatch.setattr(profile_likelihood, "look_if_possible", fails)
    wider = profile_covariance(found, unit, covariance) - covariance
    # The optimum itself is seen first; one side may be known and the other not.
    assert np.isfinite(wider).all()
    assert np.abs(wider).max() <= 2 * np.abs(added).max()
    if reachable < 2:
        assert not wider.any()


class Held:
    """Priors of a fit that hold it at one place along a direction."""

    def __init__(self, priors, normal, place):
        self.priors, self.normal, self.place = priors, normal, place

    def log_density(self, packing, vector):
        value, gradient, curvature = self.priors.log_density(packing, vector)
        away, worth = self.normal @ vector - self.place, 1e4
        pull = worth * away * self.normal
        return value - worth * away**2 / 2, gradient - pull, curvature + worth * self.normal**2


@pytest.mark.parametrize("noise", [0.08, 0.5])
def test_spreads_are_those_of_the_profile_likelihood(noise, monkeypatch):
    drawn = draw(
        3, n_controls=0, n_patients=60, midpoints=(-14.0, 2.0, 14.0), level=0.1, noise=noise
    )
    seen = []
    for name, function in (
        ("square_of_wider_side", square_of_wider_side),
        ("leading_direction", leading_direction),
    ):

        def spy(*arguments, function=function):
            seen.extend([*arguments[:2], function(*arguments)])
            return seen[-1]

        monkeypatch.setattr(profile_likelihood, name, spy)
    found = widened(drawn)[0]
    along, spreads = seen[2], seen[3:5]
    # The likelihood of the noisier cohort falls so slowly that it is looked further along.
    assert (max(spreads) > 1.3) == (noise > 0.1)
    at, packing, staged = found.climb, found.packing, found.packing.of_stages()
    normal = np.zeros_like(along)
    covariance = np.linalg.inv(known_information(at, packing))
    within = np.ix_(staged, staged)
    normal[staged] = np.linalg.solve(covariance[within], along[staged])

    def finely(here):
        points = here.evaluation.posterior.lay_points(here.problem.prior, FINER)
        return look(here.problem, here.vector, points, packing, found.priors).objective

    def profile(reach):
        place = normal @ at.vector + reach
        start = packing.unpack(at.vector + reach * along, at.problem)
        points = points_at(start, *at.evaluation.posterior.mean(), FINE)
        held = Held(found.priors, normal, place)
        there = climb(start, points, packing, held, FINE, there=1e-5)
        assert normal @ there.vector == pytest.approx(place, abs=0.01)
        return abs(reach) / np.sqrt(2 * (finely(at) - finely(there)))

    for side, spread in zip((-2.0, 2.0), spreads, strict=True):
        expected = profile(side)
        if spread > 1.3:
            expected = profile(side * expected)
        assert spread == pytest.approx(expected, rel=0.03)
