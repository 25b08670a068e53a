"""Scans that were not measured, or hold one value everywhere, are never passed over in silence."""

import numpy as np
import pytest

import braindive as bd
from braindive.cohort.flat_scans import find_flat_scans
from braindive.errors import DataWarning
from braindive.space import Hemisphere


@pytest.fixture(scope="module")
def surface():
    """Two hemispheres that are strips of triangles, 600 vertices each."""
    points = np.array([(i // 2, i % 2, 0.0) for i in range(600)])
    faces = np.array([(i, i + 1, i + 2) for i in range(598)])
    return bd.Surface(
        "strips", (Hemisphere("left", points, faces), Hemisphere("right", points, faces))
    )


@pytest.fixture
def parts(surface):
    cohort = bd.simulate_cohort(
        24, 3, space=surface, noise=0.3, control_share=0.4, random_state=0
    ).cohort
    return cohort.values.copy(), {
        "subjects": cohort.subjects,
        "times": cohort.times,
        "controls": cohort.controls,
        "space": surface,
    }


def test_a_hemisphere_without_numbers_or_of_one_value_is_found(parts):
    values, rest = parts
    values[4, :600] = np.nan
    values[7, 600:] = 0.0
    values[9, :] = 2.5
    values[11, :599] = np.nan  # one number is left
    found = find_flat_scans(bd.Cohort(values, **rest))
    assert [(scan.row, scan.part, scan.value) for scan in found[:2]] == [
        (4, "left hemisphere", None),
        (9, "left hemisphere", 2.5),
    ]
    assert [(scan.row, scan.part) for scan in found[2:]] == [
        (7, "right hemisphere"),
        (9, "right hemisphere"),
    ]


def test_nothing_is_found_in_good_scans(parts):
    values, rest = parts
    values[:, :300] = 0.0  # a medial wall
    assert find_flat_scans(bd.Cohort(values, **rest)) == []


def test_a_few_equal_regions_are_not_a_failed_scan():
    values = np.array([[1.0, 1.0], [2.0, 1.0], [1.0, 3.0], [4.0, 2.0]])
    assert find_flat_scans(bd.Cohort(values, subjects=list("aabb"), times=[0, 1, 0, 1])) == []


def test_the_check_up_names_the_scans(parts):
    values, rest = parts
    values[4, :600] = np.nan
    values[7, 600:] = 0.0
    found = [f for f in bd.inspect_cohort(bd.Cohort(values, **rest)) if f.level == "warning"]
    by_text = {finding.what: finding.where for finding in found}
    assert by_text["1 scan has no measurement in the left hemisphere."] == "sub-01 at 1"
    assert by_text["1 scan has the same value everywhere in the right hemisphere."] == "sub-02 at 1"


def test_a_fit_warns_of_them_and_keeps_the_warning(parts):
    values, rest = parts
    values[4, :600] = np.nan
    model = bd.DIVE(2, n_init=1, max_iter=3, people="alike", personal=False, random_state=0)
    with pytest.warns(bd.BraindiveWarning) as caught:
        model.fit(bd.Cohort(values, **rest))
    said = next(w for w in caught if "left hemisphere" in str(w.message))
    assert said.category is DataWarning
    assert "sub-01 at 1" in str(said.message)
    assert any("left hemisphere" in text for text in model.warnings_)


def test_scans_are_listed_by_the_share_that_is_missing(parts):
    values, rest = parts
    values[4, :120] = np.nan
    values[8, :360] = np.nan
    finding = next(f for f in bd.inspect_cohort(bd.Cohort(values, **rest)) if "missing" in f.what)
    assert finding.where == "sub-02 at 2: 30%, sub-01 at 1: 10%"


def test_people_with_one_visit_are_named(parts):
    values, rest = parts
    cohort = bd.Cohort(values, **rest)
    kept = np.ones(cohort.n_visits, dtype=bool)
    kept[[1, 2, 7, 8]] = False
    finding = next(
        f for f in bd.inspect_cohort(cohort.select(visits=kept)) if "one visit" in f.what
    )
    assert finding.what == "2 of 24 subjects have one visit."
    assert finding.where == "subjects sub-00, sub-02"


def test_ages_that_are_used_as_time_are_told(parts):
    values, rest = parts
    years = bd.inspect_cohort(bd.Cohort(values, **rest))
    ages = bd.inspect_cohort(bd.Cohort(values, **{**rest, "times": rest["times"] + 61.0}))
    assert not any("ages" in finding.what for finding in years)
    assert any(finding.what == "Times are ages, from 61 to 63 years." for finding in ages)
