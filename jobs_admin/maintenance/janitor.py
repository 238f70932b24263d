"""Ends jobs whose deadline has passed. A running handler is told by the event itself."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from jobs_admin.actions.guarded_append import said_of
from jobs_admin.api.errors import JobKeepsMoving
from jobs_admin.maintenance.gather_limited import abreast
from jobs_admin.reads import candidates
from jobs_admin.reads.candidates import Candidate, PageEnd
from trellis_jobs.model import events as e
from trellis_jobs.model.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from jobs_admin.actions.guarded_append import GuardedAppender
    from jobs_admin.actions.job_keys import JobKeys
    from jobs_admin.reads.readers import Readers
    from trellis_jobs.jetstream.client.server_clock import ServerClock
    from trellis_jobs.jetstream.log.event_log import Latest
    from trellis_jobs.model.identity import JobAddress

log = logging.getLogger(__name__)

PAGE: Final = 500


def plan_expiry(job: JobAddress, latest: Latest, now: datetime) -> e.Expired | None:
    """By the deadline of the run that the job is in: an operator's retry may have dropped it."""
    status = latest.head.status
    if status.is_over or status.deadline is None or status.deadline > now:
        return None
    return e.Expired(**said_of(job, latest, now), by="janitor", reason="the deadline passed")


class Janitor:
    def __init__(
        self,
        readers: Readers,
        verdicts: GuardedAppender,
        keys: JobKeys,
        clock: ServerClock,
        went_on: Callable[[], None],
    ) -> None:
        self._readers = readers
        self._verdicts = verdicts
        self._keys = keys
        self._clock = clock
        self._went_on = went_on

    async def sweep(self) -> None:
        """All that are late, page by page; any number of replicas may do so at once.

        By the server's time: our own clock may be wrong.
        """
        now, after = await self._clock.now(), PageEnd()
        while True:
            late = await candidates.overdue(self._readers, now, after=after, limit=PAGE)
            await abreast(partial(self._expire, now=now), late)
            self._went_on()
            if len(late) < PAGE:
                return
            after = late[-1].place

    async def _expire(self, late: Candidate, now: datetime) -> None:
        job = late.job
        try:
            ended = await self._verdicts.append(
                job, late.seen, lambda latest: plan_expiry(job, latest, now)
            )
        except JobKeepsMoving as busy:
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
