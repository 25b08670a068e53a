"""How stages are distributed."""

import numpy as np
from people_who_differ import make_problem
from scipy.stats import norm

from braindive.staging.population import UNKNOWN, StagePrior


def test_density_is_that_of_the_subjects_group_or_of_the_mixture(rng):
    people = make_problem(rng).prior.population
    log_speeds, shifts = rng.normal(size=4), rng.normal(size=4)
    groups = np.array([0, 1, UNKNOWN, UNKNOWN])
    own = np.stack(
        [
            norm(people.log_speed_means[g], people.log_speed_sds[g]).pdf(log_speeds)
            * norm(people.shift_means[g], people.shift_sds[g]).pdf(shifts)
            for g in (0, 1)
        ]
    )
    mixed = people.shares @ own
    expected = np.log(np.array([own[0, 0], own[1, 1], mixed[2], mixed[3]]))
    found = StagePrior(people, groups).log_density(log_speeds, shifts)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    membership = StagePrior(people, groups).membership(log_speeds, shifts)
    np.testing.assert_allclose(membership[:, 2], people.shares * own[:, 2] / mixed[2])
    np.testing.assert_allclose(membership[:, :2], np.eye(2))


def test_spread_is_that_of_all_groups_together(rng):
    people = make_problem(rng).prior.population
    draws = np.concatenate(
        [
            rng.normal(people.shift_means[g], people.shift_sds[g], round(1e5 * people.shares[g]))
            for g in (0, 1)
        ]
    )
    np.testing.assert_allclose(people.spread(), draws.std(), rtol=0.02)
    np.testing.assert_allclose(people.centre(), draws.mean(), atol=0.03)
