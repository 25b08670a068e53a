"""Work on pieces of the subjects: the same whatever the pieces and the threads."""

import numpy as np
import pytest
from joblib import parallel_config
from people_who_differ import make_problem

from braindive.dive.stages import find_stages
from braindive.staging import pieces
from braindive.staging.likelihood import evaluate
from braindive.staging.pieces import search_stages
from braindive.staging.posterior import FINE, integrate, points_at
from braindive.values.threads import in_threads

RANGE = np.array([-4.0, 4.0])


@pytest.mark.parametrize("gaps", [False, True])
def test_search_over_pieces_finds_the_stages_that_one_subject_after_the_other_has(rng, gaps):
    problem = make_problem(rng, gaps=gaps)
    found = search_stages(problem, RANGE)
    np.testing.assert_allclose(found, find_stages(problem, RANGE), rtol=1e-6)


@pytest.mark.parametrize("gaps", [False, True])
def test_neither_pieces_nor_threads_change_what_is_found(rng, gaps, monkeypatch):
    problem = make_problem(rng, gaps=gaps)
    stages = search_stages(problem, RANGE)
    points = points_at(problem, *stages, FINE)
    whole = evaluate(problem, points), integrate(problem, *stages)
    monkeypatch.setattr("braindive.staging.likelihood.NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr(pieces, "NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr(pieces, "_MEANS_AT_ONCE", 1)
    with parallel_config("threading", n_jobs=2):
        np.testing.assert_allclose(search_stages(problem, RANGE), stages, rtol=1e-6)
        apart = evaluate(problem, points), integrate(problem, *stages)
    for name in ("log_likelihoods", "by_curves", "by_within", "by_between", "by_population"):
        one, other = (getattr(at, name) for at in (whole[0], apart[0]))
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(whole[1].weights, apart[1].weights, rtol=1e-9, atol=1e-12)


def test_threads_do_about_overflow_what_the_caller_does():
    with parallel_config("threading", n_jobs=2), np.errstate(over="raise"):
        with pytest.raises(FloatingPointError):
            in_threads(lambda part: np.exp(np.full(3, 1e4)), 4, 1)
        with np.errstate(over="ignore"):
            assert len(in_threads(lambda part: np.exp(np.full(3, 1e4)), 4, 1)) == 4
