"""Change each of the jobs that were named: so many at once, no faster than asked, until a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from jobs_admin.api.client import AdminClient
from jobs_admin.api.errors import RequestFailed
from jobs_admin.cli.bulk.result import Tally, refusal_of
from jobs_admin.cli.bulk.targets import Named
from jobs_admin.cli.bulk.verbs import Verb
from jobs_admin.operations.pace import Pace
from trellis_jobs.errors import JobsError, NotConfirmed
from trellis_jobs.model.identity import JobAddress

# Half of what an admin runtime answers at once, so that others are answered too.
AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class Sweep:
    """`tally` is right at any moment; once `stop` is set, what is under way is finished."""

    admin: AdminClient
    verb: Verb
    reason: str | None
    pace: Pace
    tally: Tally
    moved: Callable[[], None]
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, named: Named) -> None:
        self.moved()
        free = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as under_way:
            for job in named.jobs:
                await self.pace.turn(self.stop)
                await free.acquire()
                if self.stop.is_set():
                    return
                change = under_way.create_task(self._change(job))
                change.add_done_callback(lambda _: free.release())

    async def _change(self, job: str | JobAddress) -> None:
        """A change is never sent twice: whether an unanswered one was carried out, nobody knows."""
        try:
            await self.verb.change(self.admin, job, self.reason)
        except RequestFailed as error:
            self.tally.not_done.append(refusal_of(job, error))
        except NotConfirmed as error:
            self.tally.not_done.append(refusal_of(job, error))
            await self._look_for_another()
        except JobsError as error:
            self._break_off(error)
        else:
            self.tally.done += 1
        self.moved()

    async def _look_for_another(self) -> None:
        """An admin runtime that died is no reason to stop while another answers."""
        try:
            await self.admin.health()
        except JobsError as error:
            self._break_off(error)

    def _break_off(self, error: JobsError) -> None:
        if self.tally.outage is None:
            self.tally.outage, self.tally.stopped = error, str(error)
        self.stop.set()
