"""Small problems of the marginal model, and cohorts of cluster means drawn from it."""

from dataclasses import dataclass

import numpy as np

from braindive.dive.curves import Trajectories
from braindive.dive.pooled import PooledMeans
from braindive.dive.priors import Priors
from braindive.dive.problem import Parameters
from braindive.dive.timeline import Timeline
from braindive.dive.trajectories import search_trajectories
from braindive.staging.covariance import CorrelatedStageProblem, Covariance
from braindive.staging.marginal_fit import fit_marginal
from braindive.staging.population import Population, StagePrior

SUBJECTS = np.array([0, 0, 0, 1, 2, 2])
YEARS = np.array([60.0, 61.0, 63.0, 70.0, 50.0, 52.0])


# Of the visits' noise in a problem whose visits are not equally good.
MULTIPLIERS = np.array([[1.0, 1.3], [0.6, 1.1], [2.5, 1.0], [0.8, 0.8], [1.0, 1.7], [1.4, 0.7]])


def make_problem(
    rng, *, gaps=False, between=0.02, weights=40.0, groups=(0, 1, 1), multipliers=None
):
    """Three subjects with three, one and two visits, two clusters and two groups."""
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
    population = Population(
        np.array([-1.5, 0.0]),
        np.array([0.7, 2.0]),
        np.array([-0.6, -0.08]),
        np.array([0.5, 0.4]),
        np.array([0.4, 0.6]),
    )
    return CorrelatedStageProblem(
        PooledMeans(means, all_weights, np.zeros(2)),
        timeline,
        curves,
        np.array([0.5, 0.6]),
        StagePrior(population, np.array(groups)),
        covariance,
        multipliers,
    )


def noise_of_visit(problem, row):
    """Covariance of the noise of one visit of `make_problem`, written out."""
    weights = np.maximum(problem.pooled.weights[row], 1e-6)
    fewer = problem.noise**2 * (1 / weights - 1 / problem.covariance.weights)
    found = problem.covariance.within + np.diag(fewer)
    if problem.multipliers is None:
        return found
    return np.diag(problem.multipliers[row]) @ found @ np.diag(problem.multipliers[row])


@dataclass(frozen=True)
class Drawn:
    """Cluster means of people who differ, and the truth behind them; time is in years."""

    pooled: PooledMeans
    timeline: Timeline
    controls: np.ndarray
    first: np.ndarray
    speeds: np.ndarray
    curves: Trajectories

    @property
    def patients(self):
        return ~self.controls[self.timeline.starts]


def draw(
    seed,
    *,
    n_controls=50,
    controls_at=-22.0,
    n_patients=100,
    n_visits=4,
    level=0.4,
    noise=0.08,
    midpoints=(-6.0, 0.0, 6.0, 12.0),
    latest=np.inf,
    missing=0.0,
):
    """Draw cluster means: sigmoids of amplitude -2, personal levels and noise that are shared."""
    rng = np.random.default_rng(seed)
    n_subjects, n_clusters = n_controls + n_patients, len(midpoints)
    is_control = np.arange(n_subjects) < n_controls
    first = np.where(
        is_control, rng.normal(controls_at, 3, n_subjects), rng.normal(2, 9, n_subjects)
    )
    first = np.minimum(first, latest)
    speeds = np.where(is_control, 0.3, 1.0) * rng.gamma(6.25, 1 / 6.25, n_subjects)
    subjects = np.repeat(np.arange(n_subjects), n_visits)
    years = np.tile(np.arange(float(n_visits)), n_subjects)
    curves = Trajectories(
        np.full(n_clusters, -2.0),
        np.full(n_clusters, 0.4),
        np.array(midpoints),
        np.zeros(n_clusters),
    )
    mixing = 0.5 * np.eye(n_clusters) + 0.5 * np.ones((n_clusters, n_clusters)) / n_clusters
    means = curves.evaluate(first[subjects] + speeds[subjects] * years)
    means += level * (rng.normal(size=(n_subjects, n_clusters)) @ mixing)[subjects]
    means += noise * rng.normal(size=means.shape) @ mixing
    weights = np.full(means.shape, 500.0)
    weights[rng.random(means.shape) < missing] = 0.0
    means[weights == 0] = 0.0
    return Drawn(
        PooledMeans(means, weights, np.zeros(n_clusters)),
        Timeline.from_times(subjects, years),
        is_control[subjects],
        first,
        speeds,
        curves,
    )


def fit(drawn, *, controls="given", shifts=None, priors=None, speeds=None, sites=None):
    """Fit the marginal model to drawn means; the EM's start is useless unless shifts are given."""
    timeline = drawn.timeline
    shifts = np.zeros(timeline.n_subjects) if shifts is None else shifts
    rng = np.random.default_rng(0)
    shifts = shifts + 1e-3 * rng.normal(size=timeline.n_subjects)
    speeds = np.ones(timeline.n_subjects) if speeds is None else speeds
    scores = timeline.scores(speeds, shifts)
    bounds = Trajectories.bounds(scores)
    start = search_trajectories(Trajectories, drawn.pooled, scores, bounds)
    parameters = Parameters(start, np.ones(drawn.pooled.means.shape[1]), speeds, shifts)
    given = drawn.controls if isinstance(controls, str) else controls
    found = fit_marginal(drawn.pooled, timeline, parameters, priors or Priors(), given, sites=sites)
    return found.refined(drawn.pooled, parameters.noise)
