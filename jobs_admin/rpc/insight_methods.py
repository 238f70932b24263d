"""The RPCs for health, the log, and a job's log, explanation and secrets."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jobs_admin.actions.key_buckets import KeyBucketNotPermitted
from jobs_admin.api.contract import Rpcs
from jobs_admin.api.error_envelope import NotFound
from jobs_admin.api.views.base import Page
from jobs_admin.api.views.jobs import LogEntry
from jobs_admin.explain.explain import explain
from jobs_admin.explain.explanation import Facts
from jobs_admin.explain.tail import tail_view
from jobs_admin.explain.views import explanation_view, job_secrets, log_entries
from jobs_admin.reads.services import FRESH
from jobs_admin.reads.workers import running, workers_of
from jobs_admin.rpc.job_lookup import address_of
from jobs_admin.rpc.router import answered_by
from jobs_admin.workers.views import known_workers
from trellis_jobs.contract.consumer_metadata import read_contract
from trellis_jobs.errors import DeclarationError, KeyStateMalformed, NotPermitted
from trellis_jobs.jetstream.alarms.alarms_info import read_alarms_info
from trellis_jobs.jetstream.log.history import Histories, HistoryPart, entries_in
from trellis_jobs.jetstream.log.tail import LogTail
from trellis_jobs.jetstream.work.consumer_info import QueueConsumers
from trellis_jobs.jetstream.work.messages import WorkMessages
from trellis_jobs.model import subjects
from trellis_jobs.model.events import Scheduled
from trellis_jobs.model.job import fold
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.actions.key_leases import HeldKey
    from jobs_admin.api import inputs
    from jobs_admin.api.views.health import HealthView
    from jobs_admin.api.views.jobs import ExplanationView, JobSecrets
    from jobs_admin.api.views.tail import TailView
    from jobs_admin.health import Health
    from jobs_admin.reads.read_your_writes import LogProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Caller, Method
    from jobs_admin.workers.registry import WorkerRegistry
    from trellis_jobs.jetstream.alarms.alarms_info import AlarmsInfo
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.jetstream.log.feed import LogMessage
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Entry, Job

log = logging.getLogger(__name__)

_WAITING: Final = frozenset({JobState.PENDING, JobState.RETRY})


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightMethods:
    connection: Connection
    readers: Readers
    progress: LogProgress
    health: Health
    keys: JobKeys
    clock: ServerClock
    workers: WorkerRegistry

    def table(self) -> Mapping[str, Method]:
        return dict(
            [
                answered_by(Rpcs.HEALTH, self.get_health),
                answered_by(Rpcs.EVENTS, self.list_events),
                answered_by(Rpcs.TAIL, self.tail),
                answered_by(Rpcs.EXPLAIN, self.explain_job),
                answered_by(Rpcs.GET_SECRETS, self.get_secrets),
            ]
        )

    async def get_health(self, _: inputs.Nothing, __: Caller) -> HealthView:
        return (await self.health.report()).view

    async def list_events(self, request: inputs.EventsInput, _: Caller) -> Page[LogEntry]:
        """List all messages of the log, including ignored events and undecodable messages."""
        before, read = await self._part_of_log(await self._address(request), request)
        if not read.count and not request.after_seq:
            raise NotFound(request.id)
        part = {"offset": request.offset, "limit": request.limit}
        entries = log_entries(read.messages, before, **part)
        return Page[LogEntry].of(entries, count=read.count, **part)

    async def _part_of_log(
        self, job: JobAddress, request: inputs.EventsInput
    ) -> tuple[Sequence[LogMessage], HistoryPart]:
        """The messages that decide the state before those that are wanted, and these."""
        after, histories = request.after_seq, self._histories
        changes = [] if request.notes and not after else await histories.state_changes(job)
        before = [message for message in changes if message.sequence <= after]
        if not request.notes:
            wanted = changes[len(before) :]
            return before, HistoryPart(wanted, len(wanted))
        limit = request.offset + request.limit
        return before, await histories.first_messages(job, limit, after=after)

    async def tail(self, request: inputs.TailInput, _: Caller) -> TailView:
        """Read from the log: the projection has no events."""
        subject = subjects.matching(request.service, request.type, request.kind)
        log_tail = LogTail(self.connection)
        if request.after_seq is None:
            return tail_view(await log_tail.newest(subject, request.limit))
        return tail_view(await log_tail.after(request.after_seq, subject, request.limit))

    async def explain_job(self, request: inputs.JobInput, _: Caller) -> ExplanationView:
        """Explain from the log, because the projection may be a moment behind it."""
        entries = await self._entries(request)
        job = _folded(entries, request.id)
        return explanation_view(job, explain(job, await self._facts(job, entries)))

    async def get_secrets(self, request: inputs.SecretsInput, caller: Caller) -> JobSecrets:
        """Read the secrets from the log, since the projection has none, and log the access."""
        job = _folded(await self._entries(request), request.id)
        log.info(
            "the secrets of job %s were shown to %s (request %s)",
            job.id,
            caller.session or "a caller without a session key",
            caller.request_id,
            extra={"job": job.id, "by": caller.session, "request": caller.request_id},
        )
        return job_secrets(job)

    async def _entries(self, request: inputs.JobInput) -> Sequence[Entry]:
        return entries_in(await self._histories.deciding_messages(await self._address(request)))

    @property
    def _histories(self) -> Histories:
        return Histories(self.connection, deletes_consumers=True)

    async def _address(self, request: inputs.JobInput) -> JobAddress:
        return await address_of(self.readers, self.progress, request)

    async def _facts(self, job: Job, entries: Sequence[Entry]) -> Facts:
        service, job_type = job.address.service, job.address.job_type
        now, workers, runs, queue, key, work = await asyncio.gather(
            self.clock.now(),
            workers_of(self.readers, service, job_type),
            running(self.readers, service, job_type),
            QueueConsumers(self.connection).of(service, job_type),
            self._held_key(job),
            self._work_of(job),
        )
        owner = job.status.owner
        seen = {worker.instance: worker.seen_at for worker in workers}
        owner_seen_at = seen.get(owner.instance) if owner else None
        processes = known_workers(self.workers, now)
        return Facts(
            now=now,
            workers=tuple(worker for worker in workers if now - worker.seen_at <= FRESH),
            owner_seen_at=owner_seen_at,
            owner_is_present=owner_seen_at is not None and now - owner_seen_at <= FRESH,
            running=runs,
            queue=queue,
            key=key.state if key else None,
            expired=key.expired if key else frozenset(),
            has_work=None if job.is_over else work is not None,
            was_delivered=work is not None and queue is not None and work <= queue.delivered,
            known_version=_known_version(job.address, queue),
            owner=next(
                (each for each in processes if owner and each.instance_id == owner.instance), None
            ),
            processes=tuple(each for each in processes if each.takes(service, job_type)),
            moved=_newest_delay(entries),
            alarms=await self._alarms_of(job),
        )

    async def _alarms_of(self, job: Job) -> AlarmsInfo | None:
        """Return None if the job does not wait for an alarm, or without the permission to ask."""
        if job.state is not JobState.SCHEDULED:
            return None
        try:
            return await read_alarms_info(self.connection, job.address.service)
        except NotPermitted:
            return None

    async def _held_key(self, job: Job) -> HeldKey | None:
        if job.state not in _WAITING:
            return None
        try:
            key = await self.keys.key_of(job.address, job.run.concurrency)
            return None if key is None else await self.keys.read_leases(key)
        except (KeyStateMalformed, KeyBucketNotPermitted):
            return None

    async def _work_of(self, job: Job) -> int | None:
        """Return the sequence of the job's work message; None if it has none or has ended."""
        if job.is_over:
            return None
        return await WorkMessages(self.connection).sequence_of(job.address)


def _folded(entries: Sequence[Entry], job_id: str) -> Job:
    job = fold(entries)
    if job is None:
        raise NotFound(job_id)
    return job


def _newest_delay(entries: Sequence[Entry]) -> Scheduled | None:
    delays = (entry.event for entry in reversed(entries) if isinstance(entry.event, Scheduled))
    return next(delays, None)


def _known_version(job: JobAddress, queue: QueueConsumer | None) -> int | None:
    metadata = (queue.config.get("metadata") or {}) if queue else {}
    try:
        contract = read_contract(metadata, job.service, job.job_type)
    except DeclarationError:
        return None
    return contract.version if contract else None
