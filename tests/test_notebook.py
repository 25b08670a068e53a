"""What Python prints, and a notebook shows, of cohorts, simulations and models."""

import numpy as np
import pandas as pd
import pytest

import braindive as bd


@pytest.fixture(scope="module")
def simulation():
    return bd.simulate_cohort(
        30, n_visits=3, n_vertices=40, noise=0.3, control_share=0.4, random_state=0
    )


@pytest.fixture(scope="module")
def model(simulation):
    return bd.DIVE(2, n_init=1, personal=False, random_state=0).fit(simulation.cohort)


def test_a_simulation_prints_in_two_lines(simulation):
    text = repr(simulation)
    assert "\n" not in text
    assert "30 subjects, 90 visits, 40 vertices" in text
    assert "3 clusters of 40 vertices" in text
    assert len(text) < 200


def test_a_notebook_shows_what_a_cohort_holds(simulation):
    page = simulation.cohort._repr_html_()
    assert "Cohort(30 subjects, 90 visits, 40 vertices)" in page
    assert "<td>3 to 3, on average 3.0</td>" in page
    assert f"<td>{int(simulation.cohort.controls.sum())} of 90 visits</td>" in page


def test_names_in_a_table_cannot_write_into_a_page():
    cohort = bd.Cohort(
        np.arange(8.0).reshape(4, 2),
        subjects=[1, 1, 2, 2],
        times=[0, 1, 0, 1],
        table=pd.DataFrame({"<script>": range(4)}),
    )
    assert "&lt;script&gt;" in cohort._repr_html_()
    assert "<script>" not in cohort._repr_html_()


def test_a_notebook_shows_the_clusters_of_a_fitted_model(model):
    shown = model._repr_mimebundle_()
    assert shown["text/plain"] == repr(model)
    table = shown["text/html"]
    assert "<td>cluster 2</td>" in table
    assert "its unit is a year" in table
    for message in model.warnings_:
        assert message.split(":")[0] in table


def test_a_model_that_is_not_fitted_is_shown_as_any_estimator():
    page = bd.DIVE(7)._repr_html_()
    assert "7" in page
    assert "sk-" in page


def test_trajectories_become_a_table_with_a_row_for_each_cluster(model):
    table = model.trajectories_.to_frame()
    assert list(table.columns) == ["amplitude", "steepness", "midpoint", "baseline"]
    assert table.index.tolist() == [1, 2]
    np.testing.assert_array_equal(table["midpoint"], model.trajectories_.midpoint)
