import numpy as np
import pandas as pd
import pytest

import braindive as bd


@pytest.fixture(scope="module")
def parts():
    """Arguments of a cohort in which nothing is odd."""
    simulation = bd.simulate_cohort(
        n_subjects=60, n_visits=3, n_vertices=200, control_share=0.4, random_state=0
    )
    cohort = simulation.cohort
    n_regions = cohort.n_vertices
    return {
        "values": cohort.values.copy(),
        "subjects": cohort.subjects,
        "times": 70 + cohort.subject_index % 7 + cohort.times,
        "controls": cohort.controls.copy(),
        "space": bd.Regions(
            "r", [f"r{i}" for i in range(n_regions)], [[i, i + 1] for i in range(n_regions - 1)]
        ),
        "table": cohort.table,
    }


def inspect(parts, **changes):
    given = {**parts, **changes}
    return bd.inspect_cohort(bd.Cohort(given.pop("values"), **given))


def warnings_of(findings):
    return [finding for finding in findings if finding.level == "warning"]


def only_warning(findings):
    (finding,) = warnings_of(findings)
    return finding


def test_nothing_is_odd_in_a_good_cohort(parts):
    assert warnings_of(inspect(parts)) == []


def test_months_are_not_years(parts):
    first, second = warnings_of(inspect(parts, times=12 * parts["times"]))
    assert "largest time is" in first.what
    assert "12 years apart" in second.what
    assert "divide months by 12" in second.remedy


def test_months_since_baseline_are_noticed_by_the_gaps(parts):
    times = 12 * (parts["times"] - 70)
    finding = only_warning(inspect(parts, times=times))
    assert "Are these months?" in finding.remedy


def test_an_outlying_scan_is_named(parts):
    values = parts["values"].copy()
    values[4] += 30
    finding = only_warning(inspect(parts, values=values))
    assert finding.where == f"{parts['subjects'][4]} at {parts['times'][4]:g}"
    assert "odd mean" in finding.what


def test_a_scan_in_another_unit_has_an_odd_spread(parts):
    values = parts["values"].copy()
    values[7] *= 1000
    assert any("odd spread" in finding.what for finding in inspect(parts, values=values))


def test_sites_that_follow_time_are_confounded(parts):
    table = parts["table"].assign(site=np.where(parts["times"] < 74, "old", "new"))
    finding = only_warning(inspect(parts, table=table))
    assert finding.where == "column site"
    assert "between people" in finding.what


def test_scanners_that_change_from_visit_to_visit_are_confounded(parts):
    index = pd.Series(parts["subjects"]).groupby(parts["subjects"]).cumcount()
    table = parts["table"].assign(scanner=np.where(index > 0, "B", "A"))
    finding = only_warning(inspect(parts, table=table))
    assert "within people" in finding.what


def test_sites_at_random_are_not_confounded(parts):
    table = parts["table"].assign(site=np.random.default_rng(0).choice(list("abcde"), 180))
    assert warnings_of(inspect(parts, table=table)) == []


def test_single_visits_are_counted(parts):
    first = np.flatnonzero(np.arange(180) % 3 == 0)
    part = {key: parts[key][first] for key in ("values", "subjects", "times", "controls")}
    finding = only_warning(inspect({**parts, **part, "table": parts["table"].iloc[first]}))
    assert finding.what == "Every subject has one visit."
    some = np.concatenate([first, [1, 2]])
    part = {key: parts[key][some] for key in ("values", "subjects", "times", "controls")}
    findings = inspect({**parts, **part, "table": parts["table"].iloc[some]})
    assert any("98% of the subjects have one visit" in finding.what for finding in findings)


def test_missing_blocks_are_described(parts):
    values = parts["values"].copy()
    values[:, 0] = np.nan
    values[:100, 1] = np.nan
    values[5, :150] = np.nan
    values[:, 3] = 0.0
    text = [finding.what for finding in inspect(parts, values=values)]
    assert "1 vertex of 200 never measured." in text
    assert "1 vertex of 200 measured at less than half of the visits." in text
    assert "1 scan of 180 with less than half of the usual measurements." in text
    assert "1 vertex of 200 with the same value at every visit." in text


def test_patients_who_move_towards_controls_are_odd(parts):
    patients = ~parts["controls"]
    values = parts["values"].copy()
    values[patients] -= 2
    values[patients] += 0.8 * (np.arange(180) % 3)[patients, None]
    findings = warnings_of(inspect(parts, values=values))
    assert any("move the other way over time" in finding.what for finding in findings)


def test_the_sign_of_change_is_told(parts):
    lower = inspect(parts)
    higher = inspect(parts, values=-parts["values"])
    assert any("Patients are lower than controls" in finding.what for finding in lower)
    assert any("Patients are higher than controls" in finding.what for finding in higher)


def test_raw_values_are_told_from_z_scores(parts):
    raw = inspect(parts, values=2.5 + 0.1 * parts["values"])
    assert any("not standardised" in finding.what for finding in raw)
    assert not any("not standardised" in finding.what for finding in inspect(parts))


def test_regions_need_no_neighbours(parts):
    names = [f"r{i}" for i in range(parts["values"].shape[1])]
    assert not warnings_of(inspect(parts, space=bd.Regions("r", names)))


def test_missing_controls_and_neighbours_are_notes(parts):
    findings = inspect(parts, controls=None, space=None)
    assert warnings_of(findings) == []
    text = " ".join(finding.what for finding in findings)
    assert "No visit is marked as a control's." in text
    assert "no neighbours" in text


def test_only_controls_is_a_warning(parts):
    finding = only_warning(inspect(parts, controls=np.ones(180, dtype=bool)))
    assert finding.what == "Every visit is a control's."


@pytest.mark.parametrize(("people", "said"), [(1, "is 1 person"), (9, "are 9 people"), (10, "")])
def test_too_few_people_are_a_warning(people, said):
    cohort = bd.simulate_cohort(people, 3, n_vertices=30, random_state=0).cohort
    told = [each.what for each in bd.inspect_cohort(cohort) if "too few" in each.what]
    assert told == ([f"There {said}: too few."] if said else [])


def test_warnings_come_before_notes(parts):
    levels = [finding.level for finding in inspect(parts, times=12 * parts["times"])]
    assert levels == sorted(levels, reverse=True)
