"""Clusters have the same names wherever people read about them."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import braindive as bd

# Ids and names of regions, by the true order in which they are affected.
IDS, NAMES = np.array([12, 11, 40]), np.array(["hip", "ent", "cun"])


@pytest.fixture(scope="module")
def simulation():
    return bd.simulate_cohort(
        n_subjects=40, n_vertices=90, noise=0.3, control_share=0.3, random_state=0
    )


@pytest.fixture(scope="module", params=["found", "ids", "names"])
def case(request, simulation):
    """A model, and what its clusters should be called."""
    labels = simulation.truth.labels
    model, names = {
        "found": (
            bd.DIVE(3, n_init=1, personal=False, random_state=0),
            ["cluster 1", "cluster 2", "cluster 3"],
        ),
        "ids": (bd.roi_model(IDS[labels], personal=False), ["region 12", "region 11", "region 40"]),
        "names": (bd.roi_model(NAMES[labels], personal=False), ["hip", "ent", "cun"]),
    }[request.param]
    return model.fit(simulation.cohort), names


def test_goodness_of_fit_has_a_row_for_each_name(case, simulation):
    model, names = case
    found = bd.goodness_of_fit(model, simulation.cohort)
    assert found.clusters.index.tolist() == names


def test_reasons_name_the_cluster(case, simulation):
    model, names = case
    cohort = simulation.cohort
    values = cohort.values.copy()
    last = np.flatnonzero(cohort.subjects == cohort.subjects[-1])
    values[np.ix_(last, simulation.truth.labels == 2)] += 5.0
    moved = bd.Cohort(values, subjects=cohort.subjects, times=cohort.times)
    found = bd.goodness_of_fit(model, moved)
    reasons = [found.subjects["reason"].loc[cohort.subjects[-1]], *found.visits["reason"][last]]
    assert reasons[0].startswith(f"all visits lie above the curve of {names[2]} (")
    assert all(reason.startswith(f"{names[2]} lies +") for reason in reasons[1:])


def test_maps_and_tables_hold_the_names(case, tmp_path):
    model, names = case
    bd.write_maps(model, tmp_path, scores=[0.0])
    curves = pd.read_csv(tmp_path / "trajectories.tsv", sep="\t")
    assert curves["cluster"].tolist() == [1, 2, 3]
    assert curves["name"].tolist() == names
    columns = pd.read_csv(tmp_path / "maps.tsv", sep="\t").columns
    assert columns[2:5].tolist() == [f"probabilities: {name}" for name in names]


def test_figures_show_the_names(case):
    from matplotlib import pyplot as plt

    model, names = case
    ax = bd.plot_trajectories(model)
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    title = ax.get_legend().get_title().get_text()
    plt.close("all")
    assert title == "cluster"
    if model.assignments is None:
        assert shown == ["1 (earliest)", "2", "3 (latest)"]
    else:
        assert shown == names


def test_the_report_shows_the_names(case):
    model, names = case
    page = bd.build_report(model).html
    found = re.search(r'<script[^>]*id="report-data"[^>]*>(.*?)</script>', page, re.DOTALL)
    shown = [cluster["name"] for cluster in json.loads(found[1])["clusters"]]
    assert shown == [name.replace("cluster", "Area") for name in names]
