"""Time the report in a browser: size, first picture and pictures per second while it plays.

Runs headless Chromium, which computes the graphics without a graphics card: a lower bound.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import braindive as bd

FIRST = "return performance.getEntriesByName('first-picture')[0]?.startTime"
FRAMES = "return Number(document.getElementById('stage').dataset.frame)"
PLAY = (
    "const s = document.getElementById('score'); s.value = s.min;"
    "s.dispatchEvent(new Event('input')); document.getElementById('play').click()"
)


def large_model(n_clusters: int, n_subjects: int) -> bd.DIVE:
    """A model of the size the report is made for, fitted to little and then enlarged."""
    random = np.random.default_rng(0)
    cohort = bd.simulate_cohort(n_subjects=20, n_vertices=50, noise=0.3, random_state=0).cohort
    model = bd.DIVE(n_clusters=2, random_state=0).fit(cohort)
    model.space_ = bd.load_space("fsaverage5")
    model.n_vertices_ = model.space_.n_vertices
    model.responsibilities_ = random.dirichlet(np.full(n_clusters, 0.1), model.n_vertices_)
    model.labels_ = model.responsibilities_.argmax(axis=1)
    model.trajectories_ = bd.Trajectories(
        np.full(n_clusters, -4.0),
        np.full(n_clusters, 5.0),
        np.linspace(-1.5, 1.5, n_clusters),
        np.zeros(n_clusters),
    )
    model.noise_ = np.ones(n_clusters)
    model.subjects_ = np.array([f"sub-{i:04d}" for i in range(n_subjects)], dtype=object)
    model.speeds_, model.shifts_ = np.ones(n_subjects), random.normal(size=n_subjects)
    subject = np.repeat(np.arange(n_subjects), 2)
    times = np.tile([0.0, 1.0], n_subjects)
    model.scores_ = model.shifts_[subject] + times
    model.speeds_se_ = model.baseline_scores_se_ = np.full(n_subjects, 0.3)
    model.trajectory_errors = lambda scores: np.full((len(scores), n_clusters), 0.1)
    model.visits_ = pd.DataFrame({"subject": model.subjects_[subject], "time": times})
    return model


def open_browser(profile: str) -> webdriver.Chrome:
    """Chromium without a window and without a graphics card."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",
        f"--user-data-dir={profile}",
        "--use-gl=angle",
        "--use-angle=swiftshader",
        "--enable-unsafe-swiftshader",
        "--window-size=1280,1000",
    ):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def measure(browser: webdriver.Chrome, page: Path, seconds: float) -> tuple[float, float]:
    """Seconds to the first picture, and pictures per second while playing."""
    browser.get("about:blank")  # what was played before is not this page's
    time.sleep(1)
    browser.get(page.resolve().as_uri())
    while not (first := browser.execute_script(FIRST)):
        time.sleep(0.05)
    time.sleep(2)  # the table is made meanwhile
    before = browser.execute_script(FRAMES)
    browser.execute_script(PLAY)
    time.sleep(seconds)
    return first / 1000, (browser.execute_script(FRAMES) - before) / seconds


def main() -> None:
    """Print the measurements of a large report, or of the pages that are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, help="reports, instead of a large one")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to play")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pages = arguments.pages
        if not pages:
            page = Path(folder) / "report.html"
            pages = [bd.build_report(large_model(20, 1000)).save(page)]
        browser = open_browser(str(Path(folder) / "profile"))
        try:
            # Turn by turn, so that other work on the machine is shared by all.
            times = [
                [measure(browser, page, arguments.seconds) for page in pages]
                for _ in range(arguments.repeats)
            ]
        finally:
            browser.quit()
        for page, results in zip(pages, zip(*times, strict=True), strict=True):
            first, rate = (sorted(values) for values in zip(*results, strict=True))
            print(
                f"{page.name}: {page.stat().st_size / 1e6:.2f} MB, first picture "
                f"{statistics.median(first):.2f} s ({first[0]:.2f} to {first[-1]:.2f}), "
                f"{statistics.median(rate):.1f} pictures per second"
            )


if __name__ == "__main__":
    main()
