import numpy as np
import pandas as pd

from braindive.evaluation.group_words import groups_in_words, short_table

ESTIMATES = ("estimate", "low", "high")


def table_of(rows, groups, **attrs):
    """A table as `compare_groups` gives it, with other numbers for each parameter."""
    table = pd.DataFrame(rows, index=["shift", "speed", "baseline score"])
    for group in groups:
        table[f"n_{group}"], table[f"mean_{group}"], table[f"sd_{group}"] = 7, 1.5, 0.25
    table["p_corrected"] = np.minimum(2 * table["p_value"], 1)
    table.attrs = {"by": "sex", "groups": groups, "continuous": not groups} | attrs
    table.attrs.setdefault("shift_is_baseline", False)
    return table


def rows_of(shift, speed, baseline, suffix=""):
    names = [f"{name}{suffix}" for name in ESTIMATES]
    return [dict(zip(names, row, strict=True)) for row in (shift, speed, baseline)]


def test_two_groups_are_a_sentence_for_each_parameter_with_its_unit():
    rows = rows_of((9.0, 1.0, 17.0), (0.92, 0.74, 1.15), (2.0, 1.0, 3.0))
    for row, p_value in zip(rows, (0.03, 0.4, 0.0), strict=True):
        row |= {"p_value": p_value, "test": "marginal t"}
    table = table_of(rows, ["f", "m"])
    baseline, shift, speed = groups_in_words(table)
    assert baseline == (
        "Score at the first visit, sex m against f: 2.0 years ahead (95 % 1.0 to 3.0, p < .001); "
        "corrected, p < .001."
    )
    assert shift.startswith("Score at time 0 of the table, sex m against f: 9.0 years ahead")
    assert "8 % slower (95 % from 26 % slower to 15 % faster, p = .400)" in speed
    table.attrs["shift_is_baseline"] = True
    assert groups_in_words(table, in_years=False) == [
        baseline.replace("years", "units of the score"),
        speed,
    ]
    shown = short_table(table)
    assert list(shown.columns) == ["Score at the first visit", "Speed"]
    assert shown.loc["unit"].tolist() == ["years", "score per year"]
    assert shown.loc["p_value"].tolist() == ["p < .001", "p = .400"]
    assert shown.loc["sex m: mean ± sd (people)", "Speed"] == "1.5 ± 0.25 (7)"


def test_more_groups_are_told_against_the_first_and_tested_together():
    rows = rows_of((1.0, 0.5, 1.5), (1.1, 1.05, 1.2), (1.0, 0.5, 1.5), "_b")
    more = rows_of((-1.0, -1.5, -0.5), (1.2, 1.1, 1.3), (-1.0, -1.5, -0.5), "_c")
    rows = [
        row | other | {"p_value": 0.02, "test": "F"} for row, other in zip(rows, more, strict=True)
    ]
    speed = groups_in_words(table_of(rows, ["a", "b", "c"]))[2]
    assert speed == (
        "Speed, sex against a: b 10 % faster (95 % 5 to 20), c 20 % faster (95 % 10 to 30); all "
        "together p = .020; corrected, p = .040."
    )


def test_stages_that_were_tested_have_means_or_a_correlation_and_no_estimate():
    row = {"p_value": 0.02, "test": "Mann-Whitney", "rank_effect": -0.31}
    assert groups_in_words(table_of([row] * 3, ["f", "m"]))[2] == (
        "Speed, by sex: mean 1.5 in f, 1.5 in m (Mann-Whitney, p = .020; corrected, p = .040)."
    )
    assert groups_in_words(table_of([row] * 3, []))[2] == (
        "Speed and sex: rho -0.31, p = .020; corrected, p = .040."
    )


def test_speeds_that_do_not_vary_are_not_compared():
    row = {"p_value": np.nan, "test": "none"}
    speed = groups_in_words(table_of([row] * 3, ["f", "m"]))[2]
    assert speed == "Speed: not compared, because it is the same for everybody."
