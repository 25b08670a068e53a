"""Comparison of models on subjects that they have not seen."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator

import braindive as bd
from braindive.evaluation.comparison import score_columns
from braindive.evaluation.folds import split_subjects
from braindive.evaluation.summary import comparison_table, corrected_t_test
from braindive.space import Hemisphere

N_SUBJECTS, N_VISITS, N_VERTICES = 12, 4, 5


def make_cohort(table=None, missing_visits=()):
    """Vertex 0 is the subject's number, so that a model can be asked what it has seen."""
    subject = np.repeat(np.arange(N_SUBJECTS), N_VISITS)
    time = np.tile(np.arange(N_VISITS, dtype=float), N_SUBJECTS)
    values = np.random.default_rng(0).normal(size=(len(subject), N_VERTICES))
    values[:, 0], values[:, 1] = subject, time
    frame = pd.DataFrame({"stage": subject + 0.1 * time}) if table is None else table
    keep = np.setdiff1d(np.arange(len(subject)), missing_visits)
    return bd.Cohort(values[keep], subjects=subject[keep], times=time[keep], table=frame.iloc[keep])


class Spy:
    """Records which subjects and times every method is given."""

    log = []  # noqa: RUF012

    def fit(self, cohort):
        self.trained = set(cohort.subjects)
        Spy.log.append(("fit", self.trained, None))
        return self

    def stage(self, cohort):
        Spy.log.append(("stage", set(cohort.subjects), self.trained))
        ids = cohort.subject_ids
        return pd.DataFrame({"speed": 0.1, "shift": ids.astype(float)}, index=ids)

    def predict(self, cohort, history):
        Spy.log.append(("predict", set(cohort.subjects), self.trained))
        assert history.times.max() < cohort.times.min()
        assert set(history.subjects) == set(cohort.subjects)
        return np.zeros((cohort.n_visits, cohort.n_vertices))


class Constant:
    """Predicts a constant and stages by nothing."""

    def __init__(self, value):
        self.value = value

    def fit(self, cohort):
        return self

    def stage(self, cohort):
        return pd.DataFrame({"score": 0.0}, index=cohort.subject_ids)

    def predict(self, cohort, history):
        return np.full((cohort.n_visits, cohort.n_vertices), self.value)


class Centre(BaseEstimator):
    """A preprocessing that remembers whom it was fitted on."""

    fitted_on = []  # noqa: RUF012

    def fit(self, cohort):
        Centre.fitted_on.append(set(cohort.subjects))
        self.centre_ = cohort.values.mean(axis=0)
        return self

    def transform(self, cohort):
        return bd.Cohort(
            cohort.values - self.centre_,
            subjects=cohort.subjects,
            times=cohort.times,
            table=cohort.table,
        )


def test_nothing_of_a_test_subject_reaches_the_training():
    Spy.log.clear()
    bd.compare_models(make_cohort(), {"spy": Spy()}, scores=["stage"], n_folds=3, random_state=0)
    everyone = set(range(N_SUBJECTS))
    fits = [seen for method, seen, _ in Spy.log if method == "fit"]
    assert len(fits) == 3
    assert all(len(seen) == 8 for seen in fits)
    predicted = [(seen, trained) for method, seen, trained in Spy.log if method == "predict"]
    assert all(seen == everyone - trained for seen, trained in predicted)
    staged = [(seen, trained) for method, seen, trained in Spy.log if method == "stage"]
    assert all(seen == trained or not seen & trained for seen, trained in staged)


def test_preprocessing_learns_from_training_subjects_only():
    Centre.fitted_on.clear()
    frame = bd.compare_models(
        make_cohort(), {"zero": Constant(0.0)}, n_folds=3, preprocessing=Centre(), random_state=0
    )
    assert [len(seen) for seen in Centre.fitted_on] == [8] * 6  # two models in each of 3 folds
    assert set(frame["measure"]) == {"RMSE"}


@pytest.mark.filterwarnings("ignore:.*stage has no correlation.*of two:braindive.DataWarning")
def test_correlation_and_error_equal_those_computed_by_hand():
    cohort = make_cohort()
    frame = bd.compare_models(
        cohort, {"spy": Spy(), "two": Constant(2.0)}, scores=["stage"], n_folds=2, random_state=0
    )
    correlation = frame.query("model == 'spy' and measure == 'stage'")
    np.testing.assert_allclose(correlation["value"], 1.0)
    errors = frame.query("model == 'two' and measure == 'RMSE'")
    later = cohort.values[cohort.times >= 2]
    assert np.mean(errors["value"] ** 2) == pytest.approx(np.mean((later - 2.0) ** 2))


def test_scores_that_fall_with_the_disease_correlate_positively():
    cohort = make_cohort()
    falling = bd.Cohort(
        cohort.values,
        subjects=cohort.subjects,
        times=cohort.times,
        table=pd.DataFrame({"MMSE": 30.0 - cohort.table["stage"]}),
    )
    frame = bd.compare_models(falling, {"spy": Spy()}, scores=["MMSE"], n_folds=2, random_state=0)
    np.testing.assert_allclose(frame.query("model == 'spy' and measure == 'MMSE'")["value"], 1.0)


def test_missing_scores_are_left_out_pair_by_pair():
    cohort = make_cohort()
    stage = cohort.table["stage"].to_numpy().copy()
    stage[::5] = np.nan
    gappy = bd.Cohort(
        cohort.values,
        subjects=cohort.subjects,
        times=cohort.times,
        table=pd.DataFrame({"stage": stage}),
    )
    frame = bd.compare_models(gappy, {"spy": Spy()}, scores=["stage"], n_folds=2, random_state=0)
    rows = frame.query("model == 'spy' and measure == 'stage'")
    assert rows["n"].sum() == np.isfinite(stage).sum()
    np.testing.assert_allclose(rows["value"], 1.0)


def test_the_mean_map_is_never_left_out():
    cohort = make_cohort()
    frame = bd.compare_models(cohort, {"two": Constant(2.0)}, n_folds=2, random_state=0)
    assert set(frame["model"]) == {"two", "mean map"}
    errors = frame.query("model == 'mean map'")["value"]
    values = cohort.values.reshape(N_SUBJECTS, N_VISITS, N_VERTICES)
    expected = np.mean((values[:, 2:] - values[:, 1:2]) ** 2)
    assert np.mean(errors**2) == pytest.approx(expected)


def test_folds_without_a_correlation_are_counted_and_left_out():
    # Results of two subjects only, who fall into one or two of the three folds.
    known = np.where(np.arange(48) < 8, np.arange(48.0), np.nan)
    cohort = make_cohort(pd.DataFrame({"MMSE": known}))
    with pytest.warns(bd.DataWarning, match=r"in [12] of 3 folds.*MMSE.*spy, mean map"):
        frame = bd.compare_models(
            cohort, {"spy": Spy()}, scores=["MMSE"], n_folds=3, random_state=0
        )
    found = frame.query("model == 'spy' and measure == 'MMSE'")["value"]
    assert 0 < found.isna().sum() < 3
    summary = bd.summarise_comparison(frame, reference="spy").set_index(["model", "measure"])
    assert summary.loc[("spy", "MMSE"), "n_folds"] == found.notna().sum()


def test_a_correlation_that_no_fold_has_is_called_undefined():
    cohort = make_cohort()
    with pytest.warns(bd.DataWarning, match=r"in 2 of 2 folds.*stage.*of DIVE:"):
        frame = bd.compare_models(
            cohort, {"DIVE": Constant(0.0)}, scores=["stage"], n_folds=2, random_state=0
        )
    table = comparison_table(bd.summarise_comparison(frame))
    assert table.loc["DIVE", "stage"] == "undefined"


def test_subjects_without_later_scans_are_counted_and_left_out_of_prediction():
    cohort = make_cohort(missing_visits=[1, 2, 3, 6, 7])
    with pytest.warns(bd.DataWarning, match="2 of 12 subjects have at most 2 visits"):
        frame = bd.compare_models(cohort, {"two": Constant(2.0)}, n_folds=2, random_state=0)
    assert frame.attrs["n_without_later_visits"] == 2
    assert frame.query("model == 'two'")["n"].sum() == 20


def test_the_number_of_workers_does_not_change_the_table():
    cohort = bd.simulate_cohort(
        n_subjects=24, n_vertices=30, noise=0.1, cognition=True, control_share=0.4, random_state=0
    ).cohort
    options = {"scores": ["MMSE"], "n_folds": 2, "random_state": 3}
    models = {"DIVE": bd.DIVE(2, n_init=1, tol=1e-2, people="alike", random_state=0)}
    one = bd.compare_models(cohort, models, n_jobs=1, **options)
    many = bd.compare_models(cohort, models, n_jobs=2, **options)
    pd.testing.assert_frame_equal(one, many, check_exact=True)


def test_hemispheres_are_averaged_in_each_fold_and_the_atlas_is_of_the_average():
    random = np.random.default_rng(1)
    mesh = (random.normal(size=(30, 3)), [[0, 1, 2], [3, 4, 5]])
    space = bd.Surface("pair", (Hemisphere("left", *mesh), Hemisphere("right", *mesh)))
    drawn = bd.simulate_cohort(
        n_subjects=24, n_vertices=30, noise=0.1, control_share=0.4, random_state=0
    ).cohort
    both = np.tile(np.asarray(drawn.values), 2) + 5.0
    # Someone has a vertex that is 0, so that folds drop different ones.
    both[0, 3] = 0.0
    cohort = bd.Cohort(
        both, subjects=drawn.subjects, times=drawn.times, controls=drawn.controls, space=space
    )
    recipe = bd.Preprocessing(average_hemispheres=True, drop_zeros=True, reference="baseline")
    options = {"n_folds": 2, "n_clusters": 2, "preprocessing": recipe, "random_state": 0}
    frame = bd.compare_models(cohort, atlas=np.repeat([0, 1], 15), **options)
    assert set(frame["model"]) == {"DIVE", "ROI-based", "no staging", "mean map"}
    assert frame["value"].notna().all()
    counted = sum(row["n_vertices"] for row in frame.attrs["overlap"]["DIVE"])
    assert counted == 29
    with pytest.raises(bd.ParameterError, match="the averaged hemispheres have 30"):
        bd.compare_models(cohort, atlas=np.repeat([0, 1], 30), **options)


def test_the_overlap_of_clusters_across_folds_comes_with_the_comparison():
    cohort = bd.simulate_cohort(
        n_subjects=24, n_vertices=30, noise=0.1, control_share=0.4, random_state=0
    ).cohort
    models = {
        "DIVE": bd.DIVE(2, n_init=1, tol=1e-2, people="alike", random_state=0),
        "regions": bd.roi_model(np.repeat([0, 1], 15), people="alike", random_state=0),
    }
    frame = bd.compare_models(cohort, models, n_folds=3, random_state=3)
    assert list(frame.attrs["overlap"]) == ["DIVE"]
    seed = np.random.RandomState(3).randint(2**31)
    labels = []
    for fold in split_subjects(cohort, 3, seed, smallest=1):
        keep = [subject for subject in cohort.subject_ids if subject not in set(fold)]
        labels.append(models["DIVE"].fit(cohort.select(subjects=keep)).labels_)
    first, second, third = labels
    dice = [
        bd.cluster_overlap(first, second),
        bd.cluster_overlap(first, third),
        bd.cluster_overlap(second, third),
    ]
    found = [row["dice"] for row in frame.attrs["overlap"]["DIVE"]]
    np.testing.assert_allclose(found, np.mean(dice, axis=0))


def test_default_models_are_those_of_the_paper():
    cohort = bd.simulate_cohort(
        n_subjects=40, n_vertices=30, noise=0.1, cognition=True, control_share=0.4, random_state=0
    )
    frame = bd.compare_models(
        cohort.cohort,
        scores=["MMSE"],
        n_folds=2,
        n_clusters=2,
        atlas=np.repeat([0, 1], 15),
        random_state=0,
    )
    assert list(frame["model"].unique()) == ["DIVE", "ROI-based", "no staging", "mean map"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["3"] * 47 + ["many"], r"'many' for subject 11 at 3: 1 of its 48"),
        ([4.0] * 48, "constant"),
        ([np.nan] * 48, "empty"),
    ],
)
def test_unusable_scores_are_refused(column, message):
    cohort = make_cohort(pd.DataFrame({"score": column}))
    with pytest.raises(bd.ParameterError, match=message):
        score_columns(cohort, ["score"])


def test_a_missing_score_column_is_refused_with_those_there_are():
    with pytest.raises(bd.ParameterError, match=r"no column 'MMSE'.*stage"):
        bd.compare_models(make_cohort(), {"spy": Spy()}, scores=["MMSE"])


def test_folds_of_fewer_than_three_subjects_are_refused():
    with pytest.raises(bd.CohortError, match="at most 4 folds"):
        bd.compare_models(make_cohort(), {"spy": Spy()}, scores=["stage"], n_folds=10)


def test_an_atlas_of_another_space_is_refused():
    with pytest.raises(bd.ParameterError, match="5 vertices"):
        bd.compare_models(make_cohort(), atlas=[0, 1, 1], scores=["stage"])


def test_nothing_to_compare_is_refused():
    cohort = make_cohort(missing_visits=np.flatnonzero(np.arange(48) % 4 > 1))
    with pytest.raises(bd.ParameterError, match="nothing to compare"):
        bd.compare_models(cohort, {"spy": Spy()}, n_folds=2)


def test_a_model_without_a_method_is_refused():
    with pytest.raises(bd.ParameterError, match="'mine' has no method stage or predict"):
        bd.compare_models(make_cohort(), {"mine": bd.Preprocessing()})


def test_the_corrected_test_equals_the_paired_t_test_with_a_larger_variance(rng):
    differences = rng.normal(0.3, 0.2, 10)
    t = stats.ttest_1samp(differences, 0).statistic
    corrected = t * np.sqrt((1 / 10) / (1 / 10 + 1 / 9))
    assert corrected_t_test(differences) == pytest.approx(2 * stats.t.sf(abs(corrected), 9))


def test_a_star_marks_what_differs_from_the_reference():
    rng = np.random.default_rng(0)
    base = rng.normal(0.4, 0.05, 10)
    frame = pd.concat(
        pd.DataFrame({"model": name, "fold": range(10), "measure": "MMSE", "value": values})
        for name, values in (
            ("DIVE", base),
            ("worse", base - 0.3 + rng.normal(0, 0.02, 10)),
            ("same", base + rng.normal(0, 0.02, 10)),
        )
    )
    summary = bd.summarise_comparison(frame).set_index("model")
    assert summary["differs"].to_dict() == {"DIVE": False, "worse": True, "same": False}
    assert summary.loc["DIVE", "mean"] == pytest.approx(base.mean())
    cells = comparison_table(summary.reset_index())["MMSE"]
    assert cells["worse"].endswith("*")
    assert not cells["same"].endswith("*")


def test_a_reference_that_is_not_there_is_refused():
    frame = pd.DataFrame({"model": ["a"], "fold": [0], "measure": ["x"], "value": [1.0]})
    with pytest.raises(bd.ParameterError, match="no model 'DIVE'"):
        bd.summarise_comparison(frame)
