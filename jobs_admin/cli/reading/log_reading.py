"""What is asked of the log itself, past any admin runtime; and its messages, read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager

import orjson

from jobs_admin.api.errors import Invalid
from jobs_admin.api.views.jobs import JobSecrets, LogEntry
from jobs_admin.explain.to_json import log_json
from trellis_jobs.errors import JobNotFound, WaitTimeout
from trellis_jobs.jetstream.client.connection import Connection
from trellis_jobs.jetstream.log.feed import LogMessage
from trellis_jobs.jetstream.log.history import Histories
from trellis_jobs.jetstream.log.job_lookup import jobs_with_id
from trellis_jobs.model import subjects
from trellis_jobs.model.identity import JobAddress
from trellis_jobs.model.job import Entry, Job, fold
from trellis_jobs.model.timeline import LogRecord, TimelineEntry, apply
from trellis_jobs.wire import log as wire
from trellis_jobs.wire.events import Undecodable

NOT_TOLD = "too large for an answer of the admin runtime; only the log has it"


async def address_in_log(connection: Connection, job: str | JobAddress) -> JobAddress:
    """Raises JobNotFound, or Invalid where several queues have a job with this id."""
    job_id = job.job_id if isinstance(job, JobAddress) else job
    meant = [each for each in await jobs_with_id(connection, job_id) if job in (each, job_id)]
    if not meant:
        raise JobNotFound(job_id)
    if len(meant) > 1:
        them = " or ".join(f"{each.service}/{each.job_type}/{job_id}" for each in meant)
        raise Invalid(f"several queues have a job {job_id}: say {them}")
    return meant[0]


async def entries_in_log(connection: Connection, job: str | JobAddress) -> list[LogEntry]:
    """As Jobs.Events tells them."""
    address = await address_in_log(connection, job)
    stored = await Histories(connection).messages(address)
    if not stored:
        raise JobNotFound(address.job_id)
    return [LogEntry.model_validate(told) for told in log_json(stored)]


async def secrets_in_log(connection: Connection, job: str | JobAddress) -> JobSecrets:
    """As Jobs.GetSecrets tells them."""
    address = await address_in_log(connection, job)
    found = fold((await Histories(connection).history_slice(address)).entries)
    if found is None:
        raise JobNotFound(address.job_id)
    return JobSecrets(
        id=found.id,
        service=address.service,
        type=address.job_type,
        payload=found.payload,
        result=found.result,
    )


async def following(
    connection: Connection, job: str | JobAddress
) -> AsyncGenerator[tuple[TimelineEntry, bool], None]:
    """Each message of the job's log with what it did, as they come; True: none follows so far."""
    address = await address_in_log(connection, job)
    known = None
    messages = Histories(connection).follow_messages(subjects.history(address))
    async with aclosing(messages):
        async for message in messages:
            told = apply(known, recorded_message(message))
            known = told.job
            yield told, message.pending == 0


async def until_over(
    connection: Connection, job: str | JobAddress, tell: Callable[[TimelineEntry], object]
) -> Job:
    """As the log has it at its end; `tell` hears of each message."""
    async with aclosing(following(connection, job)) as news:
        async for told, is_newest in news:
            tell(told)
            if is_newest and told.job is not None and told.job.is_over:
                return told.job
    raise AssertionError("a job's log is followed without end")


@asynccontextmanager
async def no_longer_than(timeout: float | None, job: str | JobAddress) -> AsyncIterator[None]:
    """Raises WaitTimeout."""
    try:
        async with asyncio.timeout(timeout):
            yield
    except TimeoutError:
        job_id = job if isinstance(job, str) else job.job_id
        raise WaitTimeout(job_id, timeout or 0) from None


def recorded(entries: Sequence[LogEntry]) -> list[LogRecord]:
    return [_recorded(entry) for entry in entries]


def recorded_message(message: LogMessage) -> LogRecord:
    read = wire.read(message.subject, message.sequence, message.data, message.headers)
    return LogRecord(message.sequence, message.stored_at, _event_or_why(read))


def _recorded(entry: LogEntry) -> LogRecord:
    """What the admin runtime took for an event is one: read again, it is the same."""
    if entry.event is None:
        return LogRecord(entry.seq, entry.stored_at, entry.undecodable or NOT_TOLD)
    read = wire.read(entry.subject, entry.seq, orjson.dumps(entry.event), None)
    return LogRecord(entry.seq, entry.stored_at, _event_or_why(read))


def _event_or_why(read: object) -> Entry | str:
    match read:
        case Entry():
            return read
        case Undecodable(reason=reason):
            return reason
        case _:
            return "a worker's heartbeat, and no event of a job"
