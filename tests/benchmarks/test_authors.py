"""The comparison with the published code, as far as it goes without that code."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def authors(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import authors

    return authors


@pytest.fixture
def arrays(authors, rng):
    """Twelve people and 60 vertices on two falling curves, in the published generator's form."""
    labels = np.repeat([0, 1], 30)
    curves = np.array([[5.0, -1.6, -1.0, -5.0], [5.0, -1.6, 1.0, -5.0]])[labels]
    subjects = np.repeat(np.arange(12.0), 4)
    ages = np.tile(np.arange(4.0), 12) * 0.1 + np.repeat(rng.normal(size=12), 4)
    speeds = rng.uniform(0.5, 1.5, 12)
    scores = speeds[subjects.astype(int)] * ages
    return {
        "values": authors.sigmoids(curves, scores) + 0.5 * rng.standard_normal((48, 60)),
        "diagnoses": np.where(scores < 0, 1, 3),
        "subjects": subjects,
        "ages": ages,
        "labels": labels,
        "vertex_curves": curves,
        "scores": scores,
        "speeds": speeds,
    }


def exact_estimates(arrays, swap=False, scale=1.0, origin=0.0):
    """The truth as estimates, with clusters in another order and scores in another unit."""
    order = [1, 0] if swap else [0, 1]
    a, b, c, d = arrays["vertex_curves"][[0, 30]][order].T
    curves = np.stack([a, b / scale, origin + scale * c, d], axis=1)
    return {
        "responsibilities": np.eye(2)[arrays["labels"]][:, order],
        "curves": curves,
        "scores": origin + scale * arrays["scores"],
        "speeds": scale * arrays["speeds"],
        "seconds": np.array(2.0),
        "memory": np.array(3e6),
    }


@pytest.mark.parametrize("change", [{}, {"swap": True}, {"scale": 3.0, "origin": 7.0}])
def test_the_truth_is_recovered_in_any_order_and_unit(authors, arrays, change):
    found = authors.recovery(arrays, exact_estimates(arrays, **change))
    assert found.agreement == pytest.approx(1)
    assert found.pearson == pytest.approx(1)
    assert found.spearman == pytest.approx(1)
    assert found.speeds == pytest.approx(1)
    assert found.curve_error == pytest.approx(0, abs=1e-9)


def test_a_wrong_curve_shows_in_the_curve_error_alone(authors, arrays):
    estimates = exact_estimates(arrays)
    estimates["curves"][0, 3] += 0.5
    found = authors.recovery(arrays, estimates)
    # Off by 0.5 in one cluster of two, beside an amplitude of 5.
    assert found.curve_error == pytest.approx(0.1 / np.sqrt(2))
    assert found.agreement == pytest.approx(1)


def test_braindive_takes_the_arrays_of_the_published_generator(authors, arrays, tmp_path):
    np.savez(tmp_path / "arrays.npz", **arrays)
    for ours in authors.OURS.values():
        estimates = authors.fit_ours(tmp_path / "arrays.npz", 2, ours)
        found = authors.recovery(arrays, estimates)
        assert found.agreement > 0.99
        assert found.spearman > 0.9
        assert found.curve_error < 0.2
        assert found.seconds > 0


def test_the_section_has_a_row_for_every_cohort_and_code(authors, arrays):
    row = authors.recovery(arrays, exact_estimates(arrays))
    results = {s: {"authors' code": row, "braindive": row} for s in authors.SETTINGS[:2]}
    text = authors.section(results, "abc1234 of 2018-02-20", 0.5)
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 4
    assert "| 1.000 | 1.000 | 1.000 | 1.000 | 0.0% | 2 s | 3 MB |" in rows[0]
    assert "commit abc1234 of 2018-02-20" in text
    assert "DIVE(n_clusters, random_state=0)" in text


def test_a_folder_that_is_not_the_published_code_is_refused_in_one_sentence(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "authors.py"), "--code", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "is not the published DIVE code, for it has no synth.py: git clone https" in last
    assert "Traceback" not in done.stderr


def test_marked_parts_of_a_page_are_found_and_replaced(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import tables

    page = "above\n\n" + tables.between_marks("authors", "old") + "\n\nbelow\n"
    assert tables.marked(page, "authors") == "old"
    assert tables.marked(page, "leaspy") is None
    assert tables.put_marked(page, "authors", "new") == page.replace("old", "new")
    with pytest.raises(ValueError, match="no marks <!-- leaspy -->"):
        tables.put_marked(page, "leaspy", "new")


def test_the_section_on_leaspy_scales_one_iteration(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import comparison

    text = comparison.section({10: (0.5, 0.08)}, "2.1.0", 0.5)
    assert "| 10 features | 500 ms | 80 ms | 800 s |" in text
    assert "leaspy 2.1.0" in text
