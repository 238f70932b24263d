"""Change jobs given by id: one request per job, with limited concurrency and rate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import RequestFailed
from jobs_admin.cli.bulk.result import BulkResult, not_done
from jobs_admin.cli.bulk.targets import Named
from jobs_admin.cli.bulk.verbs import Verb
from jobs_admin.operations.pace import Pace
from trellis_jobs.errors import JobsError, NotConfirmed
from trellis_jobs.model.identity import JobAddress

# Half of the requests that an admin runtime handles at once, to leave room for other clients.
MAX_CONCURRENCY: Final = 32


@dataclass(frozen=True, slots=True)
class BulkRunner:
    """`result` is updated after each job. Once `stop` is set, only running requests finish."""

    admin: AdminClient
    verb: Verb
    reason: str | None
    pace: Pace
    result: BulkResult
    on_progress: Callable[[], None]
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, named: Named) -> None:
        self.on_progress()
        slots = asyncio.Semaphore(MAX_CONCURRENCY)
        async with asyncio.TaskGroup() as requests:
            for job in named.jobs:
                await self.pace.wait_for_next(self.stop)
                await slots.acquire()
                if self.stop.is_set():
                    return
                request = requests.create_task(self._change(job))
                request.add_done_callback(lambda _: slots.release())

    async def _change(self, job: str | JobAddress) -> None:
        """Never repeats a request: one that got no reply may have been carried out."""
        try:
            await self.verb.change(self.admin, job, reason=self.reason)
        except RequestFailed as error:
            self.result.not_done.append(not_done(job, error))
        except NotConfirmed as error:
            self.result.not_done.append(not_done(job, error))
            await self._check_admin()
        except JobsError as error:
            self._stop_after(error)
        else:
            self.result.done += 1
        self.on_progress()

    async def _check_admin(self) -> None:
        """Continue if another admin runtime answers, although one may have died."""
        try:
            await self.admin.health()
        except JobsError as error:
            self._stop_after(error)

    def _stop_after(self, error: JobsError) -> None:
        if self.result.outage is None:
            self.result.outage, self.result.stopped = error, str(error)
        self.stop.set()
