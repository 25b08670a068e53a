"""Make the pictures that pages show: the report of the demo in a browser, and people on the course.

Usage: python docs/picture.py REPORT FOLDER
"""

import io
import shutil
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import braindive as bd

WIDTH, HEIGHT = 1280, 900


def take(report: Path, picture: Path) -> None:
    """Open the report, place a person on it, and save what is seen."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory() as profile:
        for argument in (
            "--headless=new",
            "--no-sandbox",
            f"--user-data-dir={profile}",
            "--use-gl=angle",
            "--use-angle=swiftshader",
            "--enable-unsafe-swiftshader",
            "--hide-scrollbars",
        ):
            options.add_argument(argument)
        browser = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        try:
            size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.get(report.resolve().as_uri())
            while not browser.execute_script("return document.querySelector('tr[data-person]')"):
                time.sleep(0.1)
            browser.execute_script(
                "window.scrollTo(0, 0);document.querySelector('tr[data-person=\"7\"]').click()"
            )
            time.sleep(3)
            seen = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
        finally:
            browser.quit()
    seen.save(picture, optimize=True)


def draw_course(picture: Path) -> None:
    """Draw people's scans on the trajectories, as in the second example of the gallery."""
    cohort = bd.simulate_cohort(n_subjects=100, random_state=1).cohort
    model = bd.DIVE(n_clusters=3, personal=False, random_state=0).fit(cohort)
    ax = bd.plot_trajectories(model, cohort)
    ax.figure.savefig(picture, dpi=200)


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    folder.mkdir(exist_ok=True)
    draw_course(folder / "course.png")
    take(Path(sys.argv[1]), folder / "report.png")
