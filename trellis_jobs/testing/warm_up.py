"""Creates the streams of accounts before tests need them.

After its creation, a work queue takes about 150 ms until it gets messages from the log. So accounts
are provisioned ahead of the tests that will use them.
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

_JOIN_TIMEOUT: Final = 5.0


class WarmUp:
    """Uses its own thread and event loop, because tests may have none."""

    def __init__(self) -> None:
        self._urls: SimpleQueue[str | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="trellis-jobs-warm-up", daemon=True)
        self._thread.start()

    def prepare(self, url: str) -> None:
        self._urls.put(url)

    def stop(self) -> None:
        self._urls.put(None)
        self._thread.join(_JOIN_TIMEOUT)

    def _run(self) -> None:
        while (url := self._urls.get()) is not None:
            try:
                asyncio.run(_provision(url))
            except (JobsError, ConnectionLost) as error:
                # The service of the test provisions the account again, and reports the error.
                log.debug("could not prepare an account: %s", error, extra={"error": str(error)})


async def _provision(url: str) -> None:
    connection = await Connection.open(url, name="warm-up")
    try:
        await provision(connection, Topology(await detect_features(connection)))
    finally:
        await connection.close()
