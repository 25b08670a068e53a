"""Nothing that a call does to the process stays after it."""

import os
import subprocess
import sys

STATE = """
import os, signal, sys, warnings
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
import braindive as bd

def state():
    found = [(each["internal_api"], each["num_threads"]) for each in threadpool_info()]
    return (sorted(found), np.geterr(), signal.getsignal(signal.SIGINT), warnings.filters[:],
            os.getcwd(), np.random.get_state()[1][0])

cohort = bd.simulate_cohort(n_subjects=10, n_visits=2, n_vertices=40, random_state=0).cohort
options = dict(n_clusters=2, n_init=1, people="alike", personal=False, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", bd.BraindiveWarning)
    import joblib, scipy.linalg
    with threadpool_limits(limits=2):
        before = state()
        with joblib.parallel_config("threading", n_jobs=2):
            model = bd.DIVE(**options).fit(cohort)
            bd.bootstrap(model, cohort, n=2, n_jobs=2)
        assert state() == before, (state(), before)
"""


def test_fits_in_threads_leave_the_process_as_it_was():
    done = subprocess.run([sys.executable, "-c", STATE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


OVERLAP = """
import threading
import numpy, scipy.linalg
from threadpoolctl import threadpool_info
from braindive.values.walking import one_thread_per_product

def threads():
    return sorted((each["filepath"], each["num_threads"]) for each in threadpool_info())

class Fit(threading.Thread):
    def __init__(self):
        super().__init__()
        self.begun, self.end = threading.Event(), threading.Event()
        self.start()
        self.begun.wait()

    def run(self):
        with one_thread_per_product(), one_thread_per_product():
            self.seen = threads()
            self.begun.set()
            self.end.wait()

    def finish(self):
        self.end.set()
        self.join()

before = threads()
assert all(number == 2 for _, number in before), before
for order in ((0, 1), (1, 0)):
    fits = [Fit(), Fit()]
    assert all(number == 1 for fit in fits for _, number in fit.seen)
    for which in order:
        fits[which].finish()
    assert threads() == before, (order, threads())
"""


def test_threads_that_overlap_leave_blas_as_it_was():
    """Whichever ends first: each for itself would keep the other's limit for ever."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", OVERLAP], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
