"""Runs an example with an embedded server, or at NATS_URL, where its workers already run."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from trellis_jobs import ConnectOptions, Service
from trellis_jobs.embedded import EmbeddedServer


@asynccontextmanager
async def running_example(service: Service[Any]) -> AsyncIterator[None]:
    """With an embedded server this process also runs workers. At NATS_URL it only creates jobs."""
    # Without this, the worker's warnings and errors would appear on stderr between the lines that
    # the example prints.
    logging.getLogger("trellis_jobs").setLevel(logging.CRITICAL)
    if "NATS_URL" in os.environ:
        async with service.connect(ConnectOptions.from_environment(), workers=False):
            yield
        return
    with EmbeddedServer.start() as server:
        async with service.connect(server.url):
            yield
