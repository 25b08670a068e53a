"""What a fit shows while it runs."""

import io

import pytest
from rich.console import Console

import braindive as bd
from braindive import progress


@pytest.fixture
def terminal(monkeypatch):
    """The standard error as a terminal whose text can be read."""
    text = io.StringIO()

    def console(**_):
        return Console(file=text, force_terminal=True, width=200)

    monkeypatch.setattr("rich.console.Console", console)
    return text


@pytest.fixture(scope="module")
def cohort():
    return bd.simulate_cohort(20, n_visits=3, n_vertices=40, noise=0.1, random_state=0).cohort


def fresh(**options):
    return bd.DIVE(2, n_init=1, personal=False, random_state=0, **options)


def test_a_verbose_fit_shows_its_passes_and_finds_the_same(cohort, terminal):
    seen = []
    shown = fresh(verbose=True).fit(cohort, callback=seen.append)
    # The bar may skip a pass that is over at once, but shows the last one when it ends.
    assert f"pass {seen[-1].iteration}, " in terminal.getvalue()
    assert (shown.scores_ == fresh().fit(cohort).scores_).all()


def test_a_fit_says_nothing_unless_it_is_asked(cohort, terminal, capfd):
    fresh().fit(cohort)
    assert terminal.getvalue() == ""
    assert capfd.readouterr() == ("", "")


def test_nothing_is_shown_where_there_is_no_terminal(cohort, capfd):
    fresh(verbose=True).fit(cohort)
    assert capfd.readouterr() == ("", "")


def test_time_left_is_not_told_while_labels_change_more_and_more():
    assert progress.passes_left([0.1, 0.2], tol=0.01) == float("inf")
