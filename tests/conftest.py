"""Fixtures of every test: a separate nats-server on a free port, and no deadline for examples."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from trellis_jobs.embedded import EmbeddedServer

# How long an example takes says how busy the machine is, and nothing about the example.
settings.register_profile(
    "on any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("on any machine")

# A shell starts background jobs with SIGINT ignored, and processes that tests start inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """The tests themselves are a million objects, which no later collection needs to look at."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start() as running:
        yield running
