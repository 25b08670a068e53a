"""Small cohorts, a tiny mesh and a seeded generator that all tests share."""

import os
import shutil
import signal

import numpy as np
import pytest
from scipy import sparse

import braindive as bd

NO_BROWSER = "no chromium and chromedriver on this machine"


def find_browser():
    """Paths of Chromium and of its driver, or None where one of them is missing."""
    paths = shutil.which("chromium"), shutil.which("chromedriver")
    return None if None in paths else paths


def pytest_configure():
    """Prepare what processes inherit: those of pytest-xdist, and those that tests start.

    Each computes products of matrices in one thread, since there is a process for each core.
    Ctrl-C reaches commands in a run in the background too: shells let what runs there ignore
    SIGINT.
    """
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Begin with the files that take long, so that no process waits for another at the end.

    Tests of a file run in one process, which makes its fixtures once (``--dist=loadfile``).
    """

    def file_of(item):
        return item.nodeid.partition("::")[0]

    def takes_long(item):
        fixtures = getattr(item, "fixturenames", ())
        return item.get_closest_marker("slow") or {"browser", "two_workers"} & set(fixtures)

    long_files = {file_of(item) for item in items if takes_long(item)}
    items.sort(key=lambda item: file_of(item) not in long_files)


def pytest_runtest_setup(item):
    """Where there is no browser, its tests are not run; on a server that is an error."""
    if "browser" in getattr(item, "fixturenames", ()) and find_browser() is None:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(f"{NO_BROWSER}, and CI is set: install them", pytrace=False)
        pytest.skip(NO_BROWSER)


def pytest_terminal_summary(terminalreporter):
    """Say in the summary if reports were not opened in a browser."""
    skipped = terminalreporter.stats.get("skipped", [])
    n_tests = sum(NO_BROWSER in str(report.longrepr) for report in skipped)
    if n_tests:
        terminalreporter.section("browser tests were NOT run", red=True)
        terminalreporter.line(f"{n_tests} browser tests were NOT run: {NO_BROWSER}", red=True)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def mesh_graph():
    """Nine vertices in three rows of three, squares cut into triangles: 16 edges."""
    edges = []
    for row in range(3):
        for column in range(3):
            here = 3 * row + column
            if column < 2:
                edges.append((here, here + 1))
            if row < 2:
                edges.append((here, here + 3))
            if row < 2 and column < 2:
                edges.append((here, here + 4))
    first, second = np.array(edges).T
    upper = sparse.coo_array((np.ones(len(edges)), (first, second)), shape=(9, 9))
    return sparse.csr_array(upper + upper.T)


@pytest.fixture(scope="session")
def simulation():
    """40 subjects x 4 visits, 150 vertices in three clusters, with controls."""
    return bd.simulate_cohort(
        n_subjects=40, n_vertices=150, noise=0.6, control_share=0.3, random_state=1
    )


@pytest.fixture(scope="session")
def cohort(simulation):
    return simulation.cohort


@pytest.fixture(scope="session")
def gappy_cohort(cohort):
    """The same cohort with a fifth of the measurements missing."""
    holes = np.random.default_rng(5).random(cohort.values.shape) < 0.2
    values = np.where(holes, np.nan, cohort.values)
    return bd.Cohort(values, subjects=cohort.subjects, times=cohort.times, controls=cohort.controls)


@pytest.fixture(scope="session")
def model(cohort):
    return bd.DIVE(n_clusters=3, random_state=0).fit(cohort)


@pytest.fixture(scope="session")
def clear_cohort():
    """Two clusters that nobody could mistake."""
    return bd.simulate_cohort(
        n_subjects=40,
        n_vertices=60,
        midpoints=(-10, 12),
        noise=0.3,
        midpoint_variation=1.0,
        control_share=0.3,
        random_state=0,
    ).cohort


@pytest.fixture(scope="module")
def two_workers():
    """Client of a Dask cluster of two processes.

    Of one file: a cluster starts in a second or two, and one that only waits for more to do takes
    a tenth of a core from other tests.
    """
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def tiny():
    """Arguments of a valid cohort of 3 subjects x 4 visits and 5 vertices, to be spoilt."""
    values = np.random.default_rng(2).normal(size=(12, 5))
    return {
        "values": values,
        "subjects": np.repeat(["a", "b", "c"], 4),
        "times": np.tile(np.arange(4.0), 3),
    }
