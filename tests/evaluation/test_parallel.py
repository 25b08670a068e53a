"""Tasks on workers."""

import warnings

import pytest
from joblib import parallel_config

import braindive as bd
from braindive.evaluation.parallel import run_tasks


def slow_start(number):
    if number % 2:
        warnings.warn(f"{number} did not converge", bd.ConvergenceWarning, stacklevel=1)
    return 10 * number


def test_results_come_in_order_and_warnings_are_counted_once():
    with pytest.warns(bd.DataWarning) as caught:
        results = run_tasks(slow_start, [(number,) for number in range(5)])
    assert results == [0, 10, 20, 30, 40]
    assert [str(warning.message) for warning in caught] == ["in 2 of 5 runs: # did not converge"]


def test_any_backend_of_joblib_gives_the_same_results():
    with parallel_config(backend="threading", n_jobs=2):
        assert run_tasks(divmod, [(7, 2), (9, 4), (5, 3)]) == [(3, 1), (2, 1), (1, 2)]
