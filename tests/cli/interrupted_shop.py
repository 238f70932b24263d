"""A service whose handlers raise what Ctrl-C raises."""

from __future__ import annotations

import sys

from trellis_jobs import ActiveJob, Jobs, Service, job


class InterruptedJobs(Jobs, service="interrupted"):
    in_loop = job(str, str, max_deliver=1)
    in_thread = job(str, str, max_deliver=1)


service = Service(InterruptedJobs)


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
