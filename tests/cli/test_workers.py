"""The connection of commands to the workers of a cluster."""

import pytest

from braindive.cli.workers import connect
from braindive.errors import ClusterError


def test_scheduler_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr("braindive.cli.workers._PATIENCE", 0.2)
    message = r"no Dask scheduler answers at tcp://127.0.0.1:1 "
    with pytest.raises(ClusterError, match=message), connect("tcp://127.0.0.1:1"):
        pass
