"""What a cohort keeps, selects and refuses."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import braindive as bd
from braindive.values.backends import open_products


def spoilt(tiny, **changes):
    arguments = {**tiny, **changes}
    return bd.Cohort(arguments.pop("values"), **arguments)


def test_sizes_and_ids(tiny):
    cohort = spoilt(tiny)
    assert (cohort.n_subjects, cohort.n_visits, cohort.n_vertices) == (3, 12, 5)
    assert list(cohort.subject_ids) == ["a", "b", "c"]
    assert repr(cohort) == "Cohort(3 subjects, 12 visits, 5 vertices)"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_are_kept_without_a_copy_and_read_only(tiny, dtype):
    values = tiny["values"].astype(dtype)
    cohort = spoilt(tiny, values=values)
    assert np.shares_memory(cohort.values, values)
    assert not cohort.values.flags.writeable
    assert values.flags.writeable


def test_whole_numbers_become_floats(tiny):
    cohort = spoilt(tiny, values=np.arange(60, dtype="int16").reshape(12, 5))
    assert cohort.values.dtype == np.float32


@pytest.mark.parametrize("attribute", ["subjects", "times", "values"])
def test_a_cohort_cannot_be_changed(tiny, attribute):
    with pytest.raises(ValueError, match="read-only"):
        getattr(spoilt(tiny), attribute)[0] = 1
    with pytest.raises(AttributeError):
        setattr(spoilt(tiny), attribute, None)


def test_canonical_order_sorts_by_subject_then_time_whatever_the_input(tiny, rng):
    shuffle = rng.permutation(12)
    cohort = spoilt(tiny, **{name: array[shuffle] for name, array in tiny.items()})
    order = cohort.canonical_order
    np.testing.assert_array_equal(cohort.subjects[order], tiny["subjects"])
    np.testing.assert_array_equal(cohort.times[order], tiny["times"])
    np.testing.assert_array_equal(cohort.values[order], tiny["values"])


def test_ids_of_any_hashable_kind_are_accepted(tiny):
    cohort = spoilt(tiny, subjects=np.repeat([7, 30, 200], 4))
    assert list(cohort.subject_ids) == [7, 30, 200]
    mixed = [1] * 4 + ["x"] * 4 + [(2, "y")] * 4
    assert spoilt(tiny, subjects=mixed).n_subjects == 3


def test_select_subjects_keeps_their_visits(tiny):
    part = spoilt(tiny).select(subjects=["c", "a"])
    assert list(part.subject_ids) == ["a", "c"]
    np.testing.assert_array_equal(part.values, tiny["values"][[0, 1, 2, 3, 8, 9, 10, 11]])


def test_select_visits_by_mask_and_by_index_agree(tiny):
    cohort = spoilt(tiny, controls=np.arange(12) % 2 == 0)
    mask = tiny["times"] > 1
    by_mask, by_index = cohort.select(visits=mask), cohort.select(visits=np.flatnonzero(mask))
    np.testing.assert_array_equal(by_mask.values, by_index.values)
    np.testing.assert_array_equal(by_mask.controls, cohort.controls[mask])


def test_selections_of_selections_refer_to_the_right_rows(tiny):
    part = spoilt(tiny).select(subjects=["b", "c"]).later_visits(2).select(subjects=["c"])
    np.testing.assert_array_equal(part.values, tiny["values"][10:])


def test_a_selection_gives_the_products_of_its_own_rows(tiny, rng):
    part = spoilt(tiny).select(subjects=["b"])
    curves = rng.normal(size=(4, 2))
    products = open_products(part.stored, order=part.canonical_rows, missing=part.has_missing)
    unit = products.unit
    standard = (tiny["values"][4:8] - unit.offset) / unit.scale
    expected = ((standard[:, :, None] - curves[:, None, :]) ** 2).sum(axis=0)
    np.testing.assert_allclose(products.distances(curves), expected, rtol=1e-9)


def test_first_and_later_visits_split_every_subject_by_time(tiny, rng):
    shuffle = rng.permutation(12)
    cohort = spoilt(tiny, **{name: array[shuffle] for name, array in tiny.items()})
    first, later = cohort.first_visits(1), cohort.later_visits(1)
    assert set(first.times) == {0.0}
    assert sorted(later.times) == sorted(np.tile([1.0, 2.0, 3.0], 3))
    assert cohort.later_visits(3).n_visits == 3


def test_selecting_nothing_or_nobody_is_an_error(tiny):
    cohort = spoilt(tiny)
    with pytest.raises(bd.CohortError, match=r"no such subject in the cohort: nobody"):
        cohort.select(subjects=["a", "nobody"])
    with pytest.raises(bd.CohortError, match=r"holds no visit; select at least one"):
        cohort.select(visits=np.zeros(12, dtype=bool))
    with pytest.raises(bd.CohortError, match=r"one entry for each of the 12 visits"):
        cohort.select(visits=np.ones(3, dtype=bool))


def test_table_follows_a_selection(tiny):
    table = pd.DataFrame({"score": np.arange(12)}, index=np.arange(100, 112))
    part = spoilt(tiny, table=table).select(subjects=["b"])
    assert list(part.table["score"]) == [4, 5, 6, 7]


def test_graph_is_kept_with_entries_of_one_and_no_diagonal(tiny):
    weights = np.array(np.diag([3.0] * 5) + np.diag([0.5] * 4, 1) + np.diag([0.5] * 4, -1))
    graph = sparse.csr_array(weights)
    cohort = spoilt(tiny, graph=graph)
    expected = np.diag([1.0] * 4, 1) + np.diag([1.0] * 4, -1)
    np.testing.assert_array_equal(cohort.graph.toarray(), expected)
    np.testing.assert_array_equal(graph.toarray(), weights)


def test_space_gives_the_graph_and_has_to_fit_the_values(tiny):
    space = bd.load_space("fsaverage5-left")
    values = np.zeros((12, space.n_vertices), dtype="float32")
    cohort = spoilt(tiny, values=values, space=space)
    assert cohort.graph.shape == (10_242, 10_242)
    with pytest.raises(bd.CohortError, match=r"5 vertices .* has 10242; use the space"):
        spoilt(tiny, space=space)


def changed(array, where, value):
    array = array.copy()
    array[where] = value
    return array


def lopsided():
    graph = np.zeros((5, 5))
    graph[0, 1] = 1
    return graph


BAD_INPUTS = {
    "values with one dimension": (
        lambda t: {"values": t["values"][0]},
        r"values have 1 dimension\(s\); they need two, \(n_visits, n_vertices\)",
    ),
    "values with ragged rows": (
        lambda t: {"values": [[1.0, 2.0], [3.0]]},
        r"values are not a table of numbers.*same number of vertices",
    ),
    "values that are no numbers": (
        lambda t: {"values": t["values"].astype(str)},
        r"values are of type <U.*have to be numbers",
    ),
    "empty cohort": (
        lambda t: {"values": np.empty((0, 5)), "subjects": [], "times": []},
        r"the cohort is empty: values have shape \(0, 5\)",
    ),
    "no vertex": (
        lambda t: {"values": np.empty((12, 0))},
        r"the cohort is empty: values have shape \(12, 0\)",
    ),
    "too few subjects": (
        lambda t: {"subjects": t["subjects"][:-1]},
        r"subjects has 11 entries, but values have 12 rows; give one for each visit",
    ),
    "one string for subjects": (
        lambda t: {"subjects": "abcabcabcabc"},
        r"subjects is one string; give one id for each visit",
    ),
    "visit without subject": (
        lambda t: {"subjects": [None, *t["subjects"][1:]]},
        r"visits without a subject id: row 1",
    ),
    "too few times": (
        lambda t: {"times": t["times"][:-2]},
        r"times has 10 entries, but values have 12 rows",
    ),
    "times in words": (
        lambda t: {"times": ["baseline"] * 12},
        r"times must be a list of numbers \(years\)",
    ),
    "one time in words": (
        lambda t: {"times": [0, 1, 2, "m36", *t["times"][4:]]},
        r"times must be .*numbers \(years\)",
    ),
    "one time object in words": (
        lambda t: {"times": np.array([0, 1, 2, "m36", *t["times"][4:]], dtype=object)},
        r"times must be numbers \(years\); not so in row 4, for example 'm36'",
    ),
    "times with a dimension too many": (
        lambda t: {"times": t["times"][:, None]},
        r"times must be a list of numbers .* shape \(12, 1\)",
    ),
    "missing time": (
        lambda t: {"times": changed(t["times"], 3, np.nan)},
        r"times are missing or infinite in row 4; drop those visits",
    ),
    "two visits at the same time": (
        lambda t: {"times": changed(t["times"], 6, 1.0)},
        r"two visits at the same time: b at 1 \(rows 6, 7\); drop or average one",
    ),
    "infinite value": (
        lambda t: {"values": changed(t["values"], (5, 2), np.inf)},
        r"infinite at the visit of subject 'b' at time 1 \(row 6\), vertices 2; use NaN",
    ),
    "infinite values of both signs": (
        lambda t: {"values": changed(t["values"], (5, slice(1, 3)), [np.inf, -np.inf])},
        r"subject 'b' at time 1 \(row 6\), vertices 1, 2; use NaN",
    ),
    "visit without any measurement": (
        lambda t: {"values": changed(t["values"], 9, np.nan)},
        r"1 visit has no measurement at all: 'c' at 1; drop it",
    ),
    "too few controls": (
        lambda t: {"controls": [True] * 4},
        r"controls has 4 entries, but values have 12 rows",
    ),
    "one value for controls": (
        lambda t: {"controls": True},
        r"controls must be a list",
    ),
    "controls that are not yes or no": (
        lambda t: {"controls": np.arange(12)},
        r"controls must be True or False for each visit",
    ),
    "table of another length": (
        lambda t: {"table": pd.DataFrame({"x": [1, 2]})},
        r"table has 2 entries, but values have 12 rows",
    ),
    "table that is no DataFrame": (
        lambda t: {"table": {"x": [1] * 12}},
        r"table must be a pandas DataFrame; got dict",
    ),
    "graph that is not square": (
        lambda t: {"graph": np.ones((5, 4))},
        r"graph has shape \(5, 4\); an adjacency matrix is square",
    ),
    "graph of another size": (
        lambda t: {"graph": sparse.eye_array(7)},
        r"graph has 7 vertices, but values have 5 \(columns\)",
    ),
    "graph that is not symmetric": (
        lambda t: {"graph": lopsided()},
        r"graph is not symmetric; use graph \+ graph.T",
    ),
    "graph with negative entries": (
        lambda t: {"graph": -np.ones((5, 5))},
        r"graph has negative or non-finite entries; an adjacency has 0 and 1",
    ),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_bad_input_is_refused_with_what_is_wrong_and_what_to_do(tiny, name):
    spoil, message = BAD_INPUTS[name]
    with pytest.raises(bd.CohortError, match=message):
        spoilt(tiny, **spoil(tiny))


def test_every_error_is_a_braindive_error():
    for error in (bd.CohortError, bd.ParameterError, bd.NotFittedError):
        assert issubclass(error, bd.BraindiveError)
