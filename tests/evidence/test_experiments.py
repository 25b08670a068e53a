"""The simulation experiments."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import adjusted_rand_score

import braindive as bd
from adni import STAGE, adni_fold, adni_like_cohort
from braindive.evaluation.folds import split_subjects
from braindive.evaluation.selection import selection_table
from braindive.simulation.cognition import TESTS
from cache import run_cached
from experiments import (
    COHORTS,
    ceiling,
    contiguous_areas,
    fewer_subjects,
    group_test,
    judge_candidate,
    more_clusters,
    recovery,
)


def test_the_ceiling_equals_a_naive_e_step():
    simulation = bd.simulate_cohort(n_subjects=20, n_vertices=40, random_state=3)
    truth, values = simulation.truth, simulation.cohort.values
    curves = truth.trajectories.evaluate(truth.scores)
    variance = [np.mean((values[:, truth.labels == k] - curves[:, [k]]) ** 2) for k in range(3)]
    correct = []
    for vertex, label in enumerate(truth.labels):
        log_density = np.array(
            [
                -0.5 * np.sum(np.log(2 * np.pi * v) + (values[:, vertex] - curves[:, k]) ** 2 / v)
                for k, v in enumerate(variance)
            ]
        )
        density = np.exp(log_density - log_density.max())
        correct.append(density[label] / density.sum())
    assert ceiling(simulation) == pytest.approx(np.mean(correct), abs=1e-6)


def test_errors_do_not_depend_on_the_unit_of_the_score(simulation, model):
    row = recovery(simulation, model)

    class Rescaled:
        responsibilities_ = model.responsibilities_
        scores_ = 3 * model.scores_ - 7
        trajectories_ = model.trajectories_.rescored(7 / 3, 1 / 3)

    other = recovery(simulation, Rescaled())
    assert other["score_error"] == pytest.approx(row["score_error"])
    assert other["midpoint_error"] == pytest.approx(row["midpoint_error"])


def test_a_fit_of_few_subjects_comes_close_to_the_ceiling():
    rows = [fewer_subjects(20, seed)[0] for seed in range(3)]
    gap = np.mean([row["ceiling"] - row["agreement"] for row in rows])
    assert gap < 0.01


def test_scores_without_any_disease_are_not_recovered(simulation, model):
    shuffled = np.random.default_rng(0).permutation(simulation.truth.scores)
    truth = replace(simulation.truth, scores=shuffled)
    lost = recovery(bd.Simulation(simulation.cohort, truth), model)
    assert abs(lost["correlation"]) < 0.3
    assert lost["score_error"] > 10 * recovery(simulation, model)["score_error"]


def test_the_field_helps_on_contiguous_areas():
    (with_field,) = contiguous_areas(0, "auto", seed=0, n_subjects=12)
    (without,) = contiguous_areas(0, None, seed=0, n_subjects=12)
    assert with_field["agreement"] > without["agreement"] + 0.1
    assert without["strength"] == 0


def judged(kind):
    size = {"n_halvings": 1, "n_subjects": 60, "n_vertices": 300}
    return {n: more_clusters(2, kind, n, seed=0, **size)[0] for n in (2, 3)}


@pytest.mark.filterwarnings("ignore::braindive.BraindiveWarning")
def test_likelihoods_choose_the_truth_where_vertices_of_a_cluster_are_alike():
    table = selection_table(judged("alike"))
    assert table["aic"].idxmin() == table["bic"].idxmin() == 2
    assert table.loc[2, "rand"] == 1.0


@pytest.mark.filterwarnings("ignore::braindive.BraindiveWarning")
def test_likelihoods_choose_more_where_every_vertex_has_its_own_midpoint():
    table = selection_table(judged("own"))
    assert table["aic"].idxmin() == 3
    assert table["held_out"].idxmax() == 3
    assert table.loc[3, "rand"] < table.loc[2, "rand"]


@pytest.mark.filterwarnings("ignore::braindive.BraindiveWarning")
def test_where_people_differ_much_of_what_differs_between_them_stays():
    kept = {}
    for kind in ("own", "people"):
        cohort = bd.simulate_cohort(60, n_vertices=100, random_state=0, **COHORTS[kind]).cohort
        early, late = cohort.first_visits(1).values, cohort.later_visits(3).values
        both = zip(early.T, late.T, strict=True)
        kept[kind] = np.median([np.corrcoef(first, last)[0, 1] for first, last in both])
    assert kept["own"] < 0.4 < 0.7 < kept["people"]


@pytest.mark.filterwarnings("ignore::braindive.BraindiveWarning")
def test_groups_are_looked_for_by_the_marginal_fit_where_people_differ(monkeypatch):
    asked = []
    fit = bd.DIVE.fit
    monkeypatch.setattr(
        bd.DIVE, "fit", lambda self, *given: asked.append(self.people) or fit(self, *given)
    )
    for kind in COHORTS:
        more_clusters(2, kind, 2, seed=0, n_halvings=1, n_subjects=20, n_vertices=60)
    assert asked == ["alike"] * 6 + ["differ"] * 3


def test_the_power_of_true_values_stands_beside_that_of_estimates():
    with pytest.warns(bd.StagingWarning, match="No progression was found"):
        rows = {row["parameter"]: row for row in group_test(1.5, seed=0, n_subjects=40)}
    # Seen three times with 60 noisy vertices, everybody's place is clear and their pace is not.
    assert rows["shift"]["correlation"] > 0.8 > 0.5 > rows["speed"]["correlation"]
    simulation = bd.simulate_cohort(
        n_subjects=40,
        n_visits=3,
        n_vertices=60,
        group_effect=1.5,
        control_share=0.3,
        random_state=0,
    )
    carrier = simulation.cohort.table["apoe4"].to_numpy()[::3] == 1
    speeds = simulation.truth.speeds
    expected = stats.mannwhitneyu(speeds[~carrier], speeds[carrier]).pvalue
    assert rows["speed"]["true_p_value"] == pytest.approx(expected)


def test_the_adni_like_cohort_has_the_shape_of_adni():
    cohort, atlas = adni_like_cohort(n_subjects=46)
    assert cohort.n_visits == round(46 * 1973 / 454)
    assert atlas.shape == (cohort.n_vertices,) == (10242,)
    assert set(TESTS) | {"apoe4", "diagnosis"} <= set(cohort.table.columns)
    assert cohort.times.min() > 40


def test_pieces_of_the_comparison_are_judged_on_every_measure():
    rows = adni_fold("mean map", "alike", 0, 2, 24, "fsaverage5-left", 0)
    assert [row["measure"] for row in rows] == [*TESTS, STAGE, "RMSE"]
    assert all(np.isfinite(row["value"]) for row in rows)
    assert all(np.isfinite(row["pearson"]) for row in rows[:-1])
    # The mean map follows the true stage far more closely than noisy cognitive scores do.
    assert rows[len(TESTS)]["value"] > max(row["value"] for row in rows[: len(TESTS)])


def test_people_of_the_adni_like_cohort_may_differ_persistently():
    """Of healthy people's spread, what stays from visit to visit; nothing where they are alike."""
    shares = {}
    for people in ("alike", "differ"):
        cohort, _ = adni_like_cohort(46, "fsaverage5-left", 0, people)
        values, subjects = cohort.values[cohort.controls], cohort.subject_index[cohort.controls]
        twice = np.flatnonzero(subjects[1:] == subjects[:-1])
        change = values[twice + 1] - values[twice]
        shares[people] = 1 - 0.5 * change.var() / (values - values.mean(axis=0)).var()
    assert shares["alike"] < 0.2 < 0.7 < shares["differ"]


def test_the_true_stage_is_judged_like_a_model_but_predicts_nothing():
    cohort, _ = adni_like_cohort(24, "fsaverage5-left", 0)
    rows = adni_fold("true stage", "alike", 0, 2, 24, "fsaverage5-left", 0)
    assert [row["measure"] for row in rows] == list(TESTS)
    everyone = cohort.table["true_stage"].corr(cohort.table["CDRSOB"], method="spearman")
    both = [
        adni_fold("true stage", "alike", fold, 2, 24, "fsaverage5-left", 0)[0] for fold in (0, 1)
    ]
    assert np.mean([row["value"] for row in both]) == pytest.approx(everyone, abs=0.1)


def test_the_number_of_workers_does_not_change_an_experiment(tmp_path):
    tasks = [{"n_subjects": 10, "seed": seed} for seed in range(3)]
    one = run_cached(fewer_subjects, tasks, tmp_path / "one", n_jobs=1)
    two = run_cached(fewer_subjects, tasks, tmp_path / "two", n_jobs=2)
    assert one == two


def test_the_number_of_workers_does_not_change_the_group_test(tmp_path):
    tasks = [{"effect": 0.8, "seed": seed, "n_subjects": 30} for seed in range(2)]
    # Cohorts so small and noisy show no change over time.
    with pytest.warns(bd.DataWarning, match="No progression was found"):
        one = run_cached(group_test, tasks, tmp_path / "one", n_jobs=1)
    with pytest.warns(bd.DataWarning, match="No progression was found"):
        two = run_cached(group_test, tasks, tmp_path / "two", n_jobs=2)
    assert two == one


def test_a_simulated_cohort_without_an_effect_shows_none():
    with pytest.warns(bd.StagingWarning, match="No progression was found"):
        rows = pd.DataFrame(group_test(0.0, seed=1, n_subjects=40, n_vertices=40))
    assert (rows["p_value"] > 0.01).all()


def test_pieces_of_the_work_give_the_table_of_the_whole(clear_cohort):
    model = bd.DIVE(2, n_init=1, tol=1e-2, random_state=0)
    row = judge_candidate(clear_cohort, model, n_halvings=2, seed=5)
    fits = []
    for seed in (5, 6):
        halves = split_subjects(clear_cohort, 2, seed)
        fits.append(
            [
                bd.DIVE(2, n_init=1, tol=1e-2, random_state=0).fit(
                    clear_cohort.select(subjects=list(half))
                )
                for half in halves
            ]
        )
    rand = [adjusted_rand_score(one.labels_, other.labels_) for one, other in fits]
    assert row["rand"] == pytest.approx(np.mean(rand))
    one, other = fits[0]
    first, second = split_subjects(clear_cohort, 2, 5)
    # Without the first half: fitted on the second and judged on the first.
    judged = [
        other.score(clear_cohort.select(subjects=list(first))),
        one.score(clear_cohort.select(subjects=list(second))),
    ]
    assert row["held_out_folds"][:2] == pytest.approx(judged)
    table = selection_table({2: row})
    assert table.loc[2, "held_out"] == pytest.approx(np.mean(row["held_out_folds"]))
    assert "held_out_folds" not in table
