"""A typed client of the admin runtime: every request, its answers as values, refusals as errors.

    async with AdminClient.connect("nats://127.0.0.1:4222", by="ann") as admin:
        async for job in admin.jobs(JobQuery(state=[JobState.DEAD])):
            await admin.replay(job.id, reason="the upstream is back")

Raises NotFound, Invalid, Denied or Unexpected (jobs_admin.api.errors; Busy is one, and means that
nothing was done because too many ask) when it is refused, and
ServiceMissing (trellis_jobs.errors) when no admin runtime runs. NoAnswer (the same) means
that a read was not answered in time: it was asked for again by then, in case that the daemon
vanished with the first request. NotConfirmed: one that changes something was not answered; it is
sent once, and may have been carried out.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from jobs_admin.api.client_errors import refusal
from jobs_admin.api.errors import Unexpected
from jobs_admin.api.job_filter import Scalar
from jobs_admin.api.paging import each, each_job, each_of_all, filled, filled_with_jobs
from jobs_admin.api.request_fields import job_fields, page_fields, place_fields
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
from jobs_admin.api.views.shape import Page
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

PAGE: Final = 100
TIMEOUT: Final = 10.0
_ASK_TIMES: Final = 2
_SERVICES: Final = TypeAdapter(Page[ServiceView])
_IGNORED: Final = TypeAdapter(Page[IgnoredView])
_KEYS: Final = TypeAdapter(Page[BusyKeyView])
_OPERATIONS: Final = TypeAdapter(Page[OperationView])
_ENTRIES: Final = TypeAdapter(Page[LogEntry])


class JobQuery(BaseModel):
    """Which jobs; what is left out does not narrow. `since` and `until` are of the last change."""

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
    """`by` is recorded in what this client changes. A job is named by its id, or its address.

    `timeout` is how long an answer may take; `patience`, of a read: it is asked for twice.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        by: str | None = None,
        timeout: float = TIMEOUT,
        patience: float | None = None,
    ) -> None:
        self._connection = connection
        self._by = by
        self._timeout = timeout
        self._patience = timeout if patience is None else patience

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        servers: str | ConnectOptions,
        *,
        by: str | None = None,
        timeout: float = TIMEOUT,
    ) -> AsyncGenerator[AdminClient, None]:
        connection = await Connection.open(servers, name="jobs admin client")
        try:
            yield cls(connection, by=by, timeout=timeout)
        finally:
            await connection.close()

    async def health(self) -> HealthView:
        return await self._one("Jobs.Health", {}, HealthView)

    async def stats(
        self, *, service: str | None = None, type: str | None = None, window_minutes: int = 5
    ) -> StatsView:
        asked = {"service": service, "type": type, "windowMinutes": window_minutes}
        return await self._one("Jobs.Stats", asked, StatsView)

    async def list_services(
        self, *, offset: int = 0, limit: int = PAGE, min_seq: int = 0
    ) -> Page[ServiceView]:
        asked = {"offset": offset, "limit": limit, "minSeq": min_seq}
        return await self._page("Jobs.ListServices", asked, _SERVICES)

    def services(self, *, page: int = PAGE) -> AsyncIterator[ServiceView]:
        async def turn(offset: int) -> Page[ServiceView]:
            return await self.list_services(offset=offset, limit=page)

        return each(turn, lambda service: service.name)

    async def list_ignored(
        self,
        *,
        service: str | None = None,
        type: str | None = None,
        offset: int = 0,
        limit: int = PAGE,
        min_seq: int = 0,
    ) -> Page[IgnoredView]:
        """What is in the log and did not count, the newest first."""
        asked = {"service": service, "type": type, "offset": offset, "limit": limit}
        return await self._page("Jobs.ListIgnored", {**asked, "minSeq": min_seq}, _IGNORED)

    def ignored(
        self, *, service: str | None = None, type: str | None = None, page: int = PAGE
    ) -> AsyncIterator[IgnoredView]:
        async def turn(offset: int) -> Page[IgnoredView]:
            return await self.list_ignored(service=service, type=type, offset=offset, limit=page)

        return each(turn, lambda message: message.seq)

    async def list_jobs(
        self,
        query: JobQuery = ANY,
        *,
        offset: int = 0,
        before: JobPlace | None = None,
        limit: int = PAGE,
        min_seq: int = 0,
    ) -> JobPage:
        """Newest first; from an offset, or those that follow a place (`page.next_before`)."""
        part = page_fields(offset=offset, before=before, limit=limit, min_seq=min_seq)
        return await self._jobs("Jobs.List", {**_told(query), **part})

    def jobs(self, query: JobQuery = ANY, *, page: int = PAGE) -> AsyncIterator[JobView]:
        """Each job once, newest first, without those created meanwhile.

        Whatever is changed meanwhile, no job is left out that matches when its page is asked for.
        """

        async def turn(before: JobPlace | None) -> JobPage:
            return await self.list_jobs(query, before=before, limit=page)

        return each_job(turn)

    async def list_dead(
        self,
        query: JobQuery = ANY,
        *,
        offset: int = 0,
        before: JobPlace | None = None,
        limit: int = PAGE,
        min_seq: int = 0,
    ) -> JobPage:
        """Jobs that wait for an operator; the query names no states."""
        part = page_fields(offset=offset, before=before, limit=limit, min_seq=min_seq)
        return await self._jobs("Jobs.ListDLQ", {**_told(query), **part})

    def dead(self, query: JobQuery = ANY, *, page: int = PAGE) -> AsyncIterator[JobView]:
        async def turn(before: JobPlace | None) -> JobPage:
            return await self.list_dead(query, before=before, limit=page)

        return each_job(turn)

    async def group_dead(
        self, query: JobQuery = ANY, *, offset: int = 0, limit: int = PAGE, min_seq: int = 0
    ) -> DeadGroups:
        """What dead jobs died of, by queue and error, the most frequent first."""
        asked = {**_told(query), "offset": offset, "limit": limit, "minSeq": min_seq}
        return await self._one("Jobs.GroupDLQ", asked, DeadGroups)

    async def get(self, job: str | JobAddress, *, min_seq: int = 0) -> JobView:
        asked = {**job_fields(job), "minSeq": min_seq}
        return (await self._one("Jobs.Get", asked, OneJob)).job

    async def list_events(
        self, job: str | JobAddress, *, offset: int = 0, limit: int = PAGE, min_seq: int = 0
    ) -> Page[LogEntry]:
        """Oldest first, from the log itself."""
        asked = {**job_fields(job), "offset": offset, "limit": limit, "minSeq": min_seq}
        return await self._page("Jobs.Events", asked, _ENTRIES)

    def events(self, job: str | JobAddress, *, page: int = PAGE) -> AsyncIterator[LogEntry]:
        async def turn(offset: int) -> Page[LogEntry]:
            return await self.list_events(job, offset=offset, limit=page)

        return each(turn, lambda entry: entry.seq)

    async def secrets(self, job: str | JobAddress, *, min_seq: int = 0) -> JobSecrets:
        """Payload and result with what other answers do not show; needs a right of its own."""
        return await self._one(
            "Jobs.GetSecrets", {**job_fields(job), "minSeq": min_seq}, JobSecrets
        )

    async def explain(self, job: str | JobAddress, *, min_seq: int = 0) -> ExplanationView:
        asked = {**job_fields(job), "minSeq": min_seq}
        return await self._one("Jobs.Explain", asked, ExplanationView)

    async def cancel(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        return await self._change("Jobs.Cancel", job, reason)

    async def retry(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        """A fresh run, with all its tries, of a job that failed or died."""
        return await self._change("Jobs.Retry", job, reason)

    async def replay(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        """A fresh run of a dead job."""
        return await self._change("Jobs.ReplayDLQ", job, reason)

    async def dismiss(self, job: str | JobAddress, *, reason: str | None = None) -> ChangedJob:
        return await self._change("Jobs.DismissDLQ", job, reason)

    async def preview(self, verb: OperationVerb, query: JobQuery = ANY) -> PreviewView:
        """What operate() would change, and what it would refuse."""
        told = {**_told(query), "verb": verb.value, "dryRun": True}
        return (await self._one("Jobs.Operate", told, Operated)).preview

    async def operate(
        self,
        verb: OperationVerb,
        query: JobQuery = ANY,
        *,
        reason: str | None = None,
        rate: float | None = None,
    ) -> OperationView:
        """Start a change of every job that matches; the daemons carry it out."""
        told = {**_told(query), "verb": verb.value, "by": self._by, "reason": reason, "rate": rate}
        answer = await self._order("Jobs.Operate", told, Operated)
        if answer.operation is None:
            raise Unexpected("the answer to Jobs.Operate has no operation")
        return answer.operation

    async def get_operation(self, operation_id: str) -> OperationView:
        return (await self._one("Jobs.GetOperation", {"id": operation_id}, OneOperation)).operation

    async def stop_operation(self, operation_id: str) -> OperationView:
        """Jobs that it has changed by then stay changed."""
        told = {"id": operation_id, "by": self._by}
        return (await self._order("Jobs.StopOperation", told, OneOperation)).operation

    async def list_operations(self, *, offset: int = 0, limit: int = PAGE) -> Page[OperationView]:
        """The newest first; those that are over are known for a week."""
        asked = {"offset": offset, "limit": limit}
        return await self._page("Jobs.ListOperations", asked, _OPERATIONS)

    async def list_keys(
        self,
        *,
        service: str | None = None,
        type: str | None = None,
        offset: int = 0,
        limit: int = PAGE,
    ) -> Page[BusyKeyView]:
        """Keys that jobs hold or wait for."""
        asked = {"service": service, "type": type, "offset": offset, "limit": limit}
        return await self._page("Jobs.ListKeys", asked, _KEYS)

    def busy_keys(
        self, *, service: str | None = None, type: str | None = None, page: int = PAGE
    ) -> AsyncIterator[BusyKeyView]:
        """All are asked for before the first is told, so that what is released hides no others."""

        async def turn(offset: int) -> Page[BusyKeyView]:
            return await self.list_keys(service=service, type=type, offset=offset, limit=page)

        return each_of_all(turn, lambda key: (key.service, key.type, key.key_hash))

    async def get_key(self, service: str, type: str, key: str) -> KeyView:
        """By the key as people read it; by its hash, where several keys read the same."""
        asked = {"service": service, "type": type, "key": key}
        return await self._one("Jobs.GetKey", asked, KeyView)

    async def release_key(
        self, service: str, type: str, key: str, job_id: str, *, reason: str | None = None
    ) -> KeyView:
        """Take the slot of a job that renews it no more."""
        asked = {"service": service, "type": type, "key": key, "jobId": job_id}
        told = {**asked, "by": self._by, "reason": reason}
        return await self._order("Jobs.ReleaseKey", told, KeyView)

    async def _change(self, method: str, job: str | JobAddress, reason: str | None) -> ChangedJob:
        told = {**job_fields(job), "by": self._by, "reason": reason}
        return await self._order(method, told, ChangedJob)

    async def _order(self, method: str, told: dict[str, Any], view: type[V]) -> V:
        return _read(
            method, view.model_validate_json, await self._ask_once(method, told, self._timeout)
        )

    async def _one(self, method: str, asked: dict[str, Any], view: type[V]) -> V:
        return _read(method, view.model_validate_json, await self._ask(method, asked))

    async def _page(
        self, method: str, asked: dict[str, Any], view: TypeAdapter[Page[T]]
    ) -> Page[T]:
        async def turn(offset: int, limit: int) -> Page[T]:
            part = {**asked, "offset": offset, "limit": limit}
            return _read(method, view.validate_json, await self._ask(method, part))

        return await filled(turn, asked["offset"], asked["limit"])

    async def _jobs(self, method: str, asked: dict[str, Any]) -> JobPage:
        async def turn(before: JobPlace | None, limit: int) -> JobPage:
            at = {"offset": 0, "before": place_fields(before)} if before else {}
            return await self._one(method, {**asked, **at, "limit": limit}, JobPage)

        return await filled_with_jobs(turn, asked["limit"])

    async def _ask(self, method: str, asked: dict[str, Any]) -> bytes:
        """For reads: a daemon that took the request and died will not answer, another may."""
        patience = self._patience
        for _ in range(_ASK_TIMES):
            try:
                return await self._ask_once(method, asked, patience)
            except NotConfirmed:
                continue
        raise NoAnswer(method, _ASK_TIMES * patience, is_connected=self._connection.is_connected)

    async def _ask_once(self, method: str, asked: dict[str, Any], patience: float) -> bytes:
        body = dumps({name: value for name, value in asked.items() if value is not None})
        reply = await rpc_call(
            self._connection,
            subjects.rpc(method),
            body,
            headers={"request-id": new_id()},
            timeout=patience,
        )
        if reply.headers.get("status") == "error":
            raise refusal(reply.data)
        return reply.data


def _read(method: str, read: Callable[[bytes], T], data: bytes) -> T:
    try:
        return read(data)
    except ValidationError as error:
        raise Unexpected(f"the answer to {method} is not what it should be: {error}") from error


def _told(query: JobQuery) -> dict[str, Any]:
    return query.model_dump(mode="json", by_alias=True, exclude_none=True)
