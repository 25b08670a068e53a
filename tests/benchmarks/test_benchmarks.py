"""The benchmarks run; how long they take is not tested."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

# Every headline of the page, with the first column of its tables.
TABLES = {
    "A cohort of the size of ADNI": [
        "without spatial field",
        "with estimated spatial field",
        "without spatial field, vertices taken for alike",
        "with estimated spatial field, vertices taken for alike",
        "without spatial field, and how to predict",
        "without spatial field, every vertex's own curve in the EM",
        "4 clusters, without spatial field",
    ],
    "Where the time goes": [
        "mean and spread of every vertex",
        "starts, test of progression and EM on a sample of the vertices",
        "EM on all vertices",
        "marginal fit and standard errors",
        "labels by the curves of the marginal fit",
        "every vertex's own curve",
        "everything else",
        "all",
    ],
    "How time grows": [
        "162 vertices",
        "642 vertices",
        "40 visits",
        "80 visits",
        "2 clusters",
        "3 clusters",
    ],
    "Pooled means against the published sums": ['method="fast"', 'method="exact"'],
    "Beside scikit-learn": [
        "DIVE, without spatial field",
        "DIVE, with spatial field",
        "GaussianMixture, diagonal",
        "KMeans",
    ],
    "The basic simulation of the paper": ["DIVE"],
    "Beside leaspy": ["10 features"],
    "Beside the authors' code": [],
}


def rows_of_section(page, title):
    """First cells of the lines of a section's tables, heads and rules left out."""
    section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("|")]
    return [cell for cell in cells if cell not in ("", "---")]


@pytest.mark.slow
def test_a_quick_run_writes_every_table(tmp_path):
    page = tmp_path / "performance.md"
    # What other scripts have measured is kept.
    page.write_text("<!-- leaspy -->\n| 10 features | 3 s |\n<!-- end of leaspy -->\n")
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--quick", "--write", str(page)]
    subprocess.run(command, check=True, capture_output=True)
    text = page.read_text(encoding="utf-8")
    assert {title: rows_of_section(text, title) for title in TABLES} == TABLES
    assert "nan" not in text


@pytest.mark.filterwarnings("ignore::braindive.BraindiveWarning")
def test_a_part_of_a_fit_is_timed_without_the_parts_inside_of_it(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import braindive as bd
    import parts

    def wait(seconds, inside):
        def call(*given, **more):
            now[0] += seconds
            return inside(*given, **more)

        return call

    # A clock that stands still but for what two of the parts add, one of them inside the other.
    now = [0.0]
    monkeypatch.setattr(parts.time, "perf_counter", lambda: now[0])
    relabel = parts.braindive.answers.relabel
    answer = parts.braindive.results.marginal_answer
    monkeypatch.setattr(parts.braindive.answers, "relabel", wait(5.0, relabel))
    monkeypatch.setattr(parts.braindive.results, "marginal_answer", wait(2.0, answer))
    cohort = bd.simulate_cohort(20, n_vertices=60, noise=0.3, random_state=0).cohort
    with parts.clocks() as seconds:
        bd.DIVE(2, personal=False, random_state=0).fit(cohort)
    found = {name: taken for name, taken in seconds.items() if taken}
    assert found == {
        "marginal fit and standard errors": 2.0,
        "labels by the curves of the marginal fit": 5.0,
    }
    # Afterwards nothing is timed.
    seconds.clear()
    bd.DIVE(2, personal=False, random_state=0).fit(cohort)
    assert not seconds


@pytest.mark.parametrize("subdivisions", [0, 1, 3])
def test_the_mesh_of_the_benchmarks_is_a_closed_sphere(subdivisions, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from cohorts import icosphere

    points, graph = icosphere(subdivisions)
    neighbours = np.diff(graph.indptr)
    assert len(points) == 10 * 4**subdivisions + 2
    assert np.allclose(np.linalg.norm(points, axis=1), 1)
    assert (graph != graph.T).nnz == 0
    # On a closed mesh of triangles, twelve corners have five neighbours and all others six.
    assert np.sum(neighbours == 5) == 12
    assert set(neighbours) <= {5, 6}


@pytest.mark.slow
def test_costs_after_a_fit_are_set_beside_it():
    command = [sys.executable, str(BENCHMARKS / "aftermath.py"), "--subjects", "15", "--many", "20"]
    sizes = ["--vertices", "60", "--few-vertices", "40", "--repeats", "1"]
    done = subprocess.run([*command, *sizes], check=True, capture_output=True, text=True)
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line]
    common = ["fit", "stages and standard errors"]
    assert rows[2:6] == [
        *common,
        "fit that learns how to predict",
        "predict a visit of everybody",
    ]
    assert rows[8:] == common


def test_cohorts_like_brains_are_what_they_say(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from cohorts import beyond

    simulation = beyond(0.9, 0, mislabelled=0.1, n_visits=2)
    cohort, truth = simulation.cohort, simulation.truth
    assert (cohort.n_subjects, cohort.n_vertices, cohort.controls[::2].sum()) == (200, 10_242, 70)
    assert truth.mislabelled.sum() == 7
    assert truth.trajectories.steepness.tolist() == [0.4] * 4
    rest = (cohort.values - truth.vertices.evaluate(truth.scores)).reshape(200, 2, -1)
    # Two visits share the person's map and nothing else.
    assert np.mean(rest[:, 0] * rest[:, 1]) == pytest.approx(0.81, rel=0.03)
    assert np.mean((rest[:, 0] - rest[:, 1]) ** 2) == pytest.approx(2 * 0.45**2, rel=0.03)


def test_the_unlike_cohort_keeps_its_word(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from cohorts import unlike

    drawn = unlike(0, n_controls=12, n_patients=20)
    cohort = drawn.cohort
    counts = np.bincount(cohort.subject_index)
    assert counts.min() >= 1
    assert counts.max() <= 6
    assert 0.01 < np.isnan(cohort.values).mean() < 0.06
    first = np.flatnonzero(np.diff(cohort.subject_index, prepend=-1))
    np.testing.assert_array_equal(cohort.times[first], 0)
    moved = drawn.speeds[cohort.subject_index] * cohort.times
    np.testing.assert_allclose(drawn.scores, moved + drawn.shifts[cohort.subject_index])
    # At its midpoint a vertex has done half of its change, on ramps and on Gompertz curves.
    curves = drawn.curves
    halves = np.diag(curves.evaluate(curves.midpoints[:50])[:, :50])
    np.testing.assert_allclose(halves, curves.amplitudes[:50] / 2)
