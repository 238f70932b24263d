"""Where the examples run: the server at NATS_URL, or one that lives as long as the example."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from trellis_jobs.embedded import EmbeddedServer


@contextmanager
def a_server() -> Iterator[str]:
    if "NATS_URL" in os.environ:
        yield os.environ["NATS_URL"]
        return
    with EmbeddedServer.start() as server:
        yield server.url
