"""Maps of groups against plain loops over people and vertices."""

import numpy as np
import pandas as pd
import pytest

import braindive as bd


@pytest.fixture(scope="module")
def cohort():
    random = np.random.default_rng(3)
    subjects = np.repeat(np.arange(9), [1, 2, 3, 4, 2, 1, 3, 2, 2])
    values = random.normal(size=(len(subjects), 5))
    values[random.random(values.shape) < 0.2] = np.nan
    values[subjects < 4, 4] = np.nan  # nobody of the first group was measured there
    table = pd.DataFrame({"diagnosis": np.where(subjects < 4, "AD", "CN"), "note": "n/a"})
    order = random.permutation(len(subjects))
    return bd.Cohort(
        values[order],
        subjects=subjects[order],
        times=random.uniform(0, 4, len(subjects)),
        controls=(subjects >= 4)[order],
        table=table.iloc[order].reset_index(drop=True),
    )


def groups_of(cohort):
    return {name: cohort.table["diagnosis"].to_numpy() == name for name in ("AD", "CN")}


def test_a_mean_counts_every_person_once(cohort):
    maps = bd.group_maps(cohort)
    for name, member in groups_of(cohort).items():
        for vertex in range(5):
            means = []
            for subject in np.unique(cohort.subjects[member]):
                own = cohort.values[member & (cohort.subjects == subject), vertex]
                if np.isfinite(own).any():
                    means.append(np.nanmean(own))
            expected = np.mean(means) if means else np.nan
            assert maps.loc[name, vertex] == pytest.approx(expected, nan_ok=True)


def test_a_slope_is_that_of_least_squares_with_a_level_for_each_person(cohort):
    maps = bd.group_maps(cohort, show="slope")
    for name, member in groups_of(cohort).items():
        for vertex in range(5):
            seen = member & np.isfinite(cohort.values[:, vertex])
            if not seen.any():
                assert np.isnan(maps.loc[name, vertex])
                continue
            people = pd.get_dummies(cohort.subjects[seen]).to_numpy(float)
            design = np.column_stack([cohort.times[seen], people])
            found, *_ = np.linalg.lstsq(design, cohort.values[seen, vertex])
            assert maps.loc[name, vertex] == pytest.approx(found[0])


def test_differences_are_taken_from_the_controls_unless_another_group_is_named(cohort):
    means = bd.group_maps(cohort)
    pd.testing.assert_frame_equal(
        bd.group_maps(cohort, show="difference"), means.loc[["AD"]] - means.loc["CN"]
    )
    other = bd.group_maps(cohort, show="difference", reference="AD")
    pd.testing.assert_frame_equal(other, means.loc[["CN"]] - means.loc["AD"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "dx"}, "no column 'dx'"),
        ({"by": "note"}, "no value"),
        ({"show": "sum"}, "mean, difference, slope"),
        ({"show": "difference", "reference": "MCI"}, "the groups are AD, CN"),
    ],
)
def test_what_cannot_be_drawn_is_named(cohort, options, message):
    with pytest.raises(bd.ParameterError, match=message):
        bd.group_maps(cohort, **options)
