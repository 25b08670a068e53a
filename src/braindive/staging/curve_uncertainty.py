"""What the uncertainty of curves and population adds to that of the stages.

The curves are estimated from a finite number of subjects, and a stage read off slightly wrong
curves is slightly wrong. The delta method carries the parameters' covariance to the stages, less
what moves the origin and the unit of the score along.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braindive.arrays import Array, BoolArray
from braindive.dive.curves import Curves, onset_gradients
from braindive.staging.covariance import CorrelatedStageProblem
from braindive.staging.pieces import NUMBERS_AT_ONCE
from braindive.staging.population import StagePrior
from braindive.staging.posterior import Posterior
from braindive.staging.residuals import Part, noise_of
from braindive.values.threads import in_threads

# Least share of the people that count as left when numbers have been learnt from them: beyond it,
# with about as many numbers as people, the rule of regression has no bound. With 30 people and a
# share of 0.2, intervals of 95 % covered 98 to 99 %. A choice.
_LEAST_LEFT = 0.5


@dataclass(frozen=True)
class ScoreUnit:
    """Origin and unit of the user's score, and how both depend on the parameters.

    Parameters
    ----------
    centre, spread : float
        The user's score is (internal score - centre) / spread.
    by_centre, by_spread : (n_parameters,)
        Derivatives by the curves' parameters and the population's.
    relative_variance : float
        Variance of the unit beyond that, relative to its square.
    """

    centre: float
    spread: float
    by_centre: Array
    by_spread: Array
    relative_variance: float = 0.0


@dataclass(frozen=True)
class CurveUncertainty:
    """How well the curves and the population are known, and how that moves the score's scale.

    Parameters
    ----------
    covariance : (n_parameters, n_parameters)
        Of the parameters of all curves and of the population.
    centre, spread : (n_parameters,)
        Derivatives of the origin and of the unit of the score.
    unit_variance : float
        Variance of the unit beyond that, relative to its square.
    inflation : float
        By what variances of curves and scores are larger than the covariance has them; see
        `small_sample_inflation`.
    """

    covariance: Array
    centre: Array
    spread: Array
    unit_variance: float = 0.0
    inflation: float = 1.0

    def variances(
        self,
        problem: CorrelatedStageProblem,
        posterior: Posterior,
        centre: float,
        spread: float,
    ) -> Array:
        """Variance that the curves add to speed, shift at time 0 and first score, (S, 3).

        In internal units, like `Posterior.standard_errors`.
        """
        by_speed, by_shift = sensitivities(problem, posterior)
        timeline = problem.timeline
        speeds, shifts = posterior.mean()
        found = []
        for time in (None, -timeline.centres / timeline.unit, timeline.times[timeline.starts]):
            if time is None:
                away, moves = speeds / spread, by_speed
            else:
                away = (speeds * time + shifts - centre) / spread
                moves = time[:, None] * by_speed + by_shift - self.centre
            moves = moves - np.outer(away, self.spread)
            variance = self._variances(moves)
            found.append(variance + self.unit_variance * (away * spread) ** 2)
        return np.stack(found, axis=1)

    def score_variances(
        self,
        problem: CorrelatedStageProblem,
        posterior: Posterior,
        centre: float,
        spread: float,
    ) -> Array:
        """Variance that the curves add to the score of every visit, (n_visits,), as above."""
        by_speed, by_shift = sensitivities(problem, posterior)
        timeline = problem.timeline
        of_visit = timeline.subject_of_visit
        away = (timeline.scores(*posterior.mean()) - centre) / spread
        moves = timeline.times[:, None] * by_speed[of_visit] + by_shift[of_visit] - self.centre
        moves -= np.outer(away, self.spread)
        variance = self._variances(moves)
        return np.asarray(variance + self.unit_variance * (away * spread) ** 2)

    def onset_variances(self, curves: Curves, scores: Array, centre: float, spread: float) -> Array:
        """Variance of when each cluster is half-way in the user's score, in internal units.

        Parameters
        ----------
        curves : Curves
            Of the clusters.
        scores : (n_visits,)
            That were seen.
        centre, spread : float
            Origin and unit of the user's score.
        """
        away = (curves.onset(scores) - centre) / spread
        moves = np.zeros((len(curves), len(self.centre)))
        width = curves.n_parameters()
        for k, gradient in enumerate(onset_gradients(curves, scores)):
            moves[k, k * width : (k + 1) * width] = gradient
        moves -= self.centre + np.outer(away, self.spread)
        variance = self._variances(moves)
        return np.asarray(variance + self.unit_variance * (away * spread) ** 2)

    def curve_variances(self, curves: Curves, scores: Array, centre: float, spread: float) -> Array:
        """Variance of each curve at scores that are fixed in the user's unit, (n, n_clusters).

        In internal units. When the origin or the unit of the user's score moves with the
        parameters, another part of the curve comes to lie at the same score of the user.

        Parameters
        ----------
        curves : Curves
            Of the clusters.
        scores : (n,)
            In internal units.
        centre, spread : float
            Origin and unit of the user's score.
        """
        away = (scores - centre) / spread
        slopes, jacobian = curves.slope(scores), curves.jacobian(scores)
        moves_of_score = self.centre + np.outer(away, self.spread)
        width = curves.n_parameters()
        found = np.empty(slopes.shape)
        for k in range(len(curves)):
            moves = slopes[:, k, None] * moves_of_score
            moves[:, k * width : (k + 1) * width] += jacobian[:, k]
            found[:, k] = self._variances(moves)
        by_unit = slopes * (away * spread)[:, None]
        return np.asarray(found + self.unit_variance * by_unit**2)

    def _variances(self, moves: Array) -> Array:
        """Variance of quantities with these derivatives, (n, n_parameters)."""
        return self.inflation * np.einsum("ip,pq,iq->i", moves, self.covariance, moves)


def small_sample_inflation(n_subjects: int, n_numbers: int) -> float:
    """By what variances are larger where so many numbers are learnt from so many people.

    As in regression: people over people beyond the numbers, since how much people and their visits
    vary around curves that were fitted to them comes out too small. It counts as if half of the
    people were left at least.

    Parameters
    ----------
    n_subjects, n_numbers : int
        People, and parameters of curves and population.

    Examples
    --------
    >>> from braindive.staging.curve_uncertainty import small_sample_inflation
    >>> small_sample_inflation(100, 20), small_sample_inflation(20, 20)
    (1.25, 2.0)
    """
    return n_subjects / max(n_subjects - n_numbers, _LEAST_LEFT * n_subjects)


def sensitivities(problem: CorrelatedStageProblem, posterior: Posterior) -> tuple[Array, Array]:
    """Derivatives of expected speeds and shifts by the parameters, each (S, n_parameters).

    Parameters are those of the curves, then of each group mean and log-sd of the shift, and mean
    and log-sd of the log speed, then the offsets of the sites and the effects of covariates on both
    means. The derivative of an expected value is its covariance, over the posterior, with the
    derivative of the log-density.
    """
    timeline, noise, n_clusters = problem.timeline, noise_of(problem), len(problem.noise)
    by_sites = np.empty((2, len(timeline.times), n_clusters))

    def take(some: slice) -> tuple[Array, Array]:
        """Derivatives of some of the subjects by curves and by the population, (2, n, ...)."""
        part, prior = Part.of(timeline, some), problem.prior.select(some)
        log_speeds, shifts, weights = (
            getattr(posterior, name)[:, some] for name in ("log_speeds", "shifts", "weights")
        )
        speeds = np.exp(log_speeds)
        scores = part.combine(np.add, part.moves(speeds.T, timeline), shifts.T)
        curves = problem.trajectories.at_points(scores)
        residuals, by_population = (
            noise.residuals(part, curves),
            _by_population(prior, log_speeds, shifts),
        )
        of_curves, of_population = [], []
        for place, quantity in enumerate((speeds, shifts)):
            # A covariance: the quantity less what is expected of it.
            tilted = weights * (quantity - (weights * quantity).sum(axis=0))
            by_values = residuals.pull(tilted.T, "none").by_values
            by_sites[place, part.visits] = by_values.sum(axis=2).T
            by_parameters = curves.pull_back(by_values)[0].reshape(len(scores), -1)
            of_curves.append(np.add.reduceat(by_parameters, part.starts, axis=0))
            of_population.append(np.einsum("qi,pqi->ip", tilted, by_population))
        return np.stack(of_curves), np.stack(of_population)

    n_numbers = problem.pooled.means.size * len(posterior.weights)
    width = max(1, int(NUMBERS_AT_ONCE * timeline.n_subjects / n_numbers))
    parts = in_threads(take, timeline.n_subjects, width)
    by_curves, by_population = (np.concatenate(x, axis=1) for x in zip(*parts, strict=True))
    n_groups, found = problem.prior.population.n_groups, [by_curves]
    found.append(by_population[:, :, : 4 * n_groups])
    if problem.sites is not None:
        sites = (problem.sites.by_subject(x, timeline) for x in by_sites)
        found.append(np.stack([x.reshape(timeline.n_subjects, -1) for x in sites]))
    found.append(by_population[:, :, 4 * n_groups :])
    by_speed, by_shift = np.concatenate(found, axis=2)
    return by_speed, by_shift


def _by_population(prior: StagePrior, log_speeds: Array, shifts: Array) -> Array:
    """Derivatives of the log-density of stages by the population, (n, n_points, n_subjects).

    By every group's mean and log-sd of the shift, and mean and log-sd of the log speed, and then by
    the effects of covariates.

    Parameters
    ----------
    prior : StagePrior
        The population.
    log_speeds, shifts : (n_points, n_subjects)
        The stages.
    """
    people, groups = prior.population, np.arange(prior.population.n_groups)[:, None]
    log_speed_means, shift_means = (x[:, None] for x in prior.of_groups())
    leads = np.broadcast_to(prior.leads(groups), (len(groups), len(prior.groups)))[:, None]
    log_speed_sds, shift_sds = (x[:, None, None] for x in (people.log_speed_sds, people.shift_sds))
    member = prior.membership(log_speeds, shifts)
    member = member if member.ndim == 3 else member[:, None]
    along_shift = (shifts - shift_means) / shift_sds
    along_speed = (log_speeds - log_speed_means) / log_speed_sds
    pull = along_shift
    if people.skews is not None:
        pull = prior.skewed_at(along_shift, groups[:, None]).pull
    by_shift = member * pull / shift_sds
    by_log_speed = member * along_speed / log_speed_sds + by_shift * leads
    found = [
        by_shift,
        member * (pull * along_shift - 1),
        by_log_speed,
        member * (along_speed**2 - 1) + by_shift * leads * log_speed_sds**2,
    ]
    if prior.design is not None and people.effects is not None:
        found += [
            prior.design.shift.T[:, None] * by_shift.sum(axis=0),
            prior.design.log_speed.T[:, None] * by_log_speed.sum(axis=0),
        ]
    return np.concatenate(found)


def unit_of_controls(
    problem: CorrelatedStageProblem, posterior: Posterior, reference: BoolArray
) -> ScoreUnit:
    """The published scale: scores of the reference visits have mean 0 and spread 1."""
    by_speed, by_shift = sensitivities(problem, posterior)
    timeline = problem.timeline
    of_visit, times = timeline.subject_of_visit[reference], timeline.times[reference]
    scores = timeline.scores(*posterior.mean())[reference]
    moves = times[:, None] * by_speed[of_visit] + by_shift[of_visit]
    by_centre, standard = moves.mean(axis=0), scores - scores.mean()
    spread = float(np.std(scores)) or 1.0
    by_spread = standard @ (moves - by_centre) / len(scores) / spread
    return ScoreUnit(float(scores.mean()), spread, by_centre, by_spread)


def unit_of_years(problem: CorrelatedStageProblem, posterior: Posterior) -> ScoreUnit:
    """Years: those who are no controls move by one a year, and the first cluster is half-way at 0.

    Without follow-up no years can be known: the unit is then the spread of the scores.
    """
    timeline, groups = problem.timeline, problem.prior.groups
    others = groups == groups.max()
    scores = timeline.scores(*posterior.mean())
    onsets = problem.trajectories.onset(scores)
    first = int(np.argmin(onsets))
    by_speed, by_shift = sensitivities(problem, posterior)
    by_centre = np.zeros(by_speed.shape[1])
    width = problem.trajectories.n_parameters()
    by_onset = onset_gradients(problem.trajectories, scores)[first]
    by_centre[first * width : (first + 1) * width] = by_onset
    if not timeline.has_follow_up:
        spread = float(np.std(scores)) or 1.0
        standard = (scores - scores.mean()) / spread
        by_spread = standard @ by_shift[timeline.subject_of_visit] / len(scores)
        return ScoreUnit(float(onsets[first]), spread, by_centre, by_spread)
    speeds = posterior.mean()[0][others]
    usual = float(speeds.mean())
    errors = posterior.standard_errors(timeline)[others, 0]
    return ScoreUnit(
        float(onsets[first]),
        usual / timeline.unit,
        by_centre,
        by_speed[others].mean(axis=0) / timeline.unit,
        float(np.sum(errors**2)) / (len(speeds) * usual) ** 2,
    )
