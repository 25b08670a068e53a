"""Tests that need a browser are never skipped in silence."""

from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


@pytest.fixture
def without_browser(pytester, monkeypatch):
    """A run of one test with and one without a browser, on a machine that has none."""
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def browser():
            raise AssertionError("not reached")

        def test_page(browser):
            pass

        def test_text():
            pass
        """
    )
    monkeypatch.setenv("PATH", str(pytester.path))
    return lambda: pytester.runpytest_inprocess("-p", "no:cacheprovider")


def test_the_summary_says_how_many_tests_were_not_run(without_browser, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    result = without_browser()
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines("1 browser tests were NOT run: no chromium and chromedriver*")


def test_a_missing_browser_is_an_error_on_a_server(without_browser, monkeypatch):
    monkeypatch.setenv("CI", "true")
    result = without_browser()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines("*no chromium and chromedriver*install them*")
