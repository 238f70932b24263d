"""Fixtures every test may use: a real nats-server of its own, on a free port."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trellis_jobs.embedded import EmbeddedServer


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start() as running:
        yield running
