"""The report, opened in a browser, at its largest: 20,484 vertices, 20 clusters, 1,000 people."""

import base64
import contextlib
import io
import itertools
import json
import re
import time
from importlib.resources import files
from types import SimpleNamespace

import matplotlib.image
import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from scipy import ndimage
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import braindive as bd
from braindive.io.anatomy import find_anatomy
from braindive.io.atlas_names import DESIKAN_KILLIANY, read_region_name
from braindive.palette import cluster_colours


@pytest.fixture(scope="module")
def model(make_model):
    return make_model(bd.load_space("fsaverage5"), n_clusters=20, n_subjects=1000)


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    return bd.build_report(model).save(tmp_path_factory.mktemp("report") / "report.html")


@contextlib.contextmanager
def opened(browser, path):
    """A tab of its own for a page, painted for the first time."""
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # what came before is not this page's
    home = browser.current_window_handle
    browser.switch_to.new_window("tab")
    try:
        browser.get(path.as_uri())
        wait_for_people(browser)  # made after the first picture
        yield browser
    finally:
        browser.close()
        browser.switch_to.window(home)


@contextlib.contextmanager
def screen(browser, width, height, colours="light"):
    """A screen of this size, for a while."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    media = {"features": [{"name": "prefers-color-scheme", "value": colours}]}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def wait_for_people(browser):
    wait(browser, "return document.querySelectorAll('#people-table tbody tr').length > 0")


def errors(browser):
    return [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]


def wait(browser, script, seconds=90):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = browser.execute_script(script)
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"still not so after {seconds} s: {script}")


@pytest.fixture(scope="module")
def page(browser, path):
    """One page for all who only use it: each test brings it to where it needs it."""
    browser.get(path.as_uri())
    wait_for_people(browser)
    return browser


def text(page, selector):
    return page.find_element(By.CSS_SELECTOR, selector).text


def act(page, what):
    """Do something, a script or a call, and wait until the brain was drawn anew and rests."""
    count = "return Number(document.getElementById('stage').dataset.frame)"
    before = page.execute_script(count)
    what() if callable(what) else page.execute_script(what)
    wait(page, f"{count} > {before}")
    rest(page)


def rest(page):
    """Wait until the browser painted three times and the brain had no reason to be drawn anew."""
    page.execute_async_script(
        "const done = arguments[0], stage = document.getElementById('stage');"
        "let frame = stage.dataset.frame, quiet = 0;"
        "const look = () => {"
        "  quiet = stage.dataset.frame === frame ? quiet + 1 : 0; frame = stage.dataset.frame;"
        "  if (quiet < 3) requestAnimationFrame(look); else done();"
        "};"
        "requestAnimationFrame(look);"
    )


def slide(page, score):
    act(
        page,
        f"const s = document.getElementById('score'); s.value = {score};"
        "s.dispatchEvent(new Event('input'))",
    )


def picture(page):
    """The brain as pixels, (height, width, 3), from 0 to 1, with nothing scrolled over it."""
    page.execute_script("document.getElementById('stage').scrollIntoView({block: 'end'})")
    png = base64.b64decode(page.find_element(By.ID, "stage").screenshot_as_base64)
    return matplotlib.image.imread(io.BytesIO(png))[:, :, :3]


def test_file_is_below_ten_megabytes(path):
    assert path.stat().st_size < 10_000_000


def test_first_screen_shows_four_views_and_says_in_words_what_is_shown(page, model):
    """At 1400 x 900: the whole picture, its views with their directions, and the four answers."""
    with screen(page, 1400, 900):
        page.execute_script("window.scrollTo(0, 0)")
        rest(page)
        box = page.execute_script(
            "const b = document.getElementById('stage').getBoundingClientRect();"
            "return [b.left, b.top, b.width, b.height]"
        )
        left, top, width, height = (round(side) for side in box)
        assert top > 0
        assert top + height < 900
        seen = base64.b64decode(page.get_screenshot_as_base64())
        image = matplotlib.image.imread(io.BytesIO(seen))[:, :, :3]
        stage = image[top : top + height, left : left + width]
        ground = stage[4, width // 2]
        for row in (np.s_[: height // 2], np.s_[height // 2 :]):
            for column in (np.s_[: width // 2], np.s_[width // 2 :]):
                share = (np.abs(stage[row, column] - ground).max(axis=2) > 0.05).mean()
                assert 0.3 < share < 0.9
        marks = page.execute_script(
            "return [...document.querySelectorAll('.layer.words span')].map(s => s.textContent)"
        )
        words = text(page, ".words")
        tops = page.execute_script(
            "return [...document.querySelectorAll('.words div')].map("
            "d => d.getBoundingClientRect().bottom)"
        )
    titles = ["Left lateral", "Right lateral", "Left medial", "Right medial"]
    assert [mark for mark in marks if len(mark) > 1] == titles
    assert [mark for mark in marks if len(mark) == 1].count("A") == 4
    assert max(tops) < top
    assert "20,484 vertices of fsaverage5" in words
    assert "0 is where the earliest area is half-way, 1 is a year later" in words
    assert "Area 1: left and right" in words
    assert "Choose a person" in words


def test_nothing_is_logged_as_an_error_and_nothing_is_requested(browser, path):
    with opened(browser, path):
        slide(browser, 0.5)
        assert errors(browser) == []
        events = [json.loads(line["message"])["message"] for line in browser.get_log("performance")]
    urls = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert {url.partition("#")[0] for url in urls if not url.startswith("data:")} == {path.as_uri()}


def test_brain_darkens_where_the_model_says_and_not_elsewhere(browser, make_model, tmp_path):
    space = bd.load_space("fsaverage5")
    model = make_model(space, n_clusters=20, n_subjects=1000, certainty=1.0)
    middle = float(model.trajectories_.midpoint.mean())
    images = {}
    with opened(browser, bd.build_report(model).save(tmp_path / "report.html")):
        act(browser, "document.querySelector('[data-view=left]').click()")
        browser.execute_script("document.querySelector('.layer.words').remove()")
        for score in (-2.4, middle):
            slide(browser, score)
            images[score] = picture(browser).mean(axis=2)
        # Before anything has changed, shading alone is on the brain.
        slide(browser, -1e9)
        untouched = picture(browser)
        ramp = browser.execute_script(
            "return document.getElementById('scale-bar').style.background.match(/rgb\\([^)]*\\)/g)"
        )
    fall = images[-2.4] - images[middle]
    # Areas run from back (early) to front (late); seen from the left, the front is on the left.
    ground = images[-2.4][4, images[-2.4].shape[1] // 2]  # the corners are round
    is_brain = np.abs(images[-2.4] - ground) > 0.05
    columns = np.flatnonzero(is_brain.any(axis=0))
    quarter = (columns[-1] - columns[0]) // 4
    front = np.s_[:, columns[0] : columns[0] + quarter]
    back = np.s_[:, columns[-1] - quarter : columns[-1]]
    assert is_brain.mean() > 0.2
    assert fall[back][is_brain[back]].mean() > 0.2
    assert abs(fall[front][is_brain[front]].mean()) < 0.03
    # Folds in the shade are lighter than half-way along the scale, and no colour is near black.
    colours = np.array([[int(x) for x in rgb[4:-1].split(",")] for rgb in ramp]) / 255
    inside = ndimage.binary_erosion(is_brain, iterations=3)
    assert untouched.mean(axis=2)[inside].min() > colours[len(colours) // 2].mean() + 0.05
    assert luminance(colours).min() > 0.08


def luminance(rgb):
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def test_play_moves_the_slider_and_the_brain_and_pauses(page):
    slide(page, -1.5)
    before = float(page.find_element(By.ID, "score").get_property("value"))
    first = picture(page)
    # A clock that goes 50 ms with each frame, however long a frame takes, and a click on the button
    # in the frame in which the slider has gone far enough.
    page.execute_script(
        "const play = document.getElementById('play'), slider = document.getElementById('score');"
        "const real = window.requestAnimationFrame; let now = 0;"
        "window.restoreTheClock = () => { window.requestAnimationFrame = real; };"
        "window.requestAnimationFrame = (call) => real.call(window, () => {"
        "  call(now += 50);"
        f"  if (play.ariaPressed === 'true' && slider.value > {before + 0.5}) play.click();"
        "});"
    )
    page.find_element(By.ID, "play").click()
    wait(
        page,
        f"return document.getElementById('score').value > {before + 0.5}"
        " && document.getElementById('play').ariaPressed === 'false'",
    )
    page.execute_script("window.restoreTheClock()")
    after = float(page.find_element(By.ID, "score").get_property("value"))
    assert before + 0.5 < after < before + 0.7
    rest(page)
    assert float(page.find_element(By.ID, "score").get_property("value")) == after
    assert np.abs(picture(page) - first).max() > 0.2


def test_each_mode_shows_another_picture(page):
    slide(page, 0.0)
    images = []
    for mode in ("change", "rate", "cluster", "confidence", "midpoint", "value"):
        act(page, f"document.querySelector('input[value={mode}]').click()")
        images.append(picture(page))
    for i in range(6):
        for j in range(i):
            assert np.abs(images[i] - images[j]).max() > 0.1, (i, j)


def test_area_mode_shows_the_colours_of_the_clusters(page):
    act(page, "document.querySelector('input[value=confidence]').click()")
    act(page, "document.querySelector('input[value=cluster]').click()")
    pixels = picture(page).reshape(-1, 3)
    hues = pixels / np.maximum(np.linalg.norm(pixels, axis=1, keepdims=True), 1e-6)
    colours = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in cluster_colours(20)]
    known = np.array(colours) / np.linalg.norm(colours, axis=1, keepdims=True)
    act(page, "document.querySelector('input[value=value]').click()")
    nearest = (hues @ known.T).max(axis=1)
    assert ((hues @ known.T).max(axis=0) > 0.999).all()
    # Colours of neighbouring areas do not mix; ground, words and wall are grey.
    is_grey = hues.max(axis=1) - hues.min(axis=1) < 0.1
    assert np.mean(nearest[~is_grey] > 0.995) > 0.97


def point_at(page, across, down):
    """Move the pointer to a place of the stage, in shares of its width and height."""
    stage = page.find_element(By.ID, "stage")
    page.execute_script("arguments[0].scrollIntoView({block: 'end'})", stage)
    width, height = stage.size["width"], stage.size["height"]
    offset = round((across - 0.5) * width), round((down - 0.5) * height)
    return ActionChains(page).move_to_element_with_offset(stage, *offset)


def test_the_region_under_the_pointer_is_named_and_a_click_shows_its_course(page, model):
    slide(page, 0.25)
    act(page, "document.querySelector('[data-view=all]').click()")
    anatomy = find_anatomy(model.space_)
    for across, side in ((0.25, "left"), (0.75, "right")):
        point_at(page, across, 0.25).perform()
        hovered = wait(
            page,
            "const t = document.getElementById('hover').textContent;"
            f"return t.startsWith('{side}') && t",
        )
        point_at(page, across, 0.25).click().perform()
        said = wait(
            page,
            "const t = document.getElementById('vertex').textContent;"
            f"return t.includes('{side} hemisphere') && t",
        )
        number, _, rest = said.partition(f", {side} hemisphere): ")
        vertex = int(number.partition("(vertex ")[2].replace(",", ""))
        vertex += 10_242 if side == "right" else 0
        region = anatomy.of_vertices()[vertex]
        assert region.startswith(side)
        assert said.lower().startswith(region)
        area = f"Area {model.labels_[vertex] + 1}"
        assert hovered == f"{region} · {area}"
        score = float(page.find_element(By.ID, "score").get_property("value"))
        expected = model.responsibilities_[vertex] @ model.trajectories_.evaluate([score])[0]
        rate = model.responsibilities_[vertex] @ model.trajectories_.slope([score])[0]
        assert rest.startswith(f"{area},")
        assert same(rest.split("Expected value ")[1].split(",")[0], expected)
        assert same(rest.split("rate ")[1].split(" at")[0], rate)
    # The slider's place on the area's curve, and a ring around the vertex where it is in front.
    line = page.find_element(By.CSS_SELECTOR, "#curves .cursor").get_attribute("x1")
    dot = page.find_element(By.CSS_SELECTOR, "#curves .place")
    assert dot.get_attribute("visibility") == "visible"
    assert dot.get_attribute("cx") == line
    rings = page.find_elements(By.CSS_SELECTOR, ".layer .ring")
    stage = page.find_element(By.ID, "stage")
    assert len(rings) == 1
    middle = rings[0].location["x"] + rings[0].size["width"] / 2 - stage.location["x"]
    assert middle == pytest.approx(0.75 * stage.size["width"], abs=8)


def test_click_beside_the_brain_chooses_nothing_and_a_choice_can_be_cleared(page):
    before = text(page, "#vertex")
    assert before.startswith(("Left", "Right"))
    point_at(page, 0.5, 0.04).click().perform()
    rest(page)
    assert text(page, "#vertex") == before
    page.find_element(By.ID, "clear-place").click()
    assert text(page, "#vertex").startswith("Point at the brain")
    assert not page.find_element(By.ID, "clear-place").is_displayed()
    area = page.find_element(By.CSS_SELECTOR, "#areas tbody tr button")
    area.click()
    assert text(page, "#vertex").startswith("Area 1:")
    area.click()
    assert text(page, "#vertex").startswith("Point at the brain")


def same(shown, number):
    """Whether a text shows a number to three digits."""
    return float(shown) == pytest.approx(number, rel=0.0051, abs=1e-12)


def test_values_of_the_areas_equal_the_model(page, model):
    slide(page, 0.4)
    score = float(page.find_element(By.ID, "score").get_property("value"))
    values = model.trajectories_.evaluate([score])[0]
    rates = model.trajectories_.slope([score])[0]
    rows = page.execute_script(
        "return [...document.querySelectorAll('#areas tbody tr')].map("
        "r => [...r.querySelectorAll('td')].map(c => c.textContent))"
    )
    assert len(rows) == 20
    for k, (_, midpoint, value, rate, where) in enumerate(rows):
        assert float(midpoint) == float(f"{model.trajectories_.midpoint[k]:.3g}")
        assert float(value) == float(f"{values[k]:.3g}")
        assert float(rate.replace(" \u00d7 10^", "e")) == float(f"{rates[k]:.3g}")
        assert re.search(r"^[a-z ]+ \(\d+ %\)", where)


def test_table_is_sorted_by_any_column(page, model):
    heading = "[...document.querySelectorAll('#people-table thead button')]"
    cells = (
        "return [...document.querySelectorAll('#people-table tbody tr')].map("
        "r => Number(r.cells[3].textContent))"
    )
    page.execute_script(f"{heading}[3].click()")
    rising = page.execute_script(cells)
    page.execute_script(f"{heading}[3].click()")
    falling = page.execute_script(cells)
    assert rising == [float(f"{x:.3g}") for x in np.sort(model.speeds_)]
    assert falling == rising[::-1]


def test_table_is_searched_as_one_types(page):
    search = page.find_element(By.ID, "search")
    search.send_keys("sub-012")
    assert text(page, "#found") == "10 of 1000 people"
    shown = page.find_elements(By.CSS_SELECTOR, "#people-table tbody tr:not([hidden])")
    assert len(shown) == 10
    search.send_keys(Keys.CONTROL, "a", Keys.DELETE)
    assert text(page, "#found") == "1000 people"


def test_choosing_a_person_by_keyboard_puts_the_slider_at_their_stage(page, model):
    page.find_element(By.CSS_SELECTOR, "tr[data-person='7'] button").send_keys(Keys.ENTER)
    score = float(page.find_element(By.ID, "score").get_property("value"))
    step = float(page.find_element(By.ID, "score").get_attribute("step"))
    assert abs(score - model.scores_[14]) <= step
    assert text(page, "#score-shown") == f"{model.scores_[14]:#.3g}"
    when = "before" if model.scores_[14] < 0 else "after"
    words = f"{abs(model.scores_[14]):.1f} years {when} the earliest area is half-way"
    assert text(page, "#score-words") == words
    said = text(page, "#person")
    first, error = model.scores_[14], model.baseline_scores_se_[7]
    assert said.startswith("sub-0007 (patient) stands at ")
    assert f"± {float(f'{error:.2g}'):.3g}" in said
    low, high = (float(x) for x in re.search(r"between (\S+) and (\S+)\.", said).groups())
    assert low == pytest.approx(first - 1.96 * error, abs=0.01)
    assert high == pytest.approx(first + 1.96 * error, abs=0.01)
    band = page.find_element(By.CSS_SELECTOR, "#curves .sure")
    assert float(band.get_attribute("width")) > 10


def test_a_person_is_chosen_and_cleared_in_four_ways(page):
    chooser = "const s = document.getElementById('who'); s.value = '{}';"
    chooser += "s.dispatchEvent(new Event('change'))"

    def chosen():
        rows = page.find_elements(By.CSS_SELECTOR, "#people-table tr.chosen")
        return [row.get_attribute("data-person") for row in rows]

    page.execute_script(chooser.format(9))
    assert chosen() == ["9"]
    assert text(page, "#person").startswith("sub-0009")
    page.find_element(By.ID, "clear-person").click()
    assert chosen() == []
    row = page.find_element(By.CSS_SELECTOR, "tr[data-person='3'] button")
    row.send_keys(Keys.ENTER)
    assert chosen() == ["3"]
    row.send_keys(Keys.ENTER)
    assert chosen() == []
    row.send_keys(Keys.ENTER)
    row.send_keys(Keys.ESCAPE)
    assert chosen() == []
    page.execute_script(chooser.format(4))
    page.execute_script(chooser.format(""))
    assert chosen() == []
    assert text(page, "#person").startswith("Choose a person")
    assert page.find_elements(By.CSS_SELECTOR, "#curves .own *") == []


def test_ticks_have_the_colours_of_the_diagnoses(page, model):
    colours = page.execute_script(
        "return [...document.querySelectorAll('#curves .people line')].map("
        "l => l.getAttribute('stroke'))"
    )
    healthy = model.visits_.drop_duplicates("subject")["diagnosis"] == "CN"
    assert len(colours) == 1000
    assert {c for c, cn in zip(colours, healthy, strict=True) if cn} == {colours[0]}
    assert {c for c, cn in zip(colours, healthy, strict=True) if not cn} == {colours[1]}
    assert colours[0] != colours[1]
    assert text(page, "#diagnoses").split() == ["CN", "patient"]


def test_bands_around_curves_have_the_width_of_their_errors(page, model):
    paths = page.execute_script(
        "return ['.curve', '.band'].map(c => "
        "document.querySelector(`#curves ${c}`).getAttribute('d'))"
    )
    curve, band = (np.array(re.findall(r"([-\d.]+) ([-\d.]+)", d), float) for d in paths)
    upper, lower = band[: len(curve)], band[len(curve) :][::-1]
    values = model.trajectories_.evaluate([-10.0, 10.0])[:, 0]
    per_pixel = np.ptp(values) / np.ptp(curve[:, 1])
    middle = len(curve) // 2
    data = page.execute_script(
        "return JSON.parse(document.getElementById('report-data').textContent).range"
    )
    score = (data["low"] + data["high"]) / 2
    width = 2 * 1.96 * model.trajectory_errors([score])[0, 0]
    assert (lower[middle, 1] - upper[middle, 1]) * per_pixel == pytest.approx(width, rel=0.05)


def downloaded(page, folder, button, name):
    """Press a button and return the path of the file that it gives."""
    page.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)}
    )
    page.execute_script(f"document.getElementById('{button}').click()")
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = [path for path in folder.glob(name) if path.stat().st_size]
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"no {name} after 60 s")


def test_picture_and_tables_are_saved(page, model, tmp_path):
    slide(page, 0.5)
    act(page, "document.querySelector('[data-view=all]').click()")
    saved = downloaded(page, tmp_path, "save-picture", "brain-value-*.png")
    image = matplotlib.image.imread(saved)[:, :, :3]
    stage = page.find_element(By.ID, "stage").size
    assert image.shape[1] == stage["width"]
    assert image.shape[0] > stage["height"]
    assert (image[:4] == 1).all()  # white paper
    part = image[34 : 34 + stage["height"]]
    for row in np.array_split(part, 2):
        for column in np.array_split(row, 2, axis=1):
            assert 0.3 < (np.abs(column - 1).max(axis=2) > 0.02).mean() < 0.95
    people = pd.read_csv(downloaded(page, tmp_path, "save-people", "people.csv"))
    assert people["Person"].tolist() == model.subjects_.tolist()
    np.testing.assert_allclose(people["Score"], model.scores_[::2])
    np.testing.assert_allclose(people["Score ±"], model.baseline_scores_se_)
    assert list(people.columns[-2:]) == ["Visits", "diagnosis"]
    areas = pd.read_csv(downloaded(page, tmp_path, "save-areas", "areas.csv"))
    expected = model.trajectories_.evaluate(areas["score"][:1])[0]
    np.testing.assert_allclose(areas["value"], expected, atol=1e-4)
    assert errors(page) == []


def test_a_link_keeps_what_is_chosen(page, path):
    def chosen():
        return page.execute_script(
            "const by = (id) => document.getElementById(id);"
            "return [Number(by('score').value), document.querySelector('input:checked').value,"
            "by('who').value, by('vertex').textContent, by('shape').value,"
            "document.querySelector('[data-view][aria-pressed=true]').dataset.view]"
        )

    try:
        link = "score=0.75&show=rate&view=right&shape=Folded&vertex=12345&person=7"
        page.execute_script(f"location.hash = '{link}'")
        wait(page, "return document.getElementById('who').value === '7'")
        score, mode, person, vertex, shape, view = chosen()
        assert score == pytest.approx(0.75, abs=0.03)
        assert (mode, person, shape, view) == ("rate", "7", "Folded", "right")
        assert "vertex 2,103, right hemisphere" in vertex
        # What is chosen on the page gets into the address, without the person's id.
        act(page, "document.querySelector('input[value=cluster]').click()")
        address = wait(page, "return location.hash.includes('show=cluster') && location.hash")
        assert "sub-" not in address
        assert "vertex=12345" in address
        page.execute_script("window.scrollTo(0, 0)")
        page.execute_script(
            "const button = document.getElementById('copy-link'); window.seen = [];"
            "new MutationObserver(() => window.seen.push(button.textContent)).observe("
            "button, {childList: true})"
        )
        page.find_element(By.ID, "copy-link").click()
        assert wait(page, "return window.seen.length && window.seen")[0] == "Copied"
        # What a link cannot mean is left out.
        page.execute_script(
            "location.hash = 'score=x&show=constructor&person=-1&vertex=1e9&view=no'"
        )
        wait(page, "return document.getElementById('who').value === ''")
        assert chosen()[1:3] == ["value", ""]
        assert chosen()[-1] == "all"
        assert errors(page) == []
    finally:
        shape = "const s = document.getElementById('shape'); s.value = 'Inflated';"
        act(page, shape + "s.dispatchEvent(new Event('change'))")


def test_slider_moves_with_the_arrow_keys(page):
    slide(page, 0.0)
    slider = page.find_element(By.ID, "score")
    before = float(slider.get_property("value"))
    slider.send_keys(Keys.ARROW_RIGHT)
    assert float(slider.get_property("value")) > before


def test_brain_is_turned_by_dragging_and_by_keys(page):
    act(page, "document.querySelector('[data-view=left]').click()")
    start = picture(page)
    stage = page.find_element(By.ID, "stage")
    assert "A" in text(page, ".layer.words")
    act(page, lambda: ActionChains(page).drag_and_drop_by_offset(stage, 90, 0).perform())
    assert "A" not in text(page, ".layer.words")  # the front no longer points to an edge
    dragged = picture(page)
    act(page, lambda: page.find_element(By.ID, "canvas").send_keys(Keys.ARROW_UP))
    assert np.abs(dragged - start).max() > 0.2
    assert np.abs(picture(page) - dragged).max() > 0.2


def extent(image):
    """Pixels that are not ground, which is the colour of the lower left corner."""
    return int((np.abs(image - image[-12, 12]).max(axis=2) > 0.05).sum())


def test_brain_grows_and_shrinks_by_button_key_and_wheel(page):
    act(page, "document.querySelector('[data-view=left]').click()")
    whole = extent(picture(page))
    act(page, "document.querySelector('[data-zoom=\"0.8\"]').click()")
    smaller = extent(picture(page))
    canvas = page.find_element(By.ID, "canvas")
    act(page, lambda: canvas.send_keys("-"))
    smallest = extent(picture(page))
    act(
        page,
        "document.querySelector('#canvas').dispatchEvent(new WheelEvent('wheel', {deltaY: -200}))",
    )
    assert smallest < 0.9 * smaller < 0.81 * whole
    assert extent(picture(page)) > 1.2 * smallest
    act(page, "document.querySelector('[data-view=left]').click()")


def test_two_fingers_make_the_brain_larger(page):
    act(page, "document.querySelector('[data-view=left]').click()")
    act(page, "document.querySelector('[data-zoom=\"0.8\"]').click()")
    before = extent(picture(page))
    finger = (
        "const c = document.getElementById('canvas'), b = c.getBoundingClientRect();"
        "c.setPointerCapture = () => {};"
        "const go = (kind, id, x) => c.dispatchEvent(new PointerEvent(kind,"
        "{pointerId: id, clientX: b.left + x, clientY: b.top + 100}));"
    )
    act(
        page,
        finger + "go('pointerdown', 91, 100); go('pointerdown', 92, 200);"
        "go('pointermove', 92, 225); go('pointerup', 91, 100); go('pointerup', 92, 225);"
        "delete c.setPointerCapture",
    )
    assert extent(picture(page)) > 1.2 * before
    act(page, "document.querySelector('[data-view=left]').click()")


def test_medial_view_and_folded_surface_are_other_pictures(page):
    act(page, "document.querySelector('[data-view=left]').click()")
    lateral = picture(page)
    act(page, "document.querySelector('[data-view=left-medial]').click()")
    medial = picture(page)
    act(
        page,
        "const s = document.getElementById('shape'); s.value = 'Folded';"
        "s.dispatchEvent(new Event('change'))",
    )
    folded = picture(page)
    act(
        page,
        "const s = document.getElementById('shape'); s.value = 'Inflated';"
        "s.dispatchEvent(new Event('change'))",
    )
    assert np.abs(lateral - medial).max() > 0.2
    assert np.abs(folded - medial).max() > 0.2


def test_browser_without_webgl_says_so_and_shows_the_rest(browser, path):
    no_webgl = (
        "const real = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
        "return kind.startsWith('webgl') ? null : real.call(this, kind, ...rest); };"
    )
    with opened(browser, path):
        added = browser.execute_cdp_cmd(
            "Page.addScriptToEvaluateOnNewDocument", {"source": no_webgl}
        )
        browser.refresh()
        wait_for_people(browser)
        assert "WebGL 2" in text(browser, "#no-brain")
        assert len(browser.find_elements(By.CSS_SELECTOR, "#curves .curve")) == 20
        assert errors(browser) == []
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


@pytest.mark.parametrize("width", [700, 390])
def test_columns_of_the_areas_stay_apart_on_narrow_screens(page, width):
    with screen(page, width, 900):
        places = page.execute_script(
            """return [...document.querySelectorAll("#areas thead th")].map((cell) => {
              const words = document.createRange();
              words.selectNodeContents(cell);
              return [words.getBoundingClientRect().left, words.getBoundingClientRect().right];
            })"""
        )
    gaps = [after[0] - before[1] for before, after in itertools.pairwise(places)]
    assert len(gaps) == 4
    assert min(gaps) > 2


def test_the_table_of_areas_can_be_saved_without_scrolling_to_its_end(page):
    """Twenty areas scroll; the button below them does not."""
    box, below = (
        page.find_element(By.CSS_SELECTOR, selector).rect
        for selector in (".side .scroll", "#save-areas")
    )
    assert box["height"] > 600
    assert below["y"] >= box["y"] + box["height"]


def check_screens(page, n_rows, n_columns):
    """On a desk and on a phone, light and dark: every part of the picture has something on it."""
    for width, height in ((1400, 900), (390, 844)):
        for colours in ("light", "dark"):
            with screen(page, width, height, colours):
                page.execute_script("window.scrollTo(0, 0)")
                rest(page)
                assert page.execute_script("return document.documentElement.scrollWidth") <= width
                image = picture(page)
                background = page.execute_script(
                    "return getComputedStyle(document.body).backgroundColor"
                )
            brightness = max(int(x) for x in background[4:-1].split(","))
            assert brightness < 60 if colours == "dark" else brightness > 230
            assert image.shape[1] > 300
            ground = image[4, image.shape[1] // 2]
            for row in np.array_split(image, n_rows):
                for part in np.array_split(row, n_columns, axis=1):
                    share = (np.abs(part - ground).max(axis=2) > 0.1).mean()
                    assert 0.1 < share < 0.9, (width, colours)


def test_four_views_are_seen_on_a_desk_and_on_a_phone_light_and_dark(page):
    page.execute_script("document.querySelector('[data-view=all]').click()")
    check_screens(page, 2, 2)
    assert errors(page) == []


HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<!--<script>",
    "\u2028window.hacked = 1",
    "\"'`${window.hacked = 1}",
    "{{ 7 * 7 }}",
    "<b>bold</b>",
]


def test_hostile_names_and_notes_stay_text(browser, make_model, tmp_path):
    model = make_model(
        bd.load_space("fsaverage5-left"),
        n_subjects=len(HOSTILE),
        n_visits=1,
        names=HOSTILE,
        extra={"<svg onload=window.hacked=1>": HOSTILE, "diagnosis": HOSTILE},
    )
    columns = ["<svg onload=window.hacked=1>"]
    model.cluster_names_ = np.array(HOSTILE[:3], dtype=object)
    model.assignments = model.labels_
    page = bd.build_report(model, columns=columns, measure=HOSTILE[0])
    path = page.save(tmp_path / "report.html")
    with opened(browser, path):
        hacked, tags, people, areas = browser.execute_script(
            "const texts = (s) => [...document.querySelectorAll(s)].map(c => c.textContent);"
            "return [typeof window.hacked, document.querySelectorAll('b, img').length,"
            "texts('#people-table tbody th'), texts('#areas tbody th')]"
        )
        assert errors(browser) == []
    assert hacked == "undefined"
    assert tags == 0
    assert people == HOSTILE
    assert areas == HOSTILE[:3]


def grey_matter(step):
    """Every so many voxels, along each axis, of the grey matter that nilearn brings along."""
    name = "mni_icbm152_gm_tal_nlin_sym_09a_converted.nii.gz"
    image = nib.load(str(files("nilearn.datasets") / "data" / name))
    part = np.asarray(image.dataobj)[::step, ::step, ::step]
    return part, image.affine @ np.diag([step, step, step, 1.0])


def test_page_of_a_volume_has_three_planes_over_a_template(browser, make_model, tmp_path):
    grey, affine = grey_matter(step=4)
    mask = grey > 100
    model = make_model(bd.Volume("grey matter", mask, affine), n_clusters=3)
    report = bd.build_report(model, measure="density").save(tmp_path / "report.html")
    with opened(browser, report), screen(browser, 1400, 900):
        rest(browser)
        titles = text(browser, ".layer.words")
        assert re.findall("Coronal|Sagittal|Axial", titles) == ["Coronal", "Sagittal", "Axial"]
        assert "drag" not in text(browser, "#vertex")
        # Click half-way through the third plane, where front and right are known.
        place = browser.execute_script(
            "const span = [...document.querySelectorAll('.layer .mark')];"
            "const [l, r] = span.slice(8, 10).map(s => s.getBoundingClientRect());"
            "const b = document.getElementById('stage').getBoundingClientRect();"
            "const [x, y] = [(l.left + 3 * r.left) / 4 - b.left, (l.top + l.bottom) / 2 - b.top];"
            "return [x / b.width, y / b.height]"
        )
        point_at(browser, *place).perform()
        hovered = wait(browser, "return document.getElementById('hover').textContent")
        act(browser, lambda: point_at(browser, *place).click().perform())
        said = text(browser, "#vertex")
        x, y, z = (int(n.replace("\N{MINUS SIGN}", "-")) for n in re.search(
            r"voxel at (\S+), (\S+), (\S+) mm", said).groups())  # fmt: skip
        number = np.round(np.linalg.solve(affine, [x, y, z, 1])[:3]).astype(int)
        assert mask[tuple(number)]
        assert x > 10  # right of the middle
        column = int(mask.ravel()[: np.ravel_multi_index(number, mask.shape)].sum())
        region = find_anatomy(model.space_).of_vertices()[column]
        assert region == "" or said.lower().startswith(region)
        assert f"{x}, " in hovered.replace("\N{MINUS SIGN}", "-")
        assert f"x = {x} mm" in text(browser, ".layer.words").replace("\N{MINUS SIGN}", "-")
        before = picture(browser)
        # White matter, of which nothing was measured, is that of the template.
        greys = (np.ptp(before, axis=2) < 0.02) & (before.mean(axis=2) < 0.85)
        assert greys.mean() > 0.02
        act(
            browser,
            "const s = document.getElementById('score'); s.value = s.max;"
            "s.dispatchEvent(new Event('input'))",
        )
        assert np.abs(picture(browser) - before).max() > 0.2
        saved = downloaded(browser, tmp_path, "save-picture", "brain-value-*.png")
        assert matplotlib.image.imread(saved).shape[1] > 500
        check_screens(browser, 1, 2)
        assert errors(browser) == []


def test_page_of_regions_is_painted_on_the_cortex(browser, make_model, tmp_path):
    names = [f"{side}_{name}_thickness" for side in ("lh", "rh") for name in DESIKAN_KILLIANY]
    model = make_model(bd.Regions("aparc", (*names, "Left-Hippocampus")), certainty=1.0)
    report = bd.build_report(model, measure="thickness (mm)").save(tmp_path / "report.html")
    with opened(browser, report):
        point_at(browser, 0.25, 0.25).click().perform()
        said = wait(
            browser,
            "const t = document.getElementById('vertex').textContent;"
            "return t.includes('Expected') && t",
        )
        assert "Not drawn: left hippocampus" in text(browser, ".brain")
        check_screens(browser, 2, 2)
        areas = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#areas tbody tr")]
        assert errors(browser) == []
    region = said.partition(" (")[0].lower()
    words = [read_region_name(name).words for name in model.space_.names]
    area = model.labels_[words.index(region)]
    assert f"Area {area + 1}, 100% sure" in said
    assert "Expected thickness (mm) " in said
    for row, label in zip(areas, range(3), strict=True):
        listed = set(re.findall(r"([a-z ]+) \(100 %\)", row.replace("\n", " ")))
        members = {word for word, own in zip(words, model.labels_, strict=True) if own == label}
        assert {name.strip() for name in listed} <= members
        assert len(listed) == 20


def test_page_without_a_space_has_trajectories_and_table_only(browser, make_model, tmp_path):
    with opened(browser, bd.build_report(make_model(None)).save(tmp_path / "report.html")):
        wait(browser, "return document.querySelectorAll('#people-table tbody tr').length === 12")
        assert browser.find_elements(By.ID, "stage") == []
        assert len(browser.find_elements(By.CSS_SELECTOR, "#curves .curve")) == 3
        assert errors(browser) == []


# A small cluster that changes much one way, and the rest of the brain a little the other way.
@pytest.mark.parametrize(
    ("amplitudes", "high_is_dark"),
    [([-6.0, 1.0, 1.0], True), ([6.0, -1.0, -1.0], False), ([2.0, 1.0, 1.0], True)],
)
def test_page_and_figure_agree_on_the_dark_end(
    browser, make_model, tmp_path, amplitudes, high_is_dark
):
    model = make_model(bd.Volume("box", np.ones((10, 10, 4), dtype=bool), np.eye(4)), n_clusters=3)
    model.labels_ = np.repeat([0, 1, 2], [40, 180, 180])
    model.responsibilities_ = np.eye(3)[model.labels_]
    model.trajectories_ = bd.Trajectories(
        np.array(amplitudes), np.full(3, 4.0), np.array([-1.0, 0.0, 1.0]), np.zeros(3)
    )
    model.preprocessing_, model._internal = None, SimpleNamespace(known=np.ones(400, dtype=bool))
    colour_map = bd.plot_pathology(model, scores=[-1.0, 1.0]).axes[0].images[0].get_cmap()
    plt.close("all")
    low, high = (sum(colour_map(end)[:3]) for end in (0.0, 1.0))
    assert (high < low) == high_is_dark
    with opened(browser, bd.build_report(model).save(tmp_path / "report.html")):
        # The bar runs from light to dark, with the value of each end beside it.
        light, dark = (float(text(browser, f"#scale-{end}")) for end in ("low", "high"))
        ends = browser.execute_script(
            "return document.getElementById('scale-bar').style.background.match(/rgb\\([^)]*\\)/g)"
        )
        assert errors(browser) == []
    light_sum, dark_sum = (sum(int(x) for x in ends[at][4:-1].split(",")) for at in (0, -1))
    assert dark_sum < light_sum
    assert (dark > light) == high_is_dark
