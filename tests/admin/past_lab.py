"""The past, computed from the messages of a log without a projection, to compare with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime

from jobs_admin.explain.views import log_record
from jobs_admin.projection.batch import read
from trellis_jobs.jetstream.log.feed import LogFeed, LogMessage, LogPosition
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Job
from trellis_jobs.model.timeline import job_at

States = dict[tuple[str, str], dict[str, int]]


def jobs_at(messages: Iterable[LogMessage], moment: datetime) -> dict[JobAddress, Job]:
    """All jobs as of a moment."""
    by_job = read(list(messages)).events if messages else {}
    found = {
        address: job_at([log_record(message) for message, _ in events], moment)
        for address, events in by_job.items()
    }
    return {address: job for address, job in found.items() if job is not None}


def states_before(messages: Iterable[LogMessage], moment: datetime) -> States:
    """How many jobs of each queue were in which state, before what was stored from then on."""
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    earlier = [message for message in messages if message.stored_at < moment]
    for address, job in jobs_at(earlier, moment).items():
        counts[address.service, address.job_type][job.state.value] += 1
    return {queue: dict(states) for queue, states in counts.items()}


async def all_messages(feed: LogFeed) -> list[LogMessage]:
    extent = await feed.extent()
    batches = feed.up_to(LogPosition(), extent.last_sequence)
    return [message async for batch in batches for message in batch]
