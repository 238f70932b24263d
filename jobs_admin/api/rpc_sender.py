"""Sends the requests of the table of RPCs, and reads their replies and pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack

from pydantic import BaseModel, ValidationError

from jobs_admin.api.client_errors import error_from
from jobs_admin.api.errors import Unexpected
from jobs_admin.api.paging import full_job_page, full_page, iterate_jobs
from jobs_admin.api.request_fields import filter_fields, request_body
from jobs_admin.api.views.base import Page
from trellis_jobs.environment import new_id
from trellis_jobs.errors import NoAnswer, NotConfirmed
from trellis_jobs.jetstream.client.rpc import rpc_call
from trellis_jobs.model import subjects
from trellis_jobs.model.states import JobState
from trellis_jobs.wire.headers import KNOWN_STATES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from jobs_admin.api.contract import Rpc
    from jobs_admin.api.job_filter import JobFilter
    from jobs_admin.api.views.jobs import JobCursor, JobPage, JobView
    from trellis_jobs.jetstream.client.connection import Connection

T = TypeVar("T")
V = TypeVar("V", bound=BaseModel)
P = TypeVar("P", bound=Page[Any])

PAGE_SIZE: Final = 100
_READ_ATTEMPTS: Final = 2


class PageArguments(TypedDict, total=False):
    """`min_seq`: wait until the projection has reached this log sequence."""

    offset: int
    limit: int
    min_seq: int


class JobPageArguments(PageArguments, total=False):
    """`before`: the page begins after this cursor (`page.next_before`), instead of an offset."""

    before: JobCursor | None


@dataclass(frozen=True, slots=True)
class RpcSender:
    """`by` is recorded in every change. `read_timeout` is that of each attempt of a read.

    `request_id` is sent with every request; without it, each gets another one.
    """

    connection: Connection
    by: str | None
    timeout: float
    read_timeout: float
    request_id: str | None = None

    def pages(
        self, rpc: Rpc[Any, Page[T]], limit: int, **fields: Any
    ) -> Callable[[int], Awaitable[Page[T]]]:
        return lambda offset: self.page(rpc, offset=offset, limit=limit, **fields)

    async def page(
        self, rpc: Rpc[Any, P], *, offset: int = 0, limit: int = PAGE_SIZE, **fields: Any
    ) -> P:
        async def fetch(offset: int, limit: int) -> P:
            return await self.ask(rpc, **fields, offset=offset, limit=limit)

        return await full_page(fetch, offset, limit)

    async def job_page(
        self, rpc: Rpc[Any, JobPage], query: JobFilter, **page: Unpack[JobPageArguments]
    ) -> JobPage:
        fields = {**filter_fields(query), **page}

        async def fetch(before: JobCursor | None, limit: int) -> JobPage:
            part = {"offset": 0, "before": before} if before else {}
            return await self.ask(rpc, **{**fields, **part, "limit": limit})

        return await full_job_page(fetch, page.get("limit", PAGE_SIZE))

    def each_job(
        self, rpc: Rpc[Any, JobPage], query: JobFilter, limit: int
    ) -> AsyncIterator[JobView]:
        return iterate_jobs(lambda before: self.job_page(rpc, query, before=before, limit=limit))

    async def ask(self, rpc: Rpc[Any, V], **fields: Any) -> V:
        """Send a request; the table says whether it is a change, which is sent only once."""
        if not rpc.is_change:
            return await self.read(rpc, fields)
        return await self._request(rpc, {**fields, "by": self.by}, self.timeout)

    async def read(self, rpc: Rpc[Any, V], fields: dict[str, Any]) -> V:
        """Send a read, and send it again if the daemon that received it may have died."""
        read_timeout = self.read_timeout
        for _ in range(_READ_ATTEMPTS):
            try:
                return await self._request(rpc, fields, read_timeout)
            except NotConfirmed:
                continue
        raise NoAnswer(
            rpc.name, _READ_ATTEMPTS * read_timeout, is_connected=self.connection.is_connected
        )

    async def _request(self, rpc: Rpc[Any, V], fields: dict[str, Any], within: float) -> V:
        reply = await rpc_call(
            self.connection,
            subjects.rpc(rpc.name),
            request_body(fields),
            headers={
                "request-id": self.request_id or new_id(),
                KNOWN_STATES: JobState.SCHEDULED.value,
            },
            timeout=within,
        )
        if reply.headers.get("status") == "error":
            raise error_from(reply.data)
        try:
            return rpc.output.model_validate_json(reply.data)
        except ValidationError as error:
            raise Unexpected(f"the reply to {rpc.name} is not valid: {error}") from error
