"""What a user should know before trusting a fit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from braindive.arrays import BoolArray
from braindive.cluster_table import change_errors
from braindive.dive.field import STRONGEST
from braindive.dive.initial import CLEAR
from braindive.dive.starts import Outcome
from braindive.dive.timeline import Timeline
from braindive.errors import ConvergenceWarning, DataWarning, StagingWarning
from braindive.prediction.left_out import LEAST_JUDGES
from braindive.prediction.personal import PersonalModel
from braindive.results import Results
from braindive.staging.change import Lines

ONLY_CONTROLS = (
    "every visit is a control's, so there is no disease to model: what was found is how controls "
    "change, their ageing for example. Check which visits are marked as controls'."
)
_ADVICE = {
    "max_iter": "raise max_iter, or tol if the objective has flattened",
    "cycling": "the Markov random field keeps swapping labels; fix a smaller spatial",
    "cycling without a field": "clusters and their vertices' own curves keep swapping vertices; "
    'use fewer clusters, or vertices="alike"',
}


def warnings_of(
    outcome: Outcome, results: Results, names: list[str], judged: str
) -> Iterator[tuple[type[Warning] | None, str]]:
    """Warnings that a fit deserves, one by one; those without a category are kept, not raised.

    Parameters
    ----------
    outcome : Outcome
        The EM.
    results : Results
        What is shown of the fit.
    names : list of str
        What the clusters are called.
    judged : str
        Whether a progression was found, in words.
    """
    problem, monitor, direction = outcome.problem, outcome.monitor, outcome.direction
    if not problem.timeline.has_follow_up and not problem.staging:
        # Kept, not raised: the score is the time, and nothing is said of people.
        yield None, judged
    elif problem.timeline.has_follow_up and not outcome.progression.found:
        yield StagingWarning, judged
    unseen = int((problem.measurements.counts == 0).sum())
    if unseen:
        yield DataWarning, f"{unseen} vertices have no data; their responsibilities are uniform."
    empty = np.flatnonzero(results.responsibilities.sum(axis=0) < 0.5)
    if len(empty):
        n_clusters = len(results.order)
        # One sentence for any number, so that `select` can sum up those of many fits.
        yield DataWarning, f"empty clusters: {len(empty)} of {n_clusters}; use fewer clusters."
    if problem.staging and not problem.timeline.has_follow_up:
        yield (
            StagingWarning,
            "every subject has one visit: whether there is a progression cannot be judged from "
            "that, and no speed and no years can be known, so that all speeds are the same, and a "
            "score that would be in years has the spread of the scores for its unit.",
        )
    elif problem.staging and not results.direction_is_clear:
        yield (
            StagingWarning,
            "which way the disease runs is not clear from the data: both directions describe how "
            "people change nearly as well "
            f"(judged by {direction.source}, z = {direction.z_value:.1f}), and scores may be "
            "reversed. Longer follow-up would settle it; check that early scores are those of "
            "people whom you know to be healthy.",
        )
    elif results.controls_lead <= -CLEAR:
        yield (
            StagingWarning,
            "controls and time contradict each other: people change away from how the others are "
            "and towards the controls, who come late on the course therefore "
            f"(z = {results.controls_lead:.1f}). Check which visits are marked as controls', and "
            "the sign and the order of the times.",
        )
    strength = outcome.state.parameters.strength
    # The marginal fit gives labels a field that vertices can contradict.
    estimated = problem.graph is not None and problem.strength is None
    if estimated and results.marginal is None and (strength or 0) >= STRONGEST:
        # Kept, not raised: a few clear areas have a field as strong.
        yield (
            None,
            f"the strength of the Markov random field has stopped at its largest value, "
            f"{STRONGEST:g}: neighbours decide alone. Fewer clusters, or a fixed spatial, would "
            "let the data speak.",
        )
    if monitor.reason != "converged":
        without_field = monitor.reason == "cycling" and problem.graph is None
        advice = _ADVICE["cycling without a field" if without_field else monitor.reason]
        yield (
            ConvergenceWarning,
            f"the fit stopped after {monitor.n_iter} iterations without converging "
            f"({monitor.reason}): {advice}.",
        )
    if not results.converged:
        yield (
            ConvergenceWarning,
            "the marginal fit of curves and stages did not come to rest: more clusters than the "
            "data can tell apart, or too few people. Use fewer clusters.",
        )
    yield from _plateaus(results, names, set(empty.tolist()))


def _plateaus(
    results: Results, names: list[str], empty: set[int]
) -> Iterator[tuple[type[Warning] | None, str]]:
    """Plateaus that nobody has reached: there the curve is a guess."""
    internal = results.internal
    timeline, found = internal.training.timeline, internal.parameters
    scores = timeline.scores(found.speeds, found.shifts)
    reached = found.trajectories.reached(scores)
    changes = internal.scale.value_errors(found.trajectories.change(scores))
    errors = change_errors(internal, results.marginal)
    for k in np.flatnonzero(~reached.all(axis=1)):
        if int(k) in empty:
            continue
        which = " and ".join(np.array(["early", "late"])[~reached[k]])
        half = 1.96 * float(errors[k])
        known = f" (95 % interval {changes[k] - half:.3g} to {changes[k] + half:.3g})"
        known = known if np.isfinite(half) else ""
        # Kept, not raised: most small cohorts have one, and the curve is known where it was seen.
        yield (
            None,
            f"nobody has reached the {which} plateau of {names[k]}: its change of "
            f"{changes[k]:.3g}{known} is a guess beyond the scores that were seen.",
        )


# Change against the disease's direction is told where chance would hardly give it. A choice.
_AGAINST = 3.0


def prediction_warnings(personal: PersonalModel, timeline: Timeline) -> Iterator[str]:
    """What to know of predictions: where the course of the disease adds nothing to them."""
    if np.sum(timeline.n_visits_of_subject > 1) < LEAST_JUDGES:
        return
    if not personal.shrinkage.any():
        yield (
            "the course adds nothing here: people left out are predicted as well from their own "
            "earlier visits alone, so that predictions leave the course out."
        )
    elif not personal.shrinkage[1:].any():
        yield (
            "the change along the course adds nothing here: people left out are predicted as well "
            "without it, so that predictions use the stage but foretell no further change."
        )


def direction_warning(lines: Lines, others: BoolArray) -> str | None:
    """Say where people move against the disease's direction, which positive speeds cannot.

    Parameters
    ----------
    lines : Lines
        Through the visits of the training subjects; the first series is the score.
    others : (n_subjects,) bool
        Who is not a control.
    """
    slopes, power = lines.slopes[others, 0], lines.power[others, 0]
    moved = power > 0
    if np.sum(moved) < LEAST_JUDGES:
        return None
    weighed = (power * slopes)[moved]
    z_value = float(np.sum(weighed) / max(float(np.sqrt(np.sum(weighed**2))), 1e-300))
    if z_value > -_AGAINST:
        return None
    return (
        "people move against the disease's direction: over time their scores fall "
        f"(z = {z_value:.1f}), though every speed is positive by definition. The order of stages "
        "comes from differences between people here; see bd.change for each person, and doubt "
        "speeds and years."
    )
