"""Seeded campaigns: small in `make test`, large with `make attack` (BRAINDIVE_ATTACKS)."""

import os

import numpy as np
import pytest

import braindive as bd

# How many times as many tries as in `make test`.
TIMES = int(os.environ.get("BRAINDIVE_ATTACKS", "1"))
TALLIES = {}


class Tally:
    """Counts how tries ended, for the summary of a run."""

    def __init__(self, name):
        self.counts = TALLIES.setdefault(name, {})

    def add(self, ending):
        self.counts[ending] = self.counts.get(ending, 0) + 1


def pytest_terminal_summary(terminalreporter):
    """List every campaign with how its tries ended."""
    if not TALLIES or TIMES == 1:
        return
    terminalreporter.section("attacks")
    for name, counts in TALLIES.items():
        endings = ", ".join(f"{count:,} {ending}" for ending, count in sorted(counts.items()))
        terminalreporter.line(f"{name}: {sum(counts.values()):,} tries: {endings}")


@pytest.fixture
def tally(request):
    """Tally of the campaign, named after its test."""
    words = request.node.originalname.removeprefix("test_").replace("_", " ")
    return Tally(words)


@pytest.fixture(scope="session")
def tries():
    """Numbers of the tries of a campaign that has so many in `make test`."""
    return lambda few: range(few * TIMES)


@pytest.fixture(scope="session")
def line():
    """Twelve regions in a row."""
    names = [f"r{number}" for number in range(12)]
    return bd.Regions("line", names, [[number, number + 1] for number in range(11)])


@pytest.fixture(scope="session")
def people(line):
    """12 subjects x 3 visits of the regions, float32, with controls and a hole."""
    cohort = bd.simulate_cohort(
        12, 3, space=line, n_patches=3, noise=0.3, control_share=0.4, dtype="float32",
        random_state=2,
    ).cohort  # fmt: skip
    values = cohort.values.copy()
    values[3, 5] = np.nan
    return bd.Cohort(
        values,
        subjects=cohort.subjects,
        times=cohort.times,
        controls=cohort.controls,
        space=line,
    )


def pytest_collection_modifyitems(items):
    """Our own warnings are welcome in campaigns; those of others are errors as everywhere."""
    for item in items:
        if "attack" in item.path.parts:
            item.add_marker(pytest.mark.filterwarnings("ignore::braindive.errors.BraindiveWarning"))
