"""Splits by subject."""

import numpy as np
import pandas as pd
import pytest

import braindive as bd
from braindive.evaluation.folds import split_subjects


def make_cohort(n_subjects, diagnosis=None, controls=None):
    subjects = np.repeat([f"s{i:02d}" for i in range(n_subjects)], 2)
    table = None
    if diagnosis is not None:
        table = pd.DataFrame({"diagnosis": np.repeat(diagnosis, 2)})
    return bd.Cohort(
        np.random.default_rng(0).normal(size=(2 * n_subjects, 3)),
        subjects=subjects,
        times=np.tile([0.0, 1.0], n_subjects),
        controls=None if controls is None else np.repeat(controls, 2),
        table=table,
    )


def test_every_subject_is_in_one_fold():
    cohort = make_cohort(17)
    folds = split_subjects(cohort, 5, random_state=0)
    assert sorted(np.concatenate(folds)) == list(cohort.subject_ids)
    assert {len(fold) for fold in folds} == {3, 4}


def test_folds_have_their_share_of_every_diagnosis():
    diagnosis = ["CN"] * 10 + ["AD"] * 20
    cohort = make_cohort(30, diagnosis)
    patients = set(cohort.subject_ids[10:])
    for fold in split_subjects(cohort, 5, random_state=0):
        assert len(patients & set(fold)) == 4


def test_a_rare_class_is_reported_with_its_count():
    cohort = make_cohort(12, ["CN"] * 9 + ["AD"] * 3)
    with pytest.warns(bd.DataWarning, match=r"'AD' \(3\)"):
        split_subjects(cohort, 5, random_state=0)


def test_training_without_any_control_is_refused():
    cohort = make_cohort(8, controls=[True] + [False] * 7)
    with (
        pytest.warns(bd.DataWarning, match="control"),
        pytest.raises(bd.CohortError, match="all 1 control subjects"),
    ):
        split_subjects(cohort, 2, random_state=0)


def test_too_few_subjects_for_the_folds_are_refused_with_a_number_that_works():
    with pytest.raises(bd.CohortError, match="at most 3 folds"):
        split_subjects(make_cohort(10), 5, smallest=3)


def test_one_fold_is_refused():
    with pytest.raises(bd.ParameterError, match="at least 2"):
        split_subjects(make_cohort(10), 1)
