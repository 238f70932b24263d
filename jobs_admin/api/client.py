"""A typed client of the admin runtime: every RPC, with replies as values and refusals as errors.

    async with AdminClient.connect("nats://127.0.0.1:4222", by="ann") as admin:
        async for job in admin.jobs(JobQuery(state=[JobState.DEAD])):
            await admin.replay(job.id, reason="the upstream is back")

A refused request raises NotFound, Invalid, Denied or Unexpected (jobs_admin.api.errors); Busy is a
kind of Unexpected and means that nothing was done. ServiceMissing (trellis_jobs.errors) means that
no admin runtime is running. A read that gets no reply is sent once more, and then raises NoAnswer.
A change is sent only once and raises NotConfirmed: it may have been carried out.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from jobs_admin.api.client_errors import error_from
from jobs_admin.api.errors import Unexpected
from jobs_admin.api.job_filter import Scalar
from jobs_admin.api.paging import full_job_page, full_page, iterate, iterate_jobs, iterate_snapshot
from jobs_admin.api.request_fields import job_fields, page_fields, place_fields
from jobs_admin.api.views.base import Page
from jobs_admin.api.views.dead_groups import DeadGroups
from jobs_admin.api.views.health import HealthView
from jobs_admin.api.views.jobs import (
    ChangedJob,
    ExplanationView,
    JobPage,
    JobPlace,
    JobSecrets,
    JobView,
    LogEntry,
    OneJob,
)
from jobs_admin.api.views.keys import BusyKeyView, KeyView
from jobs_admin.api.views.operations import (
    OneOperation,
    Operated,
    OperationVerb,
    OperationView,
    PreviewView,
)
from jobs_admin.api.views.services import IgnoredView, ServiceView, StatsView
from trellis_jobs.environment import new_id
from trellis_jobs.errors import NoAnswer, NotConfirmed
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.client.rpc import rpc_call
from trellis_jobs.model import subjects
from trellis_jobs.model.states import JobState
from trellis_jobs.wire.fields import dumps

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from trellis_jobs.jetstream.client.connect_options import ConnectOptions
    from trellis_jobs.model.identity import JobAddress

T = TypeVar("T")
V = TypeVar("V", bound=BaseModel)

PAGE_SIZE: Final = 100
REQUEST_TIMEOUT: Final = 10.0
_READ_ATTEMPTS: Final = 2
_SERVICES: Final = TypeAdapter(Page[ServiceView])
_IGNORED: Final = TypeAdapter(Page[IgnoredView])
_KEYS: Final = TypeAdapter(Page[BusyKeyView])
_OPERATIONS: Final = TypeAdapter(Page[OperationView])
_ENTRIES: Final = TypeAdapter(Page[LogEntry])


class JobQuery(BaseModel):
    """Selects jobs by the fields that are set; `since` and `until` are of the last change."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    service: str | None = None
    type: str | None = None
    state: list[JobState] | None = None
    since: datetime | None = None
    until: datetime | None = None
    key: str | None = None
    id_prefix: str | None = None
    error: str | None = None
    payload: dict[str, Scalar] | None = None


ANY: Final = JobQuery()


class AdminClient:
    """`by` is recorded in every change. A job is named by its id or its address.

    `timeout` is how many seconds to wait for a reply; `read_timeout` is that of each read attempt.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        by: str | None = None,
        timeout: float = REQUEST_TIMEOUT,
        read_timeout: float | None = None,
    ) -> None:
        self._connection = connection
        self._by = by
        self._timeout = timeout
        self._read_timeout = timeout if read_timeout is None else read_timeout

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
        return await self._read("Jobs.Health", {}, HealthView)

    async def stats(
        self, *, service: str | None = None, type: str | None = None, window_minutes: int = 5
    ) -> StatsView:
        fields = {"service": service, "type": type, "windowMinutes": window_minutes}
        return await self._read("Jobs.Stats", fields, StatsView)

    async def list_services(
        self, *, offset: int = 0, limit: int = PAGE_SIZE, min_seq: int = 0
    ) -> Page[ServiceView]:
        fields = {"offset": offset, "limit": limit, "minSeq": min_seq}
        return await self._page("Jobs.ListServices", fields, _SERVICES)

    def services(self, *, page: int = PAGE_SIZE) -> AsyncIterator[ServiceView]:
        async def fetch(offset: int) -> Page[ServiceView]:
            return await self.list_services(offset=offset, limit=page)

        return iterate(fetch, lambda service: service.name)

    async def list_ignored(
        self,
        *,
        service: str | None = None,
        type: str | None = None,
        offset: int = 0,
        limit: int = PAGE_SIZE,
        min_seq: int = 0,
    ) -> Page[IgnoredView]:
        """List messages of the log that were ignored, newest first."""
        fields = {"service": service, "type": type, "offset": offset, "limit": limit}
        return await self._page("Jobs.ListIgnored", {**fields, "minSeq": min_seq}, _IGNORED)

    def ignored(
        self, *, service: str | None = None, type: str | None = None, page: int = PAGE_SIZE
    ) -> AsyncIterator[IgnoredView]:
        async def fetch(offset: int) -> Page[IgnoredView]:
            return await self.list_ignored(service=service, type=type, offset=offset, limit=page)

        return iterate(fetch, lambda message: message.seq)

    async def list_jobs(
        self,
        query: JobQuery = ANY,
        *,
        offset: int = 0,
        before: JobPlace | None = None,
        limit: int = PAGE_SIZE,
        min_seq: int = 0,
    ) -> JobPage:
        """List jobs, newest first, from an offset or after a place (`page.next_before`)."""
        part = page_fields(offset=offset, before=before, limit=limit, min_seq=min_seq)
        return await self._jobs("Jobs.List", {**_query_fields(query), **part})

    def jobs(self, query: JobQuery = ANY, *, page: int = PAGE_SIZE) -> AsyncIterator[JobView]:
        """Yield each job once, newest first, without jobs created in the meantime.

        A job that matches when its page is read is never left out, whatever changes meanwhile.
        """

        async def fetch(before: JobPlace | None) -> JobPage:
            return await self.list_jobs(query, before=before, limit=page)

        return iterate_jobs(fetch)

    async def list_dead(
        self,
        query: JobQuery = ANY,
        *,
        offset: int = 0,
        before: JobPlace | None = None,
        limit: int = PAGE_SIZE,
        min_seq: int = 0,
    ) -> JobPage:
        """List dead jobs, newest first. The query must not set `state`."""
        part = page_fields(offset=offset, before=before, limit=limit, min_seq=min_seq)
        return await self._jobs("Jobs.ListDLQ", {**_query_fields(query), **part})

    def dead(self, query: JobQuery = ANY, *, page: int = PAGE_SIZE) -> AsyncIterator[JobView]:
        async def fetch(before: JobPlace | None) -> JobPage:
            return await self.list_dead(query, before=before, limit=page)

        return iterate_jobs(fetch)

    async def group_dead(
        self, query: JobQuery = ANY, *, offset: int = 0, limit: int = PAGE_SIZE, min_seq: int = 0
    ) -> DeadGroups:
        """Group dead jobs by queue and error, largest groups first."""
        fields = {**_query_fields(query), "offset": offset, "limit": limit, "minSeq": min_seq}
        return await self._read("Jobs.GroupDLQ", fields, DeadGroups)

    async def get(self, job: str | JobAddress, *, min_seq: int = 0) -> JobView:
        fields = {**job_fields(job), "minSeq": min_seq}
        return (await self._read("Jobs.Get", fields, OneJob)).job

    async def list_events(
        self, job: str | JobAddress, *, offset: int = 0, limit: int = PAGE_SIZE, min_seq: int = 0
    ) -> Page[LogEntry]:
        """List the job's events from the log, oldest first."""
        fields = {**job_fields(job), "offset": offset, "limit": limit, "minSeq": min_seq}
        return await self._page("Jobs.Events", fields, _ENTRIES)

    def events(self, job: str | JobAddress, *, page: int = PAGE_SIZE) -> AsyncIterator[LogEntry]:
        async def fetch(offset: int) -> Page[LogEntry]:
            return await self.list_events(job, offset=offset, limit=page)

        return iterate(fetch, lambda entry: entry.seq)

    async def secrets(self, job: str | JobAddress, *, min_seq: int = 0) -> JobSecrets:
        """Get the payload and result unredacted. This needs a separate permission."""
        fields = {**job_fields(job), "minSeq": min_seq}
        return await self._read("Jobs.GetSecrets", fields, JobSecrets)

    async def explain(self, job: str | JobAddress, *, min_seq: int = 0) -> ExplanationView:
        fields = {**job_fields(job), "minSeq": min_seq}
        return await self._read("Jobs.Explain", fields, ExplanationView)

    async def cancel(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        return await self._change("Jobs.Cancel", job, reason)

    async def retry(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        """Start a new run, with all its tries, of a failed or dead job."""
        return await self._change("Jobs.Retry", job, reason)

    async def replay(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        """Start a new run of a dead job."""
        return await self._change("Jobs.ReplayDLQ", job, reason)

    async def dismiss(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        return await self._change("Jobs.DismissDLQ", job, reason)

    async def preview(self, verb: OperationVerb, query: JobQuery = ANY) -> PreviewView:
        """Count the jobs that operate() would change, and those that it would refuse."""
        fields = {**_query_fields(query), "verb": verb.value, "dryRun": True}
        return (await self._read("Jobs.Operate", fields, Operated)).preview

    async def operate(
        self,
        verb: OperationVerb,
        query: JobQuery = ANY,
        *,
        reason: str | None = None,
        rate: float | None = None,
    ) -> OperationView:
        """Start an operation that changes every matching job. The daemons carry it out."""
        fields = {
            **_query_fields(query),
            "verb": verb.value,
            "by": self._by,
            "reason": reason,
            "rate": rate,
        }
        answer = await self._mutate("Jobs.Operate", fields, Operated)
        if answer.operation is None:
            raise Unexpected("the reply to Jobs.Operate has no operation")
        return answer.operation

    async def get_operation(self, operation_id: str) -> OperationView:
        return (await self._read("Jobs.GetOperation", {"id": operation_id}, OneOperation)).operation

    async def stop_operation(self, operation_id: str) -> OperationView:
        """Stop an operation. Jobs that it has already changed stay changed."""
        fields = {"id": operation_id, "by": self._by}
        return (await self._mutate("Jobs.StopOperation", fields, OneOperation)).operation

    async def list_operations(
        self, *, offset: int = 0, limit: int = PAGE_SIZE
    ) -> Page[OperationView]:
        """List operations, newest first. Finished ones are kept for a week."""
        fields = {"offset": offset, "limit": limit}
        return await self._page("Jobs.ListOperations", fields, _OPERATIONS)

    async def list_keys(
        self,
        *,
        service: str | None = None,
        type: str | None = None,
        offset: int = 0,
        limit: int = PAGE_SIZE,
    ) -> Page[BusyKeyView]:
        """List keys that jobs hold or wait for."""
        fields = {"service": service, "type": type, "offset": offset, "limit": limit}
        return await self._page("Jobs.ListKeys", fields, _KEYS)

    def busy_keys(
        self, *, service: str | None = None, type: str | None = None, page: int = PAGE_SIZE
    ) -> AsyncIterator[BusyKeyView]:
        """Read all pages before the first key is yielded, so that a release cannot hide a key."""

        async def fetch(offset: int) -> Page[BusyKeyView]:
            return await self.list_keys(service=service, type=type, offset=offset, limit=page)

        return iterate_snapshot(fetch, lambda key: (key.service, key.type, key.key_hash))

    async def get_key(self, service: str, type: str, key: str) -> KeyView:
        """Get a key by its text, or by its hash when several keys have the same text."""
        fields = {"service": service, "type": type, "key": key}
        return await self._read("Jobs.GetKey", fields, KeyView)

    async def release_key(
        self, service: str, type: str, key: str, job_id: str, *, reason: str | None = None
    ) -> KeyView:
        """Free the slot of a job whose worker no longer renews it."""
        key_fields = {"service": service, "type": type, "key": key, "jobId": job_id}
        fields = {**key_fields, "by": self._by, "reason": reason}
        return await self._mutate("Jobs.ReleaseKey", fields, KeyView)

    async def _change(self, method: str, job: str | JobAddress, reason: str | None) -> ChangedJob:
        fields = {**job_fields(job), "by": self._by, "reason": reason}
        return await self._mutate(method, fields, ChangedJob)

    async def _mutate(self, method: str, fields: dict[str, Any], view: type[V]) -> V:
        data = await self._request(method, fields, self._timeout)
        return _parse(method, view.model_validate_json, data)

    async def _read(self, method: str, fields: dict[str, Any], view: type[V]) -> V:
        return _parse(method, view.model_validate_json, await self._request_read(method, fields))

    async def _page(
        self, method: str, fields: dict[str, Any], view: TypeAdapter[Page[T]]
    ) -> Page[T]:
        async def fetch(offset: int, limit: int) -> Page[T]:
            part = {**fields, "offset": offset, "limit": limit}
            return _parse(method, view.validate_json, await self._request_read(method, part))

        return await full_page(fetch, fields["offset"], fields["limit"])

    async def _jobs(self, method: str, fields: dict[str, Any]) -> JobPage:
        async def fetch(before: JobPlace | None, limit: int) -> JobPage:
            at = {"offset": 0, "before": place_fields(before)} if before else {}
            return await self._read(method, {**fields, **at, "limit": limit}, JobPage)

        return await full_job_page(fetch, fields["limit"])

    async def _request_read(self, method: str, fields: dict[str, Any]) -> bytes:
        """Send a read, and send it again if the daemon that received it may have died."""
        read_timeout = self._read_timeout
        for _ in range(_READ_ATTEMPTS):
            try:
                return await self._request(method, fields, read_timeout)
            except NotConfirmed:
                continue
        raise NoAnswer(
            method, _READ_ATTEMPTS * read_timeout, is_connected=self._connection.is_connected
        )

    async def _request(self, method: str, fields: dict[str, Any], read_timeout: float) -> bytes:
        body = dumps({name: value for name, value in fields.items() if value is not None})
        reply = await rpc_call(
            self._connection,
            subjects.rpc(method),
            body,
            headers={"request-id": new_id()},
            timeout=read_timeout,
        )
        if reply.headers.get("status") == "error":
            raise error_from(reply.data)
        return reply.data


def _parse(method: str, read: Callable[[bytes], T], data: bytes) -> T:
    try:
        return read(data)
    except ValidationError as error:
        raise Unexpected(f"the reply to {method} is not valid: {error}") from error


def _query_fields(query: JobQuery) -> dict[str, Any]:
    return query.model_dump(mode="json", by_alias=True, exclude_none=True)
