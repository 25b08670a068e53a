"""The connection of commands to the workers of a cluster."""

import logging

import pytest

from braindive.cli.workers import connect
from braindive.errors import ClusterError


def test_scheduler_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr("braindive.cli.workers._PATIENCE", 0.2)
    message = r"no Dask scheduler answers at tcp://127.0.0.1:1 "
    with pytest.raises(ClusterError, match=message), connect("tcp://127.0.0.1:1"):
        pass


def test_loggers_of_dask_say_nothing_of_their_own(monkeypatch):
    """One that has the level of all once told a user how a connection was closed."""
    monkeypatch.setattr("braindive.cli.workers._PATIENCE", 0.2)
    loggers = [logging.getLogger(f"distributed{name}") for name in ("", ".batched", ".client")]
    for logger in loggers:
        monkeypatch.setattr(logger, "level", logger.level)
    loggers[0].setLevel(logging.INFO)
    with pytest.raises(ClusterError), connect("tcp://127.0.0.1:1"):
        pass
    assert not any(logger.isEnabledFor(logging.ERROR) for logger in loggers)
