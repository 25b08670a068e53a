"""The accelerated EM: the same optima in fewer passes, and never worse."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import braindive as bd
from braindive.dive.acceleration import clearly_better, leap_ahead, pack, unpack
from braindive.dive.convergence import Monitor
from braindive.dive.curves import Trajectories
from braindive.dive.em import run_em
from braindive.dive.initial import one_hot
from braindive.dive.moves import most_similar, split_and_merge
from braindive.dive.problem import Parameters, Problem, State
from braindive.dive.settings import Settings
from braindive.dive.starts import fit_best
from braindive.dive.timeline import Timeline
from braindive.values import sampling
from braindive.values.backends import open_products
from braindive.values.products import BlockProducts


def start_from(simulation, labels, n_clusters):
    """The problem of a simulated cohort, and a state to begin from with these labels."""
    cohort, truth = simulation.cohort, simulation.truth
    measurements = open_products(
        cohort.stored, order=cohort.canonical_rows, missing=cohort.has_missing
    )
    timeline = Timeline.from_times(cohort.subject_index, cohort.times)
    shifts = truth.shifts + truth.speeds * timeline.centres
    speeds = truth.speeds * timeline.unit
    scores = timeline.scores(speeds, shifts)
    problem = Problem(
        measurements, timeline, bd.Priors().scaled_to(scores), Trajectories.bounds(scores)
    )
    centres = np.quantile(scores, np.linspace(0.1, 0.9, n_clusters))
    flat = np.ones(n_clusters)
    curves = Trajectories(-flat, flat / np.std(scores), centres, 0 * flat)
    parameters = Parameters(curves, flat, speeds, shifts)
    return problem, State(parameters, one_hot(labels, n_clusters))


def overlapping(missing=0.0):
    """Six clusters of 600 vertices that overlap, and the rank of vertices to begin from."""
    simulation = bd.simulate_cohort(
        n_subjects=30,
        n_vertices=600,
        midpoints=tuple(np.linspace(-15.0, 20.0, 6)),
        missing=missing,
        random_state=1,
    )
    level = np.nanmean(simulation.cohort.values, axis=0)
    labels = np.argsort(np.argsort(level)) * 6 // 600
    return start_from(simulation, labels, 6)


@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["dense", "gaps"])
def test_a_slow_em_run_to_the_end_finds_the_same_in_more_passes(missing):
    problem, state = overlapping(missing)
    slow, fast = Monitor(1e-7, 2000), Monitor(1e-4, 200)
    expected = run_em(problem, state, slow)
    found = run_em(problem, state, fast, leap=leap_ahead)
    assert (slow.reason, fast.reason) == ("converged", "converged")
    plain = Monitor(1e-4, 200)
    run_em(problem, state, plain)
    assert fast.n_iter < plain.n_iter / 2
    assert fast.objectives[-1] == pytest.approx(slow.objectives[-1], abs=1e-3)
    assert fast.objectives[-1] > plain.objectives[-1]
    assert np.all(np.diff(fast.objectives) >= 0)
    np.testing.assert_allclose(found.responsibilities, expected.responsibilities, atol=0.005)


def test_a_leap_that_lowers_the_objective_is_taken_back():
    problem, state = overlapping()
    leaps = []

    def astray(problem, parameters, state, monitor):
        """Every third pass, curves at which nobody is."""
        if monitor.n_iter % 3 != 2:
            return None
        leaps.append(monitor.n_iter)
        curves = replace(parameters.trajectories, baseline=parameters.trajectories.baseline + 1)
        return replace(parameters, trajectories=curves)

    states = []
    monitor = Monitor(1e-4, 12)
    run_em(problem, state, monitor, lambda state, _: states.append(state), astray)
    assert leaps == [2, 5, 8, 11]
    assert monitor.n_iter == 12
    for pass_ in leaps:
        assert states[pass_] is states[pass_ - 1]
        assert monitor.objectives[pass_] == monitor.objectives[pass_ - 1]
        assert monitor.changes[pass_] >= monitor.tol
    assert np.all(np.diff(np.delete(monitor.objectives, leaps)) > 0)


def test_a_taken_back_pass_is_not_taken_for_convergence():
    monitor = Monitor(tol=1e-3, max_iter=100)
    monitor.update(-100.0, 0.5)
    monitor.update(-50.0, 1e-5)
    monitor.take_back(1e-5)
    assert monitor.taken_back
    assert monitor.reason == ""
    monitor.update(-49.9999, 1e-5)
    assert not monitor.taken_back
    assert monitor.reason == "converged"


def test_split_and_merge_repair_a_start_in_which_two_clusters_are_one():
    """Five separate clusters; the start takes two of them for one and cuts another in two."""
    simulation = bd.simulate_cohort(
        n_subjects=30,
        n_vertices=500,
        midpoints=(-14.0, -8.0, 0.0, 8.0, 14.0),
        midpoint_variation=0.05,
        steepness_variation=0.0,
        noise=0.3,
        random_state=2,
    )
    truth = simulation.truth.labels
    wrong = np.where(truth == 1, 0, truth)
    cut = np.flatnonzero(truth == 3)
    wrong[cut[::2]] = 1
    problem, state = start_from(simulation, wrong, 5)
    _, right = start_from(simulation, truth, 5)
    # What a pass changes must not seem little before the repair is tried.
    best, stuck, repaired = (Monitor(1e-12, 8) for _ in range(3))
    run_em(problem, right, best)
    run_em(problem, state, stuck)
    found = run_em(problem, state, repaired, leap=leap_ahead)
    assert stuck.objectives[-1] < best.objectives[-1] - 100
    assert repaired.objectives[-1] > best.objectives[-1] - 0.1
    assert bd.match_clusters(found.responsibilities, truth).agreement > 0.99


def test_nothing_is_accelerated_that_is_fixed_exact_or_a_field():
    problem, state = overlapping()
    monitor = Monitor(1e-4, 50)
    monitor.objectives, monitor.changes = [-5.0, -4.0, -3.0, -2.0], [0.1] * 4
    assert leap_ahead(problem, state.parameters, state, monitor) is not None
    for other in (
        {"exact": True},
        {"fixed": state.responsibilities},
        {"graph": csr_array((600, 600))},
    ):
        assert leap_ahead(replace(problem, **other), state.parameters, state, monitor) is None
    monitor.take_back(0.1)
    assert leap_ahead(problem, state.parameters, state, monitor) is None


def test_packed_parameters_come_back_within_bounds():
    problem, state = overlapping()
    parameters = state.parameters
    again = unpack(pack(parameters), parameters, problem)
    for name in ("noise", "speeds", "shifts"):
        np.testing.assert_allclose(getattr(again, name), getattr(parameters, name), rtol=1e-12)
    np.testing.assert_allclose(again.trajectories.to_array(), parameters.trajectories.to_array())
    packed = pack(parameters)
    packed[2] = 1e9  # the first midpoint
    _, furthest = problem.bounds.limits["midpoint"]
    assert unpack(packed, parameters, problem).trajectories.midpoint[0] == furthest


def test_most_similar_clusters_come_first():
    curves = np.array([[0.0, 1.0, 1.1, 5.0], [0.0, 1.0, 1.1, 5.0]])
    pairs = most_similar(curves, np.ones(4), np.full(4, 10.0))
    assert pairs[0] == (1, 2)
    assert len(pairs) == 6
    # Few vertices cost little, however far away.
    assert most_similar(curves, np.ones(4), np.array([10.0, 10, 10, 0]))[0][1] == 3


def test_splitting_and_merging_keep_every_vertex(rng):
    z = rng.dirichlet(np.ones(4), 20)
    sides = rng.normal(size=20)
    moved = split_and_merge(z, (0, 2), 3, sides)
    np.testing.assert_allclose(moved.sum(axis=1), 1)
    np.testing.assert_allclose(moved[:, 0], z[:, 0] + z[:, 2])
    np.testing.assert_allclose(moved[:, 2], np.where(sides > 0, z[:, 3], 0))


def test_a_gain_on_some_vertices_must_be_beyond_chance(rng):
    _, state = overlapping()
    here = replace(state, log_densities=np.zeros((400, 2)))
    chance = rng.normal(0.05, 1.0, size=(400, 1))
    there = replace(state, log_densities=here.log_densities + chance)
    assert clearly_better(there, here, share=1.0) == (chance.sum() > 5)
    assert not clearly_better(there, here, share=0.1)
    sure = replace(state, log_densities=here.log_densities + 0.5 + chance)
    assert clearly_better(sure, here, share=0.1)


@pytest.mark.parametrize("vertices", ["alike", "differ"])
@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["dense", "gaps"])
def test_some_of_the_vertices_first_comes_to_the_same(vertices, missing, monkeypatch):
    simulation = bd.simulate_cohort(
        n_subjects=30, n_vertices=900, noise=0.5, missing=missing, random_state=1
    )

    def fit():
        passes = []
        model = bd.DIVE(
            3, vertices=vertices, people="alike", personal=False, tol=1e-5, random_state=0
        )
        return model.fit(simulation.cohort, callback=passes.append), passes

    alone, passes = fit()
    samples = []
    sample = BlockProducts.sample

    def noted(self, chosen):
        samples.append(sample(self, chosen))
        return samples[-1]

    monkeypatch.setattr(BlockProducts, "sample", noted)
    monkeypatch.setattr(sampling, "ENOUGH", 300)
    led, passes_when_led = fit()
    # The components that k-means starts from and the EM share one copy.
    assert samples[0].n_vertices == 300
    assert all(each is samples[0] for each in samples)
    assert led.converged_
    assert len(passes_when_led) <= len(passes) + 2
    np.testing.assert_allclose(led.objective_[-1], alone.objective_[-1], rtol=1e-5)
    np.testing.assert_allclose(led.responsibilities_, alone.responsibilities_, atol=0.02)
    # Where the others go on from there, it is to the same as well.
    middle = passes_when_led[0].checkpoint
    model = bd.DIVE(3, vertices=vertices, people="alike", personal=False, tol=1e-5, random_state=0)
    again = model.fit(simulation.cohort, resume=middle)
    np.testing.assert_array_equal(again.responsibilities_, led.responsibilities_)


def test_slow_clusters_of_many_vertices_need_few_passes(monkeypatch):
    """Six clusters that overlap: a third of the vertices leads, and leaps do the rest."""
    problem, _ = overlapping()
    settings = Settings(
        n_clusters=6,
        curve=Trajectories,
        graph=None,
        strength=None,
        labels=None,
        start=None,
        staging=True,
        exact=False,
        vertices="alike",
        n_init=2,
        max_iter=200,
        tol=1e-4,
        priors=bd.Priors(),
    )

    def fit():
        told = []
        random = np.random.default_rng(0)
        found = fit_best(
            problem.measurements,
            problem.timeline,
            settings,
            None,
            random,
            lambda state, monitor, start, checkpoint: told.append(monitor.n_iter),
        )
        return found, told

    alone, passes = fit()
    monkeypatch.setattr(sampling, "ENOUGH", 200)
    led, passes_when_led = fit()
    assert led.monitor.reason == "converged"
    assert len(passes_when_led) < 0.75 * len(passes)
    assert led.monitor.objectives[-1] > alone.monitor.objectives[-1] - 5
