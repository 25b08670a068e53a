"""The report, opened in a browser, at its largest: 20,484 vertices, 20 clusters, 1,000 people."""

import base64
import contextlib
import io
import json
import time
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest
from matplotlib import pyplot as plt
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import braindive as bd
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


def test_first_picture_is_a_brain(browser, path):
    with opened(browser, path):
        first = picture(browser)
    ground = first[4, first.shape[1] // 2]  # the corners are round
    share = (np.abs(first - ground).max(axis=2) > 0.05).mean()
    assert 0.25 < share < 0.9


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
    assert {url for url in urls if not url.startswith("data:")} == {path.as_uri()}


def test_brain_darkens_where_the_model_says_and_not_elsewhere(browser, make_model, tmp_path):
    space = bd.load_space("fsaverage5")
    model = make_model(space, n_clusters=20, n_subjects=1000, certainty=1.0)
    middle = float(model.trajectories_.midpoint.mean())
    images = {}
    with opened(browser, bd.build_report(model).save(tmp_path / "report.html")):
        for score in (-2.4, middle):
            slide(browser, score)
            images[score] = picture(browser).mean(axis=2)
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
    shown = 0
    for colour in cluster_colours(20):
        rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=float)
        shown += bool((hues @ (rgb / np.linalg.norm(rgb)) > 0.999).any())
    act(page, "document.querySelector('input[value=value]').click()")
    assert shown == 20


def test_click_on_the_brain_shows_the_course_of_that_vertex(page, model):
    slide(page, 0.25)
    stage = page.find_element(By.ID, "stage")
    ActionChains(page).move_to_element_with_offset(stage, 12, -8).click().perform()
    said = wait(
        page,
        "const t = document.getElementById('vertex').textContent;"
        "return t.startsWith('Vertex') && t",
    )
    number, rest = said.removeprefix("Vertex ").split(", left hemisphere: ")
    vertex = int(number.replace(",", ""))
    score = float(page.find_element(By.ID, "score").get_property("value"))
    expected = model.responsibilities_[vertex] @ model.trajectories_.evaluate([score])[0]
    rate = model.responsibilities_[vertex] @ model.trajectories_.slope([score])[0]
    assert f"Area {model.labels_[vertex] + 1}," in rest
    assert same(rest.split("Expected value ")[1].split(",")[0], expected)
    assert same(rest.split("rate ")[1].split(" at")[0], rate)
    # The slider's place on the area's curve.
    line = page.find_element(By.CSS_SELECTOR, "#curves .cursor").get_attribute("x1")
    dot = page.find_element(By.CSS_SELECTOR, "#curves .place")
    assert dot.get_attribute("visibility") == "visible"
    assert dot.get_attribute("cx") == line


def test_click_beside_the_brain_chooses_nothing(page):
    act(page, "document.querySelector('[data-view=left]').click()")
    before = text(page, "#vertex")
    stage = page.find_element(By.ID, "stage")
    corner = [4 - stage.size["width"] // 2, 12 - stage.size["height"] // 2]
    ActionChains(page).move_to_element_with_offset(stage, *corner).click().perform()
    rest(page)
    assert text(page, "#vertex") == before


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
    for k, (_, midpoint, value, rate) in enumerate(rows):
        assert float(midpoint) == float(f"{model.trajectories_.midpoint[k]:.3g}")
        assert float(value) == float(f"{values[k]:.3g}")
        assert float(rate.replace(" \u00d7 10^", "e")) == float(f"{rates[k]:.3g}")


def test_table_is_sorted_by_any_column(page, model):
    heading = "[...document.querySelectorAll('#people-table thead button')]"
    cells = (
        "return [...document.querySelectorAll('#people-table tbody tr')].map("
        "r => Number(r.cells[2].textContent))"
    )
    page.execute_script(f"{heading}[2].click()")
    rising = page.execute_script(cells)
    page.execute_script(f"{heading}[2].click()")
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
    assert "sub-0007" in text(page, "#person")


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
    act(page, lambda: ActionChains(page).drag_and_drop_by_offset(stage, 90, 0).perform())
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
    act(page, "document.querySelector('[data-zoom]:last-of-type').click()")
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
    act(page, "document.querySelector('[data-zoom]:last-of-type').click()")
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


def test_medial_view_and_inflated_surface_are_other_pictures(page):
    act(page, "document.querySelector('[data-view=left]').click()")
    lateral = picture(page)
    act(page, "document.querySelector('[data-view=left-medial]').click()")
    medial = picture(page)
    act(
        page,
        "const s = document.getElementById('shape'); s.value = 'Inflated';"
        "s.dispatchEvent(new Event('change'))",
    )
    assert np.abs(lateral - medial).max() > 0.2
    assert np.abs(picture(page) - medial).max() > 0.2


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


def test_page_fits_a_phone(browser, path):
    phone = {"width": 375, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    with opened(browser, path):
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        assert browser.execute_script("return document.documentElement.scrollWidth") == 375


def test_dark_mode_is_dark(browser, path):
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    with opened(browser, path):
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert max(int(x) for x in ground[4:-1].split(",")) < 60


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
    model.cluster_names_ = np.array(HOSTILE[:3], dtype=object)
    model.assignments = model.labels_
    path = bd.build_report(model).save(tmp_path / "report.html")
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


def test_page_of_a_volume_shows_slices_that_change(browser, make_model, tmp_path):
    mask = np.zeros((12, 14, 10), dtype=bool)
    mask[2:10, 2:12, 1:9] = True
    model = make_model(bd.Volume("box", mask, np.eye(4)), n_clusters=3)
    with opened(browser, bd.build_report(model).save(tmp_path / "report.html")):
        before = picture(browser)
        act(
            browser,
            "const s = document.getElementById('score'); s.value = s.max;"
            "s.dispatchEvent(new Event('input'))",
        )
        assert np.abs(picture(browser) - before).max() > 0.2
        assert errors(browser) == []


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
