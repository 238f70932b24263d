"""A service whose handlers raise what Ctrl-C raises."""

from __future__ import annotations

import sys
from typing import Final

from tests.support.example_service import example_jobs
from trellis_jobs import ActiveJob, Service

INTERRUPTED: Final = example_jobs(
    "interrupted",
    str,
    str,
    in_loop={"max_deliver": 1},
    in_thread={"max_deliver": 1},
)


service = Service(INTERRUPTED)


@service.jobs.in_loop.handle
async def in_loop(active: ActiveJob[str]) -> str:
    return _raise(active.payload)


@service.jobs.in_thread.handle
def in_thread(active: ActiveJob[str]) -> str:
    return _raise(active.payload)


def _raise(what: str) -> str:
    if what == "interrupt":
        raise KeyboardInterrupt
    if what == "exit":
        sys.exit(7)
    return what
