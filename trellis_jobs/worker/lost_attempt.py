"""Names the error of an attempt that another worker has lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from trellis_jobs.contract.topology import consumer_of
from trellis_jobs.errors import JobsError
from trellis_jobs.jetstream.client.connection import ConnectionLost
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.subjects import PresenceSubject

if TYPE_CHECKING:
    from trellis_jobs.contract.declaration import JobType
    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.worker.worker_context import WorkerContext

_READ_TIMEOUT: Final = 2.0


async def lost_attempt_error(
    job: JobAddress,
    queue: JobType[Any, Any],
    lost: Attempt | None,
    tries: int,
    context: WorkerContext,
) -> JobError:
    """Tells apart a dead worker and a live one that did not renew its lease.

    A worker is dead if it was declared dead, stopped, or has missed two heartbeats.
    """
    death = None if lost is None else await _death_reason(job, queue, lost.instance, context)
    kind = Interruption.WORKER_DEATH if death else Interruption.VISIBILITY_TIMEOUT
    who = f"worker {lost.instance}" if lost else "the worker"
    what = death or f"did not renew its lease within {context.ack_wait:g} s"
    return JobError(type=kind, message=f"{who} {what}", tries=tries, at=context.environment.now())


async def _death_reason(
    job: JobAddress, queue: JobType[Any, Any], instance: str, context: WorkerContext
) -> str | None:
    worker = PresenceSubject(job.service, job.job_type, instance)
    silence = await context.presence.death_reason(worker, consumer_of(job.service, queue))
    return silence or await _verdict_text(job.service, instance, context)


async def _verdict_text(service: str, instance: str, context: WorkerContext) -> str | None:
    """A record that cannot be read proves nothing: only the wording of an error depends on it."""
    if context.records is None:
        return None
    try:
        async with asyncio.timeout(_READ_TIMEOUT):
            found = await context.records.find(service, instance)
    except (JobsError, ConnectionLost, TimeoutError):
        return None
    verdict = None if found is None else found.record.verdict
    return None if verdict is None else f"died: {verdict.by} declared it dead"
