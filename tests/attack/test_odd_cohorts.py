"""Odd cohorts, settings and tables: a fit, or a sentence; never an error or a warning of others."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

import braindive as bd
from attack.conftest import TIMES

SETTINGS = settings(
    max_examples=12 * TIMES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)

odd_numbers = st.sampled_from(
    [0.0, -0.0, 1e-310, 1e-30, 1e15, 1e30, 1e300, -1e300, np.inf, -np.inf, np.nan]
)
ids = st.one_of(
    st.text(max_size=3), st.integers(-3, 3), st.floats(), st.booleans(), st.none(),
    st.binary(max_size=2), st.tuples(st.integers(0, 1)), st.just(pd.NaT),
    st.dates().map(pd.Timestamp),
)  # fmt: skip
cells = st.one_of(st.none(), st.text(max_size=4), st.floats(), st.integers(), st.booleans())


def as_matrix(values):
    return values.view(np.matrix)  # whose own constructor warns


def as_sparse(values):
    return sparse.csr_array(values.astype(float))


@st.composite
def cohorts(draw):
    """Arguments of a cohort of a few people, with anything wrong with them or nothing."""
    n_subjects = draw(st.integers(1, 8))
    n_visits = draw(st.integers(1, 4))
    n_vertices = draw(st.sampled_from([1, 2, 5, 12, 30]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = n_subjects * n_visits
    stage = rng.normal(size=(rows, 1))
    values = draw(st.sampled_from([1.0, 1e-12, 1e6])) * (
        rng.normal(size=(rows, n_vertices)) * draw(st.sampled_from([0.0, 0.1, 1.0])) + stage
    )
    for _ in range(max(draw(st.integers(-2, 2)), 0)):
        where = (rng.integers(rows), rng.integers(n_vertices))
        if draw(st.booleans()):
            where = (slice(None), where[1]) if draw(st.booleans()) else (where[0], slice(None))
        values[where] = draw(odd_numbers)
    subjects = np.repeat(np.arange(n_subjects), n_visits).astype(object)
    if draw(st.integers(0, 8)) == 0:
        subjects = [draw(ids) for _ in range(rows)]
    times = np.tile(np.arange(n_visits, dtype=float), n_subjects)
    times = times * draw(st.sampled_from([1.0] * 6 + [0.0, 1e-9, 1e4, 1e300]))
    if draw(st.integers(0, 8)) == 0:
        times[rng.integers(rows)] = draw(odd_numbers)
    controls = draw(st.sampled_from([None, "half", "all", "none"]))
    table = None
    if draw(st.booleans()):
        names = draw(st.lists(st.sampled_from(["a", "b", "age", 1, "subject"]), max_size=3))
        table = pd.DataFrame(
            [[draw(cells) for _ in names] for _ in range(rows)], columns=names, dtype=object
        )
    dtype = draw(st.sampled_from(["f8", "f4", "f2", "i4"]))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = values.astype(dtype)
    dress = draw(
        st.sampled_from([np.asarray, np.asarray, as_matrix, as_sparse, pd.DataFrame,
                         np.ma.masked_invalid, np.asfortranarray, list])
    )  # fmt: skip
    return {
        "values": dress(values),
        "subjects": subjects,
        "times": times,
        "controls": {
            None: None,
            "half": np.repeat(np.arange(n_subjects) % 2 == 0, n_visits),
            "all": np.ones(rows, dtype=bool),
            "none": np.zeros(rows, dtype=bool),
        }[controls],
        "table": table,
    }


@st.composite
def options(draw):
    """Settings of a fit, most of them possible."""
    chosen = {
        "n_clusters": draw(st.sampled_from([1, 2, 3])),
        "spatial": draw(st.sampled_from(["auto", None, 0.5])),
        "staging": draw(st.sampled_from([True, True, False])),
        "people": draw(st.sampled_from(["alike", "differ"])),
        "vertices": draw(st.sampled_from(["auto", "alike"])),
        "scale": draw(st.sampled_from(["years", "controls"])),
        "personal": draw(st.booleans()),
        "tol": 1e-4,
        "max_iter": draw(st.sampled_from([20, 1])),
        "random_state": draw(st.sampled_from([0, 1])),
        "preprocessing": draw(st.sampled_from([None, bd.Preprocessing()])),
        "n_init": 1,
    }
    if draw(st.integers(0, 3)) == 0:
        chosen |= draw(
            st.sampled_from(
                [
                    *({"n_clusters": odd} for odd in (0, -1, 2.5, "2", None, 10**9, True)),
                    *({"spatial": odd} for odd in (-1.0, np.nan, "x")),
                    *({"tol": odd} for odd in (0.0, -1.0, np.nan)),
                    *({"max_iter": odd} for odd in (0, 10**20)),
                    *({"random_state": odd} for odd in (-1, "x", 2**40)),
                    *({"n_jobs": odd} for odd in (0, "x")),
                    *({"memory": odd} for odd in ("x", "1.2.3GB", -1)),
                ]
            )
        )
    return chosen


def ask(arguments, chosen):
    """Fit, stage, predict and save."""
    cohort = bd.Cohort(**arguments)
    model = bd.DIVE(**chosen).fit(cohort)
    stages = model.stage(cohort)
    assert np.isfinite(stages[["score", "speed", "shift"]].to_numpy(dtype=float)).all()
    assert np.isfinite(model.responsibilities_).all()
    assert np.isfinite(model.noise_).all()
    if chosen["personal"]:
        predicted = model.predict(cohort)
        kept = ~np.isnan(predicted).all(axis=0)  # what the preprocessing drops stays NaN
        assert np.isfinite(predicted[:, kept]).all()
    model.summary()


@SETTINGS
@given(cohorts(), options())
def test_odd_cohort_gives_numbers_or_a_sentence(arguments, chosen):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", bd.BraindiveWarning)
        try:
            ask(arguments, chosen)
        except bd.BraindiveError as error:
            assert str(error)  # noqa: PT017


@settings(SETTINGS, max_examples=40 * TIMES)
@given(cohorts())
def test_odd_cohort_is_looked_over_or_refused_in_a_sentence(arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", bd.BraindiveWarning)
        try:
            bd.inspect_cohort(bd.Cohort(**arguments))
        except bd.BraindiveError as error:
            assert str(error)  # noqa: PT017


@settings(SETTINGS, max_examples=25 * TIMES)
@given(
    st.lists(st.lists(st.text(max_size=6), min_size=1, max_size=4), min_size=1, max_size=4),
    st.sampled_from(["\t", ",", ";", "|"]),
)
def test_odd_table_is_read_or_refused_in_a_sentence(rows, separator):
    import tempfile
    from pathlib import Path

    header = ["participant_id", "age", "vertex_0", "vertex_1"]
    text = "\n".join(separator.join(row) for row in [header, *rows])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", bd.BraindiveWarning)
        path = Path(folder, "cohort.tsv")
        path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
        try:
            bd.read_cohort(path)
        except bd.BraindiveError as error:
            assert str(error)  # noqa: PT017


@pytest.fixture(scope="module")
def plain():
    return bd.simulate_cohort(n_subjects=8, n_visits=2, n_vertices=10, random_state=0).cohort


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: np.where(np.arange(v.size).reshape(v.shape) == 34, 1e300, v),
         r"'sub-1' at time 1 \(row 4\) has the value 1e\+300 at vertex 4, where others have"),
        (lambda v: (v * 1e30).astype("f4"), r"values are as large as .*e\+30; give them in a unit"),
        (lambda v: v * 1e300, r"values are as large as .*e\+300"),
        (lambda v: np.where(np.arange(v.shape[1]) == 2, v * 1e15, v), r"at vertex 2, where others"),
        (lambda v: np.where(np.arange(v.shape[1]) == 2, v * 1e9, v).astype("f4"), r"at vertex 2,"),
        (lambda v: v * 1e-300, r"no value is larger than .*e-300"),
        (sparse.csr_array, "values are a sparse matrix"),
    ],
)  # fmt: skip
def test_extreme_values_are_named(plain, change, words):
    with pytest.raises(bd.CohortError, match=words):
        bd.Cohort(change(plain.values), subjects=plain.subjects, times=plain.times)


@pytest.mark.parametrize(
    ("factor", "words"),
    [(1e-300, "all of them lie within 1e-300"), (1e300, r"row 2 has 1e\+300")],
)
def test_extreme_times_are_named(plain, factor, words):
    with pytest.raises(bd.CohortError, match=words):
        bd.Cohort(plain.values, subjects=plain.subjects, times=plain.times * factor)


def test_masked_and_matrix_values_are_those_of_arrays(plain):
    holes = np.zeros(plain.values.shape, dtype=bool)
    holes[3, 4] = True
    masked = np.ma.masked_array(np.where(holes, 1e300, plain.values), mask=holes)
    rest = {"subjects": plain.subjects, "times": plain.times}
    found = bd.Cohort(masked, **rest).values
    np.testing.assert_array_equal(found, np.where(holes, np.nan, plain.values))
    assert type(found) is np.ndarray
    assert type(bd.Cohort(as_matrix(plain.values), **rest).values) is np.ndarray
    with pytest.raises(bd.CohortError, match="times are missing or infinite in row 1"):
        bd.Cohort(
            plain.values,
            subjects=plain.subjects,
            times=np.ma.masked_array(plain.times, mask=np.arange(16) == 0),
        )
