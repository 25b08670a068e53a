"""Results on disk."""

import json
import os

import pytest

from cache import code_files, count_finished, run_cached

CALLS = []


def square(x):
    CALLS.append(x)
    if x < 0:
        raise ValueError("interrupted")
    return [{"y": x * x}]


def test_interrupted_work_goes_on_where_it_was(tmp_path):
    CALLS.clear()
    with pytest.raises(ValueError, match="interrupted"):
        run_cached(square, [{"x": 1}, {"x": 2}, {"x": -1}], tmp_path)
    rows = run_cached(square, [{"x": 1}, {"x": 2}, {"x": 3}], tmp_path)
    assert rows == [{"x": 1, "y": 1}, {"x": 2, "y": 4}, {"x": 3, "y": 9}]
    assert CALLS == [1, 2, -1, 3]


def test_other_arguments_never_meet_an_old_result(tmp_path):
    CALLS.clear()
    run_cached(square, [{"x": 1}], tmp_path)
    run_cached(square, [{"x": 1.5}], tmp_path)
    assert CALLS == [1, 1.5]


def test_other_code_never_meets_an_old_result(tmp_path, monkeypatch):
    CALLS.clear()
    run_cached(square, [{"x": 1}], tmp_path)
    monkeypatch.setattr("cache._code", lambda: "changed")
    run_cached(square, [{"x": 1}], tmp_path)
    assert CALLS == [1, 1]


def test_results_depend_on_what_computes_them_and_not_on_what_shows_them():
    names = {"/".join(path.parts[-2:]) for path in code_files()}
    assert {"dive/em.py", "braindive/estimator.py", "evidence/experiments.py"} <= names
    assert not {"plotting/style.py", "evidence/figures.py", "evidence/test_cache.py"} & names


def test_finished_tasks_are_counted(tmp_path):
    run_cached(square, [{"x": 1}, {"x": 2}], tmp_path)
    assert count_finished(square, [{"x": 2}, {"x": 3}, {"x": 1}], tmp_path) == 2


def test_what_a_killed_process_left_is_removed_but_not_what_is_being_written(tmp_path):
    old, new = tmp_path / "a.1.part", tmp_path / "b.2.part"
    for path in (old, new):
        path.write_text("[{")
    os.utime(old, (0, 0))
    run_cached(square, [{"x": 1}], tmp_path)
    assert not old.exists()
    assert new.exists()


def test_files_say_what_they_hold_and_no_unfinished_one_is_left(tmp_path):
    run_cached(square, [{"x": 4}], tmp_path)
    (file,) = tmp_path.iterdir()
    content = json.loads(file.read_text())
    assert content == {"function": "square", "task": {"x": 4}, "rows": [{"y": 16}]}
