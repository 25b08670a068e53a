"""The marginal fit on cluster means of people who differ persistently."""

from dataclasses import replace

import numpy as np
import pytest
from people_who_differ import draw, fit

import braindive as bd
from braindive.dive.priors import Gamma, Normal, Priors
from braindive.dive.timeline import evenly
from braindive.staging import marginal_fit
from braindive.staging.marginal_stager import place_subjects
from braindive.staging.optimum import look
from braindive.staging.population import groups_of
from braindive.staging.posterior import FINE
from braindive.staging.site_means import SiteMeans


def stages_of(drawn, found):
    problem = found.climb.problem
    known = found.climb.evaluation.posterior.mean()[1]
    placed = place_subjects(problem, known)
    timeline = drawn.timeline
    return placed, timeline.scores(placed.speeds, placed.shifts)[timeline.starts]


@pytest.fixture(scope="module")
def fitted():
    drawn = draw(0)
    return drawn, fit(drawn)


def test_gradient_vanishes_at_the_optimum():
    # Controls who stand where the curves begin: further back nothing but the prior places them.
    drawn = draw(0, controls_at=-12.0)
    found = fit(drawn)
    at = found.climb
    assert at.converged
    points = at.evaluation.posterior.lay_points(at.problem.prior, FINE)
    best = look(at.problem, at.vector, points, found.packing, found.priors).objective
    errors = np.sqrt(np.diag(at.inverse_products(found.packing)))
    for number in range(len(at.vector)):
        for sign in (1.0, -1.0):
            moved = at.vector.copy()
            moved[number] += sign * errors[number]
            there = look(at.problem, moved, points, found.packing, found.priors)
            assert there.objective < best


def left_to_climb(found):
    """Squared length of the gradient in standard errors, by four times as many points."""
    at, dense = found.climb, (np.linspace(-4.5, 4.5, 37), np.linspace(-3.0, 3.0, 7))
    points = at.evaluation.posterior.lay_points(at.problem.prior, dense)
    there = look(at.problem, at.vector, points, found.packing, found.priors)
    return there.gradient @ there.inverse_products(found.packing) @ there.gradient


def test_wide_posteriors_are_climbed_with_more_points(monkeypatch):
    # Visits so noisy that a posterior spans a whole curve.
    noisy = {"n_controls": 0, "n_patients": 60, "level": 0.02, "noise": 0.6}
    drawn = draw(2, midpoints=(-15.0, 2.5, 20.0), **noisy)
    assert left_to_climb(fit(drawn)) < 0.03
    # Negative control: the usual points end somewhere else. (They may also see a skew.)
    monkeypatch.setattr(marginal_fit, "_WORTH_TRYING", np.inf)
    monkeypatch.setattr(marginal_fit, "FINER", FINE)
    assert left_to_climb(fit(drawn)) > 0.1


def test_directions_are_not_compared_by_coarse_points():
    """By coarse points the reversed disease of this cohort seemed more likely, and clearly so."""
    simulation = bd.simulate_cohort(
        n_subjects=200,
        space="fsaverage5-left",
        noise_smoothing=30,
        steepness_variation=0.0,
        midpoint_variation=0.0,
        dtype="float32",
        random_state=6007,
    )
    train = simulation.cohort.select(subjects=list(simulation.cohort.subject_ids[:100]))
    # Noise is so smooth that change over time hardly shows, and yet people can be told apart.
    with pytest.warns(bd.StagingWarning, match="No progression was found"):
        model = bd.DIVE(3, personal=False, random_state=0).fit(train)
    assert np.corrcoef(model.scores_[::4], simulation.truth.shifts[:100])[0, 1] > 0.9


def test_people_who_differ_are_staged_next_to_the_truth(fitted):
    drawn, found = fitted
    placed, first = stages_of(drawn, found)
    patients = drawn.patients
    mean_map = -drawn.pooled.means.mean(axis=1)[drawn.timeline.starts]
    score = np.corrcoef(first[patients], drawn.first[patients])[0, 1]
    assert score > 0.98
    assert score > np.corrcoef(mean_map[patients], drawn.first[patients])[0, 1]
    assert np.corrcoef(placed.speeds[patients], drawn.speeds[patients])[0, 1] > 0.8


def test_curves_and_population_are_recovered(fitted):
    drawn, found = fitted
    problem = found.climb.problem
    np.testing.assert_allclose(problem.trajectories.amplitude, -2.0, rtol=0.1)
    # Internal time is in multiples of the spread of visits, and the mean speed is 1.
    years = drawn.timeline.unit / drawn.speeds[drawn.patients].mean()
    gaps = np.diff(np.sort(problem.trajectories.midpoint)) * years
    np.testing.assert_allclose(gaps, 6.0 / drawn.speeds[drawn.patients].mean() ** 2, rtol=0.12)
    people = problem.prior.population
    assert people.shift_means[0] < people.shift_means[1] == 0.0
    assert people.log_speed_sds[-1] == pytest.approx(0.41, abs=0.1)  # of log Gamma(6.25)


def test_people_who_do_not_change_have_no_speeds():
    """Negative control: where every visit shows the person's mean, no speed is left to see."""
    drawn = draw(1)
    rng = np.random.default_rng(0)
    timeline, means = drawn.timeline, drawn.pooled.means
    still = (timeline.by_subject(means) / 4)[timeline.subject_of_visit]
    pooled = replace(drawn.pooled, means=still + 0.08 * rng.normal(size=means.shape))
    placed, _ = stages_of(drawn, fit(replace(drawn, pooled=pooled)))
    patients = drawn.patients
    assert abs(np.corrcoef(placed.speeds[patients], drawn.speeds[patients])[0, 1]) < 0.3


@pytest.mark.parametrize("seed", range(3))
def test_random_controls_do_not_turn_the_disease_round(seed):
    drawn = draw(seed, n_controls=0, n_patients=80)
    rng = np.random.default_rng(seed)
    controls = (rng.random(80) < 0.4)[drawn.timeline.subject_of_visit]
    found = fit(drawn, controls=controls, shifts=-drawn.first)  # a start that is reversed
    _, first = stages_of(drawn, found)
    assert np.corrcoef(first, drawn.first)[0, 1] > 0.9
    assert found.direction_is_clear


def test_a_plateau_that_nobody_reaches_does_not_run_away():
    drawn = draw(2, latest=9.0)
    trajectories = fit(drawn).climb.problem.trajectories
    assert np.abs(trajectories.amplitude).max() < 4.0


def test_a_wide_prior_of_the_users_own_is_taken_at_its_word():
    """Negative control of the weak prior: told that changes are tiny, curves stay flat."""
    drawn = draw(0, n_controls=20, n_patients=40)
    narrow = Priors(trajectory=Normal(np.array([0.0, 1.0, 0.0, 0.0]), np.array([1e-3, 9, 99, 99])))
    found = fit(drawn, priors=narrow).climb.problem.trajectories
    assert np.abs(found.amplitude).max() < 0.3


def test_clusters_that_visits_do_not_show_are_no_obstacle():
    drawn = draw(3, missing=0.2)
    found = fit(drawn)
    _, first = stages_of(drawn, found)
    patients = drawn.patients
    assert np.corrcoef(first[patients], drawn.first[patients])[0, 1] > 0.97


def test_single_visits_give_stages_but_no_speeds():
    drawn = draw(4, n_visits=1, level=0.1)
    placed, first = stages_of(drawn, fit(drawn))
    patients = drawn.patients
    assert np.corrcoef(first[patients], drawn.first[patients])[0, 1] > 0.95
    np.testing.assert_allclose(placed.speeds, 1.0, rtol=1e-3)


def test_fixed_speeds_are_the_same_for_all():
    drawn = draw(0, n_controls=20, n_patients=40)
    found = fit(drawn, priors=Priors(speed=Gamma.fixed()))
    placed, _ = stages_of(drawn, found)
    np.testing.assert_allclose(placed.speeds, 1.0, rtol=1e-3)


def test_groups_of_very_few_people_are_none():
    drawn = draw(0, n_controls=4, n_patients=20)
    assert not groups_of(drawn.timeline, drawn.controls).any()
    assert groups_of(drawn.timeline, drawn.controls, least=0).sum() == 20
    once = drawn.controls.copy()
    once[0] = False  # no control at the first visit: none at all
    assert groups_of(drawn.timeline, once, least=0).sum() == 21


def test_covariances_that_are_not_climbed_are_nearly_as_good(monkeypatch, fitted):
    """As with the many clusters of an atlas, whose covariances the EM updates."""
    drawn, climbed = fitted
    monkeypatch.setattr("braindive.staging.packing._MOST_CLUSTERS", 3)
    found = fit(drawn)
    assert found.packing.within is None
    assert len(found.climb.vector) < len(climbed.climb.vector)
    problem, other = found.climb.problem, climbed.climb.problem
    np.testing.assert_allclose(problem.covariance.within, other.covariance.within, atol=1e-3)
    placed = stages_of(drawn, found)[1]
    assert np.corrcoef(placed, stages_of(drawn, climbed)[1])[0, 1] > 0.998


def test_what_some_people_tell_of_sites_is_known_when_all_are_placed(monkeypatch):
    """A fit begins with some of the people, and then looks for the modes of everybody."""
    drawn = draw(5, n_controls=20, n_patients=40, level=0.1, midpoints=(-6.0, 6.0))
    of_visit = drawn.timeline.subject_of_visit
    sites = of_visit % 2
    planted = np.array([[0.5, 0.4], [-0.5, -0.4]])
    pooled = replace(drawn.pooled, means=drawn.pooled.means + planted[sites])
    looked_for = []

    def remember(problem, *given):
        looked_for.append(problem)
        return searched_points(problem, *given)

    searched_points = marginal_fit.searched_points
    monkeypatch.setattr(marginal_fit, "searched_points", remember)
    monkeypatch.setattr(marginal_fit, "FEW_SUBJECTS", 30)
    begun = SiteMeans(sites, np.zeros((2, 2)), np.zeros((2, 2)), 1.0)
    shown = fit(replace(drawn, pooled=pooled), sites=begun)
    problem, everyone = shown.climb.problem, looked_for[-1]
    assert everyone.timeline.n_subjects == problem.timeline.n_subjects == 60
    assert any(some.timeline.n_subjects == 30 for some in looked_for)
    assert len(problem.sites.sites) == len(of_visit)
    np.testing.assert_allclose(problem.sites.offsets, planted, atol=0.1)
    # Modes are looked for where the offsets of these sites have been taken off.
    np.testing.assert_allclose(everyone.sites.offsets, planted, atol=0.15)
    np.testing.assert_allclose(everyone.means, pooled.means - planted[sites], atol=0.15)
    first = stages_of(drawn, shown)[1]
    left_out = np.setdiff1d(np.arange(60), evenly(np.arange(60), 30))
    patients = left_out[drawn.patients[left_out]]
    assert np.corrcoef(first[patients], drawn.first[patients])[0, 1] > 0.97
