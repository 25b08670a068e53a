"""The simulation experiments."""

import numpy as np
import pytest

import braindive as bd
from braindive.cognition import TESTS
from braindive.evaluation.adni import adni_fold, adni_like_cohort
from braindive.evaluation.experiments import (
    ceiling,
    contiguous_areas,
    fewer_subjects,
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
    truth = simulation.truth.__class__(
        simulation.truth.labels,
        simulation.truth.trajectories,
        simulation.truth.speeds,
        simulation.truth.shifts,
        shuffled,
    )
    lost = recovery(bd.Simulation(simulation.cohort, truth), model)
    assert abs(lost["correlation"]) < 0.3
    assert lost["score_error"] > 10 * recovery(simulation, model)["score_error"]


def test_the_field_helps_on_contiguous_areas():
    (with_field,) = contiguous_areas(0, "auto", seed=0, n_subjects=12)
    (without,) = contiguous_areas(0, None, seed=0, n_subjects=12)
    assert with_field["agreement"] > without["agreement"] + 0.1
    assert without["strength"] == 0


def test_every_criterion_makes_a_choice():
    rows = more_clusters(2, [2, 3], seed=0, n_splits=2, n_resamples=1, n_subjects=30)
    assert [row["n_clusters"] for row in rows] == [2, 3]
    assert rows[0]["stability_choice"] == 2
    assert {"aic_choice", "bic_choice", "held_out_choice"} <= set(rows[0])


def test_the_adni_like_cohort_has_the_shape_of_adni():
    cohort, atlas = adni_like_cohort(n_subjects=46)
    assert cohort.n_visits == round(46 * 1973 / 454)
    assert atlas.shape == (cohort.n_vertices,) == (10242,)
    assert set(TESTS) | {"apoe4", "diagnosis"} <= set(cohort.table.columns)
    assert cohort.times.min() > 40


def test_pieces_of_the_comparison_are_judged_on_every_measure():
    rows = adni_fold("mean map", 0, 2, 24, "fsaverage5-left", 0)
    assert [row["measure"] for row in rows] == [*TESTS, "RMSE"]
    assert all(np.isfinite(row["value"]) for row in rows)
