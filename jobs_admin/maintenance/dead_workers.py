"""Declares workers dead that are silent, and hands their jobs to other workers.

Any number of admin runtimes may do this at the same time, because every step is guarded. In this
order, so that a death of the admin runtime between any two steps is repaired by the next sweep:

1. write the verdict and the jobs of the worker into its record, guarded by its revision: a beat
   that is in flight is stored before it, or is refused;
2. for each job append `retry` with the error `worker_death` (or `dead` after the last try), guarded
   by the attempt that owns it: the log refuses whatever the worker writes about it later;
3. delete the work message of that attempt, so that a late acknowledgement hits nothing, and enqueue
   the run again, guarded so that the job has one message at most;
4. replace messages that were delivered to the worker and not started (abandoned_deliveries.py);
5. mark the record as recovered. The server removes it soon after.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs_admin.reads.owned_jobs import owned_jobs
from trellis_jobs.jetstream.client.stored_message import moment_of
from trellis_jobs.jetstream.control.worker_records import StoredWorker
from trellis_jobs.jetstream.work.messages import WorkMessage
from trellis_jobs.model import events as e
from trellis_jobs.model.job_errors import Interruption, JobError
from trellis_jobs.model.states import JobState
from trellis_jobs.model.worker_record import (
    MAX_BEAT_INTERVAL,
    declare_dead,
    lose_also,
    lost_jobs,
    recovered,
    with_jobs,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from jobs_admin.actions.guarded_append import GuardedAppender
    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.maintenance.abandoned_deliveries import AbandonedDeliveries
    from jobs_admin.reads.readers import Readers
    from jobs_admin.workers.registry import KnownWorker, WorkerRegistry
    from trellis_jobs.jetstream.control.worker_records import WorkerRecords
    from trellis_jobs.jetstream.log.event_log import Latest
    from trellis_jobs.jetstream.log.presence import Presence
    from trellis_jobs.jetstream.work.messages import WorkMessages
    from trellis_jobs.model.attempts import Attempt
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.worker_record import WorkerRecord

log = logging.getLogger(__name__)

INTERVAL: Final = timedelta(seconds=1)
# In this time every living worker has reported the jobs that it had at the verdict.
_REPORT_TIME: Final = 2 * MAX_BEAT_INTERVAL
# A verdict must not be written after an outage, when the worker could not beat either.
_VERDICT_TIMEOUT: Final = 2.0


def plan_recovery(
    job: JobAddress, latest: Latest, instance: str, why: str, now: datetime
) -> e.RetryScheduled | e.Dead | None:
    """Plan another try, or the job's death if it has none left; None if it is not the worker's."""
    status = latest.head.status
    if status.owner is None or status.owner.instance != instance:
        return None
    error = JobError(type=Interruption.WORKER_DEATH, message=why, tries=status.tries, at=now)
    fields = latest.event_fields(job, now)
    if status.tries_exhausted:
        return e.Dead(**fields, attempt=status.owner, error=error)
    return e.RetryScheduled(**fields, attempt=status.owner, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadWorkers:
    """`name` is this admin runtime, as verdicts name it."""

    name: str
    registry: WorkerRegistry
    records: WorkerRecords
    appender: GuardedAppender
    work: WorkMessages
    keys: JobKeys
    presence: Presence
    readers: Readers
    deliveries: AbandonedDeliveries
    is_caught_up: Callable[[], Awaitable[bool]]
    now: Callable[[], datetime]

    async def sweep(self) -> None:
        for known in list(self.registry.silent()):
            await self._declare_dead(known)
        for known in list(self.registry.unrecovered()):
            await self._recover(known)

    async def _declare_dead(self, known: KnownWorker) -> None:
        if await self._still_sends_heartbeats(known):
            return
        profile = known.record.profile
        owned = await owned_jobs(self.readers, profile.service, profile.instance)
        record = declare_dead(
            known.record, by=self.name, at=self.now(), lost=with_jobs(known.record.active, owned)
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(_VERDICT_TIMEOUT):
                written = await self.records.write(record, known.worker.revision)
            if isinstance(written, int):
                _log_verdict(record, self.registry.silent_for(known))
                self.registry.replace(StoredWorker(record, written))

    async def _still_sends_heartbeats(self, known: KnownWorker) -> bool:
        """Whether the worker has sent heartbeats to the log for longer than it has been silent.

        Then it is alive, and only its record is out of its reach.
        """
        profile = known.record.profile
        stored_at = moment_of(known.stored_ns)
        for queue in profile.queues[:1]:
            newest = await self.presence.newest_at(
                profile.service, queue.job_type, profile.instance
            )
            return newest is not None and newest - stored_at > 2 * profile.interval
        return False

    async def _recover(self, known: KnownWorker) -> None:
        is_complete = await self.is_caught_up()
        profile = known.record.profile
        owned = await owned_jobs(self.readers, profile.service, profile.instance)
        stored = await self._change(known.worker, lambda record: lose_also(record, owned))
        if stored is None:
            return
        for job in lost_jobs(stored.record):
            await self._recover_job(job, stored.record)
        if is_complete and await self._replaced_deliveries(known):
            await self._change(stored, recovered)

    async def _replaced_deliveries(self, known: KnownWorker) -> bool:
        """Return False while living workers may not have reported all of their jobs yet."""
        profile, verdict = known.record.profile, known.record.verdict
        if verdict is None or not await self.deliveries.are_possible(profile):
            return True
        if self.registry.silent_for(known) < _REPORT_TIME:
            return False
        await self.deliveries.replace(profile, verdict)
        return True

    async def _change(
        self, worker: StoredWorker, move: Callable[[WorkerRecord], WorkerRecord]
    ) -> StoredWorker | None:
        """Returns None if the record is gone."""
        if move(worker.record) == worker.record:
            return worker
        changed = await self.records.change(worker, move)
        if changed is not None:
            self.registry.replace(changed)
        return changed

    async def _recover_job(self, job: JobAddress, record: WorkerRecord) -> None:
        profile = record.profile
        latest = await self.appender.current(job)
        if latest is None:
            return
        lost = latest.head.status.owner
        if lost is None:
            await self._finish_recovery(job, latest, profile.instance)
            return
        why = f"worker {profile.instance} ({profile.hostname}, pid {profile.pid}) died"
        appended = await self.appender.append(
            job,
            latest,
            lambda newest: plan_recovery(job, newest, profile.instance, why, self.now()),
        )
        if appended is None:
            return
        log.warning(
            "job %s of %s/%s lost its worker: %s",
            job.job_id,
            job.service,
            job.job_type,
            why,
            extra={"job": job.job_id, "instance": profile.instance},
        )
        if appended.head.status.is_over:
            await self.keys.withdraw(job, None)
        await self._replace_message(job, lost, appended.head.status.run, appended.head.status.state)

    async def _finish_recovery(self, job: JobAddress, latest: Latest, instance: str) -> None:
        """Continue after an admin runtime that died between two steps of a recovery."""
        status = latest.head.status
        if status.state is not JobState.RETRY:
            return
        lost = await self._lost_attempt(job)
        if lost is not None and lost.instance == instance:
            await self._replace_message(job, lost, status.run, status.state)

    async def _lost_attempt(self, job: JobAddress) -> Attempt | None:
        """Return the attempt that the job's newest `retry` event ended with a worker's death."""
        newest = await self.appender.newest(job, e.EventKind.RETRY)
        event = None if newest is None else newest.event
        if not isinstance(event, e.RetryScheduled) or event.error.type != Interruption.WORKER_DEATH:
            return None
        return event.attempt

    async def _replace_message(
        self, job: JobAddress, lost: Attempt, run: int, state: JobState
    ) -> None:
        sequence = await self.work.sequence_of(job)
        message = None if sequence is None else await self.work.at(sequence)
        if isinstance(message, WorkMessage) and message.work == lost.work:
            await self.work.delete(message)
        if state is JobState.RETRY:
            await self.work.put_back(job, run)


def _log_verdict(record: WorkerRecord, silent_for: timedelta) -> None:
    profile = record.profile
    jobs = len(lost_jobs(record))
    log.warning(
        "worker %s of service %s (%s, pid %s) is dead: it has been silent for %.0f s; recovering "
        "%s of its jobs",
        profile.instance,
        profile.service,
        profile.hostname,
        profile.pid,
        silent_for.total_seconds(),
        jobs,
        extra={"service": profile.service, "instance": profile.instance, "jobs": jobs},
    )
