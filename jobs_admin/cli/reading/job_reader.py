"""Reads that the admin runtime answers, or the log itself where no admin runtime does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import Unexpected
from jobs_admin.api.views.jobs import ExplanationView, JobSecrets, JobView, LogEntry
from jobs_admin.cli.connection import AdminConnectionOptions
from jobs_admin.cli.exit_codes import as_sentence
from jobs_admin.cli.reading.folded_job import view_of
from jobs_admin.cli.reading.log_reading import entries_in_log, recorded, secrets_in_log
from jobs_admin.cli.render.output import say
from trellis_jobs.errors import JobNotFound, JobsError, NotConfirmed, NotPermitted, ServiceMissing
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.timeline import replay

T = TypeVar("T")

# It does not run, it does not answer, or its projection is not there yet.
_NO_ANSWER: Final = (ServiceMissing, NotConfirmed, Unexpected)


class JobReader:
    """`admin` is None once it turned out that none answers; that is said once."""

    def __init__(self, connection: Connection, admin: AdminClient) -> None:
        self.connection = connection
        self.admin: AdminClient | None = admin

    async def job(self, job: str | JobAddress) -> JobView:
        async def in_log() -> JobView:
            return folded(await entries_in_log(self.connection, job), job)

        return await self._ask(lambda admin: admin.get(job), in_log)

    async def secrets(self, job: str | JobAddress) -> JobSecrets:
        """What other answers do not show."""

        async def in_log() -> JobSecrets:
            return await secrets_in_log(self.connection, job)

        return await self._ask(lambda admin: admin.secrets(job), in_log)

    async def explanation(self, job: JobView) -> ExplanationView | None:
        """A job without it is still worth reading; the log alone does not tell it."""
        if self.admin is None:
            return None
        try:
            return await self.admin.explain(JobAddress(job.service, job.type, job.id))
        except JobsError:
            return None

    async def entries(self, job: str | JobAddress) -> list[LogEntry]:
        """The whole log of a job; what is too large for an answer is read from the log itself."""

        async def of_admin(admin: AdminClient) -> list[LogEntry]:
            return [entry async for entry in admin.events(job)]

        async def in_log() -> list[LogEntry]:
            return await entries_in_log(self.connection, job)

        told = await self._ask(of_admin, in_log)
        if not any(entry.omitted for entry in told):
            return told
        try:
            return await in_log()
        except NotPermitted:
            return told

    async def _ask(
        self, ask: Callable[[AdminClient], Awaitable[T]], in_log: Callable[[], Awaitable[T]]
    ) -> T:
        if self.admin is None:
            return await in_log()
        try:
            return await ask(self.admin)
        except _NO_ANSWER as error:
            try:
                found = await in_log()
            except NotPermitted:
                raise error from None
            say(f"{as_sentence(error)} The log itself was read instead.")
            self.admin = None
            return found


@asynccontextmanager
async def reading(reach: AdminConnectionOptions) -> AsyncIterator[JobReader]:
    async with reach.connection() as connection:
        yield JobReader(connection, reach.asking(connection))


def folded(entries: list[LogEntry], job: str | JobAddress) -> JobView:
    view = view_of(replay(recorded(entries)))
    if view is None:
        raise JobNotFound(job if isinstance(job, str) else job.job_id)
    return view
