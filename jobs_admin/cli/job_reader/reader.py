"""Read jobs from the admin runtime, or from the log if no admin runtime answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol, TypeVar

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Unexpected
from jobs_admin.api.views.jobs import ExplanationView, JobSecrets, JobView, LogEntry
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import as_sentence
from jobs_admin.cli.job_reader.log_entries import entries_in_log, secrets_in_log
from jobs_admin.cli.render.output import print_stderr
from jobs_admin.explain.job_view import view_of
from jobs_admin.explain.log_records import TOO_LARGE, recorded
from trellis_jobs.errors import JobNotFound, JobsError, NotConfirmed, NotPermitted, ServiceMissing
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.timeline import replay

T = TypeVar("T")


class JobSource(Protocol):
    """What commands that show a job read it from."""

    async def job(self, job: str | JobAddress) -> JobView: ...

    async def secrets(self, job: str | JobAddress) -> JobSecrets:
        """The payload and result without redaction."""

    async def explanation(self, job: JobView) -> ExplanationView | None: ...

    async def entries(self, job: str | JobAddress) -> list[LogEntry]: ...


# It is not running, does not answer in time, or its projection is not ready.
_NO_ANSWER: Final = (ServiceMissing, NotConfirmed, Unexpected)


class JobReader:
    """`admin` is None after a request got no reply; the user is informed once."""

    def __init__(self, connection: Connection, admin: AdminClient) -> None:
        self.connection = connection
        self.admin: AdminClient | None = admin

    async def job(self, job: str | JobAddress) -> JobView:
        async def from_log() -> JobView:
            return folded(await entries_in_log(self.connection, job), job)

        return await self._ask(lambda admin: admin.get(job), from_log)

    async def secrets(self, job: str | JobAddress) -> JobSecrets:
        """The payload and result without redaction."""

        async def from_log() -> JobSecrets:
            return await secrets_in_log(self.connection, job)

        return await self._ask(lambda admin: admin.secrets(job), from_log)

    async def explanation(self, job: JobView) -> ExplanationView | None:
        """Returns None without an admin runtime: the log alone does not contain it."""
        if self.admin is None:
            return None
        try:
            return await self.admin.explain(JobAddress(job.service, job.type, job.id))
        except JobsError:
            return None

    async def entries(self, job: str | JobAddress) -> list[LogEntry]:
        """All log entries of a job; entries too large for a reply are read from the log."""

        async def from_admin(admin: AdminClient) -> list[LogEntry]:
            return [entry async for entry in admin.events(job)]

        async def from_log() -> list[LogEntry]:
            return await entries_in_log(self.connection, job)

        entries = await self._ask(from_admin, from_log)
        if not any(entry.omitted for entry in entries):
            return entries
        try:
            return await from_log()
        except NotPermitted:
            _warn_about_omissions(entries)
            return entries

    async def _ask(
        self, ask: Callable[[AdminClient], Awaitable[T]], from_log: Callable[[], Awaitable[T]]
    ) -> T:
        if self.admin is None:
            return await from_log()
        try:
            return await ask(self.admin)
        except _NO_ANSWER as error:
            try:
                found = await from_log()
            except NotPermitted:
                raise error from None
            print_stderr(f"{as_sentence(error)} Reading the log instead.")
            self.admin = None
            return found


@asynccontextmanager
async def open_reader(options: AdminConnectionOptions) -> AsyncIterator[JobReader]:
    async with options.connection() as connection:
        yield JobReader(connection, options.admin_client(connection))


def folded(entries: list[LogEntry], job: str | JobAddress) -> JobView:
    view = view_of(replay(recorded(entries)))
    if view is None:
        raise JobNotFound(job if isinstance(job, str) else job.job_id)
    return view


def _warn_about_omissions(entries: list[LogEntry]) -> None:
    for entry in entries:
        for name in entry.omitted:
            whole = "Event" if name == "event" else f"The {name} of event"
            print_stderr(f"{whole} {entry.seq} is {TOO_LARGE}.")
