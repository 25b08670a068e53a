"""Models whose fitted attributes are set by hand, so that the report's truth is known."""

import shutil

import numpy as np
import pandas as pd
import pytest

import braindive as bd


def made_up_model(
    space,
    n_clusters=3,
    n_subjects=12,
    n_visits=2,
    names=None,
    extra=None,
    certainty=0.8,
):
    """A fitted DIVE made of chosen numbers: areas run from front to back where there is a space."""
    random = np.random.default_rng(0)
    n_vertices = space.n_vertices if space is not None else 50
    if isinstance(space, bd.Surface):
        along = np.concatenate([part.coordinates[part.mask, 1] for part in space.hemispheres])
    else:
        along = np.arange(n_vertices, dtype=float)
    labels = np.argsort(np.argsort(along)) * n_clusters // n_vertices
    noise = random.dirichlet(np.full(n_clusters, 0.3), size=n_vertices)
    model = bd.DIVE(n_clusters=n_clusters, random_state=0)
    model.responsibilities_ = certainty * np.eye(n_clusters)[labels] + (1 - certainty) * noise
    model.labels_ = model.responsibilities_.argmax(axis=1)
    model.trajectories_ = bd.Trajectories(
        random.uniform(-4.5, -3.5, n_clusters),
        random.uniform(4.0, 6.0, n_clusters),
        np.linspace(-1.5, 1.5, n_clusters),
        random.uniform(-0.2, 0.2, n_clusters),
    )
    model.noise_ = random.uniform(0.5, 1.5, n_clusters)
    subjects = names or [f"sub-{i:04d}" for i in range(n_subjects)]
    model.subjects_ = np.array(subjects, dtype=object)
    model.speeds_ = random.gamma(6.0, 0.05, n_subjects)
    model.shifts_ = random.normal(0.0, 1.0, n_subjects)
    subject = np.repeat(np.arange(n_subjects), n_visits)
    times = np.tile(np.arange(float(n_visits)), n_subjects)
    model.scores_ = model.speeds_[subject] * times + model.shifts_[subject]
    table = {"participant_id": model.subjects_[subject], "MMSE": 27.0}
    table["diagnosis"] = np.where(subject % 3, "patient", "CN")
    table |= extra or {}
    model.visits_ = pd.DataFrame(table).assign(subject=model.subjects_[subject], time=times)
    model.speeds_se_ = random.uniform(0.05, 0.2, n_subjects)
    model.shifts_se_ = random.uniform(0.2, 0.5, n_subjects)
    model.baseline_scores_se_ = random.uniform(0.2, 0.5, n_subjects)
    curves = model.trajectories_
    model.trajectory_errors = lambda scores: 0.1 + 0.05 * np.abs(curves.slope(np.asarray(scores)))
    model.preprocessing_ = None
    model.spatial_strength_ = 2.5
    model.objective_ = -1e5 / np.arange(1.0, 9.0)
    model.n_iter_, model.converged_, model.stop_reason_ = 8, True, "converged"
    model.log_likelihood_, model.aic_, model.bic_ = -12345.6, 24700.0, 24800.0
    model.cluster_names_ = np.arange(n_clusters)
    model.n_vertices_, model.space_ = n_vertices, space
    model.vertex_midpoints_ = model.trajectories_.midpoint[labels] + 0.2 * np.sin(along)
    model.vertex_midpoints_se_ = np.full(n_vertices, 0.3)
    model.warnings_, model.versions_ = [], {"braindive": "0.1.test", "numpy": "1.2.3"}
    model.progression_found_, model.progression_p_ = True, 0.0002
    return model


@pytest.fixture(scope="session")
def make_model():
    return made_up_model


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Headless Chromium that records its console and every request it makes."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
        "--use-gl=angle",
        "--use-angle=swiftshader",
        "--enable-unsafe-swiftshader",
        # Only WebGL needs the graphics card that is emulated; text drawn by it takes ten times as
        # long as by the processor itself.
        "--disable-gpu-rasterization",
        "--disable-gpu-compositing",
        "--window-size=1280,1000",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    driver.set_script_timeout(120)
    yield driver
    driver.quit()
