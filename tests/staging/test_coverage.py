"""Intervals of scores in years cover the truth in the same unit, whoever is staged."""

import numpy as np
import pytest
from people_who_differ import draw, fit

from braindive.staging.curve_uncertainty import unit_of_years
from braindive.staging.marginal_stager import MarginalStager
from braindive.staging.population import groups_of


@pytest.fixture(scope="module")
def staged():
    """Scores in years of patients of six cohorts: estimate, truth, error, own error."""
    found = {"training": [], "new": []}
    for seed in range(6):
        drawn = draw(100 + seed, n_controls=30, n_patients=60)
        new = draw(200 + seed, n_controls=30, n_patients=60)
        # That the optimum is found from any start is shown in test_marginal_fit.py.
        at = fit(drawn, shifts=drawn.first)
        unit = unit_of_years(at.climb.problem, at.climb.evaluation.posterior)
        stager = MarginalStager.of(at, unit)
        usual = drawn.speeds[drawn.patients].mean()
        for name, people in (("training", drawn), ("new", new)):
            # Times of new people in the internal unit of the training.
            timeline = people.timeline
            sums = people.pooled.means * people.pooled.weights
            groups = groups_of(timeline, people.controls)
            placed = stager.place(timeline, sums, people.pooled.weights, groups)
            scores = timeline.scores(placed.speeds, placed.shifts)[timeline.starts]
            own = placed.posterior.standard_errors(timeline)[:, 2]
            rows = np.stack(
                [
                    (scores - unit.centre) / unit.spread,
                    (people.first - people.curves.midpoint.min()) / usual,
                    stager.errors(placed)[:, 2] / unit.spread,
                    own / unit.spread,
                ]
            )
            found[name].append(rows[:, people.patients])
    return {name: np.concatenate(rows, axis=1) for name, rows in found.items()}


@pytest.mark.parametrize("part", ["training", "new"])
def test_intervals_cover_the_truth(staged, part):
    estimate, truth, error, own = staged[part]
    # What is not known of the curves is shared by all of a cohort, so that a mean over six varies.
    assert 0.91 < np.mean(np.abs(estimate - truth) < 1.96 * error) < 0.98
    # Without what is not known of curves and unit they would cover less, half as wide far less.
    widths = error, own, error / 2
    covered = [np.mean(np.abs(estimate - truth) < 1.96 * width) for width in widths]
    assert covered[0] > covered[1] > covered[2]
    assert covered[2] < 0.8
