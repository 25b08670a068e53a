"""What tests and the examples of docstrings share: figures without a screen, closed after each."""

import os
import sys

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(autouse=True)
def closed_figures():
    """Close what a test or an example drew, in whichever process the files before it ran."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
