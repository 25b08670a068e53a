"""The workers of a Dask cluster that a command may spread its fits over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import braindive as bd

# Seconds that a scheduler has to answer, those of a cluster under load included: a choice.
_PATIENCE = 5.0


@contextmanager
def connect(address: str | None) -> Iterator[Any]:
    """Connect to a Dask scheduler, or to nothing."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise bd.ClusterError(
            'Dask is not installed; get it with: pip install "braindive[cluster]"'
        ) from None
    # What goes wrong is told by an error of our own, in one line. Some of Dask's loggers have a
    # level of their own, and the others that of all.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        _knock(address)
        client = Client(address, timeout=_PATIENCE)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        why = str(error) or type(error).__name__
        raise bd.ClusterError(f"no Dask scheduler answers at {address} ({why}).") from error
    with client:
        yield client


def _knock(address: str) -> None:
    """Fail where something else than Dask listens, for which a client would wait for ever."""
    if address.startswith("tls://"):  # needs the client's own certificates
        return
    from distributed.comm.core import connect as connect_to

    async def shake_hands() -> None:
        comm = await connect_to(address, timeout=_PATIENCE)  # type: ignore[no-untyped-call]
        comm.abort()

    try:
        asyncio.run(asyncio.wait_for(shake_hands(), 2 * _PATIENCE))
    except TimeoutError:
        raise TimeoutError(f"nothing was heard for {2 * _PATIENCE:g} s") from None
