"""Take the picture of the report that the README shows: the demo, opened in a browser.

Usage: python docs/picture.py REPORT PICTURE
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

WIDTH, HEIGHT = 1140, 960


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
                "window.scrollTo(0, document.getElementById('explore').offsetTop - 12);"
                "document.querySelector('tr[data-person=\"7\"]').click()"
            )
            time.sleep(3)
            seen = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
        finally:
            browser.quit()
    picture.parent.mkdir(exist_ok=True)
    seen.crop((0, 0, WIDTH, 776)).save(picture, optimize=True)


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))
