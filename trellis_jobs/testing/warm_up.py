"""Streams that are there before a test asks for them.

A server takes some 150 ms until a new work queue gets what is in its log. So accounts are
provisioned ahead of the tests that will get them, as a service does that itself.
"""

from __future__ import annotations

import asyncio
import logging
from queue import SimpleQueue
from threading import Thread
from typing import Final

from trellis_jobs.contract.topology import Topology
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import Connection, ConnectionLost
from trellis_jobs.jetstream.setup.features import detect_features
from trellis_jobs.jetstream.setup.provision import provision

log = logging.getLogger(__name__)

_LAST_MOMENTS: Final = 5.0


class WarmUp:
    """In a thread and a loop of its own: tests bring theirs, or none."""

    def __init__(self) -> None:
        self._wanted: SimpleQueue[str | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="trellis-jobs-warm-up", daemon=True)
        self._thread.start()

    def want(self, url: str) -> None:
        self._wanted.put(url)

    def stop(self) -> None:
        self._wanted.put(None)
        self._thread.join(_LAST_MOMENTS)

    def _run(self) -> None:
        while (url := self._wanted.get()) is not None:
            try:
                asyncio.run(_provision(url))
            except (JobsError, ConnectionLost) as error:
                # The test that gets this account provisions it itself, and says what is wrong.
                log.debug("an account was not prepared: %s", error, extra={"error": str(error)})


async def _provision(url: str) -> None:
    connection = await Connection.open(url, name="warm-up")
    try:
        await provision(connection, Topology(await detect_features(connection)))
    finally:
        await connection.close()
