"""AIC, BIC and log-likelihood against their definitions."""

import numpy as np
import pytest
from scipy.stats import norm

import braindive as bd

# The criteria are those of the EM, whose last stages are the ones that are shown once it has
# settled.
SETTLED = {"tol": 1e-12, "max_iter": 2000}


@pytest.mark.parametrize("staging", [True, False])
def test_criteria_follow_their_definitions(cohort, staging):
    more = SETTLED if staging else {}
    model = bd.DIVE(3, staging=staging, people="alike", personal=False, random_state=0, **more)
    model.fit(cohort)
    curves = model.trajectories_.evaluate(model.scores_)
    density = np.stack(
        [norm.logpdf(cohort.values, curves[:, [k]], model.noise_[k]).sum(axis=0) for k in range(3)],
        axis=1,
    )
    expected = float(np.log(np.exp(density - density.max(1)[:, None]).mean(1)).sum())
    expected += float(density.max(1).sum())
    assert model.log_likelihood_ == pytest.approx(expected, rel=1e-9)
    n_parameters = 5 * 3 + 1 + (2 * cohort.n_subjects if staging else 0)
    assert model.aic_ == pytest.approx(2 * n_parameters - 2 * expected, rel=1e-9)
    n = cohort.values.size
    assert model.bic_ == pytest.approx(n_parameters * np.log(n) - 2 * expected, rel=1e-9)


def test_fixed_clusters_have_the_likelihood_of_their_own_curve(cohort, simulation):
    model = bd.roi_model(simulation.truth.labels, people="alike", personal=False, **SETTLED).fit(
        cohort
    )
    curves = model.trajectories_.evaluate(model.scores_)[:, model.labels_]
    expected = norm.logpdf(cohort.values, curves, model.noise_[model.labels_]).sum()
    assert model.log_likelihood_ == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize(("size", "are_needed"), [(2.0, True), (0.0, False)])
def test_criteria_count_offsets_of_sites_as_far_as_they_are_not_shrunk(size, are_needed):
    n_people, n_vertices, n_sites = 50, 60, 3
    cohort = bd.simulate_cohort(
        n_people,
        n_vertices=n_vertices,
        midpoints=(-6, 6),
        amplitude=-2,
        slope=-0.2,
        noise=0.4,
        control_share=0.4,
        sites=n_sites,
        site_location=size,
        site_scale=0.0,
        random_state=1,
    ).cohort
    settings = {"n_init": 1, "personal": False, "vertices": "alike", "random_state": 0}
    without, with_sites = (bd.DIVE(2, sites=s, **settings).fit(cohort) for s in (None, "site"))
    count = with_sites.aic_ / 2 + with_sites.log_likelihood_ - (5 * 2 + 1 + 2 * n_people)
    # Two sites are free, whose offsets are a mean and what vertices differ by; three spreads.
    most = (n_sites - 1) * n_vertices
    if are_needed:
        assert count == pytest.approx(most + n_sites, rel=0.02)
    else:
        assert count == pytest.approx(n_sites - 1 + n_sites, abs=3)
    assert (with_sites.aic_ < without.aic_) == are_needed
    assert (with_sites.bic_ < without.bic_) == are_needed
