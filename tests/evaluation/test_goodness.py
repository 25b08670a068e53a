"""How well a model explains a cohort."""

import numpy as np
import pytest

import braindive as bd


@pytest.fixture(scope="module")
def simulation():
    return bd.simulate_cohort(n_subjects=60, n_vertices=150, noise=0.4, random_state=4)


@pytest.fixture(scope="module")
def model(simulation):
    return bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(simulation.cohort)


def test_explained_variance_is_that_of_the_curves(simulation, model):
    values = simulation.cohort.values
    stages = model.stage(simulation.cohort).loc[simulation.cohort.subjects]
    scores = stages["speed"] * simulation.cohort.times + stages["shift"]
    curves = model.trajectories_.evaluate(scores.to_numpy())
    left = sum(
        model.responsibilities_[:, k] * ((values - curves[:, [k]]) ** 2).sum(axis=0)
        for k in range(3)
    )
    total = ((values - values.mean(axis=0)) ** 2).sum(axis=0)
    found = bd.goodness_of_fit(model, simulation.cohort)
    assert found.explained_variance == pytest.approx(1 - left.sum() / total.sum(), abs=1e-6)
    np.testing.assert_allclose(found.vertices, 1 - left / total, atol=1e-6)


def test_a_clean_cohort_has_no_outliers(simulation, model):
    found = bd.goodness_of_fit(model, simulation.cohort)
    assert found.subjects["outlier"].sum() <= 1
    assert found.visits["outlier"].sum() <= 1
    assert (found.clusters["misfit_p"] > 1e-3).all()


def test_a_cohort_that_covers_its_trajectories_gives_no_warning():
    cohort = bd.simulate_cohort(
        n_subjects=100, n_vertices=150, midpoints=(-8, 0, 8), noise=0.5, random_state=0
    ).cohort
    assert not bd.goodness_of_fit(
        bd.DIVE(3, personal=False, random_state=0).fit(cohort), cohort
    ).warnings


def test_a_noisy_scan_and_a_strange_person_are_named_with_a_reason(simulation, model):
    cohort, rng = simulation.cohort, np.random.default_rng(0)
    values = cohort.values.copy()
    values[10] += 2.0 * rng.normal(size=150)
    values[40:44, simulation.truth.labels == 1] += 3.0
    found = bd.goodness_of_fit(
        model, bd.Cohort(values, subjects=cohort.subjects, times=cohort.times)
    )
    assert found.visits["outlier"][10]
    assert "noise" in found.visits["reason"][10]
    strange = found.subjects.loc[cohort.subjects[40]]
    assert strange["outlier"]
    # The second cluster: people count from 1.
    assert "the curve of cluster 2 (" in strange["reason"]
    assert found.subjects["outlier"].sum() <= 3


def test_visits_keep_the_order_of_the_cohort(simulation, model):
    cohort = simulation.cohort
    back = np.arange(cohort.n_visits)[::-1]
    turned = bd.Cohort(
        cohort.values[back], subjects=cohort.subjects[back], times=cohort.times[back]
    )
    here = bd.goodness_of_fit(model, cohort).visits
    there = bd.goodness_of_fit(model, turned).visits
    np.testing.assert_allclose(there["misfit"][::-1], here["misfit"], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:which way the disease runs")
def test_correlated_noise_is_seen(simulation):
    cohort, rng = simulation.cohort, np.random.default_rng(1)
    shared = 0.3 * rng.normal(size=(cohort.n_visits, 3))[:, simulation.truth.labels]
    noisy = bd.Cohort(cohort.values + shared, subjects=cohort.subjects, times=cohort.times)
    with pytest.warns(bd.StagingWarning, match="No progression was found"):
        model = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(noisy)
    assert (bd.goodness_of_fit(model, noisy).clusters["correlation"] > 5).all()


def test_short_follow_up_is_warned_of():
    cohort = bd.simulate_cohort(
        n_subjects=60,
        n_visits=2,
        n_vertices=80,
        noise=1.0,
        mean_speed=0.3,
        control_share=0.3,
        random_state=0,
    ).cohort
    with pytest.warns(bd.StagingWarning, match="No progression was found"):
        model = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(cohort)
    assert "follow-up" in " ".join(bd.goodness_of_fit(model, cohort).warnings)


def test_a_trajectory_beyond_the_data_is_warned_of():
    cohort = bd.simulate_cohort(
        n_subjects=80,
        n_vertices=120,
        noise=0.2,
        midpoints=(0.0, 14.0),
        shift_sd=4.0,
        steepness_variation=0.0,
        midpoint_variation=0.0,
        random_state=0,
    ).cohort
    model = bd.DIVE(n_clusters=2, personal=False, random_state=0).fit(cohort)
    assert "trajectory of cluster 2 reaches" in " ".join(bd.goodness_of_fit(model, cohort).warnings)


def test_a_model_without_staging_is_refused(simulation):
    plain = bd.no_staging_model(n_clusters=2, personal=False).fit(simulation.cohort)
    with pytest.raises(bd.ParameterError, match="staging"):
        bd.goodness_of_fit(plain, simulation.cohort)
