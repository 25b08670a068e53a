"""What goes wrong with a Dask cluster is told in a sentence, and soon."""

import socket

import numpy as np
import pytest

import braindive as bd
from braindive.cli import workers
from braindive.values.placement import Placement


class Cluster:
    """As much of a client as is asked before values are spread."""

    def __init__(self, status="running", memory=10**9, told=None):
        self.status, self._memory, self._told = status, memory, told
        self.scheduler, self.address = self, "tcp://a:0"

    def identity(self):
        return None

    def sync(self, *_):
        return {"workers": {"tcp://a:1": {"nthreads": 1, "memory_limit": self._memory}}}

    def run(self, function, *arguments, **_):
        return {"tcp://a:1": self._told or function(*arguments)}


def spread(client, n_vertices=100):
    values = np.zeros((10, n_vertices))
    return Placement.spread(client, values, None, False)


def test_port_that_accepts_and_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(workers, "_PATIENCE", 0.5)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen(5)
        address = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        with (
            pytest.raises(bd.ClusterError, match=f"no Dask scheduler answers at {address}"),
            workers.connect(address),
        ):
            pass


@pytest.mark.parametrize(
    ("client", "words"),
    [
        (Cluster(status="closed"), "the Dask client is closed"),
        (Cluster(told=ModuleNotFoundError("no")), "worker at tcp://a:1 has no braindive"),
        (Cluster(told="0.0.1"), "worker at tcp://a:1 has braindive 0.0.1, and this is"),
        (Cluster(memory=1000), "the workers have 1e-06 GB of memory together; pack the cohort"),
    ],
)
def test_cluster_that_cannot_do_the_work_is_told_before_it(client, words):
    with pytest.raises(bd.ClusterError, match=words):
        spread(client)


def test_cluster_that_can_do_the_work_is_not_refused():
    assert len(spread(Cluster()).sources) >= 1
