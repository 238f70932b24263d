"""Where an example runs: beside a server of its own, or at NATS_URL, where workers run already."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from trellis_jobs import ConnectOptions, Service
from trellis_jobs.embedded import EmbeddedServer


@asynccontextmanager
async def on_stage(service: Service[Any]) -> AsyncIterator[None]:
    """With a server of its own it works as well; at NATS_URL it only creates jobs."""
    # The examples print what their jobs go through. Without this the worker's warnings and errors
    # would appear on stderr between those lines.
    logging.getLogger("trellis_jobs").setLevel(logging.CRITICAL)
    if "NATS_URL" in os.environ:
        async with service.connect(ConnectOptions.from_environment(), workers=False):
            yield
        return
    with EmbeddedServer.start() as server:
        async with service.connect(server.url):
            yield
