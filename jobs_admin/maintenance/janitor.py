"""Expires jobs whose deadline has passed. The worker of a running job sees the event."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from jobs_admin.api.errors import JobContention
from jobs_admin.gather_limited import gather_limited
from jobs_admin.reads import candidates
from jobs_admin.reads.candidates import Candidate, PageEnd
from trellis_jobs.jetstream.log.expiry import plan_expiry
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from jobs_admin.actions.guarded_append import GuardedAppender
    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.reads.readers import Readers
    from trellis_jobs.jetstream.client.server_clock import ServerClock

log = logging.getLogger(__name__)

PAGE_SIZE: Final = 500


class Janitor:
    def __init__(
        self,
        readers: Readers,
        appender: GuardedAppender,
        keys: JobKeys,
        clock: ServerClock,
        report_progress: Callable[[], None],
    ) -> None:
        self._readers = readers
        self._appender = appender
        self._keys = keys
        self._clock = clock
        self._went_on = report_progress

    async def sweep(self) -> None:
        """Expire all overdue jobs, page by page; any number of replicas may do so at once.

        This uses the server's time, because the clock of this machine may be wrong.
        """
        now, after = await self._clock.now(), PageEnd()
        while True:
            late = await candidates.overdue(self._readers, now, after=after, limit=PAGE_SIZE)
            await gather_limited(partial(self._expire, now=now), late)
            self._went_on()
            if len(late) < PAGE_SIZE:
                return
            after = late[-1].page_end

    async def _expire(self, late: Candidate, now: datetime) -> None:
        job = late.job
        try:
            ended = await self._appender.append(
                job, late.seen, lambda latest: plan_expiry(job, latest, now)
            )
        except JobContention as busy:
            log.warning(
                "job %s is past its deadline but could not be expired yet: %s",
                job.job_id,
                busy,
                extra={"job": job.job_id, "why": str(busy)},
            )
            return
        if ended is None:
            return
        log.info(
            "job %s of %s/%s expired: its deadline passed",
            job.job_id,
            job.service,
            job.job_type,
            extra={"job": job.job_id},
        )
        if ended.before.head.status.state is not JobState.ACTIVE:
            await self._keys.withdraw(job, late.concurrency)
