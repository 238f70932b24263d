"""Helpers for tests of a service. The pytest fixtures are in `pytest_trellis_jobs`."""

from __future__ import annotations

from trellis_jobs.testing.accounts import Accounts
from trellis_jobs.testing.clock import Clock
from trellis_jobs.testing.connected_service import ConnectService
from trellis_jobs.testing.drain import Drained, NotDrained, drain
from trellis_jobs.testing.enqueued import Enqueued, assert_enqueued, enqueued, refute_enqueued
from trellis_jobs.testing.handler_run import HandlerRun, run_handler
from trellis_jobs.testing.inline import inline
from trellis_jobs.testing.recording_job import RecordedCalls

__all__ = [
    "Accounts",
    "Clock",
    "ConnectService",
    "Drained",
    "Enqueued",
    "HandlerRun",
    "NotDrained",
    "RecordedCalls",
    "assert_enqueued",
    "drain",
    "enqueued",
    "inline",
    "refute_enqueued",
    "run_handler",
]
