"""Check and fit give the same advice about vertices that never change."""

import numpy as np
import pytest

import braindive as bd


@pytest.fixture
def cohort():
    return bd.simulate_cohort(12, 3, n_vertices=20, control_share=0.5, random_state=0).cohort


def with_constant(cohort, value):
    values = cohort.values.copy()
    values[:, :7] = value
    parts = {"subjects": cohort.subjects, "times": cohort.times, "controls": cohort.controls}
    return bd.Cohort(values, **parts)


@pytest.mark.parametrize(("value", "option"), [(0.0, "--drop-zeros"), (1.5, "--standardise")])
def test_one_advice_that_names_the_option(cohort, value, option):
    walled = with_constant(cohort, value)
    remedies = [each.remedy for each in bd.inspect_cohort(walled) if "same value" in each.what]
    with pytest.raises(bd.CohortError, match=r"vertices 0, 1, 2, 3, 4 and 2 more") as caught:
        bd.DIVE(2).fit(walled)
    for text in (*remedies, str(caught.value)):
        assert option in text
        assert ("They are 0" in text) == (value == 0)
    assert str(caught.value).endswith(remedies[0].removeprefix("A fit refuses them. "))


@pytest.mark.parametrize("value", [0.0, 1.5])
def test_the_advice_works(cohort, value):
    before = bd.Preprocessing(standardise=value != 0, drop_zeros=value == 0)
    before.fit(with_constant(cohort, value))
    assert np.flatnonzero(~before.keep_).tolist() == list(range(7))


def test_a_part_of_a_cohort_is_looked_at_in_its_own_rows(cohort):
    values = cohort.values.copy()
    first = cohort.subjects == cohort.subject_ids[0]
    values[~first, 3] = 0.0
    whole = bd.Cohort(values, subjects=cohort.subjects, times=cohort.times)
    with pytest.raises(bd.CohortError, match=r"vertices 3 have .* They are 0"):
        bd.DIVE(2).fit(whole.select(subjects=cohort.subject_ids[1:]))


def test_scans_without_the_wall_are_not_odd_beside_scans_in_which_it_is_0(rng):
    values = rng.normal(2.5, 0.3, size=(60, 100))
    values[:, :60] = 0.0
    values[:9, :60] = np.nan
    found = bd.inspect_cohort(
        bd.Cohort(values, subjects=np.arange(60) // 3, times=np.arange(60) % 3)
    )
    told = " ".join(each.what for each in found)
    assert "60 vertices of 100 with the same value" in told
    assert "odd" not in told
    assert "missing" not in told
