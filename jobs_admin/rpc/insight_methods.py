"""Requests that look closer: how we fare, a job's whole log, and why it is where it is."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from jobs_admin.actions.key_buckets import KeyBucketNotPermitted
from jobs_admin.api import inputs
from jobs_admin.api.error_envelope import NotFound
from jobs_admin.explain.explain import explain
from jobs_admin.explain.explanation import Facts
from jobs_admin.explain.to_json import told_explanation, told_log
from jobs_admin.reads.services import FRESH
from jobs_admin.reads.workers import running, workers_of
from jobs_admin.rpc.job_lookup import address_of
from jobs_admin.rpc.pages import page_json
from jobs_admin.rpc.router import Method
from trellis_jobs.contract.consumer_metadata import read_note
from trellis_jobs.errors import DeclarationError
from trellis_jobs.jetstream.log.history import Histories
from trellis_jobs.jetstream.work.consumer_info import QueueConsumers
from trellis_jobs.jetstream.work.messages import WorkMessages
from trellis_jobs.key_errors import KeyStateMalformed
from trellis_jobs.model.job import fold
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.actions.key_leases import HeldKey
    from jobs_admin.health import Health
    from jobs_admin.reads.read_your_writes import LogProgress
    from jobs_admin.reads.readers import Readers
    from jobs_admin.rpc.router import Asker
    from trellis_jobs.jetstream.client.connection import Connection
    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.jetstream.work.consumer_info import QueueConsumer
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.job import Job

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

    def table(self) -> Mapping[str, Method]:
        return {
            "Jobs.Health": Method(inputs.Nothing, self.tell_health),
            "Jobs.Events": Method(inputs.EventsInput, self.list_events),
            "Jobs.Explain": Method(inputs.JobInput, self.explain_job),
            "Jobs.GetSecrets": Method(inputs.JobInput, self.tell_secrets),
        }

    async def tell_health(self, _: inputs.Nothing, __: Asker) -> dict[str, Any]:
        return (await self.health.report()).to_json()

    async def list_events(self, asked: inputs.EventsInput, _: Asker) -> bytes:
        """From the log itself: also what did not count, and what is no event."""
        stored = await self._histories.messages(await self._address(asked))
        if not stored:
            raise NotFound(asked.id)
        told = told_log(stored)[asked.offset :]
        entries = [orjson.dumps(each, option=orjson.OPT_UTC_Z) for each in told[: asked.limit]]
        return page_json(
            entries,
            count=len(stored),
            offset=asked.offset,
            limit=asked.limit,
            room=self.connection.max_payload,
        )

    async def explain_job(self, asked: inputs.JobInput, _: Asker) -> dict[str, Any]:
        """Decided on the log: the projection may be a moment behind it."""
        job = await self._job(asked)
        return told_explanation(job, explain(job, await self._facts(job)))

    async def tell_secrets(self, asked: inputs.JobInput, asker: Asker) -> dict[str, Any]:
        """From the log: the projection does not have them. That they were told is logged."""
        job = await self._job(asked)
        log.info(
            "the secrets of job %s were shown to %s (request %s)",
            job.id,
            asker.session or "a caller without a session key",
            asker.request_id,
            extra={"job": job.id, "by": asker.session, "request": asker.request_id},
        )
        told: dict[str, Any] = {"id": job.id, "service": job.address.service}
        told |= {"type": job.address.job_type, "payload": job.payload}
        return told if job.result is None else {**told, "result": job.result}

    async def _job(self, asked: inputs.JobInput) -> Job:
        job = fold((await self._histories.history_slice(await self._address(asked))).entries)
        if job is None:
            raise NotFound(asked.id)
        return job

    @property
    def _histories(self) -> Histories:
        return Histories(self.connection, deletes_consumers=True)

    async def _address(self, asked: inputs.JobInput) -> JobAddress:
        return await address_of(self.readers, self.progress, asked)

    async def _facts(self, job: Job) -> Facts:
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
        return Facts(
            now=now,
            workers=tuple(worker for worker in workers if now - worker.seen_at <= FRESH),
            owner_seen_at=owner_seen_at,
            owner_is_present=owner_seen_at is not None and now - owner_seen_at <= FRESH,
            running=runs,
            queue=queue,
            key=key.state if key else None,
            expired=key.over if key else frozenset(),
            has_work=None if job.is_over else work is not None,
            was_delivered=work is not None and queue is not None and work <= queue.delivered,
            known_version=_known_version(job.address, queue),
        )

    async def _held_key(self, job: Job) -> HeldKey | None:
        if job.state not in _WAITING:
            return None
        try:
            key = await self.keys.key_of(job.address, job.run.concurrency)
            return None if key is None else await self.keys.look(key)
        except (KeyStateMalformed, KeyBucketNotPermitted):
            return None

    async def _work_of(self, job: Job) -> int | None:
        """The sequence of the message that stands for it; of one that is over none is needed."""
        if job.is_over:
            return None
        return await WorkMessages(self.connection).sequence_of(job.address)


def _known_version(job: JobAddress, queue: QueueConsumer | None) -> int | None:
    metadata = (queue.config.get("metadata") or {}) if queue else {}
    try:
        contract = read_note(metadata, job.service, job.job_type)
    except DeclarationError:
        return None
    return contract.version if contract else None
