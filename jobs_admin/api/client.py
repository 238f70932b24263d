"""A typed client of the admin runtime: every RPC, with replies as values and refusals as errors.

    async with AdminClient.connect("nats://127.0.0.1:4222", by="ann") as admin:
        async for job in admin.jobs(JobFilter(state=[JobState.DEAD])):
            await admin.replay(job.id, reason="the upstream is back")

A refused request raises NotFound, Invalid, Denied or Unexpected (jobs_admin.api.errors); Busy is a
kind of Unexpected and means that nothing was done. ServiceMissing (trellis_jobs.errors) means that
no admin runtime is running. A read that gets no reply is sent once more, and then raises NoAnswer.
A change is sent only once and raises NotConfirmed: it may have been carried out.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Unpack

from jobs_admin.api.audit_client import AuditClient
from jobs_admin.api.contract import Rpcs
from jobs_admin.api.creation_client import CreationClient
from jobs_admin.api.errors import Unexpected
from jobs_admin.api.history_client import HistoryClient
from jobs_admin.api.inputs import MAX_PAGE_SIZE
from jobs_admin.api.job_filter import JobFilter
from jobs_admin.api.paging import iterate, iterate_snapshot
from jobs_admin.api.request_fields import filter_fields, job_fields, worker_fields
from jobs_admin.api.rpc_sender import PAGE_SIZE, RpcSender
from jobs_admin.api.schedule_client import ScheduleClient
from jobs_admin.api.worker_filter import WorkerFilter
from trellis_jobs.jetstream.client.connection import Connection

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence
    from datetime import datetime

    from jobs_admin.api.rpc_sender import JobPageArguments, PageArguments
    from jobs_admin.api.views.base import Page
    from jobs_admin.api.views.changes import ChangesView
    from jobs_admin.api.views.dead_groups import DeadGroups, ErrorGroups
    from jobs_admin.api.views.doctor import AttentionView, Diagnosis
    from jobs_admin.api.views.health import HealthView
    from jobs_admin.api.views.jobs import (
        ChangedJob,
        ExplanationView,
        JobPage,
        JobSecrets,
        JobView,
        LogEntry,
    )
    from jobs_admin.api.views.keys import BusyKeyView, KeyView
    from jobs_admin.api.views.operations import OperationVerb, OperationView, PreviewView
    from jobs_admin.api.views.queues import ChangedQueue, QueueView
    from jobs_admin.api.views.services import IgnoredView, ServiceView, StatsView
    from jobs_admin.api.views.suggestions import SuggestedField, SuggestionView
    from jobs_admin.api.views.tail import TailView
    from jobs_admin.api.views.workers import DirectedWorker, WorkerProcessView
    from trellis_jobs.jetstream.client.connect_options import ConnectOptions
    from trellis_jobs.model.events import EventKind
    from trellis_jobs.model.identity import JobAddress
    from trellis_jobs.model.worker_states import WorkerState

REQUEST_TIMEOUT: Final = 10.0
ANY: Final = JobFilter()
ANY_WORKER: Final = WorkerFilter()


class AdminClient:
    """`by` is recorded in every change. A job is named by its id or its address.

    `timeout` is how many seconds to wait for a reply; `read_timeout` is that of each read attempt.
    `request_id` is in the log of the admin runtime; without it, each request gets another one.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        by: str | None = None,
        timeout: float = REQUEST_TIMEOUT,
        read_timeout: float | None = None,
        request_id: str | None = None,
    ) -> None:
        self._rpcs = RpcSender(
            connection, by, timeout, timeout if read_timeout is None else read_timeout, request_id
        )
        self.schedules = ScheduleClient(self._rpcs)
        self.creation = CreationClient(self._rpcs)
        self.history = HistoryClient(self._rpcs)
        self.audit = AuditClient(self._rpcs)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        servers: str | ConnectOptions,
        *,
        by: str | None = None,
        timeout: float = REQUEST_TIMEOUT,
    ) -> AsyncGenerator[AdminClient, None]:
        connection = await Connection.open(servers, name="jobs admin client")
        try:
            yield cls(connection, by=by, timeout=timeout)
        finally:
            await connection.close()

    async def health(self) -> HealthView:
        return await self._rpcs.ask(Rpcs.HEALTH)

    async def changes(self, after_seq: int, *, wait_ms: int = 0) -> ChangesView:
        """Wait for changes of jobs after a position of the log; returns also if there are none."""
        return await self._rpcs.ask(Rpcs.CHANGES, after_seq=after_seq, wait_ms=wait_ms)

    async def tail(
        self,
        after_seq: int | None = None,
        *,
        service: str | None = None,
        type: str | None = None,
        kind: EventKind | None = None,
        limit: int = PAGE_SIZE,
    ) -> TailView:
        """Read the newest events after a position of the log, or the newest ones."""
        which = {"service": service, "type": type, "kind": kind}
        return await self._rpcs.ask(Rpcs.TAIL, after_seq=after_seq, limit=limit, **which)

    async def stats(
        self, *, service: str | None = None, type: str | None = None, window_minutes: int = 5
    ) -> StatsView:
        fields = {"service": service, "type": type, "window_minutes": window_minutes}
        return await self._rpcs.ask(Rpcs.STATS, **fields)

    async def list_services(self, **page: Unpack[PageArguments]) -> Page[ServiceView]:
        return await self._rpcs.page(Rpcs.LIST_SERVICES, **page)

    def services(self, *, page: int = PAGE_SIZE) -> AsyncIterator[ServiceView]:
        return iterate(self._rpcs.pages(Rpcs.LIST_SERVICES, page), lambda service: service.name)

    async def list_ignored(
        self, *, service: str | None = None, type: str | None = None, **page: Unpack[PageArguments]
    ) -> Page[IgnoredView]:
        """List messages of the log that were ignored, newest first."""
        return await self._rpcs.page(Rpcs.LIST_IGNORED, service=service, type=type, **page)

    def ignored(
        self, *, service: str | None = None, type: str | None = None, page: int = PAGE_SIZE
    ) -> AsyncIterator[IgnoredView]:
        fetch = self._rpcs.pages(Rpcs.LIST_IGNORED, page, service=service, type=type)
        return iterate(fetch, lambda message: message.seq)

    async def list_jobs(self, query: JobFilter = ANY, **page: Unpack[JobPageArguments]) -> JobPage:
        """List jobs, newest first, from an offset or after a cursor."""
        return await self._rpcs.job_page(Rpcs.LIST, query, **page)

    def jobs(self, query: JobFilter = ANY, *, page: int = PAGE_SIZE) -> AsyncIterator[JobView]:
        """Yield each job once, newest first, without jobs created in the meantime.

        A job that matches when its page is read is never left out, whatever changes meanwhile.
        """
        return self._rpcs.each_job(Rpcs.LIST, query, page)

    async def list_dead(self, query: JobFilter = ANY, **page: Unpack[JobPageArguments]) -> JobPage:
        """List dead jobs, newest first. The query must not set `state`."""
        return await self._rpcs.job_page(Rpcs.LIST_DLQ, query, **page)

    def dead(self, query: JobFilter = ANY, *, page: int = PAGE_SIZE) -> AsyncIterator[JobView]:
        return self._rpcs.each_job(Rpcs.LIST_DLQ, query, page)

    async def group_dead(self, query: JobFilter = ANY, **page: Unpack[PageArguments]) -> DeadGroups:
        """Group dead jobs by queue and error, largest groups first."""
        return await self._rpcs.page(Rpcs.GROUP_DLQ, **filter_fields(query), **page)

    async def group_errors(
        self, query: JobFilter = ANY, **page: Unpack[PageArguments]
    ) -> ErrorGroups:
        """Group failed and dead jobs, and those that wait for their next try, by queue and error.

        `state` of the query may name some of these states.
        """
        return await self._rpcs.page(Rpcs.GROUP_ERRORS, **filter_fields(query), **page)

    async def suggest(
        self,
        field: SuggestedField,
        prefix: str = "",
        *,
        service: str | None = None,
        type: str | None = None,
        limit: int = 20,
    ) -> tuple[SuggestionView, ...]:
        """Complete a word of a job filter. Values of payloads are never suggested."""
        fields = {"field": field, "prefix": prefix, "service": service, "type": type}
        return (await self._rpcs.ask(Rpcs.SUGGEST, **fields, limit=limit)).suggestions

    async def get(self, job: str | JobAddress, *, min_seq: int = 0) -> JobView:
        return (await self._rpcs.ask(Rpcs.GET, **job_fields(job), min_seq=min_seq)).job

    async def list_events(
        self,
        job: str | JobAddress,
        *,
        after_seq: int = 0,
        notes: bool = True,
        **page: Unpack[PageArguments],
    ) -> Page[LogEntry]:
        """List the job's events from the log, oldest first; without notes, its state changes."""
        # Older admin runtimes do not know these fields, so they are sent only if they matter.
        only = {"after_seq": after_seq or None, "notes": None if notes else False}
        return await self._rpcs.page(Rpcs.EVENTS, **job_fields(job), **only, **page)

    def events(self, job: str | JobAddress, *, page: int = PAGE_SIZE) -> AsyncIterator[LogEntry]:
        fetch = self._rpcs.pages(Rpcs.EVENTS, page, **job_fields(job))
        return iterate(fetch, lambda entry: entry.seq)

    async def secrets(
        self, job: str | JobAddress, *, reason: str | None = None, min_seq: int = 0
    ) -> JobSecrets:
        """Get the payload and result unredacted. This needs a separate permission.

        The audit records who has seen them, and why.
        """
        fields = {**job_fields(job), "by": self._rpcs.by, "reason": reason, "min_seq": min_seq}
        return await self._rpcs.ask(Rpcs.GET_SECRETS, **fields)

    async def explain(self, job: str | JobAddress, *, min_seq: int = 0) -> ExplanationView:
        return await self._rpcs.ask(Rpcs.EXPLAIN, **job_fields(job), min_seq=min_seq)

    async def cancel(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        return await self._rpcs.ask(Rpcs.CANCEL, **job_fields(job), reason=reason)

    async def retry(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        """Start a new run, with all its tries, of a failed or dead job."""
        return await self._rpcs.ask(Rpcs.RETRY, **job_fields(job), reason=reason)

    async def replay(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        """Start a new run of a dead job."""
        return await self._rpcs.ask(Rpcs.REPLAY_DLQ, **job_fields(job), reason=reason)

    async def dismiss(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        return await self._rpcs.ask(Rpcs.DISMISS_DLQ, **job_fields(job), reason=reason)

    async def reschedule(
        self, job: str | JobAddress, run_at: datetime, *, reason: str | None = None
    ) -> ChangedJob:
        """Move a job that waits, also for its next try, to another time."""
        fields = {**job_fields(job), "run_at": run_at, "reason": reason}
        return await self._rpcs.ask(Rpcs.RESCHEDULE, **fields)

    async def run_now(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        """Let a job that is delayed, or that waits for its next try, run at once."""
        return await self._rpcs.ask(Rpcs.RUN_NOW, **job_fields(job), reason=reason)

    async def preview(
        self, verb: OperationVerb, query: JobFilter = ANY, *, run_at: datetime | None = None
    ) -> PreviewView:
        """Count the jobs that operate() would change, and those that it would refuse."""
        fields = {**filter_fields(query), "verb": verb, "dry_run": True, "run_at": run_at}
        return (await self._rpcs.read(Rpcs.OPERATE, fields)).preview

    async def operate(
        self,
        verb: OperationVerb,
        query: JobFilter = ANY,
        *,
        reason: str | None = None,
        rate: float | None = None,
        run_at: datetime | None = None,
    ) -> OperationView:
        """Start an operation that changes every matching job. The daemons carry it out.

        `run_at` is the time to which `reschedule` moves the jobs.
        """
        fields = {**filter_fields(query), "reason": reason, "rate": rate, "run_at": run_at}
        answer = await self._rpcs.ask(Rpcs.OPERATE, verb=verb, **fields)
        if answer.operation is None:
            raise Unexpected("the reply to Jobs.Operate has no operation")
        return answer.operation

    async def get_operation(self, operation_id: str) -> OperationView:
        return (await self._rpcs.ask(Rpcs.GET_OPERATION, id=operation_id)).operation

    async def stop_operation(
        self, operation_id: str, *, reason: str | None = None
    ) -> OperationView:
        """Stop an operation. Jobs that it has already changed stay changed."""
        stopped = await self._rpcs.ask(Rpcs.STOP_OPERATION, id=operation_id, reason=reason)
        return stopped.operation

    async def list_operations(self, **page: Unpack[PageArguments]) -> Page[OperationView]:
        """List operations, newest first. Finished ones are kept for a week."""
        return await self._rpcs.page(Rpcs.LIST_OPERATIONS, **page)

    async def list_keys(
        self, *, service: str | None = None, type: str | None = None, **page: Unpack[PageArguments]
    ) -> Page[BusyKeyView]:
        """List keys that jobs hold or wait for."""
        return await self._rpcs.page(Rpcs.LIST_KEYS, service=service, type=type, **page)

    def busy_keys(
        self, *, service: str | None = None, type: str | None = None, page: int = PAGE_SIZE
    ) -> AsyncIterator[BusyKeyView]:
        """Read all pages before the first key is yielded, so that a release cannot hide a key."""
        fetch = self._rpcs.pages(Rpcs.LIST_KEYS, page, service=service, type=type)
        return iterate_snapshot(fetch, lambda key: (key.service, key.type, key.key_hash))

    async def get_key(self, service: str, type: str, key: str) -> KeyView:
        """Get a key by its text, or by its hash when several keys have the same text."""
        return await self._rpcs.ask(Rpcs.GET_KEY, service=service, type=type, key=key)

    async def release_key(
        self, service: str, type: str, key: str, job_id: str, *, reason: str | None = None
    ) -> KeyView:
        """Free the slot of a job whose worker no longer renews it, or was declared dead."""
        fields = {"service": service, "type": type, "key": key, "job_id": job_id}
        return await self._rpcs.ask(Rpcs.RELEASE_KEY, **fields, reason=reason)

    async def list_queues(
        self,
        *,
        service: str | None = None,
        type: str | None = None,
        with_ended: bool = False,
        **page: Unpack[PageArguments],
    ) -> Page[QueueView]:
        """List queues by name, with their backlog, workers, pauses and drift."""
        fields = {"service": service, "type": type, "with_ended": with_ended}
        return await self._rpcs.page(Rpcs.LIST_QUEUES, **fields, **page)

    def queues(
        self, *, with_ended: bool = False, page: int = PAGE_SIZE
    ) -> AsyncIterator[QueueView]:
        fetch = self._rpcs.pages(Rpcs.LIST_QUEUES, page, with_ended=with_ended)
        return iterate(fetch, lambda queue: queue.name)

    async def pause_queue(
        self, service: str, type: str, *, reason: str, duration: timedelta | None = None
    ) -> ChangedQueue:
        """Stop workers from starting jobs. Without a duration, until the queue is resumed."""
        length = None if duration is None else duration // timedelta(milliseconds=1)
        fields = {"service": service, "type": type, "reason": reason, "duration_ms": length}
        return await self._rpcs.ask(Rpcs.PAUSE_QUEUE, **fields)

    async def resume_queue(
        self, service: str, type: str, *, reason: str | None = None
    ) -> ChangedQueue:
        """Let workers start jobs of a paused queue again. Does nothing if it is not paused."""
        fields = {"service": service, "type": type, "reason": reason}
        return await self._rpcs.ask(Rpcs.RESUME_QUEUE, **fields)

    async def list_workers(
        self, query: WorkerFilter = ANY_WORKER, **page: Unpack[PageArguments]
    ) -> Page[WorkerProcessView]:
        """List worker processes by service and instance id, from their records."""
        return await self._rpcs.page(Rpcs.LIST_WORKERS, **worker_fields(query), **page)

    def workers(
        self, query: WorkerFilter = ANY_WORKER, *, page: int = PAGE_SIZE
    ) -> AsyncIterator[WorkerProcessView]:
        fetch = self._rpcs.pages(Rpcs.LIST_WORKERS, page, **worker_fields(query))
        return iterate_snapshot(fetch, lambda worker: (worker.service, worker.instance_id))

    async def direct_workers(
        self,
        workers: Sequence[tuple[str, str]] | WorkerFilter,
        state: WorkerState,
        *,
        reason: str | None = None,
    ) -> tuple[DirectedWorker, ...]:
        """Direct workers to run, to be quiet or to terminate.

        `workers` are services and instance ids, or a filter that the admin runtime applies. Then
        the reply names the workers that matched.
        """
        if isinstance(workers, WorkerFilter):
            fields = {**worker_fields(workers), "state": state, "reason": reason}
            return (await self._rpcs.ask(Rpcs.DIRECT_WORKERS, **fields)).workers
        named = [{"service": service, "instanceId": instance} for service, instance in workers]
        directed: list[DirectedWorker] = []
        for start in range(0, len(named), MAX_PAGE_SIZE):
            part = named[start : start + MAX_PAGE_SIZE]
            fields = {"workers": part, "state": state, "reason": reason}
            directed.extend((await self._rpcs.ask(Rpcs.DIRECT_WORKERS, **fields)).workers)
        return tuple(directed)

    async def doctor(self) -> Diagnosis:
        """Check everything that jobs depend on, with the credentials of the admin runtime."""
        return await self._rpcs.ask(Rpcs.DOCTOR)

    async def attention(self) -> AttentionView:
        """What is wrong now, the most urgent first, and what to do about it."""
        return await self._rpcs.ask(Rpcs.ATTENTION)
