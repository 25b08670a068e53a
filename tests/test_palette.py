"""Clusters have the same colours wherever they are shown."""

import json
import re

import nibabel as nib
import numpy as np
import pytest
from matplotlib.colors import to_hex

import braindive as bd
from braindive.palette import cluster_colours, low_is_dark
from braindive.space import Hemisphere

# From the earliest cluster to the latest: violet, teal, yellow.
COLOURS = ["#67379d", "#0ca6ad", "#f2d42d"]


@pytest.fixture(scope="module")
def model():
    """Three clusters on a bent strip of triangles."""
    columns, rows = np.meshgrid(np.arange(10.0), np.arange(6.0))
    points = np.column_stack([columns.ravel(), rows.ravel(), columns.ravel() ** 2 / 9])
    corners = (np.arange(5)[:, None] * 10 + np.arange(9)).ravel()
    faces = np.concatenate(
        [
            np.column_stack([corners, corners + 1, corners + 10]),
            np.column_stack([corners + 1, corners + 11, corners + 10]),
        ]
    )
    space = bd.Surface("strip", (Hemisphere("left", points, faces),))
    cohort = bd.simulate_cohort(n_subjects=20, space=space, noise=0.3, random_state=0).cohort
    return bd.DIVE(n_clusters=3, n_init=1, people="alike", personal=False, random_state=0).fit(
        cohort
    )


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps")
    bd.write_maps(model, folder, formats=["gifti", "freesurfer", "cifti"])
    return folder


def test_gifti_label_tables_hold_the_colours(folder):
    table = nib.load(folder / "hemi-L_clusters.label.gii").labeltable
    assert [to_hex(label.rgba[:3]) for label in table.labels[1:]] == COLOURS


def test_freesurfer_annotations_hold_the_colours(folder):
    _, table, _ = nib.freesurfer.read_annot(folder / "lh.clusters.annot")
    assert [to_hex(row / 255) for row in table[1:, :3]] == COLOURS


def test_cifti_label_tables_hold_the_colours(folder):
    table = nib.load(folder / "clusters.dlabel.nii").header.get_axis(0).label[0]
    assert [to_hex(table[key][1][:3]) for key in (1, 2, 3)] == COLOURS


def test_figures_show_the_colours(model):
    from matplotlib import pyplot as plt

    lines = bd.plot_trajectories(model).lines
    shown = bd.plot_clusters(model).legends[0].get_patches()
    plt.close("all")
    assert [to_hex(line.get_color()) for line in lines] == COLOURS
    assert [to_hex(patch.get_facecolor()) for patch in shown] == COLOURS


def test_the_report_shows_the_colours(model):
    page = bd.build_report(model).html
    found = re.search(r'<script[^>]*id="report-data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert [cluster["colour"] for cluster in json.loads(found[1])["clusters"]] == COLOURS
    assert re.findall(r'rx="4" fill="(#[0-9a-f]{6})"', page) == COLOURS


@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_every_cluster_has_its_own_colour(n):
    assert len(set(cluster_colours(n))) == n


@pytest.mark.parametrize(
    ("amplitudes", "expected"),
    [([-6.0, 1.0], False), ([6.0, -1.0], True), ([2.0, 1.0], False), ([-2.0, -1.0], True)],
)
def test_most_of_the_brain_decides_which_end_of_a_scale_is_dark(amplitudes, expected):
    shares = np.repeat(np.eye(2), [1, 9], axis=0)
    assert low_is_dark(np.array(amplitudes), shares) is expected
